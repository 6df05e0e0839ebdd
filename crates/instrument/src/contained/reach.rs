//! Addresses near the partition: a fenced address, plus what code adds to it.
//!
//! Sums are those of integers, without a wrap: a partition and its margins are
//! far from both ends of the address space, and what is added has bounds that are
//! far below. How far an address may be is judged at the access
//! (`model::layout::fence::REACH`).

use super::known::{Known, MOST_ALIGNED, Registers, multiple_of};
use ptx::{Instruction, OperandKind};

/// Bounds of what is added are at most this.
const MOST: i64 = 1 << 42;

/// An integer between two others, and a multiple of a power of two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Between {
    pub(super) least: i64,
    pub(super) most: i64,
    pub(super) multiple: u32,
}

impl Between {
    fn new(least: i64, most: i64, multiple: u32) -> Option<Between> {
        let is_small = -MOST <= least && least <= most && most <= MOST;
        is_small.then_some(Between {
            least,
            most,
            multiple: multiple.clamp(1, MOST_ALIGNED),
        })
    }

    fn number(value: i64) -> Option<Between> {
        Between::new(value, value, low(value))
    }

    fn plus(self, other: Between) -> Option<Between> {
        let (least, most) = (self.least + other.least, self.most + other.most);
        Between::new(least, most, self.multiple.min(other.multiple))
    }

    fn negative(self) -> Between {
        Between {
            least: -self.most,
            most: -self.least,
            multiple: self.multiple,
        }
    }

    fn times(self, factor: i64) -> Option<Between> {
        let (a, b) = (
            self.least.checked_mul(factor)?,
            self.most.checked_mul(factor)?,
        );
        let multiple = self.multiple.saturating_mul(low(factor));
        Between::new(a.min(b), a.max(b), multiple)
    }

    /// The least that holds both.
    pub(super) fn join(self, other: Between) -> Between {
        Between {
            least: self.least.min(other.least),
            most: self.most.max(other.most),
            multiple: self.multiple.min(other.multiple),
        }
    }
}

/// The power of two that a number is a multiple of.
fn low(value: i64) -> u32 {
    1 << value.trailing_zeros().min(MOST_ALIGNED.trailing_zeros())
}

impl Known {
    /// An address in the partition plus this, if it is one.
    pub(super) fn near(self) -> Option<Between> {
        let inside = |multiple| Between::new(0, 0, multiple);
        match self {
            Known::Near(between) => Some(between),
            Known::Address(multiple) => inside(multiple),
            Known::Base => inside(MOST_ALIGNED),
            _ => None,
        }
    }

    /// What a register of 64 bits holds, as a signed integer.
    fn offset(self) -> Option<Between> {
        match self {
            Known::Offset(between) => Some(between),
            _ => None,
        }
    }

    /// What a value of 32 bits is a multiple of.
    fn multiple(self) -> u32 {
        match self {
            Known::Multiple(multiple) => multiple,
            _ => 1,
        }
    }

    /// Whether what is known is about one value, and not about all that an
    /// instruction makes; or of no use where the instruction is not close by.
    pub(super) fn is_of_one(self) -> bool {
        !matches!(
            self,
            Known::Unseen
                | Known::Near(_)
                | Known::Address(_)
                | Known::Base
                | Known::Offset(_)
                | Known::Multiple(_)
        )
    }

    /// The least class that holds both.
    pub(super) fn join(self, other: Known) -> Known {
        match (self, other) {
            (known, Known::Unseen) | (Known::Unseen, known) => known,
            (a, b) if a == b => a,
            (Known::Multiple(a), Known::Multiple(b)) => Known::Multiple(a.min(b)),
            (Known::Offset(a), Known::Offset(b)) => Known::Offset(a.join(b)),
            (a, b) => match (a.near(), b.near()) {
                (Some(a), Some(b)) => Known::Near(a.join(b)),
                _ => Known::Nothing,
            },
        }
    }

