//! Names of the registers that checks use, and how operands are spelled.

use crate::protocol::register;
use std::fmt;

pub(super) use crate::protocol::family::*;

/// An operand of check code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Op<'a> {
    /// A register of a numbered family.
    Family(&'static str, u32),
    /// A single register.
    Single(&'static str),
    /// One of the program's registers.
    Program(&'a str),
    /// A constant.
    Constant(u64),
}

impl fmt::Display for Op<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Op::Family(family, number) => write!(f, "{family}{number}"),
            Op::Single(name) => f.write_str(name),
            Op::Program(name) => f.write_str(name),
            Op::Constant(value) => write!(f, "{value}"),
        }
    }
}

/// The program's guard before a check's own instruction.
#[derive(Clone, Copy, Debug)]
pub(super) struct Under<'a>(pub(super) Option<ptx::Guard<'a>>);

impl fmt::Display for Under<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(guard) => write!(
                f,
                "@{}{} ",
                if guard.negated { "!" } else { "" },
                guard.register
            ),
            None => Ok(()),
        }
    }
}

pub(super) const ROUNDS: Op<'static> = Op::Single(register::ROUNDS);
pub(super) const STOP: Op<'static> = Op::Single(register::STOP);
pub(super) const GO_ON: Op<'static> = Op::Single(register::GO_ON);
pub(super) const UNHARMED: Op<'static> = Op::Single(register::UNHARMED);
pub(super) const POINTER32: Op<'static> = Op::Single(register::POINTER32);
pub(super) const OFFSET32: Op<'static> = Op::Single(register::OFFSET32);
pub(super) const LIMIT32: Op<'static> = Op::Single(register::LIMIT32);
pub(super) const DYNAMIC: Op<'static> = Op::Single(register::DYNAMIC);
pub(super) const BLOCK: Op<'static> = Op::Single(register::BLOCK);
pub(super) const LOW_BITS: Op<'static> = Op::Single(register::LOW_BITS);
pub(super) const LANE: Op<'static> = Op::Single(register::LANE);
pub(super) const GENERIC: Op<'static> = Op::Single(register::GENERIC);
pub(super) const OFFSET: Op<'static> = Op::Single(register::OFFSET);
pub(super) const SCRATCH: Op<'static> = Op::Single(register::SCRATCH);
pub(super) const SCRATCH2: Op<'static> = Op::Single(register::SCRATCH2);
pub(super) const OUTSIDE: Op<'static> = Op::Single(register::OUTSIDE);
pub(super) const OTHER: Op<'static> = Op::Single(register::OTHER);
pub(super) const PASSES: Op<'static> = Op::Single(register::PASSES);
pub(super) const POISONED: Op<'static> = Op::Single(register::POISONED);
pub(super) const FAR: Op<'static> = Op::Single(register::FAR);
pub(super) const SLOW: Op<'static> = Op::Single(register::SLOW);
pub(super) const WEAK_BASE: Op<'static> = Op::Single(register::WEAK_BASE);
pub(super) const WEAK_SIZE: Op<'static> = Op::Single(register::WEAK_SIZE);
pub(super) const GIVEN_BASE: Op<'static> = Op::Single(register::GIVEN_BASE);
pub(super) const GIVEN_SIZE: Op<'static> = Op::Single(register::GIVEN_SIZE);
pub(super) const SITE: Op<'static> = Op::Single(register::SITE);
pub(super) const REPORTED: Op<'static> = Op::Single(register::REPORTED);
pub(super) const ADDRESS: Op<'static> = Op::Single(register::ADDRESS);
pub(super) const RECORD_BASE: Op<'static> = Op::Single(register::RECORD_BASE);
pub(super) const RECORD_SIZE: Op<'static> = Op::Single(register::RECORD_SIZE);
pub(super) const SPACE_ADDRESS: Op<'static> = Op::Single(register::SPACE_ADDRESS);
pub(super) const SPACE_BASE: Op<'static> = Op::Single(register::SPACE_BASE);
pub(super) const TOLD_ADDRESS: Op<'static> = Op::Single(register::TOLD_ADDRESS);
pub(super) const TOLD_BASE: Op<'static> = Op::Single(register::TOLD_BASE);
pub(super) const TOLD_SIZE: Op<'static> = Op::Single(register::TOLD_SIZE);
pub(super) const RECORD_WORD: Op<'static> = Op::Single(register::RECORD_WORD);
pub(super) const RECORD_PART: Op<'static> = Op::Single(register::RECORD_PART);
