//! Pointers that are fenced where they are made: which are, that ptxas takes
//! them, and that the verifier refuses whatever looks like one and is none.

use crate::common;

use instrument::{FenceForm, fence, verify_contained};

const FORMS: [FenceForm; 2] = [FenceForm::Mask, FenceForm::Modulo];

/// A product of matrices, as nvcc writes it: one pointer steps by 16, another by
/// a number that is only known at the launch.
const LOOP: &str = "\
mul.wide.s32 %rd4, %r1, 4;
add.s64 %rd5, %rd1, %rd4;
mul.wide.s32 %rd6, %r2, 4;
mov.u64 %rd7, %rd2;
L1:
ld.global.u32 %r3, [%rd5];
ld.global.v4.u32 {%r4, %r5, %r6, %r7}, [%rd7+16];
add.s64 %rd8, %rd5, %rd6;
ld.global.u32 %r3, [%rd8+4];
add.s64 %rd5, %rd8, %rd6;
add.s64 %rd7, %rd7, 16;
add.s32 %r2, %r2, -3;
setp.ne.s32 %p, %r2, 0;
@%p bra L1;
add.s64 %rd9, %rd3, %rd4;
st.global.u32 [%rd9], %r3;
";

fn kernel(statements: &str) -> String {
    format!(
        ".version 8.0\n.target sm_90\n.address_size 64\n\
         .visible .entry k(.param .u64 a, .param .u64 b, .param .u64 c, .param .u32 n)\n{{\n\
         .reg .b64 %rd<20>; .reg .b32 %r<10>; .reg .pred %p;\n\
         ld.param.u64 %rd1, [a]; ld.param.u64 %rd2, [b]; ld.param.u64 %rd3, [c];\n\
         ld.param.u32 %r2, [n]; mov.u32 %r1, %tid.x;\n{statements}ret;\n}}\n"
    )
}

fn fenced(source: &str, form: FenceForm) -> String {
    let text = fence(source, form).unwrap().text;
    if let Err(errors) = verify_contained(&text) {
        panic!("{errors:?}\n{text}");
    }
    text
}

/// How many fences by the form that masks are in a text.
fn masks(text: &str) -> usize {
    text.matches("lop3.b32").count()
}

#[test]
fn pointers_are_fenced_where_they_are_made_and_their_accesses_stay() {
    let source = kernel(LOOP);
    for form in FORMS {
        let text = fenced(&source, form);
        for access in ["[%rd5];", "[%rd7+16];", "[%rd8+4];", "[%rd9], %r3;"] {
            assert!(text.contains(access), "{access} is gone:\n{text}");
        }
        assert_eq!(common::assemble(&text).err(), None);
    }
    let text = fenced(&source, FenceForm::Mask);
    // One parameter; two pointers of the loop, where they begin and step.
    assert_eq!(masks(&text), 5, "{text}");
    // What steps by a multiple of its alignment needs no mask of its low bits.
    assert!(
        text.contains(
            "add.s64 %__rf_r, %rd7, 16;\n\tmov.b64 {%__rf_lo, %__rf_hi}, %__rf_r;\n\t\
         lop3.b32 %__rf_hi, %__rf_hi, %__rf_mask, %__rf_base, 0xea;\n\t\
         mov.b64 %__rf_a0, {%__rf_lo, %__rf_hi};\n\tmov.b64 %rd7, %__rf_a0;"
        ),
        "{text}"
    );
}

/// A fence of a register that the program looks at would be seen.
#[test]
fn what_is_seen_is_fenced_at_its_access() {
    let seen = [
        "setp.eq.s64 %p, %rd1, 0; @%p bra E;\nld.global.u32 %r3, [%rd1];\nE:\n",
        "ld.global.u32 %r3, [%rd1]; st.global.u64 [%rd2], %rd1;\n",
        "ld.global.u32 %r3, [%rd1]; sub.s64 %rd4, %rd1, %rd2; cvt.u32.u64 %r3, %rd4;\n",
        "@%p mov.u64 %rd1, %rd2; ld.global.u32 %r3, [%rd1];\n",
        "{ .reg .b64 %x; mov.u64 %x, %rd1; ld.global.u32 %r3, [%x]; }\n",
    ];
    for statements in seen {
        for form in FORMS {
            let text = fenced(&kernel(statements), form);
            let is_at_access = text.contains("[%__rf_a0+0]");
            assert!(is_at_access, "`{statements}`: no fence:\n{text}");
            let is_at_load = text.contains("ld.param.u64 %__rf_r, [a]");
            assert!(!is_at_load, "`{statements}`: it is changed:\n{text}");
        }
    }
}

