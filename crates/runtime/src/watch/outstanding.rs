//! The program's streams that may still have kernels to run: what the guard is
//! there for, what is waited for before it is paused, and what a finding names
//! as running.

use crate::streams::StreamName;
use driver::{StreamEvent, SupportStream};
use host::Stack;
use std::collections::VecDeque;

/// Launches remembered for each stream; of those before, the number is enough.
const REMEMBERED: usize = 8;

/// A launch of the program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Run {
    /// Ordinal of the launch in the process, from 1.
    pub ordinal: u64,
    /// Handle of the kernel; `None` for a graph.
    pub function: Option<u64>,
    /// Where it was launched, if that was kept.
    pub stack: Stack,
    /// The guard's round at that time: those before cannot have seen what it
    /// wrote.
    pub round: u64,
}

/// A stream with launches that were not seen to end.
#[derive(Clone, Debug)]
pub(crate) struct Busy {
    pub name: StreamName,
    /// The stream as the thread that launched names it.
    pub stream: SupportStream,
    pub context: u64,
    /// The last launches, oldest first.
    pub runs: VecDeque<Run>,
    /// The place after the last launch, for streams that other threads cannot
    /// name.
    pub event: Option<StreamEvent>,
    /// Launches that are being made: the stream may not have them yet.
    pub coming: u32,
}

impl Busy {
    /// The ordinal of the last launch.
    pub fn last(&self) -> u64 {
        self.runs.back().map_or(0, |run| run.ordinal)
    }
}

/// Streams that are remembered after their end.
const MOST_OVER: usize = 64;

/// How far the guard has come, when all that it had found was reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Progress {
    /// The context that it looks at.
    pub context: u64,
    /// The round that is under way; those before are through
    /// (`model::layout::guard::EPOCH`).
    pub round: u64,
    /// No slice is on the device: the number is one more than the last round's.
    pub is_away: bool,
    /// It has found more than it had room for, and will find it again.
    pub is_full: bool,
}

/// All of them.
#[derive(Debug, Default)]
pub(crate) struct Outstanding {
    streams: Vec<Busy>,
    /// What was waited for, oldest first, and the guard's round then: it may not
    /// have seen yet what this did, or have seen it and not reported it.
    over: VecDeque<(u64, Busy)>,
}

impl Outstanding {
    pub fn is_empty(&self) -> bool {
        self.streams.is_empty()
    }

    /// The context of the stream that was launched into last.
    pub fn context(&self) -> Option<u64> {
        self.streams
            .iter()
            .max_by_key(|busy| busy.last())
            .map(|busy| busy.context)
    }

    /// Something is about to be launched; [`Outstanding::launched`] follows.
    pub fn add(&mut self, name: StreamName, stream: SupportStream, context: u64, run: Run) {
        let known = self.streams.iter_mut().find(|busy| busy.name == name);
        let busy = match known {
            Some(busy) => busy,
            None => {
                self.streams.push(Busy {
                    name,
                    stream,
                    context,
                    runs: VecDeque::with_capacity(REMEMBERED),
                    event: None,
                    coming: 0,
                });
                let end = self.streams.len() - 1;
                &mut self.streams[end]
            }
        };
        busy.coming += 1;
        if busy.runs.len() == REMEMBERED {
            busy.runs.pop_front();
        }
        busy.runs.push_back(run);
    }

    /// A launch was made, or has failed.
    pub fn launched(&mut self, name: StreamName) {
        if let Some(busy) = self.streams.iter_mut().find(|busy| busy.name == name) {
            busy.coming = busy.coming.saturating_sub(1);
        }
    }

    /// Records an event behind the last launch of a stream. Returns the one that it
    /// replaces, or the event itself if the stream is not there any more.
    pub fn set_event(&mut self, name: StreamName, event: StreamEvent) -> Option<StreamEvent> {
        match self.streams.iter_mut().find(|busy| busy.name == name) {
            Some(busy) => busy.event.replace(event),
            None => Some(event),
        }
    }

    /// The event behind the last launch of a stream; the outer `None`: the
    /// stream is not there any more.
    pub fn event_of(&self, name: StreamName) -> Option<Option<StreamEvent>> {
        self.streams
            .iter()
            .find(|busy| busy.name == name)
            .map(|busy| busy.event)
    }

    /// The same, which is the caller's from now on.
    pub fn take_event(&mut self, name: StreamName) -> Option<Option<StreamEvent>> {
        self.streams
            .iter_mut()
            .find(|busy| busy.name == name)
            .map(|busy| busy.event.take())
    }

    pub fn find(&self, name: StreamName) -> Option<Busy> {
        self.streams.iter().find(|busy| busy.name == name).cloned()
    }

    pub fn streams(&self) -> Vec<Busy> {
        self.streams.clone()
    }

    /// What was launched into a stream up to this ordinal is over, as far as the
    /// stream has it; the guard is in this round. Returns its event if it leaves
    /// the list.
    pub fn is_over(&mut self, name: StreamName, last: u64, round: u64) -> Option<StreamEvent> {
        let is_it = |busy: &Busy| busy.name == name && busy.last() <= last && busy.coming == 0;
        self.remove(is_it, round).pop()
    }

    /// Takes streams off the list; the guard is in this round. Returns their
    /// events.
    pub fn remove(&mut self, which: impl Fn(&Busy) -> bool, round: u64) -> Vec<StreamEvent> {
        let (gone, left) = std::mem::take(&mut self.streams)
            .into_iter()
            .partition::<Vec<_>, _>(which);
        self.streams = left;
        let events = gone.iter().filter_map(|busy| busy.event).collect();
        for busy in gone {
            if self.over.len() == MOST_OVER {
                self.over.pop_front();
            }
            self.over.push_back((round, busy));
        }
        events
    }

