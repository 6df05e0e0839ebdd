//! What has happened to canaries, in one order: launches, checks and waits of
//! the host, and so which launches a check that shows damage can mean.

use super::pending::Slots;
use crate::functions::Function;
use crate::launches::Listed;
use crate::streams::StreamName;
use host::Stack;
use smallvec::SmallVec;
use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

/// Launches, checks and waits remembered for findings. Launches write to this memory
/// in turn: it is to stay in the second cache, from which the driver's own launches
/// displace little. Checks are rarely more than a hundred launches apart.
const REMEMBERED: usize = 1 << 11;

/// The buffers that a kernel could write to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Reach {
    /// Those of its pointer arguments: offset of the argument, slot, serial. (Boxed:
    /// most launches have none, and each is written to the history.)
    Named(Box<[(u32, u32, u64)]>),
    /// Any.
    All,
}

/// A launch, for findings.
#[derive(Clone, Debug)]
pub(crate) struct Launched {
    pub order: u64,
    pub stream: Option<StreamName>,
    pub kernels: SmallVec<[Arc<Function>; 1]>,
    pub reach: Reach,
    pub launch: u64,
    pub stack: Stack,
}

/// Launches of a thread that may have written anywhere, one after the other.
pub(super) struct Gathered {
    /// The place of the first in the order; the others follow it.
    pub first: u64,
    pub listed: Arc<Listed>,
}

impl Gathered {
    fn launches(&self) -> Vec<Launched> {
        let mut launches = Vec::with_capacity(self.listed.len());
        self.listed.each(|launch, function, _| {
            launches.push(Launched {
                order: self.first + launches.len() as u64,
                stream: Some(self.listed.begun.target.name),
                kernels: SmallVec::from_iter([function.clone()]),
                reach: Reach::All,
                launch,
                stack: None,
            });
        });
        launches
    }
}

/// A check, for findings.
#[derive(Clone, Debug)]
pub(super) struct Checked {
    pub number: u64,
    pub order: u64,
    pub stream: Option<StreamName>,
    pub slots: Slots,
}

/// The host has waited: for a stream, or (`None`) for everything.
#[derive(Clone, Copy, Debug)]
pub(super) struct Waited {
    pub order: u64,
    pub stream: Option<StreamName>,
}

/// See the module's header.
#[derive(Default)]
pub(super) struct History {
    launched: VecDeque<Launched>,
    gathered: VecDeque<Gathered>,
    /// Launches in these.
    in_gathered: usize,
    checked: VecDeque<Checked>,
    waited: VecDeque<Waited>,
}

fn push<T>(list: &mut VecDeque<T>, item: T) {
    if list.len() == REMEMBERED {
        list.pop_front();
    }
    list.push_back(item);
}

impl History {
    pub fn launched(&mut self, launched: Launched) {
        push(&mut self.launched, launched);
    }

    /// Launches were made together.
    pub fn gathered(&mut self, gathered: Gathered) {
        self.in_gathered += gathered.listed.len();
        self.gathered.push_back(gathered);
        while self.in_gathered > REMEMBERED
            && let Some(old) = self.gathered.pop_front()
        {
            self.in_gathered -= old.listed.len();
        }
    }

    pub fn checked(&mut self, checked: Checked) {
        push(&mut self.checked, checked);
    }

    pub fn waited(&mut self, waited: Waited) {
        push(&mut self.waited, waited);
    }

