//! What the pass `fence` makes is contained, and ptxas takes it; what it refuses
//! has a reason; and whatever is altered in a fence, the verifier notices.

use crate::common;

use instrument::{FenceError, FenceForm, fence, verify_contained};
use std::collections::BTreeMap;

const FORMS: [FenceForm; 3] = [FenceForm::Mask, FenceForm::Modulo, FenceForm::Check];

fn contained(what: &str, text: &str) {
    if let Err(errors) = verify_contained(text) {
        let all: Vec<String> = errors.iter().map(ToString::to_string).collect();
        panic!("{what}: not contained:\n{}\n{text}", all.join("\n"));
    }
}

/// Corpora of nvcc, Triton, Numba and others: what is fenced is contained and
/// assembled; how much is refused, and why, is no secret.
#[test]
fn corpora() {
    let folder = common::root().join("target/corpora");
    let paths = common::files(&folder, "ptx");
    assert!(!paths.is_empty(), "run `cargo xtask corpora`");
    let (mut fenced, mut reasons) = (0, BTreeMap::<String, u32>::new());
    for path in &paths {
        let what = path.display().to_string();
        let source = std::fs::read_to_string(path).expect("a readable file");
        for form in FORMS {
            match fence(&source, form) {
                Ok(done) => {
                    contained(&what, &done.text);
                    fenced += 1;
                    if form == FenceForm::Mask && common::assemble(&source).is_ok() {
                        let refused = common::assemble(&done.text).err();
                        assert_eq!(refused, None, "{what}: ptxas refuses");
                    }
                }
                Err(FenceError::Refused(refusals)) => {
                    for refusal in refusals {
                        *reasons.entry(refusal.reason).or_default() += 1;
                    }
                }
                Err(FenceError::Module(error)) => panic!("{what}: {error}"),
            }
        }
    }
    let mut reasons: Vec<(String, u32)> = reasons.into_iter().collect();
    reasons.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    for (reason, count) in reasons.iter().take(60) {
        println!("{count:6} {reason}");
    }
    println!("{fenced} of {} fenced", FORMS.len() * paths.len());
    assert!(fenced > 0);
}

/// A kernel with the statements of a test in it.
fn kernel(statements: &str) -> String {
    format!(
        ".version 8.0\n.target sm_90\n.address_size 64\n\
         .global .align 4 .b8 counter[8];\n.const .align 4 .b8 table[8];\n\
         .func other() {{ ret; }}\n\
         .visible .entry k(.param .u64 p, .param .align 4 .b8 values[8])\n{{\n\
         .reg .b64 %rd<4>; .reg .b32 %r<4>; .reg .pred %p; .shared .align 4 .b8 tile[8];\n\
         ld.param.u64 %rd1, [p]; mov.u32 %r2, %tid.x; mov.u64 %rd2, %rd1;\n{statements}\nret;\n}}\n"
    )
}

