//! The program's streams that may still have kernels to run: what the guard is
//! there for, what is waited for before it is paused, and what a finding names
//! as running.

use crate::streams::StreamName;
use driver::{Mark, SupportStream};
use host::Stack;
use std::collections::VecDeque;
use std::time::{Duration, Instant};

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
    pub mark: Option<Mark>,
    /// Launches that are being made: the stream may not have them yet.
    pub coming: u32,
}

impl Busy {
    /// The ordinal of the last launch.
    pub fn last(&self) -> u64 {
        self.runs.back().map_or(0, |run| run.ordinal)
    }
}

/// How long what has ended is still named: a round of the guard over many
/// buffers, and the keeper's next look.
const RECENT: Duration = Duration::from_millis(20);
/// Streams of which that is remembered.
const RECENT_STREAMS: usize = 16;

/// All of them.
#[derive(Debug, Default)]
pub(crate) struct Outstanding {
    streams: Vec<Busy>,
    /// What was waited for, oldest first, and when: the guard may have seen
    /// what it did, and not told yet.
    recent: VecDeque<(Instant, Busy)>,
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
                    mark: None,
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

    /// Puts a mark behind the last launch of a stream. Returns the one that it
    /// replaces, or the mark itself if the stream is not there any more.
    pub fn set_mark(&mut self, name: StreamName, mark: Mark) -> Option<Mark> {
        match self.streams.iter_mut().find(|busy| busy.name == name) {
            Some(busy) => busy.mark.replace(mark),
            None => Some(mark),
        }
    }

    /// The mark behind the last launch of a stream; the outer `None`: the
    /// stream is not there any more.
    pub fn mark_of(&self, name: StreamName) -> Option<Option<Mark>> {
        self.streams
            .iter()
            .find(|busy| busy.name == name)
            .map(|busy| busy.mark)
    }

    /// The same, which is the caller's from now on.
    pub fn take_mark(&mut self, name: StreamName) -> Option<Option<Mark>> {
        self.streams
            .iter_mut()
            .find(|busy| busy.name == name)
            .map(|busy| busy.mark.take())
    }

    pub fn find(&self, name: StreamName) -> Option<Busy> {
        self.streams.iter().find(|busy| busy.name == name).cloned()
    }

    pub fn streams(&self) -> Vec<Busy> {
        self.streams.clone()
    }

    /// What was launched into a stream up to this ordinal is over, as far as the
    /// stream has it. Returns its mark if it leaves the list.
    pub fn is_over(&mut self, name: StreamName, last: u64) -> Option<Mark> {
        self.remove(|busy| busy.name == name && busy.last() <= last && busy.coming == 0)
            .pop()
    }

    /// Takes streams off the list. Returns their marks.
    pub fn remove(&mut self, which: impl Fn(&Busy) -> bool) -> Vec<Mark> {
        let now = Instant::now();
        let (gone, left) = std::mem::take(&mut self.streams)
            .into_iter()
            .partition::<Vec<_>, _>(which);
        self.streams = left;
        let marks = gone.iter().filter_map(|busy| busy.mark).collect();
        for busy in gone {
            if self.recent.len() == RECENT_STREAMS {
                self.recent.pop_front();
            }
            self.recent.push_back((now, busy));
        }
        marks
    }

    /// What was waited for just now.
    pub fn recent(&self) -> Vec<Busy> {
        let recent = self.recent.iter();
        recent
            .filter(|(when, _)| when.elapsed() < RECENT)
            .map(|(_, busy)| busy.clone())
            .collect()
    }

    /// The guard has seen, and told, all that these did.
    pub fn forget_recent(&mut self) {
        self.recent.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::{Outstanding, Run};
    use crate::streams::StreamName;
    use driver::{Mark, SupportStream};

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
        }
    }

    #[test]
    fn what_was_launched_after_the_wait_began_stays() {
        let mut outstanding = Outstanding::default();
        outstanding.add(STREAM, PLACE, 1, run(1));
        outstanding.launched(STREAM);
        outstanding.add(STREAM, PLACE, 1, run(2));
        assert_eq!(outstanding.set_mark(STREAM, Mark { handle: 5 }), None);
        assert_eq!(outstanding.is_over(STREAM, 1), None);
        assert!(!outstanding.is_empty());
        assert!(outstanding.recent().is_empty());
        // An idle stream says nothing of a launch that it does not have yet.
        assert_eq!(outstanding.is_over(STREAM, 2), None);
        assert!(!outstanding.is_empty());
        outstanding.launched(STREAM);
        assert_eq!(outstanding.is_over(STREAM, 2), Some(Mark { handle: 5 }));
        assert_eq!(outstanding.recent()[0].last(), 2);
        outstanding.forget_recent();
        assert!(outstanding.recent().is_empty());
        assert!(outstanding.is_empty());
        let late = Mark { handle: 6 };
        assert_eq!(outstanding.set_mark(STREAM, late), Some(late));
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
