//! Fenced kernels look whether they must end, and read nothing that others
//! left: whatever is altered in what does that, the verifier notices.

use crate::common;

use instrument::{FenceForm, fence, verify_contained};

/// What names of the pass begin with.
const OWN: [&str; 2] = ["%__rf_", "$__rf_"];

fn fenced(source: &str) -> String {
    let text = fence(source, FenceForm::Mask)
        .unwrap_or_else(|error| panic!("{error}\n{source}"))
        .text;
    if let Err(errors) = verify_contained(&text) {
        panic!("{errors:?}\n{text}");
    }
    text
}

/// Why the verifier refuses a text; empty if it does not.
fn reasons(text: &str) -> String {
    let errors = verify_contained(text).err().unwrap_or_default();
    let all: Vec<String> = errors.iter().map(ToString::to_string).collect();
    all.join("\n")
}

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

fn module(before: &str, statements: &str) -> String {
    let (frame, statements) = split(statements);
    format!(
        ".version 8.0\n.target sm_90\n.address_size 64\n{before}\n\
         .visible .entry k(.param .u64 p)\n{{\n\
         .reg .b64 %rd<4>; .reg .b32 %r<4>; .reg .pred %p<3>; .shared .align 8 .b8 tile[64];\n\
         {frame}
         ld.param.u64 %rd1, [p];\n{statements}\n}}\n"
    )
}

/// All that looks and clears, in one module.
fn everything() -> String {
    let callee = ".func (.param .align 4 .b8 s[8]) f(.param .b32 n) {\n\
        .local .align 4 .b8 small[9]; .reg .b32 %a, %b; .reg .pred %q;\n\
        ld.param.b32 %a, [n]; st.local.u8 [small], %a;\n\
        M: add.s32 %a, %a, 1; nanosleep.u32 10; setp.lt.s32 %q, %a, 5; @%q bra M;\n\
        st.param.b32 [s], %b; ret; }\n\
        .func g() { .local .align 8 .b8 large[400]; .reg .b32 %a; ld.local.u8 %a, [large+7]; ret; }";
    let statements = "L: add.s32 %r1, %r1, 1; setp.lt.s32 %p1, %r1, 50; @%p1 bra L;\n\
        mov.u32 %r2, tile;\n\
        W: mbarrier.try_wait.parity.shared.b64 %p2, [%r2], 0; @!%p2 bra W;\n\
        { .param .align 4 .b8 s[8]; .param .b32 n; st.param.b32 [n], %r1; call (s), f, (n); ld.param.b32 %r3, [s]; }\n\
        call g; st.shared.u32 [tile], %r3; ret;";
    module(callee, statements)
}

/// What lines of fences have.
const FENCES: [&str; 14] = [
    // How many passes are left: a wrong number costs time only.
    "32 %__rf_ahead,",
    "64 %__rf_ahead,",
    "64 %__rf_far,",
    "%__rf_group",
    "%__rf_go",
    "%__rf_a",
    "%__rf_low",
    "%__rf_total",
    "%__rf_end",
    "%__rf_limit",
    "%__rf_s,",
    "%__rf_t,",
    "%__rf_base",
    "%__rf_mask",
];

/// Whether a line is a part of what looks or clears, or sets what may be read.
/// (Where the program has several instructions in a line, it is not.)
fn is_needed(line: &str) -> bool {
    let line = line.trim();
    let is_own = OWN.iter().any(|own| line.contains(own));
    let is_fence = FENCES.iter().any(|part| line.contains(part));
    let sets = line.starts_with("mov.b") && line.ends_with(", 0;") || line.starts_with("mov.pred");
    let pads = line.starts_with("st.param.b8");
    let clears = line.starts_with("st.local.b") && line.ends_with(", 0;");
    (is_own && !is_fence || sets || pads || clears)
        && !line.contains(".reg ")
        && line.matches(';').count() < 2
}

