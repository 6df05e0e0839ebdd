//! Calls, frames and tables of addresses in what the pass `fence` makes: ptxas
//! takes it, and the verifier takes nothing that is a little different.

use crate::common;

use instrument::{FenceForm, FencedVariable, Holder, Relocation, fence, verify_contained};
use std::process::Command;

/// Kernels of another crate's tests, as the pinned compiler translates them.
fn compiled(name: &str, options: &[&str]) -> String {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let out = folder.path().join("out.ptx");
    let source = common::root().join("crates/runtime/tests").join(name);
    let status = Command::new(common::tool("nvcc"))
        .args(["-ptx", "-arch=sm_90", "-o"])
        .arg(&out)
        .arg(source)
        .args(options)
        .status()
        .expect("nvcc runs");
    assert!(status.success());
    std::fs::read_to_string(out).expect("PTX")
}

#[test]
fn kernels_with_calls_are_contained_and_assembled() {
    for name in ["fence_calls.cu", "fence_library.cu"] {
        for options in [&["-O3"][..], &["-G"][..]] {
            let source = compiled(name, options);
            for form in [FenceForm::Mask, FenceForm::Modulo] {
                let done = fence(&source, form).unwrap_or_else(|error| panic!("{error}\n{source}"));
                let judged = verify_contained(&done.text);
                assert!(judged.is_ok(), "{judged:?}\n{}", done.text);
                let refused = common::assemble(&done.text).err();
                assert_eq!(refused, None, "{name} {options:?}\n{}", done.text);
            }
        }
    }
}

const CALLS: &str = ".version 8.0\n.target sm_90\n.address_size 64\n\
    .func low(.param .b64 p) { .local .align 4 .b8 own[8]; .reg .b64 %rd<3>; .reg .b32 %r<2>;\n\
    ld.param.u64 %rd1, [p]; ld.u32 %r1, [%rd1+4]; mov.u64 %rd2, own; st.local.u32 [%rd2+4], %r1; ret; }\n\
    .func middle(.param .b64 p) { .reg .b64 %rd<3>;\n\
    ld.param.u64 %rd1, [p];\n\
    { .param .b64 a; st.param.b64 [a], %rd1; call low, (a); }\n\
    ret; }\n\
    .visible .entry k() { .local .align 8 .b8 depot[64]; .reg .b64 %rd<3>;\n\
    mov.u64 %rd1, depot; cvta.local.u64 %rd2, %rd1;\n\
    { .param .b64 a; st.param.b64 [a], %rd2; call middle, (a); }\n\
    st.local.u32 [depot+60], 1;\n\
    ret; }\n\
    .visible .entry other() { .local .align 8 .b8 depot[16]; .reg .b64 %rd<3>;\n\
    mov.u64 %rd1, depot; cvta.local.u64 %rd2, %rd1;\n\
    { .param .b64 a; st.param.b64 [a], %rd2; call middle, (a); }\n\
    ret; }\n";

