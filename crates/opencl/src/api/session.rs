//! What the hooks share: one session for the process, made when the loader loads
//! the layer.
//!
//! No lock is held while a function of the platform runs: it may call back,
//! here or into the program.

use crate::canaries::Canaries;
use crate::findings::Report;
use crate::objects::buffer::{Buffer, Given, Made, Place};
use crate::objects::registry::Objects;
use crate::output::Reporter;
use crate::platform::ask::ask;
use crate::platform::call;
use crate::platform::events::{List, Waits};
use crate::schedule::Schedule;
use crate::sys::*;
use host::Stack;
use model::{AllocationKind, ApiErrors, Settings, UncheckedReason};
use std::ffi::c_void;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// How long the exit of a program is delayed for pending scans.
const LAST_SCANS: Duration = Duration::from_secs(2);

/// Everything that hooks share while the process runs.
pub struct Session {
    pub settings: Settings,
    pub objects: Objects,
    pub canaries: Arc<Canaries>,
    pub schedule: Arc<Schedule>,
    pub report: Arc<dyn Report>,
    pub output: Arc<Reporter>,
    launches: AtomicU64,
}

static SESSION: OnceLock<Session> = OnceLock::new();

/// Reads the settings. Returns whether anything is checked.
pub fn start() -> bool {
    let settings = match host::settings_from_environment(|name| std::env::var(name).ok()) {
        Ok(settings) => settings,
        Err(error) => {
            host::write_stderr(&format!(
                "ringfence: error: {error}; OpenCL runs without checks\n"
            ));
            return false;
        }
    };
    if !settings.protect.canary {
        return false;
    }
    SESSION.get_or_init(|| {
        let output = Arc::new(Reporter::new(&settings));
        Session::of(settings, output.clone(), output)
    });
    true
}

/// The session, if anything is checked.
#[cfg(not(test))]
pub fn get() -> Option<&'static Session> {
    SESSION.get()
}

/// In tests each thread has a session of its own.
#[cfg(test)]
pub fn get() -> Option<&'static Session> {
    testing::SESSION.get().or_else(|| SESSION.get())
}

/// The session, and the memory object with this handle.
pub fn buffer(object: cl_mem) -> Option<(&'static Session, Arc<Buffer>)> {
    let session = get()?;
    Some((session, session.objects.buffer(object as usize)?))
}

/// Calls `enqueue` with a wait list of the program's, grown by the events of
/// scans.
pub fn with_scans<T>(list: List, enqueue: impl FnOnce(List) -> T) -> T {
    match get() {
        // SAFETY: hooks pass what the program passes to functions of OpenCL,
        // until they return.
        Some(session) => session
            .schedule
            .with_scans(unsafe { Waits::of(list) }, enqueue),
        None => enqueue(list),
    }
}

/// The program is exiting: waits for pending scans, for a limited time.
extern "C" fn at_exit() {
    let Some(session) = get().filter(|session| session.output.is_ours()) else {
        return;
    };
    session.schedule.jobs.wait(LAST_SCANS, |_, _| true);
    for kernel in session.schedule.jobs.unfinished() {
        let reason = UncheckedReason::Unfinished;
        session.report.unchecked(&kernel, reason);
    }
    session.output.save(true);
    session.output.summary();
}

/// The platform is about to free an object.
unsafe extern "C" fn gone(object: cl_mem, _data: *mut c_void) {
    let Some(session) = get() else { return };
    let Some(buffer) = session.objects.take(object as usize) else {
        return;
    };
    session.objects.maps.forget(object as usize);
    let staging = buffer.staging.lock().take();
    drop(staging);
    if let Place::Part { parent, .. } = &buffer.place {
        call!(clReleaseMemObject(parent.handle as cl_mem));
    }
}

/// The handle of an object's context; 0 if the platform does not return it.
pub fn context_of(object: cl_mem) -> usize {
    let context: Option<usize> = ask!(one, clGetMemObjectInfo(object, CL_MEM_CONTEXT));
    context.unwrap_or(0)
}

