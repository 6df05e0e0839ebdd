//! Kernels made at random, of loops, guards, selections and index arithmetic of all kinds,
//! which access a buffer and arrays in all spaces.

use crate::random::Random;
use spaces::{ARRAY, PARAMETER, Space};
use std::fmt::Write;

#[path = "shapes.rs"]
mod shapes;
#[path = "spaces.rs"]
pub mod spaces;

/// Writes one kernel.
pub struct Kernel {
    random: Random,
    body: String,
    registers: u32,
    wide: u32,
    predicates: u32,
    labels: u32,
    /// Registers that hold something here.
    values: Vec<u32>,
    /// Registers that are written again and again.
    variables: [u32; 2],
    accesses: u32,
    kernel: u32,
    /// The arrays that it uses.
    used: Vec<Space>,
}

const RELATIONS: [&str; 6] = ["eq", "ne", "lt", "le", "gt", "ge"];

impl Kernel {
    /// The text of a kernel of this number, with its variables.
    pub fn text(seed: u64, number: u32) -> String {
        let mut kernel = Kernel {
            random: Random(seed | 1),
            body: String::new(),
            registers: 0,
            wide: 2,
            predicates: 0,
            labels: 0,
            values: Vec::new(),
            variables: [0, 0],
            accesses: 0,
            kernel: number,
            used: Vec::new(),
        };
        kernel.prologue();
        kernel.block(0);
        kernel.access();
        let Kernel {
            body,
            registers,
            wide,
            predicates,
            ..
        } = kernel;
        let variables = spaces::variables(number);
        format!(
            "{variables}.visible .entry k{number}(.param .u64 k{number}_p, .param .u32 k{number}_n, \
             .param .s32 k{number}_m, .param .align 4 .b8 k{number}_q[{PARAMETER}])\n{{\n\
             .shared .align 4 .b8 k{number}_s[{ARRAY}];\n.local .align 4 .b8 k{number}_l[{ARRAY}];\n\
             .reg .f32 %f<1>;\n.reg .pred %p<{}>;\n.reg .b32 %r<{}>;\n.reg .b64 %rd<{}>;\n\
             {body}$end{number}:\nret;\n}}\n",
            predicates + 1,
            registers + 1,
            wide + 1,
        )
    }

    fn line(&mut self, text: std::fmt::Arguments<'_>) {
        let _ = writeln!(self.body, "\t{text}");
    }

    fn register(&mut self) -> u32 {
        self.registers += 1;
        self.registers - 1
    }

    fn predicate(&mut self) -> u32 {
        self.predicates += 1;
        self.predicates - 1
    }

    fn prologue(&mut self) {
        let k = self.kernel;
        self.line(format_args!("ld.param.u64 %rd0, [k{k}_p];"));
        self.line(format_args!("cvta.to.global.u64 %rd1, %rd0;"));
        let [n, m, tid, ctaid, ntid, i] = std::array::from_fn(|_| self.register());
        self.line(format_args!("ld.param.u32 %r{n}, [k{k}_n];"));
        self.line(format_args!("ld.param.u32 %r{m}, [k{k}_m];"));
        self.line(format_args!("mov.u32 %r{tid}, %tid.x;"));
        self.line(format_args!("mov.u32 %r{ctaid}, %ctaid.x;"));
        self.line(format_args!("mov.u32 %r{ntid}, %ntid.x;"));
        self.line(format_args!(
            "mad.lo.s32 %r{i}, %r{ctaid}, %r{ntid}, %r{tid};"
        ));
        let [a, b] = std::array::from_fn(|_| self.register());
        self.line(format_args!("mov.u32 %r{a}, %r{i};"));
        self.line(format_args!("mov.u32 %r{b}, 0;"));
        self.variables = [a, b];
        self.values = vec![n, m, tid, i, i, a, b];
        self.arrays();
        if self.random.below(2) == 0 {
            let p = self.predicate();
            let relation = self.random.of(&["ge.s32", "ge.u32", "gt.s32", "hs.u32"]);
            self.line(format_args!("setp.{relation} %p{p}, %r{i}, %r{n};"));
            self.line(format_args!("@%p{p} bra $end{k};"));
        }
    }

    fn value(&mut self) -> u32 {
        let values = std::mem::take(&mut self.values);
        // The latest are the likeliest.
        let last = values.len() as u64 - 1;
        let back = self.random.below(last + 1).min(self.random.below(last + 1));
        let value = values[(last - back) as usize];
        self.values = values;
        value
    }