    /// What could have overwritten a canary that a check found damaged: the
    /// launches since the check before, newest first.
    pub fn candidates(&self, check: u64, slot: Option<u32>, serial: u64) -> Vec<Launched> {
        let Some(place) = self.checked.iter().rposition(|known| known.number == check) else {
            return Vec::new();
        };
        let this = &self.checked[place];
        let before = self
            .checked
            .range(..place)
            .rev()
            .find(|known| slot.is_some_and(|slot| known.slots.covers(slot)) || known.slots.all);
        let ended_before = |launched: &Launched, check: &Checked| {
            let by_host = |waited: &Waited| {
                (launched.order..check.order).contains(&waited.order)
                    && (waited.stream.is_none() || waited.stream == launched.stream)
            };
            let in_order = launched.order < check.order
                && launched.stream.is_some()
                && launched.stream == check.stream;
            in_order || self.waited.iter().any(by_host)
        };
        let reaches = |launched: &Launched| match &launched.reach {
            Reach::All => true,
            Reach::Named(named) => named.iter().any(|(_, _, known)| *known == serial),
        };
        let could = |launched: &Launched| {
            launched.order < this.order
                && !before.is_some_and(|before| ended_before(launched, before))
        };
        let gathered = self.gathered.iter().flat_map(Gathered::launches);
        let gathered = gathered.filter(|launched| could(launched));
        let launched = self.launched.iter().filter(|launched| could(launched));
        let mut found: Vec<Launched> = launched.cloned().chain(gathered).collect();
        // None was given the buffer: one has left another far enough.
        if found.iter().any(reaches) {
            found.retain(reaches);
        }
        // Those of the check's own stream first: what it followed.
        found.sort_by_key(|launched| (launched.stream != this.stream, u64::MAX - launched.order));
        found
    }
}

/// Names of kernels: that of a launch first, then the others, each once.
pub(super) fn names(candidates: &[Launched]) -> Vec<String> {
    let mut seen = BTreeSet::new();
    candidates
        .iter()
        .flat_map(|launched| &launched.kernels)
        .filter(|function| seen.insert(function.name.clone()))
        .map(|function| function.name.clone())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: StreamName = StreamName::Made(0xa);
    const B: StreamName = StreamName::Made(0xb);
    const SLOT: u32 = 3;
    const SERIAL: u64 = 7;

    /// What happens, in its order.
    #[derive(Default)]
    struct Story {
        history: History,
        order: u64,
    }

    impl Story {
        fn order(&mut self) -> u64 {
            self.order += 1;
            self.order
        }

        fn launched(&mut self, stream: StreamName, serial: u64) -> u64 {
            let order = self.order();
            self.history.launched(Launched {
                order,
                stream: Some(stream),
                kernels: SmallVec::new(),
                reach: Reach::Named(Box::new([(0, SLOT, serial)])),
                launch: order,
                stack: None,
            });
            order
        }

        fn checked(&mut self, number: u64, stream: StreamName) {
            let order = self.order();
            self.history.checked(Checked {
                number,
                order,
                stream: Some(stream),
                slots: Slots {
                    all: true,
                    ..Slots::default()
                },
            });
        }

        fn waited(&mut self, stream: Option<StreamName>) {
            let order = self.order();
            self.history.waited(Waited { order, stream });
        }

        fn candidates(&self, number: u64, serial: u64) -> Vec<u64> {
            let found = self.history.candidates(number, Some(SLOT), serial);
            found.iter().map(|launched| launched.launch).collect()
        }
    }

    #[test]
    fn of_one_stream_only_launches_since_the_check_before_could_have_written() {
        let mut story = Story::default();
        story.launched(A, SERIAL);
        story.checked(1, A);
        let second = story.launched(A, SERIAL);
        // It is not given the buffer.
        let stray = story.launched(A, SERIAL + 1);
        story.checked(2, A);
        let after = story.launched(A, SERIAL);
        assert_eq!(story.candidates(2, SERIAL), [second]);
        story.checked(3, A);
        assert_eq!(story.candidates(3, SERIAL), [after]);
        assert_eq!(story.candidates(2, SERIAL + 9), [stray, second]);
        assert!(story.candidates(99, SERIAL).is_empty());
    }

    #[test]
    fn launches_of_other_streams_could_until_the_host_has_waited_for_them() {
        let mut story = Story::default();
        let other = story.launched(B, SERIAL);
        story.checked(1, A);
        let own = story.launched(A, SERIAL);
        story.checked(2, A);
        // The first check may have been there before the other kernel.
        assert_eq!(story.candidates(2, SERIAL), [own, other]);
        story.waited(Some(B));
        story.checked(3, A);
        let last = story.launched(A, SERIAL);
        story.checked(4, A);
        assert_eq!(story.candidates(4, SERIAL), [last]);
    }
}