#[test]
fn no_line_that_looks_or_clears_can_be_left_out() {
    let text = fenced(&everything());
    let lines: Vec<&str> = text.lines().collect();
    let mut left_out = 0;
    for at in 0..lines.len() {
        // (Without its branch back, a far copy has one pass; and what it goes on with is
        // the program's.)
        let is_back = ["@%__rf_more", "bra $__rf_out"]
            .iter()
            .any(|part| lines[at].contains(part));
        if !is_needed(lines[at]) || is_back {
            continue;
        }
        let mut rest = lines.clone();
        rest.remove(at);
        let line = lines[at];
        assert_ne!(reasons(&rest.join("\n")), "", "without `{line}`:\n{text}");
        left_out += 1;
    }
    assert!(left_out > 80, "{left_out}\n{text}");
}

#[test]
fn no_line_that_looks_or_clears_can_be_altered() {
    let text = fenced(&everything());
    let lines: Vec<&str> = text.lines().collect();
    let pairs = [
        ("%__rf_halt ", "%__rf_due "),
        ("@%__rf_halt ", ""),
        ("@%__rf_halt ", "@!%__rf_halt "),
        ("@%__rf_due ", ""),
        ("@%__rf_due ", "@!%__rf_due "),
        ("@!%p2 ", "@%p2 "),
        ("@!%p2 ", "@!%p1 "),
        ("setp.ne", "setp.eq"),
        ("setp.eq", "setp.ne"),
        ("setp.ge", "setp.gt"),
        (".volatile", ""),
        ("%__rf_stop]", "%__rf_stop+4]"),
        ("%__rf_halt, %__rf_word, 0", "%__rf_halt, %__rf_word, 1"),
        ("%__rf_passes, 1;", "%__rf_passes, 2;"),
        ("%__rf_passes, 1;", "%__rf_passes, 0;"),
        ("%__rf_phase, 0", "%__rf_phase, 1"),
        ("%__rf_passes, %__rf_passes", "%__rf_passes, %__rf_phase"),
        ("exit", "ret"),
        ("%tid.x", "%laneid"),
        ("%ntid.y", "%nctaid.y"),
        ("_fence+44", "_fence+40"),
        (", 16", ", 32"),
        ("total_smem_size", "dynamic_smem_size"),
        ("v4.b32", "v2.b32"),
        ("$__rf_cleared;", "$__rf_alone;"),
        ("bar.red.or", "bar.red.and"),
        (".pred %__rf_halt, 0,", ".pred %__rf_halt, 1,"),
        ("%__rf_rest, -1", "%__rf_rest, -2"),
        ("%__rf_rest, -1", "%__rf_rest, 0"),
        ("%__rf_rest, 1;", "%__rf_rest, 0;"),
        ("%__rf_rest, 1;", "%__rf_rest, 2;"),
        ("%__rf_rest, 0;", "%__rf_rest, 1;"),
        ("@%__rf_more ", ""),
        ("@%__rf_more ", "@!%__rf_more "),
        ("@%__rf_more ", "@%p1 "),
        ("%__rf_left, 50", "%__rf_left, 49"),
        ("%__rf_left, -1", "%__rf_left, -2"),
        ("%__rf_frame, 8", "%__rf_frame, 16"),
        ("_fence+", "_fence+8+"),
        ("large+", "large+8+"),
        ("small+", "small+1+"),
    ];
    let mut altered = 0;
    for at in 0..lines.len() {
        if !is_needed(lines[at]) {
            continue;
        }
        for (old, new) in pairs {
            let other = lines[at].replacen(old, new, 1);
            // (Where all threads go to the far copy, none comes to the loop.)
            let is_far = other.trim().starts_with("bra $__rf_far");
            if other == lines[at] || is_far {
                continue;
            }
            let mut all = lines.clone();
            all[at] = &other;
            assert_ne!(reasons(&all.join("\n")), "", "`{}` as `{other}`", lines[at]);
            altered += 1;
        }
        // Not entered from the side, and not twice; but for what may happen twice.
        let line = lines[at].trim();
        let mut begins = [
            "mov.",
            "st.",
            "@%__rf_halt",
            "ld.const",
            "$__rf",
            "bra $__rf_out",
        ]
        .iter();
        if begins.any(|begin| line.starts_with(begin)) {
            continue;
        }
        for other in [
            format!("Q:\n{line}\n@%p1 bra Q;"),
            format!("{line}\n{line}"),
        ] {
            let mut all = lines.clone();
            all[at] = &other;
            assert_ne!(reasons(&all.join("\n")), "", "`{other}`");
        }
    }
    assert!(altered > 80, "{altered}");
}

