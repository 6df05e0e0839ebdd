//! Memory that device code sees, and every access to it.
//!
//! A device address *is* the host address of mapped memory. [`Memory`] keeps
//! the list of ranges that device code may touch; [`View`] checks each access
//! against that list and only then touches memory. [`Bytes`] is memory of one
//! block or warp (shared, local), addressed by offsets. This is the crate's
//! only module with `unsafe`; it must never hand out a pointer or a Rust
//! reference into device memory, because kernels and the program's own
//! threads change it at any time.
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

use parking_lot::{RwLock, RwLockReadGuard};
use std::collections::BTreeMap;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering, fence};

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
    #[error("the address windows of shared and local memory are taken in this process")]
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

/// Who made a range.
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
    /// Changes so far, so that a [`View`] knows when its cache is stale.
    changes: u64,
}

impl Regions {
    fn at(&self, address: u64) -> Option<(u64, Region)> {
        let (&start, &region) = self.by_start.range(..=address).next_back()?;
        (address < region.end).then_some((start, region))
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
    // SAFETY: `flags` never has MAP_FIXED, so no existing mapping is replaced
    // and no memory that Rust knows of changes.
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
        let regions = self.regions.read();
        View {
            changes: regions.changes,
            regions,
            cache: [CachedRegion::EMPTY; CACHE],
        }
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

#[inline(always)]
fn pointer<T>(address: u64) -> *const T {
    std::ptr::with_exposed_provenance(address as usize)
}

#[inline(always)]
fn pointer_mut<T>(address: u64) -> *mut T {
    std::ptr::with_exposed_provenance_mut(address as usize)
}

mod sealed {
    pub trait Sealed {}
}

/// Values that memory holds as they are: every bit pattern is one.
pub trait Plain: Copy + Default + sealed::Sealed + 'static {}

macro_rules! plain {
    ($($t:ty),*) => { $(impl sealed::Sealed for $t {} impl Plain for $t {})* };
}
plain!(u8, u16, u32, u64, u128, [u128; 2]);

/// Integers that the host can compare and exchange.
pub trait Atomic: Plain + PartialEq {
    /// Apply `f` until it takes; gives the value before.
    ///
    /// # Safety
    /// `at` is mapped, writable and aligned for the type.
    #[doc(hidden)]
    unsafe fn update(at: *mut Self, f: impl FnMut(Self) -> Self) -> Self;
}

macro_rules! atomic {
    ($($t:ty, $a:ty);*) => { $(
        impl Atomic for $t {
            #[inline(always)]
            unsafe fn update(at: *mut $t, mut f: impl FnMut($t) -> $t) -> $t {
                // SAFETY: the caller's promise is what from_ptr asks for.
                let cell = unsafe { <$a>::from_ptr(at) };
                let mut old = cell.load(Ordering::SeqCst);
                loop {
                    match cell.compare_exchange_weak(old, f(old), Ordering::SeqCst, Ordering::SeqCst) {
                        Ok(before) => return before,
                        Err(now) => old = now,
                    }
                }
            }
        }
    )* };
}
atomic!(u8, AtomicU8; u16, AtomicU16; u32, AtomicU32; u64, AtomicU64);

impl Atomic for u128 {
    unsafe fn update(at: *mut u128, mut f: impl FnMut(u128) -> u128) -> u128 {
        static ONE_AT_A_TIME: parking_lot::Mutex<()> = parking_lot::Mutex::new(());
        if std::arch::is_x86_feature_detected!("cmpxchg16b") {
            let mut old = 0;
            loop {
                // SAFETY: the instruction is there; mapped, writable and
                // aligned by the caller's promise.
                let seen = unsafe { compare_exchange_16(at, old, f(old)) };
                if seen == old {
                    return old;
                }
                old = seen;
            }
        }
        let _one = ONE_AT_A_TIME.lock();
        // SAFETY: the caller's promise. Without the instruction, 16-byte
        // atomics are atomic against each other only.
        unsafe {
            let old = at.read();
            at.write(f(old));
            old
        }
    }
}

/// `lock cmpxchg16b`; gives the value before. In assembly because the
/// compiler calls a library that is not linked unless the whole program is
/// compiled for the feature.
///
/// # Safety
/// `at` is mapped, writable, 16-byte aligned; the processor has the instruction.
unsafe fn compare_exchange_16(at: *mut u128, old: u128, new: u128) -> u128 {
    let (mut low, mut high) = (old as u64, (old >> 64) as u64);
    // SAFETY: accesses 16 bytes at `at`, which the caller vouches for; rbx,
    // which the compiler reserves, is saved in rsi and restored.
    unsafe {
        std::arch::asm!(
            "xchg rsi, rbx",
            "lock cmpxchg16b [rdi]",
            "mov rbx, rsi",
            inout("rax") low,
            inout("rdx") high,
            in("rcx") (new >> 64) as u64,
            inout("rsi") new as u64 => _,
            in("rdi") at,
            options(nostack)
        );
    }
    u128::from(low) | u128::from(high) << 64
}

const CACHE: usize = 64;

#[derive(Clone, Copy)]
struct CachedRegion {
    start: u64,
    end: u64,
    writable: bool,
}

impl CachedRegion {
    const EMPTY: CachedRegion = CachedRegion {
        start: 1,
        end: 0,
        writable: false,
    };
}

/// Checked accesses by one thread of the host.
pub struct View<'m> {
    regions: RwLockReadGuard<'m, Regions>,
    changes: u64,
    /// By bits 21 and up of the address: regions hit last.
    cache: [CachedRegion; CACHE],
}

impl View<'_> {
    /// Let waiting changes to the map happen.
    pub fn renew(&mut self) {
        RwLockReadGuard::bump(&mut self.regions);
        if self.regions.changes != self.changes {
            self.changes = self.regions.changes;
            self.cache = [CachedRegion::EMPTY; CACHE];
        }
    }

