//! Fenced kernels on the CPU device end once the host says so, whatever they
//! do; and they read nothing that another kernel left. Without fences, or
//! without the host's word, they do not end, and read it.

#[path = "../../emulate/tests/common/mod.rs"]
#[allow(unused)]
mod bench;

#[path = "support/random.rs"]
mod random;

use bench::{Bench, P, Shape};
use emulate::engine::{FaultKind, Program};
use emulate::mapping::GRANULE;
use instrument::{FenceForm, fence, verify_contained};
use model::layout::fence::{FenceTable, HEADROOM, IS_LARGE, UNIT, VARIABLE, stop};
use random::Random;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

const BASE: u64 = 0x3000_0000_0000;
const SIZE: u64 = UNIT;
/// The tenant's buffer.
const BUFFER: u64 = BASE + HEADROOM;
const BYTES: u64 = 1 << 16;
/// The words that end kernels.
const STOP: u64 = 0x3100_0000_0000;
/// What another kernel left.
const LEFT: u8 = 0xa5;

/// A device with a partition. Its addresses are those of the process.
struct Device {
    bench: Bench,
    _alone: MutexGuard<'static, ()>,
}

static ALONE: Mutex<()> = Mutex::new(());

impl Device {
    fn new(residue: u8) -> Device {
        let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        let bench = Bench::after(true, residue);
        bench.memory.map_fixed(BASE, SIZE).unwrap();
        bench.memory.map_fixed(STOP, GRANULE).unwrap();
        Device {
            bench,
            _alone: alone,
        }
    }

    fn set(&self, word: u32) {
        self.bench
            .memory
            .write(STOP + u64::from(stop::WORD), &word.to_le_bytes())
            .unwrap();
    }

    /// Threads that retired since the last call.
    fn retired(&self) -> u64 {
        let at = STOP + u64::from(stop::RETIRED);
        let count = self.bench.read_u64s(at, 1)[0];
        self.bench.memory.fill(at, &[0], 8).unwrap();
        count
    }

    fn clear(&self) {
        self.bench.memory.fill(BUFFER, &[0], BYTES).unwrap();
    }

    /// Loads a fenced module as the host does.
    fn load(&self, text: &str) -> Program {
        self.try_load(text).unwrap_or_else(|| panic!("{text}"))
    }

    /// Has the table of a module say whether grids may be large.
    fn set_large(&self, program: &Program, is_large: u32) {
        let at = program.variable(VARIABLE).unwrap().address + u64::from(IS_LARGE);
        let word = is_large.to_le_bytes();
        self.bench.memory.write(at, &word).unwrap();
    }

    /// The same; `None` if the device does not take the text.
    fn try_load(&self, text: &str) -> Option<Program> {
        let module = ptx::parse(text).ok()?;
        let program = Program::link(&[module], &self.bench.memory).ok()?;
        if !program.unsupported().is_empty() {
            return None;
        }
        let table = FenceTable::new((BASE, SIZE), STOP, 1024, true).unwrap();
        let own = program.variable(VARIABLE).unwrap();
        self.bench
            .memory
            .write(own.address, &table.bytes())
            .unwrap();
        Some(program)
    }
}

/// Fences a module, and has it judged.
fn fenced(source: &str) -> String {
    let text = fence(source, FenceForm::Mask)
        .unwrap_or_else(|error| panic!("{error}\n{source}"))
        .text;
    if let Err(errors) = verify_contained(&text) {
        panic!("{errors:?}\n{text}");
    }
    text
}

const HEADER: &str = ".version 8.0\n.target sm_90\n.address_size 64\n";

/// Statements of a kernel, behind the declaration of a frame that they begin with.
fn split(statements: &str) -> (String, &str) {
    match statements
        .strip_prefix(".local")
        .and_then(|rest| rest.split_once(';'))
    {
        Some((frame, rest)) => (format!(".local{frame};"), rest),
        None => (String::new(), statements),
    }
}

