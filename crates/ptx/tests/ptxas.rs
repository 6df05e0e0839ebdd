//! ptxas is the judge of what PTX is: what it accepts must parse, and
//! constants must have the values that it gives them.

use crate::support;

use object::{Object, ObjectSection};
use std::process::Command;

/// The cubin, or ptxas' complaint.
fn assemble(source: &str) -> Result<Vec<u8>, String> {
    assemble_for("sm_100a", source)
}

fn assemble_for(target: &str, source: &str) -> Result<Vec<u8>, String> {
    let folder = tempfile::tempdir().expect("temporary folder");
    let (input, output) = (folder.path().join("x.ptx"), folder.path().join("x.cubin"));
    std::fs::write(&input, source).expect("temporary file");
    let result = Command::new(toolchain::cuda().program("ptxas"))
        .args(["-c", "-arch", target, "-o"])
        .args([&output, &input])
        .output()
        .expect("ptxas runs");
    if result.status.success() {
        Ok(std::fs::read(&output).expect("ptxas wrote a cubin"))
    } else {
        Err(String::from_utf8_lossy(&result.stderr).into_owned())
    }
}

/// File-scope text and body text of odd but legal PTX.
const ODD: &[(&str, &str)] = &[
    (
        "",
        "ld.param.u64%rd1,[p];mov.u32%r1,%r2;mov.b64{%r1,%r2},%rd1;bar.sync%r1;@%p1 bra L;L:ret;",
    ),
    ("", "ld .param .u64 %rd1, [p];"),
    ("", "ld/*x*/.param.u64 %rd1, [p];"),
    ("", "ld.global.u32 %r1, [array+4*2];"),
    ("", "ld.global.u32 %r1, [array+4+4];"),
    ("", "ld.global.u32 %r1, [array+-4];"),
    ("", "ld.global.u32 %r1, [%rd1+(4*2)];"),
    ("", "ld.global.u32 %r1, [%rd1 + 1<<2];"),
    ("", "ld.global.u32 %r1, array[2];"),
    ("", "st.global.u32 array[1], %r1;"),
    ("", "ld.global.u32 {%r1}, [%rd1];"),
    ("", "st.global.u32 [%rd1], {%r1};"),
    ("", "ld.global.u32 %r1, [%rd1].unified;"),
    ("", "ld.global.v4.u32 {%r1,_,_,%r2}, [%rd1];"),
    (
        "",
        "ld.global.relaxed.gpu.b32 %r1,[%rd1]; ld.b32.relaxed.gpu.global %r1,[%rd1];",
    ),
    ("", "ld.local.u32 %r1, [16+4]; ld.local.u32 %r1, [-4];"),
    (
        "",
        "mov.u32 %r2, 4+4; mov.u32 %r2, (1<<4)|3; mov.u32 %r2, -(4); mov.u32 %r2, ~4; mov.u32 %r2, !4;",
    ),
    (
        "",
        "mov.u32 %r2, - 4; mov.u32 %r2, --4; mov.u32 %r2, +4; mov.u32 %r2, 4U; mov.u32 %r2, (.s64)4;",
    ),
    (
        "",
        "mov.u32 %r1, 1 ? 2 : 3; mov.u32 %r1, 1 && 0 || 5 == 5; mov.u32 %r1, WARP_SZ; mov.u32 %r1, WARP_SZ+1;",
    ),
    (
        "",
        "mov.f32 %f1, 4.5+1.0; mov.f32 %f1, (4.5); add.f32 %f1, %f2, 1.; add.f32 %f1, %f2, .5; add.f32 %f1, %f2, 1e5;",
    ),
    (
        "",
        "mov.u64 %rd3, array+4; mov.u64 %rd3, array+-4; mov.u64 %rd3, array+(4); mov.u64 %rd3, array[1];",
    ),
    (
        "",
        "mov.b64 {%r1, _}, %rd1; mov.b64 %rd1, {%r1, 5}; setp.eq.s32 %p1|_, %r1, 0; setp.eq.s32 %p1|%p2, %r1, 0;",
    ),
    (
        "",
        "mov.u32 %r1, %tid .x; mov.u32 %r1, %envreg1; mov.u64 %rd1, 18446744073709551615;",
    ),
    ("", "@ %p1 bra L; @! %p1 bra L; @ ! %p1 bra L; L :ret;"),
    (
        "",
        "L: .reg .b32 %q; { } { .reg .b32 %q; { mov.b32 %q, 1; } }",
    ),
    (
        "",
        ".reg.b32%q<3>;.reg .pred%z;mov.u32%q1,4U;mov.u32 %q1,%tid.x;",
    ),
    ("", ".pragma \"nounroll\", \"x\"; /* a /* b */"),
    (
        "",
        ".reg .b32 %ok<3>, %z; .reg .v4 .b32 %v; mov.v4.b32 %v, {%r1,%r1,%r1,%r1}; mov.u32 %r1, %v.x;",
    ),
    (
        ".file 1 \"x.cu\"",
        ".loc 1 2 3 mov.u32 %r1, 4; .loc 1 2\n 3\n",
    ),
    (
        ".file 1 \"x.cu\", 12, 34 .global .b32 same_line;",
        "# 1 \"foo\"\n",
    ),
    (
        ".file 1 \"x.cu\"\n.section .debug_str { L: .b8 1, 2\n .b32 L }",
        ".loc 1 2 3\n.loc 1 7 8, function_name L, inlined_at 1 2 3 .loc 1 9 9, function_name L+1,\ninlined_at 1 2 3",
    ),
    (".func f (.reg .b32 x) .noreturn { trap; }", ""),
    (
        ".func (.reg .b32 r) f (.reg .b32 x) { mov.u32 r, x; ret; }",
        "call (%r1), f, (%r2); call (_), f, (4);",
    ),
    (
        ".func f () { ret; } .func g { ret; }",
        "call f; call g, (); call.uni f, ();",
    ),
    (
        ".visible .func f { ret; } .weak .global .b32 w; .visible .const .align 8 .b8 c[4];",
        "",
    ),
    (
        ".func (.param .align 8 .b8 r[16]) f (.param .align 8 .b8 x[16], .param .b32 y) { ret; }",
        "{ .param .align 8 .b8 r[16]; .param .align 8 .b8 a[16]; .param .b32 b; call (r), f, (a, b); }",
    ),
    (
        ".func (.param .b32 r) f (.param .b32 x) { ret; } .global .u64 table[2] = {f, f};",
        "ld.global.u64 %rd1, [table]; { .param .b32 r; .param .b32 a; P: .callprototype (.param .b32 _) _ (.param .b32 _); \
      call (r), %rd1, (a), P; }",
    ),
    (
        ".func f { ret; }",
        "mov.u64 %rd1, f; T: .calltargets f; call %rd1, (), T;",
    ),
    ("", "T: .branchtargets A, B; brx.idx %r1, T; A: B: ret;"),
    (
        ".global .align 8 .b8 x[2][4] = {{1,2},{3}}; .global .b32 y = 1, z[4]; .global .b32 e[] = {1,2,3};",
        "",
    ),
    (
        ".global .align 16 .v4 .f32 x; .global .b32 spaced [4]; .global .attribute(.managed) .b32 managed;",
        "",
    ),
    (
        ".visible .entry e(.param .u64 .ptr .global .align 4 a, .param .align 16 .b8 b[32]) .maxntid 128, 1, 1 .minnctapersm 2 { ret; }",
        "",
    ),
    (
        ".visible .entry e .reqntid 32 .reqnctapercluster 2, 1, 1 .explicitcluster { ret; }",
        "",
    ),
    (
        ".visible .entry e() .maxnreg 32 .pragma \"nounroll\"; { ret; }",
        "",
    ),
    (
        ".visible .func f() { ret; } .visible .func g(); .alias g, f;",
        "",
    ),
    (".global .texref t; .global .surfref s;", ""),
];

