//! Streams: their names, as a handle alone does not say which stream is meant,
//! and whether uses of memory are ordered with its allocation and free, where
//! these happen in streams.
//!
//! Pointer parameters of kernels are checked against that, and a use that is not
//! ordered becomes a finding when the kernel makes it; copies and sets are, and
//! theirs become findings before they are made.

use crate::functions::Function;
use crate::moment::moment_over;
use driver::{Driver, SupportStream};
use heap::{Blocking, Point, StreamOrder};
use model::{DeviceAddress, Extent, Rule};
use parking_lot::Mutex;
use smallvec::SmallVec;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{self, AtomicBool};

/// `CU_STREAM_LEGACY`
const LEGACY: u64 = 1;

/// A stream, the same for every thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum StreamName {
    /// The legacy default stream of a context.
    Legacy {
        /// The context's handle.
        context: u64,
    },
    /// The default stream of a thread.
    PerThread {
        /// The context's handle.
        context: u64,
        /// The thread's number.
        thread: u64,
    },
    /// One that the program made, by its handle.
    Made(u64),
}

impl StreamName {
    /// The context, of a default stream.
    pub fn context(self) -> Option<u64> {
        match self {
            StreamName::Legacy { context } | StreamName::PerThread { context, .. } => Some(context),
            StreamName::Made(_) => None,
        }
    }

    /// The context; for a stream that the program made, the current one.
    pub(crate) fn context_or_current(self, driver: &dyn Driver) -> u64 {
        self.context().unwrap_or_else(|| driver.current_context())
    }

    /// A handle that means this stream in every thread in which its context is
    /// current, if there is one.
    pub fn lasting_handle(self) -> Option<u64> {
        match self {
            StreamName::Legacy { .. } => Some(LEGACY),
            StreamName::PerThread { .. } => None,
            StreamName::Made(handle) => Some(handle),
        }
    }

    /// The stream in words, for reports.
    pub(crate) fn words(self) -> String {
        match self {
            StreamName::Legacy { .. } => "the default stream".into(),
            StreamName::PerThread { .. } => "a thread's default stream".into(),
            StreamName::Made(handle) => format!("stream {handle:#x}"),
        }
    }
}

/// A stream in which something is put.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamUse {
    /// The stream.
    pub name: StreamName,
    /// Its context's handle.
    pub context: u64,
    /// Whether it is ordered with the legacy default stream.
    pub blocking: bool,
}

impl StreamUse {
    /// The stream as the driver is given it.
    pub(crate) fn support(self) -> SupportStream {
        // What has no lasting handle is the calling thread's own stream.
        const PER_THREAD: u64 = 2;
        SupportStream::Program {
            handle: self.name.lasting_handle().unwrap_or(PER_THREAD),
            per_thread: false,
        }
    }

    fn kind(self) -> Blocking {
        match self.name {
            StreamName::Legacy { .. } => Blocking::Legacy,
            _ if self.blocking => Blocking::Yes,
            _ => Blocking::No,
        }
    }
}

/// Where a launch went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Where {
    /// Into a stream.
    Stream {
        /// The stream.
        name: StreamName,
        /// As the program names it.
        handle: u64,
        /// Null stands for the calling thread's own stream.
        per_thread: bool,
    },
    /// Into a graph: it runs when the graph is launched.
    Graph,
    /// Into a stream that is not known.
    Unknown,
}

/// What the program does that orders streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ordering {
    /// Something is put into a stream.
    Operation(StreamUse),
    /// An event is recorded in a stream.
    Record(u64, StreamUse),
    /// A stream waits for an event.
    Wait(u64, StreamUse),
    /// An event is recorded elsewhere, or is gone.
    UnknownEvent(u64),
    /// Events may have been recorded by a graph, and all before it is over.
    Graph,
    /// A stream is gone.
    StreamEnds(StreamName),
    /// The host has waited for a stream.
    HostWaited(StreamName),
    /// The host has waited for an event.
    HostWaitedForEvent(u64),
    /// The host has waited for everything, or something orders streams in a
    /// way that is not reported here.
    Everything,
}

/// How a use of stream-ordered memory lies to its allocation and free.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum UseOrder {
    /// After the one and before the other.
    Right,
    /// After the free.
    Freed,
    /// Not ordered as the rule says.
    Wrong(Rule),
}

/// An allocation in stream order.
struct Lifetime {
    extent: Extent,
    made: Point,
    freed: Option<Point>,
    /// The latest use by each stream.
    uses: Vec<(Point, User)>,
}

