//! Addresses that are a pointer of the parameters and an index of 32 bits, times a
//! constant, plus a constant: `a[i + 1]`. Such an access is in bounds exactly if the index
//! is between two numbers that are the same for all threads of a launch. The host computes
//! them ([`crate::LaunchIndex`]), and a check compares 32 bits in place of 64.
//!
//! The pass and the verifier both use this module: which index an address has is believed;
//! what is compared with what, and that it is of the access, is verified of the text.

use crate::ahead::{Read, read};
use analysis::{Analysis, Definition, Origin, Register, Root, ValueId};
use ptx::{Instruction, Mnemonic};
use rustc_hash::FxHashMap;

/// The most additions and multiplications that an address is followed through.
const DEEPEST: u32 = 8;

/// The largest size of an element, and the largest constant.
const LARGEST_SCALE: u64 = 1 << 20;
const LARGEST_OFFSET: i64 = 1 << 40;

/// See the module's header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Indexed<'a> {
    /// The pointer, by its offset among the parameters.
    pub(crate) parameter: u32,
    /// Name of the register with the index, and the instruction that has it as its second
    /// operand.
    pub(crate) index: &'a str,
    pub(crate) read_at: usize,
    /// Whether it is a signed number.
    pub(crate) is_signed: bool,
    /// What it is multiplied with.
    pub(crate) scale: u64,
    /// What is added.
    pub(crate) offset: i64,
}

/// Which addresses of a function have an index.
pub(crate) struct Indices<'x, 'm, 'a> {
    analysis: &'x Analysis<'m, 'a>,
    /// The instructions that write a register.
    written: FxHashMap<Register, Vec<u32>>,
}

/// A part of an address.
#[derive(Clone, Copy, Default)]
struct Sum<'a> {
    parameter: Option<u32>,
    index: Option<Index<'a>>,
    offset: i64,
}

#[derive(Clone, Copy)]
struct Index<'a> {
    name: &'a str,
    value: ValueId,
    /// The instruction that reads it for the address.
    at: usize,
    is_signed: bool,
    scale: u64,
}

impl<'x, 'm, 'a> Indices<'x, 'm, 'a> {
    pub(crate) fn of(analysis: &'x Analysis<'m, 'a>) -> Self {
        let mut written: FxHashMap<Register, Vec<u32>> = FxHashMap::default();
        for value in &analysis.ssa.values {
            if let Definition::Instruction { instruction, .. } = value.definition {
                written.entry(value.register).or_default().push(instruction);
            }
        }
        Indices { analysis, written }
    }

