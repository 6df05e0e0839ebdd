//! Where the small caches of threads keep what has a key.

/// The place of a key, of so many places, a power of two. Keys are addresses, or
/// small numbers: neighbours lie far apart.
#[inline]
pub(crate) const fn place(key: u64, places: usize) -> usize {
    // The golden ratio.
    let spread = key.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (spread >> (u64::BITS - places.ilog2())) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_lie_apart_and_all_places_are_used() {
        for places in [2usize, 64, 256] {
            let mut used: Vec<usize> = (0..8 * places as u64)
                .map(|key| place(key, places))
                .collect();
            assert!(
                used.windows(2)
                    .all(|pair| pair[0] != pair[1] || places == 2)
            );
            used.sort_unstable();
            used.dedup();
            assert_eq!(used, (0..places).collect::<Vec<_>>());
        }
    }
}
