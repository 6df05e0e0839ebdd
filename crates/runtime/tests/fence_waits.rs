//! Threads that wait at barriers for a number of threads, on the CPU device: they
//! meet as they do without fences, also where others of the block are elsewhere; and
//! where they never would, they end once the host says so.

#[path = "../../emulate/tests/common/mod.rs"]
#[allow(unused)]
mod bench;

#[path = "support/partition.rs"]
#[allow(unused)]
mod partition;

use bench::P;
use emulate::engine::FaultKind;
use instrument::FenceForm;
use model::layout::fence::{HEADROOM, stop};
use partition::{BASE, Partition, STOP, fenced};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const OUT: u64 = BASE + HEADROOM;
const WORDS: usize = 512;
const THREADS: u32 = 256;

/// A kernel whose threads store what they have in `%r9`, with the number of their warp
/// in `%r3`.
fn module(statements: &str) -> String {
    format!(
        ".version 8.0\n.target sm_90\n.address_size 64\n\
         .visible .entry k(.param .u64 out, .param .u32 one)\n{{\n\
         .reg .b64 %rd<8>; .reg .b32 %r<16>; .reg .pred %p<8>;\n\
         .shared .align 8 .b8 tile[4096];\n\
         ld.param.u64 %rd1, [out]; ld.param.u32 %r1, [one];\n\
         mov.u32 %r2, %tid.x; shr.u32 %r3, %r2, 5; mov.u32 %r9, 0;\n\
         mov.u32 %r10, tile; shl.b32 %r11, %r2, 2; add.s32 %r11, %r11, %r10;\n\
         {statements}\n\
         mov.u32 %r8, %ctaid.x; mov.u32 %r7, %ntid.x; mad.lo.s32 %r8, %r8, %r7, %r2;\n\
         mul.wide.u32 %rd2, %r8, 4; add.s64 %rd2, %rd1, %rd2; st.global.u32 [%rd2], %r9; ret;\n}}\n"
    )
}

/// Programs whose threads meet.
const MEETING: &[(&str, &str)] = &[
    (
        "halves of a block, each at a barrier of its own, again and again",
        "setp.lt.u32 %p1, %r2, 128; mov.u32 %r4, 0;\n\
         @!%p1 bra B;\n\
         A: st.shared.u32 [%r11], %r4; bar.sync 1, 128; xor.b32 %r5, %r11, 256; ld.shared.u32 %r6, [%r5];\n\
         mad.lo.s32 %r9, %r9, 3, %r6; bar.sync 1, 128; add.s32 %r4, %r4, 1;\n\
         setp.lt.u32 %p2, %r4, 20; @%p2 bra A; bra E;\n\
         B: st.shared.u32 [%r11], %r4; bar.sync 2, 128; xor.b32 %r5, %r11, 256; ld.shared.u32 %r6, [%r5];\n\
         mad.lo.s32 %r9, %r9, 5, %r6; bar.sync 2, 128; add.s32 %r4, %r4, 2;\n\
         setp.lt.u32 %p2, %r4, 50; @%p2 bra B;\n\
         E: bar.sync 0;",
    ),
    (
        "a barrier by a number in a register",
        "shr.u32 %r4, %r2, 6; add.s32 %r4, %r4, %r1; mul.lo.u32 %r5, %r1, 64;\n\
         st.shared.u32 [%r11], %r2; bar.sync %r4, %r5; xor.b32 %r6, %r11, 128; ld.shared.u32 %r9, [%r6];",
    ),
    (
        "those who produce do not wait",
        "setp.lt.u32 %p1, %r2, 64; setp.lt.u32 %p2, %r2, 128;\n\
         @%p1 st.shared.u32 [%r11], %r2; @%p1 bar.arrive 4, 128; @%p1 bra E; @!%p2 bra E;\n\
         bar.sync 4, 128; xor.b32 %r5, %r11, 256; ld.shared.u32 %r9, [%r5]; E: ;",
    ),
    (
        "predicates of some of the threads",
        "and.b32 %r4, %r2, 3; setp.eq.u32 %p1, %r4, 1; setp.lt.u32 %p2, %r2, 96; @!%p2 bra E;\n\
         bar.red.popc.u32 %r9, 5, 96, %p1; setp.ge.u32 %p3, %r2, 0;\n\
         bar.red.and.pred %p4, 5, 96, %p3; selp.u32 %r5, 1000, 0, %p4; add.s32 %r9, %r9, %r5;\n\
         bar.red.or.pred %p4, 5, 96, !%p3; selp.u32 %r5, 10000, 0, %p4; add.s32 %r9, %r9, %r5; E: ;",
    ),
    (
        "lanes that have left",
        "and.b32 %r4, %r2, 7; setp.eq.u32 %p1, %r4, 3; @%p1 ret;\n\
         st.shared.u32 [%r11], %r2; setp.lt.u32 %p1, %r2, 64; @!%p1 bra E;\n\
         bar.sync 1, 64; xor.b32 %r5, %r11, 128; ld.shared.u32 %r9, [%r5]; E: ;",
    ),
    (
        "lanes that come one after the other",
        "st.shared.u32 [%r11], %r2; setp.lt.u32 %p1, %r2, 64; @!%p1 bra E; and.b32 %r4, %r2, 1;\n\
         setp.eq.u32 %p2, %r4, 0; @%p2 bra A; barrier.sync 1, 64; bra C; A: mov.u32 %r4, 0;\n\
         S: add.s32 %r4, %r4, 1; setp.lt.u32 %p3, %r4, 50; @%p3 bra S; barrier.sync 1, 64;\n\
         C: xor.b32 %r5, %r11, 128; ld.shared.u32 %r9, [%r5]; E: ;",
    ),
    (
        "several numbers of barriers for the whole block",
        "st.shared.u32 [%r11], %r2; bar.sync 3; xor.b32 %r5, %r11, 512; ld.shared.u32 %r9, [%r5];\n\
         barrier.sync 0; st.shared.u32 [%r11], %r9; add.s32 %r6, %r1, 6; bar.sync %r6; ld.shared.u32 %r6, [%r5];\n\
         add.s32 %r9, %r9, %r6; setp.lt.u32 %p1, %r2, 9; bar.red.popc.u32 %r6, 9, %p1; add.s32 %r9, %r9, %r6;",
    ),
];

