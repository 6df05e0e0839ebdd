//! How many blocks of a tenant's grids may be in flight.
//!
//! A kernel that is told to end still begins each of its blocks, which then finds
//! the word set and ends (`model::layout::fence::stop`); no driver takes back a
//! grid. Until all have begun and ended, nobody else's kernels may get a turn. So
//! no tenant has more blocks in flight than a device ends within the budget: a
//! grid that is larger by itself is refused, and one that is too much beside
//! others waits for them.

use std::time::Duration;

/// Blocks that a GPU begins and ends within a second at least, if each ends at
/// once: a large one has 132 multiprocessors, of which each holds two blocks of
/// 1,024 threads, and such a block takes less than 2 us. (Small blocks are
/// several times as fast; a GPU with few multiprocessors may take longer than
/// the budget.)
const RATE: u64 = 100_000_000;

/// The blocks of one tenant.
pub(crate) struct Blocks {
    /// At most.
    most: Option<u64>,
    /// Of the grids that were launched since the tenant was idle.
    in_flight: u64,
}

/// What becomes of a launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Room {
    /// It is launched.
    Now,
    /// When those before are over.
    Later,
    /// Never: so many at most.
    Never(u64),
}

/// How many there may be, where kernels must end within this time.
pub(crate) fn most(budget: Option<Duration>) -> Option<u64> {
    let budget = budget?.as_secs_f64();
    Some((budget * RATE as f64) as u64)
}

/// The blocks of a grid; more than there can be are as many as can be counted.
pub(crate) fn of(grid: [u32; 3]) -> u64 {
    let product = grid.iter().map(|size| u128::from(*size)).product::<u128>();
    u64::try_from(product).unwrap_or(u64::MAX)
}

impl Blocks {
    /// None are in flight.
    pub(crate) fn new(most: Option<u64>) -> Blocks {
        Blocks { most, in_flight: 0 }
    }

    /// Whether a grid of so many is launched now; `is_idle` tells whether all work
    /// of the tenant is over, and is asked only where that matters.
    ///
    /// # Errors
    ///
    /// Those of `is_idle`.
    pub(crate) fn take<E>(
        &mut self,
        blocks: u64,
        is_idle: impl FnOnce() -> Result<bool, E>,
    ) -> Result<Room, E> {
        let Some(most) = self.most else {
            return Ok(Room::Now);
        };
        if blocks > most {
            return Ok(Room::Never(most));
        }
        if blocks > most - self.in_flight {
            if !is_idle()? {
                return Ok(Room::Later);
            }
            self.in_flight = 0;
        }
        self.in_flight += blocks;
        Ok(Room::Now)
    }

    /// A grid that there was room for is not launched now.
    pub(crate) fn give_back(&mut self, blocks: u64) {
        self.in_flight = self.in_flight.saturating_sub(blocks);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn take(blocks: &mut Blocks, many: u64, is_idle: bool) -> Room {
        let room: Result<Room, ()> = blocks.take(many, || Ok(is_idle));
        room.unwrap()
    }

    #[test]
    fn grids_that_do_not_end_in_time_are_refused_or_wait() {
        let mut blocks = Blocks::new(Some(100));
        for (many, is_idle, room) in [
            (101, true, Room::Never(100)),
            (u64::MAX, true, Room::Never(100)),
            (60, false, Room::Now),
            (40, false, Room::Now),
            (1, false, Room::Later),
            (1, false, Room::Later),
            (100, true, Room::Now),
            (100, false, Room::Later),
            (1, true, Room::Now),
            (99, false, Room::Now),
            (1, false, Room::Later),
        ] {
            assert_eq!(take(&mut blocks, many, is_idle), room, "{many}");
        }
        blocks.give_back(99);
        assert_eq!(take(&mut blocks, 99, false), Room::Now);
    }

    #[test]
    fn without_a_budget_any_grid_is_launched() {
        let mut blocks = Blocks::new(most(None));
        for _ in 0..3 {
            assert_eq!(take(&mut blocks, u64::MAX, false), Room::Now);
        }
    }

    /// Half a minute, the default, is enough for each grid of one dimension.
    #[test]
    fn the_budget_decides_how_many_there_are() {
        assert_eq!(most(Some(Duration::from_secs(1))), Some(RATE));
        assert!(most(Some(Duration::from_secs(30))).unwrap() > of([0x7fff_ffff, 1, 1]));
        assert_eq!(of([2, 3, 4]), 24);
        assert_eq!(of([u32::MAX; 3]), u64::MAX);
    }
}
