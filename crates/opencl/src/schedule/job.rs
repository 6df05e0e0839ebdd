//! Jobs: all scans after one command, from the commands that make them to what
//! they show.

use crate::canaries::backing::Use;
use crate::canaries::checker::Checker;
use crate::canaries::contexts::{Chosen, Context};
use crate::canaries::rounds::Round;
use crate::canaries::scan::{Held, Scan, by_host};
use crate::findings::{Culprit, Damaged, Overwritten};
use crate::platform::ask::ask;
use crate::platform::call;
use crate::platform::commands::{Commands, Followed, Order};
use crate::platform::events::{COMPLETE, Chain, Event, status};
use crate::platform::release::is_failure_of_the_program;
use crate::schedule::jobs::{By, Conclude};
use crate::schedule::state::Schedule;
use crate::schedule::timing::{Timing, ending};
use crate::sys::*;
use heap::choice::{self, Class};
use model::{Note, UncheckedReason};
use parking_lot::Mutex;
use std::ffi::c_void;
use std::sync::Arc;
use std::time::Instant;

/// What is to be done behind a command.
pub struct Work {
    pub culprit: Culprit,
    pub scans: Vec<Scan>,
    /// What backings the command uses.
    pub uses: Vec<Use>,
    /// What the command waits for.
    pub before: Vec<Arc<Chain>>,
}

impl Work {
    /// Whether any command is enqueued behind it.
    pub fn is_empty(&self) -> bool {
        self.scans.is_empty() && !self.uses.iter().any(Use::writes)
    }
}

/// A job whose commands were enqueued.
pub struct Started {
    /// Complete when all scans were made.
    pub end: Event,
    pub number: u64,
}

/// All scans after one command.
pub struct Job {
    schedule: Arc<Schedule>,
    number: u64,
    context: Arc<Context>,
    work: Work,
    /// Scans of the device's checker; empty: the host scans.
    rounds: Vec<Round>,
    timing: Option<Timing>,
    /// The event of the command.
    done: Event,
    /// All commands behind it.
    held: Vec<Arc<Chain>>,
}

/// A job between the last of its commands and its conclusion.
struct Slot {
    /// Of the last command, until the job is concluded: the platform need not
    /// call back for a command that failed (PoCL 3.1 does not).
    last: Mutex<Option<Event>>,
    job: Mutex<Option<Box<Job>>>,
}

impl Conclude for Slot {
    fn ended(&self) -> Option<cl_int> {
        let last = self.last.lock().clone();
        status(last?.raw()).filter(|status| *status <= COMPLETE)
    }

    fn conclude(&self, status: cl_int, by: By) {
        let last = self.last.lock().take();
        let job = self.job.lock().take();
        if let Some(job) = job {
            job.conclude(status, by, last);
        }
    }
}

/// Why the commands of a job are not all enqueued.
struct NotEnqueued {
    code: cl_int,
    /// Whether some of them are.
    begun: bool,
}

/// Called by the platform, on a thread of its own: it makes no OpenCL calls but
/// queries and releases.
unsafe extern "C" fn scanned(_event: cl_event, status: cl_int, data: *mut c_void) {
    // SAFETY: the data that was passed with this function, which is called
    // once.
    let slot = unsafe { Arc::from_raw(data.cast::<Slot>()) };
    slot.conclude(status, By::Platform);
}

impl Job {
    /// Enqueues the work behind a command whose event is `done`.
    ///
    /// # Errors
    ///
    /// The platform's code.
    pub fn start(
        schedule: &Arc<Schedule>,
        queue: cl_command_queue,
        done: &Event,
        work: Work,
    ) -> Result<Started, cl_int> {
        let context: Option<cl_context> = ask!(one, clGetCommandQueueInfo(queue, CL_QUEUE_CONTEXT));
        let context = context.ok_or(CL_INVALID_COMMAND_QUEUE)?;
        let number = schedule.jobs.begin(queue as usize, work.culprit.kernel());
        let mut job = Box::new(Job {
            schedule: schedule.clone(),
            number,
            context: schedule.canaries.context(context),
            work,
            rounds: Vec::new(),
            timing: None,
            done: done.clone(),
            held: Vec::new(),
        });
        let end = match job.enqueue(queue) {
            Ok(end) => end,
            Err(NotEnqueued { code, begun }) => {
                schedule.jobs.end(number);
                if begun {
                    // Some reads into it may still be pending.
                    Box::leak(job);
                }
                return Err(code);
            }
        };
        let slot = Arc::new(Slot {
            last: Mutex::new(Some(end.clone())),
            job: Mutex::new(Some(job)),
        });
        schedule.jobs.offer(number, slot.clone());
        let data = Arc::into_raw(slot).cast_mut().cast::<c_void>();
        match call!(clSetEventCallback(end.raw(), COMPLETE, Some(scanned), data)) {
            CL_SUCCESS => Ok(Started { end, number }),
            code => {
                // It is never called, so the bytes are leaked: reads into them
                // are pending.
                schedule.jobs.end(number);
                Err(code)
            }
        }
    }