    /// Whether `address .. address + size` lies in one region.
    #[inline(always)]
    pub fn check(&mut self, address: u64, size: u64, write: bool) -> Result<(), AccessFault> {
        let entry = &self.cache[(address >> 21) as usize % CACHE];
        // Regions end below 2^47, so the sum wraps for no hit.
        if address >= entry.start
            && address.wrapping_add(size) <= entry.end
            && address < entry.end
            && (!write || entry.writable)
        {
            return Ok(());
        }
        self.check_slowly(address, size, write)
    }

    #[cold]
    #[inline(never)]
    fn check_slowly(&mut self, address: u64, size: u64, write: bool) -> Result<(), AccessFault> {
        let unmapped = AccessFault::Unmapped { address, size };
        let (start, region) = self.regions.at(address).ok_or(unmapped)?;
        if region.protection == Protection::None
            || address.checked_add(size).is_none_or(|end| end > region.end)
        {
            return Err(unmapped);
        }
        let writable = region.protection == Protection::ReadWrite;
        self.cache[(address >> 21) as usize % CACHE] = CachedRegion {
            start,
            end: region.end,
            writable,
        };
        if write && !writable {
            Err(AccessFault::ReadOnly { address, size })
        } else {
            Ok(())
        }
    }

    /// As [`View::check`], over several adjacent regions.
    pub fn check_range(&mut self, address: u64, size: u64, write: bool) -> Result<(), AccessFault> {
        let end = address
            .checked_add(size)
            .ok_or(AccessFault::Unmapped { address, size })?;
        let mut at = address;
        while at < end {
            let (_, region) = self.regions.at(at).ok_or(AccessFault::Unmapped {
                address: at,
                size: end - at,
            })?;
            self.check(at, region.end.min(end) - at, write)?;
            at = region.end;
        }
        Ok(())
    }

    /// Copy bytes out.
    pub fn read(&mut self, address: u64, bytes: &mut [u8]) -> Result<(), AccessFault> {
        self.check_range(address, bytes.len() as u64, false)?;
        // SAFETY: the range was checked under the lock this view holds; it
        // cannot overlap `bytes`, except for registered memory, which `copy` allows.
        unsafe { std::ptr::copy(pointer::<u8>(address), bytes.as_mut_ptr(), bytes.len()) };
        Ok(())
    }

    /// Copy bytes in.
    pub fn write(&mut self, address: u64, bytes: &[u8]) -> Result<(), AccessFault> {
        self.check_range(address, bytes.len() as u64, true)?;
        // SAFETY: as in `read`.
        unsafe { std::ptr::copy(bytes.as_ptr(), pointer_mut::<u8>(address), bytes.len()) };
        Ok(())
    }

