//! Names of the registers that checks use, and how operands are spelled.

use std::fmt;

/// An operand of check code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Op<'a> {
    /// A register of a numbered family: `%__rf_` + family + number.
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
            Op::Family(family, number) => write!(f, "%__rf_{family}{number}"),
            Op::Single(name) => write!(f, "%__rf_{name}"),
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

/// Redirected addresses, one a group.
pub(super) const REDIRECTED: &str = "a";
/// Base and size of roots.
pub(super) const ROOT_BASE: &str = "b";
pub(super) const ROOT_SIZE: &str = "s";
/// Limits, one for each root and extent.
pub(super) const LIMIT: &str = "m";
/// Verdicts that a twin uses again.
pub(super) const KEPT: &str = "k";
/// Base and size that travel with a register.
pub(super) const SHADOW_BASE: &str = "hb";
pub(super) const SHADOW_SIZE: &str = "hs";

/// Addresses of places as their own space has them, 32 bits.
pub(super) const IN_SPACE: &str = "c";
/// The same, 64 bits.
pub(super) const IN_SPACE_WIDE: &str = "e";
/// Where the program's own guard holds and the check did not fail.
pub(super) const GO: &str = "g";

/// The program's next instruction does not happen; where its guard holds and
/// it does.
pub(super) const STOP: Op<'static> = Op::Single("stop");
pub(super) const GO_ON: Op<'static> = Op::Single("go");

/// The thread has failed no check, where those that have one trap.
pub(super) const UNHARMED: Op<'static> = Op::Single("unharmed");

/// Scratch of 32 bits.
pub(super) const POINTER32: Op<'static> = Op::Single("p");
pub(super) const OFFSET32: Op<'static> = Op::Single("d");
pub(super) const LIMIT32: Op<'static> = Op::Single("l");
/// Bytes of the launch's dynamic shared memory, and of the block's whole.
pub(super) const DYNAMIC: Op<'static> = Op::Single("dynamic");
pub(super) const BLOCK: Op<'static> = Op::Single("block");
/// Low bits of an address.
pub(super) const LOW_BITS: Op<'static> = Op::Single("x");
/// Number of the lane.
pub(super) const LANE: Op<'static> = Op::Single("lane");
/// A generic address.
pub(super) const GENERIC: Op<'static> = Op::Single("w");

/// Scratch.
pub(super) const OFFSET: Op<'static> = Op::Single("o");
pub(super) const SCRATCH: Op<'static> = Op::Single("t");
pub(super) const SCRATCH2: Op<'static> = Op::Single("u");
pub(super) const OUTSIDE: Op<'static> = Op::Single("q");
pub(super) const OTHER: Op<'static> = Op::Single("r");
/// Bounds looked up at an access.
pub(super) const WEAK_BASE: Op<'static> = Op::Single("wb");
pub(super) const WEAK_SIZE: Op<'static> = Op::Single("ws");
/// Bounds of arguments that were looked up for a call.
pub(super) const PASSED_BASE: &str = "pb";
pub(super) const PASSED_SIZE: &str = "ps";
/// Where a call through a pointer goes instead, by number of the call.
pub(super) const CALLEE: &str = "f";
/// Pointers to strings that are printed, and whether a string leaves its
/// bounds.
pub(super) const TEXT: &str = "text";
pub(super) const CUT: &str = "cut";
/// Bounds that go back with a result.
pub(super) const GIVEN_BASE: Op<'static> = Op::Single("rb");
pub(super) const GIVEN_SIZE: Op<'static> = Op::Single("rs");
/// What the record at the exit will say.
pub(super) const SITE: Op<'static> = Op::Single("site");
pub(super) const ADDRESS: Op<'static> = Op::Single("address");
pub(super) const RECORD_BASE: Op<'static> = Op::Single("record_base");
pub(super) const RECORD_SIZE: Op<'static> = Op::Single("record_size");
