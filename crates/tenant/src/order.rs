//! What waits in this process before it can be sent: functions of the program in
//! streams, copies of pinned memory, what the manager has no room for while somebody
//! waits until all streams are idle, and all that comes behind those.
//!
//! (A kernel may wait for something that the program puts into another stream later.
//! So a call that puts work in must not wait until that kernel is over.)
//!
//! As long as there is nothing of the kind, work goes to the manager at once,
//! and the manager keeps it in order. Else each piece of work is an item that
//! waits for the items before it by the rules of streams and events. An item is
//! over when its work has been sent, or, if it is work of this process, done.
//! Two threads do the items: one sends and asks without ever waiting, the other
//! one calls the program's functions, which may take as long as they like.

use crate::convert::Answer;
use crate::link::Link;
use crate::state::IS_CALLING;
use driver::sys::CUresult;
use parking_lot::{Condvar, Mutex, MutexGuard};
use protocol::{Reply, Request};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// Does a piece of work, or part of it. `false`: not over yet, to be called
/// again.
pub(crate) type Task = Box<dyn FnMut(&'static Link) -> Result<bool, CUresult> + Send>;

/// A piece of work.
struct Item {
    stream: u32,
    /// Items that must be over first.
    after: BTreeSet<u64>,
    /// Taken while it is being done.
    task: Option<Task>,
    /// Calls a function of the program.
    is_call: bool,
}

#[derive(Default)]
struct Items {
    next: u64,
    all: BTreeMap<u64, Item>,
    /// The newest item of each stream.
    newest: BTreeMap<u32, u64>,
    /// Events whose record waits, and the item that records it.
    records: BTreeMap<u32, u64>,
    /// Streams that are not in order with the default stream.
    unordered: BTreeSet<u32>,
    /// What an item has failed with, for a call to return.
    failed: Option<CUresult>,
}

/// The items of this process.
#[derive(Default)]
pub(crate) struct Order {
    /// How many there are.
    count: AtomicUsize,
    items: Mutex<Items>,
    changed: Condvar,
    threads: OnceLock<()>,
}

impl Items {
    /// The items that work put into a stream now comes behind.
    fn before(&self, stream: u32) -> BTreeSet<u64> {
        let is_ordered = |other: &u32| !self.unordered.contains(other);
        let newest = self.newest.iter();
        newest
            .filter(|(other, _)| {
                **other == stream
                    || (stream == 0 && is_ordered(other))
                    || (**other == 0 && is_ordered(&stream))
            })
            .map(|(_, item)| *item)
            .collect()
    }

    /// An item that can be done now.
    fn ready(&self, is_call: bool, from: u64) -> Option<u64> {
        let mut all = self.all.range(from..);
        let is_ready =
            |item: &Item| item.is_call == is_call && item.after.is_empty() && item.task.is_some();
        all.find(|(_, item)| is_ready(item)).map(|(id, _)| *id)
    }

    fn end(&mut self, id: u64) {
        let Some(item) = self.all.remove(&id) else {
            return;
        };
        for other in self.all.values_mut() {
            other.after.remove(&id);
        }
        if self.newest.get(&item.stream) == Some(&id) {
            self.newest.remove(&item.stream);
        }
        self.records.retain(|_, record| *record != id);
    }
}

impl Order {
    /// A stream that is not in order with the default stream was made.
    pub(crate) fn add_unordered(&self, stream: u32) {
        self.items.lock().unordered.insert(stream);
    }

    /// Whether a stream is in order with the default stream.
    pub(crate) fn is_ordered(&self, stream: u32) -> bool {
        !self.items.lock().unordered.contains(&stream)
    }

    /// Nothing waits in this process.
    pub(crate) fn is_empty(&self) -> bool {
        self.count.load(Ordering::Acquire) == 0
    }

    /// Whether work put into a stream now has to wait in this process.
    pub(crate) fn is_held(&self, stream: u32) -> bool {
        !self.is_empty() && !self.items.lock().before(stream).is_empty()
    }

    /// Adds an item behind all that is in the stream, and behind others.
    pub(crate) fn add(
        &self,
        link: &'static Link,
        stream: u32,
        behind: Option<u64>,
        is_call: bool,
        task: Task,
    ) -> Result<u64, CUresult> {
        self.start(link)?;
        let mut items = self.items.lock();
        let mut after = items.before(stream);
        after.extend(behind.filter(|id| items.all.contains_key(id)));
        Ok(self.insert(&mut items, stream, after, is_call, task))
    }

    fn insert(
        &self,
        items: &mut MutexGuard<'_, Items>,
        stream: u32,
        after: BTreeSet<u64>,
        is_call: bool,
        task: Task,
    ) -> u64 {
        items.next += 1;
        let id = items.next;
        let item = Item {
            stream,
            after,
            task: Some(task),
            is_call,
        };
        items.all.insert(id, item);
        items.newest.insert(stream, id);
        self.count.store(items.all.len(), Ordering::Release);
        self.changed.notify_all();
        id
    }

    /// Puts work into a stream: at once, or when it is its turn.
    pub(crate) fn put(
        &self,
        link: &'static Link,
        request: Request,
        cannot_fail: bool,
    ) -> Result<Option<u64>, CUresult> {
        let stream = request.stream().unwrap_or(0);
        if !self.is_held(stream) {
            crate::managed::before(link, &request)?;
            if link.put(&request, cannot_fail)? {
                return Ok(None);
            }
        }
        let task = sending(request, cannot_fail);
        let item = self.add(link, stream, None, false, task)?;
        self.make_room(link);
        Ok(Some(item))
    }

    /// Waits until no more than [`MOST`] items wait: natively, too, calls wait where
    /// there is very much in a stream.
    fn make_room(&self, link: &Link) {
        if IS_CALLING.get() {
            return;
        }
        let mut items = self.items.lock();
        while items.all.len() > MOST && !link.is_lost.load(Ordering::Acquire) {
            self.changed.wait_for(&mut items, LOOK);
        }
    }

    /// As [`Order::put`], behind all that waits in this process, whatever its
    /// stream: for what ends something that any of it may use.
    pub(crate) fn put_last(&self, link: &'static Link, request: Request) -> Answer {
        if self.is_empty() {
            return link.done(&request);
        }
        self.start(link)?;
        let mut items = self.items.lock();
        let after: BTreeSet<u64> = items.all.keys().copied().collect();
        // In no stream: nothing comes behind it.
        self.insert(&mut items, u32::MAX, after, false, sending(request, false));
        Ok(())
    }

    /// Records an event behind what is in a stream.
    pub(crate) fn record(&self, link: &'static Link, event: u32, stream: u32) -> Answer {
        let item = self.put(link, Request::EventRecord { event, stream }, true)?;
        if !self.is_empty() || item.is_some() {
            let mut items = self.items.lock();
            match item.filter(|id| items.all.contains_key(id)) {
                Some(id) => items.records.insert(event, id),
                None => items.records.remove(&event),
            };
        }
        Ok(())
    }

    /// A stream waits for an event.
    pub(crate) fn await_event(&self, link: &'static Link, event: u32, stream: u32) -> Answer {
        let request = Request::StreamWait { stream, event };
        match self.pending_record(event) {
            None => self.put(link, request, true).map(drop),
            record => self
                .add(link, stream, record, false, sending(request, true))
                .map(drop),
        }
    }

    /// The item that is going to record an event.
    pub(crate) fn pending_record(&self, event: u32) -> Option<u64> {
        if self.is_empty() {
            return None;
        }
        self.items.lock().records.get(&event).copied()
    }

    /// Waits until nothing is held before what comes into a stream now.
    pub(crate) fn wait_stream(&self, link: &Link, stream: u32) -> Answer {
        self.wait(link, |items| items.before(stream))
    }

    /// Waits for all that waits now.
    pub(crate) fn wait_all(&self, link: &Link) -> Answer {
        self.wait(link, |items| items.all.keys().copied().collect())
    }

    /// Waits until an event that waits is recorded.
    pub(crate) fn wait_record(&self, link: &Link, event: u32) -> Answer {
        self.wait(link, |items| {
            items.records.get(&event).copied().into_iter().collect()
        })
    }

    fn wait(&self, link: &Link, which: impl FnOnce(&Items) -> BTreeSet<u64>) -> Answer {
        if self.is_empty() {
            return self.failure();
        }
        // It would wait for itself.
        if IS_CALLING.get() {
            return Err(CUresult::CUDA_ERROR_NOT_PERMITTED);
        }
        let mut items = self.items.lock();
        let wanted = which(&items);
        while wanted.iter().any(|id| items.all.contains_key(id)) {
            // Nobody does them in a forked child.
            if link.is_lost.load(Ordering::Acquire) {
                return Err(CUresult::CUDA_ERROR_DEVICE_UNAVAILABLE);
            }
            self.changed.wait_for(&mut items, LOOK);
        }
        drop(items);
        self.failure()
    }

    /// What an item has failed with since this was last asked.
    fn failure(&self) -> Answer {
        if self.threads.get().is_none() {
            return Ok(());
        }
        self.items.lock().failed.take().map_or(Ok(()), Err)
    }

    /// The context was reset: nothing waits, and nothing has failed.
    pub(crate) fn forget(&self) {
        let mut items = self.items.lock();
        items.unordered.clear();
        items.failed = None;
    }

    /// Starts the threads, once.
    fn start(&self, link: &'static Link) -> Answer {
        let mut started = Ok(());
        self.threads.get_or_init(|| {
            for (name, is_call) in [("ringfence-order", false), ("ringfence-calls", true)] {
                let thread = std::thread::Builder::new().name(name.into());
                let made = thread.spawn(move || link.state.order.keep(link, is_call));
                if let Err(error) = made {
                    link.say(&format!("error: a thread could not be started: {error}"));
                    started = Err(CUresult::CUDA_ERROR_OUT_OF_MEMORY);
                }
            }
        });
        started
    }

    /// Does items, for ever.
    fn keep(&self, link: &'static Link, is_call: bool) {
        IS_CALLING.set(is_call);
        let mut from = 0;
        let mut pause = SHORTEST;
        loop {
            let mut items = self.items.lock();
            let Some(id) = items.ready(is_call, from) else {
                if from > 0 {
                    // Those that are not over are asked again.
                    from = 0;
                    drop(items);
                    std::thread::sleep(pause);
                    pause = (2 * pause).min(LONGEST);
                } else {
                    self.changed.wait(&mut items);
                    pause = SHORTEST;
                }
                continue;
            };
            let task = items.all.get_mut(&id).and_then(|item| item.task.take());
            drop(items);
            let Some(mut task) = task else { continue };
            let outcome = task(link);
            let mut items = self.items.lock();
            match outcome {
                Ok(false) => {
                    if let Some(item) = items.all.get_mut(&id) {
                        item.task = Some(task);
                    }
                    from = id + 1;
                    continue;
                }
                Ok(true) => {}
                Err(code) => {
                    items.failed.get_or_insert(code);
                }
            }
            items.end(id);
            self.count.store(items.all.len(), Ordering::Release);
            self.changed.notify_all();
            (from, pause) = (0, SHORTEST);
        }
    }
}

/// Items that wait in this process, at most, before calls that put in more wait, too.
const MOST: usize = 4096;
/// How often a thread that waits for items looks whether the connection is lost.
const LOOK: Duration = Duration::from_millis(100);
/// How long the thread that asks pauses before it asks again.
const SHORTEST: Duration = Duration::from_micros(10);
const LONGEST: Duration = Duration::from_micros(500);

fn sending(request: Request, cannot_fail: bool) -> Task {
    Box::new(move |link| {
        crate::managed::before(link, &request)?;
        link.put(&request, cannot_fail)
    })
}

/// Is over when the work is over that is in a stream: what a function of the
/// program, or a copy of this process, waits for. `is_kept`: no thread destroys the stream
/// before. Otherwise the event is recorded with a reply, so that this task fails if the
/// stream was destroyed, and not a later call of another thread.
pub(crate) fn fence(stream: u32, is_kept: bool) -> Task {
    let (mut event, mut is_recorded) = (None, false);
    Box::new(move |link| {
        let event = match event {
            Some(event) => event,
            None => match link.wait(&Request::EventCreate { is_timed: false })? {
                Reply::Number(number) => *event.insert(number),
                _ => return Err(link.astray()),
            },
        };
        let mut is_over = || {
            if !is_recorded {
                is_recorded = link.put(&Request::EventRecord { event, stream }, is_kept)?;
                if !is_recorded {
                    return Ok(false);
                }
            }
            match link.is_over(&Request::EventQuery { event }) {
                Err(CUresult::CUDA_ERROR_NOT_READY) => Ok(false),
                answer => answer.map(|()| true),
            }
        };
        match is_over() {
            Ok(false) => Ok(false),
            answer => {
                let ended = link.done(&Request::EventDestroy { event });
                answer.and(ended).map(|()| true)
            }
        }
    })
}
