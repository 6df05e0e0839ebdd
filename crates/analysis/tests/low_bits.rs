//! The low bits that are claimed of addresses, against what the CPU device
//! computes: random kernels with branches, loops, predicated instructions and
//! registers that are used again for something else.

use crate::common;

use analysis::{Analysis, ModuleSymbols};
use common::{Bench, P};
use proptest::prelude::*;
use ptx::Mnemonic;

/// Records that a kernel may write.
const RECORDS: usize = 4096;

/// A statement of a random kernel.
#[derive(Clone, Debug)]
enum Piece {
    /// One instruction.
    Line(String),
    /// Names a register as an address, and records what it holds.
    Probe(u32),
    /// Executed if this predicate does not hold.
    Branch(u32, Vec<Piece>),
    /// Executed three times.
    Loop(Vec<Piece>),
}

fn wide() -> impl Strategy<Value = String> {
    (0..4u32).prop_map(|n| format!("%rd{n}"))
}

fn narrow() -> impl Strategy<Value = String> {
    (0..4u32).prop_map(|n| format!("%r{n}"))
}

fn constant() -> impl Strategy<Value = String> {
    prop_oneof![
        3 => (0..10u32).prop_map(|bit| (1u64 << bit).to_string()),
        2 => (-40..40i64).prop_map(|n| n.to_string()),
        1 => Just("-16".to_owned()),
    ]
}

fn guard() -> impl Strategy<Value = &'static str> {
    prop_oneof![4 => Just(""), 1 => Just("@%p0 "), 1 => Just("@!%p1 ")]
}

/// An instruction on registers of `bits` bits.
fn arithmetic(
    register: impl Strategy<Value = String> + Clone + 'static,
    bits: u32,
) -> impl Strategy<Value = String> {
    let source = prop_oneof![2 => register.clone(), 2 => constant()];
    let two = prop_oneof![
        4 => Just(format!("add.s{bits}")),
        2 => Just(format!("sub.u{bits}")),
        2 => Just(format!("mul.lo.s{bits}")),
        2 => Just(format!("and.b{bits}")),
        2 => Just(format!("or.b{bits}")),
        1 => Just(format!("xor.b{bits}")),
        1 => Just(format!("min.s{bits}")),
        1 => Just(format!("max.u{bits}")),
    ];
    let two = (two, register.clone(), register.clone(), source)
        .prop_map(|(opcode, to, a, b)| format!("{opcode} {to}, {a}, {b};"));
    let shift = prop_oneof![Just(format!("shl.b{bits}")), Just(format!("shr.s{bits}"))];
    let by = prop_oneof![4 => (0..9u32).prop_map(|n| n.to_string()), 1 => narrow()];
    let shift = (shift, register.clone(), register.clone(), by)
        .prop_map(|(opcode, to, a, b)| format!("{opcode} {to}, {a}, {b};"));
    let one = prop_oneof![
        Just(format!("mov.b{bits}")),
        Just(format!("neg.s{bits}")),
        Just(format!("not.b{bits}")),
    ];
    let one = (one, register.clone(), register.clone())
        .prop_map(|(opcode, to, a)| format!("{opcode} {to}, {a};"));
    let set = (register.clone(), constant())
        .prop_map(move |(to, value)| format!("mov.u{bits} {to}, {value};"));
    let three = (
        register.clone(),
        register.clone(),
        register.clone(),
        register.clone(),
    );
    let three = three.prop_map(move |(to, a, b, c)| format!("mad.lo.s{bits} {to}, {a}, {b}, {c};"));
    let choice = (register.clone(), register.clone(), register.clone())
        .prop_map(move |(to, a, b)| format!("selp.b{bits} {to}, {a}, {b}, %p0;"));
    let remainder = (register.clone(), register.clone(), 1..40i64)
        .prop_map(move |(to, a, by)| format!("rem.s{bits} {to}, {a}, {by};"));
    let field = (register.clone(), register, 0..6u32, 0..20u32)
        .prop_map(move |(to, a, from, length)| format!("bfe.u{bits} {to}, {a}, {from}, {length};"));
    prop_oneof![
        6 => two, 2 => shift, 2 => one, 2 => set, 1 => three, 1 => choice, 1 => remainder, 1 => field
    ]
}

fn line() -> impl Strategy<Value = String> {
    let parameter = (wide(), prop_oneof![Just("p"), Just("q")])
        .prop_map(|(to, name)| format!("ld.param.u64 {to}, [{name}];"));
    let across = prop_oneof![
        (wide(), narrow()).prop_map(|(to, a)| format!("cvt.s64.s32 {to}, {a};")),
        (narrow(), wide()).prop_map(|(to, a)| format!("cvt.u32.u64 {to}, {a};")),
        (wide(), narrow(), constant())
            .prop_map(|(to, a, by)| format!("mul.wide.s32 {to}, {a}, {by};")),
        (wide(), narrow(), narrow()).prop_map(|(to, a, b)| format!("mov.b64 {to}, {{{a}, {b}}};")),
        (0..3u32, wide()).prop_map(|(to, a)| {
            let next = to + 1;
            format!("mov.b64 {{%r{to}, %r{next}}}, {a};")
        }),
    ];
    let condition = (0..3u32, narrow(), constant())
        .prop_map(|(to, a, b)| format!("setp.lt.s32 %p{to}, {a}, {b};"));
    let number = prop_oneof![
        6 => arithmetic(wide().boxed(), 64),
        4 => arithmetic(narrow().boxed(), 32),
        2 => parameter,
        2 => across,
    ];
    prop_oneof![
        8 => (guard(), number).prop_map(|(guard, line)| format!("{guard}{line}")),
        1 => condition,
    ]
}

