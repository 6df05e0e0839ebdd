//! Products of matrices in every type: fragments are filled as the PTX ISA says
//! (9.7.14.5, "Matrix Fragments for mma"), and the result is compared with a
//! product of integers.

use crate::common;

use common::{Bench, P};

const HEAD: &str = ".version 8.7\n.target sm_90\n.address_size 64\n";
const WARP: ([u32; 3], [u32; 3]) = ([1; 3], [32, 1, 1]);

/// A matrix of integers, by rows.
struct Numbers {
    columns: usize,
    values: Vec<i64>,
}

impl Numbers {
    /// Small numbers between `least` and `most`, all different ways.
    fn new(rows: usize, columns: usize, (least, most): (i64, i64), seed: u64) -> Numbers {
        let mut state = seed;
        let next = |_| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            least + (state >> 33) as i64 % (most - least + 1)
        };
        Numbers {
            columns,
            values: (0..rows * columns).map(next).collect(),
        }
    }

    fn at(&self, row: usize, column: usize) -> i64 {
        self.values[row * self.columns + column]
    }
}

/// What the elements of a fragment are: bits of one, and how a number is
/// written in them.
#[derive(Clone, Copy)]
struct Element {
    bits: usize,
    range: (i64, i64),
    write: fn(i64) -> u64,
}

const S8: Element = Element {
    bits: 8,
    range: (-128, 127),
    write: |x| x as u8 as u64,
};
const U8: Element = Element {
    bits: 8,
    range: (0, 255),
    write: |x| x as u64,
};
const S4: Element = Element {
    bits: 4,
    range: (-8, 7),
    write: |x| x as u64 & 15,
};
const U4: Element = Element {
    bits: 4,
    range: (0, 15),
    write: |x| x as u64,
};
const B1: Element = Element {
    bits: 1,
    range: (0, 1),
    write: |x| x as u64,
};
const E4M3: Element = Element {
    bits: 8,
    range: (-4, 4),
    write: |x| u64::from(small_float(x, 7, 3)),
};
const E5M2: Element = Element {
    bits: 8,
    range: (-4, 4),
    write: |x| u64::from(small_float(x, 15, 2)),
};
const F64: Element = Element {
    bits: 64,
    range: (-99, 99),
    write: |x| (x as f64).to_bits(),
};
const F16: Element = Element {
    bits: 16,
    range: (-9, 9),
    write: |x| u64::from(small_float(x, 15, 10)),
};
const F32: Element = Element {
    bits: 32,
    range: (-99, 99),
    write: |x| u64::from((x as f32).to_bits()),
};
const S32: Element = Element {
    bits: 32,
    range: (-99, 99),
    write: |x| u64::from(x as i32 as u32),
};

/// A small integer as a float of 8 or 16 bits.
fn small_float(x: i64, bias: u32, mantissa_bits: u32) -> u16 {
    if x == 0 {
        return 0;
    }
    let magnitude = x.unsigned_abs() as u32;
    let power = magnitude.ilog2();
    let mantissa = (magnitude << mantissa_bits >> power) & ((1 << mantissa_bits) - 1);
    let sign_at = if bias == 7 { 7 } else { mantissa_bits + 5 };
    (u32::from(x < 0) << sign_at | (power + bias) << mantissa_bits | mantissa) as u16
}

/// Row and column of element `i` that a lane holds, of A: `per` neighbours a
/// register, `g` the lane's group, `t` its number in it.
fn a_place((g, t): (usize, usize), i: usize, rows: usize, per: usize) -> (usize, usize) {
    // "groupID for ai where 0 <= i < per || 2 per <= i < 3 per, groupID + 8
    // otherwise"; "threadID_in_group * per + (i & (per - 1))", and further
    // right for the second half.
    if rows == 8 {
        return (g, t * per + i);
    }
    let row = if i < per
        || (2 * per..3 * per).contains(&i)
        || (4 * per..5 * per).contains(&i)
        || (6 * per..7 * per).contains(&i)
    {
        g
    } else {
        g + 8
    };
    (row, t * per + i % per + i / (2 * per) * 4 * per)
}

/// The same of B, whose neighbours lie below each other.
fn b_place((g, t): (usize, usize), i: usize, per: usize) -> (usize, usize) {
    (t * per + i % per + i / per * 4 * per, g)
}

