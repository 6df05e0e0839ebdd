//! Fenced kernels on the CPU device: with addresses that they may use, they
//! compute what they always did; with any others, none leaves the partition, and
//! none stops the device. The same kernels without fences do both.

#[path = "../../emulate/tests/common/mod.rs"]
#[allow(unused)]
mod bench;

#[path = "support/random.rs"]
mod random;

use bench::{Bench, P};
use emulate::engine::{FaultKind, Program};
use emulate::mapping::GRANULE;
use instrument::{FenceForm, Fenced, fence, verify_contained};
use model::layout::fence::{FenceTable, HEADROOM, MARGIN, UNIT, VARIABLE, retired};
use random::Random;
use std::fmt::Write;
use std::sync::{Mutex, MutexGuard, PoisonError};

const BASE: u64 = 0x3000_0000_0000;
const SIZE: u64 = UNIT;
/// Another tenant.
const VICTIM: u64 = 0x3100_0000_0000;
const VICTIM_SIZE: u64 = 4 << 20;
/// The words that end the tenant's kernels.
const STOP: u64 = 0x3200_0000_0000;
/// The tenant's buffers.
const BUFFERS: [u64; 2] = [BASE + HEADROOM, BASE + SIZE - HEADROOM - BUFFER];
const BUFFER: u64 = 4096;
/// Where the variables of a module are placed.
const VARIABLES: u64 = BASE + HEADROOM + (1 << 20);
/// Further than the headroom, so that a constant in an address is too large.
const FAR: i64 = 3 * HEADROOM as i64 / 2;

/// Registers of a kernel that hold offsets.
const OFFSETS: u64 = 4;

/// Pointers that are fenced where they are loaded, and where they step through a
/// loop: instructions, and a space and an address of one of them.
fn pointers(
    random: &mut Random,
    number: u32,
    offset: &str,
    constant: i64,
) -> (String, &'static str, String) {
    let (parameter, step) = (random.of(&["a", "b"]), random.of(&[16, 32, 64]));
    let scale = random.of(&["mul.wide.s32", "mul.wide.u32"]);
    let pointer = format!("%q{number}");
    let place = format!(
        "ld.param.u64 {pointer}, [{parameter}];\ncvt.u32.u64 %s, {offset};\n\
         {scale} %o{number}, %s, 4;\nadd.s64 %d{number}, {pointer}, %o{number};\n\
         mov.u32 %u, 0;\nmov.u64 %l{number}, {pointer};\nP{number}:\n\
         ld.global.u32 %s, [%l{number}+{constant}];\nadd.s32 %r1, %r1, %s;\n\
         add.s64 %l{number}, %l{number}, {step};\nadd.s32 %u, %u, 1;\n\
         st.global.u32 [%l{number}], %r1;\n\
         setp.lt.u32 %odd, %u, 5;\n@%odd bra P{number};"
    );
    let space = random.of(&[".global", ""]);
    (place, space, format!("[%d{number}+{constant}]"))
}

