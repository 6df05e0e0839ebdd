//! The CPU device: contexts, streams, events, allocations and modules over
//! [`crate::engine`], with the rules and error codes of the CUDA driver API.
//!
//! * One device, one memory map; contexts are names with a count.
//! * A stream is a queue with a thread of its own (`queue`), so kernels of
//!   different streams run at the same time, and a kernel that never ends
//!   holds up nothing but what waits for its stream.
//! * An error of a kernel is sticky: every later call returns it until the
//!   context is gone (CUDA driver API, "sticky errors").
//!
//! Handles are numbers that mean nothing but "this object"; an unknown one is
//! `CUDA_ERROR_INVALID_HANDLE`. Never waits for a kernel unless the caller
//! asked to wait, and never touches host memory that is not registered but
//! through [`Host`].

mod arena;
mod array;
mod capture;
mod context;
mod copy;
mod event;
mod graph;
mod graph_memory;
mod launch;
mod memory;
mod module;
mod properties;
mod queue;
mod stream;
mod support;
#[cfg(test)]
mod tests;
mod texture;
mod vmm;
mod work;

pub use array::ArrayShape;
pub use capture::CaptureInfo;
pub use copy::{Copy, Fill, Side};
pub use graph::{GraphNode, NodeKind};
pub use launch::Launch;
pub use memory::{HostFlags, PointerInfo};
pub use module::FunctionInfo;
pub use properties::{Occupancy, WARP_SIZE};
pub use stream::GREATEST_PRIORITY;
pub use texture::{Plane, Sampler, Texture};
pub use work::Condition;

use crate::engine::{self, Machine};
use crate::mapping::{MapError, Memory};
use driver::DeviceFailure;
use driver::sys::CUresult;
use parking_lot::{Mutex, RwLock};
use queue::Stream;
use rustc_hash::FxHashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

/// What a call of the device gives: a value, or the driver API's error code.
pub type Result<T> = std::result::Result<T, CUresult>;

/// The process around the device: its ordinary memory, its standard output.
pub trait Host: Send + Sync {
    /// Copies within the process's address space, as `memmove`. The program
    /// vouches for addresses that are the device's to check only as far as it
    /// knows them.
    fn copy(&self, to: u64, from: u64, size: usize);
    /// Reads the program's memory.
    fn read(&self, from: u64, bytes: &mut [u8]);
    /// Output of device-side `printf`.
    fn print(&self, bytes: &[u8]);
    /// What a failed device-side `assert` says.
    fn print_error(&self, bytes: &[u8]);
    /// One line about a fault, for people.
    fn report(&self, message: &str);
}

/// How to set up the device.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// Worker threads of one kernel; 0 is one a core.
    pub threads: u32,
    /// Seed of the warp schedule.
    pub seed: u64,
    /// Kernels may access all memory of the program.
    pub pageable: bool,
}

/// The CPU device. Dropping it ends its streams.
pub struct Device {
    state: Arc<State>,
}

/// Everything that the device's threads share.
pub(crate) struct State {
    pub memory: Arc<Memory>,
    pub machine: Machine,
    pub host: Arc<dyn Host>,
    pub threads: u32,
    pub seed: u64,
    /// The first error of a kernel in the current context; 0 is none.
    fault: AtomicU32,
    /// What that error was.
    failure: Mutex<Option<DeviceFailure>>,
    /// Kernels that were launched and have not run to their end.
    not_run: Mutex<Vec<u64>>,
    /// Set for running kernels when their context dies; replaced with it.
    cancel: Mutex<Arc<AtomicBool>>,
    /// Device-side `printf` output not yet shown.
    printed: Arc<Mutex<Vec<u8>>>,
    next_handle: AtomicU64,
    /// Taken while work is put into streams, so that the order between the
    /// legacy default stream and the others is one order.
    order: Mutex<()>,
    legacy: Arc<Stream>,
    streams: RwLock<FxHashMap<u64, Arc<Stream>>>,
    events: RwLock<FxHashMap<u64, Arc<event::Event>>>,
    graphs: RwLock<FxHashMap<u64, Arc<graph::Graph>>>,
    nodes: RwLock<FxHashMap<u64, (Arc<graph::Graph>, usize)>>,
    executables: RwLock<FxHashMap<u64, Arc<graph::Executable>>>,
    modules: RwLock<FxHashMap<u64, Arc<module::Module>>>,
    functions: RwLock<FxHashMap<u64, Arc<module::Function>>>,
    allocations: Mutex<memory::Allocations>,
    graph_memory: Mutex<FxHashMap<u64, std::sync::Weak<graph_memory::GraphMemory>>>,
    arrays: RwLock<FxHashMap<u64, array::Array>>,
    mipmaps: RwLock<FxHashMap<u64, array::Mipmap>>,
    vmm: Mutex<vmm::Vmm>,
    contexts: Mutex<context::Contexts>,
    initialized: AtomicBool,
    limits: Mutex<FxHashMap<u32, u64>>,
    support: Mutex<support::Support>,
}

/// First handle. High enough to be no pointer that a program would make up,
/// and none of the special stream handles.
const FIRST_HANDLE: u64 = 0x5246_0000_0000;

