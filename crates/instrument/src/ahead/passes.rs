//! How many passes a loop has.
//!
//! It goes on while a number, which each pass changes by the same *step*, is below its
//! bound, above it, or not at it. `x` is the number that the first pass compares, and
//! the bound does not change. With the distance `d = bound - x`, upwards:
//!
//! * While it is below, further passes are made as long as `x + k * step < bound`, so
//!   there are `d / step`, rounded up, if `d` is positive and the number does not wrap
//!   around before it is at the bound or beyond: `bound - 1 + step` is representable.
//! * While it differs, there are `d / step` if the step divides the distance.
//!
//! A step in a register, which loops over the grid have, would need a division. There
//! the counter itself goes `d + step - 1` at most, from the first pass to the last, and
//! what moves with it as much farther as it is multiplied with.

use super::values::{Ahead, BITS_OF_PASSES};
use super::{Blocks, LEAST};
use crate::patch::line;
use crate::protocol::register::{PASSES, SLOW};
use analysis::{Analysis, Definition, ValueId};
use ptx::{Instruction, OperandKind};

/// What each pass adds to a register: a constant, and a multiple of a register that does
/// not change.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Amount {
    pub(super) constant: i64,
    pub(super) register: Option<Multiple>,
}

/// A register, and how often it is added.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Multiple {
    value: ValueId,
    pub(super) name: String,
    pub(super) is_wide: bool,
    pub(super) times: i64,
}

impl Amount {
    /// The amount that each pass adds to the register of a phi at the head of the loop.
    pub(super) fn of(analysis: &Analysis<'_, '_>, blocks: Blocks, phi: ValueId) -> Option<Amount> {
        let last = analysis
            .ssa
            .phi_argument(&analysis.cfg, phi, blocks.latch)?;
        let (from, amount) = Self::from(analysis, blocks, last)?;
        (from == phi).then_some(amount)
    }

    /// The phi at the head of a loop that a value is, plus an amount.
    fn from(
        analysis: &Analysis<'_, '_>,
        blocks: Blocks,
        mut value: ValueId,
    ) -> Option<(ValueId, Amount)> {
        let is_inside = |value: ValueId| blocks.make(analysis, value);
        let mut amount = Amount::default();
        // (Each step goes up in the loop.)
        loop {
            let known = analysis.ssa.value(value)?;
            if let Definition::Phi { .. } = known.definition
                && known.block == blocks.header
            {
                return Some((value, amount));
            }
            if !is_inside(value) {
                return None;
            }
            let index = analysis.ssa.made_by(value)?;
            let instruction = analysis.code.instructions[index].instruction;
            let (sign, is_wide) = match instruction.opcode.text.trim() {
                "add.s32" | "add.u32" => (1, false),
                "add.s64" | "add.u64" => (1, true),
                "sub.s32" | "sub.u32" => (-1, false),
                "sub.s64" | "sub.u64" => (-1, true),
                "mov.b32" | "mov.u32" | "mov.s32" | "mov.b64" | "mov.u64" | "mov.s64" => (0, false),
                _ => return None,
            };
            let read = |operand: usize| read(analysis, index, operand);
            let (first, second) = (read(1), (sign != 0).then(|| read(2)).flatten());
            let (from, by) = match (first?, second) {
                (Read::Register(from, _), None) if sign == 0 => {
                    value = from;
                    continue;
                }
                (Read::Register(from, _), Some(by)) if is_inside(from) => (from, by),
                (by, Some(Read::Register(from, _))) if sign == 1 && is_inside(from) => (from, by),
                _ => return None,
            };
            match by {
                Read::Constant(by) => {
                    // (Of 32 bits, it may be written without a sign.)
                    let by = if is_wide { by } else { i64::from(by as i32) };
                    amount.constant = amount.constant.checked_add(by.checked_mul(sign)?)?;
                }
                Read::Register(by, name) if !is_inside(by) => {
                    let multiple = amount.register.get_or_insert_with(|| Multiple {
                        value: by,
                        name: name.to_owned(),
                        is_wide,
                        times: 0,
                    });
                    if multiple.value != by {
                        return None;
                    }
                    multiple.times += sign;
                }
                Read::Register(..) => return None,
            }
            value = from;
        }
    }
}

