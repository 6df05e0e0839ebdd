//! References to events of commands, and lists of them.

use crate::platform::ask::ask;
use crate::platform::call;
use crate::platform::release::let_go;
use crate::sys::*;
use std::sync::Arc;

/// How far the command of an event is.
pub fn status(event: cl_event) -> Option<cl_int> {
    let status: Option<u32> = ask!(
        one,
        clGetEventInfo(event, CL_EVENT_COMMAND_EXECUTION_STATUS)
    );
    status.map(u32::cast_signed)
}

/// Whether the command of an event has not ended, neither well nor badly.
pub fn is_pending(event: cl_event) -> bool {
    status(event) > Some(COMPLETE)
}

/// `CL_COMPLETE`, as a status.
pub const COMPLETE: cl_int = CL_COMPLETE.cast_signed();

/// A wait list of the program's.
pub type List = (cl_uint, *const cl_event);

/// A list of events as OpenCL requires it: an empty one is null.
pub fn wait_list(events: &[cl_event]) -> List {
    match events {
        [] => (0, std::ptr::null()),
        events => (events.len() as cl_uint, events.as_ptr()),
    }
}

/// A wait list of the program: unchanged, valid or not, and its events.
#[derive(Clone, Copy)]
pub struct Waits<'a> {
    pub given: List,
    pub events: &'a [cl_event],
}

impl Waits<'_> {
    /// What the program passes to a function of OpenCL.
    ///
    /// # Safety
    ///
    /// A list that is not null has this many events, for as long as this is
    /// used.
    pub unsafe fn of((count, list): List) -> Self {
        Waits {
            given: (count, list),
            events: if list.is_null() || count == 0 {
                &[]
            } else {
                // SAFETY: as this function's contract says.
                unsafe { std::slice::from_raw_parts(list, count as usize) }
            },
        }
    }

    /// Calls `enqueue` with the list, grown by further events; with the
    /// program's list if there are none.
    pub fn with<T>(
        &self,
        more: impl Iterator<Item = cl_event>,
        enqueue: impl FnOnce(List) -> T,
    ) -> T {
        let mut all: Vec<cl_event> = more.collect();
        if all.is_empty() {
            return enqueue(self.given);
        }
        all.extend(self.events);
        enqueue(wait_list(&all))
    }
}

/// Ringfence's reference to an event, released when that is safe.
#[derive(Debug)]
pub struct Event(usize);

impl Event {
    /// Takes over a reference; `None`: the platform returned no event.
    pub fn of(event: cl_event) -> Option<Event> {
        (!event.is_null()).then(|| Event(event as usize))
    }

    /// A reference of its own to an event that another owner holds.
    pub fn retained(event: cl_event) -> Option<Event> {
        if !event.is_null() {
            call!(clRetainEvent(event));
        }
        Event::of(event)
    }

    /// The platform's handle, for as long as this is held.
    pub fn raw(&self) -> cl_event {
        self.0 as cl_event
    }

    /// Whether its command has not ended.
    pub fn is_pending(&self) -> bool {
        is_pending(self.raw())
    }

    /// Gives the reference away.
    fn into_raw(self) -> cl_event {
        let event = self.raw();
        std::mem::forget(self);
        event
    }
}

impl Clone for Event {
    fn clone(&self) -> Event {
        call!(clRetainEvent(self.raw()));
        Event(self.0)
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        let_go(self.raw());
    }
}

/// Where the program asked for the event of a command, if it did.
#[derive(Clone, Copy)]
pub struct Wanted(*mut cl_event);

impl Wanted {
    /// # Safety
    ///
    /// Null, or a place that may be written until the program's call that
    /// passed it returns.
    pub unsafe fn at(place: *mut cl_event) -> Wanted {
        Wanted(place)
    }

    /// Whether the program gets the event.
    pub fn is_some(self) -> bool {
        !self.0.is_null()
    }

    /// Calls `enqueue` with the program's own place.
    pub fn pass(self, list: List, enqueue: impl FnOnce(List, *mut cl_event) -> cl_int) -> cl_int {
        enqueue(list, self.0)
    }

    /// Gives the event to the program, or releases it.
    pub fn give(self, event: Option<Event>) {
        if !self.is_some() {
            return;
        }
        let event = event.map_or(std::ptr::null_mut(), Event::into_raw);
        // SAFETY: a place that may be written, as `at` was promised.
        unsafe { *self.0 = event };
    }
}