/// What would let a function write beside the frames is refused.
#[test]
fn frames_that_are_not_passed_are_refused() {
    let fenced = fence(CALLS, FenceForm::Mask).unwrap().text;
    let judged = verify_contained(&fenced);
    assert!(judged.is_ok(), "{judged:?}\n{fenced}");
    assert_eq!(common::assemble(&fenced), Ok(()), "{fenced}");
    let variable = ".local .align 16 .b8 __ringfence_frames[80];";
    let moved = "mov.u64 %__rf_stack, __ringfence_frames;";
    let parameter = ".reg .b64 %__rf_stack, .reg .b64 %__rf_frame";
    let passed = "(%__rf_stack, %__rf_next, a)";
    let used = "mov.u64 %__rf_f, %__rf_stack;";
    for text in [variable, moved, parameter, passed, used] {
        assert!(fenced.contains(text), "no `{text}` in\n{fenced}");
    }
    let first = |old: &str, new: &str| fenced.replacen(old, new, 1);
    let cases = [
        // Something else is passed.
        first(passed, "(%__rf_next, %__rf_next, a)"),
        first(passed, "(%rd1, %__rf_next, a)"),
        first(passed, "(0, %__rf_next, a)"),
        first(passed, "(a, %__rf_next, a)"),
        fenced.replace(moved, "add.s64 %__rf_stack, %rd1, 16;"),
        fenced.replace(moved, ""),
        fenced.replace(
            moved,
            &format!("{moved} add.s64 %__rf_stack, %__rf_stack, 16;"),
        ),
        fenced.replace(moved, &format!("L: {moved} @%__rf_p bra L;")),
        fenced.replace(moved, "mov.u64 %__rf_stack, depot;"),
        // The parameter is written, is another one, or is none.
        first(
            used,
            "add.s64 %__rf_stack, %__rf_stack, 64; mov.u64 %__rf_f, %__rf_stack;",
        ),
        first(
            used,
            &format!("@%__rf_p mov.u64 %__rf_stack, %__rf_frame; {used}"),
        ),
        first(used, "mov.u64 %__rf_f, %__rf_frame;"),
        first(parameter, ".reg .b64 %__rf_frame, .reg .b64 %__rf_stack"),
        first(parameter, ".param .b64 %__rf_stack, .reg .b64 %__rf_frame"),
        first(parameter, ".reg .b32 %__rf_stack, .reg .b64 %__rf_frame"),
        first(used, &format!("{{ .reg .b64 %__rf_stack; {used} }}")),
        // Frames of another size, or elsewhere.
        first(variable, ".local .align 16 .b8 __ringfence_frames[64];"),
        first(variable, ".local .align 2 .b8 __ringfence_frames[80];"),
        fenced.replace(variable, ".shared .align 16 .b8 __ringfence_frames[80];"),
        fenced.replace(variable, ".local .align 16 .b8 __ringfence_frames[];"),
        first(variable, &format!("{{ {variable} }}")),
        fenced.replace(variable, "") + ".global .align 16 .b8 __ringfence_frames[80];\n",
        format!("{fenced}.func more(.reg .b64 %__rf_stack) {{ {variable} ret; }}\n"),
        format!("{fenced}.visible .entry more(.param .b64 __ringfence_frames) {{ ret; }}\n"),
        // A fence that is too wide for the frames.
        first(
            "min.u64 %__rf_u, %__rf_u, 76;",
            "min.u64 %__rf_u, %__rf_u, 77;",
        ),
        // Calls that lead nowhere known.
        first("call low", "call k"),
        first("call low", "call middle"),
    ];
    for text in cases {
        assert_ne!(text, fenced);
        assert!(verify_contained(&text).is_err(), "it is accepted:\n{text}");
    }
}

#[test]
fn addresses_in_initializers_become_relocations() {
    let source = ".version 8.0\n.target sm_90\n.address_size 64\n\
        .weak .global .align 4 .b8 q[16];\n.common .global .u32 r;\n\
        .visible .global .u64 p[2] = {q, generic(r)+4};\n\
        .const .align 8 .b8 c[4] = {1, 0xFF00(generic(q)+-4), 2, 0xFF(p)};\n\
        .func f() { ret; } .global .u64 functions[2] = {f, 0};\n\
        .visible .entry k() { ret; }\n";
    let done = fence(source, FenceForm::Mask).unwrap();
    let names: Vec<(&str, u64)> = done
        .variables
        .iter()
        .map(|v: &FencedVariable| (v.name.as_str(), v.size))
        .collect();
    assert_eq!(names, [("q", 16), ("r", 4), ("p", 16), ("functions", 16)]);
    let constant = || Holder::Constant("c".to_owned());
    let relocation = |holder, offset, bytes, shift, target, addend| Relocation {
        holder,
        offset,
        bytes,
        shift,
        target,
        addend,
    };
    assert_eq!(
        done.relocations,
        [
            relocation(Holder::Placed(2), 0, 8, 0, 0, 0),
            relocation(Holder::Placed(2), 8, 8, 0, 1, 4),
            relocation(constant(), 1, 1, 8, 0, -4),
            relocation(constant(), 3, 1, 0, 2, 0),
        ]
    );
    for text in ["{0, 0}", "{1, 0, 2, 0}", "{16, 0}"] {
        assert!(done.text.contains(text), "no `{text}` in\n{}", done.text);
    }
    assert_eq!(verify_contained(&done.text).err(), None);
    assert_eq!(common::assemble(&done.text), Ok(()));
    // The verifier takes no address at all.
    let address = done.text.replacen("{0, 0}", "{q, 0}", 1);
    assert!(verify_contained(&address).is_err());
}

