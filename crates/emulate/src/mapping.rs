//! The memory of device code, and every access to it.
//!
//! A device address *is* the host address of mapped memory. [`Memory`] keeps
//! the list of ranges that device code may touch; [`View`] checks each access
//! against that list and only then touches memory. [`Bytes`] is memory of one
//! block or warp (shared, local), addressed by offsets. This is the crate's
//! only module with `unsafe` (its parts are in `mapping/`); it must never hand
//! out a pointer or a Rust reference into device memory, because kernels and
//! the program's own threads change it at any time.
//!
//! ```text
//! 0x0100_0000_0000  shared window   16 MiB a block of the cluster
//! 0x0101_0000_0000  local window    one offset range, a lane's own memory
//! 0x0102_0000_0000  parameter window, the entry's parameters, read-only
//! ```
//!
//! Protocol of concurrent change: accesses happen only while a [`View`] holds
//! the read side of the region list; [`Memory::map`], [`Memory::unmap`] and kin
//! take the write side. Workers offer the lock at every slice
//! ([`View::renew`]), so a change waits for slices, never for kernels.

#![allow(unsafe_code)]

mod bytes;
mod cells;
mod physical;
mod view;
mod wide;

pub use bytes::Bytes;
pub use cells::{Atomic, Plain};
pub use physical::Pages;
pub use view::View;
pub use wide::{Twice, Wide, full_fence, twice};

use cells::{pointer, pointer_mut};
use parking_lot::RwLock;
use std::collections::BTreeMap;
use std::sync::OnceLock;

/// Lanes of a warp.
pub const LANES: usize = 32;
/// Bytes of a page of the host.
pub const PAGE: u64 = 4096;
/// What device allocations are rounded to: the driver's own granule.
pub const GRANULE: u64 = 2 << 20;

/// First byte of the generic window of shared memory.
pub const SHARED_WINDOW: u64 = 0x0100_0000_0000;
/// First byte of the generic window of local memory.
pub const LOCAL_WINDOW: u64 = 0x0101_0000_0000;
/// First byte of the generic window of entry parameters.
pub const PARAM_WINDOW: u64 = 0x0102_0000_0000;
/// Bytes of each window.
pub const WINDOW_SIZE: u64 = 0x0001_0000_0000;
/// End of the last window.
const WINDOWS_END: u64 = PARAM_WINDOW + WINDOW_SIZE;
/// First address that user space cannot map.
const ADDRESS_END: u64 = 1 << 47;

/// Why memory could not be mapped, unmapped or registered.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MapError {
    /// Zero, unaligned or out of the address space.
    #[error(
        "range {address:#x}+{size:#x} is empty, not a multiple of a page, or outside the address space"
    )]
    Invalid {
        /// Start asked for; 0 for anywhere.
        address: u64,
        /// Bytes asked for.
        size: u64,
    },
    /// Something else is mapped or registered there.
    #[error("range {address:#x}+{size:#x} is already in use")]
    InUse {
        /// Start asked for.
        address: u64,
        /// Bytes asked for.
        size: u64,
    },
    /// The host refused.
    #[error("the host has no memory for {size:#x} bytes (errno {errno})")]
    NoMemory {
        /// Bytes asked for.
        size: u64,
        /// Of mmap.
        errno: i32,
    },
    /// Nothing that starts there.
    #[error("nothing is mapped from {address:#x} on")]
    NotMapped {
        /// Start asked for.
        address: u64,
    },
    /// The windows could not be reserved at start-up.
    #[error("the address windows of shared and local memory are in use in this process")]
    Windows,
}

/// An access that memory does not allow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AccessFault {
    /// Some byte of it is not mapped.
    #[error("{size}-byte access at {address:#x}: not mapped")]
    Unmapped {
        /// First byte.
        address: u64,
        /// Bytes.
        size: u64,
    },
    /// The address is no multiple of the width.
    #[error("{size}-byte access at {address:#x}: misaligned")]
    Misaligned {
        /// First byte.
        address: u64,
        /// Bytes.
        size: u64,
    },
    /// The operation is not possible in the space of the address.
    #[error("{size}-byte atomic access at {address:#x}: in local memory")]
    Space {
        /// First byte.
        address: u64,
        /// Bytes.
        size: u64,
    },
    /// A write to memory that is only readable.
    #[error("{size}-byte write at {address:#x}: read-only")]
    ReadOnly {
        /// First byte.
        address: u64,
        /// Bytes.
        size: u64,
    },
}

/// What device code may do with a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protection {
    /// Address space only.
    None,
    /// Loads.
    Read,
    /// Loads, stores, atomics.
    ReadWrite,
}

