//! Virtual memory management: address reservations, physical memory,
//! mappings (CUDA driver API, "Virtual Memory Management").
//!
//! Physical memory keeps its contents while it is not mapped, and may be mapped
//! at several addresses at a time.

use crate::device::basics::Result;
use crate::device::objects::memory::Backing;
use crate::device::objects::vmm::{Physical, Reservation, Vmm};
use crate::device::state::Device;
use crate::mapping::{GRANULE, MapError, Protection};
use driver::sys::CUresult;
use model::AllocationKind;
use std::collections::BTreeMap;

/// What a hint must be a multiple of to be followed, and the least reservation
/// for which it is; the driver puts all others elsewhere (H200, driver 580).
const HINTED: u64 = 32 << 20;

impl Device {
    /// What sizes and addresses must be multiples of, in bytes.
    pub const GRANULARITY: u64 = GRANULE;

    /// `cuMemAddressReserve`; `hint` 0 is anywhere. As the driver does, a
    /// hint that does not fit gives another address.
    pub fn address_reserve(&self, size: u64, align: u64, hint: u64) -> Result<u64> {
        self.enter_to_map()?;
        self.reserve(size, align, hint)
    }

    /// Whether exactly this is reserved.
    pub(super) fn has_reservation(&self, address: u64, size: u64) -> bool {
        let vmm = self.state.vmm.lock();
        let known = vmm.reservations.get(&address);
        known.is_some_and(|reservation| reservation.size == size)
    }

    /// [`Device::address_reserve`], also while a stream is captured.
    pub(super) fn reserve(&self, size: u64, align: u64, hint: u64) -> Result<u64> {
        let align = align.max(GRANULE);
        if size == 0 || !size.is_multiple_of(GRANULE) || !align.is_power_of_two() {
            return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
        }
        let memory = &self.state.memory;
        let taken = |error| match error {
            MapError::Invalid { .. } => CUresult::CUDA_ERROR_INVALID_VALUE,
            _ => CUresult::CUDA_ERROR_OUT_OF_MEMORY,
        };
        let followed = hint != 0 && size >= HINTED && hint.is_multiple_of(align.max(HINTED));
        let fixed = followed && memory.map_fixed(hint, size).is_ok();
        let start = if fixed {
            memory
                .protect(hint, size, Protection::None)
                .map_err(taken)?;
            hint
        } else {
            memory.reserve(size, align).map_err(taken)?
        };
        let reservation = Reservation {
            size,
            pieces: BTreeMap::from([(start, size)]),
        };
        self.state
            .vmm
            .lock()
            .reservations
            .insert(start, reservation);
        Ok(start)
    }

    /// `cuMemAddressFree`
    pub fn address_free(&self, address: u64, size: u64) -> Result<()> {
        let mut vmm = self.state.vmm.lock();
        let fits = vmm
            .reservations
            .get(&address)
            .is_some_and(|r| r.size == size);
        if !fits || vmm.mappings.range(address..address + size).next().is_some() {
            return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
        }
        if let Some(reservation) = vmm.reservations.remove(&address) {
            for piece in reservation.pieces.keys() {
                self.state
                    .memory
                    .unmap(*piece)
                    .map_err(|_| CUresult::CUDA_ERROR_INVALID_VALUE)?;
            }
        }
        Ok(())
    }

    /// `cuMemCreate`
    pub fn memory_create(&self, size: u64) -> Result<u64> {
        self.enter_to_map()?;
        if size == 0 || !size.is_multiple_of(GRANULE) {
            return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
        }
        // What is never written takes none of the host's memory. Here no memory is
        // mapped at two addresses, so that a fence's sinks, one on a GPU, are
        // together far larger than the device.
        if size > self.total_memory() {
            return Err(CUresult::CUDA_ERROR_OUT_OF_MEMORY);
        }
        let handle = self.handle();
        let mut vmm = self.state.vmm.lock();
        let offset = vmm.pages.take(size);
        let offset = offset.map_err(|_| CUresult::CUDA_ERROR_OUT_OF_MEMORY)?;
        let physical = Physical {
            size,
            offset,
            released: false,
            mappings: 0,
        };
        vmm.physical.insert(handle, physical);
        vmm.used += size;
        Ok(handle)
    }

    /// Bytes of physical memory.
    pub fn memory_size(&self, handle: u64) -> Result<u64> {
        let vmm = self.state.vmm.lock();
        vmm.physical
            .get(&handle)
            .map(|physical| physical.size)
            .ok_or(CUresult::CUDA_ERROR_INVALID_VALUE)
    }

    /// `cuMemRelease`: the memory lives on while it is mapped.
    pub fn memory_release(&self, handle: u64) -> Result<()> {
        let mut vmm = self.state.vmm.lock();
        let physical = vmm
            .physical
            .get_mut(&handle)
            .ok_or(CUresult::CUDA_ERROR_INVALID_VALUE)?;
        physical.released = true;
        vmm.drop_if_unused(handle);
        Ok(())
    }

