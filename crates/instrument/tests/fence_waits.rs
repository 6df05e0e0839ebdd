//! Which kernels are proved to end although their threads wait for each other in
//! hardware: each kernel that may not end is named, and none that does.

use crate::common;

use instrument::{Contained, Ends, FenceForm, fence, verify_contained};
use std::collections::BTreeMap;

fn contained(source: &str) -> Contained {
    let text = fence(source, FenceForm::Mask)
        .unwrap_or_else(|error| panic!("{error}\n{source}"))
        .text;
    verify_contained(&text).unwrap_or_else(|errors| panic!("{errors:?}\n{text}"))
}

fn module(before: &str, statements: &str) -> String {
    format!(
        ".version 8.0\n.target sm_90\n.address_size 64\n{before}\n\
         .visible .entry k(.param .u64 p, .param .u32 n)\n{{\n\
         .reg .b64 %rd<8>; .reg .b32 %r<16>; .reg .pred %p<8>; .shared .align 8 .b8 tile[64];\n\
         ld.param.u64 %rd1, [p]; ld.param.u32 %r1, [n]; mov.u32 %r2, %tid.x;\n\
         setp.lt.u32 %p1, %r2, 7; setp.lt.u32 %p2, %r1, 7;\n\
         {statements}\n}}\n"
    )
}

/// Whether the kernel of these statements ends.
fn ends(before: &str, statements: &str) -> Ends {
    let found = contained(&module(before, statements)).waiting;
    found.first().map_or(Ends::Always, |waiting| waiting.ends)
}

const SHUFFLE: &str = "shfl.sync.bfly.b32 %r3, %r2, 1, 31, -1;";

#[test]
fn kernels_that_end_are_proved_to() {
    let cases = [
        // One barrier, however it is come to.
        "@%p1 bra A; barrier.sync 0; ret; A: barrier.sync 0; ret;",
        "L: bar.sync 1; @%p2 bra L; bar.red.or.pred %p3, 2, %p1; ret;",
        // For all lanes, in code that all go through.
        SHUFFLE,
        "shfl.sync.bfly.b32 %r3, %r2, 1, 31, 0xffffffff; bar.sync 0; bar.warp.sync -1;",
        "@%p1 mov.u32 %r3, 1; bar.warp.sync -1;",
        "@%p1 bra A; mov.u32 %r3, 1; A: bar.warp.sync -1; bar.sync 0;",
        // Who has left does not come back.
        "@%p1 ret; bar.warp.sync -1; bar.sync 0;",
        "@%p1 bra A; bar.warp.sync -1; A: ret;",
        "bar.sync 0; @%p1 bra A; bar.warp.sync -1; bar.warp.sync -1; A: st.global.u32 [%rd1], 1; ret;",
        // A loop of as many passes for all, with what differs inside.
        "mov.u32 %r4, 0; L: bar.sync 0; @%p1 bra A; mov.u32 %r3, 1; A: bar.warp.sync -1;\n\
         add.s32 %r4, %r4, 1; setp.lt.u32 %p3, %r4, %r1; @%p3 bra L; bar.sync 0;",
        // A loop of which each thread has its own passes, before a wait.
        "mov.u32 %r4, %r2; L: add.s32 %r4, %r4, 5; setp.lt.u32 %p3, %r4, %r1; @%p3 bra L;\n\
         bar.warp.sync -1; bar.sync 0;",
        // What all of them have found out together.
        "L: vote.sync.any.pred %p3, %p1, -1; bar.sync 0; @%p3 bra L; bar.warp.sync -1;",
        // Those that execute it together.
        "@%p1 bra A; activemask.b32 %r3; add.s32 %r4, %r2, 1; shfl.sync.idx.b32 %r5, %r4, 0, 31, %r3;\n\
         vote.sync.any.pred %p3, %p1, %r3; A: bar.sync 0;",
        // Barriers for a number of threads wait by looking.
        "@%p1 bra A; bar.sync 1, 64; bra B; A: bar.sync 2, 32; B: bar.sync 0;",
        "@%p1 bar.arrive 3, 64; @!%p1 bar.sync 3, 64;",
        "barrier.sync 0; bar.sync 0; barrier.sync 3;",
        // By the block's size, or its number.
        "mov.u32 %r3, %ctaid.x; mov.u32 %r4, %ntid.x; mad.lo.u32 %r5, %r3, %r4, %r1;\n\
         setp.gt.u32 %p3, %r5, 9; @%p3 bra A; bar.warp.sync -1; A: bar.sync 0;",
        // What never changes may be computed on a way that some go.
        "mov.u32 %r4, 0; L: @%p1 bra A; shl.b32 %r5, %r1, 2; A: bar.warp.sync -1;\n\
         shl.b32 %r6, %r1, 1; add.s32 %r4, %r4, 1; setp.lt.u32 %p3, %r4, %r6; @%p3 bra L; bar.sync 0;",
    ];
    for statements in cases {
        assert_eq!(ends("", statements), Ends::Always, "{statements}");
    }
}

