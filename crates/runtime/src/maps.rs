//! What this process has mapped, from proc(5).

use driver::Driver;
use model::DeviceAddress;
use parking_lot::RwLock;

/// Memory of the host that the device may access as it is. What was found once
/// is believed: that it is unmapped since the device itself will say.
#[derive(Default)]
pub(crate) struct HostMemory {
    found: RwLock<Vec<std::ops::Range<u64>>>,
}

impl HostMemory {
    /// Whether an address is the program's own, and the device may access it.
    pub fn holds(&self, driver: &dyn Driver, address: DeviceAddress) -> bool {
        if !driver.accesses_pageable_memory() {
            return false;
        }
        let is_in = |range: &std::ops::Range<u64>| range.contains(&address.0);
        if self.found.read().iter().any(is_in) {
            return true;
        }
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
        let found: Vec<_> = accessible(&maps).collect();
        let holds = found.iter().any(is_in);
        *self.found.write() = found;
        holds
    }
}

/// Whether the program itself can read the byte at an address: then it may be
/// memory of its own, whatever was there before. Slow; `true` if it cannot be
/// found out.
pub(crate) fn is_accessible(address: u64) -> bool {
    std::fs::read_to_string("/proc/self/maps").map_or(true, |maps| accessible_in(&maps, address))
}

fn accessible_in(maps: &str, address: u64) -> bool {
    accessible(maps).any(|range| range.contains(&address))
}

fn accessible(maps: &str) -> impl Iterator<Item = std::ops::Range<u64>> {
    maps.lines().filter_map(|line| {
        let (range, rest) = line.split_once(' ')?;
        let (start, end) = range.split_once('-')?;
        let number = |text| u64::from_str_radix(text, 16).unwrap_or(0);
        // The driver maps its own device files over what it gives out.
        let readable = rest.starts_with('r') && !rest.contains("/dev/nvidia");
        readable.then(|| number(start)..number(end))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_memory_is_accessible_and_reserved_addresses_are_not() {
        let here = 0u8;
        assert!(is_accessible(&raw const here as u64));
        assert!(!is_accessible(16));
        let maps = "1000-2000 ---p 00000000 00:00 0\n2000-3000 rw-p 0 00:00 0 /dev/nvidia-uvm\n\
                    3000-4000 rw-p 0 00:00 0\n";
        let accessible = |address| accessible_in(maps, address);
        assert_eq!(
            [0x1800, 0x2800, 0x3000, 0x4000].map(accessible),
            [false, false, true, false]
        );
    }
}
