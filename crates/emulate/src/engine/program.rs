//! A linked program: decoded code, constants, and the properties of entries and
//! variables that the device layer needs.

use super::inst::{Class, Counts, Inst};
use super::lanes::Rows;
use super::ops::device_runtime::Call;
use crate::mapping::Memory;
use model::SourceLocation;
use rustc_hash::FxHashMap;
use std::num::NonZeroU32;
use std::sync::Arc;

/// Value of the first function's address; the next ones follow 16 bytes
/// apart. Nothing is ever mapped there.
pub(crate) const FUNCTION_ADDRESSES: u64 = 0x0103_0000_0000;

/// What execution needs.
#[derive(Default)]
pub(crate) struct Code {
    pub code: Vec<Inst>,
    pub constants: Rows,
    pub functions: Vec<FunctionCode>,
    pub sites: Vec<CallSite>,
    /// Slot lists of vector instructions, and target lists of branches.
    pub lists: Vec<Vec<u32>>,
    /// Range of the `.const` variables.
    pub constant_range: (u64, u64),
    /// Whether some function uses reserved shared memory.
    pub has_reserved_shared: bool,
}

/// What a call needs of a function.
#[derive(Clone, Debug, Default)]
pub(crate) struct FunctionCode {
    /// First instruction.
    pub start: u32,
    pub counts: Counts,
    /// Bytes of its local frame, parameters included.
    pub local_size: u32,
    pub parameters: Vec<Place>,
    pub returns: Vec<Place>,
    /// Where static shared memory ends (entries).
    pub shared_end: u32,
    pub is_entry: bool,
    /// Bytes of the parameter block (entries).
    pub parameter_bytes: u32,
}

/// Where a parameter or argument lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// Bytes of the local frame.
    Frame { offset: u32, size: u32 },
    /// A register, or a constant as an argument.
    Register { class: Class, slot: u32 },
}

/// What a call calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Callee {
    Function(u32),
    /// Address in a 64-bit slot.
    Address(u32),
    Builtin(Builtin),
}

/// Functions that the driver provides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Builtin {
    Vprintf,
    Malloc,
    Free,
    AssertFail,
    /// Of the device runtime.
    Runtime(Call),
}

impl Builtin {
    pub fn by_name(name: &str) -> Option<Builtin> {
        Some(match name {
            "vprintf" => Builtin::Vprintf,
            "malloc" => Builtin::Malloc,
            "free" => Builtin::Free,
            "__assertfail" => Builtin::AssertFail,
            _ => return Call::by_name(name).map(Builtin::Runtime),
        })
    }
}

/// One `call`.
#[derive(Clone, Debug)]
pub(crate) struct CallSite {
    pub callee: Callee,
    pub arguments: Vec<Place>,
    pub results: Vec<Place>,
}

/// What error messages and the device layer need.
#[derive(Default)]
pub(crate) struct ProgramInfo {
    pub functions: Vec<FunctionInfo>,
    /// Opcode texts.
    pub opcodes: Vec<String>,
    /// Part, line and reason of instructions that fault when reached.
    pub unsupported: Vec<(usize, u32, String)>,
    /// By instruction.
    pub places: Vec<SourcePlace>,
    /// Files that `.loc` directives name.
    pub files: Vec<String>,
    /// The `.loc` directives.
    pub locations: Vec<Location>,
}

/// A `.loc`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Location {
    /// Index into `files`, line, column.
    pub at: (u32, u32, u32),
    /// The same of the call through which it was inlined.
    pub inlined_at: Option<(u32, u32, u32)>,
}

impl ProgramInfo {
    /// The source location of an instruction.
    pub fn source(&self, place: &SourcePlace) -> Option<SourceLocation> {
        let location = self.locations.get(place.location?.get() as usize - 1)?;
        let named = |(file, line, column): (u32, u32, u32), inlined_at| {
            Some(SourceLocation {
                file: self.files.get(file as usize)?.clone(),
                line,
                column,
                inlined_at,
            })
        };
        let outer = location.inlined_at.and_then(|at| named(at, None));
        named(location.at, outer.map(Box::new))
    }
}

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SourcePlace {
    pub line: u32,
    /// Index into `opcodes`.
    pub opcode: u32,
    /// Number of its `.loc`, from 1.
    pub location: Option<NonZeroU32>,
}

#[derive(Clone, Debug)]
pub(crate) struct FunctionInfo {
    pub name: String,
}

/// A parameter of an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parameter {
    /// Name in the PTX text.
    pub name: String,
    /// Byte offset in the parameter block.
    pub offset: u32,
    /// Bytes.
    pub size: u32,
    /// Alignment in bytes.
    pub align: u32,
}

/// An entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Name.
    pub name: String,
    /// Parameters in order.
    pub parameters: Vec<Parameter>,
    /// Bytes of the parameter block.
    pub parameter_bytes: u32,
    /// Static shared memory, bytes a block.
    pub static_shared: u32,
    /// Local memory, bytes a thread, without called functions.
    pub local: u32,
    /// 32-bit registers a thread would need if none were shared.
    pub registers: u32,
    /// Most threads a block (`.maxntid`, `.reqntid`), if given.
    pub max_threads: Option<u32>,
    /// `.reqntid`, if given.
    pub required_block: Option<[u32; 3]>,
    /// `.reqnctapercluster`, if given.
    pub required_cluster: Option<[u32; 3]>,
    /// The architecture that its PTX was written for (`.target`): 75 for sm_75.
    pub target: u32,
    pub(crate) function: u32,
}

/// A variable in `.global` or `.const`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Variable {
    /// Device address.
    pub address: u64,
    /// Bytes.
    pub size: u64,
    /// In `.const`.
    pub is_const: bool,
}

/// A linked program. Its variables stay mapped while it lives.
pub struct Program {
    pub(crate) code: Code,
    pub(crate) info: ProgramInfo,
    pub(crate) entries: FxHashMap<String, Entry>,
    pub(crate) variables: FxHashMap<String, Variable>,
    pub(crate) memory: Arc<Memory>,
    pub(crate) segments: Vec<u64>,
}

impl Program {
    /// The entry of a name.
    pub fn entry(&self, name: &str) -> Option<&Entry> {
        self.entries.get(name)
    }

    /// Every entry, in no order.
    pub fn entries(&self) -> impl Iterator<Item = &Entry> {
        self.entries.values()
    }

    /// The variable of a name, as cuModuleGetGlobal finds it.
    pub fn variable(&self, name: &str) -> Option<Variable> {
        self.variables.get(name).copied()
    }

    /// Instructions that this device cannot execute, which fault when they are
    /// reached: index of the module, line from 1, opcode with the reason.
    pub fn unsupported(&self) -> &[(usize, u32, String)] {
        &self.info.unsupported
    }

    /// Every variable in `.global` and `.const`, in no order.
    pub fn variables(&self) -> impl Iterator<Item = (&str, Variable)> {
        self.variables
            .iter()
            .map(|(name, variable)| (name.as_str(), *variable))
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        for &segment in &self.segments {
            // Only `link` maps segments, and nothing else unmaps them.
            let _ = self.memory.unmap(segment);
        }
    }
}

impl std::fmt::Debug for Program {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Program")
            .field("entries", &self.entries.len())
            .field("instructions", &self.code.code.len())
            .finish()
    }
}
