//! What the program's handles mean: numbers of the manager, and what the manager
//! need not know.

use crate::capture::Captures;
use crate::graph::Graphs;
use crate::link::Link;
use crate::managed::Managed;
use crate::order::Order;
use crate::pinned::Pinned;
use crate::pool;
use driver::pools::Pools;
use driver::sys::{CUdevice_attribute, CUresult};
use parking_lot::Mutex;
use protocol::{Place, Reply, Request, Welcome};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{CString, c_char};
use std::mem::ManuallyDrop;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

/// The handle of the one context. No pointer that a program would make up.
pub(crate) const CONTEXT: u64 = 0x5246_1000_0000;
/// First handle of all else.
const FIRST_HANDLE: u64 = 0x5246_2000_0000;

thread_local! {
    /// The contexts that this thread has pushed. Never dropped: destructors of the
    /// program make calls when those of the thread's variables have run.
    pub(crate) static STACK: ManuallyDrop<RefCell<Vec<u64>>> =
        const { ManuallyDrop::new(RefCell::new(Vec::new())) };
    static OWN_STREAM: OwnStream = const { OwnStream(Cell::new((0, 0))) };
    /// This thread calls functions of the program that are in streams, which must
    /// not make calls themselves.
    pub(crate) static IS_CALLING: Cell<bool> = const { Cell::new(false) };
}

/// The manager's number of a thread's own default stream, and how often the context had
/// been reset when it was made; 0 before it is used.
struct OwnStream(Cell<(u32, u64)>);

impl Drop for OwnStream {
    fn drop(&mut self) {
        // Another thread gets it.
        let (number, resets) = self.0.get();
        if let (Some(link), 1..) = (crate::link::get(), number) {
            link.state.own_streams.lock().put_back(number, resets);
        }
    }
}

/// The default streams of threads. There are as many as threads had one at a time.
#[derive(Default)]
pub(crate) struct OwnStreams {
    all: BTreeSet<u32>,
    /// Those of threads that have ended.
    left: Vec<u32>,
    /// Resets of the context until these were made.
    resets: u64,
}

impl OwnStreams {
    fn put_back(&mut self, number: u32, resets: u64) {
        if resets == self.resets && self.all.contains(&number) {
            self.left.push(number);
        }
    }
}

/// An event.
#[derive(Clone, Copy)]
pub(crate) struct Event {
    /// The manager's number of its newest record.
    pub(crate) number: u32,
    pub(crate) is_timed: bool,
}

/// A kernel.
pub(crate) struct Kernel {
    pub(crate) number: u32,
    pub(crate) name: CString,
    pub(crate) module: u64,
    /// Offset and bytes of each parameter.
    pub(crate) parameters: Vec<(u32, u32)>,
    pub(crate) parameter_bytes: u32,
    /// Its module can print.
    pub(crate) prints: bool,
    pub(crate) attributes: Mutex<Vec<protocol::Attribute>>,
    /// Blocks, and bytes of dynamic shared memory, that it was launched with.
    pub(crate) launched: Mutex<Vec<([u32; 3], u32)>>,
}

/// A module or library.
pub(crate) struct Module {
    pub(crate) number: u32,
    /// Handles of its kernels, by name.
    pub(crate) kernels: BTreeMap<String, u64>,
    pub(crate) variables: Vec<protocol::Variable>,
    /// Of a library: what it was loaded from. It belongs to no context, so that a
    /// reset only loads it again.
    pub(crate) code: Option<Arc<[u8]>>,
}

/// A stream.
#[derive(Clone, Copy)]
pub(crate) struct Stream {
    pub(crate) number: u32,
    pub(crate) flags: u32,
    pub(crate) priority: i32,
}

/// A context beside the primary one.
pub(crate) struct Further {
    pub(crate) flags: u32,
    /// What was allocated in it.
    pub(crate) allocations: BTreeSet<u64>,
}

/// Host memory that the program made known.
#[derive(Clone, Copy)]
pub(crate) struct HostMemory {
    pub(crate) size: u64,
    pub(crate) flags: u32,
    /// Mapped here, not registered.
    pub(crate) is_own: bool,
}

/// What the program has made.
pub(crate) struct State {
    next: AtomicU64,
    pub(crate) is_initialized: AtomicBool,
    pub(crate) retained: AtomicU32,
    pub(crate) context_flags: AtomicU32,
    resets: AtomicU64,
    /// Launches whose output was not looked for since.
    pub(crate) unprinted: AtomicU32,
    /// Held by the thread that shows it.
    pub(crate) printing: Mutex<()>,
    pub(crate) modules: Mutex<BTreeMap<u64, Arc<Module>>>,
    pub(crate) kernels: Mutex<BTreeMap<u64, Arc<Kernel>>>,
    pub(crate) streams: Mutex<BTreeMap<u64, Stream>>,
    pub(crate) events: Mutex<BTreeMap<u64, Event>>,
    own_streams: Mutex<OwnStreams>,
    /// Device memory: bytes by first address.
    pub(crate) allocations: Mutex<BTreeMap<u64, u64>>,
    /// Contexts beside the primary one.
    pub(crate) contexts: Mutex<BTreeMap<u64, Further>>,
    /// Limits that the program has set.
    pub(crate) limits: Mutex<BTreeMap<u32, u64>>,
    pub(crate) pools: Mutex<Pools>,
    pub(crate) order: Order,
    pub(crate) captures: Captures,
    pub(crate) graphs: Graphs,
    pub(crate) managed: Managed,
    pub(crate) pinned: Mutex<Pinned>,
    /// By first address.
    pub(crate) host: Mutex<BTreeMap<u64, HostMemory>>,
    base: u64,
    size: u64,
    /// Largest grid.
    grid: [u32; 3],
}

