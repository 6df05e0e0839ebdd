//! What a value of a loop is in its first pass, and how far from that in its last.
//!
//! Registers of 32 or 64 bits are sums and products modulo 2^32 or 2^64 of what they
//! were made of. So one that is made of registers which each pass changes by the same
//! amount, and of values that do not change, by additions and by multiplications with
//! the latter, changes by the same amount in each pass itself, modulo 2^32 or 2^64. The
//! *way* is that amount times the passes but the first, as an integer: it is computed
//! in 64 bits, where it fits ([`MOST_BITS`]). What 32 bits are extended to moves by the
//! same way, if the first value plus the way is representable in them: then all values
//! in between are, too. Code tests that, and the loop is slow where it is not so.

use super::Counted;
use super::passes::{Amount, Multiple, Read, read};
use crate::patch::line;
use crate::protocol::family::{NARROW, WIDE};
use crate::protocol::register::{PASSES, SLOW};
use analysis::{Analysis, Definition, ValueId};
use ptx::Instruction;
use rustc_hash::FxHashMap;

/// Ways are 2 to the power of this, at most.
const MOST_BITS: u32 = 62;

/// The passes but the first, and an amount in a register, are 2 to the power of this, at
/// most: code tests it.
pub(super) const BITS_OF_PASSES: u32 = 26;
const BITS_OF_AMOUNT: u32 = 31;

/// The way from the first pass to the last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Way {
    /// A register of 64 bits.
    pub(crate) register: String,
    /// It is 2 to the power of this, at most.
    bits: u32,
    /// What one pass adds, if the text has it.
    pub(crate) each: Option<i64>,
}

/// A value in the first pass, and its way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Value {
    /// A register, or a constant.
    pub(crate) first: String,
    /// None if it does not change.
    pub(crate) way: Option<Way>,
}

impl Value {
    fn fixed(first: impl Into<String>) -> Self {
        Value {
            first: first.into(),
            way: None,
        }
    }
}

/// Writes what is computed before a loop.
#[derive(Clone)]
pub(crate) struct Ahead<'x, 'm, 'a> {
    pub(super) analysis: &'x Analysis<'m, 'a>,
    pub(super) counted: &'x Counted<'a>,
    known: FxHashMap<ValueId, Value>,
    narrow: u32,
    wide: u32,
    /// Some test was made.
    pub(super) tests: bool,
}

impl<'x, 'm, 'a> Ahead<'x, 'm, 'a> {
    pub(crate) fn of(analysis: &'x Analysis<'m, 'a>, counted: &'x Counted<'a>) -> Self {
        Ahead {
            analysis,
            counted,
            known: FxHashMap::default(),
            narrow: 0,
            wide: 0,
            tests: false,
        }
    }

    /// The loop.
    pub(crate) fn counted(&self) -> &'x Counted<'a> {
        self.counted
    }

    /// How many registers of 32 bits, and of 64, it has used.
    pub(crate) fn used(&self) -> (u32, u32) {
        (self.narrow, self.wide)
    }

    pub(super) fn narrow(&mut self) -> String {
        self.narrow += 1;
        format!("{NARROW}{}", self.narrow - 1)
    }

    pub(super) fn wide(&mut self) -> String {
        self.wide += 1;
        format!("{WIDE}{}", self.wide - 1)
    }

    /// A counter with this step goes farther than that in a loop that is worth a copy.
    pub(super) fn least(&self, step: u64) -> u64 {
        (self.counted.least - 2) * step
    }

    /// Goes to the slow loop where a comparison holds, too.
    pub(super) fn slow_if(&mut self, comparison: &str, a: &str, b: &str, out: &mut String) {
        let (by, of) = comparison.split_once('.').unwrap_or((comparison, ""));
        match std::mem::replace(&mut self.tests, true) {
            false => line!(out, "setp.{by}.{of} {SLOW}, {a}, {b};"),
            true => line!(out, "setp.{by}.or.{of} {SLOW}, {a}, {b}, {SLOW};"),
        }
    }

