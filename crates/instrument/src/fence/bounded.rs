//! What is added to pointers: integers of 64 bits whose bounds the text alone
//! gives, because they come from 32 bits.

use analysis::{Analysis, Role, ValueId};
use ptx::OperandKind;
use rustc_hash::FxHashMap;

/// Bytes of registers by name; 0 for a name that is not that of one register
/// wherever it stands.
pub(super) type Names = FxHashMap<String, u32>;

/// An integer between two others, and a multiple of a power of two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Bounded {
    pub(super) least: i64,
    pub(super) most: i64,
    pub(super) multiple: u32,
}

/// Bounds that are looked at are at most this; larger than what any pointer may
/// step by.
const MOST: i64 = 1 << 42;

/// The largest alignment of an access.
const MOST_ALIGNED: u32 = 128;

impl Bounded {
    pub(super) const NOTHING: Bounded = Bounded {
        least: 0,
        most: 0,
        multiple: MOST_ALIGNED,
    };

    fn new(least: i64, most: i64, multiple: u32) -> Option<Bounded> {
        (-MOST <= least && most <= MOST).then_some(Bounded {
            least,
            most,
            multiple: multiple.min(MOST_ALIGNED),
        })
    }

    pub(super) fn number(value: i64) -> Option<Bounded> {
        Bounded::new(value, value, Bounded::low(value))
    }

    /// The power of two that a number is a multiple of.
    pub(super) fn low(value: i64) -> u32 {
        1 << value.trailing_zeros().min(MOST_ALIGNED.trailing_zeros())
    }

    pub(super) fn plus(self, other: Bounded) -> Option<Bounded> {
        let (least, most) = (self.least + other.least, self.most + other.most);
        Bounded::new(least, most, self.multiple.min(other.multiple))
    }

    pub(super) fn negative(self) -> Bounded {
        Bounded {
            least: -self.most,
            most: -self.least,
            ..self
        }
    }

    fn times(self, factor: i64) -> Option<Bounded> {
        let (a, b) = (
            self.least.checked_mul(factor)?,
            self.most.checked_mul(factor)?,
        );
        let multiple = self.multiple.saturating_mul(Bounded::low(factor));
        Bounded::new(a.min(b), a.max(b), multiple)
    }
}

/// How many instructions a bound is followed through.
const DEPTH: u32 = 8;

/// The bounds of registers.
pub(super) struct Offsets<'x, 'm, 'a> {
    analysis: &'x Analysis<'m, 'a>,
    /// For each register, how many instructions write it; many, if its name may
    /// be that of another one.
    writes: Vec<u32>,
}

impl<'x, 'm, 'a> Offsets<'x, 'm, 'a> {
    pub(super) fn new(analysis: &'x Analysis<'m, 'a>, names: &Names) -> Self {
        let code = &analysis.code;
        let mut writes = vec![0; code.registers() as usize];
        for (index, inst) in code.instructions.iter().enumerate() {
            for reference in code.references_of(index) {
                let is_written = matches!(reference.role, Role::Write | Role::Unknown);
                let Some(register) = reference.referent.register().filter(|_| is_written) else {
                    continue;
                };
                let operand = inst
                    .instruction
                    .operands
                    .get(usize::from(reference.operand));
                let is_one = match operand.map(|operand| &operand.kind) {
                    Some(OperandKind::Name(name)) => {
                        names.get(*name).is_some_and(|bytes| *bytes > 0)
                    }
                    _ => false,
                };
                writes[register.0 as usize] += if is_one { 1 } else { 2 };
            }
        }
        Offsets { analysis, writes }
    }

    /// What an instruction reads in an operand.
    pub(super) fn read(&self, index: usize, operand: usize) -> Option<Bounded> {
        self.at(index, operand, DEPTH)
    }

    /// The product that an instruction adds.
    pub(super) fn product(&self, index: usize) -> Option<Bounded> {
        self.wide(index, DEPTH)
    }