/// Events that are held, in the order in which their commands were enqueued.
/// The references are released with it.
#[derive(Default)]
pub struct Chain {
    events: Vec<Event>,
    /// What they wait for, held as long.
    before: Vec<Arc<Chain>>,
}

impl Chain {
    /// Of one event.
    pub fn of(event: Event) -> Chain {
        Chain {
            events: vec![event],
            before: Vec::new(),
        }
    }

    /// Holds another event.
    pub fn push(&mut self, event: Event) {
        self.events.push(event);
    }

    /// Enqueues one more command, whose event it takes.
    pub fn add(&mut self, enqueue: impl FnOnce(*mut cl_event) -> cl_int) -> cl_int {
        let mut event = std::ptr::null_mut();
        let code = enqueue(&raw mut event);
        if code == CL_SUCCESS {
            self.events.extend(Event::of(event));
        }
        code
    }

    /// Holds what its commands wait for, too.
    pub fn behind(&mut self, before: Vec<Arc<Chain>>) {
        self.before = before;
    }

    /// All events.
    pub fn events(&self) -> impl Iterator<Item = cl_event> {
        self.events.iter().map(Event::raw)
    }

    /// Holds what another chain holds, before what it enqueues itself.
    pub fn hold(&mut self, other: &Chain) {
        self.events.extend(other.events.iter().cloned());
    }

    /// The last event.
    pub fn last(&self) -> Option<cl_event> {
        self.events.last().map(Event::raw)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::platform::fake::Fake;

    #[test]
    fn an_event_is_released_as_often_as_it_is_held() {
        let fake = Fake::new();
        let raw = fake.event(COMPLETE);
        assert!(Event::of(std::ptr::null_mut()).is_none());
        assert!(Event::retained(std::ptr::null_mut()).is_none());
        let held = Event::retained(raw).unwrap();
        let copy = held.clone();
        assert_eq!(fake.references(raw), 3);
        let mut chain = Chain::of(copy);
        chain.push(held);
        let mut other = Chain::default();
        other.hold(&chain);
        assert_eq!(fake.references(raw), 5);
        drop(chain);
        assert_eq!(fake.references(raw), 3);
        drop(other);
        drop(Event::of(raw));
        assert_eq!(fake.references(raw), 0);
    }

    #[test]
    fn the_program_gets_the_event_that_it_asked_for() {
        let fake = Fake::new();
        let (wanted, other) = (fake.event(COMPLETE), fake.event(COMPLETE));
        let mut place = std::ptr::null_mut();
        // SAFETY: a place of this test's, and none.
        let (at, none) = unsafe { (Wanted::at(&raw mut place), Wanted::at(std::ptr::null_mut())) };
        assert!(at.is_some() && !none.is_some());
        at.give(Event::of(wanted));
        none.give(Event::of(other));
        assert_eq!(place, wanted);
        assert_eq!((fake.references(wanted), fake.references(other)), (1, 0));
    }

    #[test]
    fn a_list_is_passed_on_as_it_is_unless_it_grows() {
        let fake = Fake::new();
        let events = [fake.event(COMPLETE), fake.event(COMPLETE)];
        // Wrong, and the platform's to refuse.
        let wrong: List = (3, std::ptr::null());
        // SAFETY: no list, and one of one event.
        let (none, one) = unsafe { (Waits::of(wrong), Waits::of((1, events.as_ptr()))) };
        assert!(none.events.is_empty());
        assert_eq!(none.with([].into_iter(), |list| list), wrong);
        assert_eq!(one.with([].into_iter(), |list| list), (1, events.as_ptr()));
        let grown = one.with([events[1]].into_iter(), |(count, list)| {
            // SAFETY: the list that was made, which is there.
            unsafe { std::slice::from_raw_parts(list, count as usize) }.to_vec()
        });
        assert_eq!(grown.len(), 2);
        assert!(events.iter().all(|event| grown.contains(event)));
    }

    #[test]
    fn only_what_has_neither_ended_nor_failed_is_pending() {
        let fake = Fake::new();
        for (status, pending) in [(2, true), (1, true), (0, false), (-5, false)] {
            assert_eq!(is_pending(fake.event(status)), pending, "{status}");
        }
        assert!(!is_pending(0x1 as cl_event), "an event that was released");
    }
}
