//! Whether the host or a kernel scans canaries: the one that was faster so far,
//! for each class of scans, because the cost of a scan depends on its size.
//!
//! The device's checker must be built first, which costs more than thousands of
//! scans. It is built once the scans by the host have cost as much ([`Rent`]).
//! This is the ski-rental rule: the total cost is at most twice that of the
//! best choice made with knowledge of the future.

use std::collections::BTreeMap;

/// What scans canaries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Checker {
    /// The host, which reads them.
    Host,
    /// A kernel.
    Device,
}

/// Scans whose costs can be compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Class {
    images: bool,
    objects: u32,
    bytes: u32,
}

impl Class {
    /// The class of a scan of this many objects and bytes of canaries.
    pub fn of(images: bool, objects: u64, bytes: u64) -> Class {
        Class {
            images,
            objects: objects.checked_ilog2().unwrap_or(0),
            bytes: bytes.checked_ilog2().unwrap_or(0),
        }
    }
}

/// How many scans of each checker are timed before one is chosen.
const SAMPLES: u32 = 4;

/// The measured times of one checker for one class.
#[derive(Clone, Copy, Debug, Default)]
struct Times {
    asked: u32,
    /// The shortest time in nanoseconds; other work only makes it longer.
    least: Option<u64>,
}

/// The choice for each class of scans, from measured times.
#[derive(Clone, Debug, Default)]
pub struct Choice(BTreeMap<Class, [Times; 2]>);

impl Choice {
    /// Which checker makes the next scan, and whether to time it.
    pub fn next(&mut self, class: Class) -> (Checker, bool) {
        let [host, device] = self.0.entry(class).or_default();
        if host.asked < SAMPLES && host.asked <= device.asked {
            host.asked += 1;
            return (Checker::Host, true);
        }
        if device.asked < SAMPLES {
            device.asked += 1;
            return (Checker::Device, true);
        }
        match (host.least, device.least) {
            (Some(host), Some(device)) if device < host => (Checker::Device, false),
            // Also while times are missing: timed scans may still be running.
            _ => (Checker::Host, false),
        }
    }

    /// Records the time of a scan that was to be timed.
    pub fn measured(&mut self, class: Class, checker: Checker, nanoseconds: u64) {
        let [host, device] = self.0.entry(class).or_default();
        let times = match checker {
            Checker::Host => host,
            Checker::Device => device,
        };
        times.least = Some(
            times
                .least
                .map_or(nanoseconds, |least| least.min(nanoseconds)),
        );
    }
}

/// A running cost, compared with the price of what would end it.
#[derive(Clone, Copy, Debug)]
pub struct Rent {
    spent: u64,
    price: u64,
}

impl Rent {
    /// No cost so far.
    pub fn of(price: u64) -> Rent {
        Rent { spent: 0, price }
    }

    /// Adds a cost. Returns whether the price is now worth paying.
    pub fn spend(&mut self, cost: u64) -> bool {
        self.spent = self.spent.saturating_add(cost);
        self.spent >= self.price
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn measured(choice: &mut Choice, class: Class, host: u64, device: u64) {
        for round in 0..2 * SAMPLES {
            let (checker, timed) = choice.next(class);
            assert!(timed);
            assert_eq!(checker == Checker::Host, round % 2 == 0);
            let cost = match checker {
                Checker::Host => host,
                Checker::Device => device,
            };
            // One scan in four was delayed.
            let disturbed = if round % 4 < 2 { 100 } else { 1 };
            choice.measured(class, checker, cost * disturbed);
        }
    }

    proptest! {
        #[test]
        fn the_faster_one_is_chosen_for_each_class(
            times in prop::collection::vec((1u64..1000, 1u64..1000), 1..6),
        ) {
            let mut choice = Choice::default();
            let class = |index: usize| Class::of(false, 1 << index, 4096);
            for (index, (host, device)) in times.iter().enumerate() {
                measured(&mut choice, class(index), *host, *device);
            }
            for (index, (host, device)) in times.iter().enumerate() {
                let wanted = if device < host { Checker::Device } else { Checker::Host };
                prop_assert_eq!(choice.next(class(index)), (wanted, false));
            }
        }
    }

    #[test]
    fn the_host_scans_while_times_are_not_known() {
        let mut choice = Choice::default();
        let class = Class::of(true, 3, 100_000);
        for _ in 0..2 * SAMPLES {
            assert!(choice.next(class).1);
        }
        choice.measured(class, Checker::Device, 5);
        assert_eq!(choice.next(class), (Checker::Host, false));
        choice.measured(class, Checker::Host, 9);
        assert_eq!(choice.next(class), (Checker::Device, false));
    }

    #[test]
    fn classes_are_powers_of_two_and_images_are_their_own() {
        assert_eq!(Class::of(false, 5, 9000), Class::of(false, 7, 16_000));
        assert_ne!(Class::of(false, 5, 9000), Class::of(false, 8, 9000));
        assert_ne!(Class::of(false, 5, 9000), Class::of(true, 5, 9000));
        assert_eq!(Class::of(false, 0, 0), Class::of(false, 1, 1));
    }

    #[test]
    fn what_costs_as_much_as_its_rent_is_bought() {
        let mut rent = Rent::of(100);
        assert!(!rent.spend(99));
        assert!(rent.spend(1));
        assert!(rent.spend(u64::MAX));
    }
}