/// The same of C and D.
fn c_place((g, t): (usize, usize), i: usize) -> (usize, usize) {
    (if i < 2 { g } else { g + 8 }, t * 2 + (i & 1))
}

/// The registers of all lanes, lane after lane, each of 32 bits or, for f64, of
/// 64 as two words.
fn fragment(
    numbers: &Numbers,
    element: Element,
    count: usize,
    place: impl Fn((usize, usize), usize) -> (usize, usize),
) -> Vec<u32> {
    let mut words = Vec::new();
    for lane in 0..32 {
        let values: Vec<u64> = (0..count)
            .map(|i| {
                let (row, column) = place((lane / 4, lane % 4), i);
                (element.write)(numbers.at(row, column))
            })
            .collect();
        if element.bits == 64 {
            words.extend(values.iter().flat_map(|v| [*v as u32, (*v >> 32) as u32]));
            continue;
        }
        let per = 32 / element.bits;
        words.extend(values.chunks(per).map(|part| {
            part.iter()
                .enumerate()
                .fold(0, |word, (e, v)| word | (*v as u32) << (e * element.bits))
        }));
    }
    words
}

/// Runs `opcode` on random matrices and compares D. `combine` makes of an
/// element of A and one of B what is summed.
fn check(
    opcode: &str,
    (rows, depth): (usize, usize),
    (a, b, c): (Element, Element, Element),
    combine: fn(i64, i64) -> i64,
) {
    let bench = Bench::new();
    let class = if a.bits == 64 { "b64" } else { "b32" };
    let bytes = if a.bits == 64 { 8 } else { 4 };
    let count = |elements: usize, bits: usize| elements * bits / (32 * bytes * 8);
    let (na, nb, nc) = (
        count(rows * depth, a.bits),
        count(depth * 8, b.bits),
        count(rows * 8, c.bits),
    );
    let list = |name: &str, n: usize| {
        let names: Vec<String> = (0..n).map(|i| format!("%{name}{i}")).collect();
        format!("{{{}}}", names.join(", "))
    };
    let loads = |name: &str, n: usize| -> String {
        (0..n)
            .map(|i| format!("ld.global.{class} %{name}{i}, [%x+{}];\n", i * bytes))
            .collect()
    };
    let stores: String = (0..nc)
        .map(|i| format!("st.global.{class} [%x+{}], %d{i};\n", i * bytes))
        .collect();
    let text = format!(
        "{HEAD}.visible .entry k(.param .u64 a, .param .u64 b, .param .u64 c, .param .u64 d) {{
           .reg .u64 %p, %x; .reg .u32 %t;
           .reg .{class} %a<{na}>, %b<{nb}>, %c<{nc}>, %d<{nc}>;
           mov.u32 %t, %tid.x;
           ld.param.u64 %p, [a]; mad.wide.u32 %x, %t, {}, %p;
           {}
           ld.param.u64 %p, [b]; mad.wide.u32 %x, %t, {}, %p;
           {}
           ld.param.u64 %p, [c]; mad.wide.u32 %x, %t, {}, %p;
           {}
           {opcode} {}, {}, {}, {};
           ld.param.u64 %p, [d]; mad.wide.u32 %x, %t, {}, %p;
           {stores}
           ret; }}",
        na * bytes,
        loads("a", na),
        nb * bytes,
        loads("b", nb),
        nc * bytes,
        loads("c", nc),
        list("d", nc),
        list("a", na),
        list("b", nb),
        list("c", nc),
        nc * bytes,
    );
    let program = bench.link(&[&text]);
    let left = Numbers::new(rows, depth, a.range, 1);
    let right = Numbers::new(depth, 8, b.range, 2);
    let addend = Numbers::new(rows, 8, c.range, 3);
    let per = |element: Element| (32 / element.bits).max(1);
    let words = [
        fragment(&left, a, rows * depth / 32, |lane, i| {
            a_place(lane, i, rows, per(a))
        }),
        fragment(&right, b, depth * 8 / 32, |lane, i| {
            b_place(lane, i, per(b))
        }),
        fragment(&addend, c, rows * 8 / 32, c_place),
    ];
    let [da, db, dc] = words.map(|words| bench.u32s(&words));
    let dd = bench.u32s(&vec![0; 32 * nc * bytes / 4]);
    let parameters = [P::U64(da), P::U64(db), P::U64(dc), P::U64(dd)];
    let (grid, block) = WARP;
    bench
        .launch(&program, "k", grid, block, &parameters)
        .unwrap();
    let sums = Numbers {
        columns: 8,
        values: (0..rows * 8)
            .map(|e| {
                let (row, column) = (e / 8, e % 8);
                let product: i64 = (0..depth)
                    .map(|k| combine(left.at(row, k), right.at(k, column)))
                    .sum();
                addend.at(row, column) + product
            })
            .collect(),
    };
    let expected = fragment(&sums, c, rows * 8 / 32, c_place);
    assert_eq!(bench.read_u32s(dd, expected.len()), expected, "{opcode}");
}