/// A module with a kernel of these statements, behind others.
fn module(before: &str, statements: &str) -> String {
    let (frame, statements) = split(statements);
    format!(
        "{HEADER}{before}\n.visible .entry k(.param .u64 out)\n{{\n\
         .reg .b64 %rd<8>; .reg .b32 %r<8>; .reg .pred %p<4>;\n\
         .shared .align 8 .b8 tile[1024];\n\
         {frame}
         ld.param.u64 %rd1, [out]; mov.u32 %r1, %tid.x; setp.lt.u32 %p1, %r1, 40;\n\
         {statements}\n}}\n"
    )
}

/// Functions of which each calls the one before it twice.
fn tree(depth: u32) -> String {
    let mut out = ".func f0() { ret; }\n".to_owned();
    for number in 1..=depth {
        let below = number - 1;
        out.push_str(&format!(
            ".func f{number}() {{ call f{below}; call f{below}; ret; }}\n"
        ));
    }
    out
}

/// Kernels that do not end: what they are, code before them, and statements.
fn endless() -> Vec<(&'static str, String, &'static str)> {
    let spin = ".func spin(.param .b32 n) { .reg .b32 %a; ld.param.b32 %a, [n];\n\
                L: add.s32 %a, %a, 1; bra L; }";
    let cases = [
        ("one block", "", "L: bra L;"),
        (
            "one thread, the others wait",
            "",
            "setp.eq.u32 %p2, %r1, 7;\n@%p2 bra L; bar.sync 0; ret;\nL: bra L;",
        ),
        ("barriers", "", "L: bar.sync 0; bra L;"),
        (
            "half of the threads, with a barrier between",
            "",
            "@%p1 bra L; bar.sync 0; bar.sync 0; ret;\nL: add.s32 %r2, %r1, 1; bra L;",
        ),
        (
            "in a callee",
            spin,
            "{ .param .b32 n; st.param.b32 [n], %r1; call spin, (n); } ret;",
        ),
        (
            "waiting for a flag in global memory",
            "",
            "L: ld.volatile.global.u32 %r2, [%rd1]; setp.eq.u32 %p2, %r2, 0; @%p2 bra L; ret;",
        ),
        (
            "threads that wait for each other in shared memory",
            "",
            "xor.b32 %r2, %r1, 32; shl.b32 %r2, %r2, 2; mov.u32 %r3, tile; add.s32 %r2, %r2, %r3;\n\
             L: ld.volatile.shared.u32 %r4, [%r2]; setp.eq.u32 %p2, %r4, 0; @%p2 bra L;\n\
             st.volatile.shared.u32 [%r2], 1; ret;",
        ),
        (
            "an endless loop around one that ends",
            "",
            "O: mov.u32 %r2, 0;\nI: add.s32 %r2, %r2, 1; setp.lt.u32 %p2, %r2, 10; @%p2 bra I;\nbra O;",
        ),
        (
            "an endless loop in one that ends",
            "",
            "mov.u32 %r2, 0;\nO: add.s32 %r2, %r2, 1;\nI: @%p1 bra I;\n\
             setp.lt.u32 %p2, %r2, 10; @%p2 bra O;\n@!%p1 bra I; ret;",
        ),
        (
            "a cycle with two ways in",
            "",
            "mov.u32 %r2, 0; @%p1 bra B;\nA: add.s32 %r2, %r2, 1;\nB: add.s32 %r2, %r2, 2;\n\
             setp.eq.u32 %p2, %r2, 0; @%p2 bra C; bra A;\nC: bra B;",
        ),
        (
            "a cycle by a table",
            "",
            "ts: .branchtargets A, B;\nand.b32 %r2, %r1, 1;\nA: brx.idx %r2, ts;\nB: xor.b32 %r2, %r2, 1; bra A;",
        ),
        ("sleeping", "", "L: nanosleep.u32 1000000; bra L;"),
        (
            "a barrier object that never completes",
            "",
            "setp.eq.u32 %p2, %r1, 0; @%p2 mbarrier.init.shared.b64 [tile], 100; bar.sync 0;\n\
             L: mbarrier.try_wait.parity.shared.b64 %p3, [tile], 0; @!%p3 bra L; ret;",
        ),
    ];
    let mut out = cases
        .map(|(what, before, code)| (what, before.to_owned(), code))
        .to_vec();
    out.push(("a tree of 2^40 calls", tree(40), "call f40; ret;"));
    out
}