#[test]
fn kernels_that_may_not_end_are_not() {
    let cases = [
        // Lanes that come to one aligned barrier at different places, or more often.
        "@%p1 bra A; bar.sync 0; ret; A: bar.sync 0; ret;",
        "L: bar.sync 1; @%p1 bra L; bar.sync 0; ret;",
        // Different waits.
        "@%p1 bra A; bar.warp.sync -1; bra B; A: bar.sync 0; B: ret;",
        "@%p1 bra A; bar.warp.sync -1; A: bar.sync 0;",
        "@%p1 bar.warp.sync -1; bar.sync 0;",
        "@!%p1 bar.sync 0; bar.warp.sync -1;",
        "@%p1 bra A; bar.warp.sync -1; bra B; A: shfl.sync.bfly.b32 %r3, %r2, 1, 31, -1; B: ret;",
        // Different passes.
        "mov.u32 %r4, %r2; L: bar.sync 0; add.s32 %r4, %r4, 1; setp.lt.u32 %p3, %r4, %r1; @%p3 bra L;\n\
         bar.warp.sync -1;",
        // A counter that some write twice, or that has other values in them.
        "mov.u32 %r4, 0; L: bar.sync 0; @%p1 bra A; add.s32 %r4, %r4, 1; A: add.s32 %r4, %r4, 1;\n\
         setp.lt.u32 %p3, %r4, %r1; @%p3 bra L; bar.warp.sync -1;",
        "mov.u32 %r4, 0; L: bar.sync 0; @%p1 add.s32 %r4, %r4, 1; add.s32 %r4, %r4, 1;\n\
         setp.lt.u32 %p3, %r4, %r1; @%p3 bra L; bar.warp.sync -1;",
        "mov.u32 %r4, 0; M: add.s32 %r4, %r4, 1; setp.lt.u32 %p4, %r4, %r2; @%p4 bra M;\n\
         L: bar.sync 0; add.s32 %r4, %r4, 1; setp.lt.u32 %p3, %r4, %r1; @%p3 bra L; bar.warp.sync -1;",
        // From memory, which another thread may write meanwhile.
        "L: bar.sync 0; ld.global.u32 %r3, [%rd1]; setp.eq.u32 %p3, %r3, 0; @%p3 bra L; bar.warp.sync -1;",
        "mov.u32 %r3, %clock; setp.eq.u32 %p3, %r3, 0; @%p3 bra A; bar.warp.sync -1; A: bar.sync 0;",
        // (In shared memory, while the block reduces them.)
        "L: bar.red.or.pred %p3, 0, %p1; bar.warp.sync -1; @%p3 bra L; bar.sync 0;",
        // For some lanes.
        "bar.warp.sync 3;",
        "bar.warp.sync %r1;",
        "shfl.sync.idx.b32 %r3, %r2, 0, 31, %r1;",
        // Not only those that executed it together; or not with the mask of all of them.
        "activemask.b32 %r3; A: bar.warp.sync %r3; @%p1 bra A;",
        "activemask.b32 %r3; @%p1 bra A; bar.warp.sync %r3; A: ret;",
        "activemask.b32 %r3; @%p1 bar.warp.sync %r3;",
        "@%p1 activemask.b32 %r3; bar.warp.sync %r3;",
        "activemask.b32 %r3; or.b32 %r3, %r3, %r1; bar.warp.sync %r3;",
        "activemask.b32 %r3; bar.sync 0; bar.warp.sync %r3;",
        "activemask.b32 %r3; bar.warp.sync -1; bar.warp.sync %r3;",
        "activemask.b32 %r3; vote.sync.any.pred %p3, %p1, %r3; @%p3 bra A; bar.warp.sync -1; A: bar.sync 0;",
        // Lanes that do not come together for the device wait for it.
        "@%p1 bra A; barrier.sync 1, 64; A: bar.sync 0;",
        "@%p1 bra A; barrier.sync 0; bra B; A: bar.sync 0; B: ret;",
    ];
    for statements in cases {
        assert_eq!(ends("", statements), Ends::Unknown, "{statements}");
    }
}