/// What may lie anywhere, as long as a sum with it does not, is not changed.
#[test]
fn only_what_lies_in_the_partition_is_fenced() {
    let load = "ld.global.u64 %rd4, [%rd2];";
    let unbounded = format!("{load} add.s64 %rd5, %rd1, %rd4; ld.global.u32 %r3, [%rd5];\n");
    let text = fenced(&kernel(&unbounded), FenceForm::Mask);
    assert!(text.contains("ld.param.u64 %rd1, [a];"), "{text}");
    assert!(text.contains("add.s64 %__rf_r, %rd1, %rd4;"), "{text}");
    // It is no parameter, and nothing is accessed there; and a twin where it is.
    let derived = format!(
        "{load} mul.wide.s32 %rd5, %r1, 4; add.s64 %rd6, %rd4, %rd5; ld.global.u32 %r3, [%rd6];\n"
    );
    let text = fenced(&kernel(&derived), FenceForm::Mask);
    assert!(text.contains(load), "{text}");
    assert!(text.contains("add.s64 %__rf_r, %rd4, %rd5;"), "{text}");
    let accessed = format!("{derived}ld.global.u32 %r3, [%rd4];\n");
    let text = fenced(&kernel(&accessed), FenceForm::Mask);
    assert!(text.contains("ld.global.u64 %__rf_r, [%rd2];"), "{text}");
    assert!(text.contains("add.s64 %rd6, %rd4, %rd5;"), "{text}");
}

/// An access that is aligned as the text alone does not say is aligned there.
#[test]
fn alignment_is_forced_where_it_is_needed() {
    let statements = "mul.wide.s32 %rd4, %r1, 4; add.s64 %rd5, %rd1, %rd4;\n\
                      ld.global.u32 %r3, [%rd5]; ld.global.v2.u32 {%r4, %r5}, [%rd5];\n\
                      shl.b32 %r6, %r1, 1; mul.wide.s32 %rd6, %r6, 4; add.s64 %rd7, %rd2, %rd6;\n\
                      ld.global.v2.u32 {%r4, %r5}, [%rd7+8];\n";
    let text = fenced(&kernel(statements), FenceForm::Mask);
    assert!(text.contains("ld.global.u32 %r3, [%rd5];"), "{text}");
    assert!(text.contains("and.b64 %__rf_a0, %rd5, -8;"), "{text}");
    assert!(
        text.contains("ld.global.v2.u32 {%r4, %r5}, [%rd7+8];"),
        "{text}"
    );
    assert_eq!(common::assemble(&text).err(), None);
}

/// Numbers and vectors by one pointer, whose index reaches as far as any: forcing the
/// alignment of the vectors takes it a little farther.
#[test]
fn alignment_is_forced_at_the_farthest_index() {
    let statements = "mul.wide.s32 %rd4, %r1, 16;\nadd.s64 %rd5, %rd1, %rd4;\n\
                      ld.global.v4.u32 {%r4, %r5, %r6, %r7}, [%rd5];\n\
                      st.global.u32 [%rd1+4], %r4;\n";
    for form in FORMS {
        let text = fenced(&kernel(statements), form);
        assert!(text.contains("and.b64 %__rf_a0, %rd5, -16;"), "{text}");
    }
}

/// The thread is retired in place of the trap, so that nothing comes to what is behind.
#[test]
fn what_stands_behind_a_trap_may_be_anything() {
    let statements = "mul.wide.s32 %rd4, %r1, 4;\nadd.s64 %rd5, %rd1, %rd4;\n\
                      ld.global.u32 %r3, [%rd5];\nsetp.ne.s32 %p, %r3, 0;\n@%p bra L;\n\
                      trap;\nld.global.u32 %r3, [%rd5];\nL:\nst.global.u32 [%rd5], %r3;\n";
    for form in FORMS {
        let text = fenced(&kernel(statements), form);
        assert!(text.contains("exit;\nld.global.u32 %r3, [%rd5];"), "{text}");
    }
}