    /// Enqueues the scans, by the host or the device, and returns the event of
    /// the last command.
    fn enqueue(&mut self, queue: cl_command_queue) -> Result<Event, NotEnqueued> {
        let begun = Instant::now();
        let schedule = self.schedule.clone();
        let order = Order::of(queue);
        let held = self.work.scans.iter().filter_map(Scan::held);
        let bytes: u64 = held.map(|held| held.canary_bytes() as u64).sum();
        let class = class_of(&self.work.scans, bytes);
        let full = schedule.jobs.is_full(bytes);
        // What the host restores, it restores as a whole, some time after it has read
        // it: of a kernel that runs meanwhile it would see nothing.
        let mut needs_device = order == Order::Loose;
        for scan in &self.work.scans {
            needs_device |= scan.buffer.note_use(queue);
        }
        let chosen = match self.work.scans.is_empty() {
            true => None,
            false => Some(self.choose(class, full || needs_device)),
        };
        let timed = chosen.as_ref().is_some_and(|chosen| chosen.timed);
        let checker = chosen.and_then(|chosen| chosen.checker);
        if full && checker.is_none() {
            call!(clFlush(queue));
            schedule.jobs.make_room();
        }
        let last = checker
            .as_ref()
            .and_then(|checker| self.by_device(checker, (queue, order)));
        let by_device = last.is_some();
        let last = match last {
            Some(last) => last,
            None => {
                schedule.jobs.hold(self.number, bytes);
                self.by_host((queue, order))?
            }
        };
        let enqueuing = begun.elapsed();
        if !by_device {
            self.context.spend(enqueuing);
        }
        if timed && by_device == checker.is_some() {
            self.timing = Some(Timing {
                class,
                checker: match by_device {
                    true => choice::Checker::Device,
                    false => choice::Checker::Host,
                },
                enqueuing,
                enqueued: Instant::now(),
                ended: ending(self.done.raw()),
            });
        }
        Ok(last)
    }

    /// What makes a scan of this class. `needs_device`: not the host, if it can be
    /// avoided.
    fn choose(&self, class: Class, needs_device: bool) -> Chosen {
        let schedule = &self.schedule;
        let wanted = schedule.canaries.checker;
        self.context
            .choose(wanted, class, needs_device, schedule.report())
    }

    /// Enqueues scans by the device's checker; `None`: that failed.
    fn by_device(
        &mut self,
        checker: &Arc<Checker>,
        (queue, order): (cl_command_queue, Order),
    ) -> Option<Event> {
        let mut commands = Commands::behind(queue, order, self.done.raw());
        let (work, rounds) = (&self.work, &mut self.rounds);
        let enqueued = Round::enqueue_all(checker, &work.scans, &mut commands, rounds)
            .and_then(|()| bring_back(&work.uses, &mut commands))
            .and_then(|()| commands.end());
        self.held.push(Arc::new(commands.into_events()));
        if enqueued.is_err() {
            // Answers may be pending; the host scans instead, from now on.
            std::mem::forget(std::mem::take(&mut self.rounds));
            self.context.lose_checker(self.schedule.report());
        }
        enqueued.ok()
    }

    /// Enqueues scans by the host.
    fn by_host(&mut self, (queue, order): (cl_command_queue, Order)) -> Result<Event, NotEnqueued> {
        let mut commands = Commands::behind(queue, order, self.done.raw());
        let enqueued = by_host(&mut self.work.scans, &mut commands)
            .and_then(|()| bring_back(&self.work.uses, &mut commands))
            .and_then(|()| commands.end());
        let begun = commands.are_begun();
        self.held.push(Arc::new(commands.into_events()));
        enqueued.map_err(|code| NotEnqueued { code, begun })
    }