    /// The value of what an operand of an instruction of the loop reads; code that is not
    /// there yet goes to `out`.
    pub(crate) fn operand(
        &mut self,
        index: usize,
        operand: usize,
        out: &mut String,
    ) -> Option<Value> {
        match read(self.analysis, index, operand)? {
            Read::Constant(constant) => Some(Value::fixed(constant.to_string())),
            Read::Register(value, name) => self.value(value, name, out),
        }
    }

    /// The value of a register with this name.
    fn value(&mut self, value: ValueId, name: &str, out: &mut String) -> Option<Value> {
        if let Some(known) = self.known.get(&value) {
            return Some(known.clone());
        }
        let (analysis, counted) = (self.analysis, self.counted);
        let known = analysis.ssa.value(value)?;
        let made = match known.definition {
            _ if !counted.blocks.has(known.block) => Value::fixed(name),
            Definition::Phi { .. } if known.block == counted.blocks.header => {
                self.moving(value, name, out)?
            }
            Definition::Phi { .. } | Definition::Undefined => return None,
            Definition::Instruction { .. } => self.made(analysis.ssa.made_by(value)?, out)?,
        };
        self.known.insert(value, made.clone());
        Some(made)
    }

    /// The value of a register that passes change.
    fn moving(&mut self, phi: ValueId, name: &str, out: &mut String) -> Option<Value> {
        let each = Amount::of(self.analysis, self.counted.blocks, phi)?;
        let way = self.times(&each, out)?;
        Some(Value {
            first: name.to_owned(),
            way,
        })
    }

    /// An amount times the passes but the first.
    fn times(&mut self, each: &Amount, out: &mut String) -> Option<Option<Way>> {
        let counter = &self.counted.counter;
        if let Some((register, bits)) = counter.span() {
            // How often that is, is not known, but how far the counter itself goes.
            let way = Way {
                register: register.to_owned(),
                bits,
                each: None,
            };
            return counter.is_step(each).then_some(Some(way));
        }
        let passes = Way {
            register: PASSES.to_owned(),
            bits: BITS_OF_PASSES,
            each: Some(1),
        };
        let constant = self.product(&Some(passes), &Factor::Constant(each.constant), out)?;
        let Some(Multiple {
            name,
            is_wide,
            times,
            ..
        }) = &each.register
        else {
            return Some(constant);
        };
        let by = match is_wide {
            false => {
                let by = self.wide();
                line!(out, "cvt.s64.s32 {by}, {name};");
                by
            }
            true => {
                self.stays_small(name, BITS_OF_AMOUNT, out);
                name.clone()
            }
        };
        let register = self.wide();
        line!(out, "mul.lo.s64 {register}, {PASSES}, {by};");
        let once = Way {
            register,
            bits: BITS_OF_PASSES + BITS_OF_AMOUNT,
            each: None,
        };
        let all = self.product(&Some(once), &Factor::Constant(*times), out)?;
        self.sum((&constant, &all), false, out)
    }

    /// Goes to the slow loop unless a number is at least -2^bits and at most 2^bits.
    fn stays_small(&mut self, register: &str, bits: u32, out: &mut String) {
        let sum = self.wide();
        line!(out, "add.s64 {sum}, {register}, {};", 1u64 << bits);
        self.slow_if("gt.u64", &sum, &(2u64 << bits).to_string(), out);
    }

    /// The value that an instruction of the loop makes.
    fn made(&mut self, index: usize, out: &mut String) -> Option<Value> {
        let instruction = self.analysis.code.instructions[index].instruction;
        if instruction.guard.is_some() {
            return None;
        }
        let form = Form::of(instruction)?;
        let mut operands = Vec::new();
        for operand in 1..instruction.operands.len() {
            operands.push(self.operand(index, operand, out)?);
        }
        let first = match form.is_wide {
            false => self.narrow(),
            true => self.wide(),
        };
        let opcode = instruction.opcode.text.trim();
        let texts: Vec<&str> = operands.iter().map(|o| o.first.as_str()).collect();
        line!(out, "{opcode} {first}, {};", texts.join(", "));
        let way = self.way(form.kind, &operands, out)?;
        Some(Value { first, way })
    }