/// Each line of the fence of a pointer is needed.
#[test]
fn no_line_can_be_left_out() {
    for form in FORMS {
        let text = fenced(&kernel(LOOP), form);
        let lines: Vec<&str> = text.lines().collect();
        let mut left_out = 0;
        for at in 0..lines.len() {
            let line = lines[at].trim();
            // Without these a fence is about another address, and as tight; or a
            // pointer of the loop stays where it began.
            let inputs = [
                "sub.s64",
                "mov.b64 {%__rf_lo",
                "mov.b64 %__rf_a0",
                "mov.b64 %rd5",
                "mov.b64 %rd7",
            ];
            let is_input = inputs.iter().any(|input| line.starts_with(input));
            let is_of_fence = line.contains("%__rf_") && !line.contains(".reg");
            if !is_of_fence || is_input || line.contains("%__rf_r,") {
                continue;
            }
            let mut rest = lines.clone();
            rest.remove(at);
            assert!(
                verify_contained(&rest.join("\n")).is_err(),
                "without `{line}` it is contained:\n{}",
                rest.join("\n")
            );
            left_out += 1;
        }
        assert!(left_out > 8, "{left_out}");
    }
}

/// What enemies put in the place of a line of the fenced loop.
const LOAD: &str = "ld.global.u32 %r3, [%rd8+4];";
const INDEX: &str = "mul.wide.s32 %rd4, %r1, 4;";
const MADE: &str = "mov.b64 %rd3, %__rf_a0;";
const SUM: &str = "add.s64 %rd9, %rd3, %rd4;";
const STEP: &str = "add.s64 %__rf_r, %rd7, 16;";
const DECLARED: &str = ".reg .pred %p;";

fn altered(old: &str, new: &str) -> String {
    let text = fenced(&kernel(LOOP), FenceForm::Mask);
    assert!(text.contains(old), "no `{old}` in:\n{text}");
    text.replacen(old, new, 1)
}

fn refused(cases: &[(&str, &str)]) {
    for (old, new) in cases {
        let text = altered(old, new);
        assert!(
            verify_contained(&text).is_err(),
            "`{new}` is accepted:\n{text}"
        );
    }
}

/// Another value in a pointer, on some path at least; or another register of its
/// name.
#[test]
fn an_enemys_values_are_refused() {
    refused(&[
        // Before, behind, perhaps, in a vector.
        (MADE, "mov.b64 %rd3, %__rf_r;"),
        (INDEX, "mul.wide.s32 %rd4, %r1, 4; mov.u64 %rd5, %rd10;"),
        ("ret;", "mov.u64 %rd5, %rd10; bra L1; ret;"),
        (
            LOAD,
            "@%p mov.u64 %rd8, %rd10; ld.global.u32 %r3, [%rd8+4];",
        ),
        ("ret;", "ld.global.v2.u64 {%rd5, %rd11}, [%rd9]; bra L1;"),
        // A path on which it is not made, or what is added is not.
        (MADE, "@%p bra A; mov.b64 %rd3, %__rf_a0; A:"),
        (INDEX, "@%p bra L1; mul.wide.s32 %rd4, %r1, 4;"),
        (INDEX, "@%p bra A; mul.wide.s32 %rd4, %r1, 4; A:"),
        (LOAD, "{ .reg .b64 %rd8; ld.global.u32 %r3, [%rd8+4]; }"),
        (DECLARED, ".reg .pred %p; .reg .b64 %rd5;"),
        (DECLARED, ".reg .pred %p; .reg .b64 %rd<5>;"),
    ]);
}

/// Sums that lead too far, have no bounds, or are not aligned.
#[test]
fn an_enemys_sums_are_refused() {
    refused(&[
        (INDEX, "mul.wide.s32 %rd4, %r1, 128;"),
        (INDEX, "mul.wide.s32 %rd4, %r1, %r2;"),
        (INDEX, "ld.param.u64 %rd4, [a];"),
        (INDEX, "cvt.s64.s32 %rd4, %r1; shl.b64 %rd4, %rd4, 8;"),
        (LOAD, "ld.global.u32 %r3, [%rd8+34359738368];"),
        (STEP, "add.s64 %rd7, %rd7, 16; mov.u64 %__rf_r, %rd7;"),
        (SUM, "add.s64 %rd9, %rd3, %rd1;"),
        (SUM, "add.s64 %rd9, %rd3, %rd3;"),
        (SUM, "sub.s64 %rd9, %rd4, %rd3;"),
        (INDEX, "mul.wide.s32 %rd4, %r1, 2;"),
        (LOAD, "ld.global.u64 %rd12, [%rd8+8];"),
        (LOAD, "ld.global.u32 %r3, [%rd8+2];"),
        (STEP, "add.s64 %__rf_r, %rd7, 8;"),
    ]);
}