impl Session {
    /// A session that reports to `report`.
    pub fn of(settings: Settings, output: Arc<Reporter>, report: Arc<dyn Report>) -> Session {
        let canaries = Arc::new(Canaries::of(&settings, report.clone()));
        Session {
            objects: Objects::default(),
            schedule: Arc::new(Schedule::of(canaries.clone())),
            canaries,
            settings,
            report,
            output,
            launches: AtomicU64::new(0),
        }
    }

    /// The program has made a context.
    pub fn opened(&self, context: cl_context) {
        let devices = crate::canaries::contexts::devices(context);
        self.output.open(&devices, at_exit);
        self.canaries.add_context(context);
    }

    /// A buffer that the host may write beside, if that is checked.
    pub fn if_checked(&self, buffer: Arc<Buffer>) -> Vec<Arc<Buffer>> {
        match self.settings.check {
            true => vec![buffer],
            false => Vec::new(),
        }
    }

    /// The memory object with this handle.
    pub fn buffer(&self, object: cl_mem) -> Option<Arc<Buffer>> {
        self.objects.buffer(object as usize)
    }

    /// Registers a memory object until the platform frees it.
    pub fn register(&self, made: Made) {
        let handle = made.handle as cl_mem;
        self.objects.add(Buffer::of(made));
        let data = std::ptr::null_mut();
        call!(clSetMemObjectDestructorCallback(handle, Some(gone), data));
    }

    /// Registers an object that has no canaries of its own.
    pub fn unguarded(&self, handle: cl_mem, flags: u64, size: u64, place: Place, at: Stack) {
        if handle.is_null() {
            return;
        }
        self.register(Made {
            handle: handle as usize,
            context: context_of(handle),
            kind: match place {
                Place::Plain { root, .. } | Place::Shared { root, .. }
                    if root != handle as usize =>
                {
                    AllocationKind::ClSubBuffer
                }
                _ => AllocationKind::ClBuffer,
            },
            size,
            serial: self.objects.next_serial(),
            given: Given { flags, host: false },
            flags,
            properties: false,
            place,
            allocated_at: at,
        });
    }

    /// A host call stack, as deep as the settings say.
    pub fn stack(&self) -> Stack {
        host::stacks::capture(self.settings.num_callers_host)
    }

    /// Ordinal of another launch, from 1.
    pub fn next_launch(&self) -> u64 {
        self.launches.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Whether host calls are checked, and how bad ones are treated.
    pub fn refusal(&self) -> Option<Refusal> {
        match self.settings.api_errors {
            ApiErrors::Off => None,
            ApiErrors::Pass => Some(Refusal::Passed),
            ApiErrors::Refuse => Some(Refusal::Refused),
        }
    }
}

/// How a bad host call is treated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The platform gets it.
    Passed,
    /// The program gets an error.
    Refused,
}

#[cfg(test)]
pub mod testing {
    //! Sessions for tests.

    use super::Session;
    use crate::findings::testing::Recorder;
    use crate::output::Reporter;
    use crate::platform::fake::Fake;
    use model::Settings;
    use std::cell::Cell;
    use std::sync::Arc;

    thread_local! {
        pub static SESSION: Cell<Option<&'static Session>> = const { Cell::new(None) };
    }

    /// A session of this thread over a platform of its own.
    pub struct Test {
        pub session: &'static Session,
        pub recorder: Arc<Recorder>,
        pub fake: Fake,
    }

    impl Drop for Test {
        fn drop(&mut self) {
            SESSION.set(None);
        }
    }

    /// Starts a session with these settings.
    pub fn start(settings: Settings) -> Test {
        let recorder = Arc::new(Recorder::default());
        let output = Arc::new(Reporter::new(&settings));
        let session: &'static Session =
            Box::leak(Box::new(Session::of(settings, output, recorder.clone())));
        SESSION.set(Some(session));
        Test {
            session,
            recorder,
            fake: Fake::new(),
        }
    }
}
