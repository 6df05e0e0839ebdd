//! The algebra of shadow memory: which shadow bytes an allocation with redzones
//! has, how large redzones are, and what a check decides from shadow bytes.
//!
//! The last is [`passes`], the specification of the check code that the
//! instrumentation writes; tests compare both with a byte-exact oracle.

use model::layout::shadow::Encoding;
use smallvec::SmallVec;

/// What the address of a buffer is a multiple of, if its memory is: the
/// alignment of textures, the most that the CUDA API promises. A multiple of
/// every block.
pub const ALIGNMENT: u64 = 512;

/// How redzones grow with the buffer (GASan, section 3.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RedzoneRule {
    /// Percent of the buffer's bytes on either side.
    pub percent: u32,
    /// Least bytes on either side.
    pub min: u64,
    /// Most bytes on either side.
    pub max: u64,
}

/// Where a buffer lies in memory with redzones on both sides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Redzoned {
    /// Bytes of redzone before the buffer.
    pub before: u64,
    /// Bytes of the buffer.
    pub size: u64,
    /// All bytes.
    pub total: u64,
}

impl RedzoneRule {
    /// Bytes of a redzone beside so many bytes.
    pub fn bytes(&self, size: u64) -> u64 {
        let share = u128::from(size) * u128::from(self.percent) / 100;
        let share = u64::try_from(share).unwrap_or(u64::MAX);
        // Rules with a maximum below the minimum have the minimum.
        share.min(self.max).max(self.min)
    }

    /// A buffer with its redzones, in memory that is aligned for both; `None` if
    /// there are not so many bytes.
    pub fn place(&self, size: u64) -> Option<Redzoned> {
        let redzone = self.bytes(size);
        let before = redzone.checked_next_multiple_of(ALIGNMENT)?;
        let end = before.checked_add(size)?.checked_add(redzone)?;
        Some(Redzoned {
            before,
            size,
            total: end.checked_next_multiple_of(ALIGNMENT)?,
        })
    }
}

/// Shadow bytes with one value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// Where the first is, on the device.
    pub at: u64,
    /// How many.
    pub count: u64,
    /// What they are.
    pub value: u8,
}

/// The shadow of the memory `start..end`, of which only `size` bytes from `base`
/// on are addressable. `start`, `base` and `end` are multiples of
/// [`ALIGNMENT`], and the bytes lie between them.
pub fn runs(
    encoding: Encoding,
    (start, end): (u64, u64),
    (base, size): (u64, u64),
) -> SmallVec<[Run; 4]> {
    let last = base + size;
    let whole = last & !(encoding.block() - 1);
    let rest = last.next_multiple_of(encoding.block());
    let mut runs = SmallVec::new();
    let mut add = |from: u64, to: u64, value: u8| {
        if from < to {
            runs.push(Run {
                at: encoding.shadow_of(from),
                count: (to - from) >> encoding.shift(),
                value,
            });
        }
    };
    add(start, base, 0);
    add(base, whole, encoding.whole());
    add(whole, rest, encoding.value(last - whole));
    add(rest, end, 0);
    runs
}

/// The shadow of memory all of which has one state: addressable, or not.
pub fn run_of(encoding: Encoding, (start, end): (u64, u64), is_addressable: bool) -> Run {
    let block = encoding.block();
    let end = end.next_multiple_of(block);
    let start = start & !(block - 1);
    Run {
        at: encoding.shadow_of(start),
        count: (end - start) >> encoding.shift(),
        value: match is_addressable {
            true => encoding.whole(),
            false => 0,
        },
    }
}

