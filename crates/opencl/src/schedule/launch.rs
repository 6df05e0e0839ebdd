//! Launches: memory that a kernel can reach gets canaries before it, and is
//! scanned after it.

use crate::canaries::backing::{self, Use};
use crate::canaries::reach::Reach;
use crate::canaries::scan::Scan;
use crate::findings::{Culprit, Launch};
use crate::objects::kernel::Kernel;
use crate::objects::staging::{Gate, LastUse, StagingCopy};
use crate::platform::call;
use crate::platform::commands::Order;
use crate::platform::events::{Chain, Event, List, Waits, Wanted};
use crate::schedule::behind::Enqueued;
use crate::schedule::job::Work;
use crate::schedule::state::Schedule;
use crate::sys::*;
use model::UncheckedReason;
use std::sync::Arc;

/// A launch that is to be scanned.
pub struct Launching<'a> {
    pub queue: cl_command_queue,
    pub launch: Launch,
    pub reach: Reach,
    pub waits: Waits<'a>,
    pub wanted: Wanted,
}

impl Launching<'_> {
    /// Launches the kernel by `enqueue`, and enqueues the scan of what it can
    /// reach.
    pub fn enqueue(
        self,
        schedule: &Arc<Schedule>,
        enqueue: impl FnOnce(List, *mut cl_event) -> cl_int,
    ) -> cl_int {
        let (queue, launch) = (self.queue, self.launch);
        let (mut scans, uses) = (self.reach.scans, self.reach.uses);
        let kernel = launch.kernel.clone();
        // For the finding: the kernel may be released by then.
        kernel.names();
        let behind = schedule.watched.scans_behind(self.waits.events);
        let gate = schedule.watched.gate(self.waits.events);
        let in_turn = scans.iter().any(|scan| scan.staging().is_some()) || !uses.is_empty();
        let _turn = in_turn.then(|| schedule.turn.lock());
        if in_turn {
            let bare = without_gated(queue, &kernel, &mut scans);
            schedule.report().bare(&kernel.name, &bare);
        }
        let mut before = self.waits.events.to_vec();
        before.extend(behind.events());
        let mut own = Vec::new();
        let entered = enter(queue, &kernel, &mut scans, &before, &mut own);
        if let Err(code) = backing::enter(queue, &uses, Some(&kernel), &before, &mut own) {
            // Without the content of the image the kernel must not run.
            leave(&kernel, &scans, &uses);
            return code;
        }
        let more = behind
            .events()
            .chain(own.iter().filter_map(|events| events.last()));
        let mut done = std::ptr::null_mut();
        let code = self.waits.with(more, |list| enqueue(list, &raw mut done));
        leave(&kernel, &scans, &uses);
        if code != CL_SUCCESS {
            return code;
        }
        if let Err(code) = entered {
            schedule.failed(&kernel.name, code);
        }
        let Some(done) = Event::of(done) else {
            schedule.failed(&kernel.name, CL_INVALID_EVENT);
            return code;
        };
        let copies: Vec<Arc<StagingCopy>> = scans.iter().filter_map(Scan::staging).collect();
        let command = Enqueued {
            queue,
            done,
            wanted: self.wanted,
            gate,
        };
        let work = Work {
            culprit: Culprit::Kernel(launch),
            scans,
            uses,
            before: own,
        };
        match schedule.behind(command, work) {
            Ok(Some(last)) => used_until(&copies, queue, &last, gate),
            Ok(None) => {}
            Err(code) => schedule.failed(&kernel.name, code),
        }
        CL_SUCCESS
    }
}

impl Schedule {
    /// Reports that launches of a kernel are not all checked.
    fn failed(&self, kernel: &str, code: cl_int) {
        self.report().unchecked(kernel, UncheckedReason::Failed);
        self.report().error(&format!(
            "canaries could not be written or read (code {code}); launches of kernel {kernel} are not all checked"
        ));
    }
}

/// Skips scans of staging copies that belong to a launch in another queue which
/// waits for the program. Waiting for that launch could deadlock, because the
/// program may wait for this one. Returns what was skipped.
fn without_gated(queue: cl_command_queue, kernel: &Kernel, scans: &mut Vec<Scan>) -> Vec<String> {
    let order = Order::of(queue);
    let mut bare = Vec::new();
    scans.retain(|scan| {
        let blocked = scan
            .staging()
            .is_some_and(|staging| staging.is_gated(queue, order));
        if blocked {
            let why = "a launch that waits for the program has its copy";
            bare.push(scan.describe(kernel, why));
        }
        !blocked
    });
    bare
}

/// Prepares the memory that a kernel can reach. `own` gets the events that the
/// kernel must wait for.
///
/// # Errors
///
/// The platform's code. Then all arguments are the program's, and nothing is
/// scanned.
fn enter(
    queue: cl_command_queue,
    kernel: &Kernel,
    scans: &mut Vec<Scan>,
    before: &[cl_event],
    own: &mut Vec<Arc<Chain>>,
) -> Result<(), cl_int> {
    for at in 0..scans.len() {
        match scans[at].enter(queue, kernel, before) {
            Ok(event) => own.extend(event),
            Err(code) => {
                for scan in &scans[..at] {
                    scan.leave(kernel);
                }
                scans.clear();
                return Err(code);
            }
        }
    }
    Ok(())
}

/// Gives the kernel its own arguments again.
fn leave(kernel: &Kernel, scans: &[Scan], uses: &[Use]) {
    for scan in scans {
        scan.leave(kernel);
    }
    for one in uses {
        one.take_back(kernel);
    }
}

/// Records until when staging copies are used.
fn used_until(copies: &[Arc<StagingCopy>], queue: cl_command_queue, last: &Event, gate: Gate) {
    for staging in copies {
        staging.used_until(LastUse {
            event: last.clone(),
            queue: queue as usize,
            gate,
        });
    }
    if !copies.is_empty() {
        // A launch in another queue may have to wait for it.
        call!(clFlush(queue));
    }
}