#[test]
fn what_cannot_be_contained_is_refused_by_name() {
    let cases = [
        ("brkpt;", "`brkpt` stops the device"),
        ("pmevent 1;", "`pmevent` counts events"),
        ("mov.u32 %r1, %pm0;", "reads `%pm0`"),
        ("mov.u32 %r1, %envreg3;", "reads `%envreg3`"),
        ("mov.u32 %r1, %cluster_ctaid.x;", "reads `%cluster_ctaid.x`"),
        ("new.instruction.u32 %r1, [%rd1];", "is not known"),
        ("ld.global.u32 %r1, [64];", "address is a number"),
        ("ld.global.u32 %r1, [counter+8];", "leaves `counter`"),
        ("ld.global.u32 %r1, [counter+-4];", "leaves `counter`"),
        ("ld.const.u32 %r1, [table+6];", "leaves `table`"),
        ("ld.const.u32 %r1, [%rd1];", "which variable it is in"),
        ("ld.local.u32 %r1, [%rd1];", "which variable it is in"),
        ("ld.param.u32 %r1, [values+8];", "leaves `values`"),
        ("ld.param.u32 %r1, [%rd1];", "which variable it is in"),
        (
            "add.s64 %rd2, %rd1, counter;",
            "uses the address of `counter`",
        ),
        ("cvta.param.u64 %rd2, values;", "pointer to a parameter"),
        (
            "cvta.const.u64 %rd2, table;",
            "generic pointer to a constant",
        ),
        (
            "pr: .callprototype _ (); call %rd1, pr;",
            "calls through a pointer",
        ),
        ("call k;", "which the module does not define"),
        ("call elsewhere;", "calls `elsewhere`"),
        (
            "ld.shared::cluster.u32 %r1, [%r2];",
            "other blocks of a cluster",
        ),
        ("mapa.u64 %rd2, %rd1, 1;", "is for clusters"),
        (
            "tex.1d.v4.f32.s32 {%r1, %r1, %r1, %r1}, [%rd1, {%r2}];",
            "may be forged",
        ),
        (
            "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [tile], [%rd1], %r1, [tile];",
            "size is in a register",
        ),
        ("st.u32 [%r1], 1;", "has no 64 bits"),
        ("bar.sync 16;", "no such barrier"),
        ("bar.sync 1, 33;", "no number of threads"),
        ("bar.arrive 1, 0;", "no number of threads"),
        ("barrier.sync 17, 64;", "no such barrier"),
        (
            "bar.sync 3; bar.sync 3, 64;",
            "is also one of the whole block",
        ),
        ("shfl.idx.b32 %r1, %r2, 0, 31;", "takes no mask of lanes"),
        ("vote.all.pred %p, %p;", "takes no mask of lanes"),
        (
            "ts: .branchtargets a; a: brx.idx %r1, us;",
            "`us` is no table",
        ),
    ];
    for (statements, reason) in cases {
        let source = kernel(statements);
        for form in FORMS {
            match fence(&source, form) {
                Err(FenceError::Refused(refusals)) => {
                    let found: Vec<String> = refusals.iter().map(ToString::to_string).collect();
                    assert!(
                        found.iter().any(|text| text.contains(reason)),
                        "`{statements}`: {found:?}"
                    );
                }
                other => panic!("`{statements}`: {other:?}"),
            }
        }
        // The verifier refuses it of its own.
        assert!(verify_contained(&source).is_err(), "{statements}");
    }
    assert!(matches!(
        fence(
            ".version 8.0\n.target sm_90\n.address_size 32\n",
            FenceForm::Mask
        ),
        Err(FenceError::Module(_))
    ));
    let fenced = fence(&kernel(""), FenceForm::Mask).unwrap();
    assert!(matches!(
        fence(&fenced.text, FenceForm::Mask),
        Err(FenceError::Module(_))
    ));
}

#[test]
fn items_that_cannot_be_contained_are_refused() {
    let cases = [
        (
            ".global .u64 p = k;",
            "address of `k`, which is not in global memory",
        ),
        (
            ".global .u64 p = generic(table);",
            "address of `table`, which is not in global memory",
        ),
        (
            ".global .u32 p = counter;",
            "in a form that is not understood",
        ),
        (
            ".global .b8 p[2] = {0x1FF(counter), 0};",
            "in a form that is not understood",
        ),
        (
            ".shared .u64 p = counter;",
            "in a form that is not understood",
        ),
        (
            ".global .u64 p[1] = {counter, counter};",
            "longer than the variable",
        ),
        (".extern .global .u32 elsewhere;", "another file"),
        (".const .align 4 .b8 large[65500];", "no room for a table"),
        (".global .texref image;", "textures cannot be contained"),
        (
            ".func a() { call b; ret; } .func b() { call a; ret; }",
            "calls itself",
        ),
        (".entry c() .explicitcluster { ret; }", "`.explicitcluster`"),
        (
            ".global .attribute(.managed) .u32 both;",
            "`both` has attributes",
        ),
    ];
    for (item, reason) in cases {
        let source = format!("{}{item}\n", kernel(""));
        let error = fence(&source, FenceForm::Mask).expect_err(item).to_string();
        assert!(error.contains(reason), "`{item}`: {error}");
        assert!(verify_contained(&source).is_err(), "{item}");
    }
}