/// A kernel of accesses in all spaces, whose addresses are sums of pointers and
/// of offsets that the launch decides.
fn kernel(random: &mut Random, statements: u32) -> String {
    let mut body = String::new();
    for number in 0..statements {
        let guard = random.of(&["", "", "", "@%odd ", "@!%odd "]);
        let offset = format!("%rd{}", 3 + random.below(OFFSETS));
        let constant = 16 * random.below(8) as i64;
        let (place, space, address) = match random.below(11) {
            // By a parameter, in global memory; by its type or not.
            0..=2 => {
                let pointer = random.of(&["%rd1", "%rd2"]);
                let space = random.of(&[".global", "", ".global"]);
                let far = random.of(&[0, 0, FAR, -FAR]);
                let place = format!("add.s64 %t, {pointer}, {offset}; add.s64 %t, %t, {far};");
                (place, space, format!("[%t+{}]", constant - far))
            }
            3 => {
                let place =
                    format!("cvt.u32.u64 %s, {offset}; mov.u32 %u, tile; add.s32 %s, %s, %u;");
                (place, ".shared", format!("[%s+{constant}]"))
            }
            4 => {
                let (window, name, space) = random.of(&[
                    ("shared", "tile", ".shared"),
                    ("shared", "tile", ""),
                    ("local", "depot", ".local"),
                    ("local", "depot", ""),
                ]);
                let cvta = match space {
                    "" => format!("cvta.{window}.u64 %t, %t;"),
                    _ => String::new(),
                };
                let place = format!("mov.u64 %t, {name}; {cvta} add.s64 %t, %t, {offset};");
                (place, space, format!("[%t+{constant}]"))
            }
            5 => {
                let place = format!("mov.u64 %t, counter; add.s64 %t, %t, {offset};");
                (place, ".global", format!("[%t+{constant}]"))
            }
            6 => (String::new(), ".global", format!("[counter+{constant}]")),
            7..=9 => pointers(random, number, &offset, constant),
            _ => {
                let (name, space) = random.of(&[("numbers", ".const"), ("c", ".param")]);
                let place = format!("mov.b64 %t, {name}; add.s64 %t, %t, {offset};");
                (place, space, format!("[%t+{constant}]"))
            }
        };
        let _ = writeln!(body, "{place}");
        let is_written = !matches!(space, ".const" | ".param") && random.below(2) == 0;
        // A value that was loaded is part of later ones, and of no address: what
        // a fence changes is the address alone.
        let access = match random.below(5) {
            0 if is_written => format!("{guard}st{space}.u8 {address}, %r1;"),
            0 => format!("{guard}ld{space}.u8 %r1, {address};"),
            1 if is_written => format!("{guard}st{space}.u32 {address}, %r2;"),
            1 => format!("{guard}ld{space}.u32 %r2, {address};"),
            // (The device has no atomic operations in local memory.)
            2 if is_written && space != ".local" && !place.contains("depot") => {
                format!("{guard}atom{space}.add.u32 %r2, {address}, 3;")
            }
            2 | 3 if is_written => format!("{guard}st{space}.v2.u64 {address}, {{%v, %w}};"),
            2 | 3 => format!("{guard}ld{space}.v2.u64 {{%v, %w}}, {address};"),
            _ if space == ".global" && !address.starts_with("[counter") => {
                format!(
                    "{guard}cp.async.cg.shared.global [tile+16], {address}, 16; cp.async.wait_all;"
                )
            }
            _ => format!("{guard}ld{space}.u64 %v, {address};"),
        };
        let _ = writeln!(body, "{access}");
        let _ = writeln!(
            body,
            "mad.lo.s32 %r1, %r1, 31, {number}; add.s32 %r2, %r2, %r1; xor.b64 %w, %w, %v;"
        );
        if random.below(4) == 0 {
            let _ = writeln!(
                body,
                "setp.lt.s32 %odd, %r2, 0;\n@%odd bra L{number};\nadd.s64 %v, %v, 1;\nL{number}:"
            );
        }
    }
    format!(
        ".version 8.0\n.target sm_90\n.address_size 64\n\
         .global .align 16 .b8 counter[1024] = {{1, 2, 3}};\n\
         .const .align 16 .b8 numbers[1024] = {{9, 8, 7}};\n\
         .visible .entry k(.param .u64 a, .param .u64 b, .param .u64 o0, .param .u64 o1, .param .u64 o2, .param .u64 o3,\n .param .align 16 .b8 c[1024])\n{{\n\
         .local .align 16 .b8 depot[1024];\n.shared .align 16 .b8 tile[1024];\n\
         .reg .b64 %rd<8>, %t, %v, %w; .reg .b64 %q<16>, %o<16>, %d<16>, %l<16>; .reg .b32 %r<3>, %s, %u; .reg .pred %odd;\n\
         ld.param.u64 %rd1, [a]; ld.param.u64 %rd2, [b];\n\
         ld.param.u64 %rd3, [o0]; ld.param.u64 %rd4, [o1]; ld.param.u64 %rd5, [o2]; ld.param.u64 %rd6, [o3];\n\
         mov.u32 %r1, 5; mov.u32 %r2, 7; mov.u64 %v, 11; mov.u64 %w, 13; setp.eq.s32 %odd, %r1, %r2;\n\
         mov.u64 %t, depot; mov.u32 %s, tile;\n\
         mov.u32 %u, 0;\nZ:\nadd.s32 %s, %s, %u; cvt.u64.u32 %rd7, %u; add.s64 %rd7, %t, %rd7;\n\
         st.local.u32 [%rd7], %u; st.shared.u32 [%s], %u; sub.s32 %s, %s, %u;\n\
         add.s32 %u, %u, 4; setp.lt.u32 %odd, %u, 1024; @%odd bra Z;\n\
         {body}\n\
         ld.param.u64 %t, [a]; st.global.v2.u64 [%t], {{%v, %w}}; st.global.v2.u32 [%t+16], {{%r1, %r2}};\n\
         ret;\n}}\n"
    )
}

