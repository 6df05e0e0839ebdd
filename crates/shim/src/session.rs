//! What this process runs on: settings, the device's functions, and the
//! runtime that watches. Made once, at the first CUDA call.

use crate::exports::COUNT;
use crate::failure::{refuse, say, set_refusal};
use crate::{cpu, exports, hooks, process, resolver, table};
use driver::gpu::{Gpu, OpenError};
use driver::sys::CUresult;
use driver::{Api, Driver};
use model::{DeviceKind, Settings};
use parking_lot::Mutex;
use report::session::Event;
use runtime::Runtime;
use std::ffi::CString;
use std::io::Write as _;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::sync::{Arc, OnceLock};

/// A process under Ringfence.
pub struct Session {
    /// What the user asked for.
    pub settings: Settings,
    /// Which device the program has.
    pub kind: DeviceKind,
    /// The device's own functions, which hooks call.
    pub next: Api,
    /// The real driver, on the GPU.
    pub gpu: Option<Arc<Gpu>>,
    driver: Arc<dyn Driver>,
    initialised: AtomicBool,
    /// Empty until the program has initialised CUDA; `None` inside when
    /// checking is off or the runtime could not start.
    runtime: OnceLock<Option<Arc<Runtime>>>,
}

static SESSION: OnceLock<Session> = OnceLock::new();
static STARTING: Mutex<()> = Mutex::new(());
/// Thread that is in the middle of starting; 0: none.
static STARTER: AtomicI32 = AtomicI32::new(0);
/// Set in a forked child, where neither contexts nor threads survive.
static FORKED: AtomicBool = AtomicBool::new(false);

/// The session, once it has started.
pub fn get() -> Option<&'static Session> {
    SESSION.get()
}

/// The runtime, if this process is being checked.
pub fn runtime() -> Option<&'static Runtime> {
    if FORKED.load(Ordering::Relaxed) {
        return None;
    }
    SESSION.get()?.runtime.get()?.as_deref()
}

/// Whether this is a forked child of the process that started.
pub fn forked() -> bool {
    FORKED.load(Ordering::Relaxed)
}

/// Called in a forked child.
pub fn set_forked() {
    FORKED.store(true, Ordering::Relaxed);
}

/// Starts if that has not happened. `false` only in a call that the starting
/// thread itself makes.
pub fn start() -> bool {
    if SESSION.get().is_some() {
        return true;
    }
    // SAFETY: no arguments, cannot fail.
    let thread = unsafe { libc::gettid() };
    if STARTER.load(Ordering::Relaxed) == thread {
        return false;
    }
    let _guard = STARTING.lock();
    if SESSION.get().is_some() || failed() {
        return true;
    }
    STARTER.store(thread, Ordering::Relaxed);
    begin();
    STARTER.store(0, Ordering::Relaxed);
    true
}

static FAILED: AtomicBool = AtomicBool::new(false);

fn failed() -> bool {
    FAILED.load(Ordering::Acquire)
}

/// Reads the settings, opens the device and fills the table.
fn begin() {
    let settings = match settings() {
        Ok(settings) => settings,
        Err(message) => {
            return fail(
                &Settings::default(),
                DeviceKind::Cpu,
                CUresult::CUDA_ERROR_SYSTEM_NOT_READY,
                &message,
            );
        }
    };
    let kind = device_kind(&settings);
    let session = match open(kind, &settings) {
        Ok((next, gpu, driver)) => Session {
            next: if settings.protect.watch && settings.check {
                hooks::watch::enable();
                hooks::whole_device::wrap(&next)
            } else {
                next
            },
            settings,
            kind,
            gpu,
            driver,
            initialised: AtomicBool::new(false),
            runtime: OnceLock::new(),
        },
        Err((code, message)) => return fail(&settings, kind, code, &message),
    };
    if session.settings.time_kernels.is_some() {
        hooks::timing::enable();
    }
    let mut addresses = exports::missing();
    for (address, found) in addresses.iter_mut().zip(session.next.addresses()) {
        if *found != 0 {
            *address = *found;
        }
    }
    if let Some(gpu) = &session.gpu {
        for (address, name) in addresses[driver::COUNT..].iter_mut().zip(driver::EXTRA) {
            let found = CString::new(name).map_or(0, |name| gpu.symbol(&name) as usize);
            if found != 0 {
                *address = found;
            }
        }
    }
    let watched = session.is_watched();
    resolver::register(&mut |position, hook| addresses[position] = hook as usize);
    if watched {
        hooks::register(&mut |position, hook| {
            if session.next.addresses()[position] != 0 {
                addresses[position] = hook as usize;
            }
        });
    }
    process::register();
    // No other thread sets it: the lock of `start` is held.
    if SESSION.set(session).is_ok() {
        table::fill(&addresses);
    }
}

