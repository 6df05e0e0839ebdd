//! Allocations: what the program's calls do to them, and queries.

use super::Runtime;
use crate::streams::StreamUse;
use heap::Owner;
use host::stacks;
use model::{AllocationKind, DeviceAddress, Extent};
use std::sync::atomic::Ordering;

/// User addresses lie between these; anything else is not worth a driver call.
const LOWEST_ADDRESS: u64 = 4096;
const HIGHEST_ADDRESS: u64 = 1 << 47;

/// The allocation that a pointer belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Belongs {
    /// Which: no other has or had this number.
    pub serial: u64,
    /// Whether the program allocated it, and none of its graphs.
    pub is_own: bool,
}

impl Runtime {
    /// The program asked for the address of a module's variable.
    pub fn variable_resolved(&self, name: &str, extent: Extent) {
        let known = self.memory.read(|registry| {
            registry.at(extent.base).is_some_and(|entry| {
                entry.allocation.kind == AllocationKind::Variable
                    && entry.allocation.extent == extent
            })
        });
        if !known {
            self.memory.insert(
                AllocationKind::Variable,
                extent,
                Some(name.to_string()),
                None,
            );
            self.memory_changed();
        }
    }

    /// What to ask the driver for, so that a pointer one past the end of an
    /// allocation is never the base of another.
    pub fn padded_size(&self, size: u64) -> u64 {
        if self.settings.check {
            heap::padded_size(size)
        } else {
            size
        }
    }

    /// The program has a new allocation of these bytes (its own size, not the
    /// padded one), which is not its own to free.
    pub fn allocated(&self, kind: AllocationKind, extent: Extent) {
        self.allocated_by(kind, extent, Owner::default());
    }

    /// The program has a new allocation of these bytes (its own size, not the
    /// padded one).
    pub fn allocated_by(&self, kind: AllocationKind, extent: Extent, owner: Owner) {
        let stack = stacks::capture(self.settings.num_callers_host);
        self.streams.forget(extent);
        self.memory.insert_owned(kind, extent, None, owner, stack);
        self.memory_changed();
    }

    /// The program is about to free the allocation that starts here, by a call
    /// that [`Runtime::free`] is not asked about.
    pub fn freeing(&self, base: DeviceAddress) {
        let stack = stacks::capture(self.settings.num_callers_host);
        self.memory.remove(base, stack);
    }

    /// The program allocated memory in a stream, after
    /// [`Runtime::allocated_by`].
    pub fn allocated_in_stream(&self, extent: Extent, stream: StreamUse) {
        if self.settings.check {
            self.streams.allocated(extent, stream);
        }
    }

    /// The program has reserved addresses, in which it may map memory.
    pub fn reserved(&self, extent: Extent) {
        self.memory.reserve(extent);
    }

    /// The program gives a reservation back, in which nothing is mapped.
    /// Returns it, for [`Runtime::reserved`] in case that fails.
    pub fn unreserving(&self, base: DeviceAddress) -> Option<Extent> {
        self.memory.unreserve(base)
    }

    /// The program has mapped memory.
    pub fn mapped(&self, extent: Extent, owner: Owner) {
        let stack = stacks::capture(self.settings.num_callers_host);
        self.streams.forget(extent);
        self.memory.map(extent, owner, stack);
        self.memory_changed();
    }

    /// The program has registered host memory.
    pub fn registered(&self, extent: Extent, owner: Owner) {
        let stack = stacks::capture(self.settings.num_callers_host);
        self.streams.forget(extent);
        self.memory.register(extent, owner, stack);
        self.memory_changed();
    }

    /// The program has unmapped memory.
    pub fn unmapped(&self, extent: Extent) {
        let stack = stacks::capture(self.settings.num_callers_host);
        self.memory.unmap(extent, stack);
    }

    /// The allocation that holds an address, with the size that the program
    /// asked for. Of mapped memory the driver has its own idea; host memory was
    /// registered in pieces.
    pub fn extent_of(&self, address: DeviceAddress) -> Option<Extent> {
        self.memory.read(|registry| {
            if let Some(piece) = registry.piece(address) {
                return Some(piece);
            }
            registry
                .holding(address)
                .map(|entry| &entry.allocation)
                .filter(|allocation| allocation.kind != AllocationKind::Mapped)
                .map(|allocation| allocation.extent)
        })
    }

    /// Whether an address lies in canaries or padding, which no allocation owns
    /// although the driver has them.
    pub fn is_nobodys(&self, address: DeviceAddress) -> bool {
        self.memory.read(|registry| {
            registry.holding(address).is_none() && registry.beside(address).is_some()
        })
    }

    /// A number that is another whenever memory was allocated or freed.
    pub fn memory_generation(&self) -> u64 {
        self.memory.generation()
    }

    /// The allocation that a pointer belongs to, unless the program has freed
    /// it, if only in stream order.
    pub fn belongs_to(&self, pointer: DeviceAddress) -> Option<Belongs> {
        self.memory.look(|registry, _, leaving| {
            let entry = registry.find(pointer)?;
            let base = entry.allocation.extent.base.0;
            (!leaving.contains_key(&base)).then_some(Belongs {
                serial: entry.allocation.serial,
                is_own: entry.owner.context != 0,
            })
        })
    }

    /// Asks the driver for an allocation that was made by a call which is not
    /// hooked, and remembers it.
    pub(crate) fn ask_driver(&self, address: DeviceAddress) -> Option<Extent> {
        // What is in the quarantine the driver still has, the program has not;
        // what a pool has not handed out has no owner, nor has what is reserved
        // and not mapped.
        if !is_user_address(address.0)
            || self.memory.is_held(address)
            || self.memory.reservation_of(address).is_some()
            || self.pool_of(address).is_some()
        {
            return None;
        }
        let extent = self.driver.allocation_of(address)?;
        // Bytes beside a buffer of the program's are its canaries.
        if self.memory.is_around(extent) {
            return None;
        }
        let belongs = address.0.wrapping_sub(extent.base.0) <= extent.size && extent.size != 0;
        if !belongs {
            return None;
        }
        self.streams.forget(extent);
        self.memory
            .insert(AllocationKind::Foreign, extent, None, None);
        Some(extent)
    }

    /// A kernel that looks pointers up may be running, and may be given the
    /// new allocation through memory.
    pub(crate) fn memory_changed(&self) {
        if self.lookups_outstanding.load(Ordering::Relaxed) {
            self.flush_tables();
        }
    }

    pub(super) fn flush_tables(&self) {
        if let Err(message) = self.metadata.flush(&*self.driver, &self.memory) {
            self.output.error(&message, false);
        }
    }
}

/// Whether the host may read such memory while the device works.
pub(crate) fn is_seen_by_the_host(kind: AllocationKind) -> bool {
    use AllocationKind::{Foreign, Host, HostRegistered, Managed, Region};
    // A declared part may be of any memory.
    matches!(kind, Host | HostRegistered | Managed | Foreign | Region)
}

pub(super) fn is_user_address(address: u64) -> bool {
    (LOWEST_ADDRESS..HIGHEST_ADDRESS).contains(&address)
}
