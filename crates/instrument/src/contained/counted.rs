//! Loops without a look whose passes are counted before they begin.
//!
//! A loop is a straight piece of code from a first instruction, to which only the last one
//! leads back, and only what stands before leads in. It goes on as long as a register, the
//! *counter*, compares with a *bound*; the counter is moved by a *step* once in each pass,
//! before the comparison, and nothing else in the loop writes counter, bound or step. So in
//! the k-th comparison the counter is what it was before the loop, and k steps. (What is
//! compared may also be the counter plus a value that does not change: so is that.)
//!
//! **Argument.** Let values have w bits, let s > 0 be the size of the step, and d the
//! distance to the bound in its direction, from 1 to 2^w: d - 1 is the difference of both,
//! less 1, without a sign.
//!
//! * The loop goes on while they differ: if s divides d, the comparison d / s finds them
//!   equal. (Where s is 1, or a power of two and the low bits of d are zero.)
//! * The loop goes on while the counter is before the bound (less than it, where it is
//!   moved upwards): comparison k = d / s, rounded up, finds it at one of the s values from
//!   the bound on, because k s is from d to d + s - 1. All of these end the loop if none of
//!   them wraps around: where s is 1, or the bound is at least s away from the end of the
//!   numbers.
//!
//! Either way there are d / s passes at most, rounded up. The guard lets a thread in only
//! where d - 1 < N, a constant, which bounds them by N / s, rounded up; or, where the step
//! is a register, (d - 1) / 2^n < s, which bounds them by 2^n. (It follows that s is not
//! zero; a negative number is a large one without a sign.)
//!
//! **Pointers that move.** Let a pass make a register of 64 bits from what it was by
//! additions, each of a number, or of a register that the loop does not write and that the
//! guard keeps within a limit, either way. It is moved by the passes times the sum of these
//! at most, wherever in the loop it is read.

use super::ends::mentions_written;
use super::flow::Flow;
use super::idiom::text;
use ptx::{Instruction, Mnemonic, OperandKind};

/// Where a loop goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum While {
    Differs,
    Less,
    Greater,
}

/// A loop whose passes are counted.
pub(super) struct Counted<'a> {
    /// Its first instruction, and one past its last.
    pub(super) first: usize,
    pub(super) end: usize,
    /// How many it has at most.
    pub(super) passes: u64,
    /// Registers that the guard keeps within a limit, either way.
    limits: Vec<(&'a str, i64)>,
}

/// A register that such a loop moves.
pub(super) struct Moved<'a> {
    /// The instruction that does.
    pub(super) at: usize,
    pub(super) register: &'a str,
    /// How far, at most.
    pub(super) way: i64,
}

/// The most that a register is moved.
const WAY: i64 = 1 << 40;
/// Additions of a pass that are followed.
const LINKS: usize = 64;

/// A straight piece of code that its last instruction leads back to.
struct Loop<'f, 'm, 'a, 's> {
    flow: &'f Flow<'m, 'a>,
    source: &'s str,
    first: usize,
    /// One past its last instruction, which leads back.
    end: usize,
}

/// The loops behind an instruction whose passes are counted.
pub(super) fn loops<'a>(flow: &Flow<'_, 'a>, from: usize, source: &str) -> Vec<Counted<'a>> {
    let mut out = Vec::new();
    let mut sources: Vec<Vec<usize>> = vec![Vec::new(); flow.steps.len()];
    for (at, step) in flow.steps.iter().enumerate() {
        // (A branch that leads nowhere is refused elsewhere.)
        if step.is_lost {
            return out;
        }
        for to in step.next.iter().filter(|to| **to < flow.steps.len()) {
            sources[*to].push(at);
        }
    }
    for (at, step) in flow.steps.iter().enumerate().skip(from) {
        let mut back = step.next.iter().filter(|to| **to <= at);
        let (Some(&first), None) = (back.next(), back.next()) else {
            continue;
        };
        let found = Loop {
            flow,
            source,
            first,
            end: at + 1,
        };
        if first >= from && found.is_straight(&sources) {
            out.extend(found.counted());
        }
    }
    out
}

