//! A worker: a process that does one step of a compilation and can do nothing else.
//!
//! It is the manager's own executable, started with other arguments. It gets its
//! task through its standard input, a socket; limits itself and gives up system
//! calls; and only then reads the first byte that comes from a tenant. The worker
//! that compiles for a GPU gets only what the verifier has accepted, lives on, and
//! needs the driver: it keeps its system calls.

use super::steps::{self, Claims, Judged, NotTaken};
use super::wire::{self, Longest};
use crate::confine;
use crate::device::{self, DeviceChoice};
use rustix::process::{Resource, Rlimit, setrlimit};
use serde::{Deserialize, Serialize};
use std::ffi::CString;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

/// What a worker is for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Task {
    /// Fences the payload.
    Fence {
        /// Compute capability times ten.
        capability: u32,
        /// Bytes of PTX at most.
        code: u64,
        limits: OwnLimits,
    },
    /// Judges the payload.
    Judge { limits: OwnLimits },
    /// Compiles texts by a GPU's driver, one after the other, for ever.
    Compile { driver: Option<PathBuf> },
}

/// What a worker takes from itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct OwnLimits {
    /// Processor time.
    pub(super) seconds: u64,
    /// Address space.
    pub(super) memory: u64,
}

/// The answer to [`Task::Fence`]; the payload is the text.
pub(super) type OfFence = Result<Claims, NotTaken>;
/// The answer to [`Task::Judge`].
pub(super) type OfJudge = Result<Judged, NotTaken>;
/// The answer of [`Task::Compile`] to each text, of which the payload is the image:
/// a `CUresult`, what the driver says, and what its compiler says.
pub(super) type OfCompile = Result<(), (u32, String, String)>;
/// The first answer of [`Task::Compile`]: it can begin, or why it cannot.
pub(super) type Ready = Result<(), String>;

/// What the manager sends is trusted.
const TRUSTED: Longest = Longest {
    message: 1 << 20,
    payload: u64::MAX,
};

/// Does what the manager asks for through the standard input, and ends.
pub fn work() -> ExitCode {
    match try_work() {
        Ok(()) => ExitCode::SUCCESS,
        // The manager sees that it has ended.
        Err(_) => ExitCode::FAILURE,
    }
}

fn try_work() -> std::io::Result<()> {
    let socket = std::io::stdin().as_fd().try_clone_to_owned()?;
    let mut socket = UnixStream::from(socket);
    let (task, _) = wire::read::<Task>(&mut socket, TRUSTED)?;
    end_with_the_manager();
    match task {
        Task::Fence {
            capability,
            code,
            limits,
        } => {
            confine(limits, &socket)?;
            let ((), bytes) = wire::read(&mut socket, TRUSTED)?;
            let (claims, text) = match steps::fenced(&bytes, capability, code) {
                Ok((claims, text)) => (Ok(claims), text),
                Err(error) => (Err(error), String::new()),
            };
            wire::write::<OfFence>(&mut socket, &claims, text.as_bytes())
        }
        Task::Judge { limits } => {
            confine(limits, &socket)?;
            let ((), text) = wire::read(&mut socket, TRUSTED)?;
            wire::write::<OfJudge>(&mut socket, &steps::judged(&text), &[])
        }
        Task::Compile { driver } => compile(&mut socket, driver),
    }
}

/// Ends this process when the manager is gone, which nobody else would do while it
/// computes. (A signal by the system when the parent ends is for the thread that has
/// started this process, which may end before.)
fn end_with_the_manager() {
    let manager = rustix::process::getppid();
    let (started, has_started) = std::sync::mpsc::channel();
    let watch = move || {
        // What a thread begins with takes system calls that are given up then.
        let _ = started.send(());
        while rustix::process::getppid() == manager {
            std::thread::sleep(Duration::from_secs(1));
        }
        std::process::exit(1);
    };
    // Without it, limits of time end the worker.
    let _ = std::thread::Builder::new().spawn(watch);
    let _ = has_started.recv();
}

