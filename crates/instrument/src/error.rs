//! Why a module cannot be instrumented.

/// An error of [`crate::instrument`]. The module's original can still run.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Error {
    /// The text is not PTX.
    #[error("cannot parse PTX: {}{}", .0.first().map(ToString::to_string).unwrap_or_default(), more(.0))]
    Syntax(Vec<ptx::Error>),
    /// Only 64-bit modules have addresses that can be checked.
    #[error(
        "cannot check a module with `.address_size {0}`: compile it for 64 bits (nvcc does by default)"
    )]
    AddressSize(u32),
    /// The program uses the names that checks use.
    #[error(
        "line {line} uses `{name}`, a name that is reserved for checks: the module has been instrumented already, or \
         its own name must be changed"
    )]
    ReservedName {
        /// The name, as found.
        name: String,
        /// Line, from 1.
        line: u32,
    },
    /// A function has a name with nothing before its `%`, as registers have.
    #[error(
        "line {line} names a function `{name}`, to which no copy's prefix can be added: rename it"
    )]
    FunctionName {
        /// The name.
        name: String,
        /// Line, from 1.
        line: u32,
    },
    /// A function declares a parameter, a variable or a label twice in a scope.
    #[error("line {line} declares `{name}` a second time: name it otherwise")]
    RepeatedName {
        /// The name.
        name: String,
        /// Line of the second declaration, from 1.
        line: u32,
    },
    /// More sites than a record can name.
    #[error(
        "the module has more than {} memory accesses: split it",
        crate::protocol::LAST_SITE
    )]
    TooManySites,
}

fn more(errors: &[ptx::Error]) -> String {
    match errors.len() {
        0 | 1 => String::new(),
        n => format!(" (and {} more errors)", n - 1),
    }
}