/// The origin of a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Owner {
    /// Mapped here, unmapped here.
    Mapped,
    /// Memory of the program, made visible to device code.
    Registered,
    /// Mapped here, for the rest of the process.
    Permanent,
}

#[derive(Clone, Copy, Debug)]
struct Region {
    end: u64,
    protection: Protection,
    owner: Owner,
}

#[derive(Default)]
struct Regions {
    /// By first byte; ranges do not overlap.
    by_start: BTreeMap<u64, Region>,
    /// Number of changes so far, by which a [`View`] detects that its cache is
    /// stale.
    changes: u64,
    /// What is not listed is the program's own memory, which device code may
    /// access where it is mapped.
    admits_host: bool,
}

impl Regions {
    fn at(&self, address: u64) -> Option<(u64, Region)> {
        let (&start, &region) = self.by_start.range(..=address).next_back()?;
        (address < region.end).then_some((start, region))
    }

    /// The memory of the program around an address, where device code may access
    /// it.
    fn host_at(&self, address: u64) -> Option<(u64, Region)> {
        if !self.admits_host {
            return None;
        }
        let (start, end, writable) = host_mapping(address)?;
        let below = self.by_start.range(..=address).next_back();
        let above = self.by_start.range(address..).next();
        let region = Region {
            end: above.map_or(end, |(start, _)| end.min(*start)),
            protection: match writable {
                true => Protection::ReadWrite,
                false => Protection::Read,
            },
            owner: Owner::Registered,
        };
        Some((
            below.map_or(start, |(_, region)| start.max(region.end)),
            region,
        ))
    }

    fn is_free(&self, start: u64, end: u64) -> bool {
        self.by_start
            .range(..end)
            .next_back()
            .is_none_or(|(_, r)| r.end <= start)
    }

    fn insert(&mut self, start: u64, region: Region) {
        self.by_start.insert(start, region);
        self.changes += 1;
    }
}

/// The mapping of the process that holds an address and can be read, and whether
/// it can be written (proc(5)).
fn host_mapping(address: u64) -> Option<(u64, u64, bool)> {
    let maps = std::fs::read_to_string("/proc/self/maps").ok()?;
    maps.lines().find_map(|line| {
        let (range, rest) = line.split_once(' ')?;
        let (start, end) = range.split_once('-')?;
        let number = |text| u64::from_str_radix(text, 16).ok();
        let (start, end) = (number(start)?, number(end)?);
        let holds = (start..end).contains(&address) && rest.starts_with('r');
        holds.then(|| (start, end, rest[1..].starts_with('w')))
    })
}

/// The ranges that device code may touch.
pub struct Memory {
    regions: RwLock<Regions>,
}

/// Reserves the windows, once a process.
fn reserve_windows() -> bool {
    static RESERVED: OnceLock<bool> = OnceLock::new();
    *RESERVED.get_or_init(|| {
        map_pages(
            SHARED_WINDOW,
            WINDOWS_END - SHARED_WINDOW,
            libc::PROT_NONE,
            libc::MAP_FIXED_NOREPLACE,
        )
        .is_ok_and(|at| at == SHARED_WINDOW)
    })
}

/// `mmap` of fresh private pages.
fn map_pages(address: u64, size: u64, protection: i32, flags: i32) -> Result<u64, i32> {
    let hint = std::ptr::without_provenance_mut(address as usize);
    let flags = flags | libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    // SAFETY: `flags` never has MAP_FIXED, so no existing mapping is replaced,
    // and no memory of a Rust object changes.
    let at = unsafe { libc::mmap(hint, size as usize, protection, flags, -1, 0) };
    if at == libc::MAP_FAILED {
        Err(std::io::Error::last_os_error().raw_os_error().unwrap_or(0))
    } else {
        Ok(at.expose_provenance() as u64)
    }
}

/// `munmap` of pages that [`map_pages`] gave and nothing refers to.
fn unmap_pages(address: u64, size: u64) {
    let at = std::ptr::with_exposed_provenance_mut(address as usize);
    // SAFETY: callers pass only ranges that `map_pages` returned, after taking
    // them out of the region list under its write lock; no View can reach
    // them any more, and no reference into them ever existed.
    unsafe { libc::munmap(at, size as usize) };
}

impl Memory {
    /// An empty map. Reserves the address windows on first use in a process.
    pub fn new() -> Result<Memory, MapError> {
        if !reserve_windows() {
            return Err(MapError::Windows);
        }
        Ok(Memory {
            regions: RwLock::new(Regions::default()),
        })
    }