/// A loop as the pass writes it, whose passes cannot be counted ahead.
fn looped() -> String {
    let statements = "L: add.s32 %r1, %r1, %r1; setp.lt.s32 %p1, %r1, 50; @%p1 bra L;\nret;";
    fenced(&module("", statements))
}

/// Each text with one piece of it replaced is refused, for this reason.
fn refused(text: &str, cases: &[(&str, &str, &str)]) {
    for (old, new, reason) in cases {
        assert!(text.contains(old), "{old}\n{text}");
        let bad = text.replacen(old, new, 1);
        let found = reasons(&bad);
        assert!(found.contains(reason), "{reason}: {found}\n{bad}");
    }
}

/// With one piece replaced, it is accepted.
fn accepted(text: &str, cases: &[(&str, &str)]) {
    for (old, new) in cases {
        assert!(text.contains(old), "{old}\n{text}");
        let good = text.replacen(old, new, 1);
        assert_eq!(reasons(&good), "", "{good}");
    }
}

/// Text that no pass writes, with why it is refused; and a twin that is not.
#[test]
fn an_enemys_loops_are_refused() {
    let loops = "a loop that does not look";
    let counter = "the counter of looks is changed";
    let address = "the address of the word";
    let (head, last) = ("mov.u32 %__rf_passes, 0;", "@%p1 bra L;");
    let mask = "%__rf_passes, 1023;";
    let cases = [
        (last, "@%p1 bra L; A: bra A;", loops),
        (last, "@%p1 bra L; A: @%p1 bra B; B: bra A;", loops),
        (
            last,
            "ts: .branchtargets L, T; T: brx.idx %r1, ts;",
            "not bounded",
        ),
        // A way around the look.
        (last, "@%p1 bra L; bra Z; Y: bra Z; Z: @%p1 bra Y;", loops),
        (last, "mov.u32 %__rf_passes, 0; @%p1 bra L;", counter),
        // Twice at each pass: never a multiple of 1,024 where it is looked at.
        (
            last,
            "add.s32 %__rf_passes, %__rf_passes, 1; @%p1 bra L;",
            counter,
        ),
        (
            last,
            "sub.s32 %__rf_passes, %__rf_passes, 1; @%p1 bra L;",
            counter,
        ),
        (head, "mov.u32 %__rf_passes, 7;", counter),
        (last, "mov.u64 %__rf_stop, %rd1; @%p1 bra L;", address),
        (
            head,
            "mov.u32 %__rf_passes, 0; @%p1 mov.u64 %__rf_stop, %rd1;",
            address,
        ),
        (last, "@%p1 bra NOWHERE;", "a label that is not found"),
        (
            last,
            "@%p1 bra X; { X: } bra L;",
            "a label that is not found",
        ),
        // Another register under the name.
        (last, "{ .reg .b64 %__rf_stop; @%p1 bra L; }", "in a scope"),
        // A look that comes late.
        (mask, "%__rf_passes, 2047;", loops),
        (mask, "%__rf_passes, 1000;", loops),
        ("ret;", "nanosleep.u32 1; ret;", "a thread that slept"),
        (
            "ret;",
            "barrier.cluster.arrive; ret;",
            "barrier of several blocks",
        ),
    ];
    let text = looped();
    refused(&text, &cases);
    accepted(
        &text,
        &[
            (last, "@%p1 bra L; bra Z; Z:"),
            (mask, "%__rf_passes, 511;"),
        ],
    );
}