const FORMS: [FenceForm; 2] = [FenceForm::Mask, FenceForm::Modulo];

/// Fences a kernel, and has it judged.
fn fenced(source: &str, form: FenceForm) -> Fenced {
    let fenced = fence(source, form).unwrap_or_else(|error| panic!("{error}\n{source}"));
    if let Err(errors) = verify_contained(&fenced.text) {
        panic!("{errors:?}\n{}", fenced.text);
    }
    fenced
}

/// A device with a partition and another tenant beside it.
struct Device {
    bench: Bench,
    /// Its addresses are those of the process.
    _alone: MutexGuard<'static, ()>,
}

static ALONE: Mutex<()> = Mutex::new(());

impl Device {
    fn new() -> Device {
        let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        let bench = Bench::new();
        let memory = &bench.memory;
        memory.map_fixed(BASE - MARGIN, SIZE + 2 * MARGIN).unwrap();
        memory.map_fixed(VICTIM, VICTIM_SIZE).unwrap();
        memory.map_fixed(STOP, GRANULE).unwrap();
        Device {
            bench,
            _alone: alone,
        }
    }

    /// Makes buffers, and the other tenant, what they were.
    fn reset(&self) {
        let memory = &self.bench.memory;
        for buffer in BUFFERS {
            memory
                .fill(buffer, &[0x11, 0x22, 0x33, 0x44], BUFFER / 4)
                .unwrap();
        }
        memory.fill(VARIABLES, &[0], BUFFER).unwrap();
        memory.fill(VICTIM, &[0xa5], VICTIM_SIZE).unwrap();
    }

    fn buffers(&self) -> Vec<u8> {
        let mut out = vec![0; 2 * BUFFER as usize];
        let (first, second) = out.split_at_mut(BUFFER as usize);
        self.bench.memory.read(BUFFERS[0], first).unwrap();
        self.bench.memory.read(BUFFERS[1], second).unwrap();
        out
    }

    fn victim_is_unharmed(&self) -> bool {
        let mut bytes = vec![0; VICTIM_SIZE as usize];
        self.bench.memory.read(VICTIM, &mut bytes).unwrap();
        bytes.iter().all(|byte| *byte == 0xa5)
    }

    /// Loads a fenced module as the host does: writes its table, and places its
    /// variables.
    fn load(&self, fenced: &Fenced, form: FenceForm) -> Program {
        self.try_load(fenced, form)
            .unwrap_or_else(|| panic!("{}", fenced.text))
    }

