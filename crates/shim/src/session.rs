//! What this process runs on: settings, the device's functions, the runtime
//! that watches, and what each part of this library remembers. Made once, at
//! the first CUDA call.
//!
//! All of it belongs to one static, [`LIBRARY`]. What cannot be in it:
//!
//! * `exports::TABLE`, which the machine code of the exported functions
//!   addresses by its symbol, before there is a session.
//! * `hooks::streams::THREAD`, which each thread has for itself.
//!
//! `tests/statics.rs` compares this list with the sources.

use crate::environment::leave_error;
use crate::positions::COUNT;
use crate::state::{
    Captures, ExportedPools, Guard, Heaps, LastWords, Life, Links, Modules, Named, Pitches,
    Replays, Threads, Times,
};
use crate::stderr::say;
use crate::table::Table;
use driver::gpu::Gpu;
use driver::signatures;
use driver::sys::{CUcontext, CUresult};
use driver::{Api, Driver};
use model::{DeviceKind, Settings};
use parking_lot::Mutex;
use runtime::Runtime;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::sync::{Arc, OnceLock};

/// A process under Ringfence.
pub struct Session {
    /// What the user asked for.
    pub settings: Settings,
    /// Which device the program has.
    pub kind: DeviceKind,
    /// The device's functions, as hooks call them.
    pub next: Api,
    /// The device's own functions.
    pub device: Api,
    /// The real driver, on the GPU.
    pub gpu: Option<Arc<Gpu>>,
    /// The table that the program's calls jump through.
    pub table: &'static Table,
    /// Which process it is, and what has happened to it.
    pub life: Life,
    /// The report of a process that a signal kills.
    pub last_words: LastWords,
    /// Functions that the device lacks and that were named.
    pub missing: Named,
    /// Streams that are being captured.
    pub captures: Captures,
    /// Numbers of threads.
    pub threads: Threads,
    /// Pools whose memory other processes may open.
    pub exported_pools: ExportedPools,
    /// Loaded modules.
    pub modules: Modules,
    /// What the program links at run time.
    pub links: Links,
    /// How far apart rows of pitched memory are.
    pub pitches: Pitches,
    /// Instantiated graphs.
    pub replays: Replays,
    /// What is known of kernels that run beside the guard (`--protect watch`).
    pub guard: Option<Guard>,
    /// The times of kernels (`--time-kernels`).
    pub times: Option<Times>,
    /// None for a tenant: it has no device of its own.
    driver: Option<Arc<dyn Driver>>,
    initialised: AtomicBool,
    /// Empty until the program has initialised CUDA; `None` inside when
    /// checking is off or the runtime could not start.
    runtime: OnceLock<Option<Arc<Runtime>>>,
}

/// A device that was opened.
pub struct Opened {
    /// Its functions, as hooks call them.
    pub next: Api,
    /// Its own functions.
    pub device: Api,
    /// The real driver, on the GPU.
    pub gpu: Option<Arc<Gpu>>,
    /// The same as the runtime uses it; none where there is no runtime.
    pub driver: Option<Arc<dyn Driver>>,
}

/// Ringfence could not start.
pub struct Refused {
    /// What every function answers.
    pub code: CUresult,
    /// The table that the program's calls jump through.
    pub table: &'static Table,
}

/// The outcome of a start: the session, and what the table is filled with.
pub struct Begun {
    /// The session, or why there is none.
    pub session: Result<Session, Refused>,
    /// Where each function's calls go from now on.
    pub addresses: [usize; COUNT],
}

/// The device's functions for launches that need no decision, where nothing in this
/// library follows launches: in one line of the cache with whether they are known.
#[allow(non_snake_case, reason = "the symbols' names")]
pub struct Quick {
    /// `cuLaunchKernel`.
    pub cuLaunchKernel: Option<signatures::cuLaunchKernel>,
    /// `cuLaunchKernel_ptsz`.
    pub cuLaunchKernel_ptsz: Option<signatures::cuLaunchKernel_ptsz>,
    /// `cuLaunchKernelEx`.
    pub cuLaunchKernelEx: Option<signatures::cuLaunchKernelEx>,
    /// `cuLaunchKernelEx_ptsz`.
    pub cuLaunchKernelEx_ptsz: Option<signatures::cuLaunchKernelEx_ptsz>,
    current: signatures::cuCtxGetCurrent,
}

impl Quick {
    fn of(session: &Session) -> Option<Quick> {
        let api = &session.next;
        Some(Quick {
            cuLaunchKernel: api.cuLaunchKernel,
            cuLaunchKernel_ptsz: api.cuLaunchKernel_ptsz,
            cuLaunchKernelEx: api.cuLaunchKernelEx,
            cuLaunchKernelEx_ptsz: api.cuLaunchKernelEx_ptsz,
            current: api.cuCtxGetCurrent.filter(|_| session.guard.is_none())?,
        })
    }

    /// The current context; 0: there is none.
    #[inline(always)]
    pub fn current_context(&self) -> u64 {
        let mut context = CUcontext::NULL;
        // SAFETY: a place for the answer.
        let _ = unsafe { (self.current)(&mut context) };
        context.0
    }
}

/// Begins a line of the cache.
#[repr(align(64))]
struct Line<T>(T);

