//! Reservations of addresses, physical memory, and mappings.

use crate::mapping::Pages;
use std::collections::BTreeMap;

/// Address space with the bounds at which the memory map was split.
pub(crate) struct Reservation {
    pub size: u64,
    /// Pieces by first byte, with their lengths; they cover the reservation.
    pub pieces: BTreeMap<u64, u64>,
}

pub(crate) struct Physical {
    pub size: u64,
    /// Place among the device's pages.
    pub offset: u64,
    /// Released, but still mapped.
    pub released: bool,
    /// At how many addresses it is mapped.
    pub mappings: u32,
}

#[derive(Default)]
pub(crate) struct Vmm {
    /// The bytes of physical memory.
    pub pages: Pages,
    pub reservations: BTreeMap<u64, Reservation>,
    pub physical: BTreeMap<u64, Physical>,
    /// Bytes of it.
    pub used: u64,
    /// Mappings by first byte: length and physical memory.
    pub mappings: BTreeMap<u64, (u64, u64)>,
}

impl Vmm {
    /// Lets physical memory go that is released and not mapped.
    pub(crate) fn drop_if_unused(&mut self, handle: u64) {
        if let Some(physical) = self.physical.get(&handle)
            && physical.released
            && physical.mappings == 0
        {
            self.pages.give_back(physical.offset, physical.size);
            self.used -= physical.size;
            self.physical.remove(&handle);
        }
    }

    pub(crate) fn reservation_of(&mut self, address: u64, size: u64) -> Option<&mut Reservation> {
        let (start, reservation) = self.reservations.range_mut(..=address).next_back()?;
        let end = address.checked_add(size)?;
        (end <= start + reservation.size).then_some(reservation)
    }
}
