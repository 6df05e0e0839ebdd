//! How to run a manager, and why it does not start.

use crate::addresses::Addresses;
use crate::compile::{CompileLimits, Worker};
use crate::device::{DeviceChoice, OpenError};
use crate::metrics::MetricsAddress;
use crate::quota::Quota;
use model::layout::fence::HEADROOM;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

/// How to run a manager.
#[derive(Clone, Debug)]
pub struct Options {
    /// Where tenants connect.
    pub socket: PathBuf,
    /// The device.
    pub device: DeviceChoice,
    /// What a tenant may have.
    pub quota: Quota,
    /// What tenants of some users may have instead, by user.
    pub users: BTreeMap<u32, Quota>,
    /// How long kernels of one tenant may keep the others from loading code; they
    /// are ended then. `None`: for ever.
    pub kernel_time: Option<Duration>,
    /// The folder of slices: sockets with limits of their own, which are made at
    /// the control socket in it. `None`: there are none.
    pub slices: Option<PathBuf>,
    /// How long the work of two tenants may stand still; the kernels of the one
    /// that began first are ended then.
    pub stall_time: StallTime,
    /// What the compilation of a module may take.
    pub compile: CompileLimits,
    /// The folder in which results of compilation are kept for the next manager, and
    /// how many bytes of them. `None`: they are not.
    pub cache: Option<(PathBuf, u64)>,
    /// What compiles.
    pub worker: Worker,
    /// Where metrics are served.
    pub metrics: Option<MetricsAddress>,
}

/// How long the work of tenants may stand still beside that of another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StallTime {
    /// On a GPU, as long as [`Options::kernel_time`]; on the CPU device, whose
    /// tenants have equal parts of the processors, for ever.
    OfDevice,
    /// For ever.
    Unlimited,
    /// So long.
    Limited(Duration),
}

impl Options {
    /// With defaults for all else.
    pub fn new(socket: PathBuf, device: DeviceChoice, worker: Worker) -> Options {
        Options {
            socket,
            device,
            quota: Quota::default(),
            users: BTreeMap::new(),
            kernel_time: Some(Duration::from_secs(30)),
            slices: None,
            stall_time: StallTime::OfDevice,
            compile: CompileLimits::default(),
            cache: None,
            worker,
            metrics: None,
        }
    }

    pub(crate) fn stall_limit(&self) -> Option<Duration> {
        match (self.stall_time, &self.device) {
            (StallTime::OfDevice, DeviceChoice::Gpu(_)) => self.kernel_time,
            (StallTime::OfDevice, DeviceChoice::Cpu(_)) | (StallTime::Unlimited, _) => None,
            (StallTime::Limited(limit), _) => Some(limit),
        }
    }
}

/// A manager that cannot be started.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// Another one has the socket.
    #[error("another manager has the socket {}; stop it, or choose another with --socket", .0.display())]
    Running(PathBuf),
    /// The socket.
    #[error("the socket {} cannot be made: {error}", .path.display())]
    Socket {
        /// Its path.
        path: PathBuf,
        /// Why.
        error: std::io::Error,
    },
    /// Another one has the device.
    #[error(
        "another manager has the device `{0}`; stop it: two would both give out all of its memory"
    )]
    Owned(String),
    /// The metrics' address.
    #[error("metrics cannot be served at {address}: {error}")]
    Metrics {
        /// The address.
        address: MetricsAddress,
        /// Why.
        error: std::io::Error,
    },
    /// Something else is there.
    #[error("{} is no socket; choose another path with --socket", .0.display())]
    NoSocket(PathBuf),
    /// The device.
    #[error(transparent)]
    Device(#[from] OpenError),
    /// What compiles for the device.
    #[error("the driver's compiler cannot be started in a process of its own: {0}")]
    Compiler(String),
    /// Weights without turns.
    #[error(
        "tenants have different weights, and no turns by which they would get their parts of the device's time; give --stall-time a number of seconds, or all tenants the same --weight"
    )]
    Weights,
    /// The folder of compiled modules.
    #[error(transparent)]
    Cache(#[from] cache::FolderError),
    /// What is compiled could not be told apart by driver.
    #[error("compiled modules cannot be kept (--cache-dir): {0}")]
    Store(String),
    /// The memory of a tenant.
    #[error("a tenant cannot have {0} bytes of memory; choose less with --memory-per-tenant")]
    Memory(u64),
    /// The sockets of a worker.
    #[error("the sockets of the manager did not come: {0}")]
    Inherited(std::io::Error),
    /// A worker.
    #[error("the process that owns the device cannot be started: {0}")]
    Worker(std::io::Error),
    /// What executes kernels cannot be confined.
    #[error(
        "the process that executes kernels cannot give up other system calls and files: {0}; the CPU device of a manager needs seccomp filters (Linux 3.17)"
    )]
    Confine(std::io::Error),
    /// The folder of slices.
    #[error("the folder of slices {} cannot be made: {error}", .path.display())]
    Slices {
        /// Its path.
        path: PathBuf,
        /// Why.
        error: std::io::Error,
    },
}

/// What tenants may have, as options say it.
pub(crate) struct Terms {
    pub(crate) quota: Quota,
    pub(crate) users: BTreeMap<u32, Quota>,
    /// The most memory that a tenant may have.
    pub(crate) most: u64,
    pub(crate) addresses: Addresses,
}

impl Terms {
    /// What can be said of options before anything is opened.
    pub(crate) fn of(options: &Options) -> Result<Terms, StartError> {
        let rounded = |quota: &Quota| {
            let memory = quota.memory.checked_next_multiple_of(HEADROOM);
            let memory = memory.filter(|memory| *memory > 0);
            let memory = memory.ok_or(StartError::Memory(quota.memory))?;
            Ok::<_, StartError>(Quota { memory, ..*quota })
        };
        let quota = rounded(&options.quota)?;
        let users = options.users.iter();
        let users = users.map(|(user, quota)| Ok((*user, rounded(quota)?)));
        let users = users.collect::<Result<BTreeMap<_, _>, StartError>>()?;
        let are_weighed = users.values().any(|user| user.weight != quota.weight);
        if are_weighed && options.stall_limit().is_none() {
            return Err(StartError::Weights);
        }
        let most = users
            .values()
            .fold(quota.memory, |most, quota| most.max(quota.memory));
        let addresses = Addresses::new(most, options.device.mappings());
        let addresses = addresses.ok_or(StartError::Memory(most))?;
        Ok(Terms {
            quota,
            users,
            most,
            addresses,
        })
    }
}