    /// One aligned load.
    #[inline(always)]
    pub fn load<T: Plain>(&mut self, address: u64) -> Result<T, AccessFault> {
        let size = size_of::<T>() as u64;
        if !address.is_multiple_of(size) {
            return Err(AccessFault::Misaligned { address, size });
        }
        self.check(address, size, false)?;
        // SAFETY: mapped, readable (checked under the lock); T is Plain.
        Ok(unsafe { pointer::<T>(address).read_unaligned() })
    }

    /// One aligned store.
    #[inline(always)]
    pub fn store<T: Plain>(&mut self, address: u64, value: T) -> Result<(), AccessFault> {
        let size = size_of::<T>() as u64;
        if !address.is_multiple_of(size) {
            return Err(AccessFault::Misaligned { address, size });
        }
        self.check(address, size, true)?;
        // SAFETY: mapped, writable (checked under the lock).
        unsafe { pointer_mut::<T>(address).write_unaligned(value) };
        Ok(())
    }

    /// One atomic read-modify-write; gives the value before.
    #[inline(always)]
    pub fn update<T: Atomic>(
        &mut self,
        address: u64,
        f: impl FnMut(T) -> T,
    ) -> Result<T, AccessFault> {
        let size = size_of::<T>() as u64;
        if !address.is_multiple_of(size) {
            return Err(AccessFault::Misaligned { address, size });
        }
        self.check(address, size, true)?;
        // SAFETY: mapped, writable, aligned (checked just above).
        Ok(unsafe { T::update(pointer_mut::<T>(address), f) })
    }

    /// Loads of the lanes of `mask`, if they are all aligned and fall into one
    /// region; else nothing is touched. Other lanes hold anything.
    #[inline(always)]
    pub fn gather<T: Plain>(&mut self, addresses: &[u64; LANES], mask: u32) -> Option<[T; LANES]> {
        let reach = Reach::of::<T>(addresses, mask)?;
        self.check(
            reach.low,
            reach.high - reach.low + size_of::<T>() as u64,
            false,
        )
        .ok()?;
        // SAFETY: every lane's address lies between low and high, which one
        // readable region holds (checked under the lock).
        Some(unsafe { gather_raw(0, &reach, addresses, mask) })
    }

    /// Stores of the lanes of `mask`, lowest first, under the same conditions
    /// as [`View::gather`]; says whether it did.
    #[inline(always)]
    pub fn scatter<T: Plain>(
        &mut self,
        addresses: &[u64; LANES],
        mask: u32,
        values: &[T; LANES],
    ) -> bool {
        let Some(reach) = Reach::of::<T>(addresses, mask) else {
            return false;
        };
        if self
            .check(
                reach.low,
                reach.high - reach.low + size_of::<T>() as u64,
                true,
            )
            .is_err()
        {
            return false;
        }
        // SAFETY: as in `gather`, and writable.
        unsafe { scatter_raw(0, &reach, addresses, mask, values) };
        true
    }
}

/// Lowest and highest address of a warp's access, and whether consecutive
/// lanes access consecutive elements.
struct Reach {
    low: u64,
    high: u64,
    coalesced: bool,
}

impl Reach {
    /// `None` if some lane is misaligned or no lane is active.
    #[inline(always)]
    fn of<T>(addresses: &[u64; LANES], mask: u32) -> Option<Reach> {
        let size = size_of::<T>() as u64;
        if mask == u32::MAX {
            let first = addresses[0];
            let (mut strays, mut differs) = (0u64, 0u64);
            for lane in 0..LANES {
                strays |= addresses[lane] & (size - 1);
                differs |= addresses[lane] ^ first.wrapping_add(lane as u64 * size);
            }
            if strays != 0 {
                return None;
            }
            if differs == 0 && first < ADDRESS_END {
                return Some(Reach {
                    low: first,
                    high: first + 31 * size,
                    coalesced: true,
                });
            }
            // Signed comparison vectorizes; addresses from 2^63 on become the
            // lowest and fail the region check.
            let (mut low, mut high) = (first as i64, first as i64);
            for &address in addresses {
                low = low.min(address as i64);
                high = high.max(address as i64);
            }
            if low < 0 {
                return None;
            }
            return Some(Reach {
                low: low as u64,
                high: high as u64,
                coalesced: false,
            });
        }
        if mask == 0 {
            return None;
        }
        let (mut low, mut high, mut strays) = (u64::MAX, 0, 0);
        let mut rest = mask;
        while rest != 0 {
            let address = addresses[rest.trailing_zeros() as usize % LANES];
            low = low.min(address);
            high = high.max(address);
            strays |= address & (size - 1);
            rest &= rest - 1;
        }
        (strays == 0 && high < ADDRESS_END).then_some(Reach {
            low,
            high,
            coalesced: false,
        })
    }
}

