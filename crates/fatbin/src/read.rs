//! From bytes to entries, without decompressing any.

use crate::Error;
use crate::format::{
    CONTAINER_HEADER_SIZE, CONTAINER_MAGIC, CONTAINER_VERSION, Compression, ENTRY_HEADER_SIZE,
    Kind, Target, field, flag,
};

/// One entry of a fat binary: code for one architecture in one form.
#[derive(Clone, Debug)]
pub struct Entry<'a> {
    /// What it holds.
    pub kind: Kind,
    /// Architecture: 90 for `sm_90`, `sm_90a` and `compute_90`.
    pub arch: u32,
    /// PTX ISA version (major, minor) of PTX.
    pub version: (u16, u16),
    /// All flags, as stored.
    pub flags: u64,
    /// The source file's name.
    pub identifier: Option<&'a str>,
    /// Where the entry starts in the bytes that were parsed.
    pub offset: usize,
    /// How the payload is stored.
    pub compression: Compression,
    /// The payload as stored, without padding where its exact length is known.
    pub stored: &'a [u8],
    /// Bytes after decompression, as declared; meaningless when not compressed.
    pub uncompressed_size: u64,
}

impl Entry<'_> {
    /// Which chips the code fits.
    pub fn target(&self) -> Target {
        if self.flags & flag::ARCH_SPECIFIC != 0 {
            Target::Exact
        } else if self.flags & flag::FAMILY_SPECIFIC != 0 {
            Target::Family
        } else {
            Target::Generic
        }
    }

    /// Whether the code was built with `-G`.
    pub fn is_debug(&self) -> bool {
        self.flags & flag::DEBUG != 0
    }
}

/// Bytes of the container that starts with `header`, header included.
pub fn container_size(header: &[u8; CONTAINER_HEADER_SIZE]) -> Result<u64, Error> {
    Container::read(header, 0).map(|container| container.header_size as u64 + container.size)
}

/// All entries of one container, or of several back to back with or without
/// zero padding between them. An empty container is legal (`-rdc` has them).
pub fn parse(bytes: &[u8]) -> Result<Vec<Entry<'_>>, Error> {
    let mut entries = Vec::new();
    let mut offset = 0;
    while offset < bytes.len() {
        let rest = &bytes[offset..];
        let padding = rest.iter().take_while(|byte| **byte == 0).count();
        // The magic's first byte is not zero, so zeros here are padding.
        if padding > 0 && offset > 0 {
            offset += padding;
            continue;
        }
        let container = Container::read(rest, offset)?;
        let start = offset + container.header_size;
        let available = bytes.len().saturating_sub(start) as u64;
        if container.size > available {
            return Err(Error::Truncated {
                what: "a container",
                offset,
                needed: container.size,
                available,
            });
        }
        // Not larger than `available`, so it fits.
        let end = start + container.size as usize;
        let mut at = start;
        while at < end {
            let (entry, next) = read_entry(bytes, at, end)?;
            entries.push(entry);
            at = next;
        }
        offset = end;
    }
    Ok(entries)
}

struct Container {
    header_size: usize,
    size: u64,
}

impl Container {
    fn read(bytes: &[u8], offset: usize) -> Result<Container, Error> {
        if bytes.len() < CONTAINER_HEADER_SIZE {
            return Err(Error::Truncated {
                what: "a container header",
                offset,
                needed: CONTAINER_HEADER_SIZE as u64,
                available: bytes.len() as u64,
            });
        }
        let found = u32_at(bytes, 0);
        if found != CONTAINER_MAGIC {
            return Err(Error::Magic { offset, found });
        }
        let version = u16_at(bytes, 4);
        if version != CONTAINER_VERSION {
            return Err(Error::Version { offset, version });
        }
        let header_size = usize::from(u16_at(bytes, 6));
        if header_size < CONTAINER_HEADER_SIZE {
            return Err(Error::Inconsistent {
                offset,
                what: "the container header is smaller than 16 bytes",
            });
        }
        let size = u64_at(bytes, 8);
        if size > u64::MAX - header_size as u64 {
            return Err(Error::Inconsistent {
                offset,
                what: "the container's size passes the address space",
            });
        }
        Ok(Container { header_size, size })
    }
}

/// Reads the entry at `at`; it must end at or before `end`, which must not be
/// past the bytes. Returns it and where the next one starts.
fn read_entry(bytes: &[u8], at: usize, end: usize) -> Result<(Entry<'_>, usize), Error> {
    let available = (end - at) as u64;
    let truncated = |what, needed| Error::Truncated {
        what,
        offset: at,
        needed,
        available,
    };
    if available < ENTRY_HEADER_SIZE as u64 {
        return Err(truncated("an entry header", ENTRY_HEADER_SIZE as u64));
    }
    let rest = &bytes[at..end];
    let header_size = u64::from(u32_at(rest, field::HEADER_SIZE));
    if header_size < ENTRY_HEADER_SIZE as u64 {
        return Err(Error::Inconsistent {
            offset: at,
            what: "the entry header is smaller than 64 bytes",
        });
    }
    if header_size > available {
        return Err(truncated("an entry header", header_size));
    }
    let payload_size = u64_at(rest, field::PAYLOAD_SIZE);
    let needed = header_size.saturating_add(payload_size);
    if needed > available {
        return Err(truncated("an entry", needed));
    }
    // Both bounded by `available`, a usize.
    let (header, payload) = rest[..needed as usize].split_at(header_size as usize);
    let flags = u64_at(rest, field::FLAGS);
    let compression = match (flags & flag::LZ4 != 0, flags & flag::ZSTD != 0) {
        (false, false) => Compression::None,
        (true, false) => Compression::Lz4,
        (false, true) => Compression::Zstd,
        (true, true) => {
            return Err(Error::Inconsistent {
                offset: at,
                what: "an entry is marked both LZ4 and zstd",
            });
        }
    };
    let compressed_size = u32_at(rest, field::COMPRESSED_SIZE) as usize;
    let stored = if compression == Compression::None {
        payload
    } else {
        payload.get(..compressed_size).ok_or(Error::Inconsistent {
            offset: at,
            what: "the compressed size is larger than the payload",
        })?
    };
    let entry = Entry {
        kind: Kind::from_number(u16_at(rest, field::KIND)),
        arch: u32_at(rest, field::ARCH),
        version: (u16_at(rest, field::MAJOR), u16_at(rest, field::MINOR)),
        flags,
        identifier: identifier(header, at)?,
        offset: at,
        compression,
        stored,
        uncompressed_size: u64_at(rest, field::UNCOMPRESSED_SIZE),
    };
    Ok((entry, at + needed as usize))
}

/// The identifier inside the header; `None` if there is none or it is no text.
fn identifier(header: &[u8], at: usize) -> Result<Option<&str>, Error> {
    let start = u32_at(header, field::IDENTIFIER_OFFSET) as usize;
    let length = u32_at(header, field::IDENTIFIER_LENGTH) as usize;
    if length == 0 {
        return Ok(None);
    }
    let bytes = start
        .checked_add(length)
        .and_then(|end| header.get(start..end))
        .ok_or(Error::Inconsistent {
            offset: at,
            what: "the entry's name lies outside its header",
        })?;
    Ok(std::str::from_utf8(bytes)
        .ok()
        .map(|text| text.trim_end_matches([' ', '\0'])))
}

/// The callers below have checked that the bytes are there.
fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from(u16_at(bytes, at)) | u32::from(u16_at(bytes, at + 2)) << 16
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from(u32_at(bytes, at)) | u64::from(u32_at(bytes, at + 4)) << 32
}