fn times(a: i64, b: i64) -> i64 {
    a * b
}

#[test]
fn products_of_bytes_and_nibbles() {
    for (shape, rows, depth) in [
        ("m8n8k16", 8, 16),
        ("m16n8k16", 16, 16),
        ("m16n8k32", 16, 32),
    ] {
        for (a, a_name) in [(S8, "s8"), (U8, "u8")] {
            for (b, b_name) in [(S8, "s8"), (U8, "u8")] {
                let opcode = format!("mma.sync.aligned.{shape}.row.col.s32.{a_name}.{b_name}.s32");
                check(&opcode, (rows, depth), (a, b, S32), times);
            }
        }
    }
    for (shape, rows, depth) in [
        ("m8n8k32", 8, 32),
        ("m16n8k32", 16, 32),
        ("m16n8k64", 16, 64),
    ] {
        for (a, a_name) in [(S4, "s4"), (U4, "u4")] {
            for (b, b_name) in [(S4, "s4"), (U4, "u4")] {
                let opcode =
                    format!("mma.sync.aligned.{shape}.row.col.satfinite.s32.{a_name}.{b_name}.s32");
                check(&opcode, (rows, depth), (a, b, S32), times);
            }
        }
    }
}

#[test]
fn products_of_bits() {
    let shapes = [
        ("m8n8k128", 8, 128),
        ("m16n8k128", 16, 128),
        ("m16n8k256", 16, 256),
    ];
    for (shape, rows, depth) in shapes {
        let opcode = |operation: &str| {
            format!("mma.sync.aligned.{shape}.row.col.s32.b1.b1.s32.{operation}.popc")
        };
        check(&opcode("and"), (rows, depth), (B1, B1, S32), |a, b| a & b);
        check(&opcode("xor"), (rows, depth), (B1, B1, S32), |a, b| a ^ b);
    }
}

#[test]
fn products_of_eight_bit_floats() {
    for (shape, depth) in [("m16n8k16", 16), ("m16n8k32", 32)] {
        for (a, a_name) in [(E4M3, "e4m3"), (E5M2, "e5m2")] {
            for (b, b_name) in [(E4M3, "e4m3"), (E5M2, "e5m2")] {
                let opcode = |sum: &str| {
                    format!("mma.sync.aligned.{shape}.row.col.{sum}.{a_name}.{b_name}.{sum}")
                };
                check(&opcode("f32"), (16, depth), (a, b, F32), times);
                check(&opcode("f16"), (16, depth), (a, b, F16), times);
            }
        }
    }
}

#[test]
fn products_of_doubles() {
    let shapes = [
        ("m8n8k4", 8, 4),
        ("m16n8k4", 16, 4),
        ("m16n8k8", 16, 8),
        ("m16n8k16", 16, 16),
    ];
    for (shape, rows, depth) in shapes {
        let opcode = format!("mma.sync.aligned.{shape}.row.col.f64.f64.f64.f64");
        check(&opcode, (rows, depth), (F64, F64, F64), times);
    }
}

/// Instruction, shape, depth, type of the factors, and what it does of two of them.
type Fragments = (
    &'static str,
    &'static str,
    usize,
    Element,
    fn(i64, i64) -> i64,
);