/// Who uses memory in a stream.
#[derive(Clone)]
pub(crate) enum User {
    /// A kernel, which was given a pointer to it.
    Kernel(Arc<Function>),
    /// A copy or set, by the driver function's name.
    Call(&'static str),
}

impl fmt::Display for User {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            User::Kernel(function) => {
                write!(
                    out,
                    "kernel {}, which was given it,",
                    report::demangle(&function.name)
                )
            }
            User::Call(name) => write!(out, "{name}"),
        }
    }
}

#[derive(Default)]
struct State {
    order: StreamOrder<StreamName>,
    /// By base.
    memory: BTreeMap<u64, Lifetime>,
}

/// The order of streams, from the first allocation on that is made in stream
/// order: before, nothing depends on it, and nothing is kept.
#[derive(Default)]
pub struct Streams {
    active: AtomicBool,
    state: Mutex<State>,
}

impl Streams {
    /// Whether the order of streams matters; if not, it need not be reported.
    pub fn are_tracked(&self) -> bool {
        self.active.load(atomic::Ordering::Relaxed)
    }

    /// The program does something that orders streams.
    pub fn ordered(&self, what: Ordering) {
        if !self.are_tracked() {
            return;
        }
        let order = &mut self.state.lock().order;
        match what {
            Ordering::Operation(stream) => {
                order.enqueue(stream.name, stream.context, stream.kind());
            }
            Ordering::Record(event, stream) => {
                order.record(event, stream.name, stream.context, stream.kind());
            }
            Ordering::Wait(event, stream) => {
                order.wait(event, stream.name, stream.context, stream.kind());
            }
            Ordering::UnknownEvent(event) => order.forget_event(event),
            Ordering::Graph => {
                order.forget_events();
                order.everything_so_far();
            }
            Ordering::StreamEnds(name) => order.forget_stream(name),
            Ordering::HostWaited(name) => order.host_waited(name),
            Ordering::HostWaitedForEvent(event) => order.host_waited_for_event(event),
            Ordering::Everything => order.everything_so_far(),
        }
    }

    /// Memory is allocated in a stream.
    pub(crate) fn allocated(&self, extent: Extent, stream: StreamUse) {
        if !self.active.swap(true, atomic::Ordering::Relaxed) {
            moment_over();
        }
        let mut state = self.state.lock();
        let made = state
            .order
            .enqueue(stream.name, stream.context, stream.kind());
        state.memory.insert(
            extent.base.0,
            Lifetime {
                extent,
                made,
                freed: None,
                uses: Vec::new(),
            },
        );
    }

    /// Memory is freed in a stream. Returns who uses it and need not be done by
    /// then.
    pub(crate) fn freed(&self, base: DeviceAddress, stream: StreamUse) -> Option<User> {
        if !self.are_tracked() {
            return None;
        }
        let mut state = self.state.lock();
        let state = &mut *state;
        let point = state
            .order
            .enqueue(stream.name, stream.context, stream.kind());
        let lifetime = state.memory.get_mut(&base.0)?;
        lifetime.freed = Some(point);
        let order = &state.order;
        let unordered = |(used, _): &&(Point, User)| !order.is_before(*used, point);
        lifetime
            .uses
            .iter()
            .find(unordered)
            .map(|(_, user)| user.clone())
    }

    /// The free of this memory did not happen after all.
    pub(crate) fn restored(&self, base: DeviceAddress) {
        if self.are_tracked()
            && let Some(lifetime) = self.state.lock().memory.get_mut(&base.0)
        {
            lifetime.freed = None;
        }
    }

    /// This memory is freed for the host and all streams, or was given out
    /// anew.
    pub(crate) fn forget(&self, extent: Extent) {
        if !self.are_tracked() {
            return;
        }
        let memory = &mut self.state.lock().memory;
        let end = extent.base.0.saturating_add(extent.size);
        let stale: SmallVec<[u64; 2]> = memory
            .range(..end)
            .rev()
            .take_while(|(_, lifetime)| lifetime.extent.end() > extent.base)
            .map(|(base, _)| *base)
            .collect();
        for base in stale {
            memory.remove(&base);
        }
    }