    /// The way of what is made of operands.
    fn way(&mut self, kind: Kind, operands: &[Value], out: &mut String) -> Option<Option<Way>> {
        match (kind, operands) {
            (Kind::Move, [from]) => Some(from.way.clone()),
            (Kind::Add, [a, b]) => self.sum((&a.way, &b.way), false, out),
            (Kind::Subtract, [a, b]) => self.sum((&a.way, &b.way), true, out),
            (Kind::Shift, [a, by]) => {
                let by: u32 = by.first.parse().ok().filter(|by| *by < 32)?;
                self.product(&a.way, &Factor::Constant(1 << by), out)
            }
            (Kind::Multiply { is_signed }, [a, b]) => {
                let (moves, by) = factors(a, b)?;
                self.product(&moves.way, &Factor::of(by, is_signed)?, out)
            }
            (Kind::MultiplyAdd { is_signed }, [a, b, c]) => {
                let (moves, by) = factors(a, b)?;
                let product = self.product(&moves.way, &Factor::of(by, is_signed)?, out)?;
                self.sum((&product, &c.way), false, out)
            }
            (Kind::Extend { is_signed }, [a]) => Some(self.extended(a, is_signed, out)),
            (Kind::Widen { is_signed }, [a, b]) => {
                let (moves, by) = factors(a, b)?;
                let way = self.extended(moves, is_signed, out);
                self.product(&way, &Factor::of(by, is_signed)?, out)
            }
            (Kind::WidenAdd { is_signed }, [a, b, c]) => {
                let (moves, by) = factors(a, b)?;
                let way = self.extended(moves, is_signed, out);
                let product = self.product(&way, &Factor::of(by, is_signed)?, out)?;
                self.sum((&product, &c.way), false, out)
            }
            _ => None,
        }
    }

    /// Goes to the slow loop if a value of 32 bits wraps around in some pass. Returns the way,
    /// which is 2^32 at most if none does.
    fn extended(&mut self, value: &Value, is_signed: bool, out: &mut String) -> Option<Way> {
        let way = value.way.as_ref()?;
        let sum = self.wide();
        let kind = if is_signed { "s64.s32" } else { "u64.u32" };
        line!(out, "cvt.{kind} {sum}, {};", value.first);
        line!(out, "add.s64 {sum}, {sum}, {};", way.register);
        if is_signed {
            line!(out, "add.s64 {sum}, {sum}, {};", 1u64 << 31);
        }
        self.slow_if("gt.u64", &sum, &u32::MAX.to_string(), out);
        let bits = way.bits.min(32);
        Some(Way {
            bits,
            ..way.clone()
        })
    }

    fn sum(
        &mut self,
        (a, b): (&Option<Way>, &Option<Way>),
        subtracts: bool,
        out: &mut String,
    ) -> Option<Option<Way>> {
        let (a, b) = match (a, b) {
            (a, None) => return Some(a.clone()),
            (None, Some(b)) if !subtracts => return Some(Some(b.clone())),
            (a, Some(b)) => (a, b),
        };
        let register = self.wide();
        let what = if subtracts { "sub" } else { "add" };
        let (from, bits, each) = match a {
            Some(a) => (a.register.as_str(), a.bits, a.each),
            None => ("0", 0, Some(0)),
        };
        line!(out, "{what}.s64 {register}, {from}, {};", b.register);
        let each = each.zip(b.each).and_then(|(a, b)| match subtracts {
            true => a.checked_sub(b),
            false => a.checked_add(b),
        });
        let bits = bits.max(b.bits) + 1;
        (bits <= MOST_BITS).then_some(Some(Way {
            register,
            bits,
            each,
        }))
    }