/// Compiles texts until the manager ends.
fn compile(socket: &mut UnixStream, driver: Option<PathBuf>) -> std::io::Result<()> {
    let context = match device::context_of(&DeviceChoice::Gpu(driver)) {
        Ok(context) => context,
        Err(error) => return wire::write::<Ready>(socket, &Err(error.to_string()), &[]),
    };
    wire::write::<Ready>(socket, &Ok(()), &[])?;
    loop {
        let ((), text) = wire::read(socket, TRUSTED)?;
        let text = CString::new(text).map_err(std::io::Error::other)?;
        let answer = context.compile(&text);
        match &answer {
            Ok(image) => wire::write::<OfCompile>(socket, &Ok(()), image.bytes())?,
            Err(error) => {
                let message = (
                    error.error.code.0,
                    error.error.message.clone(),
                    error.log.clone(),
                );
                wire::write::<OfCompile>(socket, &Err(message), &[])?;
            }
        }
    }
}

/// Gives up what the steps do not need. There is no way back.
fn confine(limits: OwnLimits, socket: &UnixStream) -> std::io::Result<()> {
    let set = |which, limit| {
        let limit = Rlimit {
            current: Some(limit),
            maximum: Some(limit),
        };
        setrlimit(which, limit)
    };
    set(Resource::As, limits.memory)?;
    set(Resource::Core, 0)?;
    set(Resource::Fsize, 0)?;
    // One second more to be killed by SIGXCPU first, which says why.
    let time = Rlimit {
        current: Some(limits.seconds),
        maximum: Some(limits.seconds.saturating_add(1)),
    };
    setrlimit(Resource::Cpu, time)?;
    confine::compiler(socket.as_raw_fd())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::process::Command;

    /// Set in the process that confines itself.
    const CONFINED: &str = "RINGFENCE_TEST_CONFINED";

    #[test]
    fn a_worker_can_compute_and_answer_and_nothing_else() {
        if std::env::var_os(CONFINED).is_none() {
            let name = "compile::worker::tests::a_worker_can_compute_and_answer_and_nothing_else";
            let output = Command::new(std::env::current_exe().unwrap())
                .args(["--exact", name, "--nocapture"])
                .env(CONFINED, "1")
                .output()
                .unwrap();
            let said = String::from_utf8_lossy(&output.stdout).into_owned();
            assert_eq!(output.status.code(), Some(CONFINED_WELL), "{said}");
            return;
        }
        let (mut own, mut theirs) = UnixStream::pair().unwrap();
        theirs.write_all(b"task").unwrap();
        let limits = OwnLimits {
            seconds: 10,
            memory: 1 << 30,
        };
        confine(limits, &own).unwrap();
        let mut task = [0; 4];
        own.read_exact(&mut task).unwrap();
        own.write_all(&[task.to_vec(), vec![0; 1 << 16]].concat())
            .unwrap();
        let refused = |error: std::io::Error, what: &str| {
            assert_eq!(error.raw_os_error(), Some(libc::EPERM), "{what}");
        };
        refused(theirs.write(b"a").unwrap_err(), "another socket");
        refused(theirs.read(&mut task).unwrap_err(), "another socket");
        refused(
            std::fs::File::open("/proc/self/status").unwrap_err(),
            "a file",
        );
        refused(std::fs::read_dir("/").map(drop).unwrap_err(), "a folder");
        refused(UnixStream::pair().map(drop).unwrap_err(), "sockets");
        refused(
            UnixStream::connect("/run/a").map(drop).unwrap_err(),
            "a connection",
        );
        refused(std::fs::remove_file("/a").unwrap_err(), "a name");
        let thread = std::thread::Builder::new().spawn(|| {});
        refused(thread.map(drop).unwrap_err(), "a thread");
        let mut too_much = Vec::<u8>::new();
        assert!(too_much.try_reserve_exact(2 << 30).is_err(), "memory");
        std::process::exit(CONFINED_WELL);
    }

    /// How that process ends if all was as it should be.
    const CONFINED_WELL: i32 = 42;
}
