//! Whether something is only read, or may be written.

use model::Rule;

/// How a call or a kernel uses memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Access {
    /// It is only read.
    Read,
    /// It may be written.
    Write,
}

impl Access {
    /// The rule that a host call breaks by such an access outside an object.
    pub fn rule(self) -> Rule {
        match self {
            Access::Read => Rule::CopyOutOfBoundsRead,
            Access::Write => Rule::CopyOutOfBoundsWrite,
        }
    }

    /// As a word of a report.
    pub fn word(self) -> &'static str {
        match self {
            Access::Read => "read",
            Access::Write => "write",
        }
    }
}