/// A kernel with one loop.
fn of_loop(body: &str) -> String {
    let statements =
        format!("mov.u32 %r2, 9; setp.eq.s32 %p2, %r2, 8; L:\n{body}\n@%p1 bra L;\nret;");
    fenced(&module("", &statements))
}

/// Loops without a look, which are guarded by the number of passes that are left.
#[test]
fn an_enemys_counts_are_refused() {
    let loops = "a loop that does not look";
    let (moved, test) = ("add.s32 %r1, %r1, 4;", "setp.lt.s32 %p1, %r1, %r2;");
    let text = of_loop(&format!("{moved}\n{test}"));
    let distance = "sub.s32 %__rf_ahead, %r2, %r1;";
    let before = "add.s32 %__rf_ahead, %__rf_ahead, -1;";
    let few = "setp.ge.u32 %__rf_due, %__rf_ahead, ";
    let limit = text.lines().find(|line| line.contains(few)).unwrap();
    let room = "sub.s32 %__rf_spare, 2147483647, %r2;";
    let wraps = "setp.lt.or.u32 %__rf_due, %__rf_spare, 4, %__rf_due;";
    let far = "@%__rf_due bra $__rf_far_5;";
    let cases = [
        // Another distance, or another limit.
        (distance, "sub.s32 %__rf_ahead, %r1, %r2;", loops),
        (distance, "sub.s32 %__rf_ahead, %r2, %r3;", loops),
        (before, "add.s32 %__rf_ahead, %__rf_ahead, 1;", loops),
        (before, "", loops),
        (few, "setp.gt.u32 %__rf_due, %__rf_ahead, ", loops),
        (few, "setp.ge.s32 %__rf_due, %__rf_ahead, ", loops),
        (few, "setp.ge.u32 %__rf_due, %__rf_ahead, -", loops),
        (
            limit,
            "setp.ge.u32 %__rf_due, %__rf_ahead, 4000000000;",
            "steps",
        ),
        // The bound may be so large that the register wraps around before it.
        (room, "sub.s32 %__rf_spare, -1, %r2;", loops),
        (room, "sub.s32 %__rf_spare, 2147483647, %r1;", loops),
        (wraps, "", loops),
        (
            wraps,
            "setp.lt.or.u32 %__rf_due, %__rf_spare, 3, %__rf_due;",
            loops,
        ),
        (
            wraps,
            "setp.lt.and.u32 %__rf_due, %__rf_spare, 4, %__rf_due;",
            loops,
        ),
        (
            wraps,
            "setp.lt.or.s32 %__rf_due, %__rf_spare, 4, %__rf_due;",
            loops,
        ),
        (far, "@!%__rf_due bra $__rf_far_5;", loops),
        (far, "@%p1 bra $__rf_far_5;", loops),
        (far, "@%__rf_due bra $__rf_far_5; mov.u32 %r1, %r3;", loops),
        // Moved by less, the other way, perhaps, twice, by what changes, or not at all.
        (moved, "add.s32 %r1, %r1, 3;", loops),
        (moved, "add.s32 %r1, %r1, -4;", loops),
        (moved, "@%p2 add.s32 %r1, %r1, 4;", loops),
        (moved, "add.s32 %r1, %r1, 4; add.s32 %r1, %r1, -4;", loops),
        (moved, "add.s32 %r1, %r1, 4; @%p2 mov.u32 %r1, 0;", loops),
        (moved, "add.s32 %r1, %r3, 4;", loops),
        (moved, "add.s32 %r1, %r1, %r3;", loops),
        (moved, "add.s32 %r3, %r1, 4;", loops),
        (moved, "{ .reg .b32 %r1; add.s32 %r1, %r1, 4; }", loops),
        (moved, "@%p2 bra A; add.s32 %r1, %r1, 4; A:", loops),
        (moved, "A: add.s32 %r1, %r1, 4; @%p2 bra A;", loops),
        // The bound moves, too; or something else is compared.
        (moved, "add.s32 %r1, %r1, 4; add.s32 %r2, %r2, 4;", loops),
        (
            moved,
            "add.s32 %r1, %r1, 4; mov.b64 {%r2, %r3}, %rd1;",
            loops,
        ),
        (test, "setp.gt.s32 %p1, %r1, %r2;", loops),
        (test, "setp.le.s32 %p1, %r1, %r2;", loops),
        (test, "setp.lt.u32 %p1, %r1, %r2;", loops),
        (test, "setp.lt.s32 %p1, %r1, %r3;", loops),
        (test, "setp.lt.s32 %p1, %r3, %r2;", loops),
        (test, "@%p2 setp.lt.s32 %p1, %r1, %r2;", loops),
        (
            test,
            "setp.lt.s32 %p1, %r1, %r2; setp.ne.s32 %p1, %r3, 0;",
            loops,
        ),
        (test, "setp.lt.or.s32 %p1, %r1, %r2, %p2;", loops),
        // Entered behind its guard.
        (
            "mov.u32 %r2, 9;",
            "mov.u32 %r2, 9; @%p1 bra $__rf_near_5;",
            loops,
        ),
        ("ret;", "@%p1 bra $__rf_near_5; ret;", loops),
        (
            before,
            "@%p2 bra Q; add.s32 %__rf_ahead, %__rf_ahead, -1; Q:",
            loops,
        ),
        // Registers of the guard in the place of the program's.
        (moved, "add.s32 %__rf_ahead, %__rf_ahead, 4;", loops),
    ];
    refused(&text, &cases);
    // More may be in it, and control may leave it.
    accepted(
        &text,
        &[
            (test, "setp.lt.s32 %p1, %r1, %r2; mov.u32 %r3, %r1;"),
            (test, "setp.lt.s32 %p1, %r1, %r2; @%p2 ret;"),
            (test, "setp.lt.s32 %p1, %r1, %r2; @%p2 bra $__rf_out_5;"),
        ],
    );
}