/// What is as right as what the pass writes.
#[test]
fn other_pointers_are_accepted() {
    let twins = [
        altered(INDEX, "mul.wide.s32 %rd4, %r1, 16;"),
        altered(INDEX, "mul.wide.u32 %rd4, %r1, 4;"),
        altered(INDEX, "cvt.s64.s32 %rd13, %r1; shl.b64 %rd4, %rd13, 3;"),
        altered(
            LOAD,
            "@%p mov.u64 %rd8, %rd14; ld.global.u32 %r3, [%rd8+4];",
        )
        .replacen(
            INDEX,
            "mul.wide.s32 %rd4, %r1, 4; mov.u64 %rd14, %rd3; setp.eq.s32 %p, %r1, 0;",
            1,
        ),
        altered(LOAD, "ld.global.u32 %r3, [%rd8+1073741824];"),
        altered(SUM, "sub.s64 %rd9, %rd3, %rd4;"),
        altered(LOAD, "{ .reg .b64 %x; ld.global.u32 %r3, [%rd8+4]; }"),
    ];
    for text in twins {
        if let Err(errors) = verify_contained(&text) {
            panic!("{errors:?}\n{text}");
        }
    }
}

/// Text whose invariants take many walks is judged, or refused, in a time that is
/// in proportion to it.
/// An index that is 0 first, and then of any kind, by an instruction that stands further
/// down: the first guess about it is too strong.
#[test]
fn what_stands_further_down_weakens_a_guess() {
    let source = kernel(
        "mov.u32 %r3, 0;\n\
         L1:\n\
         cvt.s64.s32 %rd4, %r3;\n\
         setp.ne.s32 %p, %r2, 0;\n\
         @%p bra L2;\n\
         add.s32 %r1, %r1, 2;\n\
         L2:\n\
         shl.b64 %rd5, %rd4, 2;\n\
         add.s64 %rd6, %rd1, %rd5;\n\
         ld.global.u32 %r4, [%rd6];\n\
         add.s32 %r3, %r1, 1;\n\
         setp.lt.s32 %p, %r4, 7;\n\
         @%p bra L1;\n",
    );
    for form in FORMS {
        let text = fenced(&source, form);
        assert!(text.contains("[%rd6];"), "{text}");
    }
    // With wider elements the address may be unaligned, and is no longer accepted.
    let text = fenced(&source, FenceForm::Mask);
    let wider = text.replace("ld.global.u32 %r4, [%rd6];", "ld.global.u64 %rd7, [%rd6];");
    assert_ne!(text, wider);
    assert!(verify_contained(&wider).is_err(), "{wider}");
}

/// Two pointers into the frame of a kernel that change places, as lists do that are read
/// and written in turn.
#[test]
fn what_changes_places_in_a_frame_stays_in_it() {
    let source = kernel(
        ".local .align 8 .b8 frame[64];\n\
         mov.u64 %rd4, frame; add.s64 %rd5, %rd4, 32;\n\
         st.local.u32 [frame], %r1; st.local.u32 [frame+32], %r1;\n\
         L1:\n\
         mov.u64 %rd6, %rd4; mov.u64 %rd4, %rd5; mov.u64 %rd5, %rd6;\n\
         ld.local.u32 %r3, [%rd4+4];\n\
         st.local.u32 [%rd5], %r3;\n\
         setp.ne.s32 %p, %r3, 0;\n\
         @%p bra L1;\n\
         st.global.u32 [%rd1], %r3;\n",
    );
    for form in FORMS {
        let text = fenced(&source, form);
        let bound = "min.u64 %__rf_a0, %__rf_a0, 60;";
        assert!(text.contains(bound), "{text}");
        assert!(verify_contained(&text.replacen(bound, "", 1)).is_err());
    }
}