/// `wmma` of less than a byte: A by rows, B by columns.
#[test]
fn fragments_of_nibbles_and_bits() {
    let cases: [Fragments; 4] = [
        (
            "mma.sync.aligned.row.col.m8n8k32.s32.s4.s4.s32",
            "m8n8k32",
            32,
            S4,
            times,
        ),
        (
            "mma.sync.aligned.row.col.m8n8k32.s32.u4.u4.s32",
            "m8n8k32",
            32,
            U4,
            times,
        ),
        (
            "mma.and.popc.sync.aligned.row.col.m8n8k128.s32.b1.b1.s32",
            "m8n8k128",
            128,
            B1,
            |a, b| a & b,
        ),
        (
            "mma.xor.popc.sync.aligned.row.col.m8n8k128.s32.b1.b1.s32",
            "m8n8k128",
            128,
            B1,
            |a, b| a ^ b,
        ),
    ];
    for (product, shape, depth, element, combine) in cases {
        let bench = Bench::new();
        let ty = product.rsplit('.').nth(1).unwrap();
        let program = bench.link(&[&format!(
            "{HEAD}.visible .entry k(.param .u64 a, .param .u64 b, .param .u64 c) {{
               .reg .u64 %p; .reg .b32 %a, %b, %c<2>, %d<2>, %s;
               mov.u32 %s, {};
               ld.param.u64 %p, [a];
               wmma.load.a.sync.aligned.row.{shape}.global.{ty} {{%a}}, [%p], %s;
               ld.param.u64 %p, [b];
               wmma.load.b.sync.aligned.col.{shape}.global.{ty} {{%b}}, [%p], %s;
               ld.param.u64 %p, [c];
               wmma.load.c.sync.aligned.row.{shape}.global.s32 {{%c0, %c1}}, [%p];
               wmma.{product} {{%d0, %d1}}, {{%a}}, {{%b}}, {{%c0, %c1}};
               wmma.store.d.sync.aligned.row.{shape}.global.s32 [%p], {{%d0, %d1}};
               ret; }}",
            // Rows with a gap of 32 bits between them.
            depth + 32 / element.bits,
        )]);
        let left = Numbers::new(8, depth, element.range, 5);
        let right = Numbers::new(depth, 8, element.range, 6);
        let addend = Numbers::new(8, 8, (-9, 9), 7);
        let packed = |at: &dyn Fn(usize, usize) -> i64| -> Vec<u32> {
            let per = 32 / element.bits;
            (0..8)
                .flat_map(|line| {
                    let words = (0..depth / per).map(move |word| {
                        (0..per).fold(0, |bits, e| {
                            bits | ((element.write)(at(line, word * per + e)) as u32)
                                << (e * element.bits)
                        })
                    });
                    words.chain([0x5555_5555]).collect::<Vec<_>>()
                })
                .collect()
        };
        let a = bench.u32s(&packed(&|row, k| left.at(row, k)));
        let b = bench.u32s(&packed(&|column, k| right.at(k, column)));
        let c: Vec<u32> = addend.values.iter().map(|x| *x as u32).collect();
        let c = bench.u32s(&c);
        let (grid, block) = WARP;
        bench
            .launch(
                &program,
                "k",
                grid,
                block,
                &[P::U64(a), P::U64(b), P::U64(c)],
            )
            .unwrap();
        let expected: Vec<u32> = (0..64)
            .map(|e| {
                let (row, column) = (e / 8, e % 8);
                let sum: i64 = (0..depth)
                    .map(|k| combine(left.at(row, k), right.at(k, column)))
                    .sum();
                (sum + addend.values[e]) as u32
            })
            .collect();
        assert_eq!(bench.read_u32s(c, 64), expected, "{product}");
    }
}

#[test]
fn a_matrix_in_registers_is_transposed() {
    let bench = Bench::new();
    let program = bench.link(&[&format!(
        "{HEAD}.visible .entry k(.param .u64 m) {{
           .reg .u64 %p, %x; .reg .b32 %t, %v;
           ld.param.u64 %p, [m]; mov.u32 %t, %tid.x; mad.wide.u32 %x, %t, 4, %p;
           ld.global.b32 %v, [%x];
           movmatrix.sync.aligned.m8n8.trans.b16 %v, %v;
           st.global.b32 [%x], %v;
           ret; }}"
    )]);
    // Rows of eight halves, which lie in lanes as in memory.
    let matrix = |transposed: bool| -> Vec<u32> {
        let value = |row: u32, column: u32| match transposed {
            true => column * 100 + row,
            false => row * 100 + column,
        };
        (0..32)
            .map(|word| {
                let (row, column) = (word / 4, word % 4 * 2);
                value(row, column) | value(row, column + 1) << 16
            })
            .collect()
    };
    let m = bench.u32s(&matrix(false));
    let (grid, block) = WARP;
    bench
        .launch(&program, "k", grid, block, &[P::U64(m)])
        .unwrap();
    assert_eq!(bench.read_u32s(m, 32), matrix(true));
}