/// The copy that runs where many passes are left: it counts them.
#[test]
fn an_enemys_far_copies_are_refused() {
    let loops = "a loop that does not look";
    let text = of_loop("add.s32 %r1, %r1, 1; setp.ne.s32 %p1, %r1, %r2;");
    let label = "$__rf_strip_5:\n\t";
    let (limit, count) = (
        text.lines()
            .find(|line| line.contains("mov.u32 %__rf_rest"))
            .unwrap(),
        "add.s32 %__rf_rest, %__rf_rest, -1;",
    );
    let again = "setp.ne.and.s32 %__rf_more, %__rf_rest, 0, %p1;";
    let within = |what: &str| format!("{label}{what} ");
    let set = within("mov.u32 %__rf_rest, 7;");
    let moved = within("add.s32 %__rf_rest, %__rf_rest, 1;");
    let perhaps = within("@%p2 add.s32 %__rf_rest, %__rf_rest, 1;");
    let vector = within("mov.b64 {%__rf_rest, %r3}, %rd1;");
    let around = within("A: @%p2 bra A;");
    let cases = [
        (label, &*set, loops),
        (label, &moved, loops),
        (label, &perhaps, loops),
        (label, &vector, loops),
        (label, &around, loops),
        (
            "mov.u32 %r2, 9;",
            "mov.u32 %r2, 9; @%p1 bra $__rf_strip_5;",
            loops,
        ),
        (
            count,
            "@%p1 bra N; add.s32 %__rf_rest, %__rf_rest, -1; N:",
            loops,
        ),
        (count, "add.s32 %__rf_rest, %__rf_rest, -2;", loops),
        (
            again,
            "setp.ne.or.s32 %__rf_more, %__rf_rest, 0, %p1;",
            loops,
        ),
        (limit, "mov.u32 %__rf_rest, 1000000000;", "steps"),
        (limit, "mov.u32 %__rf_rest, 0;", loops),
        (limit, "mov.u32 %__rf_rest, %r1;", loops),
        (limit, "@%p1 mov.u32 %__rf_rest, 5;", loops),
        (limit, "", loops),
    ];
    refused(&text, &cases);
    accepted(
        &text,
        &[
            (limit, "mov.u32 %__rf_rest, 7;"),
            (again, "setp.ne.and.s32 %__rf_more, %__rf_rest, 0, !%p2;"),
            (label, &within("@%p2 bra F; mov.u32 %r3, 7; F:")),
            (label, &within("@%p2 ret;")),
        ],
    );
}