/// The entry whose range holds an address, by first address and size.
fn around<T: Copy>(
    map: &BTreeMap<u64, T>,
    address: u64,
    size: impl Fn(&T) -> u64,
) -> Option<(u64, T)> {
    let (start, found) = map.range(..=address).next_back()?;
    (address - start < size(found)).then_some((*start, *found))
}

impl State {
    /// Nothing.
    pub(crate) fn new(welcome: &Welcome) -> State {
        State {
            next: AtomicU64::new(FIRST_HANDLE),
            is_initialized: AtomicBool::new(false),
            retained: AtomicU32::new(0),
            context_flags: AtomicU32::new(0),
            resets: AtomicU64::new(0),
            unprinted: AtomicU32::new(0),
            printing: Mutex::default(),
            modules: Mutex::default(),
            kernels: Mutex::default(),
            streams: Mutex::default(),
            events: Mutex::default(),
            own_streams: Mutex::default(),
            allocations: Mutex::default(),
            contexts: Mutex::default(),
            limits: Mutex::default(),
            pools: Mutex::new(Pools::new(pool::DEFAULT)),
            order: Order::default(),
            captures: Captures::default(),
            graphs: Graphs::default(),
            managed: Managed::default(),
            pinned: Mutex::default(),
            host: Mutex::default(),
            base: welcome.base,
            size: welcome.size,
            grid: largest_grid(welcome),
        }
    }

    /// Whether the device can have such a grid.
    pub(crate) fn fits(&self, grid: [u32; 3]) -> bool {
        let mut sizes = grid.iter().zip(self.grid);
        sizes.all(|(size, most)| (1..=most).contains(size))
    }

    /// Whether a place lies in memory that the program has allocated.
    pub(crate) fn holds(&self, place: &Place) -> bool {
        let before_last = place.pitch.checked_mul(place.height.saturating_sub(1));
        let end = before_last
            .and_then(|bytes| place.address.checked_add(bytes)?.checked_add(place.width));
        let rows_are_apart = place.height == 1 || place.pitch >= place.width;
        let allocation = self.allocation(place.address).filter(|_| rows_are_apart);
        let holds = |(start, size): (u64, u64)| end.is_some_and(|end| end <= start + size);
        place.width > 0 && place.height > 0 && allocation.is_some_and(holds)
    }

    /// The context was reset: nothing is left of what was made in it. The handles
    /// of libraries stay, and are to be loaded again.
    pub(crate) fn forget(&self) {
        let resets = self.resets.fetch_add(1, Ordering::AcqRel) + 1;
        *self.own_streams.lock() = OwnStreams {
            resets,
            ..OwnStreams::default()
        };
        self.retained.store(0, Ordering::Release);
        let mut modules = self.modules.lock();
        modules.retain(|_, module| module.code.is_some());
        let is_kept = |kernel: &Kernel| modules.contains_key(&kernel.module);
        self.kernels.lock().retain(|_, kernel| is_kept(kernel));
        drop(modules);
        self.streams.lock().clear();
        self.events.lock().clear();
        self.allocations.lock().clear();
        *self.pools.lock() = Pools::new(pool::DEFAULT);
        self.limits.lock().clear();
        let mut contexts = self.contexts.lock();
        contexts
            .values_mut()
            .for_each(|one| one.allocations.clear());
        self.order.forget();
        self.captures.forget();
        self.managed.forget();
    }

    /// A new handle.
    pub(crate) fn handle(&self) -> u64 {
        // Steps of 64, as if they were pointers to objects.
        self.next.fetch_add(64, Ordering::Relaxed)
    }

    /// Whether an address is one of device memory.
    pub(crate) fn is_device(&self, address: u64) -> bool {
        address.wrapping_sub(self.base) < self.size
    }

    /// The allocation of device memory that holds an address: first byte and
    /// bytes.
    pub(crate) fn allocation(&self, address: u64) -> Option<(u64, u64)> {
        around(&self.allocations.lock(), address, |size| *size)
    }

    /// Whether a variable of a module holds an address.
    pub(crate) fn is_variable(&self, address: u64) -> bool {
        let modules = self.modules.lock();
        let mut variables = modules.values().flat_map(|module| &module.variables);
        variables.any(|variable| address.wrapping_sub(variable.address) < variable.size)
    }

