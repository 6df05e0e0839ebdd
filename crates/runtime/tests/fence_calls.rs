//! Fenced kernels that call functions, pass pointers into their frames, call
//! through pointers, and read tables of addresses (`fence_calls.cu`), on the CPU
//! device: they compute what they always did; whatever a launch asks of them,
//! none leaves the partition, and none stops the device.

#[path = "../../emulate/tests/common/mod.rs"]
#[allow(unused)]
mod bench;

#[path = "support/partition.rs"]
#[allow(unused)]
mod partition;

#[path = "support/random.rs"]
mod random;

use bench::{P, compile};
use instrument::{FenceForm, Fenced};
use model::layout::fence::{HEADROOM, retired};
use partition::{BASE, Loaded, Partition, SIZE, VICTIM, VICTIM_SIZE, fenced};
use random::Random;

const FORMS: [FenceForm; 2] = [FenceForm::Mask, FenceForm::Modulo];
const OUT: u64 = BASE + HEADROOM;
const OUT_SIZE: u64 = 4096;
const WORDS: u64 = BASE + HEADROOM + (1 << 16);
/// Threads of a launch.
const THREADS: u32 = 4;

/// The kernels, optimized or not, as the pinned compiler translates them.
fn source(is_optimized: bool) -> String {
    let flags: &[&str] = if is_optimized { &[] } else { &["-G"] };
    compile(
        "fence_calls",
        include_str!("fence_calls.cu"),
        "sm_90",
        flags,
    )
}

/// Runs a kernel; what it wrote.
fn run(
    device: &Partition,
    program: &emulate::engine::Program,
    kernel: &str,
    words: &[u64; 4],
) -> Result<Vec<u8>, String> {
    let memory = &device.bench.memory;
    memory.fill(OUT, &[0], OUT_SIZE).unwrap();
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    memory.write(WORDS, &bytes).unwrap();
    memory.fill(BASE, &[0], 64).unwrap();
    let parameters = [P::U64(OUT), P::U64(WORDS)];
    let threads = if kernel == "virtuals" { THREADS } else { 1 };
    let block = [threads, 1, 1];
    let done = device
        .bench
        .launch(program, kernel, [1, 1, 1], block, &parameters);
    done.map_err(|fault| format!("{fault:?}"))?;
    let mut out = vec![0; OUT_SIZE as usize];
    memory.read(OUT, &mut out).unwrap();
    Ok(out)
}

/// Words with which a kernel stays inside of its objects.
fn tame(random: &mut Random, kernel: &str) -> [u64; 4] {
    let most: [u64; 4] = match kernel {
        "tables" => [4, 2, 2, 40],
        "frames" => [12, 4, 16, 12],
        _ => [3, 2, 1, 1],
    };
    most.map(|most| random.below(most))
}

/// Words that lead anywhere.
fn wild(random: &mut Random, kernel: &str) -> [u64; 4] {
    let mut words = tame(random, kernel);
    for word in &mut words {
        let noise = random.next();
        *word = match random.below(9) {
            0 => noise,
            1 => VICTIM + noise % VICTIM_SIZE,
            // As an index of integers, from the buffer.
            2 | 3 => (VICTIM + noise % VICTIM_SIZE).wrapping_sub(OUT) / 4,
            4 => 0u64.wrapping_sub(noise % 256),
            5 => noise % 256,
            6 => BASE + SIZE - noise % 64,
            7 => 16 * (noise % 16),
            _ => *word,
        };
    }
    words
}

const KERNELS: [&str; 3] = ["tables", "frames", "virtuals"];

