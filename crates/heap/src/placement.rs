//! How many bytes to allocate for a request.

/// Bytes to allocate so that `base + size` is an address of this allocation and
/// of no other: otherwise a pointer one past the end would be looked up as a
/// pointer to the next buffer. The driver aligns allocations to 256 bytes or
/// more, one lookup granule, so one byte more is enough.
///
/// A size of 0 stays 0: the driver refuses it, and the program must get that
/// error.
pub fn padded_size(size: u64) -> u64 {
    if size == 0 { 0 } else { size.saturating_add(1) }
}

#[cfg(test)]
mod tests {
    use super::padded_size;
    use model::layout::GRANULE_SHIFT;

    #[test]
    fn one_past_the_end_lies_in_a_granule_of_the_padded_allocation() {
        for size in [1u64, 255, 256, 257, 512, 2 << 20] {
            let last_granule = (padded_size(size) - 1) >> GRANULE_SHIFT;
            assert!(size >> GRANULE_SHIFT <= last_granule, "size {size}");
        }
    }

    #[test]
    fn sizes_that_the_driver_refuses_are_passed_on() {
        assert_eq!(padded_size(0), 0);
        assert_eq!(padded_size(u64::MAX), u64::MAX);
    }
}