impl<'a> Counted<'a> {
    /// The registers that it moves.
    pub(super) fn moved(&self, flow: &Flow<'_, 'a>, source: &str) -> Vec<Moved<'a>> {
        let found = self.body(flow, source);
        let moved = |at: usize| {
            let to = found.instruction(at).operands.first()?;
            let OperandKind::Name(register) = to.kind else {
                return None;
            };
            let is_own = found.is_register(register) && found.only(register) == Some(at);
            let most = is_own
                .then(|| self.moved_by(&found, at, register))
                .flatten()?;
            let way = i64::try_from(self.passes).ok()?.checked_mul(most)?;
            (way <= WAY).then_some(Moved { at, register, way })
        };
        (self.first..self.end).filter_map(moved).collect()
    }

    fn body<'f, 'm, 's>(&self, flow: &'f Flow<'m, 'a>, source: &'s str) -> Loop<'f, 'm, 'a, 's> {
        Loop {
            flow,
            source,
            first: self.first,
            end: self.end,
        }
    }

    /// How far a pass moves a register, at most, that an instruction makes by additions to
    /// what it was.
    fn moved_by(&self, of: &Loop<'_, '_, 'a, '_>, mut at: usize, register: &str) -> Option<i64> {
        let mut sum = 0i64;
        for _ in 0..LINKS {
            let (from, by) = of.sum(at, 64)?;
            let most = match by {
                OperandKind::Integer(by) => i64::try_from(by.unsigned_abs()).ok()?,
                OperandKind::Name(name) => {
                    let mut limits = self.limits.iter();
                    limits.find(|(limited, _)| limited == name)?.1
                }
                _ => return None,
            };
            sum = sum.checked_add(most)?;
            if from == register {
                return Some(sum);
            }
            // What is read was made in this pass.
            at = of
                .only(from)
                .filter(|earlier| *earlier < at && of.is_register(from))?;
        }
        None
    }

    /// Registers that are within a limit all through the loop.
    pub(super) fn limits(&self, flow: &Flow<'_, 'a>, source: &str) -> Vec<(&'a str, i64)> {
        let found = self.body(flow, source);
        let limits = self.limits.iter();
        limits
            .filter(|(name, _)| found.is_fixed(name))
            .copied()
            .collect()
    }
}

