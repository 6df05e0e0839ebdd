//! Allocations: what the program's calls do to them, and queries.

use crate::env::Env;
use crate::lookups::Lookups;
use crate::maps::HostMemory;
use crate::memory::Memory;
use crate::protection::{Listeners, Protections};
use crate::roots::JUST_OUTSIDE;
use crate::streams::{StreamUse, Streams};
use heap::{Entry, Layer, Owner, PartError};
use host::Stack;
use model::layout::UNBOUNDED;
use model::layout::placed::is_placed;
use model::{AllocationKind, DeviceAddress, Extent};
use std::sync::Arc;

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

/// The memory that the program has. All methods may be called from any thread.
pub struct Allocations {
    env: Arc<Env>,
    memory: Arc<Memory>,
    streams: Arc<Streams>,
    lookups: Arc<Lookups>,
    /// They learn of new memory.
    listeners: Listeners,
    /// What the device may access of the host's memory as it is.
    host_memory: HostMemory,
}

impl Allocations {
    pub(crate) fn new(
        env: Arc<Env>,
        memory: Arc<Memory>,
        streams: Arc<Streams>,
        lookups: Arc<Lookups>,
    ) -> Allocations {
        Allocations {
            env,
            memory,
            streams,
            lookups,
            listeners: Listeners::default(),
            host_memory: HostMemory::default(),
        }
    }

    /// Says who learns of new memory, once.
    pub(crate) fn connect(&self, protections: &Arc<Protections>) {
        self.listeners.connect(protections);
    }