    /// The same; `None` if the device does not take the text.
    fn try_load(&self, fenced: &Fenced, form: FenceForm) -> Option<Program> {
        let memory = &self.bench.memory;
        let module = ptx::parse(&fenced.text).ok()?;
        let program = Program::link(&[module], memory).ok()?;
        if !program.unsupported().is_empty() {
            return None;
        }
        let table = FenceTable::new((BASE, SIZE), STOP, 1024, form == FenceForm::Mask).unwrap();
        let mut bytes = table.bytes().to_vec();
        let mut at = VARIABLES;
        for variable in &fenced.variables {
            let own = program.variable(&variable.name).unwrap();
            assert_eq!(own.size, variable.size);
            at = at.next_multiple_of(u64::from(variable.alignment));
            memory.copy(at, own.address, own.size).unwrap();
            bytes.extend(at.to_le_bytes());
            at += variable.size;
        }
        let own = program.variable(VARIABLE).unwrap();
        assert_eq!(own.size, bytes.len() as u64);
        memory.write(own.address, &bytes).unwrap();
        Some(program)
    }

    fn run(&self, program: &Program, words: [u64; 6]) -> Result<(), String> {
        self.reset_variables(program);
        let mut parameters: Vec<P<'_>> = words.map(P::U64).into();
        let structure: Vec<u8> = (0..1024u32).map(|byte| byte as u8).collect();
        parameters.push(P::Bytes(&structure, 16));
        let one = [1, 1, 1];
        let done = self.bench.launch(program, "k", one, one, &parameters);
        done.map(drop).map_err(|fault| format!("{fault:?}"))
    }

    /// A variable that lies in the partition is what its initializer says again.
    fn reset_variables(&self, program: &Program) {
        if let (Some(_), Some(own)) = (program.variable(VARIABLE), program.variable("counter")) {
            self.bench
                .memory
                .copy(VARIABLES, own.address, own.size)
                .unwrap();
        }
    }
}

/// Offsets that stay inside of everything.
fn tame(random: &mut Random) -> [u64; 6] {
    let mut words = [BUFFERS[0], BUFFERS[1], 0, 0, 0, 0];
    for word in &mut words[2..] {
        *word = 16 * random.below(50);
    }
    words
}

/// Words that lead anywhere; half of them to the other tenant.
fn wild(random: &mut Random) -> [u64; 6] {
    let mut words = tame(random);
    if random.below(2) == 0 {
        for word in &mut words[..2] {
            *word = VICTIM + 16 * random.below(VICTIM_SIZE / 32);
        }
        return words;
    }
    for word in &mut words {
        let noise = random.next();
        *word = match random.below(10) {
            0 => noise,
            1 => noise % VICTIM_SIZE,
            2 | 3 => VICTIM + noise % VICTIM_SIZE,
            4 => (VICTIM + noise % VICTIM_SIZE).wrapping_sub(BUFFERS[0]),
            5 => BASE + SIZE - noise % 64,
            6 => BASE.wrapping_sub(noise % 64),
            7 => 0u64.wrapping_sub(noise % 4096),
            8 => noise % 4096,
            _ => noise % (1 << 33),
        };
    }
    words
}

#[test]
fn fenced_kernels_compute_the_same_and_leave_others_alone() {
    let device = Device::new();
    let mut random = Random(0x5eed_0fe1);
    let (mut harmed, mut stopped, mut launches) = (0, 0, 0);
    for round in 0..100 {
        let source = kernel(&mut random, 1 + round % 12);
        let tame_words: Vec<[u64; 6]> = (0..3).map(|_| tame(&mut random)).collect();
        let wild_words: Vec<[u64; 6]> = (0..12).map(|_| wild(&mut random)).collect();
        for form in FORMS {
            let fenced = fenced(&source, form);
            let program = device.load(&fenced, form);
            for words in &tame_words {
                // A new one: what it did to its own variable is not undone.
                let native = device.bench.link(&[&source]);
                device.reset();
                let done = device.run(&native, *words);
                assert_eq!(done, Ok(()), "{words:x?}\n{source}");
                let expected = device.buffers();
                device.reset();
                let done = device.run(&program, *words);
                assert_eq!(done, Ok(()), "{words:x?}\n{}", fenced.text);
                assert_eq!(device.buffers(), expected, "{words:x?}\n{}", fenced.text);
            }
            for words in &wild_words {
                device.reset();
                let done = device.run(&program, *words);
                assert_eq!(done, Ok(()), "{form:?} {words:x?}\n{}", fenced.text);
                assert!(
                    device.victim_is_unharmed(),
                    "{form:?} {words:x?}\n{}",
                    fenced.text
                );
                launches += 1;
            }
        }
        // The same launches without fences.
        let native = device.bench.link(&[&source]);
        for words in &wild_words {
            device.reset();
            stopped += u32::from(device.run(&native, *words).is_err());
            harmed += u32::from(!device.victim_is_unharmed());
        }
    }
    println!(
        "{launches} launches; without fences {stopped} stopped the device, {harmed} harmed the other tenant"
    );
    assert!(stopped > launches / 20 && harmed > launches / 20);
}