/// 64 threads in each of two blocks.
const SHAPE: Shape = ([2, 1, 1], [64, 1, 1]);

#[test]
fn endless_kernels_end_once_the_host_says_so() {
    let device = Device::new(0);
    let never = AtomicBool::new(false);
    for (what, before, statements) in endless() {
        let text = fenced(&module(&before, statements));
        let program = device.load(&text);
        let parameters = [P::U64(BUFFER)];
        let (memory, cancel) = (&device.bench, AtomicBool::new(false));
        let later = |millis, act: &(dyn Fn() + Sync)| {
            std::thread::sleep(Duration::from_millis(millis));
            act();
        };
        device.clear();
        // Nobody says so: it would not have ended.
        device.set(0);
        let done = std::thread::scope(|scope| {
            scope.spawn(|| later(100, &|| cancel.store(true, Ordering::Relaxed)));
            memory.launch_until(&program, "k", SHAPE, &parameters, &cancel)
        });
        let kind = done.map_err(|fault| fault.kind);
        assert_eq!(kind.err(), Some(FaultKind::Cancelled), "{what}\n{text}");
        assert_eq!(device.retired(), 0, "{what}");
        let done = std::thread::scope(|scope| {
            scope.spawn(|| later(50, &|| device.set(1)));
            memory.launch_until(&program, "k", SHAPE, &parameters, &never)
        });
        assert!(done.is_ok(), "{what}: {done:?}\n{text}");
        let retired = device.retired();
        assert!(retired > 0 && retired <= 128, "{what}: {retired} retired");
    }
}

/// Each block looks before it begins where the table says that grids may be large; else
/// all run to their ends. The verifier says from how many blocks on a grid is.
#[test]
fn blocks_of_large_grids_do_not_begin() {
    let device = Device::new(0);
    let source = module("", "atom.global.add.u32 %r2, [%rd1], 1;\nret;");
    let text = fenced(&source);
    let grids = verify_contained(&text).unwrap().grids;
    let [(name, blocks)] = &grids[..] else {
        panic!("{grids:?}");
    };
    assert!(
        name == "k" && *blocks > 1 << 16 && *blocks < 1 << 34,
        "{blocks}"
    );
    let program = device.load(&text);
    for (is_large, grid) in [(0, [300, 1, 1]), (1, [300, 1, 1]), (1, [10, 5, 7])] {
        device.set(1);
        device.set_large(&program, is_large);
        device.clear();
        let done = device
            .bench
            .launch(&program, "k", grid, [1, 1, 1], &[P::U64(BUFFER)]);
        assert!(done.is_ok(), "{done:?}");
        let all: u32 = grid.iter().product();
        let began = device.bench.read_u32s(BUFFER, 1)[0];
        assert_eq!(began, if is_large == 0 { all } else { 0 }, "{grid:?}");
        let retired = if is_large == 0 { 0 } else { all };
        assert_eq!(device.retired(), u64::from(retired), "{grid:?}");
    }
}