    /// The index of the address that an operand of an instruction has, without the
    /// constant of the operand itself; its register still holds it there.
    pub(crate) fn of_access(&self, at: usize, operand: usize) -> Option<Indexed<'a>> {
        let Read::Register(address, _) = read(self.analysis, at, operand)? else {
            return None;
        };
        let sum = self.sum(address, DEEPEST)?;
        let index = sum.index?;
        self.is_held(&index, at).then_some(Indexed {
            parameter: sum.parameter?,
            index: index.name,
            read_at: index.at,
            is_signed: index.is_signed,
            scale: index.scale,
            offset: sum.offset,
        })
    }

    /// Whether the register of an index holds it before an instruction that has the
    /// address: nothing else ever writes it, or nothing does in between.
    fn is_held(&self, index: &Index<'_>, at: usize) -> bool {
        let (code, cfg) = (&self.analysis.code, &self.analysis.cfg);
        // (Registers of inner scopes hide others of the same name.)
        if code.instructions[index.at].scope != code.instructions[at].scope {
            return false;
        }
        let Some(value) = self.analysis.ssa.value(index.value) else {
            return false;
        };
        let written = self.written.get(&value.register);
        let written = written.map_or(&[][..], Vec::as_slice);
        match value.definition {
            Definition::Instruction { .. } if written.len() == 1 => true,
            _ => {
                let between = |by: &u32| (index.at..at).contains(&(*by as usize));
                index.at < at
                    && cfg.block_of[index.at] == cfg.block_of[at]
                    && !written.iter().any(between)
            }
        }
    }

    /// What a value of 64 bits is made of.
    fn sum(&self, value: ValueId, depth: u32) -> Option<Sum<'a>> {
        let analysis = self.analysis;
        let depth = depth.checked_sub(1)?;
        let at = analysis.ssa.made_by(value)?;
        let instruction = analysis.code.instructions[at].instruction;
        let opcode = instruction.opcode.text.trim();
        let operand = |operand: usize| match read(analysis, at, operand)? {
            Read::Constant(offset) => Some(Sum {
                offset,
                ..Sum::default()
            }),
            Read::Register(value, _) => self.sum(value, depth),
        };
        let constant = |operand: usize| match read(analysis, at, operand)? {
            Read::Constant(constant) => u64::try_from(constant).ok(),
            Read::Register(..) => None,
        };
        let index = |is_signed: bool, scale: u64| match read(analysis, at, 1)? {
            Read::Register(value, name) => Some(Sum {
                index: Some(Index {
                    name,
                    value,
                    at,
                    is_signed,
                    scale,
                }),
                ..Sum::default()
            }),
            Read::Constant(_) => None,
        };
        let sum = match opcode {
            "mov.u64" | "mov.b64" | "mov.s64" | "cvta.to.global.u64" | "cvta.global.u64" => {
                operand(1)
            }
            "add.s64" | "add.u64" => operand(1)?.plus(operand(2)?),
            "mul.wide.s32" => index(true, constant(2)?),
            "mul.wide.u32" => index(false, constant(2)?),
            "cvt.s64.s32" => index(true, 1),
            "cvt.u64.u32" => index(false, 1),
            "mad.wide.s32" => index(true, constant(2)?)?.plus(operand(3)?),
            "mad.wide.u32" => index(false, constant(2)?)?.plus(operand(3)?),
            "shl.b64" => operand(1)?.times(1u64.checked_shl(u32::try_from(constant(2)?).ok()?)?),
            "mul.lo.s64" | "mul.lo.u64" => operand(1)?.times(constant(2)?),
            _ => self.parameter(value, instruction),
        }?;
        let is_small = sum.offset.unsigned_abs() <= LARGEST_OFFSET as u64
            && sum
                .index
                .is_none_or(|index| (1..=LARGEST_SCALE).contains(&index.scale));
        is_small.then_some(sum)
    }

    /// A pointer of the parameters, where it is read.
    fn parameter(&self, value: ValueId, made: &Instruction<'_>) -> Option<Sum<'a>> {
        if made.opcode.mnemonic() != Mnemonic::Ld {
            return None;
        }
        let provenance = &self.analysis.provenance;
        let Origin::Pointer { root, .. } = provenance.origin(value) else {
            return None;
        };
        match provenance.root(root)? {
            Root::KernelParameter { offset } => Some(Sum {
                parameter: Some(offset),
                ..Sum::default()
            }),
            _ => None,
        }
    }
}

impl<'a> Sum<'a> {
    fn plus(self, other: Sum<'a>) -> Option<Sum<'a>> {
        let one = |is_one: bool| is_one.then_some(());
        one(self.parameter.is_none() || other.parameter.is_none())?;
        one(self.index.is_none() || other.index.is_none())?;
        Some(Sum {
            parameter: self.parameter.or(other.parameter),
            index: self.index.or(other.index),
            offset: self.offset.checked_add(other.offset)?,
        })
    }

    fn times(self, by: u64) -> Option<Sum<'a>> {
        if self.parameter.is_some() {
            return None;
        }
        Some(Sum {
            index: match self.index {
                Some(index) => Some(Index {
                    scale: index.scale.checked_mul(by)?,
                    ..index
                }),
                None => None,
            },
            offset: self.offset.checked_mul(i64::try_from(by).ok()?)?,
            ..self
        })
    }
}