    /// The host memory that was made known and holds an address.
    pub(crate) fn host_memory(&self, address: u64) -> Option<(u64, HostMemory)> {
        around(&self.host.lock(), address, |memory| memory.size)
    }

    pub(crate) fn module(&self, handle: u64) -> Result<Arc<Module>, CUresult> {
        let modules = self.modules.lock();
        let found = modules.get(&handle).cloned();
        found.ok_or(CUresult::CUDA_ERROR_INVALID_HANDLE)
    }

    pub(crate) fn kernel(&self, handle: u64) -> Result<Arc<Kernel>, CUresult> {
        let kernels = self.kernels.lock();
        let found = kernels.get(&handle).cloned();
        found.ok_or(CUresult::CUDA_ERROR_INVALID_HANDLE)
    }

    pub(crate) fn event(&self, handle: u64) -> Result<u32, CUresult> {
        let events = self.events.lock();
        let found = events.get(&handle).map(|event| event.number);
        found.ok_or(CUresult::CUDA_ERROR_INVALID_HANDLE)
    }

    /// Whether the manager still has a stream of this number.
    pub(crate) fn has_stream(&self, number: u32) -> bool {
        let is_made = || {
            let streams = self.streams.lock();
            streams.values().any(|stream| stream.number == number)
        };
        number == 0 || self.own_streams.lock().all.contains(&number) || is_made()
    }

    /// A stream that comes behind all that was put into one: that one itself, or, if it is
    /// gone, the default stream.
    pub(crate) fn standing_for(&self, number: u32) -> u32 {
        match self.has_stream(number) {
            true => number,
            false => 0,
        }
    }

    /// A stream that the program made.
    pub(crate) fn stream(&self, handle: u64) -> Result<Stream, CUresult> {
        let streams = self.streams.lock();
        let found = streams.get(&handle).copied();
        found.ok_or(CUresult::CUDA_ERROR_INVALID_HANDLE)
    }

    /// The manager's number of a stream; a thread's own is made when it is first
    /// used.
    pub(crate) fn stream_number(&self, link: &Link, handle: u64) -> Result<u32, CUresult> {
        match handle {
            crate::convert::LEGACY => Ok(0),
            crate::convert::PER_THREAD => {
                let resets = self.resets.load(Ordering::Acquire);
                let known = OWN_STREAM.try_with(|own| own.0.get());
                match known {
                    Ok((number @ 1.., made)) if made == resets => return Ok(number),
                    _ => {}
                }
                let left = self.own_streams.lock().left.pop();
                let number = match left {
                    Some(number) => number,
                    None => create_stream(link, true)?,
                };
                let mut streams = self.own_streams.lock();
                streams.all.insert(number);
                // (A thread that is ending keeps nothing.)
                if OWN_STREAM
                    .try_with(|own| own.0.set((number, resets)))
                    .is_err()
                {
                    streams.put_back(number, resets);
                }
                Ok(number)
            }
            handle => self.stream(handle).map(|stream| stream.number),
        }
    }
}

/// The largest grid; none fits where the manager does not say it.
fn largest_grid(welcome: &Welcome) -> [u32; 3] {
    use CUdevice_attribute as A;
    let all = [
        A::CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X,
        A::CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y,
        A::CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z,
    ];
    all.map(|wanted| {
        let known = &welcome.device.attributes;
        let found = known.iter().find(|known| known.attribute == wanted.0);
        found.map_or(0, |found| found.value.max(0).cast_unsigned())
    })
}

/// Has the manager make a stream.
pub(crate) fn create_stream(link: &Link, is_blocking: bool) -> Result<u32, CUresult> {
    match link.wait(&Request::StreamCreate { is_blocking })? {
        Reply::Number(number) => {
            if !is_blocking {
                link.state.order.add_unordered(number);
            }
            Ok(number)
        }
        _ => Err(link.astray()),
    }
}

/// What every call that works in a context starts with.
pub(crate) fn enter(link: &Link) -> Result<(), CUresult> {
    if !link.state.is_initialized.load(Ordering::Acquire) {
        return Err(CUresult::CUDA_ERROR_NOT_INITIALIZED);
    }
    if IS_CALLING.get() {
        return Err(CUresult::CUDA_ERROR_NOT_PERMITTED);
    }
    let is_current = crate::context::current() != 0;
    match is_current {
        true => Ok(()),
        false => Err(CUresult::CUDA_ERROR_INVALID_CONTEXT),
    }
}

/// A C string that lives as long as the process; few are asked for.
pub(crate) fn lasting(text: &str) -> *const c_char {
    static TEXTS: Mutex<BTreeMap<String, CString>> = Mutex::new(BTreeMap::new());
    let mut texts = TEXTS.lock();
    if let Some(known) = texts.get(text) {
        return known.as_ptr();
    }
    let made = texts.entry(text.to_owned());
    made.or_insert(CString::new(text).unwrap_or_default())
        .as_ptr()
}
