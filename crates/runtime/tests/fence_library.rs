//! `printf`, `malloc` and `free` of fenced kernels (`fence_library.cu`), on the
//! CPU device: the same text and the same values as without fences, and all of it
//! in the tenant's memory, whatever pointers a kernel passes.

#[path = "../../emulate/tests/common/mod.rs"]
#[allow(unused)]
mod bench;

#[path = "support/partition.rs"]
#[allow(unused)]
mod partition;

#[path = "support/random.rs"]
#[allow(unused)]
mod random;

use bench::{P, compile};
use emulate::engine::Program;
use instrument::FenceForm;
use model::layout::fence::HEADROOM;
use partition::{BASE, BLOCKS, PRINTED, Partition, SIZE, VICTIM, VICTIM_SIZE, fenced};
use random::Random;

const FORMS: [FenceForm; 2] = [FenceForm::Mask, FenceForm::Modulo];
const OUT: u64 = BASE + HEADROOM;
const WORDS: u64 = BASE + HEADROOM + (1 << 16);
const THREADS: u32 = 6;

fn source() -> String {
    let text = include_str!("fence_library.cu");
    compile("fence_library", text, "sm_90", &[])
}

fn run(
    device: &Partition,
    program: &Program,
    kernel: &str,
    words: &[u64; 4],
) -> Result<Vec<u32>, String> {
    let memory = &device.bench.memory;
    memory.fill(OUT, &[0], 4096).unwrap();
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    memory.write(WORDS, &bytes).unwrap();
    let parameters = [P::U64(OUT), P::U64(WORDS)];
    let block = [THREADS, 1, 1];
    let done = device
        .bench
        .launch(program, kernel, [1, 1, 1], block, &parameters);
    done.map_err(|fault| format!("{fault:?}"))?;
    Ok(device.bench.read_u32s(OUT, 24))
}

/// The lines of a text, in order: threads may print in any.
fn sorted(text: &str) -> Vec<String> {
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    lines.sort();
    lines
}

#[test]
fn kernels_print_what_they_always_did() {
    let device = Partition::new();
    let source = source();
    let native = device.bench.link(&[&source]);
    for form in FORMS {
        let fenced = fenced(&source, form);
        let loaded = device.load(&fenced, form).expect("it loads");
        for words in [[3, 4096, 2, 0], [0, 0, 5, 2], [u64::MAX, u64::MAX, 9, 0]] {
            let expected = run(&device, &native, "prints", &words).unwrap();
            let text = device.bench.output();
            device.reset_common();
            let done = run(&device, &loaded.program, "prints", &words);
            assert_eq!(done, Ok(expected));
            assert_eq!(device.bench.output(), "", "the driver printed");
            assert_eq!(sorted(&device.printed()), sorted(&text));
            assert!(
                text.contains("no arguments") && text.contains("ab "),
                "{text}"
            );
        }
    }
}

#[test]
fn a_full_buffer_drops_what_comes_and_counts_it() {
    let device = Partition::new();
    let fenced = fenced(&source(), FenceForm::Mask);
    let loaded = device.load(&fenced, FenceForm::Mask).expect("it loads");
    device.reset_common();
    for _ in 0..100 {
        run(&device, &loaded.program, "prints", &[3, 1, 2, 0]).unwrap();
    }
    let lost = device.bench.read_u64s(PRINTED + 24, 1)[0];
    let lines = device.printed().lines().count() as u64;
    assert_eq!(lines + lost, 100 * u64::from(2 * THREADS + 1));
    assert!(lost > 0 && lines > 100, "{lines} lines, {lost} lost");
}

#[test]
fn blocks_of_a_heap_hold_what_threads_store() {
    let device = Partition::new();
    let source = source();
    let native = device.bench.link(&[&source]);
    for form in FORMS {
        let fenced = fenced(&source, form);
        let loaded = device.load(&fenced, form).expect("it loads");
        device.reset_common();
        // Often enough that nothing would be left if frees gave nothing back.
        for round in 0..60 {
            let words = [round % 16, 0, 0, 0];
            let expected = run(&device, &native, "allocates", &words).unwrap();
            let done = run(&device, &loaded.program, "allocates", &words).unwrap();
            assert_eq!(done, expected, "round {round}");
            assert_eq!(done[8], round as u32 % 16 + 1);
        }
    }
}

#[test]
fn what_a_kernel_does_to_printing_and_heap_stays_in_its_partition() {
    let device = Partition::new();
    let source = source();
    let native = device.bench.link(&[&source]);
    let mut random = Random(0x9e4d_f001);
    let (mut stopped, mut harmed, mut launches) = (0, 0, 0);
    for form in FORMS {
        let fenced = fenced(&source, form);
        let loaded = device.load(&fenced, form).expect("it loads");
        for kernel in ["forges", "misuses"] {
            for _ in 0..80 {
                let mut words = [0; 4];
                for word in &mut words {
                    let noise = random.next();
                    *word = match random.below(8) {
                        0 => noise,
                        1 | 2 => VICTIM + 8 * (noise % (VICTIM_SIZE / 8)),
                        3 => PRINTED + 8 * (noise % 4),
                        4 => BLOCKS + 8 * (noise % 40),
                        5 => noise % 4096,
                        6 => BASE + noise % SIZE,
                        _ => 0x5246_4845_4150_0005,
                    };
                }
                device.reset_victim();
                device.reset_common();
                device.place(&fenced, &loaded);
                let done = run(&device, &loaded.program, kernel, &words);
                assert!(done.is_ok(), "{kernel} {words:x?} {done:?}");
                assert!(device.victim_is_unharmed(), "{kernel} {words:x?}");
                // Whatever is there, it is read within its bounds.
                assert!(device.printed().len() <= 1 << 24);
                launches += 1;
                stopped += u32::from(run(&device, &native, kernel, &words).is_err());
                harmed += u32::from(!device.victim_is_unharmed());
            }
        }
    }
    println!(
        "{launches} launches; without fences {stopped} stopped the device, {harmed} harmed the other tenant"
    );
    assert!(stopped > launches / 2 && harmed > launches / 20);
}