#[test]
fn what_ptxas_accepts_parses() {
    let mut accepted = 0;
    let mut report = String::new();
    for (items, body) in ODD {
        let source = format!(
            ".version 9.0\n.target sm_100a\n.address_size 64\n.global .align 4 .b32 array[4];\n{items}\n\
             .visible .entry k(.param .u64 p)\n{{\n.reg .b32 %r<5>;\n.reg .b64 %rd<5>;\n.reg .pred %p<3>;\n\
             .reg .f32 %f<3>;\n{body}\nret;\n}}\n"
        );
        match assemble(&source) {
            Ok(_) => accepted += 1,
            Err(complaint) => {
                report += &format!("ptxas refuses `{items}` `{body}`: {complaint}\n");
                continue;
            }
        }
        if let Err(errors) = ptx::parse(&source) {
            report += &format!("`{items}` `{body}`: {}\n", errors[0]);
        }
    }
    assert!(
        report.is_empty(),
        "{accepted} of {} are fine, but:\n{report}",
        ODD.len()
    );
}

const CONSTANTS: &[&str] = &[
    "1",
    "-1",
    "0x1F",
    "0b101",
    "017",
    "5U",
    "18446744073709551615",
    "0xFFFFFFFFFFFFFFFF",
    "1+2*3",
    "(1+2)*3",
    "1<<4|3",
    "1 << 2 + 1",
    "7-2-1",
    "100/7/2",
    "100 % 7",
    "-7/2",
    "-7 % 3",
    "(7 % 4) - 5 >> 1",
    "(1U == 1U) - 5 >> 1",
    "(1U && 1U) - 5 >> 1",
    "!1U - 1 >> 1",
    "~1U >> 1",
    "-1U >> 1",
    "(1 << 1U) - 5 >> 1",
    "(1 ? -2 : 1U) >> 1",
    "(6U & -2) >> 1",
    "(1 & -1) - 5 >> 1",
    "(1 | 1) - 5 >> 1",
    "(1 < 2) - 5 >> 1",
    "1 << 64",
    "1 << 65",
    "-1 >> 64",
    "(2 - 5) * 3U >> 1",
    "-5 * 3U",
    "(-1U) / 2",
    "+1U - 2 >> 1",
    "2 ? 3 : 4 + 1",
    "0x8000000000000000 >> 63",
    "9223372036854775808 >> 63",
    "-9223372036854775808 / -1",
    "-8>>1",
    "0xFFFFFFFFFFFFFFF8U>>1",
    "0xFFFFFFFFFFFFFFF8>>1",
    "~5",
    "!5",
    "!0",
    "--4",
    "-(4)",
    "+4",
    "1?2:3",
    "0?2:3",
    "0?1:0?2:3",
    "5==5",
    "5!=5",
    "1<2",
    "2<=1",
    "2>1",
    "1>=2",
    "-1<0",
    "-1<0U",
    "-1>0U",
    "6&3",
    "6^3",
    "6|1",
    "6&3==3",
    "1&&0",
    "1||0",
    "0||0",
    "WARP_SZ",
    "WARP_SZ*2",
    "(.s64)5",
    "(.u64)-1>>60",
    "(.s64)0xFFFFFFFFFFFFFFFF>>60",
    "-5/2U",
    "1<<63",
    "1<<0",
];

