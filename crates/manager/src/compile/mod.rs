//! From the code that a tenant sends to an image that the driver loads, in processes
//! of their own.
//!
//! ```text
//! bytes ─▶ fence ─▶ PTX ─▶ judge ─▶ kernels, variables
//!          worker    │     worker
//!                    └────────────▶ compile ─▶ image       (GPU: a worker, too)
//! ```
//!
//! * **Hostile bytes stay out of the manager.** Decompression, parsing and the pass
//!   run in a process that has given up all system calls but those for computing, and
//!   has limits of processor time and memory. A new one is started for each module.
//! * **The judge believes nobody.** Bytes could take over the worker that reads them,
//!   and then the text could be anything. So another process judges it, which gets the
//!   text and nothing else; it is Rust without `unsafe`. What is loaded is that same
//!   text, which the manager has kept. Of what the first worker says about it, the
//!   manager uses addresses in initializers, and checks each (`claims`).
//! * **The driver's compiler has a process of its own**, too, on a GPU: it takes only
//!   text that was accepted, but its time and memory have no bound. This process has a
//!   context, because the driver compiles in none else, and is kept, because a context
//!   takes long to make.
//! * **No tenant waits for another's module** longer than for its turn: each has one
//!   module at a time under way, and turns are in order.
//!
//! This module must never let an image be loaded that is not compiled from text that
//! the judge has accepted.

mod cache;
mod claims;
mod driver_compiler;
mod process;
mod starter;
mod steps;
mod store;
mod turns;
mod wire;
mod worker;

pub(crate) use claims::Refuted;
pub use process::Worker;
pub(crate) use process::WorkerError;
pub(crate) use starter::{Allowed, Starter, serve};
pub(crate) use steps::{Ends, Entry, Fault, Global, NotTaken, Place, Relocation};
pub(crate) use store::Store;
pub use worker::work;

use crate::device::Device;
use crate::log;
use cache::{Cache, Sized64};
use driver::calls::{Image, LoadError};
use driver_compiler::DriverCompiler;
use process::{Process, Until};
use rustix::process::Signal;
use std::ffi::CString;
use std::io::ErrorKind;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, TryRecvError, channel};
use std::time::{Duration, Instant};
use store::Kept;
use turns::Turns;
use wire::Longest;
use worker::{OfFence, OfJudge, OwnLimits, Task};

/// What the compilation of one module may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CompileLimits {
    /// Processor time of each step; a step may last twice as long.
    pub time: Duration,
    /// Bytes of address space of each step; of the driver's compiler, bytes of
    /// memory.
    pub memory: u64,
    /// Modules at a time.
    pub at_a_time: usize,
    /// Bytes of results that are kept; 0: none.
    pub cache: u64,
}

impl Default for CompileLimits {
    fn default() -> CompileLimits {
        CompileLimits {
            time: Duration::from_secs(60),
            memory: 2 << 30,
            at_a_time: 4,
            cache: 256 << 20,
        }
    }
}

/// How much larger than code is what is made of it, at most.
const GROWTH: u64 = 8;

/// Bytes of an answer, besides its payload, for each byte of code. Names and sizes of
/// what a text declares are shorter than its declarations.
const DESCRIPTION: u64 = 2;

/// PTX that the verifier has accepted, and what the driver has made of it.
pub(crate) struct Contained {
    pub(crate) image: Image,
    pub(crate) kernels: Vec<Entry>,
    /// Names of constant variables that are the program's.
    pub(crate) constants: Vec<String>,
    /// Variables in global memory, in the order of the table.
    pub(crate) globals: Vec<Global>,
    /// Addresses that initializers hold, each inside of a variable.
    pub(crate) relocations: Vec<Relocation>,
    /// The module says that it counts threads that it retires.
    pub(crate) may_fail: bool,
}

impl Sized64 for Contained {
    fn bytes(&self) -> u64 {
        let names = self
            .kernels
            .iter()
            .map(|kernel| kernel.name.len() + kernel.parameters.len() * size_of::<(u32, u32)>());
        let globals = self.globals.iter().map(|global| global.name.len());
        let constants = self.constants.iter().map(String::len);
        let listed = names
            .chain(globals)
            .chain(constants)
            .map(|bytes| bytes + 64);
        let relocations = self.relocations.len() * size_of::<Relocation>();
        (self.image.bytes().len() + listed.sum::<usize>() + relocations) as u64
    }
}

/// A module that is not compiled.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NotCompiled {
    #[error("{}", .0.about)]
    Taken(NotTaken),
    #[error("the module cannot be compiled: {0}")]
    Worker(#[from] WorkerError),
    #[error("the module cannot be loaded: {0}")]
    Claims(#[from] Refuted),
    #[error("the driver refuses the module: {}\n{}", .0.error, .0.log)]
    Driver(LoadError),
}

/// How often the compiler did what.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    /// Modules that were compiled.
    pub(crate) compiled: AtomicU64,
    /// Modules that were compiled before.
    pub(crate) cached: AtomicU64,
    /// Modules that were refused.
    pub(crate) refused: AtomicU64,
}