#[test]
fn rows_of_threads_go_one_way_in_flat_blocks() {
    let tail = "@%p3 bra A; bar.warp.sync -1; A: bar.sync 0;";
    for (test, expected) in [
        ("setp.gt.u32 %p3, %r2, 31;", Ends::InFlatBlocks),
        ("setp.lt.u32 %p3, %r2, 64;", Ends::InFlatBlocks),
        (
            "shr.u32 %r3, %r2, 5; setp.ne.s32 %p3, %r3, 0;",
            Ends::InFlatBlocks,
        ),
        (
            "and.b32 %r3, %r2, 992; setp.ne.s32 %p3, %r3, 0;",
            Ends::InFlatBlocks,
        ),
        ("setp.gt.u32 %p3, %r2, 32;", Ends::Unknown),
        ("setp.lt.u32 %p3, %r2, 63;", Ends::Unknown),
        ("setp.eq.u32 %p3, %r2, 32;", Ends::Unknown),
        (
            "shr.u32 %r3, %r2, 4; setp.ne.s32 %p3, %r3, 0;",
            Ends::Unknown,
        ),
        (
            "and.b32 %r3, %r2, 31; setp.ne.s32 %p3, %r3, 0;",
            Ends::Unknown,
        ),
        (
            "mov.u32 %r4, %tid.y; shr.u32 %r3, %r4, 5; setp.ne.s32 %p3, %r3, 0;",
            Ends::Unknown,
        ),
    ] {
        let statements = format!("{test} {tail}");
        assert_eq!(ends("", &statements), expected, "{statements}");
    }
}

#[test]
fn functions_that_wait_are_waits() {
    let sum = ".func sum() { .reg .b32 %a; mov.u32 %a, 1; shfl.sync.bfly.b32 %a, %a, 1, 31, -1; ret; }\n\
               .func quiet() { ret; }\n\
               .func odd() { .reg .b32 %a; .reg .pred %q; mov.u32 %a, %tid.x; setp.lt.u32 %q, %a, 7;\n\
               @%q ret; bar.warp.sync -1; ret; }";
    for (statements, expected) in [
        ("call sum; bar.sync 0; call sum;", Ends::Always),
        ("@%p2 bra A; call sum; A: bar.sync 0;", Ends::Always),
        ("@%p1 bra A; call sum; A: bar.sync 0;", Ends::Unknown),
        (
            "@%p1 bra A; call quiet; A: bar.sync 0; call sum;",
            Ends::Always,
        ),
        // Some return without the wait, and go on to the next.
        ("call odd; bar.sync 0;", Ends::Unknown),
        ("call odd;", Ends::Unknown),
    ] {
        assert_eq!(ends(sum, statements), expected, "{statements}");
    }
}

#[test]
fn the_place_is_named() {
    let source = module(
        "",
        "nop_line:\n@%p1 bra A;\nbar.warp.sync -1;\nA: bar.sync 0;",
    );
    let text = fence(&source, FenceForm::Mask).unwrap().text;
    let found = verify_contained(&text).unwrap().waiting;
    assert_eq!((found.len(), &*found[0].kernel), (1, "k"));
    let line = text.lines().nth(found[0].line as usize - 1).unwrap();
    assert!(line.contains("@%p1 bra A"), "{line}");
}

/// How many kernels of real programs are proved to end. The folder is named by a
/// variable; without one, the corpora of the other tests are read.
#[test]
fn what_is_proved_of_corpora_is_counted() {
    let folder = std::env::var_os("CORPUS").map_or_else(
        || common::root().join("target/corpora"),
        std::path::PathBuf::from,
    );
    let paths = common::files(&folder, "ptx");
    assert!(!paths.is_empty(), "run `cargo xtask corpora`");
    let mut counts = BTreeMap::new();
    for path in &paths {
        let source = std::fs::read_to_string(path).expect("a readable file");
        let Ok(done) = fence(&source, FenceForm::Mask) else {
            continue;
        };
        // (What is refused is named by another test.)
        let Ok(found) = verify_contained(&done.text) else {
            continue;
        };
        let module = ptx::parse(&source).unwrap();
        let kernels = module.functions().filter(|function| function.is_entry);
        for kernel in kernels {
            let waiting = found.waiting.iter().find(|one| one.kernel == kernel.name);
            let ends = waiting.map_or(Ends::Always, |one| one.ends);
            let for_lanes = kernel.instructions().any(|one| {
                ptx::table::classify(one).is_some_and(|info| {
                    use ptx::table::Convergence as C;
                    matches!(info.convergence, C::Mask | C::Warp)
                })
            });
            *counts.entry((for_lanes, format!("{ends:?}"))).or_insert(0) += 1;
            if let (Some(one), Some(_)) = (waiting, std::env::var_os("CORPUS")) {
                let line = done.text.lines().nth(one.line as usize - 1).unwrap_or("");
                println!("{}: {} {:?} `{line}`", path.display(), one.kernel, one.ends);
            }
        }
    }
    println!("(waits for lanes, ends): kernels {counts:?}");
    let proved: u32 = counts
        .iter()
        .filter(|((_, ends), _)| ends == "Always")
        .map(|(_, count)| *count)
        .sum();
    assert!(proved > 0);
}
