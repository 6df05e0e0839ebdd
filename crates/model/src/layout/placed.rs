//! Where allocations lie whose addresses Ringfence chooses (`heap::placed`), and
//! the granule in which the device maps memory.
//!
//! ```text
//! 0x4000_0000_0000  blocks of the device heap (`heap`), 256 GiB
//! 0x4100_0000_0000  placed allocations, 8 TiB
//! ```

/// First address of placed allocations. The driver honours a hint for this part
/// of the address space (measured on an H200, driver 580).
pub const PLACED_BASE: u64 = 0x4100_0000_0000;
/// Bytes of addresses for them.
pub const PLACED_RESERVED: u64 = 1 << 43;
/// Bytes in which device memory is mapped: the driver's granularity (measured on
/// driver 580), of which each physical allocation has a multiple.
pub const MAPPING_GRANULE: u64 = 2 << 20;

/// Whether an address is one of those of placed allocations.
pub const fn is_placed(address: u64) -> bool {
    address.wrapping_sub(PLACED_BASE) < PLACED_RESERVED
}

const _: () = {
    assert!(super::heap::HEAP_BASE + super::heap::HEAP_RESERVED <= PLACED_BASE);
    assert!(PLACED_BASE + PLACED_RESERVED <= 1 << 47);
    assert!(PLACED_BASE.is_multiple_of(MAPPING_GRANULE));
    assert!(PLACED_RESERVED.is_multiple_of(MAPPING_GRANULE));
};