/// Everything in this library that changes.
struct Library {
    quick: Line<OnceLock<Quick>>,
    session: OnceLock<Result<Session, Refused>>,
    /// Taken while a thread starts.
    starting: Mutex<()>,
    /// Thread that is in the middle of starting; 0: none.
    starter: AtomicI32,
    /// Programs declare heaps before their first CUDA call.
    heaps: Heaps,
}

static LIBRARY: Library = Library {
    quick: Line(OnceLock::new()),
    session: OnceLock::new(),
    starting: Mutex::new(()),
    starter: AtomicI32::new(0),
    heaps: Heaps::new(),
};

/// The session, once it has started.
#[inline]
pub fn get() -> Option<&'static Session> {
    LIBRARY.session.get()?.as_ref().ok()
}

/// The runtime, if this process is being checked.
pub fn runtime() -> Option<&'static Runtime> {
    let session = get()?;
    if session.life.is_forked() {
        return None;
    }
    session.runtime.get()?.as_deref()
}

/// The device's functions, once it was opened.
pub fn next() -> Option<&'static Api> {
    Some(&get()?.next)
}

/// What launches need that need no decision; `None` where each takes the long way.
#[inline(always)]
pub fn quick() -> Option<&'static Quick> {
    LIBRARY.quick.0.get()
}

/// The heaps that the program declares through NVTX.
pub fn heaps() -> &'static Heaps {
    &LIBRARY.heaps
}

/// What calls get that cannot be made.
pub fn refusal() -> CUresult {
    match LIBRARY.session.get() {
        Some(Err(refused)) => refused.code,
        _ => CUresult::CUDA_ERROR_NOT_INITIALIZED,
    }
}

/// The table that the program's calls jump through, once Ringfence has started
/// or failed to.
pub fn table() -> Option<&'static Table> {
    Some(match LIBRARY.session.get()? {
        Ok(session) => session.table,
        Err(refused) => refused.table,
    })
}

/// Starts by `begin` if that has not happened. `false` only in a call that the
/// starting thread itself makes.
pub fn start(table: &Table, begin: impl FnOnce() -> Begun) -> bool {
    if LIBRARY.session.get().is_some() {
        return true;
    }
    // SAFETY: no arguments, cannot fail.
    let thread = unsafe { libc::gettid() };
    if LIBRARY.starter.load(Ordering::Relaxed) == thread {
        return false;
    }
    let _guard = LIBRARY.starting.lock();
    if LIBRARY.session.get().is_some() {
        return true;
    }
    LIBRARY.starter.store(thread, Ordering::Relaxed);
    let Begun { session, addresses } = begin();
    // No other thread sets it: the lock is held.
    if LIBRARY.session.set(session).is_ok() {
        if let Some(quick) = get().and_then(Quick::of) {
            LIBRARY.quick.0.get_or_init(|| quick);
        }
        table.fill(&addresses);
    }
    LIBRARY.starter.store(0, Ordering::Relaxed);
    true
}

impl Session {
    /// A session of this process.
    pub fn new(
        settings: Settings,
        kind: DeviceKind,
        opened: Opened,
        table: &'static Table,
    ) -> Session {
        Session {
            kind,
            next: opened.next,
            device: opened.device,
            gpu: opened.gpu,
            table,
            life: Life::of_this_process(),
            last_words: LastWords::default(),
            missing: Named::default(),
            captures: Captures::default(),
            threads: Threads::default(),
            exported_pools: ExportedPools::default(),
            modules: Modules::default(),
            links: Links::default(),
            pitches: Pitches::default(),
            replays: Replays::default(),
            guard: (settings.protect.watch && settings.check).then(Guard::default),
            times: settings.time_kernels.is_some().then(Times::default),
            settings,
            driver: opened.driver,
            initialised: AtomicBool::new(false),
            runtime: OnceLock::new(),
        }
    }

    /// Whether nothing in this library follows launches, and the kernels of every
    /// device reach Ringfence's tables.
    pub fn leaves_launches_alone(&self) -> bool {
        let reaches = self
            .gpu
            .as_ref()
            .is_none_or(|gpu| gpu.reaches_all_devices());
        self.guard.is_none() && self.times.is_none() && reaches
    }

    /// Whether there is anything for a runtime to do, on a device of the process's
    /// own: to check, to know the
    /// kernels that are timed, or, on the CPU device, to find the PTX in what
    /// the program loads.
    pub fn is_watched(&self) -> bool {
        let is_own = self.driver.is_some();
        let has_reason = self.settings.check
            || self.kind == DeviceKind::Cpu
            || self.settings.time_kernels.is_some();
        is_own && has_reason
    }

    /// Whether the program has initialised CUDA.
    pub fn is_initialised(&self) -> bool {
        self.initialised.load(Ordering::Acquire)
    }

    /// Starts the runtime, once the program has initialised CUDA. Whether there
    /// is one.
    pub fn initialise(&self) -> bool {
        self.initialised.store(true, Ordering::Release);
        let runtime = self.runtime.get_or_init(|| {
            if !self.is_watched() || self.life.is_forked() {
                return None;
            }
            let driver = Arc::clone(self.driver.as_ref()?);
            match Runtime::new(self.settings.clone(), driver) {
                Ok(runtime) => Some(runtime),
                Err(error) => {
                    let message = format!("{error}; the program runs without checks");
                    say(&format!("error: {message}"));
                    leave_error(&self.settings, self.kind, &message);
                    None
                }
            }
        });
        runtime.is_some()
    }
}