type Opened = (Api, Option<Arc<Gpu>>, Arc<dyn Driver>);

fn open(kind: DeviceKind, settings: &Settings) -> Result<Opened, (CUresult, String)> {
    match kind {
        DeviceKind::Gpu => match Gpu::open(settings.driver.as_deref()) {
            Ok(gpu) => {
                let gpu = Arc::new(gpu);
                Ok((*gpu.api(), Some(Arc::clone(&gpu)), gpu))
            }
            Err(error @ OpenError::NotFound { .. }) => {
                Err((CUresult::CUDA_ERROR_NO_DEVICE, error.to_string()))
            }
            Err(error) => Err((CUresult::CUDA_ERROR_SYSTEM_NOT_READY, error.to_string())),
        },
        DeviceKind::Cpu => match cpu::device(settings) {
            Ok(device) => Ok((cpu::api(), None, device)),
            Err(message) => Err((CUresult::CUDA_ERROR_SYSTEM_NOT_READY, message)),
        },
    }
}

/// The device that was asked for; else the GPU where there is a driver with
/// a device node, else the CPU. Cheap: constructors ask.
pub fn device_kind(settings: &Settings) -> DeviceKind {
    settings.device.unwrap_or_else(|| {
        let node = ["/dev/nvidiactl", "/dev/dxg"]
            .iter()
            .any(|path| Path::new(path).exists());
        let library = settings.driver.is_some() || Gpu::is_installed();
        if node && library {
            DeviceKind::Gpu
        } else {
            DeviceKind::Cpu
        }
    })
}

/// Settings from the environment.
pub fn settings() -> Result<Settings, String> {
    runtime::settings_from_environment(|name| std::env::var(name).ok())
        .map_err(|error| error.to_string())
}

/// Ringfence cannot start: every function answers `code`, and user and
/// command learn why.
fn fail(settings: &Settings, kind: DeviceKind, code: CUresult, message: &str) {
    say(&format!("error: {message}"));
    leave_error(settings, kind, message);
    set_refusal(code);
    let mut addresses = [refuse as *const () as usize; COUNT];
    resolver::register_failed(&mut |position, hook| addresses[position] = hook as usize);
    table::fill(&addresses);
    FAILED.store(true, Ordering::Release);
}

/// Leaves an error for the command, without a runtime to do it.
pub fn leave_error(settings: &Settings, device: DeviceKind, message: &str) {
    let Some(folder) = &settings.session else {
        return;
    };
    let program = std::env::current_exe()
        .map(|path| path.display().to_string())
        .unwrap_or_default();
    let pid = std::process::id();
    let events = [
        Event::Start {
            pid,
            program,
            device,
            device_name: String::new(),
            driver_version: 0,
        },
        Event::Error {
            message: message.to_owned(),
            fatal: true,
        },
    ];
    let path = folder.join(format!("{pid}.jsonl"));
    let written = std::fs::OpenOptions::new()
        .create(true)
        .append(true)
        .open(&path)
        .and_then(|mut file| {
            for event in &events {
                let line = serde_json::to_string(event).map_err(std::io::Error::other)?;
                writeln!(file, "{line}")?;
            }
            Ok(())
        });
    if let Err(error) = written {
        say(&format!(
            "error: failed to write {}: {error}",
            path.display()
        ));
    }
}

impl Session {
    /// Whether there is anything for a runtime to do: to check, to know the
    /// kernels that are timed, or, on the CPU device, to find the PTX in what
    /// the program loads.
    fn is_watched(&self) -> bool {
        self.settings.check || self.kind == DeviceKind::Cpu || self.settings.time_kernels.is_some()
    }

    /// Whether the program has initialised CUDA.
    pub fn is_initialised(&self) -> bool {
        self.initialised.load(Ordering::Acquire)
    }

    /// Starts the runtime, once the program has initialised CUDA.
    pub fn initialise(&self) {
        self.initialised.store(true, Ordering::Release);
        self.runtime.get_or_init(|| {
            if !self.is_watched() || forked() {
                return None;
            }
            match Runtime::new(self.settings.clone(), Arc::clone(&self.driver)) {
                Ok(runtime) => {
                    process::initialised();
                    Some(runtime)
                }
                Err(error) => {
                    let message = format!("{error}; the program runs without checks");
                    say(&format!("error: {message}"));
                    leave_error(&self.settings, self.kind, &message);
                    None
                }
            }
        });
    }
}