/// # Safety
/// `base + low .. base + high + size` is mapped and readable.
#[inline(always)]
unsafe fn gather_raw<T: Plain>(
    base: u64,
    reach: &Reach,
    addresses: &[u64; LANES],
    mask: u32,
) -> [T; LANES] {
    let mut out = [T::default(); LANES];
    if reach.coalesced {
        // SAFETY: 32 elements from `low` on end at `high + size`.
        unsafe {
            std::ptr::copy_nonoverlapping(
                pointer::<u8>(base + reach.low),
                out.as_mut_ptr().cast(),
                size_of_val(&out),
            )
        };
    } else if mask == u32::MAX {
        if reach.low == reach.high {
            // SAFETY: `low` is in the range.
            return [unsafe { pointer::<T>(base + reach.low).read_unaligned() }; LANES];
        }
        for lane in 0..LANES {
            // SAFETY: between low and high.
            out[lane] = unsafe { pointer::<T>(base + addresses[lane]).read_unaligned() };
        }
    } else {
        let mut rest = mask;
        while rest != 0 {
            let lane = rest.trailing_zeros() as usize % LANES;
            // SAFETY: between low and high.
            out[lane] = unsafe { pointer::<T>(base + addresses[lane]).read_unaligned() };
            rest &= rest - 1;
        }
    }
    out
}

/// # Safety
/// `base + low .. base + high + size` is mapped and writable.
#[inline(always)]
unsafe fn scatter_raw<T: Plain>(
    base: u64,
    reach: &Reach,
    addresses: &[u64; LANES],
    mask: u32,
    values: &[T; LANES],
) {
    if reach.coalesced {
        // SAFETY: 32 elements from `low` on end at `high + size`.
        unsafe {
            std::ptr::copy_nonoverlapping(
                values.as_ptr().cast(),
                pointer_mut::<u8>(base + reach.low),
                size_of_val(values),
            )
        };
    } else {
        let mut rest = mask;
        while rest != 0 {
            let lane = rest.trailing_zeros() as usize % LANES;
            // SAFETY: between low and high.
            unsafe { pointer_mut::<T>(base + addresses[lane]).write_unaligned(values[lane]) };
            rest &= rest - 1;
        }
    }
}

/// Memory of one block or warp, addressed from 0. Only its owner touches it.
#[derive(Default)]
pub struct Bytes {
    words: Vec<u128>,
    size: u64,
}

impl Bytes {
    /// `size` zeroed bytes.
    pub fn new(size: u64) -> Bytes {
        Bytes {
            words: vec![0; size.div_ceil(16) as usize],
            size,
        }
    }

    /// Bytes held.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Make it `size` bytes, all zero.
    pub fn reset(&mut self, size: u64) {
        self.words.clear();
        self.words.resize(size.div_ceil(16) as usize, 0);
        self.size = size;
    }

    #[inline(always)]
    fn base(&self) -> u64 {
        self.words.as_ptr().expose_provenance() as u64
    }

    #[inline(always)]
    fn base_mut(&mut self) -> u64 {
        self.words.as_mut_ptr().expose_provenance() as u64
    }

    #[inline(always)]
    fn check<T>(&self, offset: u64) -> Result<(), AccessFault> {
        let size = size_of::<T>() as u64;
        if !offset.is_multiple_of(size) {
            return Err(AccessFault::Misaligned {
                address: offset,
                size,
            });
        }
        if offset >= self.size || self.size - offset < size {
            return Err(AccessFault::Unmapped {
                address: offset,
                size,
            });
        }
        Ok(())
    }

    /// One aligned load.
    #[inline(always)]
    pub fn load<T: Plain>(&self, offset: u64) -> Result<T, AccessFault> {
        self.check::<T>(offset)?;
        // SAFETY: `offset + size_of::<T>() <= self.size`, checked above.
        Ok(unsafe { pointer::<T>(self.base() + offset).read_unaligned() })
    }