    /// Map `size` zeroed bytes (a multiple of a page) at any multiple of
    /// `align`, a power of two.
    pub fn map(&self, size: u64, align: u64) -> Result<u64, MapError> {
        self.map_with(size, align, Protection::ReadWrite)
    }

    /// Take address space that device code may not touch until
    /// [`Memory::protect`] allows it.
    pub fn reserve(&self, size: u64, align: u64) -> Result<u64, MapError> {
        self.map_with(size, align, Protection::None)
    }

    fn map_with(&self, size: u64, align: u64, protection: Protection) -> Result<u64, MapError> {
        let align = align.max(PAGE);
        if size == 0
            || !size.is_multiple_of(PAGE)
            || !align.is_power_of_two()
            || size.checked_add(align).is_none_or(|s| s > ADDRESS_END)
        {
            return Err(MapError::Invalid { address: 0, size });
        }
        let whole = size + align;
        let mut regions = self.regions.write();
        let at = map_pages(0, whole, libc::PROT_READ | libc::PROT_WRITE, 0)
            .map_err(|errno| MapError::NoMemory { size, errno })?;
        let start = at.next_multiple_of(align);
        if start > at {
            unmap_pages(at, start - at);
        }
        if at + whole > start + size {
            unmap_pages(start + size, at + whole - (start + size));
        }
        regions.insert(
            start,
            Region {
                end: start + size,
                protection,
                owner: Owner::Mapped,
            },
        );
        Ok(start)
    }

    /// Map `size` zeroed bytes at exactly `address`; both multiples of a page.
    pub fn map_fixed(&self, address: u64, size: u64) -> Result<(), MapError> {
        self.map_at(address, size, Owner::Mapped)
    }

    /// As [`Memory::map_fixed`], for memory that host and device share through
    /// atomics. It stays mapped until the process ends.
    pub fn map_host_fixed(&self, address: u64, size: u64) -> Result<driver::HostMapping, MapError> {
        self.map_at(address, size, Owner::Permanent)?;
        let extent = model::Extent {
            base: model::DeviceAddress(address),
            size,
        };
        // SAFETY: just mapped readable, writable and page-aligned; `Permanent`
        // regions are never unmapped; this module touches mapped memory only
        // as a device.
        Ok(unsafe { driver::HostMapping::from_mapped(extent) })
    }

    fn map_at(&self, address: u64, size: u64, owner: Owner) -> Result<(), MapError> {
        if size == 0
            || !size.is_multiple_of(PAGE)
            || !address.is_multiple_of(PAGE)
            || address.checked_add(size).is_none_or(|e| e > ADDRESS_END)
        {
            return Err(MapError::Invalid { address, size });
        }
        let mut regions = self.regions.write();
        if !regions.is_free(address, address + size) {
            return Err(MapError::InUse { address, size });
        }
        let at = map_pages(
            address,
            size,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_FIXED_NOREPLACE,
        )
        .map_err(|errno| {
            if errno == libc::EEXIST {
                MapError::InUse { address, size }
            } else {
                MapError::NoMemory { size, errno }
            }
        })?;
        if at != address {
            // Kernels before 4.17 take the address as a hint.
            unmap_pages(at, size);
            return Err(MapError::InUse { address, size });
        }
        regions.insert(
            address,
            Region {
                end: address + size,
                protection: Protection::ReadWrite,
                owner,
            },
        );
        Ok(())
    }

    /// Unmap a whole mapping by its first byte. Waits for running slices.
    pub fn unmap(&self, address: u64) -> Result<(), MapError> {
        let mut regions = self.regions.write();
        match regions.by_start.get(&address) {
            Some(&Region {
                end,
                owner: Owner::Mapped,
                ..
            }) => {
                regions.by_start.remove(&address);
                regions.changes += 1;
                unmap_pages(address, end - address);
                Ok(())
            }
            _ => Err(MapError::NotMapped { address }),
        }
    }

    /// Make memory of the program visible to device code (pinned memory).
    /// It must stay mapped, readable and writable until
    /// [`Memory::unregister`]; that it is mapped now is checked.
    pub fn register(&self, address: u64, size: u64) -> Result<(), MapError> {
        if size == 0 || address == 0 || address.checked_add(size).is_none_or(|e| e > ADDRESS_END) {
            return Err(MapError::Invalid { address, size });
        }
        let first = address - address % PAGE;
        let pages = (address + size).next_multiple_of(PAGE) - first;
        let mut resident = vec![0u8; (pages / PAGE) as usize];
        // SAFETY: mincore writes one byte a page into `resident`, which has
        // that many; it reads nothing at `first`.
        let rc = unsafe {
            libc::mincore(
                std::ptr::with_exposed_provenance_mut(first as usize),
                pages as usize,
                resident.as_mut_ptr().cast(),
            )
        };
        if rc != 0 {
            return Err(MapError::NotMapped { address });
        }
        let mut regions = self.regions.write();
        if !regions.is_free(address, address + size) {
            return Err(MapError::InUse { address, size });
        }
        regions.insert(
            address,
            Region {
                end: address + size,
                protection: Protection::ReadWrite,
                owner: Owner::Registered,
            },
        );
        Ok(())
    }

