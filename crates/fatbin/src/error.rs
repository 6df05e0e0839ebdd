//! What can be wrong with a fat binary.

/// A fat binary that cannot be read. Offsets count from the first byte that
/// was given to the function that failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// Bytes end before the structure does.
    #[error(
        "fat binary is cut short: {what} at offset {offset:#x} needs {needed} bytes, {available} are left; \
         check that the file was copied completely"
    )]
    Truncated {
        /// The structure.
        what: &'static str,
        /// Where it starts.
        offset: usize,
        /// Bytes it says it has.
        needed: u64,
        /// Bytes there are.
        available: u64,
    },
    /// A container does not start with the magic number.
    #[error(
        "no fat binary at offset {offset:#x}: found {found:#010x} in place of 0xba55ed50; \
         pass the bytes of a .nv_fatbin section or of a .fatbin file"
    )]
    Magic {
        /// Where a container was expected.
        offset: usize,
        /// What is there.
        found: u32,
    },
    /// A container version that is not known.
    #[error(
        "fat binary at offset {offset:#x} has format version {version}, only 1 is known; \
         build the program with a CUDA 12 or 13 toolkit"
    )]
    Version {
        /// Where the container starts.
        offset: usize,
        /// Its version.
        version: u16,
    },
    /// A field contradicts another.
    #[error("fat binary is damaged at offset {offset:#x}: {what}; rebuild the program")]
    Inconsistent {
        /// Where the structure starts.
        offset: usize,
        /// The contradiction.
        what: &'static str,
    },
    /// Decompressed, the payload is larger than allowed.
    #[error(
        "fat binary entry at offset {offset:#x} holds more than {limit} bytes when decompressed; \
         raise the limit if it comes from a build you trust"
    )]
    TooLarge {
        /// Where the entry starts.
        offset: usize,
        /// The caller's limit.
        limit: u64,
    },
    /// The payload does not decompress.
    #[error(
        "fat binary entry at offset {offset:#x} does not decompress ({method}): {reason}; rebuild the program"
    )]
    Decompress {
        /// Where the entry starts.
        offset: usize,
        /// `LZ4` or `zstd`.
        method: &'static str,
        /// What the decoder says.
        reason: String,
    },
}
