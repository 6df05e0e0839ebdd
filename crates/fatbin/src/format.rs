//! Numbers of the format. All fields are little-endian.

/// First word of the wrapper that a program registers (`__fatBinC_Wrapper_t`).
pub const WRAPPER_MAGIC: u32 = 0x4662_43b1;
/// First word of a container.
pub const CONTAINER_MAGIC: u32 = 0xba55_ed50;
/// Bytes of a container's header: u32 magic, u16 version, u16 header size,
/// u64 bytes that follow.
pub const CONTAINER_HEADER_SIZE: usize = 16;
/// The only container version observed.
pub(crate) const CONTAINER_VERSION: u16 = 1;

/// Bytes of the fixed part of an entry's header.
pub(crate) const ENTRY_HEADER_SIZE: usize = 64;
/// Second u16 of an entry; the same in all observed entries.
pub(crate) const ENTRY_VERSION: u16 = 0x101;

/// Offsets in an entry's header.
pub(crate) mod field {
    pub const KIND: usize = 0x00;
    pub const VERSION: usize = 0x02;
    pub const HEADER_SIZE: usize = 0x04;
    pub const PAYLOAD_SIZE: usize = 0x08;
    pub const COMPRESSED_SIZE: usize = 0x10;
    pub const OPTIONS_OFFSET: usize = 0x14;
    pub const MINOR: usize = 0x18;
    pub const MAJOR: usize = 0x1a;
    pub const ARCH: usize = 0x1c;
    pub const IDENTIFIER_OFFSET: usize = 0x20;
    pub const IDENTIFIER_LENGTH: usize = 0x24;
    pub const FLAGS: usize = 0x28;
    pub const UNCOMPRESSED_SIZE: usize = 0x38;
}

/// Bits of an entry's flags.
pub(crate) mod flag {
    /// 64-bit code.
    pub const WIDE: u64 = 0x1;
    /// Built with `-G`.
    pub const DEBUG: u64 = 0x2;
    /// For Linux.
    pub const LINUX: u64 = 0x10;
    /// LZ4 block.
    pub const LZ4: u64 = 0x2000;
    /// zstd frame.
    pub const ZSTD: u64 = 0x8000;
    /// `sm_90a` and its like (measured: nvcc 13.0).
    pub const ARCH_SPECIFIC: u64 = 0x10_0000;
    /// `sm_100f` and its like (measured: nvcc 13.0).
    pub const FAMILY_SPECIFIC: u64 = 0x20_0000;
}

/// What an entry holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// PTX text.
    Ptx,
    /// Machine code (cubin).
    Elf,
    /// NVVM IR for link-time optimisation.
    LtoIr,
    /// Something else, by its number.
    Other(u16),
}

impl Kind {
    pub(crate) fn from_number(number: u16) -> Kind {
        match number {
            1 => Kind::Ptx,
            2 => Kind::Elf,
            8 => Kind::LtoIr,
            other => Kind::Other(other),
        }
    }

    pub(crate) fn number(self) -> u16 {
        match self {
            Kind::Ptx => 1,
            Kind::Elf => 2,
            Kind::LtoIr => 8,
            Kind::Other(number) => number,
        }
    }
}

/// How far code for an architecture carries (PTX ISA, `.target`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Target {
    /// `sm_90`: this and, as PTX, every later chip.
    Generic,
    /// `sm_100f`: later chips of the same family (same major number).
    Family,
    /// `sm_90a`: this chip only.
    Exact,
}

/// How a payload is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Compression {
    /// As it is.
    None,
    /// One raw LZ4 block.
    Lz4,
    /// One zstd frame.
    Zstd,
}
