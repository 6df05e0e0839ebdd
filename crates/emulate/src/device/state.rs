//! The device: its objects by handle, over the core that executes work.

use super::basics::{Host, Options, Result};
use super::core::Core;
use super::objects::{
    advice, array, context, event, graph, graph_memory, linkers, memory, module, queue, support,
    texture, user_objects, vmm, work,
};
use crate::engine::{self, Machine};
use crate::mapping::{MapError, Memory};
use driver::pools::Pools;
use driver::sys::CUresult;
use parking_lot::{Mutex, RwLock};
use queue::Stream;
use rustc_hash::FxHashMap;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Handle of the device's own memory pool. Counted handles start far below.
pub(crate) const DEFAULT_POOL: u64 = 0x5248_0000_0000;

/// The CPU device. Dropping it ends its streams.
pub struct Device {
    pub(crate) state: Arc<State>,
}

/// The device's objects.
pub(crate) struct State {
    pub core: Arc<Core>,
    pub next_handle: AtomicU64,
    /// Taken while work is put into streams, so that the order between the
    /// legacy default stream and the others is one order.
    pub order: Mutex<()>,
    pub legacy: Arc<Stream>,
    pub streams: RwLock<FxHashMap<u64, Arc<Stream>>>,
    pub events: RwLock<FxHashMap<u64, Arc<event::Event>>>,
    pub graphs: RwLock<FxHashMap<u64, Arc<work::Graph>>>,
    pub nodes: RwLock<FxHashMap<u64, (Arc<work::Graph>, usize)>>,
    pub executables: RwLock<FxHashMap<u64, Arc<graph::Executable>>>,
    pub modules: RwLock<FxHashMap<u64, Arc<module::Module>>>,
    pub functions: RwLock<FxHashMap<u64, Arc<module::Function>>>,
    pub allocations: Mutex<memory::Allocations>,
    pub graph_memory: Mutex<FxHashMap<u64, std::sync::Weak<graph_memory::GraphMemory>>>,
    pub arrays: RwLock<FxHashMap<u64, array::Array>>,
    pub mipmaps: RwLock<FxHashMap<u64, array::Mipmap>>,
    pub vmm: Mutex<vmm::Vmm>,
    pub pools: Mutex<Pools>,
    /// By the serial of the allocation.
    pub advice: Mutex<FxHashMap<u64, advice::Said>>,
    /// What texture and surface objects were made of.
    pub described: Mutex<FxHashMap<u64, texture::Described>>,
    pub linkers: Mutex<linkers::Linkers>,
    pub user_objects: Mutex<user_objects::UserObjects>,
    pub contexts: Mutex<context::Contexts>,
    pub initialized: AtomicBool,
    pub limits: Mutex<FxHashMap<u32, u64>>,
    pub support: Mutex<support::Support>,
}

impl Deref for State {
    type Target = Core;

    fn deref(&self) -> &Core {
        &self.core
    }
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
        let machine = Machine::new(
            &memory,
            engine::Options {
                heap_size: context::DEFAULT_HEAP,
                print,
                wide: true,
                residue: 0,
            },
        )?;
        let threads = if options.threads == 0 {
            cores
        } else {
            options.threads
        };
        let core = Core::new((memory, machine), host, printed, threads, options.seed);
        let state = State {
            core: Arc::new(core),
            next_handle: AtomicU64::new(FIRST_HANDLE),
            order: Mutex::new(()),
            legacy: Arc::new(Stream::new(queue::LEGACY, 0, true, 0)),
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
            pools: Mutex::new(Pools::new(DEFAULT_POOL)),
            advice: Mutex::default(),
            described: Mutex::default(),
            linkers: Mutex::default(),
            user_objects: Mutex::default(),
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
        // No kernel has failed on a device that is not initialized.
        self.state.check()?;
        self.enter_to_map()
    }

    /// What calls that map memory start with. They work in a context in which a
    /// kernel has failed, too (seen on an H200, driver 580).
    pub(crate) fn enter_to_map(&self) -> Result<()> {
        if !self.is_initialized() {
            return Err(CUresult::CUDA_ERROR_NOT_INITIALIZED);
        }
        context::current()
            .map(drop)
            .ok_or(CUresult::CUDA_ERROR_INVALID_CONTEXT)
    }

    /// What the sticky error was, in words; `None` if there is none.
    pub fn fault(&self) -> Option<String> {
        self.state.failure().map(|failure| failure.detail)
    }

    pub(crate) fn handle(&self) -> u64 {
        // Steps of 64, as if they were pointers to objects.
        self.state.next_handle.fetch_add(64, Ordering::Relaxed)
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
