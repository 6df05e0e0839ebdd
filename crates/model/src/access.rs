//! The memory access of an instruction, and its source location.

use crate::AllocationKind;
use serde::{Deserialize, Serialize};

/// A PTX state space, as far as a memory access can name one (PTX ISA, 5.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Space {
    /// No space in the instruction: the address itself decides.
    Generic,
    /// `.global`.
    Global,
    /// `.shared`, also `.shared::cta`.
    Shared,
    /// `.shared::cluster`.
    SharedCluster,
    /// `.local`.
    Local,
    /// `.const`.
    Const,
    /// `.param`, of an entry or of a function.
    Param,
}

/// What an access does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AccessKind {
    /// Reads only.
    Read,
    /// Writes only.
    Write,
    /// Reads and writes in one atomic step (`atom`, `red`).
    Atomic,
}

/// Number of an access site within its module. Zero means "none" in device
/// records, so the first site is 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct SiteId(pub u32);

/// The origin of the bounds that an access is checked against.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "kind")]
pub enum Provenance {
    /// A pointer in the kernel's parameters, `offset` bytes into the parameter
    /// block; the host passes its bounds at launch.
    KernelParameter {
        /// Byte offset in the kernel's parameter block.
        offset: u32,
    },
    /// A variable of the module; bounds are known when it is instrumented.
    Variable,
    /// A pointer that appears on the device (loaded, returned, passed to a
    /// function); bounds are looked up where it appears.
    Lookup,
    /// More than one of the above can reach the access; bounds travel with
    /// the pointer in registers.
    Several,
    /// The analysis could not follow the pointer; the address itself is
    /// looked up at the access, which finds wild accesses only.
    Unknown,
    /// No bounds: shadow memory of the address decides.
    Shadow,
}

/// A place in the program's source, from `.loc` (PTX ISA, 11.5.4).
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct SourceLocation {
    /// File name as the compiler wrote it.
    pub file: String,
    /// Line, from 1.
    pub line: u32,
    /// Column, from 1; 0 when unknown.
    pub column: u32,
    /// The place where the function that contains this one was inlined. For
    /// example, the access of `atomicAdd` is in a header of CUDA's, and the
    /// call is in the program.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inlined_at: Option<Box<SourceLocation>>,
}

impl SourceLocation {
    /// This place, then the places of the calls through which it was inlined,
    /// innermost first.
    pub fn chain(&self) -> impl Iterator<Item = &SourceLocation> {
        std::iter::successors(Some(self), |place| place.inlined_at.as_deref())
    }
}

/// An object with a fixed offset in its block or thread, which the module's
/// text has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StaticObject {
    /// What it is.
    pub kind: AllocationKind,
    /// Name for people; `None` for an object of a frame that no debug
    /// information names.
    pub name: Option<String>,
    /// Bytes; `None` if they are only known at launch.
    pub size: Option<u64>,
    /// The other objects of its frame.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub neighbours: Vec<Neighbour>,
}

/// Another object of the same frame.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Neighbour {
    /// Bytes from the start of the object whose neighbour this is.
    pub offset: i64,
    /// Bytes.
    pub size: u64,
    /// Name, where known.
    pub name: Option<String>,
}

/// One instruction that accesses memory, in one kernel or device function.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AccessSite {
    /// Number within the module.
    pub id: SiteId,
    /// Mangled name of the kernel or device function.
    pub function: String,
    /// What the access does.
    pub kind: AccessKind,
    /// The space the instruction names.
    pub space: Space,
    /// Bytes accessed from the address on. A call of device-side `free` is a
    /// write of no bytes, one of `malloc` a read of none.
    pub width: u32,
    /// The instruction takes the number of bytes from a register; `width` is
    /// then the least that it can be.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub width_at_run_time: bool,
    /// Constant offset that the instruction adds to the checked address.
    /// Sites checked together share one check; each has its own offset from
    /// the address that a record carries.
    pub offset: i64,
    /// Addresses of the space have 32 bits, and the program computed 64, all of which
    /// the check compared: none of its sums wraps at 4 GiB.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_wide: bool,
    /// Bytes that the address the instruction names must be a multiple of: a
    /// power of two, 1 if it need not be aligned.
    #[serde(default = "any_address", skip_serializing_if = "is_any_address")]
    pub alignment: u32,
    /// Bytes from that address to the first one that the program uses, which
    /// is where `offset` leads.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub skipped: u32,
    /// The first site of the group that shares this site's check; its own id
    /// when it is checked alone.
    pub group: SiteId,
    /// The origin of its bounds.
    pub provenance: Provenance,
    /// What the address was derived from, where that lies in shared, local,
    /// constant or parameter memory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub object: Option<Box<StaticObject>>,
    /// Source position, when the program was built with line information.
    pub source: Option<SourceLocation>,
    /// Line in the module's PTX, from 1.
    pub ptx_line: u32,
    /// The instruction's text.
    pub instruction: String,
}

fn any_address() -> u32 {
    1
}

fn is_any_address(alignment: &u32) -> bool {
    *alignment == 1
}

fn is_zero(bytes: &u32) -> bool {
    *bytes == 0
}

impl AccessSite {
    /// Whether an access is misaligned whose first used byte is at `address`.
    pub fn is_misaligned_at(&self, address: u64) -> bool {
        let named = address.wrapping_sub(self.skipped.into());
        !named.is_multiple_of(self.alignment.max(1).into())
    }

    /// Whether it is a call of device-side `free`.
    pub fn is_free(&self) -> bool {
        self.width == 0 && self.kind == AccessKind::Write
    }
}
