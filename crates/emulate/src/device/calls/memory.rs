//! Allocations: device, managed, pinned, registered, of pools, of modules.
//!
//! Freed memory leaves the table at once, so that the driver's own checks see
//! it as gone, but its pages stay until all work that was in a stream at that
//! moment is over: `kernel<<<>>>(p); cudaFree(p)` is legal, and a kernel that
//! never ends in a non-blocking stream must not block a free.

use crate::device::basics::Result;
use crate::device::objects::arena;
use crate::device::objects::arena::Arena;
use crate::device::objects::memory::{Allocation, Allocations, Backing, HostFlags, PointerInfo};
use crate::device::objects::ticket::Ticket;
use crate::device::objects::work::Work;
use crate::device::state::{Device, State};
use crate::mapping::{GRANULE, MapError};
use driver::sys::CUresult;
use model::{AllocationKind, DeviceAddress, Extent};
use std::sync::Arc;

impl State {
    /// Tickets of everything that is in a stream now.
    pub(crate) fn in_flight(&self) -> Vec<Arc<Ticket>> {
        let _order = self.order.lock();
        let streams = self.streams.read();
        streams
            .values()
            .chain([&self.legacy])
            .filter_map(|stream| stream.newest())
            .collect()
    }

    /// Waits for all that is in a stream now.
    pub(crate) fn wait_for_all(&self) {
        for ticket in self.in_flight() {
            ticket.wait();
        }
    }

    /// Waits before a free, as programs rely on it, for what the legacy default stream
    /// would wait for. A GPU waits for non-blocking streams, too; here a kernel there may
    /// wait for the host, and the pages stay until it is over ([`State::let_go`]).
    fn settle(&self) {
        let tickets: Vec<_> = {
            let _order = self.order.lock();
            let streams = self.streams.read();
            let ordered = streams.values().filter(|stream| stream.blocking);
            ordered
                .chain([&self.legacy])
                .filter_map(|stream| stream.newest())
                .collect()
        };
        for ticket in tickets {
            ticket.wait();
        }
    }

    /// Gives back what waited for work that is over now.
    pub(crate) fn sweep(&self, allocations: &mut Allocations) {
        let leaving = std::mem::take(&mut allocations.leaving);
        for (tickets, allocation) in leaving {
            if tickets.iter().all(|ticket| ticket.is_done()) {
                self.give_back(allocations, &allocation);
            } else {
                allocations.leaving.push((tickets, allocation));
            }
        }
    }

    fn give_back(&self, allocations: &mut Allocations, allocation: &Allocation) {
        let gone = match allocation.backing {
            Backing::Arena => allocations
                .arena
                .give_back(allocation.base, allocation.size),
            Backing::Own => Some(allocation.base),
            Backing::Registered | Backing::Elsewhere => None,
        };
        if let Some(address) = gone
            && let Err(error) = self.memory.unmap(address)
        {
            // The mapping is ours, so this is a defect of the table.
            self.host.report(&format!(
                "the CPU device could not unmap {address:#x}: {error}"
            ));
        }
    }

    /// Removes an allocation from the map once `tickets` are done.
    pub(crate) fn let_go(
        &self,
        allocations: &mut Allocations,
        allocation: Allocation,
        tickets: Vec<Arc<Ticket>>,
    ) {
        allocations.leaving.push((tickets, allocation));
        self.sweep(allocations);
    }
}

fn out_of_memory(error: MapError) -> CUresult {
    match error {
        MapError::Invalid { .. } => CUresult::CUDA_ERROR_INVALID_VALUE,
        _ => CUresult::CUDA_ERROR_OUT_OF_MEMORY,
    }
}