/// Loops whose passes are counted ahead have as many as without fences, whatever the
/// register and its bound are, and however many there are.
#[test]
fn loops_that_are_counted_ahead_have_as_many_passes() {
    let device = Device::new(0);
    // (The register before, its bound, and what is added, if that is a register.)
    let (low, high) = (i32::MIN, i32::MAX);
    let cases: [(&str, &[[i32; 3]]); 8] = [
        (
            "add.s32 %r1, %r1, 1; setp.lt.s32 %p1, %r1, %r2;",
            &[
                [0, 10, 0],
                [5, 3, 0],
                [high - 3, high, 0],
                [0, 300_000, 0],
                [high, low + 5, 0],
            ],
        ),
        (
            "add.s32 %r1, %r1, 16; setp.lt.s32 %p1, %r1, %r2;",
            &[
                [0, 160, 0],
                [3, 161, 0],
                [high - 100, high - 20, 0],
                [-9, 5_000_000, 0],
            ],
        ),
        (
            "add.s32 %r1, %r1, -4; setp.ne.s32 %p1, %r1, %r2;",
            &[
                [400, 0, 0],
                [0, -4, 0],
                [low + 8, high - 3, 0],
                [2_000_000, 0, 0],
            ],
        ),
        (
            "sub.u32 %r1, %r1, 3; setp.gt.u32 %p1, %r1, %r2;",
            &[[100, 5, 0], [7, 7, 0], [900_000, 9, 0]],
        ),
        (
            "add.s32 %r1, %r1, %r3; setp.lt.s32 %p1, %r1, %r2;",
            &[
                [0, 1000, 7],
                [0, 1000, 1 << 20],
                [5, 5, 1],
                [-3, 900_001, 3],
                [9, 0, -5],
            ],
        ),
        (
            "add.s32 %r1, %r1, %r3; setp.lt.u32 %p1, %r1, %r2;",
            &[[0, 1000, 7], [1, -1 << 24, 1 << 24], [0, -1 << 16, 1 << 16]],
        ),
        (
            "add.s32 %r1, %r1, 2; add.s32 %r4, %r3, %r1; setp.ne.s32 %p1, %r4, %r2;",
            &[[0, 20, 4], [high - 2, low + 8, 1], [0, 700_000, 0]],
        ),
        (
            "add.s64 %rd3, %rd3, 8; setp.ne.s64 %p1, %rd3, %rd4;",
            &[[0, 800, 0], [-16, 16, 0], [0, 1 << 22, 0]],
        ),
    ];
    for (body, values) in cases {
        for [from, bound, step] in values {
            let source = format!(
                "{HEADER}.visible .entry k(.param .u64 p) {{\n\
                 .reg .b64 %rd<5>; .reg .b32 %r<7>; .reg .pred %p<3>;\n\
                 ld.param.u64 %rd1, [p]; mov.u32 %r1, {from}; mov.u32 %r2, {bound};\n\
                 mov.u32 %r3, {step}; cvt.s64.s32 %rd3, %r1; cvt.s64.s32 %rd4, %r2;\n\
                 mov.u32 %r5, 0; mov.u64 %rd2, %rd1;\n\
                 L: add.s32 %r5, %r5, 1; st.global.u32 [%rd1], %r5; {body} @%p1 bra L;\n\
                 st.global.u32 [%rd1+4], %r1; st.global.u64 [%rd1+8], %rd3; ret; }}\n"
            );
            let text = fenced(&source);
            assert!(text.contains("$__rf_near_"), "{text}");
            let found = [source, text].map(|text| {
                let module = ptx::parse(&text).unwrap();
                let program = match text.contains(VARIABLE) {
                    true => device.load(&text),
                    false => Program::link(&[module], &device.bench.memory).unwrap(),
                };
                device.set(0);
                device.clear();
                let done =
                    device
                        .bench
                        .launch(&program, "k", [1, 1, 1], [1, 1, 1], &[P::U64(BUFFER)]);
                assert!(done.is_ok(), "{done:?}\n{text}");
                device.bench.read_u32s(BUFFER, 4)
            });
            assert_eq!(
                found[0], found[1],
                "{body} from {from} to {bound} by {step}"
            );
        }
    }
}

