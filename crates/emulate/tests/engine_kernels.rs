//! The engine on kernels of many kinds, compiled by the real compiler for an
//! old and a new target. Expected results are computed here.

use crate::common;

use common::{Bench, P, compile};
use emulate::engine::{FaultKind, Program};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

const SOURCE: &str = include_str!("engine_kernels.cu");
const TARGETS: [&str; 2] = ["sm_75", "sm_90"];

fn text(arch: &'static str) -> &'static str {
    static OLD: OnceLock<String> = OnceLock::new();
    static NEW: OnceLock<String> = OnceLock::new();
    let cell = if arch == "sm_75" { &OLD } else { &NEW };
    cell.get_or_init(|| compile("kernels", SOURCE, arch, &[]))
}

/// Run a check on every target.
fn each(check: impl Fn(&Bench, &Program)) {
    for arch in TARGETS {
        let bench = Bench::new();
        let program = bench.link(&[text(arch)]);
        check(&bench, &program);
    }
}

const ONE: [u32; 3] = [1, 1, 1];

fn threads(n: u32) -> [u32; 3] {
    [n, 1, 1]
}

/// A reproducible stream of bits.
fn random(seed: u64) -> impl FnMut() -> u32 {
    let mut state = seed;
    move || {
        state = state
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        (state >> 33) as u32 ^ (state >> 11) as u32
    }
}

#[test]
fn warp_reduction_by_shuffles() {
    each(|b, p| {
        let x: Vec<f32> = (0..5000).map(|i| (i % 17) as f32 - 4.0).collect();
        let (dx, out) = (b.f32s(&x), b.f32s(&[0.0]));
        b.launch(
            p,
            "warp_sum",
            threads(7),
            threads(160),
            &[P::U64(dx), P::U64(out), P::U32(5000)],
        )
        .unwrap();
        assert_eq!(b.read_f32s(out, 1)[0], x.iter().sum::<f32>());
    });
}

#[test]
fn prefix_sum_in_dynamic_shared_memory() {
    each(|b, p| {
        let x: Vec<u32> = (0..300).map(|i| i * 7 % 31).collect();
        let (dx, dy) = (b.u32s(&x), b.u32s(&[0; 300]));
        b.launch_with(
            p,
            "scan",
            (ONE, threads(300)),
            &[P::U64(dx), P::U64(dy)],
            |c| c.dynamic_shared = 1200,
        )
        .unwrap();
        let expected: Vec<u32> = x
            .iter()
            .scan(0, |s, v| {
                *s += v;
                Some(*s)
            })
            .collect();
        assert_eq!(b.read_u32s(dy, 300), expected);
    });
}

#[test]
fn histogram_by_shared_and_global_atomics() {
    each(|b, p| {
        let mut next = random(3);
        let x: Vec<u8> = (0..10_000).map(|_| (next() % 200) as u8).collect();
        let (dx, bins) = (b.upload(&x, |v| vec![v]), b.u32s(&[0; 256]));
        b.launch(
            p,
            "histogram",
            threads(6),
            threads(192),
            &[P::U64(dx), P::U64(bins), P::U32(10_000)],
        )
        .unwrap();
        let mut expected = vec![0; 256];
        x.iter().for_each(|v| expected[*v as usize] += 1);
        assert_eq!(b.read_u32s(bins, 256), expected);
    });
}

#[test]
fn tiled_product() {
    each(|b, p| {
        let n = 64usize;
        let a: Vec<f32> = (0..n * n).map(|i| (i % 11) as f32 - 5.0).collect();
        let m: Vec<f32> = (0..n * n).map(|i| (i % 13) as f32 - 6.0).collect();
        let (da, db, dc) = (b.f32s(&a), b.f32s(&m), b.f32s(&vec![0.0; n * n]));
        b.launch(
            p,
            "tiled",
            [4, 4, 1],
            [16, 16, 1],
            &[P::U64(da), P::U64(db), P::U64(dc), P::U32(n as u32)],
        )
        .unwrap();
        let c = b.read_f32s(dc, n * n);
        for i in 0..n * n {
            assert_eq!(
                c[i],
                (0..n)
                    .map(|k| a[i / n * n + k] * m[k * n + i % n])
                    .sum::<f32>()
            );
        }
    });
}

#[test]
fn bitonic_sort() {
    each(|b, p| {
        let mut next = random(9);
        let mut x: Vec<u32> = (0..512).map(|_| next()).collect();
        let dx = b.u32s(&x);
        b.launch_with(p, "bitonic", (ONE, threads(512)), &[P::U64(dx)], |c| {
            c.seed = 77
        })
        .unwrap();
        x.sort();
        assert_eq!(b.read_u32s(dx, 512), x);
    });
}

#[test]
fn recursion_and_indirect_calls() {
    each(|b, p| {
        let out = b.u32s(&[0; 64]);
        b.launch(p, "recursion", ONE, threads(64), &[P::U64(out)])
            .unwrap();
        let fib = [0, 1, 1, 2, 3, 5, 8, 13, 21, 34, 55, 89];
        assert_eq!(
            b.read_u32s(out, 64),
            (0..64).map(|t| fib[t % 12]).collect::<Vec<_>>()
        );
        b.launch(p, "pointers", ONE, threads(64), &[P::U64(out)])
            .unwrap();
        let expected: Vec<u32> = (0..64u32)
            .map(|t| match t % 3 {
                0 => t + 7,
                1 => t.wrapping_sub(7),
                _ => t * 7,
            })
            .collect();
        assert_eq!(b.read_u32s(out, 64), expected);
    });
}

#[test]
fn switch_and_constants() {
    each(|b, p| {
        let out = b.u32s(&[0; 96]);
        b.launch(p, "choice", ONE, threads(96), &[P::U64(out)])
            .unwrap();
        let weights = [3, 1, 4, 1, 5, 9, 2, 6];
        let expected: Vec<u32> = (0..96i32)
            .map(|t| match t % 9 {
                0 => t * 3,
                1 => t - 100,
                2 => t ^ 0x55,
                3 => t << 3,
                4 => weights[t as usize % 8],
                5 => t / 7,
                6 => -t,
                7 => t * t,
                _ => 1,
            } as u32)
            .collect();
        assert_eq!(b.read_u32s(out, 96), expected);
    });
}

#[test]
fn locks_within_a_warp_do_not_hang() {
    each(|b, p| {
        let value = b.u32s(&[0]);
        b.launch(p, "spin", threads(4), threads(96), &[P::U64(value)])
            .unwrap();
        assert_eq!(b.read_u32s(value, 1), [384]);
        b.launch(p, "spin_plain", threads(2), threads(64), &[P::U64(value)])
            .unwrap();
        assert_eq!(b.read_u32s(value, 1), [384 + 128]);
    });
}

#[test]
fn printf_in_order() {
    each(|b, p| {
        b.launch(p, "print", ONE, threads(32), &[P::U32(3)])
            .unwrap();
        assert_eq!(
            b.output(),
            "thread 0 of 32:  0.00|even  |a|0|beef|%|0\n\
             thread 1 of 32:  1.50|odd   |b|-1234567890123|bef0|%|1e+10\n\
             thread 2 of 32:  3.00|even  |c|-2469135780246|bef1|%|2e+10\n"
        );
    });
}

#[test]
fn device_heap() {
    each(|b, p| {
        let out = b.u32s(&[0; 256]);
        b.launch(p, "lists", threads(1), threads(256), &[P::U64(out)])
            .unwrap();
        assert_eq!(
            b.read_u32s(out, 256),
            (0..256).map(|t| t * (t + 1) / 2).collect::<Vec<u32>>()
        );
        assert!(b.machine.heap().blocks().is_empty(), "everything was freed");
    });
}

#[test]
fn nested_divergence_reconverges() {
    each(|b, p| {
        let out = b.u32s(&[0; 64]);
        b.launch(p, "nested", ONE, threads(64), &[P::U64(out)])
            .unwrap();
        let expected: Vec<u32> = (0..64)
            .map(|t| {
                let mut s = 0;
                for i in 0..t % 7 {
                    for j in 0..(t + i) % 5 {
                        if (i + j + t) % 3 == 0 {
                            continue;
                        }
                        if j == 3 {
                            break;
                        }
                        s += i * 10 + j;
                    }
                    s += 1;
                }
                s + 1000
            })
            .collect();
        assert_eq!(b.read_u32s(out, 64), expected);
    });
}

#[test]
fn half_precision() {
    each(|b, p| {
        // f16 1.5 and -2.0; bf16 3.0 and 0.5: exact in every step.
        let x = b.u32s(&[0xc000_3e00; 32]);
        let u = b.u32s(&[0x3f00_4040; 32]);
        let (y, v, f) = (b.u32s(&[0; 32]), b.u32s(&[0; 32]), b.f32s(&[0.0; 32]));
        b.launch(
            p,
            "halves",
            ONE,
            threads(32),
            &[P::U64(x), P::U64(y), P::U64(u), P::U64(v), P::U64(f)],
        )
        .unwrap();
        // 1.5² + 0.5 = 2.75, 4 + 0.5 = 4.5; 3 × 6 = 18, 0.5 × 1 = 0.5.
        assert_eq!(b.read_u32s(y, 32), [0x4480_4180; 32]);
        assert_eq!(b.read_u32s(v, 32), [0x3f00_4190; 32]);
        let got = b.read_f32s(f, 1)[0];
        assert!((got - (1.5 + 0.5 + 1.2247)).abs() < 1e-3, "{got}");
    });
}

#[test]
fn grid_wide_barrier() {
    each(|b, p| {
        let n = 8 * 64;
        for threads_of_host in [1, 2] {
            let start: Vec<u32> = (0..n).map(|i| i * 5 % 97).collect();
            let (data, out) = (b.u32s(&start), b.u32s(&vec![0; n as usize]));
            b.launch_with(
                p,
                "grid_barrier",
                (threads(8), threads(64)),
                &[P::U64(data), P::U64(out), P::U32(5)],
                |c| {
                    c.cooperative = true;
                    c.threads = threads_of_host;
                },
            )
            .unwrap();
            let expected: Vec<u32> = (0..n).map(|i| (i + 5) % n * 5 % 97 + 5).collect();
            assert_eq!(b.read_u32s(out, n as usize), expected);
        }
    });
}

fn shape(data: u64) -> Vec<u8> {
    let mut s = vec![9u8, 0, 0, 0, 0, 0, 0, 0];
    s.extend(2.5f64.to_le_bytes());
    for tag in [10i16, -20, 30] {
        s.extend(tag.to_le_bytes());
    }
    s.extend([0, 0]);
    s.extend(data.to_le_bytes());
    s
}

#[test]
fn structs_as_parameters() {
    each(|b, p| {
        let data = b.u32s(&[100, 200, 300, 400]);
        let s = shape(data);
        let out = b.u64s(&[0; 32]);
        let doubles = |out| {
            b.read_u64s(out, 32)
                .into_iter()
                .map(f64::from_bits)
                .collect::<Vec<_>>()
        };
        let tags = [10.0, -20.0, 30.0];
        b.launch(
            p,
            "shapes",
            ONE,
            threads(32),
            &[P::Bytes(&s, 8), P::U32(4), P::U64(out)],
        )
        .unwrap();
        let expected: Vec<f64> = (0..32)
            .map(|t| {
                2.5 * t as f64
                    + tags[t % 3]
                    + 9.0
                    + if t < 4 { 100.0 * (t + 1) as f64 } else { 0.0 }
            })
            .collect();
        assert_eq!(doubles(out), expected);
        assert_eq!(
            b.read_u64s(p.variable("total").unwrap().address, 1),
            [5 + 31 * 16]
        );
        b.launch(
            p,
            "by_value",
            ONE,
            threads(32),
            &[P::Bytes(&s, 8), P::U64(out)],
        )
        .unwrap();
        assert_eq!(
            doubles(out),
            (0..32).map(|t| tags[t % 3] * 2.5 + 9.0).collect::<Vec<_>>()
        );
        b.launch(
            p,
            "grid_constant",
            ONE,
            threads(32),
            &[P::Bytes(&s, 8), P::U64(out)],
        )
        .unwrap();
        assert_eq!(
            doubles(out),
            (0..32).map(|t| tags[t % 3] + 2.5).collect::<Vec<_>>()
        );
    });
}

#[test]
fn arrays_in_local_memory() {
    each(|b, p| {
        let out = b.u32s(&[0; 64]);
        b.launch(p, "local_array", ONE, threads(64), &[P::U64(out)])
            .unwrap();
        let expected: Vec<u32> = (0..64u32)
            .map(|t| {
                let (mut s, mut at) = (0u32, t % 32);
                for _ in 0..40 {
                    s += at * t;
                    at = (at * 5 + 1) % 32;
                }
                s
            })
            .collect();
        assert_eq!(b.read_u32s(out, 64), expected);
    });
}

#[test]
fn votes_matches_and_block_votes() {
    each(|b, p| {
        let out = b.u32s(&[0; 128]);
        b.launch(p, "votes", ONE, threads(128), &[P::U64(out)])
            .unwrap();
        let expected: Vec<u32> = (0..128u32)
            .map(|t| {
                let warp = t / 32 * 32;
                let ballot = (0..32)
                    .filter(|l| (warp + l) % 3 == 0)
                    .fold(0u32, |m, l| m | 1 << l);
                let same = (0..32)
                    .filter(|l| (warp + l) % 4 == t % 4)
                    .fold(0u32, |m, l| m | 1 << l);
                let all = u32::from(warp + 31 < 64);
                let any = u32::from(warp <= 77 && 77 < warp + 32);
                ballot ^ same ^ all << 1 ^ any << 2 ^ 64 << 3 ^ 1 << 12 ^ 1 << 13
            })
            .collect();
        assert_eq!(b.read_u32s(out, 128), expected);
    });
}

#[test]
fn cooperative_tiles() {
    each(|b, p| {
        let out = b.u32s(&[0; 32]);
        b.launch(p, "tiles", ONE, threads(32), &[P::U64(out)])
            .unwrap();
        let expected: Vec<u32> = (0..32u32)
            .map(|t| {
                let first = t / 8 * 8;
                let sum: u32 = (first..first + 8).sum();
                // 0, 3, …, 30: eleven threads.
                if t % 3 == 0 {
                    sum + 110_000 + 100_000 * (t / 3)
                } else {
                    sum
                }
            })
            .collect();
        assert_eq!(b.read_u32s(out, 32), expected);
    });
}

#[test]
fn integer_and_double_arithmetic() {
    each(|b, p| {
        let mut next = random(21);
        let n = 64usize;
        let x: Vec<i32> = (0..n)
            .map(|i| if i == 0 { 0 } else { next() as i32 })
            .collect();
        let u: Vec<u32> = (0..n).map(|_| next()).collect();
        let d: Vec<f64> = (0..n).map(|_| f64::from(next() as i32) / 1000.0).collect();
        let dx = b.u32s(&x.iter().map(|v| *v as u32).collect::<Vec<_>>());
        let (du, dd, out) = (
            b.u32s(&u),
            b.u64s(&d.iter().map(|v| v.to_bits()).collect::<Vec<_>>()),
            b.u64s(&[0; 64]),
        );
        b.launch(
            p,
            "arithmetic",
            ONE,
            threads(64),
            &[P::U64(dx), P::U64(du), P::U64(dd), P::U64(out)],
        )
        .unwrap();
        let expected: Vec<u64> = (0..n)
            .map(|t| {
                let (x, u, d, t1) = (x[t], u[t], d[t], t as i32 + 1);
                let mut s = i64::from(
                    (x.wrapping_div(t1).wrapping_add(x.wrapping_rem(t1)) as u32)
                        .wrapping_add(u / 7)
                        .wrapping_add(u % 13),
                );
                let high = |a: i64, b: i64| ((a * b) >> 32) as i32;
                let uhigh = i64::from(((u64::from(u) * 0x9abc_def0) >> 32) as u32);
                let ffs = if x == 0 {
                    0
                } else {
                    x.trailing_zeros() as i64 + 1
                };
                s += i64::from(high(x.into(), 0x1234_5678))
                    + uhigh
                    + i64::from(u.count_ones())
                    + i64::from(x.leading_zeros())
                    + ffs
                    + i64::from(u.reverse_bits());
                s += (d * 3.7) as i64
                    + d.floor() as i64
                    + d.abs().sqrt() as i64
                    + i64::from(d.round_ties_even() as i32);
                let bytes = u64::from(u) | u64::from(x as u32) << 32;
                let permuted = [5, 1, 7, 3].iter().enumerate().fold(0u32, |w, (i, k)| {
                    w | ((bytes >> (8 * k)) as u32 & 0xff) << (8 * i)
                });
                let funnel = (bytes << (t % 32) >> 32) as u32;
                let dot = (0..4).fold(5i32, |s, i| {
                    s + i32::from((x >> (8 * i)) as i8) * i32::from((u >> (8 * i)) as i8)
                });
                let word = permuted
                    .wrapping_add(funnel)
                    .wrapping_add((x >> (t % 31)) as u32)
                    .wrapping_add(dot as u32);
                s += i64::from(word);
                s ^= i64::from(x)
                    .wrapping_mul(i64::from(u))
                    .wrapping_mul(12345678901)
                    / (t as i64 + 3);
                s as u64
            })
            .collect();
        assert_eq!(b.read_u64s(out, n), expected);
    });
}

#[test]
fn vector_loads_and_stores() {
    each(|b, p| {
        let x: Vec<f32> = (0..128).map(|i| i as f32).collect();
        let bytes: Vec<u8> = (0..128).map(|i| (i * 37 % 256) as u8).collect();
        let w: Vec<u64> = (0..64).map(|i| (i as f64).to_bits()).collect();
        let (dx, dy, dc) = (
            b.f32s(&x),
            b.f32s(&[0.0; 128]),
            b.upload(&bytes, |v| vec![v]),
        );
        let (ds, dd, de) = (b.u32s(&[0; 32]), b.u64s(&w), b.u64s(&[0; 64]));
        b.launch(
            p,
            "vectors",
            ONE,
            threads(32),
            &[
                P::U64(dx),
                P::U64(dy),
                P::U64(dc),
                P::U64(ds),
                P::U64(dd),
                P::U64(de),
            ],
        )
        .unwrap();
        let y = b.read_f32s(dy, 128);
        let (s, e) = (b.read_u32s(ds, 32), b.read_u64s(de, 64));
        for t in 0..32 {
            let v = &x[4 * t..];
            assert_eq!(
                y[4 * t..4 * t + 4],
                [v[3], v[2] + 1.0, v[1] * 2.0, v[0] - 3.0]
            );
            let c: Vec<i32> = bytes[4 * t..4 * t + 4]
                .iter()
                .map(|v| i32::from(*v))
                .collect();
            assert_eq!(
                s[t],
                u32::from((c[0] - c[1]) as u16) | u32::from(-(c[2] + c[3]) as u16) << 16
            );
            assert_eq!(e[2 * t..2 * t + 2], [w[2 * t + 1], w[2 * t]]);
        }
    });
}

#[test]
fn atomics_of_every_kind() {
    each(|b, p| {
        let n = 8 * 96u32;
        let i = b.u32s(&[0, 0, 5, 5, 0, u32::MAX, 0]);
        let u = b.u32s(&[0, 0, 0, u32::MAX, 0]);
        let l = b.u64s(&[0, 0]);
        let (f, d, h) = (b.f32s(&[0.0]), b.u64s(&[0]), b.u32s(&[0]));
        b.launch(
            p,
            "atomics",
            threads(8),
            threads(96),
            &[
                P::U64(i),
                P::U64(u),
                P::U64(l),
                P::U64(f),
                P::U64(d),
                P::U64(h),
            ],
        )
        .unwrap();
        let sum = n * (n - 1) / 2;
        let xor = (0..n).fold(0, |a, t| a ^ t);
        let bits = (1u32 << 31) - 1;
        assert_eq!(
            b.read_u32s(i, 7),
            [
                sum,
                sum.wrapping_neg(),
                (n - 1).wrapping_neg(),
                n - 1,
                bits,
                !bits,
                xor
            ]
        );
        let wrapped = b.read_u32s(u, 5);
        assert_eq!(wrapped[0], n % 100);
        // From 0 to 50, then down: a cycle of 51.
        assert_eq!(wrapped[1], (51 - n % 51) % 51);
        assert_eq!(wrapped[2..], [7, 1000, n - 1]);
        assert_eq!(b.read_u64s(l, 2), [u64::from(n) << 33, 1 << 59]);
        assert_eq!(b.read_f32s(f, 1), [n as f32 * 0.5]);
        assert_eq!(f64::from_bits(b.read_u64s(d, 1)[0]), f64::from(n) * 0.25);
        assert!(b.read_u32s(h, 1)[0] >= 1);
    });
}

#[test]
fn library_functions_are_close() {
    each(|b, p| {
        let n = 64usize;
        let x: Vec<f32> = (0..n).map(|i| (i as f32 - 32.0) * 0.173).collect();
        let (dx, out) = (b.f32s(&x), b.f32s(&vec![0.0; 9 * n]));
        b.launch(
            p,
            "math",
            ONE,
            threads(64),
            &[P::U64(dx), P::U64(out), P::U32(64)],
        )
        .unwrap();
        let got = b.read_f32s(out, 9 * n);
        for (t, &v) in x.iter().enumerate() {
            let expected = [
                v.sin(),
                v.exp(),
                (v.abs() + 1.0).ln(),
                v.abs().powf(1.7),
                v / (t as f32 + 1.5),
                1.0 / (v.abs() + 1.0).sqrt(),
                v.exp() + v.sin() + v / 3.0,
                v.min(0.5)
                    + v.max(-0.5)
                    + v.round_ties_even()
                    + v.trunc()
                    + if v > 1.0 { 1.0 } else { 2.0 },
                f64::from(v).tanh() as f32 + f64::from(v).exp() as f32,
            ];
            for (k, e) in expected.iter().enumerate() {
                let g = got[k * n + t];
                assert!(
                    (g - e).abs() <= 2e-5 * e.abs().max(1.0),
                    "function {k} of {v}: {g}, expected {e}"
                );
            }
        }
    });
}

#[test]
fn lanes_that_left_are_not_waited_for() {
    each(|b, p| {
        let out = b.u32s(&[0; 64]);
        b.launch(p, "early", ONE, threads(64), &[P::U64(out)])
            .unwrap();
        assert_eq!(
            b.read_u32s(out, 64),
            (0..64)
                .map(|t| if t % 2 == 0 { 17 } else { 0 })
                .collect::<Vec<_>>()
        );
    });
}

#[test]
fn faults_say_what_and_where() {
    each(|b, p| {
        let x = b.u32s(&[0; 8]);
        let fault = |entry, n| {
            b.launch(
                p,
                entry,
                ONE,
                threads(n),
                if entry == "trapping" || entry == "deadlocked" {
                    vec![]
                } else {
                    vec![P::U64(x)]
                }
                .as_slice(),
            )
            .unwrap_err()
        };
        let f = fault("out_of_range", 1);
        assert_eq!(
            (f.kind, f.address),
            (FaultKind::IllegalAddress, x + (1 << 42))
        );
        assert!(f.opcode.starts_with("st.global"), "{f}");
        assert!(f.ptx_line > 0 && f.kernel == "out_of_range");
        assert_eq!(fault("misaligned", 1).kind, FaultKind::MisalignedAddress);
        assert_eq!(fault("trapping", 1).kind, FaultKind::Trap);
        assert_eq!(fault("overflowing", 1).kind, FaultKind::StackOverflow);
        assert_eq!(fault("shared_overrun", 32).kind, FaultKind::IllegalAddress);
        assert_eq!(fault("deadlocked", 32).kind, FaultKind::Deadlock);
        let f = fault("asserting", 32);
        assert_eq!((f.kind, f.thread), (FaultKind::Assert, [3, 0, 0]));
        assert_eq!(
            b.errors(),
            "file.cu:12: asserting: block: [0,0,0], thread: [3,0,0] Assertion `x == 0` failed.\n"
        );
    });
}

#[test]
fn endless_kernels_can_be_cancelled() {
    let b = Bench::new();
    let p = b.link(&[text("sm_90")]);
    let x = b.u32s(&[0]);
    let cancel = AtomicBool::new(false);
    let fault = std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(std::time::Duration::from_millis(50));
            cancel.store(true, Ordering::Relaxed);
        });
        b.launch_until(&p, "endless", (ONE, threads(32)), &[P::U64(x)], &cancel)
            .unwrap_err()
    });
    assert_eq!(fault.kind, FaultKind::Cancelled);
}