    fn product(&mut self, way: &Option<Way>, by: &Factor, out: &mut String) -> Option<Option<Way>> {
        let Some(way) = way else { return Some(None) };
        let (factor, bits, constant) = match by {
            Factor::Constant(0) => return Some(None),
            Factor::Constant(1) => return Some(Some(way.clone())),
            Factor::Constant(by) if by.unsigned_abs() > 1 << 31 => return None,
            Factor::Constant(by) => (by.to_string(), bits_of(*by), Some(*by)),
            Factor::Register(name) => {
                let factor = self.wide();
                line!(out, "cvt.s64.s32 {factor}, {name};");
                (factor, 31, None)
            }
        };
        let mut own = way.bits;
        if own + bits > MOST_BITS {
            own = MOST_BITS.checked_sub(bits).filter(|own| *own >= 31)?;
            self.stays_small(&way.register, own, out);
        }
        let register = self.wide();
        line!(out, "mul.lo.s64 {register}, {}, {factor};", way.register);
        Some(Some(Way {
            register,
            bits: own + bits,
            each: way.each.zip(constant).and_then(|(a, b)| a.checked_mul(b)),
        }))
    }
}

/// What a way is multiplied with.
enum Factor {
    Constant(i64),
    /// A register of 32 bits, with a sign.
    Register(String),
}

impl Factor {
    /// Of a value that does not change. (Modulo 2^32 signs do not matter; where a product
    /// is wider, they do.)
    fn of(value: &Value, is_signed: bool) -> Option<Factor> {
        match value.first.parse::<i64>() {
            Ok(constant) => {
                let is_small = constant.unsigned_abs() < 1 << 31;
                is_small.then_some(Factor::Constant(constant))
            }
            Err(_) => is_signed.then(|| Factor::Register(value.first.clone())),
        }
    }
}

/// Of two factors, the one that may move, and the other.
fn factors<'v>(a: &'v Value, b: &'v Value) -> Option<(&'v Value, &'v Value)> {
    match (&a.way, &b.way) {
        (_, None) => Some((a, b)),
        (None, Some(_)) => Some((b, a)),
        _ => None,
    }
}

/// So that a number is 2 to the power of this, at most.
fn bits_of(number: i64) -> u32 {
    let size = number.unsigned_abs();
    u64::BITS - size.saturating_sub(1).leading_zeros()
}

/// An instruction whose result moves if its operands do.
struct Form {
    kind: Kind,
    /// The result has 64 bits.
    is_wide: bool,
}

#[derive(Clone, Copy)]
enum Kind {
    Move,
    Add,
    Subtract,
    Shift,
    Multiply { is_signed: bool },
    MultiplyAdd { is_signed: bool },
    Extend { is_signed: bool },
    Widen { is_signed: bool },
    WidenAdd { is_signed: bool },
}

impl Form {
    fn of(instruction: &Instruction<'_>) -> Option<Form> {
        let (is_wide, kind) = match instruction.opcode.text.trim() {
            "mov.b32" | "mov.u32" | "mov.s32" => (false, Kind::Move),
            "mov.b64" | "mov.u64" | "mov.s64" => (true, Kind::Move),
            "add.s32" | "add.u32" => (false, Kind::Add),
            "add.s64" | "add.u64" => (true, Kind::Add),
            "sub.s32" | "sub.u32" => (false, Kind::Subtract),
            "sub.s64" | "sub.u64" => (true, Kind::Subtract),
            "shl.b32" => (false, Kind::Shift),
            "shl.b64" => (true, Kind::Shift),
            "mul.lo.s32" | "mul.lo.u32" => (false, Kind::Multiply { is_signed: true }),
            "mad.lo.s32" | "mad.lo.u32" => (false, Kind::MultiplyAdd { is_signed: true }),
            // (A factor of 64 bits must be a constant.)
            "mul.lo.s64" | "mul.lo.u64" => (true, Kind::Multiply { is_signed: false }),
            "mad.lo.s64" | "mad.lo.u64" => (true, Kind::MultiplyAdd { is_signed: false }),
            "cvt.s64.s32" => (true, Kind::Extend { is_signed: true }),
            "cvt.u64.u32" => (true, Kind::Extend { is_signed: false }),
            "mul.wide.s32" => (true, Kind::Widen { is_signed: true }),
            "mul.wide.u32" => (true, Kind::Widen { is_signed: false }),
            "mad.wide.s32" => (true, Kind::WidenAdd { is_signed: true }),
            "mad.wide.u32" => (true, Kind::WidenAdd { is_signed: false }),
            _ => return None,
        };
        Some(Form { kind, is_wide })
    }
}