/// What the rewrites do not understand is refused by name, at its line.
#[test]
fn calls_that_cannot_be_contained_are_refused_by_name() {
    let cases = [
        (
            ".func f() { ret; }\n.visible .entry k() { .reg .b64 %rd<2>;\nmov.u64 %rd1, f; add.s64 %rd1, %rd1, f; ret; }",
            "line 6, in `k`: it uses the address of the function `f`",
        ),
        (
            ".func f() { ret; }\n.visible .entry k() { .reg .b64 %rd<2>;\nmov.u64 %rd1, f; p: .callprototype _ (); call %rd1, p; ret; }",
            "line 6, in `k`: it calls through a pointer",
        ),
        (
            // The function may reach itself through the pointer.
            ".func f(.param .b64 a) { .reg .b64 %rd<2>; ld.param.u64 %rd1, [a];\n\
             { .param .b64 b; st.param.b64 [b], %rd1; p: .callprototype _ (.param .b64 _); call %rd1, (b), p; }\nret; }\n\
             .visible .entry k() { .reg .b64 %rd<2>;\nmov.u64 %rd1, f; { .param .b64 b; st.param.b64 [b], %rd1; call f, (b); } ret; }",
            "line 4, in `f`: it calls itself",
        ),
        (
            ".func (.param .b32 r) f() { .local .b8 a[4]; .reg .b64 %rd<2>;\nmov.u64 %rd1, a+2; ret; }\n\
             .visible .entry k() { .local .b8 b[4]; { .param .b32 r; call (r), f; } ret; }",
            "line 5, in `f`: it uses an object of its frame",
        ),
        (
            ".extern .func (.param .b64 r) malloc(.param .b32 n);\n\
             .visible .entry k() {\n{ .param .b32 n; .param .b64 r; st.param.b32 [n], 4; call (r), malloc, (n); } ret; }",
            "line 6, in `k`: it calls `malloc`, which the module does not define",
        ),
    ];
    for (items, reason) in cases {
        let source = format!(".version 8.0\n.target sm_90\n.address_size 64\n{items}\n");
        let error = fence(&source, FenceForm::Mask)
            .expect_err(items)
            .to_string();
        assert!(error.contains(reason), "`{items}`: {error}");
    }
}

/// A kernel that loads a matrix, with the distance between its rows.
fn matrix(space: &str, before: &str, stride: &str) -> String {
    let (base, register) = match space {
        ".shared" => ("mov.u32 %r1, tile;", "%r1"),
        "" => (
            "ld.param.u64 %rd1, [p]; ld.global.u64 %rd1, [%rd1];",
            "%rd1",
        ),
        _ => ("ld.param.u64 %rd1, [p];", "%rd1"),
    };
    format!(
        ".version 8.0\n.target sm_90\n.address_size 64\n\
         .visible .entry k(.param .u64 p) {{ .reg .b64 %rd<2>; .reg .b32 %r<12>; .reg .pred %p;\n\
         .shared .align 32 .b8 tile[2048];\n{base}\nsetp.eq.u32 %p, 0, 1;\n{before}\n\
         wmma.load.a.sync.aligned.row.m16n16k16{space}.f16 {{%r2, %r3, %r4, %r5, %r6, %r7, %r8, %r9}}, [{register}], {stride};\n\
         ret; }}\n"
    )
}

#[test]
fn rows_of_matrices_are_contained_and_aligned() {
    for space in [".shared", ".global"] {
        let good = [
            ("", "24"),
            ("mov.u32 %r10, 24;", "%r10"),
            ("mov.b32 %r10, 16;", "%r10"),
        ];
        for (before, stride) in good {
            let source = matrix(space, before, stride);
            let text = fence(&source, FenceForm::Mask)
                .unwrap_or_else(|e| panic!("{e}"))
                .text;
            assert_eq!(verify_contained(&text).err(), None, "{text}");
            assert_eq!(common::assemble(&text), Ok(()), "{text}");
            // Rows that are not aligned end the context; others lie outside.
            let number = if stride == "24" || before.contains("24") {
                "24;"
            } else {
                "16;"
            };
            let at = text.rfind(number).expect("the distance");
            for other in ["3;", "25;", "4000000000;", "%r10;"] {
                let mut altered = text.clone();
                altered.replace_range(at..at + number.len(), other);
                assert!(verify_contained(&altered).is_err(), "{altered}");
            }
        }
        let bad = [
            ("", "25", "less aligned"),
            ("mov.u32 %r10, 3;", "%r10", "less aligned"),
            ("", "4000000000", "too large"),
        ];
        for (before, stride, reason) in bad {
            let source = matrix(space, before, stride);
            let error = fence(&source, FenceForm::Mask)
                .expect_err(&source)
                .to_string();
            assert!(error.contains(reason), "{error}");
        }
    }
}