/// Barriers that may not open for all that are left of a block, and masks that may
/// lack the lane that executes them.
#[test]
fn an_enemys_meetings_are_refused() {
    let source = kernel("ld.global.u32 %r1, [%rd1];");
    let fenced = fence(&source, FenceForm::Mask).unwrap().text;
    let load = "ld.global.u32 %r1, [%rd1];";
    assert!(fenced.contains(load), "{fenced}");
    let statements = [
        "bar.sync %r2;",
        "bar.sync 1;",
        "bar.sync 0, 64;",
        "bar.sync 0, %r2;",
        "bar.arrive 0, 64;",
        "barrier.sync 1;",
        "barrier.sync.aligned 0, 32;",
        "bar.red.popc.u32 %r1, 0, %p;",
        "bar.red.popc.u32 %r1, 1, %p;",
        "bar.red.popc.u32 %r1, 0, 64, %p;",
        "bar.red.popc.u32 %r1, %r2, %p;",
        "bar.warp.sync %r2;",
        "bar.warp.sync 1;",
        "mov.u32 %r3, %lanemask_lt; or.b32 %r3, %r3, %r2; bar.warp.sync %r3;",
        "mov.u32 %r3, %lanemask_eq; and.b32 %r3, %r3, %r2; bar.warp.sync %r3;",
        "shfl.sync.idx.b32 %r1, %r2, 0, 31, %r2;",
        "vote.sync.any.pred %p, %p, 3;",
    ];
    for statement in statements {
        let text = fenced.replacen(load, statement, 1);
        assert!(verify_contained(&text).is_err(), "it is accepted:\n{text}");
    }
}

/// Advice that a program could lie in is dropped, with its operands and guards,
/// and lines keep their numbers.
#[test]
fn advice_is_dropped() {
    let advice = [
        "discard.global.L2 [%rd1], 128;",
        "@%p discard.L2 [%rd1], 128;",
        "prefetch.global.L2 [%rd1];",
        "prefetchu.L1 [%rd1];",
        "@!%p prefetch.L2 [%rd1+64];",
        "cp.async.bulk.prefetch.L2.global [%rd1], 128;",
        "@%p cp.async.bulk.prefetch.L2.global [%rd1+64], %r1;",
        "cp.async.bulk.prefetch.L2.global.L2::cache_hint [%rd1], 64, %rd2;",
        "@!%p cp.async.bulk.prefetch.tensor.2d.L2.global.tile [%rd1, {%r1, %r2}];",
        "applypriority.global.L2::evict_normal [%rd1], 128;",
        "ld.global.L2::cache_hint.u32 %r1, [%rd1], %rd2;",
        "@%p st.global.L2::cache_hint.v2.u32 [%rd1], {%r1, %r2}, %rd2;",
        "atom.global.add.L2::cache_hint.u32 %r1, [%rd1], 1, %rd2;",
    ];
    for statements in advice {
        let source = kernel(&format!("{statements}\nbrx.idx %r1, none;"));
        let line = source
            .lines()
            .position(|line| line.contains("none"))
            .unwrap()
            + 1;
        let error = fence(&source, FenceForm::Mask).unwrap_err().to_string();
        assert_eq!(error.lines().count(), 1, "{error}");
        assert!(error.starts_with(&format!("line {line},")), "{error}");

        let source = kernel(statements);
        let text = fence(&source, FenceForm::Mask).unwrap().text;
        contained(statements, &text);
        for word in ["discard", "prefetch", "applypriority", "cache_hint"] {
            assert!(!text.contains(word), "{statements}:\n{text}");
        }
        common::assemble(&source).unwrap_or_else(|error| panic!("{statements}: {error}"));
        common::assemble(&text).unwrap_or_else(|error| panic!("{error}\n{text}"));
        assert!(verify_contained(&source).is_err(), "{statements}");
    }
    let items = [
        ".func stops() .noreturn { exit; }",
        ".entry e(.param .u64 .ptr .global .align 16 p) { ret; }",
        ".entry e(.param .u64 .ptr .shared .align 16 p, .param .u64 q) { ret; }",
    ];
    for item in items {
        let good = fence(&kernel(""), FenceForm::Mask).unwrap().text;
        let text = fence(&format!("{}{item}\n", kernel("")), FenceForm::Mask)
            .unwrap()
            .text;
        contained(item, &text);
        common::assemble(&text).unwrap_or_else(|error| panic!("{error}\n{text}"));
        // The verifier does not rely on that.
        assert!(
            verify_contained(&format!("{good}{item}\n")).is_err(),
            "{item}"
        );
    }
}