    /// Something that uses the memory at these addresses is put into a stream.
    /// Answers how each use is ordered. `signals`: it may tell the host of its
    /// progress through memory that the host sees.
    pub(crate) fn used(
        &self,
        stream: StreamUse,
        user: &User,
        signals: bool,
        addresses: impl IntoIterator<Item = DeviceAddress>,
    ) -> SmallVec<[UseOrder; 4]> {
        let mut state = self.state.lock();
        let state = &mut *state;
        let point = state
            .order
            .enqueue(stream.name, stream.context, stream.kind());
        if signals {
            state.order.host_learns(point);
        }
        let order = &state.order;
        addresses
            .into_iter()
            .map(|address| {
                let Some(lifetime) = holding(&mut state.memory, address) else {
                    return UseOrder::Right;
                };
                if let Some(freed) = lifetime.freed {
                    return if order.is_before(freed, point) {
                        UseOrder::Freed
                    } else {
                        UseOrder::Wrong(Rule::StreamOrderRace)
                    };
                }
                if !order.is_before(lifetime.made, point) {
                    return UseOrder::Wrong(Rule::UseBeforeAllocation);
                }
                let uses = &mut lifetime.uses;
                uses.retain(|(used, _)| !used.is_in_stream_of(point));
                uses.push((point, user.clone()));
                UseOrder::Right
            })
            .collect()
    }

    /// Something uses the memory at these addresses when all that was put into
    /// streams before is done.
    pub(crate) fn used_after_all(
        &self,
        addresses: impl IntoIterator<Item = DeviceAddress>,
    ) -> SmallVec<[UseOrder; 4]> {
        let memory = &mut self.state.lock().memory;
        addresses
            .into_iter()
            .map(|address| match holding(memory, address) {
                Some(lifetime) if lifetime.freed.is_some() => UseOrder::Freed,
                _ => UseOrder::Right,
            })
            .collect()
    }
}

/// The memory with the byte at this address.
fn holding(memory: &mut BTreeMap<u64, Lifetime>, address: DeviceAddress) -> Option<&mut Lifetime> {
    let (_, lifetime) = memory.range_mut(..=address.0).next_back()?;
    lifetime.extent.contains(address).then_some(lifetime)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Extent = Extent {
        base: DeviceAddress(0x100),
        size: 16,
    };

    fn stream(handle: u64) -> StreamUse {
        StreamUse {
            name: StreamName::Made(handle),
            context: 1,
            blocking: true,
        }
    }

    const COPY: User = User::Call("cuMemcpyAsync");

    fn used(streams: &Streams, handle: u64) -> UseOrder {
        // Anywhere in it.
        let address = DeviceAddress(NOW.base.0 + 3);
        streams.used(stream(handle), &COPY, false, [address])[0]
    }

    fn freed_safely(streams: &Streams, handle: u64) -> bool {
        streams.freed(NOW.base, stream(handle)).is_none()
    }

    #[test]
    fn uses_are_ordered_after_the_allocation_and_before_the_free() {
        let streams = Streams::default();
        streams.allocated(NOW, stream(10));
        assert_eq!(used(&streams, 10), UseOrder::Right);
        let early = UseOrder::Wrong(Rule::UseBeforeAllocation);
        assert_eq!(used(&streams, 11), early);
        streams.ordered(Ordering::Record(5, stream(10)));
        streams.ordered(Ordering::Wait(5, stream(11)));
        assert_eq!(used(&streams, 11), UseOrder::Right);
        let late = streams.freed(NOW.base, stream(10)).unwrap();
        assert_eq!(late.to_string(), "cuMemcpyAsync");
        assert_eq!(used(&streams, 10), UseOrder::Freed);
        assert_eq!(streams.used_after_all([NOW.base])[0], UseOrder::Freed);
        let race = UseOrder::Wrong(Rule::StreamOrderRace);
        assert_eq!(used(&streams, 11), race);
        streams.ordered(Ordering::HostWaited(StreamName::Made(10)));
        assert_eq!(used(&streams, 11), UseOrder::Freed);
    }

    #[test]
    fn memory_that_is_given_out_anew_has_no_past() {
        let streams = Streams::default();
        streams.allocated(NOW, stream(10));
        streams.freed(NOW.base, stream(10));
        streams.forget(Extent {
            base: DeviceAddress(0x108),
            size: 64,
        });
        assert_eq!(used(&streams, 10), UseOrder::Right);
    }

    #[test]
    fn what_is_not_modelled_orders() {
        for what in [
            Ordering::Graph,
            Ordering::Everything,
            Ordering::HostWaitedForEvent(99),
        ] {
            let streams = Streams::default();
            streams.allocated(NOW, stream(10));
            streams.ordered(what);
            assert_eq!(used(&streams, 11), UseOrder::Right, "{what:?}");
            streams.ordered(what);
            assert!(freed_safely(&streams, 10), "{what:?}");
        }
        // A kernel that the host may watch.
        let streams = Streams::default();
        streams.allocated(NOW, stream(10));
        streams.used(stream(10), &COPY, true, []);
        assert_eq!(used(&streams, 11), UseOrder::Right);
    }
}