/// A pointer into one of two constant variables, which moves.
#[test]
fn what_is_selected_from_constants_stays_in_them() {
    let source = kernel(
        "setp.ne.s32 %p, %r1, 0;\n\
         mov.u64 %rd4, long; mov.u64 %rd5, short; selp.b64 %rd6, %rd5, %rd4, %p;\n\
         L1:\n\
         ld.const.u32 %r3, [%rd6+4];\n\
         add.s64 %rd6, %rd6, 4;\n\
         setp.ne.s32 %p, %r3, 0;\n\
         @%p bra L1;\n\
         st.global.u32 [%rd1], %r3;\n",
    );
    let variables = ".const .align 8 .b8 long[64];\n.const .align 4 .b8 short[24];\n";
    let source = source.replace(".visible", &format!("{variables}.visible"));
    for form in FORMS {
        let text = fenced(&source, form);
        let enemies = [
            ("min.u64 %__rf_u, %__rf_u, 20;", ""),
            (
                "min.u64 %__rf_u, %__rf_u, 20;",
                "min.u64 %__rf_u, %__rf_u, 21;",
            ),
            (
                "add.s64 %__rf_u, %__rf_u, %__rf_f;",
                "mov.u64 %__rf_u, %__rf_t;",
            ),
            ("selp.b64 %__rf_a0, %__rf_u,", "selp.b64 %__rf_a0, %__rf_t,"),
            (
                "selp.b64 %__rf_a0, %__rf_u, %__rf_a0,",
                "selp.b64 %__rf_a0, %__rf_u, %__rf_t,",
            ),
        ];
        for (old, new) in enemies {
            assert!(text.contains(old), "no `{old}` in:\n{text}");
            let altered = text.replacen(old, new, 1);
            assert!(
                verify_contained(&altered).is_err(),
                "`{new}` is accepted:\n{altered}"
            );
        }
    }
    // A pointer that comes from elsewhere may be in any variable.
    let elsewhere = source.replace("mov.u64 %rd5, short;", "ld.global.u64 %rd5, [%rd2];");
    let error = fence(&elsewhere, FenceForm::Mask).unwrap_err();
    let said = error.to_string();
    assert!(said.contains("it is not known which variable"), "{said}");
}

#[test]
fn long_chains_end() {
    let mut statements = String::new();
    for number in (1..3000).rev() {
        statements += &format!(
            "M{number}:\nmov.u64 %x{number}, %x{};\n@%p bra M{};\n",
            number - 1,
            number / 2 + 1
        );
    }
    let source =
        kernel(&statements).replace(".reg .pred %p;", ".reg .pred %p; .reg .b64 %x<3000>;");
    let start = std::time::Instant::now();
    let _ = verify_contained(&source.replacen("ret;", "ld.global.u32 %r1, [%x2999]; ret;", 1));
    assert!(start.elapsed().as_secs() < 20, "{:?}", start.elapsed());
}

/// Two pointers that move through a loop whose passes are counted ahead: one by a register,
/// in two steps, as compilers unroll loops.
const MOVING: &str = "\
mul.wide.s32 %rd4, %r1, 4;
mul.wide.s32 %rd6, %r2, 4;
add.s64 %rd5, %rd1, %rd4;
mov.u64 %rd7, %rd2;
mov.u32 %r6, 100;
L1:
ld.global.u32 %r3, [%rd5];
add.s64 %rd8, %rd5, %rd6;
ld.global.u32 %r4, [%rd8+4];
st.global.v4.u32 [%rd7], {%r3, %r4, %r3, %r4};
add.s64 %rd5, %rd8, %rd6;
add.s64 %rd7, %rd7, 16;
add.s32 %r6, %r6, -1;
setp.ne.s32 %p, %r6, 0;
@%p bra L1;
add.s64 %rd9, %rd3, %rd4;
st.global.u32 [%rd9], %r3;
";

/// The loop of a text, and what is before it.
fn near(text: &str) -> (&str, &str) {
    let (before, rest) = text.split_once("$__rf_near_").unwrap();
    (before, rest.split_once("$__rf_out_").unwrap().0)
}

#[test]
fn pointers_that_move_are_fenced_before_the_loop() {
    for form in [FenceForm::Mask, FenceForm::Modulo] {
        let text = fenced(&kernel(MOVING), form);
        let (before, inside) = near(&text);
        assert!(!inside.contains("%__rf_r"), "{text}");
        for made in ["mov.b64 %rd5, %__rf_a0;", "mov.b64 %rd7, %__rf_a0;"] {
            assert_eq!(before.matches(made).count(), 2, "{made}\n{text}");
        }
        assert_eq!(common::assemble(&text).err(), None);
    }
    // What is added may be anything; or leads too far together with an index.
    let changes = MOVING.replace("mul.wide.s32 %rd6, %r2, 4;", "ld.param.u64 %rd6, [c];");
    let changes = changes.replace("ld.global.u32 %r4, [%rd8+4];\n", "");
    let index = MOVING.replace(
        "add.s64 %rd8, %rd5, %rd6;",
        "mul.wide.s32 %rd10, %r3, 16; add.s64 %rd11, %rd5, %rd10; ld.global.u32 %r5, [%rd11];\n\
         add.s64 %rd8, %rd5, %rd6;",
    );
    for other in [changes, index] {
        fenced(&kernel(&other), FenceForm::Mask);
    }
}