impl<'a> Loop<'_, '_, 'a, '_> {
    fn instruction(&self, at: usize) -> &Instruction<'a> {
        self.flow.steps[at].instruction
    }

    /// Whether its instructions are executed one after the other in each pass, and it is
    /// entered only at the first one, from what stands before that. `sources` are the
    /// instructions that lead to each.
    ///
    /// (From its end, where branches back to other loops are: so that many such loops take
    /// no longer than their text.)
    fn is_straight(&self, sources: &[Vec<usize>]) -> bool {
        let (first, last) = (self.first, self.end - 1);
        let is_right = |at: usize| {
            let comes = |from: &usize| from + 1 == at || (at == first && *from == last);
            let goes = |to: &usize| match at == last {
                true => *to == first || !(first..self.end).contains(to),
                false => *to == at + 1 || !(first..self.end).contains(to),
            };
            let next = &self.flow.steps[at].next;
            sources[at].iter().all(comes)
                && next.iter().all(goes)
                && (at == last || next.contains(&(at + 1)))
        };
        (first..self.end).rev().all(is_right)
    }

    /// A name of the program's that is the same register all through the loop and before.
    fn is_register(&self, name: &str) -> bool {
        !name.starts_with("%__rf_")
            && !name.contains('.')
            && self.flow.register(self.first, name).is_some()
    }

    /// The only instruction that writes a register, if it always does.
    fn only(&self, register: &str) -> Option<usize> {
        let mut all =
            (self.first..self.end).filter(|at| mentions_written(self.flow, *at, register));
        let at = all.next().filter(|_| all.next().is_none())?;
        self.instruction(at).guard.is_none().then_some(at)
    }

    fn is_fixed(&self, name: &str) -> bool {
        self.is_register(name)
            && !(self.first..self.end).any(|at| mentions_written(self.flow, at, name))
    }

    fn counted(&self) -> Option<Counted<'a>> {
        let last = self.instruction(self.end - 1);
        let guard = last
            .guard
            .filter(|_| last.opcode.mnemonic() == Mnemonic::Bra)?;
        if !self.flow.is_one_scope(self.first..self.end) || !self.is_register(guard.register) {
            return None;
        }
        let tested = self.only(guard.register)?;
        let test = self.instruction(tested);
        let [_, value, bound] = &test.operands[..] else {
            return None;
        };
        let OperandKind::Name(value) = value.kind else {
            return None;
        };
        let bound = self.fixed(&bound.kind)?;
        let (goes_on, is_signed, bits) = comparison(test.opcode.text.trim(), guard.negated)?;
        let made = self.only(value)?;
        let (counter, plus) = match self.step(made, value, bits) {
            Some(_) => (value, None),
            None => {
                let (counter, plus) = self.sum(made, bits)?;
                (counter, Some(self.fixed(plus)?))
            }
        };
        let moved = self.only(counter)?;
        let is_register = self.is_register(counter) && self.is_register(value);
        // (Where the counter itself is compared, these are one.)
        if !is_register || made >= tested || moved > made {
            return None;
        }
        let (step, is_down) = self.step(moved, counter, bits)?;
        let is_towards = match goes_on {
            While::Differs => true,
            While::Less => !is_down,
            While::Greater => is_down,
        };
        if !is_towards {
            return None;
        }
        self.guarded(
            (counter, plus.as_deref(), &bound, &step),
            (goes_on, is_down, is_signed),
            bits,
        )
    }

    /// An operand that does not change, as text.
    fn fixed(&self, kind: &OperandKind<'_>) -> Option<String> {
        match kind {
            OperandKind::Integer(value) => Some(value.to_string()),
            OperandKind::Name(name) if self.is_fixed(name) => Some((*name).to_owned()),
            _ => None,
        }
    }

    /// Of an addition that is always executed: the register that something is added to
    /// which does not change, and that.
    fn sum(&self, at: usize, bits: u32) -> Option<(&'a str, &OperandKind<'a>)> {
        let adding = self.instruction(at);
        let opcode = adding.opcode.text.trim();
        let [_, a, b] = &adding.operands[..] else {
            return None;
        };
        let is_sum = opcode == format!("add.s{bits}") || opcode == format!("add.u{bits}");
        if !is_sum || adding.guard.is_some() {
            return None;
        }
        let is_fixed = |kind: &OperandKind<'a>| self.fixed(kind).is_some();
        match (&a.kind, &b.kind) {
            (OperandKind::Name(from), by) if is_fixed(by) => Some((from, by)),
            (by, OperandKind::Name(from)) if is_fixed(by) => Some((from, by)),
            _ => None,
        }
    }

    /// The size of the step, as text, and whether it is subtracted.
    fn step(&self, at: usize, counter: &str, bits: u32) -> Option<(String, bool)> {
        let moving = self.instruction(at);
        let [_, from, by] = &moving.operands[..] else {
            return None;
        };
        let is_counter =
            |kind: &OperandKind<'_>| matches!(kind, OperandKind::Name(name) if *name == counter);
        let opcode = moving.opcode.text.trim();
        let is =
            |what: &str| opcode == format!("{what}.s{bits}") || opcode == format!("{what}.u{bits}");
        let fixed = |by: i64| {
            // (Of 32 bits, the constant may be written without a sign.)
            let by = if bits == 32 { i64::from(by as i32) } else { by };
            (by != 0).then(|| (by.unsigned_abs().to_string(), by < 0))
        };
        match (&from.kind, &by.kind) {
            (from, OperandKind::Integer(by)) if is_counter(from) && is("add") => fixed(*by),
            (from, OperandKind::Integer(by)) if is_counter(from) && is("sub") => {
                fixed(by.checked_neg()?)
            }
            (from, OperandKind::Name(by)) | (OperandKind::Name(by), from)
                if is_counter(from) && is("add") && self.is_fixed(by) =>
            {
                Some(((*by).to_owned(), false))
            }
            _ => None,
        }
    }

    /// The passes that the guard before the loop allows.
    fn guarded(
        &self,
        (counter, plus, bound, step): (&str, Option<&str>, &str, &str),
        (goes_on, is_down, is_signed): (While, bool, bool),
        bits: u32,
    ) -> Option<Counted<'a>> {
        let (ahead, spare) = match bits {
            32 => ("%__rf_ahead", "%__rf_spare"),
            _ => ("%__rf_far", "%__rf_wide"),
        };
        let size: Option<u64> = step.parse().ok();
        let is_one = size == Some(1);
        let mut lines = Vec::new();
        let mut value = counter;
        if let Some(plus) = plus {
            lines.push(format!("add.s{bits} {ahead}, {value}, {plus};"));
            value = ahead;
        }
        let (from, to) = if is_down {
            (bound, value)
        } else {
            (value, bound)
        };
        lines.push(format!("sub.s{bits} {ahead}, {to}, {from};"));
        let divides = goes_on == While::Differs && !is_one;
        if divides {
            let size = size.filter(|size| size.is_power_of_two())?;
            lines.push(format!("and.b{bits} {spare}, {ahead}, {};", size - 1));
        }
        lines.push(format!("add.s{bits} {ahead}, {ahead}, -1;"));
        let compared = lines.len() + usize::from(size.is_none());
        let behind = {
            let mut behind = Vec::new();
            if divides {
                behind.push(format!(
                    "setp.ne.or.s{bits} %__rf_due, {spare}, 0, %__rf_due;"
                ));
            } else if !is_one {
                let most = match (is_signed, bits) {
                    (false, _) => -1,
                    (true, 32) => i64::from(i32::MAX),
                    (true, _) => i64::MAX,
                };
                behind.push(match is_down {
                    false => format!("sub.s{bits} {spare}, {most}, {bound};"),
                    true => format!("sub.s{bits} {spare}, {bound}, {};", !most),
                });
                behind.push(format!(
                    "setp.lt.or.u{bits} %__rf_due, {spare}, {step}, %__rf_due;"
                ));
            }
            behind
        };
        let (limits, counting) = self.limits();
        let begin = counting.checked_sub(compared + 1 + behind.len())?;
        let integer = |at: usize| match self.instruction(begin + at).operands.last()?.kind {
            OperandKind::Integer(value) => u64::try_from(value).ok(),
            _ => None,
        };
        let passes = match size {
            Some(size) => {
                let most = integer(compared)?;
                // (Then 2^w is more.)
                if bits == 32 && most > u64::from(u32::MAX) {
                    return None;
                }
                lines.push(format!("setp.ge.u{bits} %__rf_due, {ahead}, {most};"));
                most.div_ceil(size)
            }
            None => {
                let shift = integer(lines.len()).filter(|shift| *shift < u64::from(bits))?;
                lines.push(format!("shr.u{bits} {ahead}, {ahead}, {shift};"));
                lines.push(format!("setp.ge.u{bits} %__rf_due, {ahead}, {step};"));
                1 << shift
            }
        };
        lines.extend(behind);
        let last = self.first - 1;
        let leaves = text(self.flow, last, self.source).starts_with("@%__rf_due bra ");
        let is_whole = (begin + 1..self.first).all(|at| !self.flow.steps[at].has_label);
        let is_so = self.stands(begin, &lines)
            && leaves
            && is_whole
            && self.flow.is_one_scope(begin..self.end);
        is_so.then_some(Counted {
            first: self.first,
            end: self.end,
            passes,
            limits,
        })
    }

    /// Whether these are the instructions from here on.
    fn stands(&self, begin: usize, lines: &[String]) -> bool {
        let is_right =
            |(at, line): (usize, &String)| text(self.flow, begin + at, self.source) == *line;
        lines.iter().enumerate().all(is_right)
    }

    /// The registers that the end of the guard keeps within limits, and where what is
    /// before that ends.
    fn limits(&self) -> (Vec<(&'a str, i64)>, usize) {
        let mut limits = Vec::new();
        let mut end = self.first.saturating_sub(1);
        while let Some(begin) = end.checked_sub(2) {
            let [_, register, most] = &self.instruction(begin).operands[..] else {
                break;
            };
            let (OperandKind::Name(register), OperandKind::Integer(most)) =
                (&register.kind, &most.kind)
            else {
                break;
            };
            let Some(twice) = most.checked_mul(2).filter(|most| *most > 0) else {
                break;
            };
            let lines = [
                format!("add.s64 %__rf_wide, {register}, {most};"),
                format!("setp.gt.or.u64 %__rf_due, %__rf_wide, {twice}, %__rf_due;"),
            ];
            if !self.stands(begin, &lines) || !self.is_register(register) {
                break;
            }
            limits.push((*register, *most));
            end = begin;
        }
        (limits, end)
    }
}