    /// The outcome of its commands, of which the last ended with this status.
    ///
    /// The status of each is queried: if an event fails that the kernel waits
    /// for, a platform may skip the commands behind the kernel, and call back
    /// as if they had run (NVIDIA's, driver 580).
    fn outcome(&self, last: cl_int) -> Outcome {
        let held = self.work.before.iter().chain(&self.held);
        let events = held.flat_map(|chain| chain.events());
        outcome(last, events.chain([self.done.raw()]).map(status))
    }

    fn conclude(mut self, status: cl_int, by: By, last: Option<Event>) {
        let now = Instant::now();
        let outcome = self.outcome(status);
        if outcome == Outcome::Complete {
            self.report_scans();
            if let Some(timing) = &self.timing {
                timing.note(&self.context, now, by);
            }
            // Commands that failed because the kernel failed have written no
            // canaries.
            for scan in &self.work.scans {
                if let Some(block) = scan.buffer.block() {
                    block.written.settle();
                }
            }
        } else {
            self.report_failure();
        }
        if outcome == Outcome::Underway {
            // Reads into its memory may be pending.
            std::mem::forget(std::mem::take(&mut self.work.scans));
            std::mem::forget(std::mem::take(&mut self.rounds));
            std::mem::forget(std::mem::take(&mut self.work.before));
            std::mem::forget(std::mem::take(&mut self.held));
        }
        for round in self.rounds.drain(..) {
            round.end();
        }
        // All events are released before a thread that waits for the job can
        // query reference counts.
        let (schedule, number) = (self.schedule.clone(), self.number);
        drop(self);
        drop(last);
        schedule.jobs.end(number);
    }

    /// Reports what the scans show.
    fn report_scans(&self) {
        let report = self.schedule.report();
        if let Some(kernel) = self.work.culprit.kernel() {
            report.checked(kernel);
            if !self.work.scans.is_empty() {
                report.note(match self.rounds.is_empty() {
                    true => Note::CanariesByHost,
                    false => Note::CanariesByDevice,
                });
            }
        }
        let found = |scan: &Scan, damages: Vec<Damaged>| {
            for damage in &damages {
                report.overwritten(&Overwritten {
                    culprit: &self.work.culprit,
                    buffer: &scan.buffer,
                    argument: scan.argument,
                    damage,
                });
            }
        };
        if self.rounds.is_empty() {
            for scan in &self.work.scans {
                found(scan, scan.damages());
            }
        }
        for round in &self.rounds {
            round.damages(&self.work.scans, &found);
        }
    }

    /// Reports that a kernel was not checked, if it ran.
    fn report_failure(&self) {
        let ran = !status(self.done.raw()).is_some_and(never_ran);
        if let Some(kernel) = self.work.culprit.kernel().filter(|_| ran) {
            let reason = UncheckedReason::Unfinished;
            self.schedule.report().unchecked(kernel, reason);
        }
    }
}

fn class_of(scans: &[Scan], bytes: u64) -> Class {
    let is_image = |scan: &Scan| matches!(scan.held(), Some(Held::Image(_)));
    Class::of(scans.iter().any(is_image), scans.len() as u64, bytes)
}

/// What became of a job's commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    /// All were done.
    Complete,
    /// The kernel or a scan failed: the scans show nothing.
    Failed,
    /// One failed, and others have not ended.
    Underway,
}

/// Of commands with these statuses, of which the last ended with `last`.
fn outcome(last: cl_int, all: impl Iterator<Item = Option<cl_int>>) -> Outcome {
    let mut failed = last < 0;
    let mut underway = false;
    for status in all {
        match status {
            Some(status) if status > COMPLETE => underway = true,
            Some(status) => failed |= status < 0,
            None => failed = true,
        }
    }
    match (failed, underway) {
        (true, true) => Outcome::Underway,
        (true, false) => Outcome::Failed,
        (false, _) => Outcome::Complete,
    }
}

/// Whether a kernel with this status never ran, because what it waited for had
/// failed: OpenCL's code for that, PoCL's own, and the codes that the program
/// has set as the status of events.
fn never_ran(status: cl_int) -> bool {
    const FAILED_BY_POCL: cl_int = -1;
    [CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST, FAILED_BY_POCL].contains(&status)
        || is_failure_of_the_program(status)
}