/// Whether a check lets an access to `bytes` bytes at `address` pass. `shadow`
/// has the shadow byte of an address; `holds` says, from the lookup tables,
/// whether an allocation holds it.
pub fn passes(
    encoding: Encoding,
    shadow: impl Fn(u64) -> u8,
    holds: impl Fn(u64) -> bool,
    (address, bytes): (u64, u64),
) -> bool {
    let block = encoding.block();
    let end = address + bytes;
    let mut at = address;
    while at < end {
        let first = at & !(block - 1);
        let needed = end.min(first + block) - first;
        let value = shadow(at);
        let is_addressable = needed <= encoding.addressable(value);
        let is_single = encoding == Encoding::Block256 && value == 0 && needed == 1;
        if !(is_addressable || is_single && holds(at)) {
            return false;
        }
        at = first + block;
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    const RULE: RedzoneRule = RedzoneRule {
        percent: 50,
        min: 256,
        max: 1 << 20,
    };

    /// Shadow memory, and the bytes that are addressable.
    struct World {
        encoding: Encoding,
        shadow: BTreeMap<u64, u8>,
        bodies: Vec<(u64, u64)>,
    }

    impl World {
        /// Allocations one after the other, each with its redzones.
        fn of(encoding: Encoding, sizes: &[u64]) -> World {
            let mut world = World {
                encoding,
                shadow: BTreeMap::new(),
                bodies: Vec::new(),
            };
            let mut at = 0x7f00_0000_0000;
            for &size in sizes {
                let placed = RULE.place(size).unwrap();
                let base = at + placed.before;
                for run in runs(encoding, (at, at + placed.total), (base, size)) {
                    for n in 0..run.count {
                        assert!(world.shadow.insert(run.at + n, run.value).is_none());
                    }
                }
                world.bodies.push((base, size));
                at += placed.total;
            }
            world
        }

        fn holds(&self, address: u64) -> bool {
            let mut bodies = self.bodies.iter();
            bodies.any(|(base, size)| address.wrapping_sub(*base) < *size)
        }

        fn passes(&self, address: u64, bytes: u64) -> bool {
            // Memory of others is addressable.
            let shadow = |address| {
                let at = self.encoding.shadow_of(address);
                self.shadow
                    .get(&at)
                    .copied()
                    .unwrap_or(self.encoding.whole())
            };
            passes(self.encoding, shadow, |at| self.holds(at), (address, bytes))
        }

        /// Byte by byte.
        fn is_legal(&self, address: u64, bytes: u64) -> bool {
            (address..address + bytes).all(|byte| {
                let is_ours = self.shadow.contains_key(&self.encoding.shadow_of(byte));
                !is_ours || self.holds(byte)
            })
        }
    }

    proptest! {
        #[test]
        fn checks_are_exact(
            sizes in prop::collection::vec(
                prop_oneof![1u64..1100, (1u64..4).prop_map(|n| n * 256 + 1), (0u64..4).prop_map(|n| n * 128 + 1)],
                1..4,
            ),
            accesses in prop::collection::vec((0usize..4, -700i64..1800, 1u64..600), 1..60),
        ) {
            for encoding in Encoding::ALL {
                let world = World::of(encoding, &sizes);
                for &(body, offset, bytes) in &accesses {
                    let (base, size) = world.bodies[body % world.bodies.len()];
                    // Around both edges.
                    for edge in [base, base + size] {
                        let address = edge.wrapping_add_signed(offset);
                        prop_assert_eq!(
                            world.passes(address, bytes),
                            world.is_legal(address, bytes),
                            "{:?}: {} bytes at {:+} of {:?}", encoding, bytes, offset, (base, size)
                        );
                    }
                }
            }
        }

        #[test]
        fn redzones_keep_the_rule(size in 1u64..1 << 40, percent in 0u32..400) {
            let rule = RedzoneRule { percent, ..RULE };
            let placed = rule.place(size).unwrap();
            let after = placed.total - placed.before - size;
            let least = (size * u64::from(percent) / 100).clamp(256, 1 << 20);
            for bytes in [placed.before, after] {
                prop_assert!((least..least + 2 * ALIGNMENT).contains(&bytes));
            }
            prop_assert_eq!(placed.before % ALIGNMENT, 0);
            prop_assert_eq!(placed.total % ALIGNMENT, 0);
        }
    }

    #[test]
    fn the_byte_after_a_size_of_one_modulo_256_is_not_addressable() {
        for size in [1, 257, 513] {
            let world = World::of(Encoding::Block256, &[size]);
            let (base, _) = world.bodies[0];
            assert!(world.passes(base + size - 1, 1));
            assert!(!world.passes(base + size, 1));
            assert!(!world.passes(base + size - 1, 2));
        }
    }

    #[test]
    fn a_state_covers_every_block_that_it_touches() {
        for encoding in Encoding::ALL {
            let run = run_of(encoding, (1000, 1300), false);
            assert_eq!(run.at, encoding.shadow_of(1000));
            assert_eq!(run.at + run.count - 1, encoding.shadow_of(1299));
            assert_eq!(run_of(encoding, (0, 512), true).value, encoding.whole());
        }
        assert!(RULE.place(u64::MAX - 512).is_none());
    }
}