/// A distance that only a launch knows is bounded, and shared memory has room for what
/// it makes of the rows.
#[test]
fn rows_at_a_distance_in_a_register_are_contained() {
    let distances = [
        "mov.u32 %r10, %tid.x;",
        "mov.u32 %r10, 24; @%p mov.u32 %r10, 32;",
        "@%p mov.u32 %r10, 24;",
    ];
    for space in [".shared", ".global", ""] {
        for before in distances {
            for form in [FenceForm::Mask, FenceForm::Modulo, FenceForm::Check] {
                let source = matrix(space, before, "%r10");
                let text = fence(&source, form).unwrap_or_else(|e| panic!("{e}")).text;
                assert_eq!(verify_contained(&text).err(), None, "{text}");
                assert_eq!(common::assemble(&text), Ok(()), "{text}");
                each_part_of_rows_is_needed(&text, space);
            }
        }
    }
}

fn each_part_of_rows_is_needed(text: &str, space: &str) {
    let is_shared = space != ".global";
    let refused = |altered: String| {
        assert!(altered != text, "{text}");
        assert!(verify_contained(&altered).is_err(), "{altered}");
    };
    // An instruction of the fence is missing.
    let mut parts = vec!["and.b32 %__rf_rows", "min.u32 %__rf_rows"];
    if is_shared {
        parts.extend([
            "mad.lo.u32 %__rf_span",
            "max.u32 %__rf_s",
            "sub.s32 %__rf_limit",
            "min.u32 %__rf_s",
            "setp.ge",
        ]);
    }
    for part in parts {
        let at = text.find(part).unwrap_or_else(|| panic!("{part}: {text}"));
        let end = at + text[at..].find(';').expect("its end") + 1;
        refused(format!("{}{}", &text[..at], &text[end..]));
    }
    // It is another one.
    let (_, bound) = text
        .split_once("min.u32 %__rf_rows, %__rf_rows, ")
        .expect("a bound");
    let (bound, _) = bound.split_once(';').expect("its end");
    let larger = bound.parse::<u64>().expect("a number") + 8;
    refused(text.replace(
        &format!("%__rf_rows, {bound};"),
        &format!("%__rf_rows, {larger};"),
    ));
    refused(text.replace("], %__rf_rows;", "], %r10;"));
    if is_shared {
        let (head, span) = text.split_once("mad.lo.u32 %__rf_span, ").expect("a span");
        let (span, rest) = span.split_once(';').expect("its end");
        for other in [
            "%__rf_rows, 29, 32",
            "%__rf_rows, 30, 16",
            "%r10, 30, 32",
            "%__rf_rows, 0, 64",
        ] {
            assert_ne!(span, other);
            refused(format!("{head}mad.lo.u32 %__rf_span, {other};{rest}"));
        }
        // The distance has another value by then.
        refused(
            text.replace("wmma.load", "wmma.mma")
                .replace("wmma.mma", "mov.u32 %__rf_rows, %r10; wmma.load"),
        );
    }
}

/// What cooperative groups read of the driver is a parameter that the host adds.
#[test]
fn grids_that_synchronize_take_their_barrier_as_a_parameter() {
    let read = "mov.u32 %r1, %envreg1; mov.b32 %r2, %envreg2; mov.b64 %rd1, {%r2, %r1};\n\
                @%p mov.u32 %r1, %envreg1; atom.add.u32 %r1, [%rd1+4], 1;";
    let registers = ".reg .b64 %rd<2>; .reg .b32 %r<3>; .reg .pred %p; setp.eq.u32 %p, 0, 1;";
    let in_kernel = |head: &str| format!("{head} {{ {registers}\n{read}\nret; }}");
    let cases = [
        (
            in_kernel(".visible .entry k()"),
            "k(.param .u64 __ringfence_workspace)",
        ),
        (
            in_kernel(".visible .entry k"),
            "k(.param .u64 __ringfence_workspace)",
        ),
        (
            in_kernel(".visible .entry k(.param .u32 a // the last one\n)"),
            ".param .u32 a, .param .u64 __ringfence_workspace // the last one",
        ),
        (
            format!(
                ".func f() {{ {registers}\n{read}\nret; }}\n\
                 .visible .entry k(.param .u32 a) {{ .reg .b32 %r1;\ncall f;\nret; }}"
            ),
            ".param .u32 a, .param .u64 __ringfence_workspace",
        ),
    ];
    for (functions, expected) in cases {
        let source = format!(".version 8.0\n.target sm_90\n.address_size 64\n{functions}\n");
        for form in [FenceForm::Mask, FenceForm::Modulo, FenceForm::Check] {
            let text = fence(&source, form).unwrap_or_else(|e| panic!("{e}")).text;
            assert!(text.contains(expected), "{text}");
            assert!(!text.contains("envreg"), "{text}");
            assert_eq!(verify_contained(&text).err(), None, "{text}");
            assert_eq!(common::assemble(&text), Ok(()), "{text}");
        }
    }
}