/// Barriers of the block are all the first one, and masks of lanes in registers are
/// forced into what the device has.
#[test]
fn what_lanes_meet_with_is_bounded() {
    let cases = [
        ("bar.sync %r2;", "bar.sync 0;"),
        ("@%p barrier.sync %r2;", "@%p barrier.sync 0;"),
        ("bar.sync 15;", "bar.sync 0;"),
        ("bar.red.popc.u32 %r1, %r2, %p;", "bar.sync 0;"),
        ("barrier.red.and.pred %p, 1, 64, !%p;", "atom.shared.add"),
        (
            "activemask.b32 %r2; bar.warp.sync %r2;",
            "bar.warp.sync %r2;",
        ),
        (
            "@%p activemask.b32 %r2; bar.warp.sync %r2;",
            "bar.warp.sync %__rf_lanes;",
        ),
        (
            "activemask.b32 %r2; L: bar.warp.sync %r2;",
            "bar.warp.sync %__rf_lanes;",
        ),
        (
            "activemask.b32 %r2; { .reg .b32 %r2; bar.warp.sync %r2; }",
            "bar.warp.sync %__rf_lanes;",
        ),
        ("bar.warp.sync %r2;", "bar.warp.sync %__rf_lanes;"),
        ("bar.warp.sync 15;", "bar.warp.sync %__rf_lanes;"),
        ("bar.warp.sync 0xffffffff;", "bar.warp.sync 0xffffffff;"),
        (
            "shfl.sync.idx.b32 %r1|%p, %r2, 0, 31, %r2;",
            "shfl.sync.idx.b32 %r1|%p, %r2, 0, 31, %__rf_lanes;",
        ),
        (
            "vote.sync.all.pred %p, %p, %r2;",
            "vote.sync.all.pred %p, %p, %__rf_lanes;",
        ),
        (
            "match.any.sync.b32 %r1, %r2, -1;",
            "match.any.sync.b32 %r1, %r2, -1;",
        ),
        (
            "redux.sync.add.u32 %r1, %r2, 7;",
            "redux.sync.add.u32 %r1, %r2, %__rf_lanes;",
        ),
    ];
    for (statement, expected) in cases {
        let source = kernel(&format!(
            "mov.u32 %r1, 1; setp.eq.u32 %p, %r1, %r2;\n{statement}"
        ));
        common::assemble(&source).unwrap_or_else(|error| panic!("{error}\n{source}"));
        let text = fence(&source, FenceForm::Mask).unwrap().text;
        assert!(text.contains(expected), "{statement}:\n{text}");
        contained(statement, &text);
        common::assemble(&text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    }
}

/// A generic access may be in a frame; one that is atomic or has an order may
/// not, because the device has none there.
#[test]
fn no_atomic_access_is_in_a_frame() {
    let frame = ".local .align 8 .b8 depot[64]; mov.u64 %rd3, depot; cvta.local.u64 %rd2, %rd3;";
    let plain = ["ld.u32 %r1, [%rd2];", "st.volatile.u32 [%rd2], %r1;"];
    let others = [
        "atom.add.u32 %r1, [%rd2], 1;",
        "red.max.u32 [%rd2], 1;",
        "ld.relaxed.gpu.u32 %r1, [%rd2];",
        "ld.acquire.sys.u32 %r1, [%rd2];",
        "st.release.gpu.u32 [%rd2], %r1;",
    ];
    let local = "isspacep.local";
    let fenced = |statement: &str| {
        let source = kernel(&format!("{frame}\nmov.u32 %r1, 1;\n{statement}"));
        fence(&source, FenceForm::Mask).unwrap().text
    };
    for statement in plain {
        let text = fenced(statement);
        contained(statement, &text);
        assert!(text.contains(local), "{text}");
        // What is right for it is wrong for the others.
        let access = text
            .lines()
            .find(|line| line.contains("[%__rf_a0]"))
            .unwrap();
        for other in others {
            let atomic = other.replace("%rd2", "%__rf_a0");
            let altered = text.replace(access, &atomic);
            assert_ne!(altered, text);
            assert!(verify_contained(&altered).is_err(), "{altered}");
        }
    }
    for statement in others {
        let text = fenced(statement);
        contained(statement, &text);
        assert!(!text.contains(local), "{text}");
    }
}

#[test]
fn each_form_is_assembled() {
    let statements = "setp.eq.s64 %p, %rd1, 0;\n@!%p ld.global.u32 %r1, [%rd1+4];\n\
                      @%p ld.v2.u64 {%rd2, %rd3}, [%rd2];\nst.u32 [%rd3+-4], %r1;\n\
                      @%p atom.global.add.u32 %r1, [counter], 1;\n\
                      cp.async.cg.shared.global [tile], [%rd1], 16;";
    // (The tile is too small for what is copied: a fence all the same.)
    for form in FORMS {
        let text = fence(&kernel(statements), form).unwrap().text;
        contained("all of it", &text);
        assert_eq!(common::assemble(&text).err(), None, "{form:?}:\n{text}");
    }
}

/// How lines begin that take the program's address in, or choose between two that
/// are inside: without them a fence is about another address, and as tight.
const INPUTS: [&str; 11] = [
    "brx.idx",
    "selp.b64",
    "mov.b64 {",
    "mov.u64 %__rf_t",
    "mov.b64 %__rf_a",
    "add.s64 %__rf_t",
    "add.s32 %__rf_s",
    "cvt.u32.u64",
    "isspacep",
    "cvta.to",
    "sub.s64",
];

/// Each other line of a fence is needed.
#[test]
fn no_line_of_a_fence_can_be_left_out() {
    let statements = "ld.global.u32 %r1, [%rd1+4];\nL1:\nld.v2.u64 {%rd2, %rd3}, [%rd2];\nL2:\n\
                      st.shared.u32 [%r2], %r1;\nL3:\ncvt.u64.u32 %rd2, %r2; mov.u64 %rd3, table; add.s64 %rd3, %rd3, %rd2;\n\
                      ld.const.u32 %r3, [%rd3];\nmov.b64 %rd3, values; add.s64 %rd3, %rd3, %rd2;\n\
                      ld.param.u32 %r3, [%rd3];\nL4:\nts: .branchtargets L1, L2, L3;\n\
                      @%p trap;\nbrx.idx %r3, ts;\nL5:\n@%p atom.global.add.u32 %r1, [counter], 1;";
    for form in FORMS {
        let text = fence(&kernel(statements), form).unwrap().text;
        contained("all of it", &text);
        let lines: Vec<&str> = text.lines().collect();
        let mut left_out = 0;
        for at in 0..lines.len() {
            // The program's own statements may share a line with the end of a fence.
            let is_of_fence = lines[at].contains("%__rf_") && !lines[at].contains("[%__rf_");
            let is_input = INPUTS
                .iter()
                .any(|begin| lines[at].trim().starts_with(begin));
            // What is recorded does not matter to containment.
            let is_recorded = lines[at].contains("%__rf_record");
            if !is_of_fence || is_input || is_recorded || lines[at].contains(".reg") {
                continue;
            }
            let mut rest = lines.clone();
            rest.remove(at);
            assert!(
                verify_contained(&rest.join("\n")).is_err(),
                "without `{}` it is contained:\n{text}",
                lines[at]
            );
            left_out += 1;
        }
        assert!(left_out > 20, "{left_out}");
    }
}

/// Text that no pass writes: names that stand for two things, and pieces of
/// fences that are not what they look like.
/// Accesses in shared memory by one register have one fence as long as each is
/// executed if one is; the block needs room for all of them, which the host gives it up
/// to a limit, and the code tests beyond.
#[test]
fn accesses_in_shared_memory_have_one_fence_together() {
    let rooms = |statements: &str| {
        let text = fence(&kernel(statements), FenceForm::Mask).unwrap().text;
        contained(statements, &text);
        let given = verify_contained(&text).unwrap().rooms;
        let given = given.first().map_or(0, |(_, bytes)| *bytes);
        let line = |line: &str| {
            let (begin, end) = ("sub.s32 %__rf_limit, %__rf_end, ", ";");
            let bytes = line.trim().strip_prefix(begin)?.strip_suffix(end)?;
            bytes.parse::<u32>().ok()
        };
        let lack = |line: &str| line.contains("setp.lt.u32 %__rf_go");
        let lacks = text.lines().filter(|line| lack(line)).count();
        (
            text.lines().filter_map(line).collect::<Vec<_>>(),
            given,
            lacks,
        )
    };
    let both = "st.shared.u32 [%r1+16], 1;\nst.shared.u32 [%r1], 1;";
    assert_eq!(rooms(both), (vec![20], 20, 0));
    let negative = "st.shared.u32 [%r1+-64], 1;\nld.shared.v2.u32 {%r2, %r3}, [%r1];";
    assert_eq!(rooms(negative), (vec![72], 72, 0));
    // The pointer is made anew; and a room for all in the place of the first.
    let anew = "ld.shared.u32 %r1, [%r1+8];\nst.shared.u32 [%r1+12], 1;\nst.shared.u32 [%r1], 1;";
    assert_eq!(rooms(anew), (vec![4, 16], 16, 0));
    // Not all are executed, or it is not known.
    let guarded = "st.shared.u32 [%r1+16], 1;\n@%p st.shared.u32 [%r1], 1;";
    assert_eq!(rooms(guarded), (vec![4, 4], 4, 0));
    let branch = "st.shared.u32 [%r1+16], 1;\n@%p bra L;\nst.shared.u32 [%r1], 1;\nL:";
    assert_eq!(rooms(branch), (vec![4, 4], 4, 0));
    let label = "@%p bra L;\nst.shared.u32 [%r1+16], 1;\nL:\nst.shared.u32 [%r1], 1;";
    assert_eq!(rooms(label), (vec![4, 4], 4, 0));
    let scope = "st.shared.u32 [%r1+16], 1;\n{\nst.shared.u32 [%r1], 1;\n}";
    assert_eq!(rooms(scope), (vec![4, 4], 4, 0));
    let leaves = "st.shared.u32 [%r1+16], 1;\n@%p exit;\nst.shared.u32 [%r1], 1;";
    assert_eq!(rooms(leaves), (vec![4, 4], 4, 0));
    // Where one is aligned, the others are not.
    let apart = "st.shared.v2.u32 [%r1], {%r2, %r2};\nst.shared.u32 [%r1+-4], 1;";
    assert_eq!(rooms(apart), (vec![8, 4], 8, 0));
    let far = "st.shared.u32 [%r1], 1;\nst.shared.u32 [%r1+1048576], 1;";
    assert_eq!(rooms(far).0, vec![4, 4]);
    let wide = "st.shared.u32 [%r1+1020], 1;\nst.shared.u32 [%r1], 1;";
    assert_eq!(rooms(wide), (vec![1024], 1024, 0));
    let wider = "st.shared.u32 [%r1+1024], 1;\nst.shared.u32 [%r1], 1;";
    assert_eq!(rooms(wider), (vec![1028], 0, 1));
    assert_eq!(rooms("ret;"), (vec![], 0, 0));
}

/// ptxas makes one load of four where it knows that they begin at a multiple of 16: the
/// fence keeps what is known of the address, and arrays begin at such multiples.
#[test]
fn accesses_in_shared_memory_stay_as_aligned_as_they_are() {
    let masks = |array: &str, statements: &str| {
        let text = kernel(&format!(
            ".shared .align 4 .b8 {array};\nmov.u32 %r3, rows;\n{statements}"
        ));
        let text = fence(&text, FenceForm::Mask).unwrap().text;
        contained(statements, &text);
        let raised = text.contains(".shared .align 16 .b8 rows");
        let mask = |line: &str| {
            let mask = line.trim().strip_prefix("and.b32 %__rf_s, %__rf_s, ")?;
            mask.strip_suffix(";")?.parse::<i32>().ok()
        };
        (text.lines().filter_map(mask).collect::<Vec<_>>(), raised)
    };
    let two = "ld.shared.u32 %r1, [%r3+4]; ld.shared.u32 %r1, [%r3];";
    let row = |bytes: u32| format!("mad.lo.s32 %r3, %r2, {bytes}, %r3;\n{two}");
    assert_eq!(masks("rows[1024]", &row(64)), (vec![-16], true));
    assert_eq!(masks("rows[1024]", &row(24)), (vec![-8], true));
    assert_eq!(masks("rows[1024]", &row(4)), (vec![-4], true));
    // Nothing is known of the index, or the first access is further on.
    assert_eq!(
        masks("rows[1024]", &format!("mov.u32 %r3, %r2;\n{two}")).0,
        [-4]
    );
    let further = "ld.shared.u32 %r1, [%r3+24]; ld.shared.u32 %r1, [%r3+28];";
    assert_eq!(masks("rows[1024]", further).0, [-8]);
    // Arrays that are placed as they are declared: others could come to lie behind a gap.
    assert_eq!(masks("rows[1020]", &row(64)), (vec![-4], false));
    assert_eq!(masks("rows[48128]", &row(64)), (vec![-4], false));
}

#[test]
fn an_enemys_text_is_refused() {
    // (The pointer is seen, so that its access has a fence.)
    let source = kernel(
        "setp.eq.s64 %p, %rd1, 0;\nld.global.u32 %r1, [%rd1];\nL:\n@%p st.shared.u32 [%r2], 1;\nst.shared.u32 [%r1+2000], 1;\nst.shared.u32 [%r1], 1;",
    );
    let fenced = fence(&source, FenceForm::Mask).unwrap().text;
    contained("as the pass wrote it", &fenced);
    let load = "ld.global.u32 %r1, [%__rf_a0+0];";
    let mask = "ld.const.b32 %__rf_mask, [__ringfence_fence+20];";
    let first = ".reg .b64 %rd<4>;";
    let take = "mov.b64 {%__rf_lo, %__rf_hi}, %rd1;";
    let room = "setp.lt.u32 %__rf_go, %__rf_total, 2004;";
    let leave = "@%__rf_go exit;";
    for text in [load, mask, first, take, room, leave] {
        assert!(fenced.contains(text), "{fenced}");
    }
    let replaced = |old: &str, new: &str| fenced.replacen(old, new, 1);
    let cases = [
        // Another register under the name of one that is computed once.
        replaced(
            load,
            "{ .reg .b32 %__rf_mask; lop3.b32 %__rf_hi, %__rf_hi, %__rf_mask, %__rf_base, 0xea; mov.b64 %__rf_a0, {%__rf_lo, %__rf_hi}; ld.global.u32 %r1, [%__rf_a0]; }",
        ),
        // A variable in the place of the table.
        replaced(first, ".reg .b64 %rd<4>; .reg .b64 __ringfence_fence;"),
        replaced(
            first,
            ".reg .b64 %rd<4>; .shared .b8 __ringfence_fence[40];",
        ),
        // A register in the place of a variable.
        replaced(
            load,
            "{ .reg .b64 table; mov.u64 %__rf_f, table; min.u64 %__rf_t, %rd1, 4; add.s64 %__rf_t, %__rf_t, %__rf_f; ld.const.u32 %r1, [%__rf_t]; }",
        ),
        replaced(first, ".reg .b64 %rd<4>; .reg .b32 %total_smem_size;"),
        // What is computed once is computed twice, late, or perhaps.
        replaced(take, &format!("B: {take}")).replacen(
            load,
            &format!("{load} mov.u32 %__rf_mask, %r1; @%p bra B;"),
            1,
        ),
        replaced(mask, &format!("@%p {mask}")),
        replaced(mask, &format!("@%p bra L; {mask}")),
        replaced(mask, &format!("Q: {mask} @%p bra Q;")),
        replaced(mask, "ld.const.b32 %__rf_mask, [__ringfence_fence+12];"),
        replaced(mask, "ld.const.b32 %__rf_mask, [table+4];"),
        // A jump into a fence; a fence that is left out for some threads.
        replaced(take, &format!("@%p bra L2; {take}")).replacen(load, &format!("L2: {load}"), 1),
        replaced("lop3.b32", "@%p lop3.b32"),
        // A fence of fewer bytes, or of another alignment.
        replaced(load, "ld.global.v2.u64 {%rd2, %rd3}, [%__rf_a0+0];"),
        replaced(load, "ld.global.u32 %r1, [%__rf_a0+2];"),
        replaced(load, "ld.global.u32 %r1, [%__rf_a0+68719476736];"),
        // Of an access that the host gives room for.
        replaced(
            "sub.s32 %__rf_limit, %__rf_end, 4;",
            "sub.s32 %__rf_limit, %__rf_end, 3;",
        ),
        replaced("sub.s32 %__rf_limit, %__rf_end, 4;", ""),
        // Of the fence that two accesses have together.
        replaced(room, "setp.lt.u32 %__rf_go, %__rf_total, 2000;"),
        replaced(room, "setp.lt.u32 %__rf_go|%p, %__rf_total, 2004;"),
        replaced(room, "setp.lt.u32 %__rf_go, %__rf_low, 2004;"),
        replaced(
            room,
            &format!("{room} @%p setp.lt.u32 %__rf_go, %r1, 2004;"),
        ),
        replaced(leave, ""),
        replaced(leave, "@!%__rf_go exit;"),
        replaced(leave, "@%p exit;"),
        replaced(leave, &format!("{leave} Q:")),
        replaced(leave, &format!("@%p bra Q; {leave} Q:")),
        replaced("[%__rf_group0+0]", "[%__rf_group0+2004]"),
        replaced("[%__rf_group0+0]", "[%__rf_group0+-4]"),
        replaced("[%__rf_group0+0]", "[%__rf_group0+2]"),
        replaced(
            "st.shared.u32 [%__rf_group0+2000], 1;",
            "st.shared.v2.u32 [%__rf_group0+2000], {1, 1};",
        ),
        replaced(
            "sub.s32 %__rf_limit, %__rf_end, 2004;",
            "sub.s32 %__rf_limit, %__rf_end, 2000;",
        ),
        // Addresses of instructions that are no accesses.
        replaced(
            load,
            "fence.proxy.tensormap::generic.acquire.gpu [%rd1], 128;",
        ),
        replaced(
            ".const .align 8 .b8 __ringfence_fence[56];",
            ".global .align 8 .b8 __ringfence_fence[56];",
        ),
        replaced(
            ".const .align 8 .b8 __ringfence_fence[56];",
            ".const .align 8 .b8 __ringfence_fence[56] = {0};",
        ),
        replaced(
            ".const .align 8 .b8 __ringfence_fence[56];",
            ".visible .const .align 8 .b8 __ringfence_fence[56];",
        ),
        replaced(".const .align 8 .b8 __ringfence_fence[56];", ""),
        format!(
            "{fenced}.extern .shared .align 4 .b8 more[64];\n.visible .entry e() {{ st.shared.u32 [more+4], 1; ret; }}\n"
        ),
        format!("{fenced}.pragma \"nounroll\";\n"),
    ];
    for text in cases {
        assert_ne!(text, fenced);
        assert!(verify_contained(&text).is_err(), "it is accepted:\n{text}");
    }
}
