//! What an instruction does with the registers that its operands name.

use ptx::Instruction;
use ptx::table::{Info, Role as Tabled, classify};

/// What an operand does with a register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Written.
    Write,
    /// Read.
    Read,
    /// Read, as the base of an address.
    Address,
    /// Read, to decide whether the instruction executes.
    Guard,
    /// Read or written or both: the opcode is not known.
    Unknown,
}

/// The roles of an instruction's operands.
pub(crate) enum Roles {
    /// The first one is written, all others are read: the table need not be
    /// asked for more.
    Plain,
    /// The row of the table.
    Tabled(Info),
    /// The table lacks the instruction.
    Unknown,
}

impl Roles {
    pub(crate) fn of(instruction: &Instruction<'_>) -> Self {
        if instruction.opcode.mnemonic().is_plain() {
            return Roles::Plain;
        }
        Roles::tabled(instruction)
    }

    /// As [`Roles::of`], and never [`Roles::Plain`].
    pub(crate) fn tabled(instruction: &Instruction<'_>) -> Self {
        match classify(instruction) {
            Some(info) => Roles::Tabled(info),
            None => Roles::Unknown,
        }
    }

    /// The row of the table, if it was looked up.
    pub(crate) fn into_info(self) -> Option<Info> {
        match self {
            Roles::Tabled(info) => Some(info),
            Roles::Plain | Roles::Unknown => None,
        }
    }

    /// What is done with the registers that an operand names. (Those that an
    /// address is based on are read, whatever is done with the address.)
    pub(crate) fn operand(&self, index: usize) -> Role {
        match self {
            Roles::Plain if index == 0 => Role::Write,
            Roles::Plain => Role::Read,
            Roles::Tabled(info) => match info.roles.get(index) {
                Some(Tabled::Destination) => Role::Write,
                Some(Tabled::Both) | None => Role::Unknown,
                Some(_) => Role::Read,
            },
            Roles::Unknown => Role::Unknown,
        }
    }
}