#[test]
fn an_enemys_moves_are_refused() {
    let text = fenced(&kernel(MOVING), FenceForm::Mask);
    let (_, inside) = near(&text);
    let limit = "add.s64 %__rf_wide, %rd6, ";
    let limited = text.lines().find(|line| line.contains(limit)).unwrap();
    let compared = text
        .lines()
        .find(|line| line.contains("setp.gt.or.u64"))
        .unwrap();
    let counted = text
        .lines()
        .find(|line| line.contains("setp.ge.u32 %__rf_due, %__rf_ahead"))
        .unwrap();
    let entry = |register: &str| {
        let fence = text
            .split_once(&format!("mov.b64 %__rf_r, {register};"))
            .unwrap()
            .1;
        fence.split_once(';').unwrap();
        format!("mov.b64 {register}, %__rf_a0;\n\t")
    };
    // The last of the lines before the loop that make a pointer.
    let without = |line: &str| {
        let at = text.find("$__rf_near_").unwrap();
        let from = text[..at].rfind(line).unwrap();
        format!("{}{}", &text[..from], &text[from + line.len()..])
    };
    let replaced = |old: &str, new: &str| {
        assert!(text.contains(old), "no `{old}` in\n{text}");
        text.replacen(old, new, 1)
    };
    let within = |old: &str, new: &str| {
        assert!(inside.contains(old), "no `{old}` in\n{inside}");
        text.replacen(inside, &inside.replacen(old, new, 1), 1)
    };
    let cases = [
        without(&entry("%rd5")),
        without(&entry("%rd7")),
        without(limited),
        without(compared),
        replaced(compared, &compared.replace("gt", "lt")),
        replaced(compared, &compared.replace(".or.", ".and.")),
        replaced(limited, &limited.replace("%rd6", "%rd4")),
        // So many passes, or so far in each, that all together lead out.
        replaced(counted, "\tsetp.ge.u32 %__rf_due, %__rf_ahead, 20000000;"),
        within("add.s64 %rd7, %rd7, 16;", "add.s64 %rd7, %rd7, 1073741824;"),
        within("add.s64 %rd7, %rd7, 16;", "add.s64 %rd7, %rd7, 4;"),
        within("add.s64 %rd7, %rd7, 16;", "add.s64 %rd7, %rd7, %rd4;"),
        within("add.s64 %rd7, %rd7, 16;", "shl.b64 %rd7, %rd7, 4;"),
        within(
            "add.s64 %rd7, %rd7, 16;",
            "add.s64 %rd7, %rd7, 16; add.s64 %rd7, %rd7, 16;",
        ),
        within("add.s64 %rd7, %rd7, 16;", "@%p add.s64 %rd7, %rd7, 16;"),
        // What is added changes, or another register is meant.
        within(
            "add.s64 %rd7, %rd7, 16;",
            "add.s64 %rd7, %rd7, 16; add.s64 %rd6, %rd6, 4;",
        ),
        within("add.s64 %rd8, %rd5, %rd6;", "add.s64 %rd8, %rd5, %rd8;"),
        within("add.s64 %rd8, %rd5, %rd6;", "add.s64 %rd8, %rd4, %rd6;"),
        within("add.s64 %rd5, %rd8, %rd6;", "add.s64 %rd5, %rd8, %rd5;"),
        // In the copy of the loop that is not counted ahead.
        text.replace(
            "add.s64 %__rf_r, %rd7, 16;",
            "add.s64 %rd7, %rd7, 16; mov.u64 %__rf_r, %rd8;",
        ),
    ];
    for (number, case) in cases.iter().enumerate() {
        assert!(
            verify_contained(case).is_err(),
            "{number} is accepted:\n{case}"
        );
    }
    let twins = [
        within("add.s64 %rd7, %rd7, 16;", "add.s64 %rd7, 32, %rd7;"),
        within("add.s64 %rd7, %rd7, 16;", "add.s64 %rd7, %rd7, -16;"),
        within(
            "add.s64 %rd7, %rd7, 16;",
            "add.s64 %rd7, %rd7, 16; mov.u64 %rd10, %rd7;",
        ),
        replaced(counted, "\tsetp.ge.u32 %__rf_due, %__rf_ahead, 5;"),
    ];
    for text in twins {
        if let Err(errors) = verify_contained(&text) {
            panic!("{errors:?}\n{text}");
        }
    }
}
