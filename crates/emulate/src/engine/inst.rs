//! Decoded instructions. Each has the slots of the register file that it uses
//! and the function that executes it; no name is resolved while a kernel runs.

use super::context::Context;
use super::warp::Warp;

/// Executes an instruction for the lanes of a mask.
pub(crate) type Handler = fn(&mut Warp, &mut Context<'_>, &Inst, u32) -> Flow;

/// What the warp does after an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flow {
    /// Continue with the next instruction.
    Next,
    /// The handler changed `warp.current`; go on from there.
    Jump,
    /// The handler parked or ended `warp.current`; choose another split.
    Switch,
    /// Yield to other warps, then continue with the next instruction.
    Yield,
    /// `context.fault` says why the launch ends.
    Fault,
}

/// A slot with this bit is an index into the constants, not the registers.
pub(crate) const CONSTANT: u32 = 1 << 31;
/// No slot: a sink, or an operand that is absent.
pub(crate) const NONE: u32 = u32::MAX;

/// One instruction.
#[derive(Clone, Copy)]
pub(crate) struct Inst {
    /// Executes it.
    pub run: Handler,
    /// Number that handler and decoder agree on: flags, offset, target.
    pub imm: u64,
    /// Predicate slot × 2, + 1 if negated; [`NONE`] if unguarded.
    pub guard: u32,
    /// Slot of the destination.
    pub d: u32,
    /// Slots of sources.
    pub a: u32,
    /// Second source.
    pub b: u32,
    /// Third source.
    pub c: u32,
    /// Fourth source or second destination.
    pub e: u32,
    /// Index into the program's lists of slots, or a small number.
    pub side: u32,
    /// Whether it counts as an instruction of the program; helpers do not.
    pub counted: bool,
}

/// Width of a register.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Class {
    Pred,
    B16,
    B32,
    B64,
    B128,
}

impl Class {
    /// The class whose registers hold values of a type. 8-bit registers are
    /// held as 16-bit ones.
    pub fn of(ty: ptx::Type) -> Option<Class> {
        Some(match ty.bytes() {
            0 => Class::Pred,
            1 | 2 => Class::B16,
            4 => Class::B32,
            8 => Class::B64,
            16 => Class::B128,
            _ => return None,
        })
    }

    pub fn bytes(self) -> u32 {
        match self {
            Class::Pred => 0,
            Class::B16 => 2,
            Class::B32 => 4,
            Class::B64 => 8,
            Class::B128 => 16,
        }
    }
}

/// Registers of a function by class, or first registers of a frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub pred: u32,
    pub b16: u32,
    pub b32: u32,
    pub b64: u32,
    pub b128: u32,
}

impl Counts {
    pub fn of(&mut self, class: Class) -> &mut u32 {
        match class {
            Class::Pred => &mut self.pred,
            Class::B16 => &mut self.b16,
            Class::B32 => &mut self.b32,
            Class::B64 => &mut self.b64,
            Class::B128 => &mut self.b128,
        }
    }

    pub fn plus(self, other: Counts) -> Counts {
        Counts {
            pred: self.pred + other.pred,
            b16: self.b16 + other.b16,
            b32: self.b32 + other.b32,
            b64: self.b64 + other.b64,
            b128: self.b128 + other.b128,
        }
    }
}