/// Loops, calls, frames and shared memory: with the word clear, kernels compute
/// what they did.
#[test]
fn kernels_that_end_compute_the_same() {
    let device = Device::new(LEFT);
    let sum = ".func (.param .b32 s) sum(.param .align 8 .b8 pair[12])\n{\n\
        .reg .b32 %a, %b, %i; .reg .pred %q;\n\
        ld.param.b32 %a, [pair]; ld.param.b32 %b, [pair+8]; mov.u32 %i, 0;\n\
        L: add.s32 %a, %a, %b; add.s32 %i, %i, 1; setp.lt.u32 %q, %i, 3000; @%q bra L;\n\
        st.param.b32 [s], %a; ret; }";
    let framed = ".func (.param .b32 s) framed(.param .b32 n)\n{\n\
        .local .align 8 .b8 frame[300]; .reg .b32 %n, %i, %a; .reg .b64 %at, %first; .reg .pred %q;\n\
        ld.param.b32 %n, [n]; mov.u32 %i, 0;\n\
        I: and.b32 %a, %i, 63; shl.b32 %a, %a, 2; cvt.u64.u32 %at, %a; mov.u64 %first, frame; add.s64 %at, %at, %first;\n\
        mad.lo.s32 %a, %n, 7, %i; st.local.u32 [%at], %a;\n\
        add.s32 %i, %i, 1; setp.lt.u32 %q, %i, 64; @%q bra I;\n\
        ld.local.u32 %a, [frame+128]; st.param.b32 [s], %a; ret; }";
    let before = format!("{sum}\n{framed}");
    let statements = "mov.u32 %r2, 0; mul.wide.u32 %rd2, %r1, 4;\n\
        O: { .param .b32 n; .param .b32 s;\n\
          st.param.b32 [n], %r2; call (s), framed, (n); ld.param.b32 %r5, [s]; }\n\
        mov.u32 %r6, tile; cvt.u32.u64 %r7, %rd2; add.s32 %r6, %r6, %r7;\n\
        st.shared.u32 [%r6], %r5; bar.sync 0; ld.shared.u32 %r5, [tile+8];\n\
        bar.sync 0;\n\
        { .param .align 8 .b8 pair[12]; .param .b32 s;\n\
          st.param.b32 [pair], %r5; st.param.b32 [pair+8], %r1; call (s), sum, (pair); ld.param.b32 %r5, [s]; }\n\
        add.s64 %rd3, %rd1, %rd2; ld.global.u32 %r6, [%rd3]; add.s32 %r6, %r6, %r5; st.global.u32 [%rd3], %r6;\n\
        add.s32 %r2, %r2, 1; setp.lt.u32 %p3, %r2, 40; @%p3 bra O;\nret;";
    let source = module(&before, statements);
    let (native, fenced) = (device.bench.link(&[&source]), device.load(&fenced(&source)));
    device.set(0);
    let run = |program: &Program| {
        device.clear();
        let (grid, block) = ([1, 1, 1], [256, 1, 1]);
        let done = device
            .bench
            .launch(program, "k", grid, block, &[P::U64(BUFFER)]);
        assert!(done.is_ok(), "{done:?}");
        device.bench.read_u32s(BUFFER, 256)
    };
    let expected = run(&native);
    assert!(expected.iter().all(|value| *value != 0));
    assert_eq!(run(&fenced), expected);
    assert_eq!(device.retired(), 0);
}