/// What an operand reads, or what its address is based on.
pub(crate) enum Read<'a> {
    Constant(i64),
    Register(ValueId, &'a str),
}

/// See [`Read`]; none if that is neither a constant nor a register.
pub(crate) fn read<'a>(
    analysis: &Analysis<'_, 'a>,
    index: usize,
    operand: usize,
) -> Option<Read<'a>> {
    let instruction: &Instruction<'a> = analysis.code.instructions[index].instruction;
    let name = match &instruction.operands.get(operand)?.kind {
        OperandKind::Integer(value) => return Some(Read::Constant(*value)),
        OperandKind::Name(name) => name,
        OperandKind::Address(address) => address.base?,
        _ => return None,
    };
    let mut references = analysis.code.references_of(index).iter();
    let reference = references.find(|r| usize::from(r.operand) == operand)?;
    reference.referent.register()?;
    Some(Read::Register(reference.value, name))
}

/// When a loop goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum While {
    Differs,
    /// Below the bound, upwards, or above it, downwards.
    Before,
    /// Or at it.
    UpTo,
}

/// What the passes of a loop are counted by.
#[derive(Clone, Debug)]
pub(super) struct Counter {
    /// The comparison, and its operands: the number, and the bound.
    at: usize,
    number: usize,
    bound: usize,
    goes_on: While,
    is_down: bool,
    is_signed: bool,
    is_wide: bool,
    step: Amount,
}

impl Counter {
    pub(super) fn of(
        analysis: &Analysis<'_, '_>,
        blocks: Blocks,
        branch: usize,
    ) -> Option<Counter> {
        let guard = analysis.code.guard(branch)?;
        let is_negated = analysis.code.instructions[branch]
            .instruction
            .guard?
            .negated;
        let at = analysis.ssa.made_by(guard.value)?;
        let test = analysis.code.instructions[at].instruction;
        if !blocks.has(analysis.cfg.block_of[at]) || test.operands.len() != 3 {
            return None;
        }
        let (by, is_signed, is_wide) = comparison(test.opcode.text.trim(), is_negated)?;
        let moves = |operand: usize| match read(analysis, at, operand)? {
            Read::Register(value, _) => Some(Amount::from(analysis, blocks, value)?.0),
            Read::Constant(_) => None,
        };
        let is_fixed = |operand: usize| match read(analysis, at, operand) {
            Some(Read::Register(value, _)) => {
                analysis.ssa.value(value).is_some() && !blocks.make(analysis, value)
            }
            Some(Read::Constant(_)) => true,
            None => false,
        };
        let (number, bound, by) = match (moves(1), moves(2)) {
            (Some(_), _) if is_fixed(2) => (1, 2, by),
            (_, Some(_)) if is_fixed(1) => (2, 1, by.turned()),
            _ => return None,
        };
        let counter = moves(number)?;
        let step = Amount::of(analysis, blocks, counter)?;
        let is_negative = step.constant < 0;
        let (goes_on, is_down) = match by {
            By::Differs => (While::Differs, is_negative),
            By::Less => (While::Before, false),
            By::LessOrEqual => (While::UpTo, false),
            By::Greater => (While::Before, true),
            By::GreaterOrEqual => (While::UpTo, true),
        };
        let fits = match &step.register {
            None => {
                let size = step.constant.unsigned_abs();
                (1..=1 << 20).contains(&size)
                    && is_negative == is_down
                    && (goes_on != While::Differs || size.is_power_of_two())
            }
            Some(by) => {
                let is_alone = step.constant == 0 && by.times == 1 && by.is_wide == is_wide;
                is_alone && !is_down && goes_on != While::Differs
            }
        };
        if is_rest(analysis, blocks, counter) {
            return None;
        }
        // (A bound of 64 bits that is reached may be the largest number.)
        let is_exact = !(is_wide && goes_on == While::UpTo);
        (fits && is_exact).then_some(Counter {
            at,
            number,
            bound,
            goes_on,
            is_down,
            is_signed,
            is_wide,
            step,
        })
    }

    /// Whether an amount is the step.
    pub(super) fn is_step(&self, amount: &Amount) -> bool {
        self.step == *amount
    }

    /// The register that says how far the counter goes, if the passes are not known, and
    /// its bits.
    pub(super) fn span(&self) -> Option<(&'static str, u32)> {
        self.step.register.as_ref().map(|_| (PASSES, 34))
    }
}