/// Copies what was written into images that have a backing to the images'
/// memory.
fn bring_back(uses: &[Use], commands: &mut Commands) -> Result<(), cl_int> {
    let queue = commands.queue;
    for one in uses.iter().filter(|one| one.writes()) {
        commands.add(&[], Followed::ByTheEnd, |after, events| {
            one.bring_back(queue, after, events)
        })?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::canaries::Canaries;
    use crate::canaries::blocks::enclosed;
    use crate::findings::testing::{Kept, Recorder};
    use crate::findings::{HostAction, Launch};
    use crate::objects::block::Block;
    use crate::objects::buffer::testing::made;
    use crate::objects::buffer::{Buffer, Place};
    use crate::objects::kernel::Kernel;
    use crate::platform::fake::{Fake, peek, poke};
    use crate::schedule::jobs::PATIENCE;
    use heap::canary::{Key, Layout, Side};
    use model::{CanaryChecker, Settings};
    use std::time::Duration;

    struct Test {
        schedule: Arc<Schedule>,
        recorder: Arc<Recorder>,
        queue: cl_command_queue,
        buffer: Arc<Buffer>,
        fake: Fake,
    }

    fn test(order: Order) -> Test {
        let fake = Fake::new();
        let recorder = Arc::new(Recorder::default());
        let settings = Settings {
            canary_checker: CanaryChecker::Host,
            ..Settings::default()
        };
        let canaries = Arc::new(Canaries::of(&settings, recorder.clone()));
        let layout = Layout::around(100, 64, 128).unwrap();
        let enclosed = enclosed(fake.context, 0, &layout).unwrap();
        let block = Block::new(enclosed.block, layout, Key::of_byte(0xab));
        let handle = enclosed.part.into_raw() as usize;
        let mut made = made(handle, 100, Place::Block(block));
        made.context = fake.context as usize;
        Test {
            schedule: Arc::new(Schedule::of(canaries)),
            recorder,
            queue: fake.queue(order),
            buffer: Arc::new(Buffer::of(made)),
            fake,
        }
    }

    impl Test {
        /// Enqueues a kernel and the scan behind it. Returns the kernel's event.
        fn start(&self, after: &[cl_event]) -> (Event, Result<Started, cl_int>) {
            let raw = self.fake.kernel("fill", &[("out", false)]);
            let kernel = Arc::new(Kernel::of(raw, Vec::new()));
            let buffer = self.buffer.handle as cl_mem;
            kernel.lend(0, buffer).unwrap();
            let block = self.buffer.block().unwrap();
            let ready = block.prepare(self.queue).unwrap();
            let (count, list) = crate::platform::events::wait_list(after);
            let (none, mut done) = (std::ptr::null(), std::ptr::null_mut());
            let queue = self.queue;
            let code = call!(clEnqueueNDRangeKernel(
                queue,
                raw,
                1,
                none,
                none,
                none,
                count,
                list,
                &raw mut done
            ));
            assert_eq!(code, CL_SUCCESS);
            let done = Event::of(done).unwrap();
            let work = Work {
                culprit: Culprit::Kernel(Launch {
                    kernel,
                    number: 1,
                    stack: None,
                }),
                scans: vec![Scan::new(self.buffer.clone(), Some(0))],
                uses: Vec::new(),
                before: ready.into_iter().collect(),
            };
            let started = Job::start(&self.schedule, queue, &done, work);
            (done, started)
        }

        fn past_the_end(&self) {
            self.fake.on_kernel(|arguments| poke(arguments[0], 101, 1));
        }
    }

    fn found() -> Kept {
        Kept::Overwritten("fill".into(), Some(0), 0, Side::After, 1)
    }

    /// What was reported, with the serial number of the buffer as 0.
    fn findings(recorder: &Recorder) -> Vec<Kept> {
        let all = recorder.take_findings().into_iter();
        all.map(|one| match one {
            Kept::Overwritten(who, argument, _, side, nearest) => {
                Kept::Overwritten(who, argument, 0, side, nearest)
            }
            other => other,
        })
        .collect()
    }

    #[test]
    fn what_a_kernel_overwrites_is_reported_and_repaired() {
        for order in [Order::Kept, Order::Loose] {
            let t = test(order);
            t.past_the_end();
            let (done, started) = t.start(&[]);
            let started = started.unwrap();
            assert_eq!(t.schedule.jobs.unfinished(), ["fill"]);
            assert_eq!(
                t.recorder.take(),
                [],
                "nothing is known before the commands ran"
            );
            t.fake.run();
            assert_eq!(
                findings(&t.recorder),
                [Kept::Checked("fill".into()), found()]
            );
            assert_eq!(peek(t.buffer.handle, 101), 0xab);
            assert!(t.schedule.jobs.unfinished().is_empty());
            // The damage is not attributed to the next kernel.
            t.fake.on_kernel(|_| ());
            let (other, again) = t.start(&[]);
            t.fake.run();
            assert_eq!(findings(&t.recorder), [Kept::Checked("fill".into())]);
            drop((done, started, other, again));
            assert_eq!(t.fake.events(), 0, "no event stays behind");
        }
    }

    #[test]
    fn a_kernel_that_never_ran_is_neither_checked_nor_unchecked() {
        let t = test(Order::Kept);
        t.past_the_end();
        let gate = t.fake.user_event();
        let (_done, started) = t.start(&[gate]);
        assert!(started.is_ok());
        t.fake.end(gate, -7);
        t.fake.run();
        assert_eq!(t.recorder.take(), []);
        assert!(t.schedule.jobs.unfinished().is_empty());
    }

    #[test]
    fn a_platform_that_refuses_the_scan_leaves_no_job() {
        let t = test(Order::Kept);
        let block = t.buffer.block().unwrap();
        block.prepare(t.queue).unwrap();
        for function in ["clEnqueueReadBuffer", "clSetEventCallback"] {
            t.fake.refuse(function, CL_OUT_OF_RESOURCES);
            let (_done, started) = t.start(&[]);
            assert_eq!(started.err(), Some(CL_OUT_OF_RESOURCES), "{function}");
            assert!(t.schedule.jobs.unfinished().is_empty());
            t.fake.allow();
        }
    }

    #[test]
    fn a_thread_that_waits_concludes_what_has_ended() {
        let t = test(Order::Kept);
        t.past_the_end();
        let gate = t.fake.user_event();
        let (_done, _started) = t.start(&[gate]);
        let all = |_, _| true;
        t.schedule.jobs.wait(Duration::ZERO, all);
        assert_eq!(t.recorder.take(), [], "it has not ended");
        t.fake.end(gate, 0);
        t.fake.run();
        t.schedule.jobs.wait(PATIENCE, all);
        assert_eq!(findings(&t.recorder).len(), 2);
        t.schedule.jobs.wait(PATIENCE, all);
        assert_eq!(findings(&t.recorder), [], "once");
    }

    #[test]
    fn only_commands_that_were_all_done_show_anything() {
        let outcome = |last, all: &[i32]| {
            let all = all
                .iter()
                .map(|status| Some(*status).filter(|status| *status != 99));
            outcome(last, all)
        };
        assert_eq!(outcome(0, &[0, 0]), Outcome::Complete);
        assert_eq!(
            outcome(0, &[1, 0]),
            Outcome::Complete,
            "the platform says so"
        );
        assert_eq!(outcome(-1, &[0, 0]), Outcome::Failed);
        assert_eq!(outcome(0, &[-14, 0]), Outcome::Failed);
        assert_eq!(outcome(0, &[0, 99]), Outcome::Failed, "no answer");
        assert_eq!(outcome(-1, &[0, 1]), Outcome::Underway);
    }

    #[test]
    fn what_runs_behind_is_nothing_for_uses_that_only_read() {
        let work = Work {
            culprit: Culprit::Host {
                action: HostAction {
                    function: "f",
                    what: "",
                },
                stack: None,
            },
            scans: Vec::new(),
            uses: Vec::new(),
            before: Vec::new(),
        };
        assert!(work.is_empty());
    }

    #[test]
    fn a_kernel_behind_what_failed_never_ran() {
        for status in [-1, CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST] {
            assert!(never_ran(status), "{status}");
        }
        for status in [0, 1, CL_OUT_OF_RESOURCES] {
            assert!(!never_ran(status), "{status}");
        }
    }
}
