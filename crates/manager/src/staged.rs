//! Copies of host memory: through memory that the tenant writes and reads, and that the
//! device copies from and to by itself where the driver allows it.
//!
//! The first part of that memory is what other memory is copied through; it is
//! made known to the driver at once. The rest is the tenant's pinned memory, of
//! which a unit is made known when it is first copied from or to. All of it stays
//! known until the tenant is gone: the driver forgets memory only while no kernel
//! runs.

use crate::device::Device;
use crate::log;
use driver::calls::{Context, HostMemory};
use protocol::{COPIED_THROUGH, Chunk, PINNED_UNIT, Staging};
use std::ops::Range;
use std::sync::atomic::AtomicU64;

/// Part of the memory.
pub(crate) struct Part {
    staging: Staging,
    words: Range<usize>,
}

impl AsRef<[AtomicU64]> for Part {
    fn as_ref(&self) -> &[AtomicU64] {
        self.staging
            .words()
            .get(self.words.clone())
            .unwrap_or_default()
    }
}

/// The staging area of a tenant.
pub(crate) struct Staged {
    /// By number of the part: what is copied through, then the units of pinned
    /// memory. `None`: not known to the driver yet.
    parts: Vec<Option<HostMemory<Part>>>,
    staging: Staging,
    context: Context,
}

/// The part that an offset is in, and the bytes of the area that it has.
fn part_of(offset: u64, size: u64) -> (usize, Range<u64>) {
    if offset < COPIED_THROUGH {
        return (0, 0..COPIED_THROUGH.min(size));
    }
    let unit = (offset - COPIED_THROUGH) / PINNED_UNIT;
    let start = COPIED_THROUGH + unit * PINNED_UNIT;
    (
        unit as usize + 1,
        start..start.saturating_add(PINNED_UNIT).min(size),
    )
}

impl Staged {
    /// Of a connection.
    pub(crate) fn new(device: &Device, staging: Staging) -> Staged {
        let last = staging.size().saturating_sub(1);
        let mut staged = Staged {
            parts: (0..=part_of(last, staging.size()).0)
                .map(|_| None)
                .collect(),
            staging,
            context: device.context.clone(),
        };
        // (Where there is no memory, the first copy says so.)
        let _ = staged.make_known(0);
        staged
    }

    /// Takes memory for the part that an offset is in, and makes it known to the driver.
    ///
    /// # Errors
    ///
    /// There is no memory.
    pub(crate) fn make_known(&mut self, offset: u64) -> std::io::Result<()> {
        const WORD: u64 = size_of::<AtomicU64>() as u64;
        let (number, bytes) = part_of(offset, self.staging.size());
        let Some(part) = self.parts.get_mut(number) else {
            return Ok(());
        };
        if part.is_some() {
            return Ok(());
        }
        self.staging.allocate(bytes.clone())?;
        let words = (bytes.start / WORD) as usize..(bytes.end / WORD) as usize;
        let staging = self.staging.clone();
        let memory = part.insert(HostMemory::unregistered(
            &self.context,
            Part { staging, words },
        ));
        if let Err(error) = memory.register() {
            log::line(&format!(
                "warning: large copies of a tenant are slower, because its memory for them could not be registered: {error}"
            ));
        }
        Ok(())
    }

    /// The part of the area that these bytes are in, and where in it they begin;
    /// why there is none. The part was made known before ([`Staged::make_known`]). If the
    /// driver refused that, it copies through memory of its own, and such a copy waits for
    /// its stream.
    pub(crate) fn pinned(
        &self,
        offset: u64,
        length: u64,
    ) -> Result<(&HostMemory<Part>, u64), &'static str> {
        let size = self.staging.size();
        let (number, bytes) = part_of(offset, size);
        if offset >= size {
            return Err("the copy is not within the staging area");
        }
        if offset.checked_add(length).is_none_or(|end| end > bytes.end) {
            return Err("a copy goes from one part of the staging area to another");
        }
        let memory = self.parts.get(number).and_then(Option::as_ref);
        let memory = memory.ok_or("there is no such part of the staging area")?;
        Ok((memory, offset - bytes.start))
    }

    /// Some bytes of it; why there are none.
    pub(crate) fn chunk(&self, offset: u64, length: u64) -> Result<Chunk<'_>, String> {
        let (_, part) = part_of(offset, self.staging.size());
        let chunk = self.staging.chunk(offset, length);
        let chunk = chunk.map_err(|error| error.to_string())?;
        // Drivers take no copy for one that begins in memory they know and ends
        // in other memory.
        match offset + length <= part.end {
            true => Ok(chunk),
            false => Err("a copy goes from one part of the staging area to another".into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_follow_each_other_and_fill_the_area() {
        let size = COPIED_THROUGH + 2 * PINNED_UNIT + 4096;
        let mut at = 0;
        for number in 0..4 {
            let (found, bytes) = part_of(at, size);
            assert_eq!((found, bytes.start), (number, at));
            assert_eq!(part_of(bytes.end - 1, size), (found, bytes.clone()));
            at = bytes.end;
        }
        assert_eq!(at, size);
    }
}