#[test]
fn loops_whose_passes_can_be_counted_do_not_look() {
    for body in [
        "add.s32 %r1, %r1, 1; setp.lt.s32 %p1, %r1, %r2;",
        "add.s32 %r1, %r1, 3; setp.lt.u32 %p1, %r1, 50;",
        "add.s32 %r1, %r1, -4; setp.ne.s32 %p1, %r1, 0;",
        "add.u32 %r1, %r1, 4294967292; setp.ne.s32 %p1, %r1, 0;",
        "sub.u32 %r1, %r1, 2; setp.gt.u32 %p1, %r1, 7;",
        "sub.u32 %r1, %r1, 3; setp.gt.s32 %p1, %r1, -7;",
        "add.s64 %rd2, %rd2, 16; setp.ne.s64 %p1, %rd2, %rd1;",
        "add.s64 %rd2, %rd2, -8; setp.gt.s64 %p1, %rd2, 0;",
        "add.s64 %rd2, %rd2, -8; setp.gt.u64 %p1, %rd2, %rd1;",
        // By what a register holds.
        "add.s32 %r1, %r1, %r2; setp.lt.s32 %p1, %r1, 50;",
        "add.s32 %r1, %r2, %r1; setp.lt.u32 %p1, %r1, 50;",
        "add.s64 %rd2, %rd2, %rd3; setp.lt.s64 %p1, %rd2, %rd1;",
        // What is compared is the register, and something.
        "add.s32 %r1, %r1, 4; add.s32 %r3, %r2, %r1; setp.ne.s32 %p1, %r3, 1;",
        "add.s32 %r1, %r1, 1; add.s32 %r3, %r1, -5; setp.lt.s32 %p1, %r3, %r2;",
    ] {
        let text = of_loop(body);
        assert!(text.contains("$__rf_near_"), "{body}\n{text}");
        assert!(!text.contains("%__rf_passes, 1"), "{body}\n{text}");
        assert_eq!(common::assemble(&text).err(), None);
    }
    for body in [
        // The wrong way, or by what may not lead to the bound, or not in each pass.
        "add.s32 %r1, %r1, -1; setp.lt.s32 %p1, %r1, %r2;",
        "add.s32 %r1, %r1, 3; setp.ne.s32 %p1, %r1, %r2;",
        "add.s32 %r1, %r1, %r2; setp.ne.s32 %p1, %r1, 50;",
        "add.s32 %r1, %r1, %r2; setp.gt.s32 %p1, %r1, 50;",
        "add.s32 %r1, %r1, 1; setp.le.s32 %p1, %r1, %r2;",
        "add.s32 %r1, %r1, %r1; setp.lt.s32 %p1, %r1, 50;",
        "@%p2 add.s32 %r1, %r1, 1; setp.lt.s32 %p1, %r1, 50;",
        "add.s32 %r1, %r1, 1; add.s32 %r1, %r1, 1; setp.lt.s32 %p1, %r1, 50;",
        // Compared before; a bound or a step that changes; another comparison.
        "setp.lt.s32 %p1, %r1, 50; add.s32 %r1, %r1, 1;",
        "add.s32 %r3, %r1, %r2; add.s32 %r1, %r1, 1; setp.lt.s32 %p1, %r3, 50;",
        "add.s32 %r1, %r1, 1; shr.u32 %r2, %r2, 1; setp.lt.s32 %p1, %r1, %r2;",
        "add.s32 %r1, %r1, %r2; shr.u32 %r2, %r2, 1; setp.lt.s32 %p1, %r1, 50;",
        "add.s32 %r1, %r1, 1; setp.lt.s32 %p1, %r1, 50; setp.lt.and.s32 %p1, %r1, 40, %p1;",
        // Names in a scope of their own; threads that meet, calls and waits.
        "{ .reg .b32 %r1; add.s32 %r1, %r1, 1; } setp.lt.s32 %p1, %r1, 50;",
        "add.s32 %r1, %r1, 1; setp.lt.s32 %p1, %r1, 50; bar.warp.sync -1;",
        "add.s32 %r1, %r1, 1; setp.lt.s32 %p1, %r1, 50; nanosleep.u32 5;",
    ] {
        let text = of_loop(body);
        assert!(!text.contains("$__rf_near_"), "{body}\n{text}");
    }
}

