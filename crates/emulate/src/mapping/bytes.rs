//! Accesses of a whole warp at once, and memory that only its owner touches.

use super::cells::{Plain, pointer, pointer_mut};
use super::{ADDRESS_END, AccessFault, LANES};

/// Lowest and highest address of a warp's access, and whether consecutive
/// lanes access consecutive elements.
pub(super) struct Reach {
    pub low: u64,
    pub high: u64,
    coalesced: bool,
}

impl Reach {
    /// `None` if some lane is misaligned or no lane is active.
    #[inline(always)]
    pub fn of<T>(addresses: &[u64; LANES], mask: u32) -> Option<Reach> {
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
pub(super) unsafe fn gather_raw<T: Plain>(
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
pub(super) unsafe fn scatter_raw<T: Plain>(
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

    /// Make it `size` bytes, all of which are this one.
    pub fn reset(&mut self, size: u64, byte: u8) {
        self.words.clear();
        let word = u128::from_ne_bytes([byte; 16]);
        self.words.resize(size.div_ceil(16) as usize, word);
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
        // SAFETY: as in `load`; `&mut self` gives exclusive access.
        unsafe { pointer_mut::<T>(self.base_mut() + offset).write_unaligned(value) };
        Ok(())
    }

    /// As [`View::gather`](super::View::gather), by offsets.
    #[inline(always)]
    pub fn gather<T: Plain>(&self, offsets: &[u64; LANES], mask: u32) -> Option<[T; LANES]> {
        let reach = Reach::of::<T>(offsets, mask)?;
        if reach.high + size_of::<T>() as u64 > self.size {
            return None;
        }
        // SAFETY: all offsets end within `self.size`.
        Some(unsafe { gather_raw(self.base(), &reach, offsets, mask) })
    }

    /// As [`View::scatter`](super::View::scatter), by offsets.
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
