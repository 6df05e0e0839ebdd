//! Reservations of addresses, physical memory, and mappings.

use std::collections::BTreeMap;

/// Address space with the bounds at which the memory map was split.
pub(crate) struct Reservation {
    pub size: u64,
    /// Pieces by first byte, with their lengths; they cover the reservation.
    pub pieces: BTreeMap<u64, u64>,
}

pub(crate) struct Physical {
    pub size: u64,
    /// Released, but still mapped.
    pub released: bool,
    pub mapped_at: Option<u64>,
    /// Contents while it is not mapped.
    pub kept: Option<Vec<u8>>,
}

#[derive(Default)]
pub(crate) struct Vmm {
    pub reservations: BTreeMap<u64, Reservation>,
    pub physical: BTreeMap<u64, Physical>,
    /// Mappings by first byte: length and physical memory.
    pub mappings: BTreeMap<u64, (u64, u64)>,
}

impl Vmm {
    pub(crate) fn reservation_of(&mut self, address: u64, size: u64) -> Option<&mut Reservation> {
        let (start, reservation) = self.reservations.range_mut(..=address).next_back()?;
        let end = address.checked_add(size)?;
        (end <= start + reservation.size).then_some(reservation)
    }
}
