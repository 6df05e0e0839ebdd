//! What ends a launch early, and what keeps a module from loading.

use crate::mapping::AccessFault;
use model::SourceLocation;

/// Kind of a [`Fault`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FaultKind {
    /// Access to memory that is not mapped, or write to read-only memory.
    IllegalAddress,
    /// The address is no multiple of the width.
    MisalignedAddress,
    /// An address of the wrong space, such as one beyond shared memory.
    InvalidAddressSpace,
    /// An indirect call or branch to something that is no target.
    InvalidProgramCounter,
    /// An instruction that cannot be executed as others are at the time: a barrier
    /// at which other warps are with another operation.
    IllegalInstruction,
    /// An instruction that this device cannot execute.
    Unsupported,
    /// `__assertfail`.
    Assert,
    /// `trap`.
    Trap,
    /// Calls or local memory beyond the stack limit.
    StackOverflow,
    /// Deadlock: every remaining warp waits for an event that cannot occur.
    Deadlock,
    /// The launch does not fit the kernel: parameters, block size, shared memory.
    InvalidLaunch,
    /// `cancel` was set.
    Cancelled,
}

/// Why a launch ended early.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Kind.
    pub kind: FaultKind,
    /// Entry that was launched.
    pub kernel: String,
    /// Line of the instruction in its PTX text, from 1; 0 if there is none.
    pub ptx_line: u32,
    /// The opcode token.
    pub opcode: String,
    /// Source position of the instruction, if the text has line information.
    pub source: Option<Box<SourceLocation>>,
    /// `%ctaid`.
    pub block: [u32; 3],
    /// `%tid`.
    pub thread: [u32; 3],
    /// Address of the access, 0 if there is none.
    pub address: u64,
    /// What happened, a lower-case fragment.
    pub message: String,
}

impl std::fmt::Display for Fault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Fault {
            kernel,
            ptx_line,
            opcode,
            block: b,
            thread: t,
            message,
            ..
        } = self;
        write!(
            f,
            "{message}: kernel {kernel}, PTX line {ptx_line} ({opcode}), block ({},{},{}), thread ({},{},{})",
            b[0], b[1], b[2], t[0], t[1], t[2]
        )
    }
}

impl std::error::Error for Fault {}

/// Why PTX modules could not be loaded.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LoadError {
    /// A statement that PTX does not allow.
    #[error("part {part}, PTX line {line}: {message}")]
    Malformed {
        /// Index of the module among those linked.
        part: usize,
        /// Line, from 1.
        line: u32,
        /// What is wrong.
        message: String,
    },
    /// A function or variable that no part defines.
    #[error("undefined symbol {name}; link the part that defines it")]
    Undefined {
        /// Its name.
        name: String,
    },
    /// Two parts define it.
    #[error("symbol {name} is defined more than once")]
    Duplicate {
        /// Its name.
        name: String,
    },
    /// No room for its variables.
    #[error("no memory for the module's variables: {0}")]
    Memory(#[from] crate::mapping::MapError),
    /// Writing an initializer failed.
    #[error("initializing the module's variables failed: {0}")]
    Access(#[from] AccessFault),
}