/// Reads of what nobody wrote in this launch: what they are, code before, and
/// statements that leave the value in `%r2` of each thread.
fn reads() -> Vec<(&'static str, &'static str, &'static str)> {
    vec![
        ("a register", "", "add.s32 %r2, %r7, 0;"),
        ("half of one", "", "cvt.u32.u64 %r2, %rd7;"),
        ("a predicate", "", "selp.b32 %r2, 1, 0, %p3;"),
        (
            "a register of floats",
            "",
            ".reg .f32 %f<2>; .reg .f64 %d; .reg .b16 %h; cvt.u32.u16 %r2, %h; mov.b32 %r3, %f1; or.b32 %r2, %r2, %r3;\n\
             mov.b64 {%r3, %r4}, %d; or.b32 %r2, %r2, %r3;",
        ),
        (
            "a register that some threads wrote",
            "",
            "@!%p1 mov.u32 %r2, 0;",
        ),
        (
            "a register on one of two paths",
            "",
            "@%p1 bra L; mov.u32 %r2, 0;\nL:",
        ),
        (
            "a register of a scope",
            "",
            "{ .reg .b32 %x; mov.u32 %r2, %x; }",
        ),
        (
            "a register of a callee",
            ".func (.param .b32 s) f() { .reg .b32 %a; st.param.b32 [s], %a; ret; }",
            "{ .param .b32 s; call (s), f; ld.param.b32 %r2, [s]; }",
        ),
        (
            "padding of an argument",
            ".func (.param .b32 s) f(.param .align 8 .b8 v[16]) { .reg .b32 %a; ld.param.b32 %a, [v+12]; st.param.b32 [s], %a; ret; }",
            "{ .param .align 8 .b8 v[16]; .param .b32 s; st.param.b64 [v], %rd1; st.param.b32 [v+8], %r1;\n\
             call (s), f, (v); ld.param.b32 %r2, [s]; }",
        ),
        (
            "padding of a result",
            ".func (.param .align 8 .b8 s[8]) f() { .reg .b32 %a; mov.u32 %a, 1; st.param.b32 [s], %a; ret; }",
            "{ .param .align 8 .b8 s[8]; call (s), f; ld.param.b32 %r2, [s+4]; }",
        ),
        (
            "shared memory",
            "",
            "shl.b32 %r3, %r1, 2; mov.u32 %r4, tile; add.s32 %r3, %r3, %r4; ld.shared.u32 %r2, [%r3];",
        ),
        (
            "the last bytes of dynamic shared memory, by a generic address",
            ".extern .shared .align 4 .b8 more[];",
            "mov.u64 %rd2, more; cvta.shared.u64 %rd2, %rd2; mul.wide.u32 %rd3, %r1, 4; add.s64 %rd2, %rd2, %rd3;\n\
             ld.u32 %r2, [%rd2+1744];",
        ),
        (
            "shared memory that it does not have",
            "",
            "mov.u32 %r3, tile; add.s32 %r3, %r3, 100000; ld.shared.u32 %r2, [%r3];",
        ),
        (
            "a small frame",
            "",
            ".local .align 4 .b8 frame[36]; and.b32 %r3, %r1, 7; mul.wide.u32 %rd2, %r3, 4; mov.u64 %rd3, frame;\n\
             add.s64 %rd2, %rd2, %rd3; ld.local.u32 %r2, [%rd2+4];",
        ),
        (
            "a large frame, its last bytes",
            "",
            ".local .align 2 .b8 frame[1003]; ld.local.u8 %r2, [frame+1002]; ld.local.u8 %r3, [frame]; or.b32 %r2, %r2, %r3;",
        ),
        (
            "a frame in a callee",
            ".func (.param .b32 s) f() { .local .align 8 .b8 frame[8]; .reg .b32 %a; ld.local.u32 %a, [frame+4]; st.param.b32 [s], %a; ret; }",
            "{ .param .b32 s; call (s), f; ld.param.b32 %r2, [s]; }",
        ),
    ]
}

/// Statements, and the store of what they read.
fn stored(statements: &str) -> String {
    format!(
        "{statements}\nmul.wide.u32 %rd2, %r1, 4; add.s64 %rd2, %rd1, %rd2; st.global.u32 [%rd2], %r2;\nret;"
    )
}

#[test]
fn nothing_that_others_left_is_read() {
    let device = Device::new(LEFT);
    device.set(0);
    for (what, before, statements) in reads() {
        let source = module(before, &stored(statements));
        let text = fenced(&source);
        let run = |program: &Program| {
            device.clear();
            let dynamic = |config: &mut emulate::engine::LaunchConfig<'_>| {
                config.dynamic_shared = 2000;
            };
            let done = device.bench.launch_with(
                program,
                "k",
                ([1, 1, 1], [64, 1, 1]),
                &[P::U64(BUFFER)],
                dynamic,
            );
            done.map(|_| device.bench.read_u32s(BUFFER, 64))
        };
        let read = run(&device.load(&text)).unwrap_or_else(|fault| panic!("{what}: {fault:?}"));
        assert_eq!(read, vec![0; 64], "{what}\n{text}");
        // The same without fences reads it, or stops the device.
        let native = run(&device.bench.link(&[&source]));
        let leaks = native.map_or(true, |read| read.iter().any(|value| *value != 0));
        assert!(leaks, "{what} shows nothing without fences");
    }
}

