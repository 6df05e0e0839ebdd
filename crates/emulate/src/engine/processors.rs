//! Processors of the host that programs share who do not trust each other.
//!
//! The system divides processors by threads, and a program with many streams would have
//! as many times the part of one with a single stream. So as many threads execute
//! kernels as there are processors, and whose turn it is next is decided by how long
//! the threads of each *party* have executed: start-time fair queueing, with turns of
//! [`TURN`] (Goyal, Vin, Cheng: "Start-time Fair Queuing", SIGCOMM 1996).

use parking_lot::{Condvar, Mutex};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// How long a thread executes before it asks whose turn it is.
const TURN: Duration = Duration::from_millis(5);

/// The processors.
#[derive(Debug)]
pub struct Processors {
    state: Mutex<State>,
    /// Threads that wait.
    waiting: AtomicUsize,
}

#[derive(Debug)]
struct State {
    free: usize,
    parties: Vec<Arc<Party>>,
    /// What a party that comes has had already, so that it is not ahead of the others.
    now: Duration,
}

/// Threads that have a part together.
#[derive(Debug)]
struct Party {
    turn: Mutex<Turns>,
    come: Condvar,
}

#[derive(Debug, Default)]
struct Turns {
    /// How long its threads have executed.
    had: Duration,
    /// Threads that execute, and that wait.
    running: usize,
    waiting: usize,
    /// Threads that wait and whose turn it is.
    granted: usize,
}

/// A party's part.
#[derive(Debug)]
pub struct Part {
    processors: Arc<Processors>,
    party: Arc<Party>,
}

/// A thread that executes, until this is dropped.
#[derive(Debug)]
pub struct Executing<'a> {
    part: &'a Part,
    since: Instant,
}

impl Processors {
    /// So many.
    pub fn new(count: usize) -> Arc<Processors> {
        Arc::new(Processors {
            state: Mutex::new(State {
                free: count.max(1),
                parties: Vec::new(),
                now: Duration::ZERO,
            }),
            waiting: AtomicUsize::new(0),
        })
    }

    /// The part of a new party.
    pub fn part(self: &Arc<Self>) -> Part {
        let party = Arc::new(Party {
            turn: Mutex::default(),
            come: Condvar::new(),
        });
        self.state.lock().parties.push(Arc::clone(&party));
        Part {
            processors: Arc::clone(self),
            party,
        }
    }
}

impl State {
    /// Gives free processors to those who have had least.
    fn grant(&mut self, waiting: &AtomicUsize) {
        while self.free > 0 {
            let next = self
                .parties
                .iter()
                .filter_map(|party| {
                    let turn = party.turn.lock();
                    (turn.waiting > 0).then_some((turn.had, party))
                })
                .min_by_key(|(had, _)| *had);
            let Some((had, party)) = next else { return };
            let mut turn = party.turn.lock();
            turn.waiting -= 1;
            turn.granted += 1;
            turn.running += 1;
            waiting.fetch_sub(1, Ordering::Relaxed);
            party.come.notify_one();
            self.free -= 1;
            self.now = self.now.max(had);
        }
    }
}

impl Part {
    /// Waits until it is a thread's turn.
    pub fn execute(&self) -> Executing<'_> {
        let processors = &self.processors;
        let mut state = processors.state.lock();
        {
            let mut turn = self.party.turn.lock();
            if turn.running == 0 && turn.waiting == 0 {
                turn.had = turn.had.max(state.now);
            }
            turn.waiting += 1;
        }
        processors.waiting.fetch_add(1, Ordering::Relaxed);
        state.grant(&processors.waiting);
        drop(state);
        let mut turn = self.party.turn.lock();
        while turn.granted == 0 {
            self.party.come.wait(&mut turn);
        }
        turn.granted -= 1;
        Executing {
            part: self,
            since: Instant::now(),
        }
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        let mut state = self.processors.state.lock();
        state
            .parties
            .retain(|party| !Arc::ptr_eq(party, &self.party));
    }
}