fn pieces() -> impl Strategy<Value = Vec<Piece>> {
    let leaf = prop_oneof![
        5 => line().prop_map(Piece::Line),
        2 => (0..4u32).prop_map(Piece::Probe),
    ];
    let piece = leaf.prop_recursive(3, 40, 8, |inner| {
        let some = prop::collection::vec(inner, 1..8);
        prop_oneof![
            2 => (0..3u32, some.clone()).prop_map(|(on, inner)| Piece::Branch(on, inner)),
            2 => some.prop_map(Piece::Loop),
        ]
    });
    prop::collection::vec(piece, 1..24)
}

/// Writes pieces as PTX, each probe and label with a number of its own.
fn write(pieces: &[Piece], numbers: &mut u32, out: &mut String) {
    for piece in pieces {
        *numbers += 1;
        let number = *numbers;
        match piece {
            Piece::Line(line) => *out += &format!("{line}\n"),
            Piece::Probe(register) => {
                *out += &format!(
                    "prefetch.global.L2 [%rd{register}];\n\
                     setp.lt.u64 %p9, %rd11, %rd12;\n\
                     @%p9 st.global.u64 [%rd11], {number};\n\
                     @%p9 st.global.u64 [%rd11+8], %rd{register};\n\
                     add.s64 %rd11, %rd11, 16;\n\
                     // {number}\n"
                );
            }
            Piece::Branch(on, inner) => {
                *out += &format!("@%p{on} bra $after{number};\n");
                write(inner, numbers, out);
                *out += &format!("$after{number}:\n");
            }
            Piece::Loop(inner) => {
                *out += &format!("mov.u32 %c{number}, 0;\n$loop{number}:\n");
                write(inner, numbers, out);
                *out += &format!(
                    "add.s32 %c{number}, %c{number}, 1;\n\
                     setp.lt.s32 %p8, %c{number}, 3;\n@%p8 bra $loop{number};\n"
                );
            }
        }
    }
}

fn kernel(pieces: &[Piece]) -> String {
    let mut body = String::new();
    let mut numbers = 0;
    write(pieces, &mut numbers, &mut body);
    format!(
        ".version 8.0\n.target sm_80\n.address_size 64\n\
         .visible .entry k(.param .u64 out, .param .u64 p, .param .u64 q, .param .u32 n)\n{{\n\
         .reg .pred %p<10>;\n.reg .b32 %r<4>, %c<{}>;\n.reg .b64 %rd<13>;\n\
         ld.param.u64 %rd11, [out];\nadd.s64 %rd12, %rd11, {};\n\
         ld.param.u64 %rd0, [p];\nld.param.u64 %rd1, [q];\nmov.u64 %rd2, 48;\nmov.u64 %rd3, 7;\n\
         ld.param.u32 %r0, [n];\nmov.u32 %r1, %tid.x;\nmov.u32 %r2, 24;\nmov.u32 %r3, 0;\n\
         setp.lt.s32 %p0, %r0, 0;\nsetp.lt.s32 %p1, %r0, 77;\nsetp.eq.s32 %p2, %r0, %r1;\n\
         {body}ret;\n}}\n",
        numbers + 1,
        16 * RECORDS
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(192))]

    #[test]
    fn low_bits_are_those_that_the_device_computes(
        pieces in pieces(),
        p in any::<u64>(),
        q in any::<u64>(),
        n in any::<u32>(),
    ) {
        let text = kernel(&pieces);
        let module = ptx::parse(&text).unwrap();
        let symbols = ModuleSymbols::of(&module);
        let analysis = Analysis::of(&symbols, module.functions().next().unwrap()).unwrap();
        let instructions = &analysis.code.instructions;

        let bench = Bench::new();
        let out = bench.u64s(&vec![0; 2 * RECORDS]);
        let program = bench.link(&[&text]);
        let list = [P::U64(out), P::U64(p), P::U64(q), P::U32(n)];
        bench.launch(&program, "k", [1; 3], [1; 3], &list).unwrap();
        let held = bench.read_u64s(out, 2 * RECORDS);

        for (at, inst) in instructions.iter().enumerate() {
            if inst.instruction.opcode.mnemonic() != Mnemonic::Prefetch {
                continue;
            }
            let after = &text[inst.instruction.span.start as usize..];
            let number = after.split_once("// ").unwrap().1.split_once('\n').unwrap().0;
            let number: u64 = number.parse().unwrap();
            let low = analysis.low_bits(at as u32, 0);
            let from = match low.parameter {
                None => 0,
                Some(0) => out,
                Some(8) => p,
                Some(16) => q,
                Some(other) => panic!("there is no pointer at {other}"),
            };
            for record in held.chunks_exact(2).filter(|record| record[0] == number) {
                let rest = record[1].wrapping_sub(from) & ((1u64 << low.bits) - 1);
                prop_assert_eq!(rest, u64::from(low.rest), "{:?} at {}\n{}", low, number, text);
            }
        }
    }
}