    /// What may hold of a register of which this does not, because an instruction made that:
    /// the least class that holds both, if it lacks no more than multiples. (Bounds might
    /// grow in each walk.)
    pub(super) fn weaker(self, made: Known) -> Known {
        let joined = self.join(made);
        let bounds = |known: Known| {
            let between = known.near().or(known.offset());
            between.map(|between| (between.least, between.most))
        };
        match bounds(joined) == bounds(self) {
            true => joined,
            false => Known::Nothing,
        }
    }

    /// The lower half of it, if that is the multiple of something.
    pub(super) fn low_half(self) -> Known {
        match self {
            Known::Unseen => Known::Unseen,
            _ => match self.near().or(self.offset()) {
                Some(between) if between.multiple > 1 => Known::Multiple(between.multiple),
                _ => Known::Nothing,
            },
        }
    }
}

impl<'a> Registers<'a> {
    /// What an instruction makes of addresses near the partition, and of what is
    /// added to them.
    pub(super) fn reach(&self, opcode: &str, operands: &[&OperandKind<'a>]) -> Option<Known> {
        use OperandKind::{Integer, Name};
        match (opcode, operands) {
            ("add.s64" | "add.u64", [_, a, b]) => self.sum(a, b, |b| b),
            ("sub.s64" | "sub.u64", [_, a, b]) => self.sum(a, b, Between::negative),
            ("neg.s64", [_, Name(a)]) => Some(Known::Offset(self.known(a).offset()?.negative())),
            ("mov.u64" | "mov.b64" | "mov.s64", [_, Name(a)]) => match self.known(a) {
                known @ (Known::Near(_) | Known::Address(_) | Known::Offset(_)) => Some(known),
                _ => None,
            },
            ("mov.u64" | "mov.b64" | "mov.s64", [_, Integer(value)]) => {
                Some(Known::Offset(Between::number(*value)?))
            }
            ("mul.wide.s32" | "mul.wide.u32", [_, Name(a), Integer(factor)]) => {
                Some(Known::Offset(self.wide(opcode, a, *factor)?))
            }
            ("mad.wide.s32" | "mad.wide.u32", [_, Name(a), Integer(factor), Name(c)]) => {
                self.added(self.known(c), self.wide(opcode, a, *factor)?)
            }
            ("shl.b64", [_, Name(a), Integer(by @ 0..32)]) => {
                Some(Known::Offset(self.known(a).offset()?.times(1 << by)?))
            }
            ("mul.lo.s64" | "mul.lo.u64", [_, Name(a), Integer(factor)]) => {
                Some(Known::Offset(self.known(a).offset()?.times(*factor)?))
            }
            ("and.b64", [_, Name(a), Integer(mask)]) => self.masked(self.known(a), *mask),
            ("cvt.s64.s32" | "cvt.u64.u32" | "cvt.s64.u32", [_, Name(a)]) => {
                Some(Known::Offset(self.wide(opcode, a, 1)?))
            }
            ("mov.u32" | "mov.b32" | "mov.s32", [_, Integer(value)]) => {
                Some(Known::Multiple(low(*value)))
            }
            (_, [_, Name(a), rest @ ..]) => self.narrow(opcode, a, rest),
            _ => None,
        }
    }

    /// A register is at most this, either way, in the straight code that follows.
    pub(super) fn limit(&mut self, name: &'a str, most: i64) {
        let multiple = self.known(name).offset().map_or(1, |known| known.multiple);
        if let Some(between) = Between::new(-most, most, multiple) {
            self.set(name, Known::Offset(between));
        }
    }

    /// What an addition makes of an address in the partition that is a multiple of this, in
    /// a loop that moves it by no more than a way in all, in either direction.
    pub(super) fn moved(&self, instruction: &Instruction<'a>, way: i64, multiple: u32) -> Known {
        let own = match instruction.operands.first().map(|own| &own.kind) {
            Some(OperandKind::Name(own)) => Some(*own),
            _ => None,
        };
        let added = instruction
            .operands
            .iter()
            .skip(1)
            .map(|operand| match operand.kind {
                OperandKind::Integer(value) => low(value),
                OperandKind::Name(name) if own == Some(name) => multiple,
                OperandKind::Name(name) => {
                    let known = self.known(name);
                    let between = known.near().or(known.offset());
                    between.map_or(1, |between| between.multiple)
                }
                _ => 1,
            });
        let multiple = added.fold(multiple, u32::min);
        Between::new(-way, way, multiple).map_or(Known::Nothing, Known::Near)
    }

    /// Products of 32 bits, in 64: the register is read as the opcode ends.
    fn wide(&self, opcode: &str, a: &str, factor: i64) -> Option<Between> {
        let (least, most) = match opcode.ends_with(".s32") {
            true => (i64::from(i32::MIN), i64::from(i32::MAX)),
            false => (0, i64::from(u32::MAX)),
        };
        let is_plain = (1..=1 << 20).contains(&factor);
        let multiple = self.known(a).multiple();
        Between::new(least, most, multiple)?
            .times(factor)
            .filter(|_| is_plain)
    }

    /// `a + view(b)`, where either may be the address.
    fn sum(
        &self,
        a: &OperandKind<'a>,
        b: &OperandKind<'a>,
        view: fn(Between) -> Between,
    ) -> Option<Known> {
        let known = |operand: &OperandKind<'a>| match operand {
            OperandKind::Name(name) => self.known(name),
            OperandKind::Integer(value) => {
                Between::number(*value).map_or(Known::Nothing, Known::Offset)
            }
            _ => Known::Nothing,
        };
        let (a, b) = (known(a), known(b));
        let is_subtracted = view(Between {
            least: 1,
            most: 1,
            multiple: 1,
        })
        .least
            < 0;
        match b.offset() {
            Some(b) => self.added(a, view(b)),
            None if is_subtracted => None,
            None => self.added(b, a.offset()?),
        }
    }