/// Threads that would end the context are counted and retired, the others go on;
/// and a jump by a table stays in it.
#[test]
fn threads_that_would_end_the_context_retire_alone() {
    const THREADS: u32 = 64;
    let source = ".version 8.0\n.target sm_90\n.address_size 64\n\
        .extern .func __assertfail(.param .b64 m, .param .b64 f, .param .b32 l, .param .b64 g, .param .b64 s) .noreturn;\n\
        .visible .entry k(.param .u64 out, .param .u32 shift)\n{\n\
        .reg .b64 %rd<4>; .reg .b32 %r<5>; .reg .pred %p<3>;\n\
        ld.param.u64 %rd1, [out]; ld.param.u32 %r4, [shift]; mov.u32 %r1, %tid.x;\n\
        and.b32 %r2, %r1, 7; setp.eq.u32 %p1, %r2, 1; setp.eq.u32 %p2, %r2, 2;\n\
        @%p1 trap;\n\
        @!%p2 bra GO;\n\
        { .param .b64 a; .param .b64 b; .param .b32 c; .param .b64 d; .param .b64 e;\n\
          st.param.b64 [a], 0; st.param.b64 [b], 0; st.param.b32 [c], 0; st.param.b64 [d], 0; st.param.b64 [e], 0;\n\
          call.uni __assertfail, (a, b, c, d, e); }\n\
        GO:\n\
        bar.sync 0;\n\
        ts: .branchtargets A, B, C;\n\
        shl.b32 %r3, %r2, %r4;\n\
        brx.idx %r3, ts;\n\
        A: mov.u32 %r3, 100; bra END;\n\
        B: mov.u32 %r3, 200; bra END;\n\
        C: mov.u32 %r3, 300;\n\
        END:\n\
        mul.wide.u32 %rd2, %r1, 4; add.s64 %rd2, %rd1, %rd2; st.global.u32 [%rd2], %r3;\n\
        ret;\n}\n";
    let device = Device::new();
    for form in FORMS {
        let program = device.load(&fenced(source, form), form);
        for shift in [0, 20] {
            device.reset();
            device.bench.memory.fill(BASE, &[0], 64).unwrap();
            let parameters = [P::U64(BUFFERS[0]), P::U32(shift)];
            let block = [THREADS, 1, 1];
            let done = device
                .bench
                .launch(&program, "k", [1, 1, 1], block, &parameters);
            assert!(done.is_ok(), "{done:?}");
            let written = device.bench.read_u32s(BUFFERS[0], THREADS as usize);
            for (thread, value) in written.into_iter().enumerate() {
                let expected = match (thread % 8, shift) {
                    (1 | 2, _) => 0x4433_2211,
                    (0, _) => 100,
                    // Behind the last target of the table there is none.
                    _ => 300,
                };
                assert_eq!(value, expected, "thread {thread}, shift {shift}");
            }
            let counted = |at: u32| device.bench.read_u64s(BASE + u64::from(at), 1)[0];
            let each = u64::from(THREADS) / 8;
            assert_eq!(
                (counted(retired::TRAPS), counted(retired::ASSERTS)),
                (each, each)
            );
        }
    }
}

