//! The manager's side of a worker: starts it, talks with it until a deadline, and
//! ends it. Nothing that a worker does makes the manager wait longer, or take more
//! memory than a limit.

use super::starter::{Started, Starter};
use super::wire::{self, Longest};
use super::worker::Task;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::ffi::OsString;
use std::io::{ErrorKind, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How workers are started: a program that calls [`super::work`] when it is started
/// so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Worker {
    /// The program.
    pub program: PathBuf,
    /// Its arguments.
    pub arguments: Vec<OsString>,
    /// Its environment, besides what chooses the device.
    pub environment: Vec<(OsString, OsString)>,
}

/// What of the manager's environment chooses the driver and its first device.
const DEVICE: [&str; 3] = [
    "CUDA_VISIBLE_DEVICES",
    "CUDA_DEVICE_ORDER",
    "LD_LIBRARY_PATH",
];

/// Why a worker gave no answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum WorkerError {
    #[error("it cannot be started: {0}")]
    Start(std::io::Error),
    #[error("it takes more than {} s of processor time", .0.as_secs())]
    Time(Duration),
    #[error("it takes more than {} s", .0.as_secs())]
    Wall(Duration),
    #[error("it takes more memory than the {0} bytes that are allowed, or nests too deeply")]
    Memory(u64),
    #[error("its result is larger than {0} bytes")]
    Large(u64),
    #[error("its compiler has failed ({0})")]
    Ended(String),
    #[error("the tenant is gone")]
    Cancelled,
}

/// A worker that runs; it is killed when this is dropped.
pub(super) struct Process {
    started: Started,
    socket: UnixStream,
}

/// How long an exchange may take, and what ends it before.
pub(super) struct Until<'c> {
    pub(super) end: Instant,
    /// Nobody needs the answer any more.
    pub(super) cancelled: &'c AtomicBool,
    /// Bytes of memory at most, where the worker does not limit itself.
    pub(super) memory: Option<u64>,
}

/// How often the deadline is looked at.
const TICK: Duration = Duration::from_millis(20);

/// Starts a worker as a child of this process, and tells it its task.
pub(super) fn start(worker: &Worker, task: &Task) -> std::io::Result<(Child, UnixStream)> {
    let (mut socket, theirs) = UnixStream::pair()?;
    let mut command = Command::new(&worker.program);
    command
        .args(&worker.arguments)
        .env_clear()
        .stdin(Stdio::from(OwnedFd::from(theirs)))
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    if matches!(task, Task::Compile { .. }) {
        let chosen = DEVICE.iter();
        command.envs(chosen.filter_map(|name| Some((name, std::env::var_os(name)?))));
    }
    let environment = worker.environment.iter();
    command.envs(environment.map(|(name, value)| (name, value)));
    let mut child = command.spawn()?;
    // It holds the other end, whose closing tells that the worker has ended.
    drop(command);
    // It fits into the socket's buffer.
    match wire::write(&mut socket, task, &[]) {
        Ok(()) => Ok((child, socket)),
        Err(error) => {
            end(&mut child);
            Err(error)
        }
    }
}

/// Ends a worker, which may have ended.
pub(super) fn end(child: &mut Child) {
    let _ = child.kill();
    let _ = child.wait();
}

impl Process {
    /// Starts a worker for a task.
    pub(super) fn start(starter: &Starter, task: &Task) -> std::io::Result<Process> {
        let (started, socket) = starter.start(task)?;
        socket.set_read_timeout(Some(TICK))?;
        socket.set_write_timeout(Some(TICK))?;
        Ok(Process { started, socket })
    }

    /// Sends a payload.
    pub(super) fn send(&mut self, payload: &[u8], until: &Until<'_>) -> std::io::Result<()> {
        wire::write(&mut self.line(until), &(), payload)
    }

    /// Waits for an answer and its payload.
    pub(super) fn receive<M: DeserializeOwned + Serialize>(
        &mut self,
        longest: Longest,
        until: &Until<'_>,
    ) -> std::io::Result<(M, Vec<u8>)> {
        wire::read(&mut self.line(until), longest)
    }

    /// Bytes of memory that it has.
    pub(super) fn resident(&self) -> u64 {
        let path = format!("/proc/{}/statm", self.started.id());
        let text = std::fs::read_to_string(path).unwrap_or_default();
        let pages = text.split(' ').nth(1).and_then(|text| text.parse().ok());
        pages.unwrap_or(0u64) * rustix::param::page_size() as u64
    }

    /// How it ended, once it has closed its socket.
    pub(super) fn end(&mut self) -> Option<ExitStatus> {
        let start = Instant::now();
        loop {
            match self.started.status() {
                Ok(Some(status)) => return Some(status),
                Ok(None) if start.elapsed() < Duration::from_secs(1) => {
                    std::thread::sleep(Duration::from_millis(1));
                }
                _ => return None,
            }
        }
    }

    fn line<'p>(&'p mut self, until: &'p Until<'p>) -> Line<'p> {
        Line {
            process: self,
            until,
        }
    }
}

/// The socket, until a deadline.
struct Line<'p> {
    process: &'p Process,
    until: &'p Until<'p>,
}

impl Line<'_> {
    /// Whether to go on waiting.
    fn go_on(&self) -> std::io::Result<()> {
        if self.until.cancelled.load(Ordering::Acquire) {
            return Err(ErrorKind::ConnectionAborted.into());
        }
        match Instant::now() < self.until.end {
            true => Ok(()),
            false => Err(ErrorKind::TimedOut.into()),
        }
    }

    /// Tries until it is done. A worker that moves a byte at a time has no longer.
    fn each_tick<T>(
        &self,
        mut once: impl FnMut(&UnixStream) -> std::io::Result<T>,
    ) -> std::io::Result<T> {
        loop {
            self.go_on()?;
            match once(&self.process.socket) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                other => return other,
            }
            let memory = self.until.memory;
            if memory.is_some_and(|memory| self.process.resident() > memory) {
                return Err(ErrorKind::OutOfMemory.into());
            }
        }
    }
}

impl Read for Line<'_> {
    fn read(&mut self, bytes: &mut [u8]) -> std::io::Result<usize> {
        self.each_tick(|mut socket| socket.read(bytes))
    }
}

impl Write for Line<'_> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        // To a worker that has ended: an error, and no signal, because Rust ignores
        // SIGPIPE.
        self.each_tick(|mut socket| socket.write(bytes))
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}