impl Device {
    /// `cuMemAlloc`, `cuMemAllocManaged`, `cuMemHostAlloc`, by kind.
    pub fn allocate(&self, size: u64, kind: AllocationKind, flags: u32) -> Result<DeviceAddress> {
        self.enter()?;
        if size == 0 {
            return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
        }
        let mut allocations = self.state.allocations.lock();
        self.state.sweep(&mut allocations);
        let of_device = kind != AllocationKind::Host;
        if of_device && size > self.total_memory().saturating_sub(allocations.used) {
            return Err(CUresult::CUDA_ERROR_OUT_OF_MEMORY);
        }
        let memory = &self.state.memory;
        let (base, backing) = if size <= Arena::LARGEST {
            let base = match allocations.arena.take(size) {
                Some(base) => base,
                None => {
                    allocations
                        .arena
                        .add_chunk(memory.map(GRANULE, GRANULE).map_err(out_of_memory)?);
                    allocations
                        .arena
                        .take(size)
                        .ok_or(CUresult::CUDA_ERROR_OUT_OF_MEMORY)?
                }
            };
            (base, Backing::Arena)
        } else {
            (
                memory
                    .map(size.next_multiple_of(GRANULE), GRANULE)
                    .map_err(out_of_memory)?,
                Backing::Own,
            )
        };
        Ok(DeviceAddress(allocations.insert(
            (base, size),
            kind,
            flags,
            backing,
        )))
    }

    /// `cuMemAllocPitch`: rows of `width` bytes, each at a multiple of the
    /// pitch that is returned too.
    pub fn allocate_pitch(
        &self,
        width: u64,
        height: u64,
        element: u32,
    ) -> Result<(DeviceAddress, u64)> {
        if !matches!(element, 4 | 8 | 16) || width == 0 || height == 0 {
            return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
        }
        let pitch = width
            .checked_next_multiple_of(arena::ALIGNMENT)
            .ok_or(CUresult::CUDA_ERROR_INVALID_VALUE)?;
        let size = pitch
            .checked_mul(height)
            .ok_or(CUresult::CUDA_ERROR_INVALID_VALUE)?;
        Ok((self.allocate(size, AllocationKind::Device, 0)?, pitch))
    }

    /// `cuMemAllocAsync`, `cuMemAllocFromPoolAsync`: usable at once, which is
    /// before the stream gets there.
    pub fn allocate_async(&self, size: u64, stream: u64) -> Result<DeviceAddress> {
        self.allocate_in_stream(size, self.pool_current(), stream)
    }

    pub(super) fn allocate_in_stream(
        &self,
        size: u64,
        pool: u64,
        stream: u64,
    ) -> Result<DeviceAddress> {
        self.enter()?;
        let stream = self.state.stream(stream)?;
        if stream.capturing.lock().is_some() {
            let (address, work) = self.graph_memory(size)?;
            self.capture(&stream, &work)?;
            return Ok(DeviceAddress(address));
        }
        self.apart_from_captures(&stream)?;
        self.apart_from_strict_captures()?;
        let address = self.allocate(size, AllocationKind::Pool, 0)?;
        self.state.pools.lock().handed_out(pool, address.0, size);
        Ok(address)
    }

    /// `cuMemFree`. 0 does nothing.
    pub fn free(&self, address: DeviceAddress) -> Result<()> {
        self.enter()?;
        if address.0 == 0 {
            return Ok(());
        }
        if let Some(memory) = self.memory_of_graph(address.0) {
            // The graph's next launch allocates it again at this address.
            self.state.settle();
            self.state.check()?;
            memory.set_owed(false);
            memory.set_live(false);
            return Ok(());
        }
        let fits = |a: &Allocation| {
            matches!(
                a.kind,
                AllocationKind::Device | AllocationKind::Managed | AllocationKind::Pool
            )
        };
        self.remove(address.0, fits)?;
        self.state.pools.lock().taken_back(address.0);
        Ok(())
    }

    /// `cuMemFreeHost`
    pub fn free_host(&self, address: DeviceAddress) -> Result<()> {
        self.enter()?;
        self.remove(address.0, |a| a.kind == AllocationKind::Host)
    }

    pub(super) fn remove(&self, base: u64, fits: impl Fn(&Allocation) -> bool) -> Result<()> {
        self.state.settle();
        self.state.check()?;
        let tickets = self.state.in_flight();
        let mut allocations = self.state.allocations.lock();
        let allocation = allocations
            .remove(base, fits)
            .ok_or(CUresult::CUDA_ERROR_INVALID_VALUE)?;
        self.state.let_go(&mut allocations, allocation, tickets);
        Ok(())
    }

    /// `cuMemFreeAsync`
    pub fn free_async(&self, address: DeviceAddress, stream: u64) -> Result<()> {
        self.enter()?;
        let queue = self.state.stream(stream)?;
        if address.0 == 0 {
            return Ok(());
        }
        if queue.capturing.lock().is_some() {
            let work = self.graph_release(address.0)?;
            return self.capture(&queue, &work).map(drop);
        }
        self.apart_from_captures(&queue)?;
        self.apart_from_strict_captures()?;
        self.release_async(address, stream)
    }