#[test]
fn calls_and_tables_compute_the_same_and_leave_others_alone() {
    let device = Partition::new();
    let mut random = Random(0xca11_ab1e);
    let (mut stopped, mut harmed, mut launches) = (0, 0, 0);
    for is_optimized in [true, false] {
        let source = source(is_optimized);
        for form in FORMS {
            let fenced = fenced(&source, form);
            let loaded = device.load(&fenced, form).expect("it loads");
            for kernel in KERNELS {
                let mut native = device.bench.link(&[&source]);
                for _ in 0..10 {
                    let words = tame(&mut random, kernel);
                    if kernel == "tables" {
                        // What it did to its variables is not undone.
                        native = device.bench.link(&[&source]);
                    }
                    let expected = run(&device, &native, kernel, &words);
                    device.place(&fenced, &loaded);
                    let done = run(&device, &loaded.program, kernel, &words);
                    assert!(expected.is_ok(), "{kernel} {words:x?} {expected:?}");
                    assert_eq!(done, expected, "{kernel} {words:x?}\n{}", fenced.text);
                }
                // (Without optimization, counters of loops are in memory, and an
                // access that was forced into the frames may change them.)
                device.reset_victim();
                for _ in 0..if is_optimized { 100 } else { 0 } {
                    let words = wild(&mut random, kernel);
                    device.place(&fenced, &loaded);
                    let done = run(&device, &loaded.program, kernel, &words);
                    assert!(
                        done.is_ok(),
                        "{kernel} {words:x?} {done:?}\n{}",
                        fenced.text
                    );
                    launches += 1;
                }
                assert!(device.victim_is_unharmed(), "{kernel}\n{}", fenced.text);
            }
        }
        for kernel in KERNELS {
            let native = device.bench.link(&[&source]);
            for _ in 0..if is_optimized { 200 } else { 0 } {
                let words = wild(&mut random, kernel);
                device.reset_victim();
                stopped += u32::from(run(&device, &native, kernel, &words).is_err());
                harmed += u32::from(!device.victim_is_unharmed());
            }
        }
    }
    println!(
        "{launches} launches; without fences {stopped} stopped the device, {harmed} harmed the other tenant"
    );
    assert!(stopped > launches / 20 && harmed > launches / 50);
}

/// A thread that calls what is no function is counted and retired, the others go
/// on.
#[test]
fn a_forged_function_ends_its_thread_alone() {
    let device = Partition::new();
    let source = source(true);
    for form in FORMS {
        let fenced = fenced(&source, form);
        let loaded = device.load(&fenced, form).expect("it loads");
        for forged in [VICTIM, 8, 17, 1 << 40, i64::MAX as u64] {
            let done = run(&device, &loaded.program, "virtuals", &[0, 0, forged, 0]);
            let out = done.expect("it runs");
            assert!(out.iter().all(|byte| *byte == 0), "{forged:#x}");
            let traps = device.bench.read_u64s(BASE + u64::from(retired::TRAPS), 1)[0];
            assert_eq!(traps, u64::from(THREADS), "{forged:#x}");
        }
    }
}

/// Addresses in initializers are those of the partition; the module's text has
/// none, so the driver's own are nowhere.
#[test]
fn tables_hold_addresses_of_the_partition() {
    let device = Partition::new();
    let source = ".version 8.0\n.target sm_90\n.address_size 64\n\
        .visible .global .align 8 .u64 p[2][2] = {{generic(q)+4, 7}, {q}};\n\
        .weak .global .align 4 .b8 q[16] = {1, 2, 3, 4};\n\
        .global .align 8 .b8 bytes[10] = {9, 0xFF(generic(q)+2), 0xFF00(generic(q)+2), 0xFF0000(generic(q)+2), 0xFF000000(generic(q)+2), \
         0xFF00000000(generic(q)+2), 0xFF0000000000(generic(q)+2), 0xFF000000000000(generic(q)+2), 0xFF00000000000000(generic(q)+2), 8};\n\
        .const .align 8 .u64 c[2] = {bytes, 0};\n\
        .visible .entry k(.param .u64 out) { .reg .b64 %rd<4>; .reg .b32 %r<2>;\n\
        ld.param.u64 %rd1, [out];\n\
        ld.global.u64 %rd2, [p]; st.global.u64 [%rd1], %rd2;\n\
        ld.global.u64 %rd2, [p+8]; st.global.u64 [%rd1+8], %rd2;\n\
        ld.global.u64 %rd2, [p+16]; st.global.u64 [%rd1+16], %rd2;\n\
        ld.const.u64 %rd2, [c]; st.global.u64 [%rd1+24], %rd2;\n\
        mov.u32 %r1, 0;\nL: cvt.u64.u32 %rd3, %r1; add.s64 %rd3, %rd2, %rd3; ld.u8 %rd3, [%rd3];\n\
        st.global.u8 [%rd1+32], %rd3; add.s64 %rd1, %rd1, 1; add.s32 %r1, %r1, 1;\n\
        { .reg .pred %p; setp.lt.u32 %p, %r1, 10; @%p bra L; }\n\
        ret; }\n";
    for form in FORMS {
        let fenced = fenced(source, form);
        assert!(!fenced.text.contains("generic"), "{}", fenced.text);
        let loaded = device.load(&fenced, form).expect("it loads");
        let out = run(&device, &loaded.program, "k", &[0; 4]).unwrap();
        let word = |at: usize| u64::from_le_bytes(out[at..at + 8].try_into().unwrap());
        let [_, q, bytes] = loaded.places[..] else {
            panic!("{:?}", loaded.places)
        };
        assert_eq!([word(0), word(8), word(16), word(24)], [q + 4, 7, q, bytes]);
        assert_eq!((out[32], word(33), out[41]), (9, q + 2, 8));
    }
}

