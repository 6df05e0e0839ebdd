//! Proofs about rows and columns, against all threads of small launches: random
//! kernels divide an index, compare the index, its quotient and its remainder
//! with something, and write at a sum of them. What is proved must be in bounds.

use instrument::{LaunchShape, Options};
use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use std::cell::Cell;

/// Elements of the buffer.
const ELEMENTS: i32 = 16;
const BASE: u64 = 1 << 40;
const THREADS: i32 = 32;

/// Random kernels, unless `RINGFENCE_RANDOM_ROWS` says how many.
const KERNELS: u32 = 4000;

/// What a kernel computes: `x`, its quotient, the product with the divisor, the
/// remainder, and the same of the remainder.
const VALUES: usize = 7;

/// A number of the kernel's text, or `n` plus that.
#[derive(Clone, Copy, Debug)]
struct Number {
    is_from_n: bool,
    constant: i32,
}

impl Number {
    fn value(self, n: i32) -> i32 {
        match self.is_from_n {
            true => n.wrapping_add(self.constant),
            false => self.constant,
        }
    }

    /// Puts it into a register.
    fn text(self, register: &str) -> String {
        match self.is_from_n {
            true => format!("add.s32 {register}, %n, {};", self.constant),
            false => format!("mov.u32 {register}, {};", self.constant),
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct Guard {
    value: usize,
    relation: &'static str,
    is_signed: bool,
    limit: Number,
}

impl Guard {
    fn holds(&self, values: &[i32; VALUES], n: i32) -> bool {
        let (a, b) = (values[self.value], self.limit.value(n));
        let order = match self.is_signed {
            true => a.cmp(&b),
            false => (a as u32).cmp(&(b as u32)),
        };
        match self.relation {
            "lt" => order.is_lt(),
            "le" => order.is_le(),
            "gt" => order.is_gt(),
            "ge" => order.is_ge(),
            "eq" => order.is_eq(),
            _ => order.is_ne(),
        }
    }
}

#[derive(Clone, Debug)]
struct Kernel {
    shift: i32,
    is_signed: bool,
    by: [Number; 2],
    guards: Vec<Guard>,
    factors: [i32; VALUES],
    plus: Number,
}

impl Kernel {
    fn text(&self) -> String {
        let kind = if self.is_signed { "s32" } else { "u32" };
        let mut text = format!(
            ".version 8.0\n.target sm_80\n.address_size 64\n\
             .visible .entry k(.param .u64 p, .param .u32 n)\n{{\n\
             .reg .pred %p; .reg .b32 %n, %v<{VALUES}>, %d, %e, %l, %i, %t; .reg .b64 %a, %o;\n\
             ld.param.u64 %a, [p]; cvta.to.global.u64 %a, %a; ld.param.u32 %n, [n];\n\
             mov.u32 %v0, %tid.x; add.s32 %v0, %v0, {};\n{} {}\n\
             div.{kind} %v1, %v0, %d; mul.lo.s32 %v2, %v1, %d; sub.s32 %v3, %v0, %v2;\n\
             div.{kind} %v4, %v3, %e; mul.lo.s32 %v5, %v4, %e; sub.s32 %v6, %v3, %v5;\n",
            self.shift,
            self.by[0].text("%d"),
            self.by[1].text("%e"),
        );
        for guard in &self.guards {
            let kind = if guard.is_signed { "s32" } else { "u32" };
            text += &format!(
                "{} setp.{}.{kind} %p, %v{}, %l; @!%p ret;\n",
                guard.limit.text("%l"),
                guard.relation,
                guard.value
            )
            .replace("eq.u32", "eq.s32")
            .replace("ne.u32", "ne.s32");
        }
        text += &self.plus.text("%i");
        for (value, factor) in self.factors.iter().enumerate() {
            if *factor != 0 {
                text += &format!("mul.lo.s32 %t, %v{value}, {factor}; add.s32 %i, %i, %t;\n");
            }
        }
        text += "mul.wide.s32 %o, %i, 4; add.s64 %a, %a, %o; st.global.u32 [%a], 0;\nret;\n}\n";
        text
    }

    /// The elements that the threads of a launch write; `None` where that depends
    /// on a division by zero.
    fn written(&self, n: i32) -> Option<Vec<i32>> {
        let divided = |a: i32, b: i32| match self.is_signed {
            true => a.checked_div(b),
            false => (a as u32)
                .checked_div(b as u32)
                .map(|quotient| quotient as i32),
        };
        let by = self.by.map(|by| by.value(n));
        let mut written = Vec::new();
        for thread in 0..THREADS {
            let mut values = [0; VALUES];
            values[0] = thread.wrapping_add(self.shift);
            for (at, by) in [(0, by[0]), (3, by[1])] {
                values[at + 1] = divided(values[at], by)?;
                values[at + 2] = values[at + 1].wrapping_mul(by);
                values[at + 3] = values[at].wrapping_sub(values[at + 2]);
            }
            if self.guards.iter().all(|guard| guard.holds(&values, n)) {
                let sum = values.iter().zip(&self.factors);
                let start = self.plus.value(n);
                written.push(sum.fold(start, |sum, (value, factor)| {
                    sum.wrapping_add(value.wrapping_mul(*factor))
                }));
            }
        }
        Some(written)
    }
}

fn number() -> impl Strategy<Value = Number> {
    (any::<bool>(), -2..6i32).prop_map(|(is_from_n, constant)| Number {
        is_from_n,
        constant: if is_from_n { constant - 2 } else { constant },
    })
}

fn divisor() -> impl Strategy<Value = Number> {
    prop_oneof![
        3 => Just(Number { is_from_n: true, constant: 0 }),
        1 => (2..9i32).prop_map(|constant| Number { is_from_n: false, constant }),
        1 => number(),
    ]
}

fn guard() -> impl Strategy<Value = Guard> {
    let relation = prop::sample::select(vec!["lt", "le", "gt", "ge", "eq", "ne"]);
    (0..VALUES, relation, any::<bool>(), number()).prop_map(
        |(value, relation, is_signed, limit)| Guard {
            value,
            relation,
            is_signed,
            limit,
        },
    )
}

fn kernel() -> impl Strategy<Value = Kernel> {
    let inside = Guard {
        value: 0,
        relation: "lt",
        is_signed: false,
        limit: Number {
            is_from_n: false,
            constant: ELEMENTS,
        },
    };
    let factors = prop_oneof![
        3 => Just([1, 0, 0, 0, 0, 0, 0]),
        1 => Just([0, 0, 1, 0, 0, 0, 1]),
        1 => Just([0, 0, 0, 1, 0, 0, 0]),
        1 => Just([1, 0, -1, 0, 0, -1, 0]),
        1 => prop::array::uniform7(-1..2i32),
    ];
    let guards = prop::collection::vec(guard(), 0..4);
    (
        prop_oneof![2 => Just(0), 1 => -9..9i32],
        any::<bool>(),
        (divisor(), divisor()),
        (any::<bool>(), guards),
        factors,
        number(),
    )
        .prop_map(
            move |(shift, is_signed, (first, second), (is_inside, mut guards), factors, plus)| {
                if is_inside {
                    guards.insert(0, inside);
                }
                Kernel {
                    shift,
                    is_signed,
                    by: [first, second],
                    guards,
                    factors,
                    plus,
                }
            },
        )
}

#[test]
fn what_is_proved_of_rows_and_columns_is_in_bounds() {
    let cases = std::env::var("RINGFENCE_RANDOM_ROWS");
    let cases = cases.ok().and_then(|text| text.parse().ok());
    let config = ProptestConfig {
        cases: cases.unwrap_or(KERNELS),
        failure_persistence: None,
        ..ProptestConfig::default()
    };
    let shape = LaunchShape {
        grid: [1; 3],
        block: [THREADS as u32, 1, 1],
        shared: 0,
    };
    let (proved, outside) = (Cell::new(0u32), Cell::new(0u32));
    let outcome = TestRunner::new(config).run(&kernel(), |kernel| {
        let made = instrument::instrument(&kernel.text(), &Options::default())
            .map_err(|error| TestCaseError::fail(error.to_string()))?;
        let Ok(program) = &made.entries[0].proof else {
            return Ok(());
        };
        for n in (-3..20).chain([i32::MIN, i32::MAX]) {
            let Some(written) = kernel.written(n) else {
                continue;
            };
            let inputs: Vec<u64> = (program.inputs().iter())
                .map(|input| match input.offset {
                    0 => BASE,
                    _ => u64::from(n as u32),
                })
                .collect();
            let size = 4 * ELEMENTS as u64;
            let bounds = |_| Some((BASE, size));
            let is_proved = program
                .proves_in_parts(&shape, &crate::common::single(&inputs), &bounds)
                .is_proved;
            let is_inside = written.iter().all(|at| (0..ELEMENTS).contains(at));
            prop_assert!(is_inside || !is_proved, "n = {n}: {}", kernel.text());
            proved.set(proved.get() + u32::from(is_proved && !written.is_empty()));
            outside.set(outside.get() + u32::from(!is_inside));
        }
        Ok(())
    });
    if let Err(error) = outcome {
        panic!("{error}");
    }
    // The generator must make both kinds, or nothing was tested.
    println!(
        "{} launches proved, {} outside",
        proved.get(),
        outside.get()
    );
    assert!(proved.get() >= KERNELS / 4 && outside.get() >= KERNELS);
}