/// Changes a line that the pass wrote, as an error of the pass would.
fn mutant(random: &mut Random, text: &str) -> String {
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    let is_own = |line: &str| {
        (line.contains("__rf_") || line.starts_with("\tmov.") || line.starts_with("\tst."))
            && !line.contains(".reg")
    };
    let own: Vec<usize> = (0..lines.len()).filter(|at| is_own(&lines[*at])).collect();
    let at = own[random.below(own.len() as u64) as usize];
    let line = lines[at].clone();
    match random.below(7) {
        0 => lines[at] = String::new(),
        1 => lines.swap(at, (at + 1).min(text.lines().count() - 1)),
        2 => lines[at] = format!("M{at}:\n{line}\n@%p1 bra M{at};"),
        3 => lines[at] = format!("{line}\n{line}"),
        4 => {
            // As another line is.
            let other = own[random.below(own.len() as u64) as usize];
            lines[at] = lines[other].clone();
        }
        5 => {
            let digits: Vec<usize> = line
                .match_indices(|c: char| c.is_ascii_digit())
                .map(|(i, _)| i)
                .collect();
            if let Some(place) = digits.get(random.below(digits.len().max(1) as u64) as usize) {
                let digit = random.below(10);
                lines[at] = format!("{}{digit}{}", &line[..*place], &line[place + 1..]);
            }
        }
        _ => {
            let pairs = [
                ("@%__rf_halt ", ""),
                ("@%__rf_due ", ""),
                ("@%__rf", "@!%__rf"),
                ("@!", "@"),
                ("ne", "eq"),
                ("eq", "ne"),
                ("ge", "lt"),
                ("add", "sub"),
                ("exit", "ret"),
                ("and", "or"),
                ("$__rf_cleared", "$__rf_alone"),
            ];
            let (old, new) = random.of(&pairs);
            lines[at] = line.replacen(old, new, 1);
        }
    }
    lines.join("\n")
}

/// Whatever the verifier accepts ends, and reads nothing that others left.
#[test]
fn what_the_verifier_accepts_ends_and_reads_nothing() {
    let device = Device::new(LEFT);
    let mut random = Random(0xe2d5);
    let mut sources = Vec::new();
    for (what, before, statements) in endless() {
        // (That takes seconds, and its looks are like others.)
        if !what.contains("tree") {
            sources.push(module(&before, statements));
        }
    }
    for (_, before, statements) in reads() {
        sources.push(module(before, &stored(statements)));
    }
    let (mut refused, mut accepted) = (0, 0);
    for source in sources {
        let text = fenced(&source);
        for _ in 0..60 {
            let mutant = mutant(&mut random, &text);
            if mutant.split_whitespace().eq(text.split_whitespace()) {
                continue;
            }
            if verify_contained(&mutant).is_err() {
                refused += 1;
                continue;
            }
            // (Names and types are the compiler's to check.)
            let Some(program) = device.try_load(&mutant) else {
                continue;
            };
            accepted += 1;
            device.set(1);
            device.clear();
            let (cancel, done) = (AtomicBool::new(false), AtomicBool::new(false));
            let ended = std::thread::scope(|scope| {
                scope.spawn(|| {
                    for _ in 0..2000 {
                        if done.load(Ordering::Relaxed) {
                            return;
                        }
                        std::thread::sleep(Duration::from_millis(10));
                    }
                    cancel.store(true, Ordering::Relaxed);
                });
                let ended =
                    device
                        .bench
                        .launch_until(&program, "k", SHAPE, &[P::U64(BUFFER)], &cancel);
                done.store(true, Ordering::Relaxed);
                ended
            });
            assert!(ended.is_ok(), "{ended:?}\n{mutant}");
            let left = u32::from_ne_bytes([LEFT; 4]);
            let written = device.bench.read_u32s(BUFFER, 64);
            assert!(
                written.iter().all(|value| *value & left != left),
                "{mutant}"
            );
        }
    }
    println!("{refused} mutants refused, {accepted} accepted");
    assert!(refused > 500 && accepted > 20);
}