impl Ahead<'_, '_, '_> {
    /// Computes the passes but the first, or how far the counter goes, and tests whether
    /// there are enough of them. None if that cannot be said.
    pub(crate) fn begin(&mut self, out: &mut String) -> Option<()> {
        let counter = self.counted.counter.clone();
        let number = self.operand_before_passes(counter.at, counter.number, out)?;
        let bound = self.operand_before_passes(counter.at, counter.bound, out)?;
        self.at_once(&counter, (&number, &bound), out);
        match (counter.goes_on, counter.is_wide) {
            (While::Differs, _) => self.differs(&counter, (&number, &bound), out),
            (_, false) => self.narrow_order(&counter, (&number, &bound), out),
            (_, true) => self.wide_order(&counter, (&number, &bound), out),
        }
        line!(out, "@{SLOW} bra {};", self.counted.label("slow"));
        Some(())
    }

    /// Leaves at once where there seem to be few passes, before more is computed.
    fn at_once(&mut self, counter: &Counter, (number, bound): (&str, &str), out: &mut String) {
        let (bits, distance) = match counter.is_wide {
            false => ("s32", self.narrow()),
            true => ("s64", self.wide()),
        };
        let (from, to) = match counter.is_down {
            false => (number, bound),
            true => (bound, number),
        };
        line!(out, "sub.{bits} {distance}, {to}, {from};");
        match &counter.step.register {
            None => {
                let least = self.least(counter.step.constant.unsigned_abs());
                line!(out, "setp.le.{bits} {SLOW}, {distance}, {least};");
            }
            Some(by) => line!(out, "setp.le.{bits} {SLOW}, {distance}, {};", by.name),
        }
        line!(out, "@{SLOW} bra {};", self.counted.label("slow"));
    }

    /// The number that the first pass compares, or the bound: what has no way yet.
    fn operand_before_passes(
        &mut self,
        at: usize,
        operand: usize,
        out: &mut String,
    ) -> Option<String> {
        let mut chain = Vec::new();
        let analysis = self.analysis;
        let (mut index, mut operand) = (at, operand);
        // (What it is made of is a chain of additions: `Amount::from`.)
        let from = loop {
            match read(analysis, index, operand)? {
                Read::Constant(value) => break value.to_string(),
                Read::Register(value, name) => {
                    let known = analysis.ssa.value(value)?;
                    let is_phi = matches!(known.definition, Definition::Phi { .. });
                    if !self.counted.blocks.has(known.block) || is_phi {
                        break name.to_owned();
                    }
                    let made = analysis.ssa.made_by(value)?;
                    let moves = |operand: usize| match read(analysis, made, operand) {
                        Some(Read::Register(value, _)) => self.counted.blocks.make(analysis, value),
                        _ => false,
                    };
                    operand = if moves(1) { 1 } else { 2 };
                    chain.push((made, operand));
                    index = made;
                }
            }
        };
        let mut value = from;
        for (made, operand) in chain.into_iter().rev() {
            let instruction = analysis.code.instructions[made].instruction;
            let opcode = instruction.opcode.text.trim();
            let into = match opcode.ends_with("64") {
                true => self.wide(),
                false => self.narrow(),
            };
            let texts: Vec<String> = (1..instruction.operands.len())
                .map(|other| match read(analysis, made, other) {
                    _ if other == operand => value.clone(),
                    Some(Read::Constant(constant)) => constant.to_string(),
                    Some(Read::Register(_, name)) => name.to_owned(),
                    None => String::new(),
                })
                .collect();
            line!(out, "{opcode} {into}, {};", texts.join(", "));
            value = into;
        }
        Some(value)
    }

    /// It goes on while the number differs from its bound.
    fn differs(&mut self, counter: &Counter, (number, bound): (&str, &str), out: &mut String) {
        let size = counter.step.constant.unsigned_abs();
        let (from, to) = match counter.is_down {
            false => (number, bound),
            true => (bound, number),
        };
        match counter.is_wide {
            false => {
                let distance = self.narrow();
                line!(out, "sub.s32 {distance}, {to}, {from};");
                line!(out, "cvt.u64.u32 {PASSES}, {distance};");
            }
            true => line!(out, "sub.s64 {PASSES}, {to}, {from};"),
        }
        self.slow_if("le.u64", PASSES, &self.least(size).to_string(), out);
        if size > 1 {
            let rest = self.wide();
            line!(out, "and.b64 {rest}, {PASSES}, {};", size - 1);
            self.slow_if("ne.s64", &rest, "0", out);
            line!(out, "shr.u64 {PASSES}, {PASSES}, {};", size.ilog2());
        }
        self.few_enough(out);
    }

    /// Goes to the slow loop where the passes are more than ways are computed of.
    fn few_enough(&mut self, out: &mut String) {
        self.slow_if("gt.u64", PASSES, &(1u64 << BITS_OF_PASSES).to_string(), out);
    }

    /// From a distance to the passes but the first.
    fn divided(&mut self, size: u64, out: &mut String) {
        if size > 1 {
            line!(out, "add.s64 {PASSES}, {PASSES}, {};", size - 1);
            match size.is_power_of_two() {
                true => line!(out, "shr.u64 {PASSES}, {PASSES}, {};", size.ilog2()),
                false => line!(out, "div.u64 {PASSES}, {PASSES}, {size};"),
            }
        }
        self.few_enough(out);
    }

    /// It goes on while the number of 32 bits is before its bound.
    fn narrow_order(&mut self, counter: &Counter, (number, bound): (&str, &str), out: &mut String) {
        let (kind, least_number, most_number) = match counter.is_signed {
            true => ("s64.s32", i64::from(i32::MIN), i64::from(i32::MAX)),
            false => ("u64.u32", 0, i64::from(u32::MAX)),
        };
        let extended = |ahead: &mut Self, what: &str, out: &mut String| {
            let into = ahead.wide();
            match what.parse::<i64>() {
                Ok(constant) => {
                    let constant = match counter.is_signed {
                        true => i64::from(constant as i32),
                        false => i64::from(constant as u32),
                    };
                    line!(out, "mov.b64 {into}, {constant};");
                }
                Err(_) => line!(out, "cvt.{kind} {into}, {what};"),
            }
            into
        };
        let number = extended(self, number, out);
        let bound = extended(self, bound, out);
        let (from, to) = match counter.is_down {
            false => (&number, &bound),
            true => (&bound, &number),
        };
        line!(out, "sub.s64 {PASSES}, {to}, {from};");
        let is_at = i64::from(counter.goes_on == While::UpTo);
        if is_at == 1 {
            line!(out, "add.s64 {PASSES}, {PASSES}, 1;");
        }
        match &counter.step.register {
            None => {
                let size = counter.step.constant.unsigned_abs();
                self.slow_if("le.s64", PASSES, &self.least(size).to_string(), out);
                let beyond = size as i64 - 1 + is_at;
                match counter.is_down {
                    _ if beyond == 0 => {}
                    false => {
                        let most = (most_number - beyond).to_string();
                        self.slow_if("gt.s64", &bound, &most, out);
                    }
                    true => {
                        let least = (least_number + beyond).to_string();
                        self.slow_if("lt.s64", &bound, &least, out);
                    }
                }
                self.divided(size, out);
            }
            Some(Multiple { name, .. }) => {
                let step = self.wide();
                line!(out, "cvt.s64.s32 {step}, {name};");
                self.slow_if("lt.s64", &step, "1", out);
                self.far_enough(&step, out);
                let beyond = self.wide();
                line!(out, "add.s64 {beyond}, {bound}, {step};");
                let most = (most_number + 1 - is_at).to_string();
                self.slow_if("gt.s64", &beyond, &most, out);
                self.spans(&step, out);
            }
        }
    }

    /// Goes to the slow loop where a counter with a step of 64 bits, at least one, makes few
    /// passes.
    fn far_enough(&mut self, step: &str, out: &mut String) {
        let least_way = self.wide();
        line!(out, "mul.lo.s64 {least_way}, {step}, {};", self.least(1));
        self.slow_if("le.s64", PASSES, &least_way, out);
    }

    /// From a distance to how far the counter goes, at most.
    fn spans(&mut self, step: &str, out: &mut String) {
        line!(out, "add.s64 {PASSES}, {PASSES}, {step};");
        line!(out, "add.s64 {PASSES}, {PASSES}, -1;");
    }

    /// It goes on while the number of 64 bits is before its bound.
    fn wide_order(&mut self, counter: &Counter, (number, bound): (&str, &str), out: &mut String) {
        let kind = if counter.is_signed { "s64" } else { "u64" };
        let (from, to) = match counter.is_down {
            false => (number, bound),
            true => (bound, number),
        };
        self.slow_if(&format!("ge.{kind}"), from, to, out);
        line!(out, "sub.s64 {PASSES}, {to}, {from};");
        self.slow_if("gt.u64", PASSES, &u32::MAX.to_string(), out);
        let (least_number, most_number) = match counter.is_signed {
            true => (i64::MIN as u64, i64::MAX as u64),
            false => (0, u64::MAX),
        };
        match &counter.step.register {
            None => {
                let size = counter.step.constant.unsigned_abs();
                self.slow_if("le.u64", PASSES, &self.least(size).to_string(), out);
                match counter.is_down {
                    _ if size == 1 => {}
                    false => {
                        let most = (most_number - (size - 1)) as i64;
                        self.slow_if(&format!("gt.{kind}"), bound, &most.to_string(), out);
                    }
                    true => {
                        let least = (least_number + (size - 1)) as i64;
                        self.slow_if(&format!("lt.{kind}"), bound, &least.to_string(), out);
                    }
                }
                self.divided(size, out);
            }
            Some(Multiple { name, .. }) => {
                let less = self.wide();
                line!(out, "add.s64 {less}, {name}, -1;");
                self.slow_if("ge.u64", &less, &u32::MAX.to_string(), out);
                self.far_enough(name, out);
                let room = self.wide();
                line!(out, "sub.s64 {room}, {}, {name};", most_number as i64);
                self.slow_if(&format!("gt.{kind}"), bound, &room, out);
                self.spans(name, out);
            }
        }
    }
}