/// Changes a line that has to do with frames or fences.
fn mutant(random: &mut Random, text: &str) -> String {
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    let own: Vec<usize> = (0..lines.len())
        .filter(|at| lines[*at].contains("%__rf_") || lines[*at].contains("__ringfence_frames"))
        .collect();
    let at = random.of(&own);
    let line = lines[at].clone();
    match random.below(5) {
        0 => lines[at] = String::new(),
        1 => lines[at] = format!("{line}\n{line}"),
        2 => lines[at] = format!("M{at}:\n{line}"),
        3 => {
            let names = [
                "%__rf_stack",
                "%__rf_frame",
                "%__rf_next",
                "%__rf_object0",
                "__ringfence_frames",
                "%__rf_a0",
                "%__rf_t",
                "%__rf_u",
                "%__rf_f",
                "%SP",
                "%SPL",
                "%rd1",
            ];
            let old = random.of(&names);
            lines[at] = line.replacen(old, random.of(&names), 1);
        }
        _ => {
            let pairs = [
                ("min.u64", "max.u64"),
                ("add.s64", "sub.s64"),
                ("mov.u64 %__rf_stack", "add.s64 %__rf_stack, %__rf_next"),
                ("__ringfence_frames[", "__ringfence_frames[1"),
                ("call", "@!%__rf_p call"),
                (".reg .b64 %__rf_stack, ", ""),
                ("%__rf_stack, %__rf_next", "%__rf_next, %__rf_stack"),
                ("%__rf_stack, %__rf_next", "0, %__rf_next"),
                ("64;", "4096;"),
            ];
            let (old, new) = random.of(&pairs);
            lines[at] = line.replacen(old, new, 1);
        }
    }
    lines.join("\n")
}

#[test]
fn accepted_mutants_of_calls_are_contained() {
    let device = Partition::new();
    let mut random = Random(0x5eed_ca11);
    let source = source(true);
    let (mut refused, mut accepted) = (0, 0);
    for form in FORMS {
        let fenced = fenced(&source, form);
        for _ in 0..150 {
            let text = mutant(&mut random, &fenced.text);
            if text.split_whitespace().eq(fenced.text.split_whitespace()) {
                continue;
            }
            if instrument::verify_contained(&text).is_err() {
                refused += 1;
                continue;
            }
            let mutated = Fenced {
                text,
                ..fenced.clone()
            };
            let Some(loaded) = device.load(&mutated, form) else {
                // Names and types are the compiler's to check.
                continue;
            };
            accepted += 1;
            attack(&device, &mutated, &loaded, &mut random);
        }
    }
    println!("{refused} mutants refused, {accepted} accepted and contained");
    assert!(refused > 60 && accepted > 30);
}

fn attack(device: &Partition, fenced: &Fenced, loaded: &Loaded, random: &mut Random) {
    device.reset_victim();
    for _ in 0..6 {
        let kernel = random.of(&KERNELS);
        let words = wild(random, kernel);
        device.place(fenced, loaded);
        let done = run(device, &loaded.program, kernel, &words);
        let is_contained = done.is_ok() && device.victim_is_unharmed();
        assert!(
            is_contained,
            "{kernel} {words:x?} {:?}\n{}",
            done.err(),
            fenced.text
        );
    }
}