    fn operand(&mut self) -> String {
        match self.random.below(3) {
            0 => {
                let constant = self
                    .random
                    .of(&[0, 1, 2, 3, 4, 5, 7, 8, 16, 31, 100, -1, -2, -8]);
                constant.to_string()
            }
            _ => format!("%r{}", self.value()),
        }
    }

    fn comparison(&mut self) -> u32 {
        let a = self.value();
        let b = self.operand();
        let p = self.predicate();
        let relation = self.random.of(&RELATIONS);
        let kind = self.random.of(&["s32", "u32", "s32"]);
        self.line(format_args!("setp.{relation}.{kind} %p{p}, %r{a}, {b};"));
        if self.random.below(4) != 0 {
            return p;
        }
        let (q, both) = (self.comparison(), self.predicate());
        let operation = self.random.of(&["and", "or"]);
        self.line(format_args!("{operation}.pred %p{both}, %p{p}, %p{q};"));
        both
    }

    fn arithmetic(&mut self) {
        let a = self.value();
        let b = self.operand();
        let to = match self.random.below(4) {
            0 => {
                let variables = self.variables;
                self.random.of(&variables)
            }
            _ => self.register(),
        };
        let shift = self.random.of(&[1, 2, 4, 5, 28, 30]);
        let mask = self.random.of(&[1, 3, 7, 15, 255, -2, -4, -16]);
        let by = self.random.of(&[1, 2, 3, 7, 16, 100]);
        let sign = self.random.of(&["s32", "u32"]);
        match self.random.below(17) {
            0..=2 => self.line(format_args!("add.s32 %r{to}, %r{a}, {b};")),
            3..=4 => self.line(format_args!("sub.s32 %r{to}, %r{a}, {b};")),
            5 => self.line(format_args!("mul.lo.s32 %r{to}, %r{a}, {b};")),
            6 => self.line(format_args!("mad.lo.s32 %r{to}, %r{a}, {by}, {b};")),
            7 => self.line(format_args!("shl.b32 %r{to}, %r{a}, {shift};")),
            8 => self.line(format_args!("shr.{sign} %r{to}, %r{a}, {shift};")),
            9 => self.line(format_args!("and.b32 %r{to}, %r{a}, {mask};")),
            10 => self.line(format_args!("or.b32 %r{to}, %r{a}, {b};")),
            11 => self.line(format_args!("xor.b32 %r{to}, %r{a}, {b};")),
            12 => self.line(format_args!("min.{sign} %r{to}, %r{a}, {b};")),
            13 => self.line(format_args!("max.{sign} %r{to}, %r{a}, {b};")),
            14 => {
                let operation = self.random.of(&["div", "rem"]);
                self.line(format_args!("{operation}.{sign} %r{to}, %r{a}, {by};"));
            }
            15 => {
                let p = self.comparison();
                self.line(format_args!("selp.b32 %r{to}, %r{a}, {b}, %p{p};"));
            }
            _ => {
                let p = self.comparison();
                let not = self.random.of(&["", "!"]);
                // The old value must be one.
                let to = self.variables[0];
                self.line(format_args!("@{not}%p{p} mov.u32 %r{to}, {b};"));
                return;
            }
        }
        self.values.push(to);
    }

    fn access(&mut self) {
        if self.random.below(2) == 0 {
            return self.access_array();
        }
        let a = self.value();
        let scale = self.random.of(&[1, 4, 4, 4, 8]);
        let [offset, address] = [self.wide, self.wide + 1];
        self.wide += 2;
        match self.random.below(6) {
            0..=2 => self.line(format_args!("mul.wide.s32 %rd{offset}, %r{a}, {scale};")),
            3..=4 => self.line(format_args!("mul.wide.u32 %rd{offset}, %r{a}, {scale};")),
            _ => {
                let shifted = self.register();
                self.line(format_args!("shl.b32 %r{shifted}, %r{a}, 2;"));
                let sign = self.random.of(&["s32", "u32"]);
                let to = if sign == "s32" { "s64" } else { "u64" };
                self.line(format_args!("cvt.{to}.{sign} %rd{offset}, %r{shifted};"));
            }
        }
        self.line(format_args!("add.s64 %rd{address}, %rd1, %rd{offset};"));
        let constant = self.random.of(&[0, 0, 0, 4, -4]);
        let to = self.register();
        match self.random.below(5) {
            0 if scale == 1 => {
                self.line(format_args!(
                    "ld.global.u8 %r{to}, [%rd{address}+{constant}];"
                ));
                self.values.push(to);
            }
            1 => {
                let value = self.value();
                self.line(format_args!(
                    "st.global.u8 [%rd{address}+{constant}], %r{value};"
                ));
            }
            _ => {
                self.line(format_args!(
                    "ld.global.u8 %r{to}, [%rd{address}+{constant}];"
                ));
                self.values.push(to);
            }
        }
        self.accesses += 1;
    }