    fn added(&self, known: Known, offset: Between) -> Option<Known> {
        match (known.near(), known.offset()) {
            (Some(near), _) => Some(Known::Near(near.plus(offset)?)),
            (_, Some(other)) => Some(Known::Offset(other.plus(offset)?)),
            _ => None,
        }
    }

    /// An address, or what is added to one, with its lowest bits cleared; or some
    /// bits of anything.
    fn masked(&self, known: Known, mask: i64) -> Option<Known> {
        let Some(multiple) = multiple_of(mask) else {
            let is_field = mask >= 0;
            return Between::new(0, mask, low(mask))
                .filter(|_| is_field)
                .map(Known::Offset);
        };
        let cleared = |between: Between| {
            let least = between.least - i64::from(multiple - 1);
            Between::new(least, between.most, between.multiple.max(multiple))
        };
        match (known.near(), known.offset()) {
            (Some(near), _) => Some(Known::Near(cleared(near)?)),
            (_, Some(offset)) => Some(Known::Offset(cleared(offset)?)),
            _ => None,
        }
    }

    /// Multiples in 32 bits. (That they may wrap changes no low bit.)
    fn narrow(&self, opcode: &str, a: &str, rest: &[&OperandKind<'a>]) -> Option<Known> {
        use OperandKind::{Integer, Name};
        let a = self.known(a).multiple();
        let of = |operand: &OperandKind<'a>| match operand {
            Name(name) => self.known(name).multiple(),
            Integer(value) => low(*value),
            _ => 1,
        };
        let scaled = |by: u32| a.saturating_mul(by).min(MOST_ALIGNED);
        let multiple = match (opcode, rest) {
            ("shl.b32", [Integer(by @ 0..32)]) => scaled(1 << by),
            ("mul.lo.s32" | "mul.lo.u32", [b]) => scaled(of(b)),
            ("mad.lo.s32" | "mad.lo.u32", [b, c]) => scaled(of(b)).min(of(c)),
            ("add.s32" | "add.u32" | "sub.s32" | "sub.u32" | "or.b32", [b]) => a.min(of(b)),
            ("mov.u32" | "mov.b32" | "mov.s32", []) => a,
            _ => return None,
        };
        (multiple > 1).then_some(Known::Multiple(multiple))
    }
}
