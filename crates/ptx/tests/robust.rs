//! No input makes the crate panic, hang, lose bytes or fall silent.

use proptest::prelude::*;
use ptx::parse;

#[path = "support/invariants.rs"]
mod invariants;

use invariants::check;

/// Pieces that PTX is made of, and some that it is not.
const PIECES: &[&str] = &[
    ".version 8.0\n",
    ".target sm_90, debug\n",
    ".address_size 64\n",
    ".visible",
    ".extern",
    ".entry",
    ".func",
    " k",
    "(",
    ")",
    "{",
    "}",
    "[",
    "]",
    ";",
    ",",
    ":",
    "\n",
    " ",
    "@",
    "!",
    "|",
    "+",
    "-",
    "*",
    "/",
    "%",
    "<",
    ">",
    "=",
    "?",
    "<<",
    "&&",
    "::",
    ".",
    "_",
    "%r1",
    "%rd2",
    "%p1",
    "%tid.x",
    "$L__BB0_1",
    "4",
    "0x1F",
    "0b101",
    "017",
    "5U",
    "1.5",
    "1e10",
    "0f3F800000",
    "0d3FF0000000000000",
    "0f1",
    "99999999999999999999",
    "\"text\"",
    "\"",
    "//c\n",
    "/*c*/",
    "/*",
    "# 1 \"f\"\n",
    ".reg .b32 %r<5>;",
    ".param .u64 p",
    ".param .align 8 .b8 q[16]",
    ".global .b32 x = {1, {2}};",
    ".global .u64 y = generic(x)+4;",
    ".loc 1 2 3",
    ", function_name L, inlined_at 1 2 3",
    ".file 1 \"a.cu\"",
    ".section .debug_str {",
    ".b8 1,2",
    ".pragma \"nounroll\";",
    ".branchtargets",
    ".callprototype",
    ".align",
    ".ptr",
    ".maxntid 1, 2, 3",
    ".noreturn",
    ".attribute(.managed)",
    "ld.global.v2.b32 {%r1,_}, [%rd1+-4];",
    "st.shared.b32",
    "call (r), f, (a), P;",
    "bra L;",
    "ret;",
    "mov.b64",
    "cp.async.bulk.shared::cluster.global",
    "wmma.load.a.row.m16n16k16.f16",
    "ldmatrix.x4",
    "mbarrier.init",
    "atom.add.u32",
    "WARP_SZ",
    "generic",
    "é",
    "\u{0}",
    "\\",
    "`",
    "\r\n",
    "(.s64)",
];

const REAL: &[&str] = &[
    include_str!("data/separate.75.rdc.ptx"),
    include_str!("data/numba.stencil.90.ptx"),
    include_str!("data/triton.add.80.plain.ptx"),
    include_str!("data/parallel.75.ptx"),
];

const HEADER: &str = ".version 8.0\n.target sm_90\n.address_size 64\n";

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_bytes(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        check(&String::from_utf8_lossy(&bytes));
    }

    #[test]
    fn any_pieces(pieces in proptest::collection::vec(proptest::sample::select(PIECES), 0..80), header in any::<bool>()) {
        check(&format!("{}{}", if header { HEADER } else { "" }, pieces.concat()));
    }

    #[test]
    fn any_pieces_in_a_body(pieces in proptest::collection::vec(proptest::sample::select(PIECES), 0..80)) {
        check(&format!("{HEADER}.entry k(.param .b64 a)\n{{\n{}\n}}", pieces.concat()));
    }

    #[test]
    fn real_files_cut_and_spliced(
        which in 0..REAL.len(),
        edits in proptest::collection::vec((any::<u16>(), 0u16..60, proptest::sample::select(PIECES)), 1..6),
    ) {
        let mut source = REAL[which].to_string();
        for (at, length, piece) in edits {
            let start = at as usize % source.len();
            let end = (start + length as usize).min(source.len());
            if source.is_char_boundary(start) && source.is_char_boundary(end) {
                source.replace_range(start..end, piece);
            }
        }
        check(&source);
    }
}

/// Nesting of every kind is bounded, long before the stack is.
#[test]
fn deep_nesting_is_an_error() {
    for (prefix, repeated, suffix) in [
        ("", "{", ""),
        ("mov.b32 %r1, ", "{", ";"),
        ("mov.b32 %r1, ", "(", "1;"),
        ("mov.b32 %r1, ", "-", "1;"),
        ("mov.b32 %r1, ", "1 ? 1 : ", "1;"),
        ("mov.b32 %r1, ", "1 ? ", "1;"),
        ("call f, ", "(", ";"),
        ("tex.1d.b32.s32 %r1, [a, ", "{", ";"),
        ("tex.1d.b32.s32 %r1, ", "[a, ", ";"),
    ] {
        let source = format!(
            "{HEADER}.entry k()\n{{\n{prefix}{}{suffix}\n}}\n",
            repeated.repeat(100_000)
        );
        let errors = parse(&source).expect_err("deep nesting is refused");
        assert!(
            errors.iter().any(|error| error.message.contains("nesting")),
            "{prefix}{repeated}: {}",
            errors[0]
        );
        check(&source);
    }
    let source = format!(
        "{HEADER}.global .b32 x = {}1{};",
        "{".repeat(100_000),
        "}".repeat(100_000)
    );
    let module = parse(&source).expect("initializers are kept as text");
    let variable = module.variables().next().expect("one variable");
    assert!(variable.initial_value(&source).is_err());
}

/// Work and memory stay linear in the input, also for one long broken line.
#[test]
fn many_errors_on_one_line_take_linear_time() {
    let started = std::time::Instant::now();
    let source = format!("{HEADER}.entry k() {{ {} }}", "mov.b32 é; ".repeat(200_000));
    let errors = parse(&source).expect_err("it is broken");
    assert_eq!(errors.len(), 200_000);
    // Quadratic work would take hours.
    assert!(started.elapsed().as_secs() < 30);
}
