//! The instruction table: what each opcode does to its operands and to memory.
//! One row an instruction; parser, analyser and emulator read it. For unknown
//! opcodes the result is `None`, never a guess.
//!
//! # To add an instruction
//! Add one row to the list in `rows` (the notation is explained there), from
//! which [`Mnemonic`] is made. Rows of one mnemonic are tried in order and the
//! first whose modifiers are all present is taken, so put the special before
//! the general. Nothing else is needed, unless a row names a modifier that
//! [`Modifier`](crate::Modifier) lacks: [`classify`] applies rows, and treats
//! no instruction specially but `call`.

mod alignment;
mod extent;
mod rows;
mod rules;

pub use extent::{Extent, extent, used_bytes};
pub use rows::Mnemonic;
pub use rules::{classify, knows, space_of, vector_length};

/// What an operand is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Written.
    Destination,
    /// Read.
    Source,
    /// Read and written.
    Both,
    /// Address of a memory access.
    Address,
    /// Label, function, prototype.
    Target,
}

/// Space of a memory access.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum Space {
    Generic,
    Global,
    Shared,
    SharedCluster,
    Local,
    Const,
    /// `.param` of whichever kind: entry, function, or a call's temporaries.
    Param,
    /// `.tensor` memory of tcgen05.
    Tensor,
}

/// What an access does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum Effect {
    Read,
    Write,
    Atomic,
}

/// How many bytes are accessed from the address on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Width {
    /// Known from the instruction.
    Bytes(u32),
    /// Held by an operand (index into `operands`), register or immediate,
    /// as a number of bytes.
    Operand(usize),
    /// `cp.async` with a fourth operand, index `source`. It holds the bytes to
    /// read (`src-size`, at most those in operand `size`), or it is a predicate
    /// (`ignore-src`): where true, nothing is read, else operand `size` bytes.
    /// Only the register's declaration shows which of the two it is.
    CopySource {
        /// Index of the immediate `cp-size`.
        size: usize,
        /// Index of `src-size` or `ignore-src`.
        source: usize,
    },
    /// A matrix that the warp accesses together from one address: `rows` rows
    /// (columns, where it is column-major) of `row_bits` bits.
    Matrix {
        /// Rows.
        rows: u32,
        /// Bits of a row.
        row_bits: u32,
        /// Bits of an element, the unit of the stride.
        element_bits: u32,
        /// Operand with the distance between starts of rows, in elements.
        /// `None`: rows follow each other without gaps.
        stride: Option<usize>,
    },
    /// Only inside a descriptor or a tensor map, which the operand is or
    /// points to; or columns of tensor memory.
    Descriptor,
}

/// One memory access of an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// Index of the address operand in `Instruction::operands`.
    pub operand: usize,
    /// Space.
    pub space: Space,
    /// Effect.
    pub effect: Effect,
    /// Extent.
    pub width: Width,
    /// Bytes that the address must be a multiple of: a power of two, 1 if it
    /// need not be aligned.
    pub alignment: u32,
    /// The access happens after issue (cp.async, bulk copies).
    pub asynchronous: bool,
    /// Only the addresses of this many lanes, from lane 0 on, are used
    /// (ldmatrix, stmatrix); 32 everywhere else.
    pub lanes: u32,
}

/// How an instruction depends on the other lanes of its warp or block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Convergence {
    /// Each lane on its own.
    None,
    /// Lanes named by a mask (`.sync` with a mask operand).
    Mask,
    /// All lanes of the warp must execute it together.
    Warp,
    /// A barrier of the block or cluster.
    Block,
}

/// Which threads can skip an instruction that may not use one of its addresses,
/// so that no other thread waits for ever or takes another path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Predication {
    /// Each lane on its own; another address may take the address's place.
    Lane,
    /// Each lane on its own, and only with all accesses of the instruction: it
    /// signals a barrier (mbarrier) that bytes have arrived, or a register
    /// counts the bytes, and no other memory is surely as large.
    Whole,
    /// All lanes of the warp or none: they must execute it together (PTX ISA,
    /// `.sync.aligned`).
    Warp,
    /// None: other threads wait for it, and nothing else can signal them.
    Never,
}

/// What the table says of one instruction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Info {
    /// Role of each operand of the instruction, in the order written.
    pub roles: Vec<Role>,
    /// Accesses to memory: none, one, or two (cp.async and similar).
    pub accesses: Vec<Access>,
    /// Convergence class.
    pub convergence: Convergence,
    /// Ends or redirects control: bra, brx, ret, exit, trap, call.
    pub is_control: bool,
    /// Which threads can skip the instruction; only for one that accesses
    /// memory.
    pub predication: Predication,
    /// Generic addresses may only lie in shared memory.
    pub is_shared_only: bool,
}
