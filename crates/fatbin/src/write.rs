//! From entries to bytes, in the form that nvcc gives them.

use crate::format::{
    CONTAINER_HEADER_SIZE, CONTAINER_MAGIC, CONTAINER_VERSION, Compression, ENTRY_HEADER_SIZE,
    ENTRY_VERSION, Kind, Target, field, flag,
};

/// An entry to be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewEntry {
    /// What it holds.
    pub kind: Kind,
    /// Architecture, 90 for `sm_90`.
    pub arch: u32,
    /// Which chips the code fits.
    pub target: Target,
    /// PTX ISA version (major, minor).
    pub version: (u16, u16),
    /// The source file's name.
    pub identifier: Option<String>,
    /// How to store the payload.
    pub compression: Compression,
    /// The payload; PTX without trailing NUL, which is added.
    pub payload: Vec<u8>,
}

/// One container with these entries.
pub fn write(entries: &[NewEntry]) -> Vec<u8> {
    let body: Vec<u8> = entries.iter().flat_map(entry).collect();
    let mut bytes = Vec::with_capacity(CONTAINER_HEADER_SIZE + body.len());
    bytes.extend(CONTAINER_MAGIC.to_le_bytes());
    bytes.extend(CONTAINER_VERSION.to_le_bytes());
    bytes.extend((CONTAINER_HEADER_SIZE as u16).to_le_bytes());
    bytes.extend((body.len() as u64).to_le_bytes());
    bytes.extend(body);
    bytes
}

fn entry(entry: &NewEntry) -> Vec<u8> {
    let mut payload = entry.payload.clone();
    if entry.kind == Kind::Ptx {
        payload.push(0);
    }
    let uncompressed = payload.len() as u64;
    let (stored, compression) = match entry.compression {
        Compression::None => (payload, 0),
        Compression::Lz4 => (lz4_flex::block::compress(&payload), flag::LZ4),
        // Level 3 with a buffer in memory: the encoder reports errors of its
        // reader only, and a slice has none; raw is the right form then.
        Compression::Zstd => match zstd::stream::encode_all(payload.as_slice(), 3) {
            Ok(compressed) => (compressed, flag::ZSTD),
            Err(_) => (payload, 0),
        },
    };
    let target = match entry.target {
        Target::Generic => 0,
        Target::Family => flag::FAMILY_SPECIFIC,
        Target::Exact => flag::ARCH_SPECIFIC,
    };
    let name = entry.identifier.as_deref().unwrap_or("").as_bytes();
    let header_size = ENTRY_HEADER_SIZE + name.len().next_multiple_of(8);
    let payload_size = stored.len().next_multiple_of(8);
    let mut bytes = vec![0; header_size + payload_size];
    let mut put = |at: usize, value: &[u8]| bytes[at..at + value.len()].copy_from_slice(value);
    put(field::KIND, &entry.kind.number().to_le_bytes());
    put(field::VERSION, &ENTRY_VERSION.to_le_bytes());
    put(field::HEADER_SIZE, &(header_size as u32).to_le_bytes());
    put(field::PAYLOAD_SIZE, &(payload_size as u64).to_le_bytes());
    if compression != 0 {
        put(field::COMPRESSED_SIZE, &(stored.len() as u32).to_le_bytes());
        put(field::UNCOMPRESSED_SIZE, &uncompressed.to_le_bytes());
    }
    put(field::OPTIONS_OFFSET, &0u32.to_le_bytes());
    put(field::MINOR, &entry.version.1.to_le_bytes());
    put(field::MAJOR, &entry.version.0.to_le_bytes());
    put(field::ARCH, &entry.arch.to_le_bytes());
    if !name.is_empty() {
        put(
            field::IDENTIFIER_OFFSET,
            &(ENTRY_HEADER_SIZE as u32).to_le_bytes(),
        );
        put(field::IDENTIFIER_LENGTH, &(name.len() as u32).to_le_bytes());
        put(ENTRY_HEADER_SIZE, name);
    }
    let flags = flag::WIDE | flag::LINUX | target | compression;
    put(field::FLAGS, &flags.to_le_bytes());
    put(header_size, &stored);
    bytes
}