#[test]
fn threads_meet_as_they_do_without_fences() {
    let partition = Partition::new();
    for (what, statements) in MEETING {
        let source = module(statements);
        let native = partition.bench.link(&[&source]);
        let loaded = partition
            .load(&fenced(&source, FenceForm::Mask), FenceForm::Mask)
            .unwrap_or_else(|| panic!("{what}"));
        for threads in [THREADS, THREADS - 16] {
            let run = |program| {
                partition
                    .bench
                    .memory
                    .fill(OUT, &[0xff], 4 * WORDS as u64)
                    .unwrap();
                let done = partition.bench.launch(
                    program,
                    "k",
                    [2, 1, 1],
                    [threads, 1, 1],
                    &[P::U64(OUT), P::U32(1)],
                );
                done.unwrap_or_else(|fault| panic!("{what}: {fault:?}"));
                partition.bench.read_u32s(OUT, WORDS)
            };
            let expected = run(&native);
            assert!(expected.iter().any(|word| *word != 0 && *word != u32::MAX));
            assert!(
                run(&loaded.program) == expected,
                "{what}, {threads} threads"
            );
        }
    }
}

/// What a program does that writes to the counters of its barriers. (Whether its
/// threads meet depends on what it writes.)
const WRITES: &str = "writes to the counters of its barriers";

/// Warps that are at one barrier with different operations.
const MIXED: &[&str] = &[
    "setp.lt.u32 %p1, %r2, 128; @%p1 bra A; bar.sync 0; bra E; A: bar.red.popc.u32 %r9, 0, %p1; E: ;",
    "setp.lt.u32 %p1, %r2, 128; @%p1 bra A; bar.red.and.pred %p2, 0, %p1; bra E;\n\
     A: bar.red.or.pred %p2, 0, %p1; E: ;",
    "setp.lt.u32 %p1, %r2, 128; @%p1 bra A; bar.red.popc.u32 %r9, 3, 256, %p1; bra E;\n\
     A: bar.sync 3, 256; E: ;",
];

