//! The device that the manager owns, and what is asked of it once.

use crate::blocks;
use crate::chains::Maker;
use crate::fair::Share;
use crate::log;
use crate::progress::Progress;
use crate::quiet::{Quiet, Waiter};
use crate::streams::{Lent, Streams};
use driver::DriverError;
use driver::calls::{Calls, Context, Module, Stream};
use driver::gpu::Gpu;
use driver::sys::{CUdevice_attribute as A, CUresult};
use parking_lot::{Condvar, Mutex};
use protocol::{Attribute, DeviceFacts};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Which device the manager owns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DeviceChoice {
    /// The first GPU, by this driver library or the one that is found.
    Gpu(Option<PathBuf>),
    /// The CPU device, with so many threads; 0 is one a core.
    Cpu(u32),
}

impl DeviceChoice {
    /// How many pieces of memory all partitions may map together. On the CPU device
    /// each is a mapping of this process, of which the system allows so many; a
    /// quarter is left to everything else. Without one left, not even a panic
    /// could be reported.
    pub(crate) fn mappings(&self) -> Option<u64> {
        let Self::Cpu(_) = self else { return None };
        let all = std::fs::read_to_string("/proc/sys/vm/max_map_count");
        let all = all.ok().and_then(|text| text.trim().parse::<u64>().ok());
        Some(all.unwrap_or(DEFAULT_MAPPINGS) / 4 * 3)
    }
}

/// Linux's `vm.max_map_count`, if it is not set otherwise.
const DEFAULT_MAPPINGS: u64 = 65_530;