    /// As [`Device::free_async`], of a stream that is not captured, and
    /// whatever else is.
    pub(crate) fn release_async(&self, address: DeviceAddress, stream: u64) -> Result<()> {
        let stream = self.state.stream(stream)?;
        if let Some(memory) = self.memory_of_graph(address.0) {
            // The graph's next launch allocates it again at this address.
            memory.set_owed(false);
            return self.enqueue(&stream, Work::Release(address.0, Some(memory)), false);
        }
        let mut tickets = {
            let _order = self.state.order.lock();
            self.state.ordering(&stream)
        };
        tickets.extend(stream.newest());
        let mut allocations = self.state.allocations.lock();
        let fits = |a: &Allocation| matches!(a.kind, AllocationKind::Pool | AllocationKind::Device);
        let managed = |a: &Allocation| a.base == address.0 && a.kind == AllocationKind::Managed;
        if allocations.at(address.0).is_some_and(managed) {
            // As the real driver answers (measured on driver 580).
            return Err(CUresult::CUDA_ERROR_NOT_SUPPORTED);
        }
        let allocation = allocations
            .remove(address.0, fits)
            .ok_or(CUresult::CUDA_ERROR_INVALID_VALUE)?;
        self.state.let_go(&mut allocations, allocation, tickets);
        drop(allocations);
        self.state.pools.lock().taken_back(address.0);
        Ok(())
    }

    /// `cuMemHostRegister`: the program's memory, seen at its own address.
    pub fn register_host(&self, address: u64, size: u64, flags: HostFlags) -> Result<()> {
        self.enter()?;
        if address == 0 || size == 0 {
            return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
        }
        let mut allocations = self.state.allocations.lock();
        self.state
            .memory
            .register(address, size)
            .map_err(|error| match error {
                MapError::InUse { .. } => CUresult::CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED,
                _ => CUresult::CUDA_ERROR_INVALID_VALUE,
            })?;
        allocations.insert(
            (address, size),
            AllocationKind::HostRegistered,
            flags,
            Backing::Registered,
        );
        Ok(())
    }

    /// `cuMemHostUnregister`
    pub fn unregister_host(&self, address: u64) -> Result<()> {
        self.enter()?;
        let mut allocations = self.state.allocations.lock();
        let registered = |a: &Allocation| a.kind == AllocationKind::HostRegistered;
        allocations
            .remove(address, registered)
            .ok_or(CUresult::CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED)?;
        self.state
            .memory
            .unregister(address)
            .map_err(|_| CUresult::CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED)
    }

    /// The allocation that holds an address; `None` for memory that the
    /// device does not know.
    pub fn pointer_info(&self, address: u64) -> Option<PointerInfo> {
        let allocations = self.state.allocations.lock();
        allocations.at(address).map(|a| PointerInfo {
            extent: Extent {
                base: DeviceAddress(a.base),
                size: a.size,
            },
            kind: a.kind,
            context: a.context,
            serial: a.serial,
            flags: a.flags,
        })
    }

    /// `cuMemGetInfo`: free and total bytes.
    pub fn memory_info(&self) -> Result<(u64, u64)> {
        self.enter()?;
        let total = self.total_memory();
        let used = self.state.allocations.lock().used + self.state.vmm.lock().used;
        Ok((total.saturating_sub(used), total))
    }

    /// Everything that a context allocated goes with it.
    pub(crate) fn free_context(&self, context: u64) {
        let tickets = self.state.in_flight();
        let mut allocations = self.state.allocations.lock();
        let theirs: Vec<u64> = allocations
            .by_base
            .values()
            .filter(|a| a.context == context && a.backing != Backing::Elsewhere)
            .map(|a| a.base)
            .collect();
        for base in theirs {
            if let Some(allocation) = allocations.remove(base, |_| true) {
                if allocation.backing == Backing::Registered {
                    // Already unregistered by the program's unmapping at worst.
                    let _ = self.state.memory.unregister(base);
                }
                self.state
                    .let_go(&mut allocations, allocation, tickets.clone());
            }
        }
    }
}