    /// The context is gone, and its memory: nothing is found there any more.
    pub fn context_gone(&mut self, context: u64) {
        self.over.retain(|(_, busy)| busy.context != context);
    }

    /// What was waited for, and the guard may still tell of.
    pub fn over(&self) -> Vec<Busy> {
        self.over.iter().map(|(_, busy)| busy.clone()).collect()
    }

    /// What the guard had found by then was reported; `None`: it finds nothing any
    /// more.
    ///
    /// The round in which something ended may have looked too early, and the
    /// number after it may be that of a slice's end: only the next one has
    /// certainly seen what was done.
    pub fn reported(&mut self, progress: Option<Progress>) {
        let Some(progress) = progress else {
            return self.over.clear();
        };
        let now = progress.round;
        self.over.retain_mut(|(round, busy)| {
            if progress.is_full || busy.context != progress.context {
                *round = now;
            }
            *round + if progress.is_away { 1 } else { 2 } >= now
        });
    }
}

#[cfg(test)]
mod tests {
    use super::{Outstanding, Progress, Run};
    use crate::streams::StreamName;
    use driver::{StreamEvent, SupportStream};

    const STREAM: StreamName = StreamName::Made(9);
    const PLACE: SupportStream = SupportStream::Program {
        handle: 9,
        per_thread: false,
    };

    fn run(ordinal: u64) -> Run {
        Run {
            ordinal,
            function: Some(0x20),
            stack: None,
            round: 0,
        }
    }

    #[test]
    fn what_was_launched_after_the_wait_began_stays() {
        let mut outstanding = Outstanding::default();
        outstanding.add(STREAM, PLACE, 1, run(1));
        outstanding.launched(STREAM);
        outstanding.add(STREAM, PLACE, 1, run(2));
        assert_eq!(
            outstanding.set_event(STREAM, StreamEvent { handle: 5 }),
            None
        );
        assert_eq!(outstanding.is_over(STREAM, 1, 9), None);
        assert!(!outstanding.is_empty());
        assert!(outstanding.over().is_empty());
        // An idle stream says nothing of a launch that it does not have yet.
        assert_eq!(outstanding.is_over(STREAM, 2, 9), None);
        assert!(!outstanding.is_empty());
        outstanding.launched(STREAM);
        assert_eq!(
            outstanding.is_over(STREAM, 2, 9),
            Some(StreamEvent { handle: 5 })
        );
        assert_eq!(outstanding.over()[0].last(), 2);
        assert!(outstanding.is_empty());
        let late = StreamEvent { handle: 6 };
        assert_eq!(outstanding.set_event(STREAM, late), Some(late));
    }

    /// Whether a kernel that was over in round 10 is remembered after that.
    fn is_remembered(after: &[Option<Progress>]) -> bool {
        let mut outstanding = Outstanding::default();
        outstanding.add(STREAM, PLACE, 1, run(1));
        outstanding.launched(STREAM);
        outstanding.is_over(STREAM, 1, 10);
        for progress in after {
            outstanding.reported(*progress);
        }
        !outstanding.over().is_empty()
    }

    #[test]
    fn what_is_over_is_remembered_until_the_guard_has_seen_and_told_it() {
        let at = |round| {
            Some(Progress {
                context: 1,
                round,
                is_away: false,
                is_full: false,
            })
        };
        let away = |round| {
            at(round).map(|at| Progress {
                is_away: true,
                ..at
            })
        };
        let full = |round| {
            at(round).map(|at| Progress {
                is_full: true,
                ..at
            })
        };
        let elsewhere = |round| at(round).map(|at| Progress { context: 2, ..at });
        // Round 10 was the last of its slice, 11 its end, and 12 is under way.
        assert!(is_remembered(&[at(10), at(12)]));
        assert!(!is_remembered(&[at(13)]));
        // It ended in the last round, which may have looked before; or before
        // the last round, which has seen it.
        assert!(is_remembered(&[away(11)]));
        assert!(!is_remembered(&[away(12)]));
        // What there was no room for is found again.
        assert!(is_remembered(&[full(500), at(502)]));
        assert!(!is_remembered(&[full(500), at(503)]));
        // The guard did not look where the kernel was.
        assert!(is_remembered(&[elsewhere(500), at(502)]));
        assert!(!is_remembered(&[elsewhere(500), at(503)]));
        assert!(!is_remembered(&[None]));
    }

    #[test]
    fn what_ran_in_a_context_that_is_gone_has_done_nothing_to_the_next() {
        let mut outstanding = Outstanding::default();
        outstanding.add(STREAM, PLACE, 1, run(1));
        outstanding.launched(STREAM);
        outstanding.is_over(STREAM, 1, 10);
        outstanding.context_gone(2);
        assert_eq!(outstanding.over().len(), 1);
        outstanding.context_gone(1);
        assert!(outstanding.over().is_empty());
    }

    #[test]
    fn the_last_launches_are_remembered() {
        let mut outstanding = Outstanding::default();
        for ordinal in 1..=20 {
            outstanding.add(STREAM, PLACE, 1, run(ordinal));
        }
        let busy = &outstanding.streams()[0];
        assert_eq!((busy.runs.len(), busy.last()), (8, 20));
        assert_eq!(outstanding.context(), Some(1));
    }
}
