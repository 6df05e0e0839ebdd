//! Copies and fills of up to three dimensions.

use crate::device::basics::Result;
use crate::device::objects::copy::{Copy, Fill, Side, span};
use crate::device::objects::queue::Stream;
use crate::device::objects::work::Work;
use crate::device::state::Device;
use driver::sys::CUresult;
use std::sync::Arc;

impl Device {
    /// The range lies in one allocation of the device, or in adjacent
    /// mappings; else INVALID_VALUE.
    pub(crate) fn check_device_range(&self, address: u64, size: u64) -> Result<()> {
        if self.device_range(address, size)? {
            Ok(())
        } else {
            Err(CUresult::CUDA_ERROR_INVALID_VALUE)
        }
    }

    /// Whether the range is the device's. One that starts in an allocation and
    /// runs over its end is an error.
    /// Memory of the program is the device's, too, where it may access all.
    fn device_range(&self, address: u64, size: u64) -> Result<bool> {
        let end = address
            .checked_add(size)
            .ok_or(CUresult::CUDA_ERROR_INVALID_VALUE)?;
        let allocations = self.state.allocations.lock();
        let Some(first) = allocations.at(address) else {
            drop(allocations);
            let memory = &self.state.memory;
            let is_hosts =
                memory.admits_host() && memory.view().check_range(address, size, false).is_ok();
            return Ok(is_hosts);
        };
        let mut covered = first.base + first.size;
        // Mappings of one reservation may be copied as one range.
        while covered < end {
            match allocations.at(covered) {
                Some(next)
                    if next.kind == model::AllocationKind::Mapped && first.kind == next.kind =>
                {
                    covered = next.base + next.size;
                }
                _ => return Err(CUresult::CUDA_ERROR_INVALID_VALUE),
            }
        }
        Ok(true)
    }

    fn resolve(&self, side: &mut Side, width: u64, height: u64, depth: u64) -> Result<()> {
        let size = span(side, width, height, depth).ok_or(CUresult::CUDA_ERROR_INVALID_VALUE)?;
        let wanted = side.device;
        // Memory that the driver made for the host, too, is checked by the
        // driver: pinned and managed buffers have a size it knows.
        let found = self.device_range(side.address, size);
        side.device = match (wanted, found) {
            (Some(false), found) => Some(found == Ok(true)),
            (_, Err(error)) => return Err(error),
            (Some(true), Ok(false)) => return Err(CUresult::CUDA_ERROR_INVALID_VALUE),
            (_, Ok(found)) => Some(found),
        };
        if side.address == 0 {
            Err(CUresult::CUDA_ERROR_INVALID_VALUE)
        } else {
            Ok(())
        }
    }

    /// A copy that is over when it returns: `cuMemcpy*` without `Async`.
    pub fn copy(&self, copy: Copy, stream: u64) -> Result<()> {
        self.enter()?;
        let stream = self.state.stream(stream)?;
        match self.checked(copy)? {
            Some(copy) => self.execute(&stream, Work::Copy(copy)),
            None => Ok(()),
        }
    }

    /// A copy in stream order: `cuMemcpy*Async`. Pageable memory is read
    /// before, or written before, it returns, as the driver does.
    pub fn copy_async(&self, copy: Copy, stream: u64) -> Result<()> {
        self.enter()?;
        let stream = self.state.stream(stream)?;
        let Some(copy) = self.checked(copy)? else {
            return Ok(());
        };
        let pageable_source = copy.from.device == Some(false);
        let pageable_target = copy.to.device == Some(false);
        if self.capture(&stream, &Work::Copy(copy))? {
            return Ok(());
        }
        if pageable_target || (pageable_source && copy.height * copy.depth > 1) {
            return self.execute(&stream, Work::Copy(copy));
        }
        if pageable_source && self.would_wait(&stream) {
            return self.upload(&stream, copy);
        }
        let ticket = self.submit(&stream, Work::Copy(copy), Vec::new(), true);
        if pageable_source {
            // Over already, unless another thread got into the stream first.
            ticket.wait();
        }
        Ok(())
    }

    /// Takes the bytes now and stores them when the stream gets there.
    fn upload(&self, stream: &Arc<Stream>, copy: Copy) -> Result<()> {
        let mut bytes = vec![0u8; copy.width as usize];
        self.state.host.read(copy.from.address, &mut bytes);
        self.submit(
            stream,
            Work::Upload {
                to: copy.to.address,
                bytes: bytes.into(),
            },
            Vec::new(),
            false,
        );
        Ok(())
    }

    /// Checks both sides. `None` for an empty copy.
    pub(crate) fn checked(&self, mut copy: Copy) -> Result<Option<Copy>> {
        if copy.is_empty() {
            return Ok(None);
        }
        let (width, height, depth) = (copy.width, copy.height, copy.depth);
        for side in [&mut copy.to, &mut copy.from] {
            if (height > 1 && side.pitch < width)
                || (depth > 1 && side.slice < side.pitch.saturating_mul(height))
            {
                return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
            }
            self.resolve(side, width, height, depth)?;
        }
        Ok(Some(copy))
    }

    /// Checks a fill. `None` for an empty one.
    pub(crate) fn checked_fill(&self, fill: Fill) -> Result<Option<Fill>> {
        if fill.width == 0 || fill.height == 0 {
            return Ok(None);
        }
        let width = fill
            .width
            .checked_mul(u64::from(fill.element))
            .ok_or(CUresult::CUDA_ERROR_INVALID_VALUE)?;
        let side = Side {
            address: fill.address,
            pitch: fill.pitch,
            slice: 0,
            device: None,
        };
        let size = span(&side, width, fill.height, 1).ok_or(CUresult::CUDA_ERROR_INVALID_VALUE)?;
        let misaligned = !fill.address.is_multiple_of(u64::from(fill.element.max(1)));
        if !matches!(fill.element, 1 | 2 | 4)
            || misaligned
            || (fill.height > 1 && fill.pitch < width)
        {
            return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
        }
        self.check_device_range(fill.address, size)?;
        Ok(Some(fill))
    }

    /// `cuMemset*`, with and without `Async`: the driver, too, returns before
    /// memory is set; what follows in the stream sees it.
    pub fn fill(&self, fill: Fill, stream: u64) -> Result<()> {
        self.enter()?;
        let stream = self.state.stream(stream)?;
        match self.checked_fill(fill)? {
            Some(fill) => self.enqueue(&stream, Work::Fill(fill), true),
            None => Ok(()),
        }
    }
}