/// Barriers that do not exist, and atomic operations in a frame, stop the device;
/// with fences neither does.
#[test]
fn what_the_device_does_not_have_is_never_asked_of_it() {
    const THREADS: u32 = 32;
    let source = ".version 8.0\n.target sm_90\n.address_size 64\n\
        .visible .entry k(.param .u64 out, .param .u32 id, .param .u32 count, .param .u64 far)\n{\n\
        .local .align 8 .b8 depot[64];\n\
        .reg .b64 %rd<6>; .reg .b32 %r<8>; .reg .pred %p<2>;\n\
        ld.param.u64 %rd1, [out]; ld.param.u32 %r1, [id]; ld.param.u32 %r2, [count];\n\
        ld.param.u64 %rd2, [far]; mov.u32 %r3, %tid.x;\n\
        mov.u64 %rd3, depot; cvta.local.u64 %rd4, %rd3; st.u32 [%rd4], %r3;\n\
        bar.sync %r1, %r2;\n\
        setp.lt.u32 %p1, %r3, 5;\n\
        bar.red.popc.u32 %r4, %r1, %r2, %p1;\n\
        shfl.sync.bfly.b32 %r5, %r3, 1, 31, %r2;\n\
        setp.eq.u64 %p1, %rd2, 0; selp.b64 %rd2, %rd1, %rd4, %p1;\n\
        atom.add.u32 %r6, [%rd2+128], 1;\n\
        mul.wide.u32 %rd5, %r3, 4; add.s64 %rd5, %rd1, %rd5; st.global.u32 [%rd5], %r4;\n\
        ret;\n}\n";
    let device = Device::new();
    let run = |program: &Program, (id, count, far): (u32, u32, u64)| {
        device.reset();
        let parameters = [P::U64(BUFFERS[0]), P::U32(id), P::U32(count), P::U64(far)];
        let block = [THREADS, 1, 1];
        let done = device
            .bench
            .launch(program, "k", [1, 1, 1], block, &parameters);
        done.map(drop).map_err(|fault| fault.kind)
    };
    let native = device.bench.link(&[source]);
    let right = (15, 32, 0);
    let wrong = [(16, 32, 0), (u32::MAX, 63, 0), (3, 32, 1), (1 << 31, 1, 1)];
    assert_eq!(run(&native, right), Ok(()));
    let expected = device.buffers();
    for values in wrong {
        let stopped = run(&native, values);
        assert_eq!(stopped, Err(FaultKind::InvalidAddressSpace), "{values:?}");
    }
    for form in FORMS {
        let program = device.load(&fenced(source, form), form);
        assert_eq!(run(&program, right), Ok(()));
        assert_eq!(device.buffers(), expected);
        for values in wrong {
            assert_eq!(run(&program, values), Ok(()), "{values:?}");
            assert!(device.victim_is_unharmed(), "{values:?}");
        }
    }
}

