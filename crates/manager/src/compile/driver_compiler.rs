//! The driver's compiler in a process of its own. A driver compiles only in a context,
//! so this worker has one, which takes device memory (some 500 MiB on an H200) and
//! some tenths of a second to make. One worker serves all tenants, a module at a time;
//! it is started with the manager, and again after it was killed.

use super::process::{Process, Until, WorkerError};
use super::starter::Starter;
use super::wire::Longest;
use super::worker::{OfCompile, Ready, Task};
use super::{CompileLimits, NotCompiled, why};
use crate::log;
use driver::DriverError;
use driver::calls::{Image, LoadError};
use driver::sys::CUresult;
use parking_lot::Mutex;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How long a worker may take until it can begin.
const START: Duration = Duration::from_secs(60);

/// How often one that waits looks whether anybody needs its result.
const TICK: Duration = Duration::from_millis(20);

/// Bytes of the first answer, and of what the driver says.
const MESSAGE: u64 = 64 << 10;

/// The compiler.
pub(super) struct DriverCompiler {
    starter: Starter,
    limits: CompileLimits,
    path: Option<PathBuf>,
    running: Mutex<Option<Running>>,
}

/// A worker that has begun.
struct Running {
    process: Process,
    /// Bytes of memory that it had before the first text.
    empty: u64,
}

impl DriverCompiler {
    /// Starts it, by this driver library or the one that is found.
    ///
    /// # Errors
    ///
    /// It cannot have a context.
    pub(super) fn start(
        starter: Starter,
        limits: CompileLimits,
        path: Option<PathBuf>,
    ) -> Result<DriverCompiler, String> {
        let compiler = DriverCompiler {
            starter,
            limits,
            path,
            running: Mutex::new(None),
        };
        let running = compiler.begin(&AtomicBool::new(false))?;
        *compiler.running.lock() = Some(running);
        Ok(compiler)
    }

    fn begin(&self, cancelled: &AtomicBool) -> Result<Running, String> {
        let task = Task::Compile {
            driver: self.path.clone(),
        };
        let told = |error: &dyn std::fmt::Display| error.to_string();
        let mut process = Process::start(&self.starter, &task).map_err(|error| told(&error))?;
        let until = Until {
            end: Instant::now() + START,
            cancelled,
            memory: None,
        };
        let longest = Longest {
            message: MESSAGE,
            payload: 0,
        };
        let (ready, _) = process
            .receive::<Ready>(longest, &until)
            .map_err(|error| told(&error))?;
        ready?;
        Ok(Running {
            empty: process.resident(),
            process,
        })
    }

    /// Compiles text that the judge has accepted, to at most `longest` bytes.
    pub(super) fn compile(
        &self,
        text: &[u8],
        longest: u64,
        cancelled: &AtomicBool,
    ) -> Result<Image, NotCompiled> {
        let mut running = loop {
            if let Some(running) = self.running.try_lock_for(TICK) {
                break running;
            }
            if cancelled.load(Ordering::Acquire) {
                return Err(WorkerError::Cancelled.into());
            }
        };
        let mut one = match running.take() {
            Some(one) => one,
            None => self
                .begin(cancelled)
                .map_err(|error| WorkerError::Start(std::io::Error::other(error)))?,
        };
        let until = Until {
            end: Instant::now() + 2 * self.limits.time,
            cancelled,
            memory: Some(one.empty.saturating_add(self.limits.memory)),
        };
        let longest = Longest {
            message: MESSAGE,
            payload: longest,
        };
        let sent = one.process.send(text, &until);
        let answer = sent.and_then(|()| one.process.receive::<OfCompile>(longest, &until));
        let (answer, image) = match answer {
            Ok(answer) => answer,
            Err(error) => {
                let error = why(&error, &mut one.process, self.limits, longest);
                if !matches!(error, WorkerError::Cancelled) {
                    log::line(&format!(
                        "warning: the driver's compiler was ended and is started again: {error}"
                    ));
                }
                // It is killed here, and another one begins with the next module.
                return Err(error.into());
            }
        };
        *running = Some(one);
        drop(running);
        match answer {
            Ok(()) => {
                let image = Image::of_cubin(image);
                let image = image.ok_or_else(|| WorkerError::Ended("its image is none".into()))?;
                Ok(image)
            }
            Err((code, message, log)) => Err(NotCompiled::Driver(LoadError {
                error: DriverError {
                    call: "cuLinkComplete",
                    code: CUresult(code),
                    message,
                },
                log,
            })),
        }
    }
}