    /// The instruction that alone makes what an operand reads, and that no other
    /// one shares its register with.
    fn maker(&self, index: usize, operand: usize) -> Option<usize> {
        let mut references = self.analysis.code.references_of(index).iter();
        let reference = references.find(|r| {
            usize::from(r.operand) == operand && r.element == 0 && r.role == Role::Read
        })?;
        let register = reference.referent.register()?;
        let is_only = self.writes.get(register.0 as usize) == Some(&1);
        let value: ValueId = reference.value;
        is_only.then(|| self.analysis.ssa.made_by(value)).flatten()
    }

    fn integer(&self, index: usize, operand: usize) -> Option<i64> {
        match self.analysis.code.instructions[index]
            .instruction
            .operands
            .get(operand)?
            .kind
        {
            OperandKind::Integer(value) => Some(value),
            _ => None,
        }
    }

    fn opcode(&self, index: usize) -> &'a str {
        self.analysis.code.instructions[index]
            .instruction
            .opcode
            .text
    }

    fn at(&self, index: usize, operand: usize, depth: u32) -> Option<Bounded> {
        if let Some(value) = self.integer(index, operand) {
            return Bounded::number(value);
        }
        let depth = depth.checked_sub(1)?;
        let at = self.maker(index, operand)?;
        match self.opcode(at) {
            "mul.wide.s32" | "mul.wide.u32" => self.wide(at, depth),
            "cvt.s64.s32" | "cvt.u64.u32" => self.scaled(at, 1, depth),
            "add.s64" => self.at(at, 1, depth)?.plus(self.at(at, 2, depth)?),
            "sub.s64" => self
                .at(at, 1, depth)?
                .plus(self.at(at, 2, depth)?.negative()),
            "mul.lo.s64" => self.at(at, 1, depth)?.times(self.integer(at, 2)?),
            "shl.b64" => {
                let by = self.integer(at, 2).filter(|by| (0..32).contains(by))?;
                self.at(at, 1, depth)?.times(1 << by)
            }
            "mov.u64" | "mov.b64" | "mov.s64" => self.at(at, 1, depth),
            _ => None,
        }
    }

    /// Operand 1 times operand 2, which is a number.
    fn wide(&self, index: usize, depth: u32) -> Option<Bounded> {
        let factor = self.integer(index, 2)?;
        self.scaled(index, factor, depth)
            .filter(|_| (1..=1 << 20).contains(&factor))
    }

    /// Operand 1, of 32 bits as the opcode says, times a number.
    fn scaled(&self, index: usize, factor: i64, depth: u32) -> Option<Bounded> {
        let (least, most) = match self.opcode(index).ends_with(".s32") {
            true => (i64::from(i32::MIN), i64::from(i32::MAX)),
            false => (0, i64::from(u32::MAX)),
        };
        Bounded::new(least, most, self.multiple(index, 1, depth))?.times(factor)
    }

    /// What 32 bits are a multiple of.
    fn multiple(&self, index: usize, operand: usize, depth: u32) -> u32 {
        if let Some(value) = self.integer(index, operand) {
            return Bounded::low(value);
        }
        let (Some(depth), Some(at)) = (depth.checked_sub(1), self.maker(index, operand)) else {
            return 1;
        };
        let of = |operand| self.multiple(at, operand, depth);
        let scaled = |by: u32| of(1).saturating_mul(by).min(MOST_ALIGNED);
        match self.opcode(at) {
            "shl.b32" => match self.integer(at, 2) {
                Some(by @ 0..32) => scaled(1 << by),
                _ => 1,
            },
            "mul.lo.s32" => scaled(of(2)),
            "mad.lo.s32" => scaled(of(2)).min(of(3)),
            "add.s32" | "sub.s32" | "or.b32" => of(1).min(of(2)),
            _ => 1,
        }
    }
}
