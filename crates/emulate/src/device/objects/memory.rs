//! The table of allocations.

use super::arena::Arena;
use super::context;
use super::ticket::Ticket;
use model::{AllocationKind, Extent};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Where an allocation's bytes are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Backing {
    /// Part of a chunk.
    Arena,
    /// A mapping of its own.
    Own,
    /// The program's memory, made visible.
    Registered,
    /// Someone else's to unmap: a VMM reservation, a module, metadata.
    Elsewhere,
}

/// Flags of `cuMemHostAlloc` and `cuMemHostRegister` as they were given.
pub type HostFlags = u32;

#[derive(Clone, Debug)]
pub(crate) struct Allocation {
    pub base: u64,
    /// Bytes asked for.
    pub size: u64,
    pub kind: AllocationKind,
    pub context: u64,
    pub flags: u32,
    /// `CU_POINTER_ATTRIBUTE_BUFFER_ID`: never reused.
    pub serial: u64,
    pub backing: Backing,
}

impl Allocation {
    /// Whether it takes of the device's memory.
    fn is_of_device(&self) -> bool {
        let taken = matches!(self.backing, Backing::Arena | Backing::Own);
        taken && self.kind != AllocationKind::Host
    }
}

/// What `cuPointerGetAttribute` answers from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PointerInfo {
    /// The allocation.
    pub extent: Extent,
    /// How it was made.
    pub kind: AllocationKind,
    /// Its context's handle.
    pub context: u64,
    /// Unique in the process.
    pub serial: u64,
    /// Flags it was made with.
    pub flags: u32,
}

impl PointerInfo {
    /// Whether the host may use the address as well.
    pub fn on_host(&self) -> bool {
        matches!(
            self.kind,
            AllocationKind::Host | AllocationKind::HostRegistered | AllocationKind::Managed
        )
    }
}

#[derive(Default)]
pub(crate) struct Allocations {
    pub by_base: BTreeMap<u64, Allocation>,
    pub arena: Arena,
    /// Freed, waiting for work that may still use it.
    pub leaving: Vec<(Vec<Arc<Ticket>>, Allocation)>,
    serial: u64,
    /// Bytes of live device allocations.
    pub used: u64,
}

impl Allocations {
    /// The allocation that holds an address.
    pub fn at(&self, address: u64) -> Option<&Allocation> {
        let (_, allocation) = self.by_base.range(..=address).next_back()?;
        (address - allocation.base < allocation.size).then_some(allocation)
    }

    /// Enters an allocation; its range must be free, because the caller has just mapped
    /// it.
    pub fn insert(
        &mut self,
        extent: (u64, u64),
        kind: AllocationKind,
        flags: u32,
        backing: Backing,
    ) -> u64 {
        self.serial += 1;
        let (base, size) = extent;
        let context = context::current().unwrap_or(0);
        let allocation = Allocation {
            base,
            size,
            kind,
            context,
            flags,
            serial: self.serial,
            backing,
        };
        if allocation.is_of_device() {
            self.used += size;
        }
        self.by_base.insert(base, allocation);
        base
    }

    /// Takes an allocation out by its base.
    pub fn remove(&mut self, base: u64, fits: impl Fn(&Allocation) -> bool) -> Option<Allocation> {
        if !fits(self.by_base.get(&base)?) {
            return None;
        }
        let allocation = self.by_base.remove(&base)?;
        if allocation.is_of_device() {
            self.used -= allocation.size;
        }
        Some(allocation)
    }
}
