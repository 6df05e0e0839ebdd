//! Processors of the host that programs share who do not trust each other.
//!
//! The system divides processors by threads, and a program with many streams would have
//! as many times the share of one with a single stream. So as many threads execute
//! kernels as there are processors, and how long those of each program, a *flow*, have
//! executed decides whose turn is next: start-time fair queueing, with turns of [`TURN`]
//! (Goyal, Vin, Cheng: "Start-time Fair Queuing", SIGCOMM 1996).

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
    flows: Vec<Arc<Flow>>,
    /// What a flow that comes has had already, so that it is not ahead of the others.
    now: Duration,
}

/// The threads of one program.
#[derive(Debug)]
struct Flow {
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

/// The share of a flow; it ends when this is dropped.
#[derive(Debug)]
pub struct Share {
    processors: Arc<Processors>,
    flow: Arc<Flow>,
}

/// A thread that executes, until this is dropped.
#[derive(Debug)]
pub struct Executing<'a> {
    share: &'a Share,
    since: Instant,
}

impl Processors {
    /// So many.
    pub fn new(count: usize) -> Arc<Processors> {
        Arc::new(Processors {
            state: Mutex::new(State {
                free: count.max(1),
                flows: Vec::new(),
                now: Duration::ZERO,
            }),
            waiting: AtomicUsize::new(0),
        })
    }

    /// The share of a new flow.
    pub fn share(self: &Arc<Self>) -> Share {
        let flow = Arc::new(Flow {
            turn: Mutex::default(),
            come: Condvar::new(),
        });
        self.state.lock().flows.push(Arc::clone(&flow));
        Share {
            processors: Arc::clone(self),
            flow,
        }
    }
}

impl State {
    /// Gives free processors to those who have had least.
    fn grant(&mut self, waiting: &AtomicUsize) {
        while self.free > 0 {
            let next = self
                .flows
                .iter()
                .filter_map(|flow| {
                    let turn = flow.turn.lock();
                    (turn.waiting > 0).then_some((turn.had, flow))
                })
                .min_by_key(|(had, _)| *had);
            let Some((had, flow)) = next else { return };
            let mut turn = flow.turn.lock();
            turn.waiting -= 1;
            turn.granted += 1;
            turn.running += 1;
            waiting.fetch_sub(1, Ordering::Relaxed);
            flow.come.notify_one();
            self.free -= 1;
            self.now = self.now.max(had);
        }
    }
}

impl Share {
    /// Waits until it is a thread's turn.
    pub fn execute(&self) -> Executing<'_> {
        let processors = &self.processors;
        let mut state = processors.state.lock();
        {
            let mut turn = self.flow.turn.lock();
            if turn.running == 0 && turn.waiting == 0 {
                turn.had = turn.had.max(state.now);
            }
            turn.waiting += 1;
        }
        processors.waiting.fetch_add(1, Ordering::Relaxed);
        state.grant(&processors.waiting);
        drop(state);
        let mut turn = self.flow.turn.lock();
        while turn.granted == 0 {
            self.flow.come.wait(&mut turn);
        }
        turn.granted -= 1;
        Executing {
            share: self,
            since: Instant::now(),
        }
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        let mut state = self.processors.state.lock();
        state.flows.retain(|flow| !Arc::ptr_eq(flow, &self.flow));
    }
}

impl<'a> Executing<'a> {
    /// Whether the thread has executed for its turn, and others wait.
    pub fn is_over(&self) -> bool {
        self.share.processors.waiting.load(Ordering::Relaxed) > 0 && self.since.elapsed() >= TURN
    }

    /// Lets others execute, and waits for the next turn.
    pub fn again(self) -> Executing<'a> {
        let share = self.share;
        drop(self);
        share.execute()
    }

    /// Does something that needs no processor, such as to sleep.
    pub fn rest(self, what: impl FnOnce()) -> Executing<'a> {
        let share = self.share;
        drop(self);
        what();
        share.execute()
    }
}

impl Drop for Executing<'_> {
    fn drop(&mut self) {
        let mut state = self.share.processors.state.lock();
        {
            let mut turn = self.share.flow.turn.lock();
            // (What nobody waited for is not counted against it.)
            turn.had += self.since.elapsed().min(2 * TURN);
            turn.running -= 1;
        }
        state.free += 1;
        state.grant(&self.share.processors.waiting);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicBool;
    use std::thread;

    /// Executes with so many threads for each flow, for some time; how long each had.
    fn shared(processors: usize, threads: &[usize], time: Duration) -> Vec<Duration> {
        let processors = Processors::new(processors);
        let shares: Vec<Share> = threads.iter().map(|_| processors.share()).collect();
        let is_over = AtomicBool::new(false);
        thread::scope(|scope| {
            for (share, count) in shares.iter().zip(threads) {
                for _ in 0..*count {
                    scope.spawn(|| {
                        let mut executing = share.execute();
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
        shares
            .iter()
            .map(|share| share.flow.turn.lock().had)
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
        let (old, new) = (processors.share(), processors.share());
        let spend = |share: &Share, time: Duration| {
            let executing = share.execute();
            thread::sleep(time);
            drop(executing);
        };
        // Of a turn that nobody waits for the end of, no more than two count.
        spend(&old, 20 * TURN);
        (0..5).for_each(|_| spend(&old, TURN));
        spend(&new, TURN);
        let (old, new) = (old.flow.turn.lock().had, new.flow.turn.lock().had);
        assert!(old >= 7 * TURN && old < 20 * TURN, "{old:?}");
        assert!(new >= 6 * TURN && new <= old + 2 * TURN, "{new:?} {old:?}");
    }

    #[test]
    fn no_more_threads_execute_than_there_are_processors_and_all_have_a_turn() {
        let processors = Processors::new(2);
        let (one, two) = (processors.share(), processors.share());
        let (now, most) = (AtomicUsize::new(0), AtomicUsize::new(0));
        thread::scope(|scope| {
            for at in 0..12 {
                let (share, now, most) = (if at % 3 == 0 { &one } else { &two }, &now, &most);
                scope.spawn(move || {
                    let mut executing = share.execute();
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