    /// There is new memory, or memory that has another extent now.
    fn changed(&self, extent: Extent) {
        self.lookups.memory_changed();
        self.listeners.allocated(extent);
    }

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
            self.changed(extent);
        }
    }

    /// What to ask the driver for, so that a pointer one past the end of an
    /// allocation is never the base of another.
    pub fn padded_size(&self, size: u64) -> u64 {
        if self.env.settings().check {
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
        self.insert(kind, extent, owner);
    }

    /// As [`Allocations::allocated_by`]. Returns the serial, if there are bytes
    /// in it.
    pub(crate) fn insert(&self, kind: AllocationKind, extent: Extent, owner: Owner) -> Option<u64> {
        let stack = self.env.stack();
        self.streams.forget(extent);
        let serial = self.memory.insert_owned(kind, extent, None, owner, stack);
        self.changed(extent);
        serial
    }

    /// The program is about to free the allocation that starts here, by a call
    /// that [`Frees::free`](crate::Frees::free) is not asked about.
    pub fn freeing(&self, base: DeviceAddress) {
        let stack = self.env.stack();
        self.memory.remove(base, stack);
    }

    /// The program allocated memory in a stream, after
    /// [`Allocations::allocated_by`].
    pub fn allocated_in_stream(&self, extent: Extent, stream: StreamUse) {
        if self.env.settings().check {
            self.streams.allocated(extent, stream);
        }
    }

    /// The program has reserved addresses, in which it may map memory.
    pub fn reserved(&self, extent: Extent) {
        self.memory.reserve(extent);
    }

    /// The program gives a reservation back, in which nothing is mapped.
    /// Returns it, for [`Allocations::reserved`] in case that fails.
    pub fn unreserving(&self, base: DeviceAddress) -> Option<Extent> {
        self.memory.unreserve(base)
    }

    /// The program has mapped memory.
    pub fn mapped(&self, extent: Extent, owner: Owner) {
        let stack = self.env.stack();
        self.streams.forget(extent);
        self.memory.map(extent, owner, stack);
        self.changed(extent);
    }

    /// The program has registered host memory.
    pub fn registered(&self, extent: Extent, owner: Owner) {
        let stack = self.env.stack();
        self.streams.forget(extent);
        self.memory.register(extent, owner, stack);
        self.changed(extent);
    }

    /// The program is about to unregister the piece of host memory that starts
    /// here, if one does. Returns it, for [`Allocations::not_unregistered`].
    pub(crate) fn unregistering(&self, base: DeviceAddress) -> Option<Entry<Stack>> {
        self.memory.unregister(base, self.env.stack())
    }

    /// The driver did not unregister that piece.
    pub(crate) fn not_unregistered(&self, piece: Entry<Stack>) {
        let extent = piece.allocation.extent;
        self.memory.register(extent, piece.owner, piece.note);
        self.changed(extent);
    }

    /// The program has unmapped memory.
    pub fn unmapped(&self, extent: Extent) {
        let stack = self.env.stack();
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

    /// The owner of the allocation that holds an address, if Ringfence has chosen
    /// where it lies: about such memory the driver answers otherwise than about
    /// its own.
    pub fn owner_of_placed(&self, address: DeviceAddress) -> Option<Owner> {
        if !is_placed(address.0) {
            return None;
        }
        self.memory
            .read(|registry| registry.holding(address).map(|entry| entry.owner))
    }

    /// Bytes that the program has of a pool, and that Ringfence made in its place.
    pub fn placed_in_pool(&self, pool: u64) -> u64 {
        if pool == 0 {
            return 0;
        }
        self.memory.look(|registry, _, pending| {
            let theirs = registry.iter().filter(|entry| {
                let base = entry.allocation.extent.base.0;
                entry.owner.pool == pool && is_placed(base) && !pending.contains_key(&base)
            });
            theirs.map(|entry| entry.allocation.extent.size).sum()
        })
    }

    /// Whether only the driver has memory at an address: what the program has freed,
    /// and canaries and padding, which no allocation owns.
    #[inline]
    pub fn is_hidden(&self, address: DeviceAddress) -> bool {
        self.memory.is_hidden(address)
    }

    /// The context of the live allocation by cuMemAlloc that holds an address, if the
    /// calling thread has asked about that allocation ([`Allocations::is_hidden`]) since
    /// memory was allocated or freed last.
    #[inline]
    pub fn remembered_context(&self, address: DeviceAddress) -> Option<u64> {
        self.memory.remembered(address)
    }

    /// A number that is another whenever memory was allocated or freed.
    pub fn generation(&self) -> u64 {
        self.memory.generation()
    }

    /// The allocation that a pointer belongs to, unless the program has freed
    /// it, if only in stream order.
    pub fn belongs_to(&self, pointer: DeviceAddress) -> Option<Belongs> {
        self.memory.look(|registry, _, pending| {
            let entry = registry.find(pointer)?;
            let base = entry.allocation.extent.base.0;
            (!pending.contains_key(&base)).then_some(Belongs {
                serial: entry.allocation.serial,
                is_own: entry.owner.context != 0,
            })
        })
    }

    /// What the driver calls the allocation that the program knows by this
    /// address.
    pub fn driver_address(&self, base: DeviceAddress) -> DeviceAddress {
        self.memory.driver_address(base)
    }

    /// Whether the memory at an address was freed, although the device still
    /// has it.
    pub fn is_quarantined(&self, address: DeviceAddress) -> bool {
        self.memory.is_held(address)
    }

    /// Asks the driver for an allocation that was made by a call which is not
    /// hooked, and remembers it.
    pub(crate) fn ask_driver(&self, address: DeviceAddress) -> Option<Extent> {
        // What is in the quarantine the driver still has, the program has not;
        // what a pool has not handed out has no owner, nor has what is reserved
        // and not mapped. What was placed is known. The addresses of a graph's
        // memory stay its own when it is freed.
        if !is_user_address(address.0)
            || is_placed(address.0)
            || self.memory.is_held(address)
            || self.memory.reservation_of(address).is_some()
            || self.pool_of(address).is_some()
            || self.was_a_graphs(address)
        {
            return None;
        }
        let extent = self.env.driver().allocation_of(address)?;
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

    /// Whether an address is one of memory that a graph allocated, and that was
    /// freed.
    fn was_a_graphs(&self, address: DeviceAddress) -> bool {
        self.memory.look(|registry, _, _| {
            registry.freed(address).is_some_and(|freed| {
                let entry = &freed.entry;
                let is_inside = entry.allocation.extent.contains(address);
                is_inside
                    && entry.allocation.kind == AllocationKind::Pool
                    && entry.owner.context == 0
            })
        })
    }

    /// Whether an address is of memory that the program has not, although the
    /// device has it: freed and kept, reserved and not mapped, or of a pool that
    /// has not handed it out.
    pub(crate) fn is_nobodys(&self, address: DeviceAddress) -> bool {
        self.memory.is_held(address)
            || self.memory.reservation_of(address).is_some()
            || self.pool_of(address).is_some()
    }

    /// What a pointer is meant for that lies in no allocation. An array that the
    /// kernel indexes from 1 comes as `p - 1`: its accesses are checked against
    /// the allocation beside it; pointers that kernels load from memory get no
    /// such grace. Memory of the host that the device may access as it is has no
    /// bounds that Ringfence knows.
    pub(crate) fn outside(&self, pointer: DeviceAddress) -> Option<Extent> {
        let nobodys = self.is_nobodys(pointer);
        let within = |near| {
            self.memory.read(|registry| {
                let entry = registry.just_outside(pointer, near)?;
                Some(entry.allocation.extent)
            })
        };
        // In a canary or padding, of which the neighbour may be the nearer one.
        if within(0).is_some() {
            return within(JUST_OUTSIDE);
        }
        // Placed allocations lie far from each other.
        if is_placed(pointer.0) {
            return within(JUST_OUTSIDE);
        }
        if nobodys {
            return None;
        }
        if self.host_memory.holds(self.env.driver(), pointer) {
            return Some(Extent {
                base: DeviceAddress(0),
                size: UNBOUNDED,
            });
        }
        within(JUST_OUTSIDE)
    }

    // Parts that the program declares itself (`ringfence.h`).

    /// The program declares a part of an allocation.
    ///
    /// # Errors
    ///
    /// It does not lie where such a part can; nothing has changed.
    pub fn declare_part(
        &self,
        layer: Layer,
        extent: Extent,
        name: Option<String>,
    ) -> Result<(), PartError> {
        let stack = self.env.stack();
        self.memory.declare_part(layer, extent, name, stack)?;
        self.changed(extent);
        // Of a pool only what it hands out is accessed.
        match layer {
            Layer::Pool => self.listeners.part(extent, false),
            Layer::Block => self.listeners.part(extent, true),
            Layer::Region => {}
        }
        Ok(())
    }

    /// The program declares bytes as not to be accessed, or takes that back.
    ///
    /// # Errors
    ///
    /// They do not lie in one live allocation; nothing has changed.
    pub fn set_addressable(&self, extent: Extent, is_addressable: bool) -> Result<(), PartError> {
        let (base, size) = (extent.base.0, extent.size);
        let end = base.checked_add(size);
        let holds = self
            .extent_of(extent.base)
            .is_some_and(|allocation| end.is_some_and(|end| end <= allocation.end().0));
        if !holds {
            return Err(PartError::NoAllocation { base, size });
        }
        self.listeners.part(extent, is_addressable);
        Ok(())
    }

    /// The end of the part of this kind that starts at `base`; of a pool's
    /// blocks, too. Returns whether there is one.
    pub fn release_part(&self, layer: Layer, base: DeviceAddress) -> bool {
        let stack = self.env.stack();
        let part = self.memory.read(|registry| registry.part_at(layer, base));
        let found = self.memory.release_part(layer, base, stack);
        match (layer, part.filter(|_| found)) {
            (Layer::Pool, Some(pool)) => self.listeners.part(pool, true),
            (Layer::Block, Some(block)) => self.listeners.part(block, false),
            _ => {}
        }
        found
    }

    /// The program names the part or allocation that starts here, if there is
    /// one: reports call it that.
    pub fn name_memory(&self, base: DeviceAddress, name: String) -> bool {
        self.memory.rename(base, name)
    }

    /// The pool that holds an address.
    pub fn pool_of(&self, address: DeviceAddress) -> Option<Extent> {
        self.memory.read(|registry| registry.pool_at(address))
    }
}

/// Whether the host may read such memory while the device works.
pub(crate) fn is_seen_by_the_host(kind: AllocationKind) -> bool {
    use AllocationKind::{Foreign, Host, HostRegistered, Managed, Region};
    // A declared part may be of any memory.
    matches!(kind, Host | HostRegistered | Managed | Foreign | Region)
}

pub(crate) fn is_user_address(address: u64) -> bool {
    (LOWEST_ADDRESS..HIGHEST_ADDRESS).contains(&address)
}