    /// `cuMemMap`; nothing may touch it before [`Device::memory_access`].
    pub fn memory_map(&self, address: u64, size: u64, offset: u64, handle: u64) -> Result<()> {
        self.enter_to_map()?;
        if offset != 0
            || size == 0
            || !size.is_multiple_of(GRANULE)
            || !address.is_multiple_of(GRANULE)
        {
            return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
        }
        let mut allocations = self.state.allocations.lock();
        let mut vmm = self.state.vmm.lock();
        let physical = vmm.physical.get(&handle);
        let physical = physical.filter(|physical| physical.size == size && !physical.released);
        let offset_of_pages = physical.ok_or(CUresult::CUDA_ERROR_INVALID_VALUE)?.offset;
        let free = vmm
            .mappings
            .range(..address + size)
            .next_back()
            .is_none_or(|(at, (len, _))| at + len <= address);
        if !free || vmm.reservation_of(address, size).is_none() {
            return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
        }
        self.protect(&mut vmm, address, size, Protection::None)?;
        let attached = self
            .state
            .memory
            .attach(address, size, &vmm.pages, offset_of_pages);
        attached.map_err(|_| CUresult::CUDA_ERROR_OUT_OF_MEMORY)?;
        if let Some(physical) = vmm.physical.get_mut(&handle) {
            physical.mappings += 1;
        }
        vmm.mappings.insert(address, (size, handle));
        allocations.insert(
            (address, size),
            AllocationKind::Mapped,
            0,
            Backing::Elsewhere,
        );
        Ok(())
    }

    /// `cuMemUnmap`: whole mappings only.
    pub fn memory_unmap(&self, address: u64, size: u64) -> Result<()> {
        let mut allocations = self.state.allocations.lock();
        let mut vmm = self.state.vmm.lock();
        let end = address
            .checked_add(size)
            .ok_or(CUresult::CUDA_ERROR_INVALID_VALUE)?;
        let inside: Vec<(u64, u64, u64)> = vmm
            .mappings
            .range(address..end)
            .map(|(at, (len, handle))| (*at, *len, *handle))
            .collect();
        if inside.is_empty() || inside.iter().map(|(_, len, _)| len).sum::<u64>() != size {
            return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
        }
        for (at, len, handle) in inside {
            self.protect(&mut vmm, at, len, Protection::None)?;
            let detached = self.state.memory.detach(at, len);
            detached.map_err(|_| CUresult::CUDA_ERROR_OUT_OF_MEMORY)?;
            if let Some(physical) = vmm.physical.get_mut(&handle) {
                physical.mappings -= 1;
            }
            vmm.drop_if_unused(handle);
            vmm.mappings.remove(&at);
            allocations.remove(at, |allocation| allocation.kind == AllocationKind::Mapped);
        }
        Ok(())
    }

    /// `cuMemSetAccess`: whole mappings, one or several.
    pub fn memory_access(&self, address: u64, size: u64, protection: Protection) -> Result<()> {
        self.enter_to_map()?;
        let mut vmm = self.state.vmm.lock();
        let end = address
            .checked_add(size)
            .ok_or(CUresult::CUDA_ERROR_INVALID_VALUE)?;
        let mut at = address;
        while at < end {
            // Everything in the range must be mapped.
            let (_, (len, _)) = vmm
                .mappings
                .range(..=at)
                .next_back()
                .filter(|(start, (len, _))| at < *start + len)
                .map(|(start, mapping)| (*start, *mapping))
                .ok_or(CUresult::CUDA_ERROR_INVALID_VALUE)?;
            let start = vmm
                .mappings
                .range(..=at)
                .next_back()
                .map_or(at, |(start, _)| *start);
            at = start + len;
        }
        self.protect(&mut vmm, address, size, protection)
    }

    /// `cuMemGetAccess` of the mapping that holds an address.
    pub fn memory_protection(&self, address: u64) -> Result<Protection> {
        self.memory_handle_at(address)?;
        let memory = &self.state.memory;
        let allowed = |write| memory.view().check_range(address, 1, write).is_ok();
        Ok(match (allowed(false), allowed(true)) {
            (_, true) => Protection::ReadWrite,
            (true, false) => Protection::Read,
            (false, false) => Protection::None,
        })
    }

    /// `cuMemRetainAllocationHandle`
    pub fn memory_handle_at(&self, address: u64) -> Result<u64> {
        let vmm = self.state.vmm.lock();
        let found = vmm
            .mappings
            .range(..=address)
            .next_back()
            .filter(|(at, (len, _))| address - **at < *len);
        found
            .map(|(_, (_, handle))| *handle)
            .ok_or(CUresult::CUDA_ERROR_INVALID_VALUE)
    }

    /// Changes the protection piece by piece, noting where pieces split.
    fn protect(
        &self,
        vmm: &mut Vmm,
        address: u64,
        size: u64,
        protection: Protection,
    ) -> Result<()> {
        let memory = &self.state.memory;
        let reservation = vmm
            .reservation_of(address, size)
            .ok_or(CUresult::CUDA_ERROR_INVALID_VALUE)?;
        let end = address + size;
        let mut at = address;
        while at < end {
            let (start, length) = reservation
                .pieces
                .range(..=at)
                .next_back()
                .map(|(s, l)| (*s, *l))
                .ok_or(CUresult::CUDA_ERROR_INVALID_VALUE)?;
            let stop = end.min(start + length);
            memory
                .protect(at, stop - at, protection)
                .map_err(|_| CUresult::CUDA_ERROR_INVALID_VALUE)?;
            reservation.pieces.remove(&start);
            for (from, to) in [(start, at), (at, stop), (stop, start + length)] {
                if from < to {
                    reservation.pieces.insert(from, to - from);
                }
            }
            at = stop;
        }
        Ok(())
    }
}
