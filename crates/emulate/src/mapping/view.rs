//! Checked accesses to the memory that a [`Memory`](super::Memory) lists.

use super::bytes::{Reach, gather_raw, scatter_raw};
use super::cells::{Atomic, Plain, pointer, pointer_mut};
use super::{AccessFault, LANES, Protection, Regions};
use parking_lot::RwLockReadGuard;

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

impl<'m> View<'m> {
    pub(super) fn new(regions: RwLockReadGuard<'m, Regions>) -> View<'m> {
        View {
            changes: regions.changes,
            regions,
            cache: [CachedRegion::EMPTY; CACHE],
        }
    }
    /// Allow pending changes of the map to be made.
    pub fn renew(&mut self) {
        RwLockReadGuard::bump(&mut self.regions);
        if self.regions.changes != self.changes {
            self.changes = self.regions.changes;
            self.cache = [CachedRegion::EMPTY; CACHE];
        }
    }

    /// Allows changes of the map to be made while `work` runs, which accesses
    /// no memory.
    pub fn rest(&mut self, work: impl FnOnce()) {
        RwLockReadGuard::unlocked(&mut self.regions, work);
        self.renew();
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
        let known = self.regions.at(address);
        let (start, region) = known
            .or_else(|| self.regions.host_at(address))
            .ok_or(unmapped)?;
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
            let known = self.regions.at(at).or_else(|| self.regions.host_at(at));
            let (_, region) = known.ok_or(AccessFault::Unmapped {
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
