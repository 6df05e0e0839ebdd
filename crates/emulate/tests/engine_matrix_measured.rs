//! Sparse products, and products of a quarter of a warp each, against what an
//! H200 computes (driver 580): of inputs from a generator of numbers, some
//! results, or a digest of them.

use crate::common;

use common::{Bench, P};

const HEAD: &str = ".version 8.7\n.target sm_90\n.address_size 64\n";

/// Inputs: words of two f16 from -4 to 4 each, twice; any words; and metadata
/// of sparse matrices.
struct Inputs {
    halves: [Vec<u32>; 2],
    words: Vec<u32>,
    metadata: Vec<u32>,
}

impl Inputs {
    fn new() -> Inputs {
        let mut state = 12345u32;
        let mut next = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            state >> 8
        };
        let mut half = || {
            // -4 to 4
            [
                0xc400, 0xc200, 0xc000, 0xbc00, 0, 0x3c00, 0x4000, 0x4200, 0x4400,
            ][next() as usize % 9]
        };
        let halves = [(); 2].map(|()| (0..256).map(|_| half() | half() << 16).collect());
        let words = (0..256).map(|_| next().wrapping_mul(77777)).collect();
        // Which two of four: each pair in order.
        let pairs = [0x4, 0x8, 0xc, 0x9, 0xd, 0xe];
        let word = |_| {
            let places = (0..8).map(|group| pairs[next() as usize % 6] << (4 * group));
            places.sum::<u32>()
        };
        Inputs {
            halves,
            words,
            metadata: (0..32).map(word).collect(),
        }
    }
}

fn digest(words: &[u32]) -> u64 {
    words.iter().fold(0, |sum: u64, word| {
        sum.wrapping_mul(1_000_003).wrapping_add(u64::from(*word))
    })
}

/// Results of `body`, which finds addresses of the lane's part of the inputs in
/// `%a` (of `strides.0` bytes) and `%e` (`strides.1`), and writes `words` words
/// to `%o`.
fn run(body: &str, from: (&[u32], &[u32]), strides: (u32, u32), words: u32) -> Vec<u32> {
    let bench = Bench::new();
    let text = format!(
        "{HEAD}.visible .entry k(.param .u64 a, .param .u64 e, .param .u64 o) {{
           .reg .u64 %a, %e, %o; .reg .u32 %t; .reg .b32 %x<16>, %d<8>;
           mov.u32 %t, %tid.x;
           ld.param.u64 %a, [a]; mad.wide.u32 %a, %t, {}, %a;
           ld.param.u64 %e, [e]; mad.wide.u32 %e, %t, {}, %e;
           ld.param.u64 %o, [o]; mad.wide.u32 %o, %t, {}, %o;
           {body}
           ret; }}",
        strides.0,
        strides.1,
        words * 4,
    );
    let program = bench.link(&[&text]);
    let count = 32 * words as usize;
    let (a, e) = (bench.u32s(from.0), bench.u32s(from.1));
    let out = bench.u32s(&vec![0; count]);
    let parameters = [P::U64(a), P::U64(e), P::U64(out)];
    bench
        .launch(&program, "k", [1; 3], [32, 1, 1], &parameters)
        .unwrap();
    bench.read_u32s(out, count)
}

#[test]
fn sparse_products() {
    let inputs = Inputs::new();
    let product = |opcode: &str, selector: u32, wide: bool, at: u32| {
        let (a, b) = match wide {
            true => ("%x0, %x1, %x2, %x3", "%x4, %x5, %x6, %x7"),
            false => ("%x0, %x1", "%x4, %x5"),
        };
        format!(
            "mov.b32 %d0, 0; mov.b32 %d1, 0; mov.b32 %d2, 0; mov.b32 %d3, 0;
             mma.sp::ordered_metadata.sync.aligned.{opcode} {{%d0, %d1, %d2, %d3}}, {{{a}}},
               {{{b}}}, {{%d0, %d1, %d2, %d3}}, %x8, {selector};
             st.global.v4.b32 [%o+{at}], {{%d0, %d1, %d2, %d3}};"
        )
    };
    // Of the second lane.
    let measured = [
        [
            [-16555, -16667, -4617, -19536],
            [19127, -96233, 49858, -46195],
            [-127, -114, -296, -201],
            [-361, -75, 81, -101],
        ],
        [
            [-26299, -3075, -16919, -14877],
            [19127, -96233, 49858, -46195],
            [-367, -139, -279, -76],
            [-361, -75, 81, -101],
        ],
    ];
    for (selector, measured) in (0..).zip(measured) {
        let products = [
            product("m16n8k32.row.col.s32.s8.u8.s32", selector, false, 0),
            product("m16n8k64.row.col.s32.u8.s8.s32", 0, true, 16),
            product("m16n8k64.row.col.s32.s4.u4.s32", selector, false, 32),
            product("m16n8k128.row.col.s32.s4.s4.s32", 0, true, 48),
        ];
        let body = format!(
            "ld.global.v4.b32 {{%x0, %x1, %x2, %x3}}, [%a];
             ld.global.v4.b32 {{%x4, %x5, %x6, %x7}}, [%a+512];
             ld.global.b32 %x8, [%e];
             {}",
            products.concat()
        );
        let from = (&inputs.words[..], &inputs.metadata[..]);
        let results = run(&body, from, (16, 4), 16);
        let lane: Vec<i32> = results[16..32].iter().map(|word| *word as i32).collect();
        assert_eq!(lane, measured.concat(), "selector {selector}");
    }
}

#[test]
fn products_of_quarters() {
    let inputs = Inputs::new();
    for (form, wide, measured) in [
        ("row.row.f16.f16.f16.f16", false, 0x2cf6_1fe3_b518_c940),
        ("col.row.f32.f16.f16.f16", true, 0xd13f_57dd_da08_0000),
        ("col.col.f16.f16.f16.f16", false, 0x1773_e265_296e_2520),
    ] {
        let (sums, second) = match wide {
            true => (
                "%d0, %d1, %d2, %d3, %d4, %d5, %d6, %d7",
                "st.global.v4.b32 [%o+16], {%d4, %d5, %d6, %d7};",
            ),
            false => ("%d0, %d1, %d2, %d3", ""),
        };
        let body = format!(
            "ld.global.v2.b32 {{%x0, %x1}}, [%a];
             ld.global.v2.b32 {{%x2, %x3}}, [%a+256];
             ld.global.v4.b32 {{%x4, %x5, %x6, %x7}}, [%e];
             mma.sync.aligned.m8n8k4.{form} {{{sums}}}, {{%x0, %x1}}, {{%x2, %x3}},
               {{%x4, %x5, %x6, %x7}};
             st.global.v4.b32 [%o], {{%d0, %d1, %d2, %d3}};
             {second}"
        );
        let from = (&inputs.halves[0][..], &inputs.halves[1][..]);
        let results = run(&body, from, (8, 16), if wide { 8 } else { 4 });
        assert_eq!(digest(&results), measured, "{form}");
    }
}