/// The device cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// There is no driver, or it cannot be loaded.
    #[error(transparent)]
    Driver(#[from] driver::gpu::OpenError),
    /// The CPU device.
    #[error("{0}")]
    Cpu(String),
    /// The driver refuses.
    #[error("the device cannot be used: {0}")]
    Device(#[from] DriverError),
}

/// The device.
pub(crate) struct Device {
    /// Its context.
    pub(crate) context: Context,
    /// What tenants are told of it.
    pub(crate) facts: DeviceFacts,
    /// Compute capability times ten.
    pub(crate) capability: u32,
    /// Shared memory that the system takes from each block, in bytes.
    pub(crate) reserved_shared: u32,
    /// Blocks that a tenant may have in flight.
    pub(crate) most_blocks: Option<u64>,
    limits: Limits,
    cpu: Option<&'static cpu_api::Cpu>,
    /// When none of its kernels runs.
    pub(crate) quiet: Arc<Quiet>,
    /// How the work of its streams gets on.
    pub(crate) progress: Arc<Progress>,
    /// Streams that nobody has.
    pub(crate) streams: Arc<Streams>,
    multiprocessors: u32,
    /// The context has failed: nothing runs any more.
    is_lost: AtomicBool,
    /// Told when it has.
    lost: (Mutex<()>, Condvar),
}

/// What the kernels of one tenant end by, on the CPU device: blocks that have not
/// begun never do, and a block whose threads wait for each other for ever ends.
#[derive(Clone)]
pub(crate) struct Contained {
    cpu: &'static cpu_api::Cpu,
    ends: Arc<cpu_api::Contained>,
}

impl Contained {
    /// Of the kernels of a stream, too.
    ///
    /// # Errors
    ///
    /// There is no such stream.
    pub(crate) fn add(&self, stream: &Stream) -> Result<(), DriverError> {
        let added = self
            .cpu
            .stream_contain(stream.raw(), Arc::clone(&self.ends));
        added.map_err(|code| DriverError {
            call: "the CPU device",
            code,
            message: "a stream cannot be contained".into(),
        })
    }

    /// Whether a block of theirs has ended since the last call because its threads
    /// waited for each other for ever.
    pub(crate) fn take_deadlock(&self) -> bool {
        self.ends.take_deadlock()
    }
}

/// How often to look whether no kernel runs.
const PAUSE: Duration = Duration::from_millis(1);

/// Largest launches.
struct Limits {
    grid: [u32; 3],
    block: [u32; 3],
}

/// Attributes that are those of the device, but say that it can do what tenants
/// cannot do.
const WITHHELD: [A; 26] = [
    A::CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY,
    A::CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY,
    A::CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS,
    A::CU_DEVICE_ATTRIBUTE_DIRECT_MANAGED_MEM_ACCESS_FROM_HOST,
    A::CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS,
    A::CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES,
    A::CU_DEVICE_ATTRIBUTE_HOST_NATIVE_ATOMIC_SUPPORTED,
    A::CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM,
    A::CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED,
    A::CU_DEVICE_ATTRIBUTE_READ_ONLY_HOST_REGISTER_SUPPORTED,
    A::CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS,
    A::CU_DEVICE_ATTRIBUTE_CAN_USE_STREAM_WAIT_VALUE_NOR,
    A::CU_DEVICE_ATTRIBUTE_CAN_USE_STREAM_MEM_OPS_V1,
    A::CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS_V1,
    A::CU_DEVICE_ATTRIBUTE_CAN_USE_STREAM_WAIT_VALUE_NOR_V1,
    A::CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED,
    A::CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED,
    A::CU_DEVICE_ATTRIBUTE_STREAM_PRIORITIES_SUPPORTED,
    A::CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH,
    A::CU_DEVICE_ATTRIBUTE_UNIFIED_FUNCTION_POINTERS,
    A::CU_DEVICE_ATTRIBUTE_IPC_EVENT_SUPPORTED,
    A::CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_SUPPORTED,
    A::CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED,
    A::CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED,
    A::CU_DEVICE_ATTRIBUTE_SPARSE_CUDA_ARRAY_SUPPORTED,
    A::CU_DEVICE_ATTRIBUTE_DEFERRED_MAPPING_CUDA_ARRAY_SUPPORTED,
];

impl Device {
    /// Opens the device; its context is current on this thread.
    /// `budget`: how long kernels may keep others from loading code; `stall`: how
    /// long the work of two tenants may stand still.
    pub(crate) fn open(
        choice: &DeviceChoice,
        budget: Option<Duration>,
        stall: Option<Duration>,
    ) -> Result<Device, OpenError> {
        let (calls, cpu) = calls_of(choice)?;
        let context = Context::open(calls)?;
        let attribute = |attribute| context.attribute(attribute);
        let number = |which| attribute(which).map(|value| value.max(0) as u32);
        let capability = 10 * number(A::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?
            + number(A::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?;
        let reserved_shared = number(A::CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK)?;
        let multiprocessors = number(A::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)?;
        let chains = match Maker::new(&context, capability) {
            Ok(maker) => Some(maker),
            Err(error) => {
                log::line(&format!(
                    "warning: launches are put in one at a time, which takes longer: {error}"
                ));
                None
            }
        };
        let streams = Streams::new(&context, chains, cpu.is_some())?;
        let limits = Limits {
            grid: [
                number(A::CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X)?,
                number(A::CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y)?,
                number(A::CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z)?,
            ],
            block: [
                number(A::CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X)?,
                number(A::CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y)?,
                number(A::CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z)?,
            ],
        };
        let facts = DeviceFacts {
            name: context.name()?,
            version: context.version()?,
            uuid: context.uuid()?,
            attributes: attributes(&context),
        };
        Ok(Device {
            context,
            facts,
            capability,
            reserved_shared,
            // (The CPU device drops blocks that have not begun.)
            most_blocks: cpu.map_or_else(|| blocks::most(budget), |_| None),
            limits,
            cpu,
            quiet: Arc::new(Quiet::new(budget)),
            progress: Arc::new(Progress::new(stall)),
            streams: Arc::new(streams),
            multiprocessors,
            is_lost: AtomicBool::new(false),
            lost: Default::default(),
        })
    }

    /// A stream, for now or for as long as it is needed, with [chains](crate::chains) where
    /// that `is_chained` and some have them. Where none is spare, this waits until no
    /// kernel runs.
    ///
    /// # Errors
    ///
    /// Those of the driver.
    pub(crate) fn stream(&self, is_chained: bool) -> Result<Lent, DriverError> {
        let mut waiter = None;
        loop {
            if let Some(stream) = self.streams.take(&self.context, is_chained)? {
                return Ok(stream);
            }
            let waiter = waiter.get_or_insert_with(|| Waiter::new(&self.quiet));
            match waiter.try_enter(&self.quiet, &self.context)? {
                Some(quiescent) => quiescent.make_streams(&self.streams, &self.context)?,
                None => std::thread::sleep(PAUSE),
            }
        }
    }

    /// The part of the device that a grid of so many blocks has.
    pub(crate) fn share(&self, blocks: u64) -> Share {
        Share::of(blocks, self.multiprocessors)
    }

    /// What the device cannot execute of a module that was loaded; `None` if it
    /// can execute all of it. A kernel that it cannot execute would end the
    /// context.
    pub(crate) fn lacks(&self, module: &Module) -> Option<String> {
        let cpu = self.cpu?;
        match cpu.module_lacks(module.raw()) {
            Ok(all) => all.into_iter().next(),
            Err(code) => Some(format!("error {} when it was examined", code.0)),
        }
    }

    /// What the kernels of a tenant end by, on the CPU device; on a GPU they end by
    /// their own looks at the word alone.
    pub(crate) fn contained(&self, word: u64) -> Option<Contained> {
        let cpu = self.cpu?;
        let ends = Arc::new(cpu.contained(word));
        Some(Contained { cpu, ends })
    }

    /// Whether it is the CPU device.
    pub(crate) fn is_cpu(&self) -> bool {
        self.cpu.is_some()
    }

    /// Whether the device can have such a launch at all.
    pub(crate) fn fits(&self, grid: [u32; 3], block: [u32; 3]) -> bool {
        let within = |size: [u32; 3], limit: [u32; 3]| {
            size.iter()
                .zip(limit)
                .all(|(n, most)| (1..=most).contains(n))
        };
        within(grid, self.limits.grid) && within(block, self.limits.block)
    }

    /// Looks at an error of the driver: some mean that the context has failed.
    pub(crate) fn notice(&self, code: CUresult, message: &str) {
        let error = DriverError {
            call: "a call",
            code,
            message: message.to_owned(),
        };
        if error.is_sticky() && !self.is_lost.swap(true, Ordering::AcqRel) {
            crate::log::line(&format!("error: the device has failed: {error}"));
            let _waits = self.lost.0.lock();
            self.lost.1.notify_all();
        }
    }

    /// Waits until the context has failed.
    pub(crate) fn wait_until_lost(&self) {
        let mut waits = self.lost.0.lock();
        while !self.is_lost() {
            self.lost.1.wait(&mut waits);
        }
    }

    /// Whether the context has failed.
    pub(crate) fn is_lost(&self) -> bool {
        self.is_lost.load(Ordering::Acquire)
    }
}

/// The functions of a device; the CPU device itself, if it is that.
fn calls_of(choice: &DeviceChoice) -> Result<(Calls, Option<&'static cpu_api::Cpu>), OpenError> {
    match choice {
        DeviceChoice::Gpu(path) => {
            let gpu = Gpu::open(path.as_deref())?;
            Ok((Calls::of_gpu(Arc::new(gpu)), None))
        }
        DeviceChoice::Cpu(threads) => {
            let options = cpu_api::Options {
                threads: *threads,
                ..cpu_api::Options::default()
            };
            let cpu = cpu_api::open(options, OUTPUT).map_err(OpenError::Cpu)?;
            Ok((cpu_api::calls(cpu), Some(cpu)))
        }
    }
}

/// A context of a device, current on this thread.
///
/// # Errors
///
/// The device cannot be used.
pub(crate) fn context_of(choice: &DeviceChoice) -> Result<Context, OpenError> {
    let (calls, _) = calls_of(choice)?;
    Ok(Context::open(calls)?)
}

/// All attributes that the driver knows.
fn attributes(context: &Context) -> Vec<Attribute> {
    let numbers = 1..A::CU_DEVICE_ATTRIBUTE_MAX.0;
    let known = numbers.filter_map(|number| {
        let attribute = A(number);
        let value = match WITHHELD.contains(&attribute) {
            true => 0,
            false => context.attribute(attribute).ok()?,
        };
        Some(Attribute {
            attribute: number,
            value,
        })
    });
    known.collect()
}

/// What the CPU device says is for the administrator. Kernels of tenants print to
/// memory of their own ([`crate::common`]), and not by the device.
const OUTPUT: cpu_api::Output = cpu_api::Output {
    print: |bytes| crate::log::line(&crate::log::clean(&String::from_utf8_lossy(bytes))),
    print_error: |bytes| crate::log::line(&crate::log::clean(&String::from_utf8_lossy(bytes))),
    say: |text| crate::log::line(&crate::log::clean(text)),
};
