//! The program's events that have a scan behind them. A kernel's event stays
//! the platform's own, with its times and its state. Commands that wait for it
//! also wait for the scan behind the kernel, so that the scan finds the
//! canaries as this kernel left them.

use crate::objects::ByHandle;
use crate::objects::staging::Gate;
use crate::platform::ask::ask;
use crate::platform::events::{Chain, Event, is_pending};
use crate::sys::*;

/// An event of the program's, and the scan behind its command.
pub struct Watched {
    /// Of the end of the scan.
    scan: Event,
    /// Number of the scan's job.
    job: u64,
    /// References that the program holds.
    users: u32,
    /// Of the command.
    gate: Gate,
}

impl Watched {
    /// An event that the program is about to get.
    pub fn new(scan: Event, job: u64, gate: Gate) -> Watched {
        Watched {
            scan,
            job,
            users: 1,
            gate,
        }
    }
}

/// The events that have a scan behind them, by handle.
#[derive(Default)]
pub struct WatchedEvents(ByHandle<Watched>);

impl WatchedEvents {
    /// Records the scan behind an event for as long as the program holds the
    /// event.
    pub fn watch(&self, event: &Event, watched: Watched) {
        let before = self.0.lock().insert(event.raw() as usize, watched);
        // Its event is released without the lock.
        drop(before);
    }

    /// The program has another reference.
    pub fn retained(&self, event: cl_event) {
        if let Some(watched) = self.0.lock().get_mut(&(event as usize)) {
            watched.users += 1;
        }
    }

    /// The program is about to release a reference. Called before that:
    /// afterwards the handle may be another event's.
    pub fn released(&self, event: cl_event) {
        let gone = {
            let mut events = self.0.lock();
            match events.get_mut(&(event as usize)) {
                Some(watched) if watched.users > 1 => {
                    watched.users -= 1;
                    None
                }
                Some(_) => events.remove(&(event as usize)),
                None => None,
            }
        };
        // Its event is released without the lock.
        drop(gone);
    }

    /// Whether a wait for these events depends on a user event, which the
    /// program may set only when something else has ended.
    pub fn gate(&self, list: &[cl_event]) -> Gate {
        let known = |event: &cl_event| {
            let events = self.0.lock();
            events.get(&(*event as usize)).map(|watched| watched.gate)
        };
        let gated = list.iter().any(|event| {
            let gated = match known(event) {
                Some(gate) => gate == Gate::Program,
                None => {
                    let kind: Option<u32> =
                        ask!(one, clGetEventInfo(*event, CL_EVENT_COMMAND_TYPE));
                    kind == Some(CL_COMMAND_USER)
                }
            };
            gated && is_pending(*event)
        });
        match gated {
            true => Gate::Program,
            false => Gate::Open,
        }
    }

    /// Those of some events that are watched, with the number of the job behind
    /// it.
    pub fn jobs_behind(&self, list: &[cl_event]) -> Vec<(u64, cl_event)> {
        let events = self.0.lock();
        let job = |event: &cl_event| Some((events.get(&(*event as usize))?.job, *event));
        list.iter().filter_map(job).collect()
    }

    /// The events of the scans behind those of a wait list. They are held,
    /// because another thread may release the kernel's event, and so its
    /// scan's.
    pub fn scans_behind(&self, list: &[cl_event]) -> Chain {
        let mut scans = Chain::default();
        if list.is_empty() {
            return scans;
        }
        let events = self.0.lock();
        for event in list {
            if let Some(watched) = events.get(&(*event as usize)) {
                scans.push(watched.scan.clone());
            }
        }
        scans
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::platform::fake::Fake;

    /// Watches a new event, and returns it and that of its scan.
    fn watch(fake: &Fake, watched: &WatchedEvents, job: u64, gate: Gate) -> (Event, cl_event) {
        let done = Event::of(fake.event(1)).unwrap();
        let scan = fake.event(1);
        let entry = Watched::new(Event::of(scan).unwrap(), job, gate);
        watched.watch(&done, entry);
        (done, scan)
    }

    #[test]
    fn a_scan_is_held_as_long_as_the_program_holds_the_event() {
        let fake = Fake::new();
        let watched = WatchedEvents::default();
        let (done, scan) = watch(&fake, &watched, 3, Gate::Open);
        let raw = done.raw();
        let other = fake.event(0);
        assert_eq!(watched.jobs_behind(&[other, raw]), [(3, raw)]);
        let scans = watched.scans_behind(&[other, raw]);
        assert_eq!(scans.events().collect::<Vec<_>>(), [scan]);
        drop(scans);
        watched.retained(raw);
        watched.released(raw);
        assert_eq!(fake.references(scan), 1);
        watched.released(raw);
        assert_eq!(fake.references(scan), 0);
        assert!(watched.scans_behind(&[raw]).last().is_none());
        // A release without a reference is an error of the program.
        watched.released(raw);
    }

    #[test]
    fn only_what_waits_for_a_pending_user_event_is_gated() {
        let fake = Fake::new();
        let watched = WatchedEvents::default();
        let user = fake.user_event();
        let (free, _) = watch(&fake, &watched, 1, Gate::Open);
        let (gated, _) = watch(&fake, &watched, 2, Gate::Program);
        assert_eq!(watched.gate(&[]), Gate::Open);
        assert_eq!(watched.gate(&[free.raw(), fake.event(1)]), Gate::Open);
        assert_eq!(watched.gate(&[free.raw(), user]), Gate::Program);
        assert_eq!(watched.gate(&[gated.raw()]), Gate::Program);
        fake.end(user, 0);
        fake.end(gated.raw(), 0);
        assert_eq!(watched.gate(&[user, gated.raw()]), Gate::Open);
    }
}
