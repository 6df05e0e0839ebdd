//! Device memory in the host's tables.

use serde::{Deserialize, Serialize};

/// An address in the unified virtual address space.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct DeviceAddress(pub u64);

impl std::fmt::Debug for DeviceAddress {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:#x}", self.0)
    }
}

impl std::fmt::Display for DeviceAddress {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:#x}", self.0)
    }
}

/// A range of device memory, in bytes. `base + size` never wraps: user
/// addresses lie below 2^47.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Extent {
    /// First byte.
    pub base: DeviceAddress,
    /// Length in bytes.
    pub size: u64,
}

impl Extent {
    /// One past the last byte.
    pub fn end(self) -> DeviceAddress {
        DeviceAddress(self.base.0 + self.size)
    }

    /// Whether `address` is one of the extent's bytes.
    pub fn contains(self, address: DeviceAddress) -> bool {
        address.0.wrapping_sub(self.base.0) < self.size
    }
}

/// How an allocation was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AllocationKind {
    /// cuMemAlloc, cuMemAllocPitch.
    Device,
    /// cuMemAllocManaged.
    Managed,
    /// cuMemAllocHost, cuMemHostAlloc.
    Host,
    /// cuMemHostRegister.
    HostRegistered,
    /// cuMemAllocAsync and pools.
    Pool,
    /// cuMemMap of reserved addresses.
    Mapped,
    /// cuArrayCreate, cuMipmappedArrayCreate; the handle is used for the
    /// address.
    Array,
    /// A variable of a loaded module.
    Variable,
    /// Known to the driver, made by a call that is not hooked.
    Foreign,
    /// Device-side malloc.
    DeviceHeap,
    /// A `__shared__` array of fixed size.
    Shared,
    /// The dynamic shared memory of a launch.
    DynamicShared,
    /// A local object or frame of a thread.
    Local,
    /// A `__constant__` variable.
    Constant,
    /// A kernel parameter, by address.
    Parameter,
    /// Part of an allocation that the program declared (`ringfence.h`, NVTX)
    /// or that provenance shows to be a field or a row.
    Region,
    /// clCreateBuffer. OpenCL has no address: the object's handle is used
    /// instead.
    ClBuffer,
    /// clCreateSubBuffer; the handle is used for the address.
    ClSubBuffer,
    /// clCreateImage and its like; the handle is used for the address.
    ClImage,
    /// clSVMAlloc: shared virtual memory of OpenCL.
    ClSvm,
}

/// One allocation, live or freed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Allocation {
    /// Its bytes, as the program asked for them.
    pub extent: Extent,
    /// How it was made.
    pub kind: AllocationKind,
    /// Order of creation in the process, from 1.
    pub serial: u64,
    /// Name, for module variables.
    pub name: Option<String>,
}