impl<'a> Executing<'a> {
    /// Whether the thread has executed for its turn, and others wait.
    pub fn is_over(&self) -> bool {
        self.part.processors.waiting.load(Ordering::Relaxed) > 0 && self.since.elapsed() >= TURN
    }

    /// Lets others execute, and waits for the next turn.
    pub fn again(self) -> Executing<'a> {
        let part = self.part;
        drop(self);
        part.execute()
    }

    /// Does something that needs no processor, such as to sleep.
    pub fn rest(self, what: impl FnOnce()) -> Executing<'a> {
        let part = self.part;
        drop(self);
        what();
        part.execute()
    }
}

impl Drop for Executing<'_> {
    fn drop(&mut self) {
        let mut state = self.part.processors.state.lock();
        {
            let mut turn = self.part.party.turn.lock();
            // (What nobody waited for is not counted against it.)
            turn.had += self.since.elapsed().min(2 * TURN);
            turn.running -= 1;
        }
        state.free += 1;
        state.grant(&self.part.processors.waiting);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicBool;
    use std::thread;

    /// Executes with so many threads for each party, for some time; how long each had.
    fn shared(processors: usize, threads: &[usize], time: Duration) -> Vec<Duration> {
        let processors = Processors::new(processors);
        let parts: Vec<Part> = threads.iter().map(|_| processors.part()).collect();
        let is_over = AtomicBool::new(false);
        thread::scope(|scope| {
            for (part, count) in parts.iter().zip(threads) {
                for _ in 0..*count {
                    scope.spawn(|| {
                        let mut executing = part.execute();
                        while !is_over.load(Ordering::Relaxed) {
                            std::hint::spin_loop();
                            if executing.is_over() {
                                executing = executing.again();
                            }
                        }
                    });
                }
            }
            thread::sleep(time);
            is_over.store(true, Ordering::Relaxed);
        });
        parts
            .iter()
            .map(|part| part.party.turn.lock().had)
            .collect()
    }

    #[test]
    fn parties_get_equal_parts_however_many_threads_they_have() {
        let had = shared(1, &[1, 40, 3], Duration::from_millis(900));
        let all: Duration = had.iter().sum();
        for one in &had {
            assert!(*one * 4 > all && *one * 10 < all * 5, "{had:?}");
        }
    }

    #[test]
    fn who_comes_later_gets_no_more_than_the_others() {
        let processors = Processors::new(1);
        let (old, new) = (processors.part(), processors.part());
        let spend = |part: &Part, time: Duration| {
            let executing = part.execute();
            thread::sleep(time);
            drop(executing);
        };
        // Of a turn that nobody waits for the end of, no more than two count.
        spend(&old, 20 * TURN);
        (0..5).for_each(|_| spend(&old, TURN));
        spend(&new, TURN);
        let (old, new) = (old.party.turn.lock().had, new.party.turn.lock().had);
        assert!(old >= 7 * TURN && old < 20 * TURN, "{old:?}");
        assert!(new >= 6 * TURN && new <= old + 2 * TURN, "{new:?} {old:?}");
    }

    #[test]
    fn no_more_threads_execute_than_there_are_processors_and_all_have_a_turn() {
        let processors = Processors::new(2);
        let (one, two) = (processors.part(), processors.part());
        let (now, most) = (AtomicUsize::new(0), AtomicUsize::new(0));
        thread::scope(|scope| {
            for at in 0..12 {
                let (part, now, most) = (if at % 3 == 0 { &one } else { &two }, &now, &most);
                scope.spawn(move || {
                    let mut executing = part.execute();
                    for _ in 0..20 {
                        most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                        thread::sleep(Duration::from_micros(200));
                        now.fetch_sub(1, Ordering::SeqCst);
                        executing = executing.rest(|| {});
                    }
                });
            }
        });
        assert_eq!(most.into_inner(), 2);
        assert_eq!(processors.state.lock().free, 2);
        assert_eq!(processors.waiting.load(Ordering::Relaxed), 0);
    }
}