    /// Whether device code may access all memory of the program, as it is mapped
    /// when it does.
    pub fn admit_host(&self, admits: bool) {
        self.regions.write().admits_host = admits;
    }

    /// Whether host memory is admitted ([`Memory::admit_host`]).
    pub fn admits_host(&self) -> bool {
        self.regions.read().admits_host
    }

    /// Undo [`Memory::register`]. Waits for running slices.
    pub fn unregister(&self, address: u64) -> Result<(), MapError> {
        let mut regions = self.regions.write();
        match regions.by_start.get(&address) {
            Some(Region {
                owner: Owner::Registered,
                ..
            }) => {
                regions.by_start.remove(&address);
                regions.changes += 1;
                Ok(())
            }
            _ => Err(MapError::NotMapped { address }),
        }
    }

    /// Change what device code may do with `address .. address + size`, which
    /// must lie inside one mapping; the mapping is split where needed.
    pub fn protect(&self, address: u64, size: u64, protection: Protection) -> Result<(), MapError> {
        let mut regions = self.regions.write();
        let Some((start, region)) = regions.at(address) else {
            return Err(MapError::NotMapped { address });
        };
        if size == 0 || address.checked_add(size).is_none_or(|end| end > region.end) {
            return Err(MapError::Invalid { address, size });
        }
        regions.by_start.remove(&start);
        if start < address {
            regions.insert(
                start,
                Region {
                    end: address,
                    ..region
                },
            );
        }
        regions.insert(
            address,
            Region {
                end: address + size,
                protection,
                ..region
            },
        );
        if address + size < region.end {
            regions.insert(address + size, region);
        }
        Ok(())
    }

    /// Whether device code may read all of `address .. address + size`.
    pub fn is_mapped(&self, address: u64, size: u64) -> bool {
        self.view().check(address, size, false).is_ok()
    }

    /// Accesses for one thread of the host. Holds back changes to the map
    /// while it lives: do not keep it over a call of `map` or `unmap`.
    pub fn view(&self) -> View<'_> {
        View::new(self.regions.read())
    }

    /// Copy bytes out of device memory.
    pub fn read(&self, address: u64, bytes: &mut [u8]) -> Result<(), AccessFault> {
        self.view().read(address, bytes)
    }

    /// Copy bytes into device memory.
    pub fn write(&self, address: u64, bytes: &[u8]) -> Result<(), AccessFault> {
        self.view().write(address, bytes)
    }

    /// Copy within device memory; the ranges may overlap.
    pub fn copy(&self, to: u64, from: u64, size: u64) -> Result<(), AccessFault> {
        let mut view = self.view();
        view.check_range(from, size, false)?;
        view.check_range(to, size, true)?;
        // SAFETY: both ranges were checked under the view's lock, which is
        // still held; `copy` allows overlap.
        unsafe { std::ptr::copy(pointer::<u8>(from), pointer_mut::<u8>(to), size as usize) };
        Ok(())
    }

    /// Store a pattern of 1, 2, 4, … bytes `count` times from `address` on.
    pub fn fill(&self, address: u64, pattern: &[u8], count: u64) -> Result<(), AccessFault> {
        let mut view = self.view();
        let size = count.saturating_mul(pattern.len() as u64);
        view.check_range(address, size, true)?;
        if let Some(&first) = pattern.first()
            && pattern.iter().all(|b| *b == first)
        {
            if first == 0 && physical::give_up(address, size) {
                return Ok(());
            }
            // SAFETY: checked just above, under the lock that `view` holds.
            unsafe { std::ptr::write_bytes(pointer_mut::<u8>(address), first, size as usize) };
            return Ok(());
        }
        for i in 0..count {
            let at = address + i * pattern.len() as u64;
            // SAFETY: `at + pattern.len() <= address + size`, checked above.
            unsafe {
                std::ptr::copy_nonoverlapping(
                    pattern.as_ptr(),
                    pointer_mut::<u8>(at),
                    pattern.len(),
                )
            };
        }
        Ok(())
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        for (start, region) in std::mem::take(&mut self.regions.get_mut().by_start) {
            if region.owner == Owner::Mapped {
                unmap_pages(start, region.end - start);
            }
        }
    }
}