/// When the loop goes on, whether numbers have signs, and their bits.
fn comparison(opcode: &str, is_negated: bool) -> Option<(While, bool, u32)> {
    let parts: Vec<&str> = opcode.split('.').collect();
    let ["setp", by, kind] = parts[..] else {
        return None;
    };
    let (is_signed, bits) = match kind {
        "s32" => (true, 32),
        "u32" | "b32" => (false, 32),
        "s64" => (true, 64),
        "u64" | "b64" => (false, 64),
        _ => return None,
    };
    let goes_on = match (by, is_negated) {
        ("ne", false) | ("eq", true) => While::Differs,
        ("lt", false) | ("ge", true) => While::Less,
        ("gt", false) | ("le", true) => While::Greater,
        _ => return None,
    };
    Some((goes_on, is_signed, bits))
}

#[cfg(test)]
mod tests {
    /// The guards of this module in eight bits: whether they let a thread in which has
    /// `value` before the loop, and the passes that they promise.
    fn lets_in(
        (differs, is_down, is_signed): (bool, bool, bool),
        (value, bound, step): (u8, u8, u8),
        limit: Limit,
    ) -> Option<u32> {
        let distance = match is_down {
            false => bound.wrapping_sub(value),
            true => value.wrapping_sub(bound),
        };
        let ahead = distance.wrapping_sub(1);
        let (is_few, passes) = match limit {
            Limit::Distance(most) => (ahead < most, u32::from(most).div_ceil(u32::from(step))),
            Limit::Shift(shift) => (ahead >> shift < step, 1 << shift),
        };
        let least = if is_signed { i8::MIN as u8 } else { 0 };
        let spare = match is_down {
            false => (!least).wrapping_sub(bound),
            true => bound.wrapping_sub(least),
        };
        let is_right = match (differs, step) {
            (_, 1) if matches!(limit, Limit::Distance(_)) => true,
            (true, _) => distance & (step - 1) == 0,
            (false, _) => spare >= step,
        };
        (is_few && is_right).then_some(passes)
    }