/// Compiles what tenants send.
pub(crate) struct Compiler {
    starter: Starter,
    limits: CompileLimits,
    turns: Turns,
    cache: Cache<Contained>,
    /// What is kept for the next manager.
    store: Option<Store>,
    /// Of a GPU.
    driver: Option<DriverCompiler>,
    pub(crate) counts: Counts,
}

/// A module that is being compiled. Dropped, it is no longer.
pub(crate) struct Job {
    result: Receiver<Result<Arc<Contained>, NotCompiled>>,
    cancelled: Arc<AtomicBool>,
}

impl Drop for Job {
    /// Waits for its thread, which looks every now and then: a tenant that begins and
    /// gives up as fast as it can has one thread all the same.
    fn drop(&mut self) {
        self.cancelled.store(true, Ordering::Release);
        while self.result.recv().is_ok() {}
    }
}

impl Job {
    /// The result, once there is one.
    pub(crate) fn result(&self) -> Option<Result<Arc<Contained>, NotCompiled>> {
        match self.result.try_recv() {
            Ok(result) => Some(result),
            Err(TryRecvError::Empty) => None,
            // Its thread has panicked.
            Err(TryRecvError::Disconnected) => Some(Err(NotCompiled::Worker(WorkerError::Ended(
                "its thread".into(),
            )))),
        }
    }
}

impl Compiler {
    /// One whose workers are started so.
    ///
    /// # Errors
    ///
    /// The driver's compiler cannot be started.
    pub(crate) fn new(
        starter: Starter,
        limits: CompileLimits,
        driver: Option<Option<std::path::PathBuf>>,
        store: Option<Store>,
    ) -> Result<Compiler, String> {
        let driver = driver.map(|path| DriverCompiler::start(starter.clone(), limits, path));
        Ok(Compiler {
            turns: Turns::new(limits.at_a_time),
            cache: Cache::new(limits.cache),
            store,
            driver: driver.transpose()?,
            starter,
            limits,
            counts: Counts::default(),
        })
    }

    /// What is kept for the next manager, if anything is.
    pub(crate) fn store(&self) -> Option<&Store> {
        self.store.as_ref()
    }

    /// Begins to compile a module: at most `longest` bytes as PTX.
    pub(crate) fn start(
        compiler: &Arc<Compiler>,
        device: &Arc<Device>,
        code: Vec<u8>,
        longest: u64,
    ) -> Job {
        let (sender, result) = channel();
        let cancelled = Arc::new(AtomicBool::new(false));
        let job = Job {
            result,
            cancelled: Arc::clone(&cancelled),
        };
        if let Some(before) = compiler.cache.get(&code) {
            compiler.counts.cached.fetch_add(1, Ordering::Relaxed);
            // The receiver is here.
            let _ = sender.send(Ok(before));
            return job;
        }
        let (compiler, device) = (Arc::clone(compiler), Arc::clone(device));
        let work = move || {
            let kept = compiler.kept(&device, &code);
            let is_kept = kept.is_some();
            let compiled = match kept {
                Some(contained) => Ok(contained),
                None => compiler.compile(&device, &code, longest, &cancelled),
            };
            let count = match &compiled {
                Ok(_) if is_kept => &compiler.counts.cached,
                Ok(_) => &compiler.counts.compiled,
                Err(_) => &compiler.counts.refused,
            };
            count.fetch_add(1, Ordering::Relaxed);
            if let Ok(contained) = &compiled {
                compiler.cache.put(code.into(), contained);
            }
            // Nobody may need it any more.
            let _ = sender.send(compiled);
        };
        let thread = std::thread::Builder::new().name("ringfence-compile".into());
        if let Err(error) = thread.spawn(work) {
            log::line(&format!("error: a module cannot be compiled: {error}"));
        }
        job
    }

    /// What an earlier manager has made of the same code.
    fn kept(&self, device: &Device, code: &[u8]) -> Option<Arc<Contained>> {
        let store = self.store.as_ref()?;
        let key = store.key(code);
        let Kept {
            claims,
            judged,
            code,
        } = store.get(&key)?;
        let image = match self.driver {
            Some(_) => Image::of_cubin(code),
            None => joined(device, code).ok(),
        };
        let Some(image) = image else {
            store.reject(&key);
            return None;
        };
        Some(Arc::new(contained(claims, judged, image)))
    }