#[test]
fn constants_have_the_values_that_ptxas_gives_them() {
    let list = CONSTANTS.join(", ");
    let source = format!(
        ".version 9.0\n.target sm_100a\n.address_size 64\n.visible .global .align 8 .b64 x[{}] = {{{list}}};\n\
         .visible .entry k() {{ ret; }}\n",
        CONSTANTS.len()
    );
    let cubin = assemble(&source).unwrap_or_else(|complaint| panic!("{complaint}"));
    let file = object::File::parse(&*cubin).expect("a cubin is an ELF file");
    let section = file
        .section_by_name(".nv.global.init")
        .expect("initialized data");
    let data = section.data().expect("section data");
    let module = ptx::parse(&source).expect("it parses");
    let variable = module.variables().next().expect("one variable");
    let Ok(Some(ptx::Value::List(values))) = variable.initial_value(&source) else {
        panic!("no list of values")
    };
    assert_eq!(values.len() * 8, data.len());
    let mut report = String::new();
    for ((text, value), bytes) in CONSTANTS.iter().zip(values).zip(data.chunks_exact(8)) {
        let expected = i64::from_le_bytes(bytes.try_into().expect("eight bytes"));
        if value != ptx::Value::Integer(expected) {
            report += &format!("{text} is {expected}, not {value:?}\n");
        }
    }
    assert!(report.is_empty(), "{report}");
}

/// The file with every token on a line of its own, or with nothing between
/// tokens that stay apart without it.
fn respace(source: &str, spread: bool) -> String {
    let kinds = |text: &str| {
        ptx::tokenize(text)
            .iter()
            .map(|token| token.kind)
            .collect::<Vec<_>>()
    };
    let mut out = String::new();
    let mut previous: Option<(ptx::TokenKind, &str)> = None;
    for token in ptx::tokenize(source) {
        if token.kind == ptx::TokenKind::Trivia {
            continue;
        }
        let text = token.span.text(source);
        if let Some((kind, before)) = previous {
            if before == ".version" {
                // One token of ptxas, number and all.
                out.push(' ');
            } else if spread {
                out.push('\n');
            } else if kinds(&format!("{before}{text}")) != [kind, token.kind] {
                out.push(' ');
            }
        }
        out += text;
        previous = Some((token.kind, text));
    }
    out
}

/// This crate and ptxas agree on the boundaries of tokens: white space between
/// them, or its removal, changes no machine code.
#[test]
fn tokens_are_those_of_ptxas() {
    for (target, source) in [
        ("sm_75", include_str!("data/parallel.75.ptx")),
        ("sm_75", include_str!("data/basic.75.ptx")),
        ("sm_90a", include_str!("data/parallel.90a.ptx")),
        ("sm_100a", include_str!("data/basic.100a.ptx")),
        (
            "sm_100a",
            include_str!("data/triton.matmul_descriptor.100.aligned.ptx"),
        ),
    ] {
        let code = |source: &str| {
            let cubin =
                assemble_for(target, source).unwrap_or_else(|complaint| panic!("{complaint}"));
            let file = object::File::parse(&*cubin).expect("a cubin is an ELF file");
            let texts = file
                .sections()
                .filter(|s| s.name().is_ok_and(|name| name.starts_with(".text")));
            texts
                .map(|s| s.data().expect("section data").to_vec())
                .collect::<Vec<_>>()
        };
        let expected = code(source);
        assert!(!expected.is_empty());
        for spread in [true, false] {
            let other = respace(source, spread);
            assert_ne!(other, source);
            assert!(
                code(&other) == expected,
                "spread {spread} changed the code for {target}"
            );
            assert_eq!(support::defects(&other), Vec::<String>::new());
        }
    }
}
