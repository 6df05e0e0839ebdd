//! Decompression with a hard limit.

use crate::{Compression, Entry, Error, Kind};
use std::borrow::Cow;
use std::io::Read;

/// An LZ4 byte yields at most 255 bytes of output, so a larger claim is a lie
/// and needs no buffer.
const LZ4_HIGHEST_RATIO: u64 = 255;
/// log2 of the largest window that a zstd frame may require; nvcc's frames use
/// 2^21.
const ZSTD_WINDOW_LOG: u32 = 27;

impl<'a> Entry<'a> {
    /// The payload, decompressed, at most `limit` bytes of it. The trailing NUL
    /// and padding of PTX are removed.
    pub fn payload(&self, limit: u64) -> Result<Cow<'a, [u8]>, Error> {
        let mut bytes = match self.compression {
            Compression::None => {
                if self.stored.len() as u64 > limit {
                    return Err(Error::TooLarge {
                        offset: self.offset,
                        limit,
                    });
                }
                Cow::Borrowed(self.stored)
            }
            Compression::Lz4 => Cow::Owned(self.lz4(limit)?),
            Compression::Zstd => Cow::Owned(self.zstd(limit)?),
        };
        if self.kind == Kind::Ptx
            && let Some(end) = bytes.iter().position(|byte| *byte == 0)
        {
            match &mut bytes {
                Cow::Borrowed(slice) => *slice = &slice[..end],
                Cow::Owned(vector) => vector.truncate(end),
            }
        }
        Ok(bytes)
    }

    fn lz4(&self, limit: u64) -> Result<Vec<u8>, Error> {
        if self.uncompressed_size > limit {
            return Err(Error::TooLarge {
                offset: self.offset,
                limit,
            });
        }
        if self.uncompressed_size / LZ4_HIGHEST_RATIO > self.stored.len() as u64 {
            return Err(self.failed("LZ4", "the declared size is more than LZ4 can encode"));
        }
        let size = usize::try_from(self.uncompressed_size).map_err(|_| Error::TooLarge {
            offset: self.offset,
            limit,
        })?;
        let mut bytes = vec![0; size];
        let written = lz4_flex::block::decompress_into(self.stored, &mut bytes)
            .map_err(|error| self.failed("LZ4", &error.to_string()))?;
        if written != size {
            return Err(self.failed("LZ4", "the data ends before the declared size"));
        }
        Ok(bytes)
    }

    fn zstd(&self, limit: u64) -> Result<Vec<u8>, Error> {
        if self.uncompressed_size > limit {
            return Err(Error::TooLarge {
                offset: self.offset,
                limit,
            });
        }
        let failed = |error: std::io::Error| self.failed("zstd", &error.to_string());
        let mut decoder = zstd::stream::read::Decoder::with_buffer(self.stored).map_err(failed)?;
        decoder.window_log_max(ZSTD_WINDOW_LOG).map_err(failed)?;
        let mut bytes = Vec::new();
        // One byte more than declared, to notice that there is more.
        decoder
            .single_frame()
            .take(self.uncompressed_size.saturating_add(1))
            .read_to_end(&mut bytes)
            .map_err(failed)?;
        if bytes.len() as u64 != self.uncompressed_size {
            return Err(self.failed("zstd", "the data is not as long as declared"));
        }
        Ok(bytes)
    }

    fn failed(&self, method: &'static str, reason: &str) -> Error {
        Error::Decompress {
            offset: self.offset,
            method,
            reason: reason.to_owned(),
        }
    }
}