    /// What a block computes is known in it only.
    fn scoped(&mut self, depth: u32) {
        let values = self.values.clone();
        self.block(depth);
        self.values = values;
    }

    fn guarded(&mut self, depth: u32) {
        let p = self.comparison();
        let label = self.label();
        let not = self.random.of(&["", "!"]);
        let k = self.kernel;
        self.line(format_args!("@{not}%p{p} bra $skip{k}_{label};"));
        self.scoped(depth + 1);
        if self.random.below(3) == 0 {
            let other = self.label();
            self.line(format_args!("bra $skip{k}_{other};"));
            self.line(format_args!("$skip{k}_{label}:"));
            self.scoped(depth + 1);
            self.line(format_args!("$skip{k}_{other}:"));
        } else {
            self.line(format_args!("$skip{k}_{label}:"));
        }
    }

    fn label(&mut self) -> u32 {
        self.labels += 1;
        self.labels
    }

    fn repeated(&mut self, depth: u32) {
        let [counter, fuel] = std::array::from_fn(|_| self.register());
        let start = self.operand();
        let (k, label) = (self.kernel, self.label());
        self.line(format_args!("mov.u32 %r{counter}, {start};"));
        self.line(format_args!("mov.u32 %r{fuel}, 0;"));
        let walker = self.walker(counter);
        self.line(format_args!("$loop{k}_{label}:"));
        let is_tested_first = self.random.below(2) == 0;
        let relation = self
            .random
            .of(&["lt.s32", "ne.s32", "lt.u32", "le.s32", "gt.s32", "ge.s32"]);
        let limit = self.operand();
        if is_tested_first {
            let p = self.predicate();
            self.line(format_args!("setp.{relation} %p{p}, %r{counter}, {limit};"));
            self.line(format_args!("@!%p{p} bra $out{k}_{label};"));
        }
        let values = self.values.clone();
        self.values.extend([counter, counter]);
        if let Some(walker) = &walker {
            self.walks(walker);
        }
        self.block(depth + 1);
        self.values = values;
        let step = self
            .random
            .of(&["1", "1", "4", "-1", "-4", "%r2", "3", "16"]);
        if let Some(walker) = &walker {
            self.walk(walker, step);
        }
        if self.random.below(5) == 0 {
            self.carried(counter);
        } else if self.random.below(5) == 0 {
            let p = self.comparison();
            self.line(format_args!(
                "@%p{p} add.s32 %r{counter}, %r{counter}, {step};"
            ));
        } else {
            self.line(format_args!("add.s32 %r{counter}, %r{counter}, {step};"));
        }
        // No kernel may run for long. (An exit through memory, so that the
        // count of rounds is not seen.)
        let [p, q] = [self.predicate(), self.predicate()];
        self.line(format_args!("add.s32 %r{fuel}, %r{fuel}, 1;"));
        let hidden = self.register();
        self.line(format_args!("cvt.rn.f32.u32 %f0, %r{fuel};"));
        self.line(format_args!("setp.gt.f32 %p{q}, %f0, 0f42480000;"));
        let _ = hidden;
        self.line(format_args!("@%p{q} bra $out{k}_{label};"));
        if is_tested_first {
            self.line(format_args!("bra $loop{k}_{label};"));
        } else {
            self.line(format_args!("setp.{relation} %p{p}, %r{counter}, {limit};"));
            self.line(format_args!("@%p{p} bra $loop{k}_{label};"));
        }
        self.line(format_args!("$out{k}_{label}:"));
        self.values.push(counter);
    }

    fn block(&mut self, depth: u32) {
        let statements = 2 + self.random.below(4);
        for _ in 0..statements {
            match self.random.below(10) {
                0..=2 => self.arithmetic(),
                3..=4 => self.shape(),
                5..=6 => self.access(),
                7 if depth < 3 => self.repeated(depth),
                8..=9 if depth < 3 => self.guarded(depth),
                _ => self.arithmetic(),
            }
            if self.accesses > 7 {
                return;
            }
        }
    }
}