/// Changes a line of a fenced text, as an error of the pass would.
fn mutant(random: &mut Random, text: &str) -> String {
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    // Of fences, and of pointers that need none. (Loops keep their counts.)
    let is_of_pointer = |line: &str| {
        let names = ["%q", "%d", "%l", "%o"];
        names.iter().any(|name| line.contains(name)) && !line.contains("%odd")
    };
    let own: Vec<usize> = (0..lines.len())
        .filter(|at| lines[*at].contains("%__rf_") || is_of_pointer(&lines[*at]))
        .filter(|at| !lines[*at].contains(".reg") && !lines[*at].contains("%u"))
        .collect();
    let at = own[random.below(own.len() as u64) as usize];
    let line = lines[at].clone();
    match random.below(7) {
        0 => lines[at] = String::new(),
        1 => lines.swap(at, (at + 1).min(text.lines().count() - 1)),
        2 => lines[at] = format!("M{at}:\n{line}"),
        3 => lines[at] = format!("{line}\n{line}"),
        4 => {
            // Another register in the place of one.
            let names = [
                "%__rf_a0",
                "%__rf_a1",
                "%__rf_r",
                "%__rf_t",
                "%__rf_u",
                "%__rf_lo",
                "%__rf_hi",
                "%__rf_s",
                "%__rf_limit",
                "%__rf_end",
                "%__rf_total",
                "%__rf_mask",
                "%__rf_base",
                "%__rf_f",
                "%__rf_go",
                "%__rf_p",
                "%t",
                "%s",
                "%odd",
            ];
            let old = random.of(&names);
            lines[at] = line.replacen(old, random.of(&names), 1);
        }
        5 => {
            // Another number.
            let digits = line.rfind(|c: char| c.is_ascii_digit());
            if let Some(end) = digits {
                let start = line[..end]
                    .rfind(|c: char| !c.is_ascii_digit())
                    .map_or(0, |before| before + 1);
                let number: u64 = line[start..=end].parse().unwrap_or(0);
                let other = random.of(&[0, 1, number + 1, number * 2, number + 64, 1 << 31]);
                lines[at] = format!("{}{other}{}", &line[..start], &line[end + 1..]);
            }
        }
        _ => {
            // Another instruction.
            let pairs = [
                ("and.b32", "or.b32"),
                ("min.u32", "max.u32"),
                ("max.u32", "min.u32"),
                ("min.u64", "max.u64"),
                ("add.s64", "sub.s64"),
                ("sub.s64", "add.s64"),
                ("0xea", "0xe8"),
                ("setp.ge", "setp.le"),
                ("selp.b64", "max.u64"),
                ("mul.hi.u64", "mul.hi.s64"),
                ("u32", "s32"),
                ("mul.wide.s32", "mul.lo.s64"),
                ("mov.u64", "add.s64 %rd3,"),
                ("%__rf_a0", "%__rf_r"),
                ("@%__rf_go", "@!%__rf_go"),
                ("@%__rf_go", ""),
            ];
            let (old, new) = random.of(&pairs);
            lines[at] = line.replacen(old, new, 1);
        }
    }
    lines.join("\n")
}

/// The lines around what a mutant changes, and the whole of it.
fn changed(old: &str, new: &str) -> String {
    let same = old.lines().zip(new.lines()).take_while(|(a, b)| a == b);
    let at = same.count();
    let around = |text: &str| {
        let lines = text.lines().skip(at.saturating_sub(4)).take(9);
        lines.collect::<Vec<_>>().join("\n")
    };
    format!("was:\n{}\nis:\n{}\n\n{new}", around(old), around(new))
}

#[test]
fn what_the_verifier_accepts_is_contained() {
    let device = Device::new();
    let mut random = Random(0xfe_1ce5);
    let (mut refused, mut accepted, mut unchanged) = (0, 0, 0);
    for round in 0..60 {
        let source = kernel(&mut random, 1 + round % 9);
        let form = FORMS[round as usize % 2];
        let fenced = fenced(&source, form);
        for _ in 0..30 {
            let text = mutant(&mut random, &fenced.text);
            if text.split_whitespace().eq(fenced.text.split_whitespace()) {
                unchanged += 1;
                continue;
            }
            if verify_contained(&text).is_err() {
                refused += 1;
                continue;
            }
            accepted += 1;
            let mutated = Fenced {
                text,
                ..fenced.clone()
            };
            let Some(program) = device.try_load(&mutated, form) else {
                // Names and types are the compiler's to check.
                continue;
            };
            for _ in 0..6 {
                let words = wild(&mut random);
                device.reset();
                let done = device.run(&program, words);
                let is_contained = done == Ok(()) && device.victim_is_unharmed();
                assert!(
                    is_contained,
                    "{done:?}, {words:x?}\n{}",
                    changed(&fenced.text, &mutated.text)
                );
            }
        }
    }
    println!("{refused} mutants refused, {accepted} accepted and contained, {unchanged} unchanged");
    assert!(refused > accepted && accepted > 100);
}