    fn compile(
        &self,
        device: &Device,
        code: &[u8],
        longest: u64,
        cancelled: &AtomicBool,
    ) -> Result<Arc<Contained>, NotCompiled> {
        let _turn = self.turns.take(cancelled).ok_or(WorkerError::Cancelled)?;
        let limits = OwnLimits {
            seconds: self.limits.time.as_secs().max(1),
            memory: self.limits.memory,
        };
        let fence = Task::Fence {
            capability: device.capability,
            code: longest,
            limits,
        };
        let (claims, text) = self.ask::<OfFence>(&fence, (code, longest), cancelled)?;
        let claims = claims.map_err(NotCompiled::Taken)?;
        let judge = Task::Judge { limits };
        let (judged, _) = self.ask::<OfJudge>(&judge, (&text, longest), cancelled)?;
        let judged = judged.map_err(NotCompiled::Taken)?;
        claims::check(&claims, &judged)?;
        let (image, text) = match &self.driver {
            Some(compiler) => {
                let image = compiler.compile(&text, longest * GROWTH, cancelled)?;
                (image, None)
            }
            None if self.store.is_some() => (joined(device, text.clone())?, Some(text)),
            None => (joined(device, text)?, None),
        };
        let Some(store) = &self.store else {
            return Ok(Arc::new(contained(claims, judged, image)));
        };
        let kept = Kept {
            claims,
            judged,
            code: text.unwrap_or_else(|| image.bytes().to_vec()),
        };
        store.put(&store.key(code), &kept);
        Ok(Arc::new(contained(kept.claims, kept.judged, image)))
    }

    /// Has a new worker do a step of a module that is at most `longest` bytes long.
    fn ask<M: serde::de::DeserializeOwned + serde::Serialize>(
        &self,
        task: &Task,
        (payload, longest): (&[u8], u64),
        cancelled: &AtomicBool,
    ) -> Result<(M, Vec<u8>), WorkerError> {
        let mut process = Process::start(&self.starter, task).map_err(WorkerError::Start)?;
        let longest = Longest {
            message: longest.saturating_mul(DESCRIPTION).max(1 << 20),
            payload: longest.saturating_mul(GROWTH).saturating_add(1 << 20),
        };
        let until = Until {
            end: Instant::now() + 2 * self.limits.time,
            cancelled,
            memory: None,
        };
        let sent = process.send(payload, &until);
        // One that ended before it had read all may have said why.
        match process.receive(longest, &until) {
            Ok(answer) => sent
                .map(|()| answer)
                .map_err(|_| WorkerError::Ended("it did not read".into())),
            Err(error) => Err(why(&error, &mut process, self.limits, longest)),
        }
    }
}

/// What the CPU device has for a text: it joins texts, and compiles nothing.
fn joined(device: &Device, text: Vec<u8>) -> Result<Image, NotCompiled> {
    let refused = |error| {
        NotCompiled::Driver(LoadError {
            error,
            log: String::new(),
        })
    };
    device.context.make_current().map_err(refused)?;
    // The judge takes no text with a zero in it.
    let text = CString::new(text).map_err(|_| WorkerError::Ended("a zero".into()))?;
    device.context.compile(&text).map_err(NotCompiled::Driver)
}

fn contained(claims: steps::Claims, judged: steps::Judged, image: Image) -> Contained {
    Contained {
        image,
        kernels: judged.kernels,
        constants: judged.constants,
        globals: judged.globals,
        relocations: claims.relocations,
        may_fail: claims.may_fail,
    }
}

/// Why a worker gave no answer.
fn why(
    error: &std::io::Error,
    process: &mut Process,
    limits: CompileLimits,
    longest: Longest,
) -> WorkerError {
    match error.kind() {
        ErrorKind::ConnectionAborted => WorkerError::Cancelled,
        ErrorKind::TimedOut => WorkerError::Wall(2 * limits.time),
        ErrorKind::OutOfMemory => WorkerError::Memory(limits.memory),
        ErrorKind::FileTooLarge => WorkerError::Large(longest.payload),
        ErrorKind::InvalidData => WorkerError::Ended("its answer is none".into()),
        _ => ended(process.end(), limits),
    }
}

/// What the end of a worker means that has limited itself.
fn ended(status: Option<ExitStatus>, limits: CompileLimits) -> WorkerError {
    let Some(status) = status else {
        return WorkerError::Ended("it closed its socket".into());
    };
    let is = |signal: Signal| status.signal() == Some(signal.as_raw());
    // Memory that cannot be had, and a stack that is full, abort a Rust program.
    if is(Signal::ABORT) || is(Signal::SEGV) {
        return WorkerError::Memory(limits.memory);
    }
    match is(Signal::XCPU) || is(Signal::KILL) {
        true => WorkerError::Time(limits.time),
        false => WorkerError::Ended(status.to_string()),
    }
}