#[test]
fn mapping_goes_on_while_a_kernel_runs() {
    let b = Bench::new();
    let p = b.link(&[text("sm_90")]);
    let x = b.u32s(&[0]);
    std::thread::scope(|scope| {
        let launch = scope.spawn(|| b.launch(&p, "endless", ONE, threads(32), &[P::U64(x)]));
        for _ in 0..20 {
            let more = b.memory.map(2 << 20, 2 << 20).unwrap();
            b.memory.unmap(more).unwrap();
        }
        b.memory.write(x, &1u32.to_le_bytes()).unwrap();
        launch.join().unwrap().unwrap();
    });
}

#[test]
fn warp_matrix_product() {
    each(|b, p| {
        let n = 32usize;
        // 1.0, 2.0, -1.0, 0.5 as halves: sums are exact.
        let halves = [
            (0x3c00u16, 1.0f32),
            (0x4000, 2.0),
            (0xbc00, -1.0),
            (0x3800, 0.5),
        ];
        let pick = |i: usize| halves[(i * 7 + i / 5) % 4];
        let a: Vec<_> = (0..16 * n).map(pick).collect();
        let m: Vec<_> = (0..16 * n).map(|i| pick(i * 3 + 1)).collect();
        let upload = |v: &[(u16, f32)]| b.upload(v, |x| x.0.to_le_bytes().to_vec());
        let (da, db, dc) = (upload(&a), upload(&m), b.f32s(&[0.0; 256]));
        b.launch(
            p,
            "wmma_product",
            ONE,
            threads(32),
            &[P::U64(da), P::U64(db), P::U64(dc), P::U32(n as u32)],
        )
        .unwrap();
        let c = b.read_f32s(dc, 256);
        for i in 0..256 {
            let sum: f32 = (0..n)
                .map(|k| a[i / 16 * n + k].1 * m[i % 16 * n + k].1)
                .sum();
            assert_eq!(c[i], (sum + 1.0) * 2.0, "element {i}");
        }
    });
}