/// The same, of what may be read.
#[test]
fn an_enemys_reads_are_refused() {
    let register = "a register that may not be written";
    let cases = [
        ("ret;", "add.s32 %r2, %r3, 1; ret;", register),
        // Another register in a scope does not write it.
        (
            "ret;",
            ".reg .b32 %r01; { .reg .b32 %r<4>; mov.u32 %r1, 1; add.s32 %r1, %r01, 1; } ret;",
            register,
        ),
        ("ret;", "addc.s32 %r1, %r1, 1; ret;", register),
        (
            "ret;",
            "st.shared.u32 [tile], %r1; ret;",
            "left in shared memory",
        ),
        ("ret;", ".local .b32 x; ret;", "is not cleared"),
        // A loop that clears, of what is no frame.
        (
            "mov.u32 %__rf_passes, 0;",
            "mov.u32 %__rf_passes, 0; mov.u64 %__rf_frame, %rd1; mov.u32 %__rf_left, 50;\n\
             F: st.local.b64 [%__rf_frame], 0; add.s64 %__rf_frame, %__rf_frame, 8;\n\
             add.s32 %__rf_left, %__rf_left, -1; setp.ne.s32 %__rf_due, %__rf_left, 0;\n\
             @%__rf_due bra F;",
            "is not contained",
        ),
    ];
    let text = looped();
    refused(&text, &cases);
    let carry = "add.cc.s32 %r1, %r1, 1; addc.s32 %r1, %r1, 1; ret;";
    let written = "mov.u32 %r3, 1; add.s32 %r2, %r3, 1; ret;";
    accepted(&text, &[("ret;", carry), ("ret;", written)]);
}

/// Threads that retire or read before others have cleared.
#[test]
fn clearing_comes_first() {
    let text = fenced(&module("", "st.shared.u32 [tile], %r1; ret;"));
    let start = "ld.const.b32 %__rf_c0, [__ringfence_fence+44];";
    let look = "ld.volatile.global.u32 %__rf_word, [%__rf_stop]; setp.ne.s32 %__rf_halt, %__rf_word, 0; \
                @%__rf_halt bra $__rf_retire;";
    for early in [
        look,
        "@%p1 exit;",
        "ld.shared.u32 %r2, [tile];",
        "M: add.s32 %r1, %r1, 1; @%p1 bra M;",
    ] {
        let late = format!("{early} {start}");
        refused(&text, &[(start, &late, "left in shared memory")]);
    }
    let later = format!("{look} st.shared.u32 [tile]");
    // A label that nothing names, as debug information has it.
    let named = format!("M: add.s32 %r1, %r1, 1; {start}");
    accepted(&text, &[("st.shared.u32 [tile]", &later), (start, &named)]);
}

/// Each callee twice: 2^depth calls.
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