/// They end the context; with fences, the kernel alone, at the latest when it must.
#[test]
fn operations_at_a_barrier_do_not_meet() {
    let partition = Partition::new();
    let shape = ([2, 1, 1], [THREADS, 1, 1]);
    let parameters = [P::U64(OUT), P::U32(1)];
    for statements in MIXED {
        let source = module(statements);
        let native = partition.bench.link(&[&source]);
        let done = partition
            .bench
            .launch(&native, "k", shape.0, shape.1, &parameters);
        let kind = done.map(drop).map_err(|fault| fault.kind);
        assert_eq!(kind, Err(FaultKind::IllegalInstruction), "{statements}");
        let text = fenced(&source, FenceForm::Mask);
        let loaded = partition.load(&text, FenceForm::Mask).unwrap();
        let set = |word: u32| {
            let at = STOP + u64::from(stop::WORD);
            let memory = &partition.bench.memory;
            memory.write(at, &word.to_le_bytes()).unwrap();
        };
        set(0);
        let never = AtomicBool::new(false);
        let done = std::thread::scope(|scope| {
            scope.spawn(|| {
                std::thread::sleep(Duration::from_millis(50));
                set(1);
            });
            let bench = &partition.bench;
            bench.launch_until(&loaded.program, "k", shape, &parameters, &never)
        });
        assert!(done.is_ok(), "{statements}: {done:?}");
        set(0);
    }
}

/// Programs whose threads never meet.
const APART: &[(&str, &str)] = &[
    (
        "more threads than there are",
        "setp.lt.u32 %p1, %r2, 32; @!%p1 bra E; bar.sync 1, 64; E: ;",
    ),
    (
        "two barriers for a number of threads",
        "setp.lt.u32 %p1, %r2, 128; @%p1 bra A; bar.sync 1, 256; bra E; A: bar.sync 2, 256; E: ;",
    ),
    (
        "a barrier for a number of threads, and one of the block",
        "setp.lt.u32 %p1, %r2, 128; @%p1 bra A; bar.sync 0; bra E; A: bar.sync 2, 256; E: ;",
    ),
    (
        "a reduction that some do not come to",
        "setp.lt.u32 %p1, %r2, 128; @%p1 bra E; bar.red.popc.u32 %r9, 3, 160, %p1; E: ;",
    ),
    (
        WRITES,
        "mov.u32 %r4, 0; L: add.s32 %r5, %r10, %r4; st.shared.u32 [%r5+-64], %r2;\n\
         st.shared.u32 [%r5+4096], %r2; add.s32 %r4, %r4, 4; setp.lt.u32 %p1, %r4, 64; @%p1 bra L;\n\
         bar.sync 1, 96; E: ;",
    ),
];

#[test]
fn threads_that_never_meet_end_once_the_host_says_so() {
    let partition = Partition::new();
    let memory = &partition.bench.memory;
    let set = |word: u32| {
        let at = STOP + u64::from(stop::WORD);
        memory.write(at, &word.to_le_bytes()).unwrap();
    };
    let shape = ([2, 1, 1], [THREADS, 1, 1]);
    for (what, statements) in APART {
        let text = fenced(&module(statements), FenceForm::Mask);
        let loaded = partition
            .load(&text, FenceForm::Mask)
            .unwrap_or_else(|| panic!("{what}"));
        let parameters = [P::U64(OUT), P::U32(1)];
        let launch = |later: u64, act: &(dyn Fn() + Sync), cancel: &AtomicBool| {
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    std::thread::sleep(Duration::from_millis(later));
                    act();
                });
                let bench = &partition.bench;
                bench.launch_until(&loaded.program, "k", shape, &parameters, cancel)
            })
        };
        set(0);
        let cancel = AtomicBool::new(false);
        let done = launch(100, &|| cancel.store(true, Ordering::Relaxed), &cancel);
        let kind = done.map(drop).map_err(|fault| fault.kind);
        assert!(
            kind == Err(FaultKind::Cancelled) || *what == WRITES,
            "{what}"
        );
        let never = AtomicBool::new(false);
        let done = launch(50, &|| set(1), &never);
        assert!(done.is_ok(), "{what}: {done:?}");
    }
}