    /// One aligned store.
    #[inline(always)]
    pub fn store<T: Plain>(&mut self, offset: u64, value: T) -> Result<(), AccessFault> {
        self.check::<T>(offset)?;
        // SAFETY: as in `load`; `&mut self` makes it ours alone.
        unsafe { pointer_mut::<T>(self.base_mut() + offset).write_unaligned(value) };
        Ok(())
    }

    /// As [`View::gather`], by offsets.
    #[inline(always)]
    pub fn gather<T: Plain>(&self, offsets: &[u64; LANES], mask: u32) -> Option<[T; LANES]> {
        let reach = Reach::of::<T>(offsets, mask)?;
        if reach.high + size_of::<T>() as u64 > self.size {
            return None;
        }
        // SAFETY: all offsets end within `self.size`.
        Some(unsafe { gather_raw(self.base(), &reach, offsets, mask) })
    }

    /// As [`View::scatter`], by offsets.
    #[inline(always)]
    pub fn scatter<T: Plain>(
        &mut self,
        offsets: &[u64; LANES],
        mask: u32,
        values: &[T; LANES],
    ) -> bool {
        let Some(reach) = Reach::of::<T>(offsets, mask) else {
            return false;
        };
        if reach.high + size_of::<T>() as u64 > self.size {
            return false;
        }
        // SAFETY: all offsets end within `self.size`; `&mut self`.
        unsafe { scatter_raw(self.base_mut(), &reach, offsets, mask, values) };
        true
    }

    /// Copy bytes out.
    pub fn read(&self, offset: u64, bytes: &mut [u8]) -> Result<(), AccessFault> {
        let size = bytes.len() as u64;
        if offset.checked_add(size).is_none_or(|end| end > self.size) {
            return Err(AccessFault::Unmapped {
                address: offset,
                size,
            });
        }
        // SAFETY: within `self.size`, checked above; `bytes` is another object.
        unsafe {
            std::ptr::copy_nonoverlapping(
                pointer::<u8>(self.base() + offset),
                bytes.as_mut_ptr(),
                bytes.len(),
            )
        };
        Ok(())
    }

    /// Copy bytes in.
    pub fn write(&mut self, offset: u64, bytes: &[u8]) -> Result<(), AccessFault> {
        let size = bytes.len() as u64;
        if offset.checked_add(size).is_none_or(|end| end > self.size) {
            return Err(AccessFault::Unmapped {
                address: offset,
                size,
            });
        }
        // SAFETY: within `self.size`, checked above; `bytes` is another object.
        unsafe {
            std::ptr::copy_nonoverlapping(
                bytes.as_ptr(),
                pointer_mut::<u8>(self.base_mut() + offset),
                bytes.len(),
            )
        };
        Ok(())
    }
}

/// Order all accesses before against all accesses after, for every thread.
pub fn full_fence() {
    fence(Ordering::SeqCst);
}

/// Code that is compiled twice: for any x86-64, and for processors with AVX2
/// and FMA.
pub trait Twice {
    /// What the code gives.
    type Output;
    /// The code; must be `#[inline(always)]`. `wide`: this is the compilation
    /// for AVX2 and FMA.
    fn run(self, wide: bool) -> Self::Output;
}

/// Proof that the processor has AVX2, FMA, BMI and F16C.
#[derive(Clone, Copy, Debug)]
pub struct Wide(());

impl Wide {
    /// `None` if the processor lacks one of them.
    pub fn detect() -> Option<Wide> {
        use std::arch::is_x86_feature_detected as has;
        (has!("avx2")
            && has!("fma")
            && has!("bmi1")
            && has!("bmi2")
            && has!("f16c")
            && has!("lzcnt")
            && has!("popcnt"))
        .then_some(Wide(()))
    }
}

#[target_feature(enable = "avx2,fma,bmi1,bmi2,f16c,lzcnt,popcnt")]
fn run_wide<T: Twice>(code: T) -> T::Output {
    code.run(true)
}

/// Run the code compiled for AVX2 and FMA where the processor has them, else
/// the same code compiled for any x86-64. The results are the same.
#[inline(always)]
pub fn twice<T: Twice>(wide: Option<Wide>, code: T) -> T::Output {
    match wide {
        // SAFETY: a `Wide` exists only if `detect` found every feature that
        // `run_wide` enables.
        Some(Wide(())) => unsafe { run_wide(code) },
        None => code.run(false),
    }
}