/// Only large trees of calls look at the heads of functions.
#[test]
fn trees_of_calls_look_where_they_are_large() {
    let looks = |depth: u32| {
        let text = fenced(&module(&tree(depth), &format!("call f{depth}; ret;")));
        text.matches("\tld.volatile.global.u32 %__rf_word").count()
    };
    assert_eq!(looks(10), 0);
    assert!(looks(60) >= 3);
    let text = fenced(&module(&tree(60), "call f60; ret;"));
    let lines: Vec<&str> = text.lines().collect();
    let look = "ld.volatile.global.u32 %__rf_word, [%__rf_stop];";
    let mut left_out = 0;
    for at in (0..lines.len()).filter(|at| lines[*at].trim() == look) {
        let mut rest = lines.clone();
        rest.drain(at..at + 3);
        let found = reasons(&rest.join("\n"));
        assert!(found.contains("steps before it looks"), "{found}");
        left_out += 1;
    }
    assert!(left_out >= 3);
}

/// What cannot be ended, or may be read, is refused by name.
#[test]
fn what_may_be_read_is_refused_by_name() {
    let cases = [
        (
            "{ .param .b32 x; ld.param.b32 %r1, [x]; } ret;",
            "`x` may be read",
        ),
        (
            "{ .param .b32 n; @%p1 st.param.b32 [n], 1; call g, (n); } ret;",
            "`n` may be read",
        ),
        ("barrier.cluster.arrive; ret;", "is for clusters"),
        (
            "{ .local .b32 x; st.local.u32 [x], %r1; } ret;",
            "a frame in a scope",
        ),
        (
            "@%p1 bra L; L: .local .b32 x; st.local.u32 [x], %r1; ret;",
            "behind code that may read it",
        ),
        (
            ".reg .b128 %q; mov.b128 {%rd1, %rd2}, %q; ret;",
            "`%q` may be read",
        ),
    ];
    let callee = ".func g(.param .b32 n) { ret; }";
    for (statements, reason) in cases {
        let source = module(callee, statements);
        let error = fence(&source, FenceForm::Mask)
            .expect_err(statements)
            .to_string();
        assert!(error.contains(reason), "`{statements}`: {error}");
        assert_ne!(reasons(&source), "");
    }
    let good = "{ .param .b32 n; st.param.b32 [n], 1; call g, (n); } ret;";
    fenced(&module(callee, good));
    fenced(&module(
        callee,
        "mov.u32 %r1, 1; .local .b32 x; st.local.u32 [x], %r1; ret;",
    ));
}

/// What looks and clears cost, in instructions, over all that the corpora hold.
#[test]
fn what_is_added_is_counted() {
    let folder = common::root().join("target/corpora");
    let (mut before, mut loops, mut looks, mut kernels, mut clearing) = (0, 0, 0, 0, 0);
    let (mut set, mut counted) = (0, 0);
    for path in common::files(&folder, "ptx") {
        let source = std::fs::read_to_string(&path).expect("a readable file");
        let Ok(done) = fence(&source, FenceForm::Mask) else {
            continue;
        };
        let module = ptx::parse(&source).unwrap();
        before += module
            .functions()
            .map(|f| f.instructions().count())
            .sum::<usize>();
        let count = |what: &str| done.text.matches(what).count();
        let near = count("\n$__rf_near_");
        loops += count("add.s32 %__rf_passes");
        counted += near;
        assert_eq!(
            done.counts.looking_loops as usize,
            count("add.s32 %__rf_passes") + near
        );
        assert_eq!(done.counts.clearing_kernels as usize, count("$__rf_clear:"));
        looks += count("\tld.volatile.global.u32 %__rf_word");
        kernels += count("ld.const.b32 %__rf_c0, [__ringfence_fence+44]");
        clearing += count("$__rf_clear:");
        let sets = |line: &&str| line.starts_with("\tmov.") && line.ends_with(", 0;");
        set += done.text.lines().filter(sets).count();
    }
    println!(
        "{before} instructions in {kernels} kernels: {loops} counted looks of 6 instructions, \
         {counted} loops that are counted ahead, {looks} looks of 3; {clearing} kernels clear shared memory (26 instructions); \
         {set} registers set"
    );
    assert!(kernels > 0 && loops > 0 && counted > 0 && clearing > 0);
}