/// Whether a counter begins with less than [`LEAST`]: the loop makes the passes that an
/// unrolled one has left.
fn is_rest(analysis: &Analysis<'_, '_>, blocks: Blocks, phi: ValueId) -> bool {
    let head = &analysis.cfg.blocks[blocks.header.0 as usize];
    let predecessors = head.predecessors.iter();
    let mut before = predecessors
        .filter(|from| **from != blocks.latch)
        .filter_map(|from| {
            let begins = analysis.ssa.phi_argument(&analysis.cfg, phi, *from)?;
            let made = analysis.ssa.made_by(begins)?;
            let instruction = analysis.code.instructions[made].instruction;
            match read(analysis, made, 2) {
                Some(Read::Constant(mask)) if instruction.opcode.text.starts_with("and.b") => {
                    u64::try_from(mask).ok()
                }
                _ => None,
            }
        });
    before.any(|most| most < LEAST)
}

#[derive(Clone, Copy)]
enum By {
    Differs,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

impl By {
    /// With the operands exchanged.
    fn turned(self) -> By {
        match self {
            By::Differs => By::Differs,
            By::Less => By::Greater,
            By::LessOrEqual => By::GreaterOrEqual,
            By::Greater => By::Less,
            By::GreaterOrEqual => By::LessOrEqual,
        }
    }
}

/// The comparison by which a loop goes on, whether numbers have signs, and whether they
/// have 64 bits.
fn comparison(opcode: &str, is_negated: bool) -> Option<(By, bool, bool)> {
    let mut parts = opcode.split('.');
    let (Some("setp"), Some(by), Some(kind), None) =
        (parts.next(), parts.next(), parts.next(), parts.next())
    else {
        return None;
    };
    let (is_signed, is_wide) = match kind {
        "s32" => (true, false),
        "u32" | "b32" => (false, false),
        "s64" => (true, true),
        "u64" | "b64" => (false, true),
        _ => return None,
    };
    let by = match (by, is_negated) {
        ("ne", false) | ("eq", true) => By::Differs,
        ("lt" | "lo", false) | ("ge" | "hs", true) => By::Less,
        ("le" | "ls", false) | ("gt" | "hi", true) => By::LessOrEqual,
        ("gt" | "hi", false) | ("le" | "ls", true) => By::Greater,
        ("ge" | "hs", false) | ("lt" | "lo", true) => By::GreaterOrEqual,
        _ => return None,
    };
    Some((by, is_signed, is_wide))
}