impl Device {
    /// A device with nothing in it.
    pub fn new(options: Options, host: Arc<dyn Host>) -> std::result::Result<Device, MapError> {
        let cores = std::thread::available_parallelism().map_or(1, |n| n.get() as u32);
        let memory = Arc::new(Memory::new()?);
        memory.admit_host(options.pageable);
        let printed = Arc::new(Mutex::new(Vec::new()));
        let (output, errors) = (printed.clone(), host.clone());
        let print = Box::new(move |stream, bytes: &[u8]| match stream {
            engine::Stream::Output => output.lock().extend_from_slice(bytes),
            engine::Stream::Errors => errors.print_error(bytes),
        });
        let heap_size = context::DEFAULT_HEAP;
        let state = State {
            machine: Machine::new(
                &memory,
                engine::Options {
                    heap_size,
                    print,
                    wide: true,
                },
            )?,
            memory,
            host,
            threads: if options.threads == 0 {
                cores
            } else {
                options.threads
            },
            seed: options.seed,
            fault: AtomicU32::new(0),
            failure: Mutex::new(None),
            not_run: Mutex::default(),
            cancel: Mutex::new(Arc::new(AtomicBool::new(false))),
            printed,
            next_handle: AtomicU64::new(FIRST_HANDLE),
            order: Mutex::new(()),
            legacy: Arc::new(Stream::new(stream::LEGACY, 0, true, 0)),
            streams: RwLock::default(),
            events: RwLock::default(),
            graphs: RwLock::default(),
            nodes: RwLock::default(),
            executables: RwLock::default(),
            modules: RwLock::default(),
            functions: RwLock::default(),
            allocations: Mutex::default(),
            graph_memory: Mutex::default(),
            arrays: RwLock::default(),
            mipmaps: RwLock::default(),
            vmm: Mutex::default(),
            contexts: Mutex::default(),
            initialized: AtomicBool::new(false),
            limits: Mutex::default(),
            support: Mutex::default(),
        };
        Ok(Device {
            state: Arc::new(state),
        })
    }

    /// `cuInit`
    pub fn init(&self) {
        self.state.initialized.store(true, Ordering::Release);
    }

    /// Whether [`Device::init`] was called.
    pub fn is_initialized(&self) -> bool {
        self.state.initialized.load(Ordering::Acquire)
    }

    /// What every call that works in a context starts with: the device is
    /// initialized, no kernel has failed, a context is current.
    pub(crate) fn enter(&self) -> Result<()> {
        if !self.is_initialized() {
            return Err(CUresult::CUDA_ERROR_NOT_INITIALIZED);
        }
        self.state.check()?;
        context::current()
            .map(drop)
            .ok_or(CUresult::CUDA_ERROR_INVALID_CONTEXT)
    }

    /// What the sticky error was, in words; `None` if there is none.
    pub fn fault(&self) -> Option<String> {
        let failure = self.state.failure.lock();
        failure.as_ref().map(|failure| failure.detail.clone())
    }

    pub(crate) fn handle(&self) -> u64 {
        // Steps of 64, as if they were pointers to objects.
        self.state.next_handle.fetch_add(64, Ordering::Relaxed)
    }
}

impl State {
    /// The sticky error, if there is one.
    pub fn check(&self) -> Result<()> {
        match self.fault.load(Ordering::Acquire) {
            0 => Ok(()),
            code => Err(CUresult(code)),
        }
    }

    /// Makes the error of something other than a kernel sticky, says so, and
    /// stops what runs. The first one stays.
    pub fn fail(&self, code: CUresult, message: &str) {
        let failure = DeviceFailure {
            code,
            kernel: None,
            detail: message.to_owned(),
            device_lacks: false,
        };
        if self.fail_silently(failure) {
            self.host.report(message);
        }
    }

    /// As [`State::fail`], for every error, and without a word. Whether it was
    /// the first.
    pub fn fail_silently(&self, failure: DeviceFailure) -> bool {
        let order = (Ordering::AcqRel, Ordering::Acquire);
        if self
            .fault
            .compare_exchange(0, failure.code.0, order.0, order.1)
            .is_err()
        {
            return false;
        }
        *self.failure.lock() = Some(failure);
        self.cancel.lock().store(true, Ordering::Release);
        true
    }

    /// The context is gone: its error goes with it.
    fn recover(&self) {
        *self.cancel.lock() = Arc::new(AtomicBool::new(false));
        *self.failure.lock() = None;
        self.fault.store(0, Ordering::Release);
    }

    /// The flag that stops kernels of the current context.
    pub fn cancel(&self) -> Arc<AtomicBool> {
        self.cancel.lock().clone()
    }

    /// Shows what kernels printed.
    pub fn flush(&self) {
        let bytes = std::mem::take(&mut *self.printed.lock());
        if !bytes.is_empty() {
            self.host.print(&bytes);
        }
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        self.state.cancel().store(true, Ordering::Release);
        self.state.legacy.close();
        for stream in self.state.streams.read().values() {
            stream.close();
        }
    }
}