    #[derive(Clone, Copy)]
    enum Limit {
        Distance(u8),
        Shift(u32),
    }

    /// Passes of such a loop.
    fn passes(
        (differs, is_down, is_signed): (bool, bool, bool),
        (mut value, bound, step): (u8, u8, u8),
    ) -> u32 {
        for pass in 1..=1000 {
            value = match is_down {
                false => value.wrapping_add(step),
                true => value.wrapping_sub(step),
            };
            let (a, b) = if is_down {
                (bound, value)
            } else {
                (value, bound)
            };
            let goes_on = match (differs, is_signed) {
                (true, _) => a != b,
                (false, true) => (a as i8) < b as i8,
                (false, false) => a < b,
            };
            if !goes_on {
                return pass;
            }
        }
        u32::MAX
    }

    /// All values of eight bits, of which the argument is the same as of more.
    #[test]
    fn a_guard_bounds_the_passes() {
        let mut entered = 0;
        for kind in 0..8 {
            let (differs, is_down, is_signed) = (kind & 1 != 0, kind & 2 != 0, kind & 4 != 0);
            let of = (differs, is_down, is_signed);
            for (value, bound) in (0..=u16::MAX).map(|both| (both as u8, (both >> 8) as u8)) {
                for step in 0..=u8::MAX {
                    let fixed = [1, 3, 16, 100, u8::MAX].map(Limit::Distance);
                    let shifted = [0, 1, 3, 6].map(Limit::Shift);
                    let is_power = step.is_power_of_two();
                    // (A fixed step is a number, and no power of two is needed for an order.)
                    let fixed = fixed
                        .into_iter()
                        .filter(|_| step != 0 && (is_power || !differs));
                    // A register is only compared by an order, and added.
                    let shifted = shifted.into_iter().filter(|_| !differs && !is_down);
                    for limit in fixed.chain(shifted) {
                        let place = (value, bound, step);
                        if let Some(most) = lets_in(of, place, limit) {
                            let found = passes(of, place);
                            assert!(found <= most, "{of:?} {place:?}: {found}, {most}");
                            entered += 1;
                        }
                    }
                }
            }
        }
        assert!(entered > 1_000_000, "{entered}");
    }
}
