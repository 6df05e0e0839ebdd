//! Who starts workers: this process, or its supervisor on its behalf. A process that
//! has given up starting programs (`confine`) has the supervisor for it.
//!
//! What asks may have been taken over. So the supervisor starts only what the manager's own options
//! name, no more at a time than they allow, and of tasks that keep their system
//! calls only the one for the manager's own driver.

use super::CompileLimits;
use super::process::{Worker, end, start};
use super::wire::{self, Longest};
use super::worker::Task;
use crate::descriptors;
use crate::device::DeviceChoice;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io::{Error, ErrorKind, Result};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, ExitStatus};
use std::sync::Arc;

/// Who starts workers.
#[derive(Clone)]
pub(crate) enum Starter {
    /// This process.
    Here(Worker),
    /// Its supervisor, at the other end of this socket.
    Supervisor(Arc<Mutex<UnixStream>>),
}

/// A worker that was started.
pub(super) enum Started {
    /// By this process.
    Child(Child),
    /// By its supervisor.
    Other {
        pid: u32,
        supervisor: Arc<Mutex<UnixStream>>,
    },
}

/// What a supervisor is asked for.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
enum Request {
    /// A worker for a task.
    Start(Task),
    /// How the worker with this process number has ended.
    Status(u32),
    /// The end of this worker.
    End(u32),
}

/// The answer: a process number, behind which its socket follows; a status of
/// `waitpid`, if it has ended; nothing. Else the number of an error.
type Reply = std::result::Result<Option<i32>, i32>;

/// Bytes of a request and of an answer; a task may name a driver's file.
const LONGEST: Longest = Longest {
    message: 8 << 10,
    payload: 0,
};

/// Workers beyond those that compile at a time: the driver's compiler, and one that
/// has been ended.
const MORE: usize = 2;

impl Starter {
    /// One at a socket whose other end a supervisor [serves](serve).
    pub(crate) fn of_supervisor(socket: UnixStream) -> Starter {
        Starter::Supervisor(Arc::new(Mutex::new(socket)))
    }

    /// Starts a worker for a task; the worker and its socket.
    pub(super) fn start(&self, task: &Task) -> Result<(Started, UnixStream)> {
        match self {
            Starter::Here(worker) => {
                let (child, socket) = start(worker, task)?;
                Ok((Started::Child(child), socket))
            }
            Starter::Supervisor(supervisor) => {
                let mut line = supervisor.lock();
                let pid = ask(&mut line, &Request::Start(task.clone()))?;
                let socket = descriptors::receive(&line)?.pop();
                drop(line);
                let (Some(pid), Some(socket)) = (pid, socket) else {
                    return Err(ErrorKind::InvalidData.into());
                };
                let started = Started::Other {
                    pid: pid.cast_unsigned(),
                    supervisor: Arc::clone(supervisor),
                };
                Ok((started, socket.into()))
            }
        }
    }
}

impl Started {
    /// Its process number.
    pub(super) fn id(&self) -> u32 {
        match self {
            Started::Child(child) => child.id(),
            Started::Other { pid, .. } => *pid,
        }
    }

    /// How it has ended, if it has.
    pub(super) fn status(&mut self) -> Result<Option<ExitStatus>> {
        match self {
            Started::Child(child) => child.try_wait(),
            Started::Other { pid, supervisor } => {
                let status = ask(&mut supervisor.lock(), &Request::Status(*pid))?;
                Ok(status.map(ExitStatus::from_raw))
            }
        }
    }
}

impl Drop for Started {
    /// Ends it.
    fn drop(&mut self) {
        // It may have ended, or the supervisor, with which all of its workers go.
        match self {
            Started::Child(child) => end(child),
            Started::Other { pid, supervisor } => {
                let _ = ask(&mut supervisor.lock(), &Request::End(*pid));
            }
        }
    }
}

fn ask(line: &mut UnixStream, request: &Request) -> Result<Option<i32>> {
    wire::write(line, request, &[])?;
    let (reply, _) = wire::read::<Reply>(line, LONGEST)?;
    reply.map_err(Error::from_raw_os_error)
}

/// What a supervisor starts for the process that owns the device.
pub(crate) struct Allowed<'o> {
    pub(crate) worker: &'o Worker,
    pub(crate) device: &'o DeviceChoice,
    pub(crate) limits: CompileLimits,
}

impl Allowed<'_> {
    fn task(&self, task: &Task) -> bool {
        match (task, self.device) {
            (Task::Fence { .. } | Task::Judge { .. }, _) => true,
            (Task::Compile { driver }, DeviceChoice::Gpu(own)) => driver == own,
            (Task::Compile { .. }, DeviceChoice::Cpu(_)) => false,
        }
    }
}

/// Does what the other end asks for, until it is gone; then the workers go, too.
pub(crate) fn serve(allowed: &Allowed<'_>, mut line: UnixStream) {
    let mut running = BTreeMap::new();
    // (Else the other end is closed, or what came is no request.)
    while let Ok((request, _)) = wire::read::<Request>(&mut line, LONGEST) {
        if answer(allowed, &mut line, &mut running, &request).is_err() {
            break;
        }
    }
    running.values_mut().for_each(end);
}

fn answer(
    allowed: &Allowed<'_>,
    line: &mut UnixStream,
    running: &mut BTreeMap<u32, Child>,
    request: &Request,
) -> Result<()> {
    let mut socket = None;
    let reply = match request {
        Request::Start(task) => {
            let has_room = running.len() < allowed.limits.at_a_time + MORE;
            let started = match (allowed.task(task), has_room) {
                (false, _) => Err(Error::from_raw_os_error(libc::EPERM)),
                (true, false) => Err(Error::from_raw_os_error(libc::EAGAIN)),
                (true, true) => start(allowed.worker, task),
            };
            started.map(|(child, own)| {
                let pid = child.id();
                socket = Some(own);
                running.insert(pid, child);
                Some(pid.cast_signed())
            })
        }
        Request::Status(pid) => match running.get_mut(pid) {
            Some(child) => child.try_wait().map(|status| status.map(|s| s.into_raw())),
            None => Err(Error::from_raw_os_error(libc::ESRCH)),
        },
        Request::End(pid) => match running.remove(pid) {
            Some(mut child) => {
                end(&mut child);
                Ok(None)
            }
            None => Err(Error::from_raw_os_error(libc::ESRCH)),
        },
    };
    let reply: Reply = reply.map_err(|error| error.raw_os_error().unwrap_or(libc::EIO));
    wire::write(line, &reply, &[])?;
    match socket {
        Some(socket) => descriptors::send(line, &[socket.as_fd()]),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::super::worker::OwnLimits;
    use super::*;
    use std::io::Read;
    use std::path::Path;
    use std::time::{Duration, Instant};

    const JUDGE: Task = Task::Judge {
        limits: OwnLimits {
            seconds: 1,
            memory: 1,
        },
    };

    /// Runs `work` beside a supervisor of a device, whose workers run a program.
    fn with(program: &str, device: &DeviceChoice, work: impl FnOnce(Starter)) {
        let (own, theirs) = UnixStream::pair().unwrap();
        let (name, argument) = program.split_once(' ').unwrap();
        let worker = Worker {
            program: name.into(),
            arguments: vec![argument.into()],
            environment: Vec::new(),
        };
        let allowed = Allowed {
            worker: &worker,
            device,
            limits: CompileLimits {
                at_a_time: 1,
                ..CompileLimits::default()
            },
        };
        std::thread::scope(|scope| {
            scope.spawn(|| serve(&allowed, own));
            work(Starter::of_supervisor(theirs));
        });
    }

    fn runs(pid: u32) -> bool {
        Path::new(&format!("/proc/{pid}")).exists()
    }

    /// Number of the error with which a worker is not started.
    fn refused(starter: &Starter, task: &Task) -> Option<i32> {
        starter.start(task).map(drop).unwrap_err().raw_os_error()
    }

    #[test]
    fn a_supervisor_says_how_a_worker_has_ended() {
        with("/bin/cat -", &DeviceChoice::Cpu(1), |starter| {
            let (mut started, socket) = starter.start(&JUDGE).unwrap();
            assert_eq!(started.status().unwrap(), None);
            assert!(runs(started.id()));
            // Its input is at an end when nobody has the other end.
            drop(socket);
            let start = Instant::now();
            let status = loop {
                if let Some(status) = started.status().unwrap() {
                    break status;
                }
                assert!(start.elapsed() < Duration::from_secs(20));
                std::thread::sleep(Duration::from_millis(1));
            };
            assert_eq!(status.code(), Some(0));
        });
    }

    #[test]
    fn a_worker_that_is_dropped_is_ended() {
        with("/bin/sleep 60", &DeviceChoice::Cpu(1), |starter| {
            let (started, mut socket) = starter.start(&JUDGE).unwrap();
            let pid = started.id();
            drop(started);
            assert!(!runs(pid));
            // (The task is unread, which may be told.)
            let mut bytes = Vec::new();
            let _ = socket.read_to_end(&mut bytes);
            assert!(bytes.is_empty());
        });
    }

    #[test]
    fn no_more_are_started_than_are_allowed_and_all_end_with_the_line() {
        let mut pids = Vec::new();
        with("/bin/sleep 60", &DeviceChoice::Cpu(1), |starter| {
            let mut started: Vec<_> = (0..=MORE)
                .map(|_| starter.start(&JUDGE).unwrap().0)
                .collect();
            assert_eq!(refused(&starter, &JUDGE), Some(libc::EAGAIN));
            started.pop();
            started.push(starter.start(&JUDGE).unwrap().0);
            pids.extend(started.iter().map(Started::id));
            // As in a process that was killed: nothing is dropped.
            let Starter::Supervisor(line) = &starter else {
                unreachable!()
            };
            line.lock().shutdown(std::net::Shutdown::Both).unwrap();
        });
        assert!(!pids.is_empty() && !pids.into_iter().any(runs));
    }

    #[test]
    fn a_driver_that_the_options_do_not_name_is_not_started() {
        let compile = |driver: Option<&str>| Task::Compile {
            driver: driver.map(Into::into),
        };
        with("/bin/sleep 60", &DeviceChoice::Cpu(1), |starter| {
            assert_eq!(refused(&starter, &compile(None)), Some(libc::EPERM));
        });
        let gpu = DeviceChoice::Gpu(Some("/own".into()));
        with("/bin/sleep 60", &gpu, |starter| {
            assert_eq!(refused(&starter, &compile(None)), Some(libc::EPERM));
            let other = compile(Some("/tmp/other"));
            assert_eq!(refused(&starter, &other), Some(libc::EPERM));
            starter.start(&compile(Some("/own"))).unwrap();
        });
    }

    #[test]
    fn a_worker_that_cannot_be_started_is_an_error() {
        with("/no/such/program -", &DeviceChoice::Cpu(1), |starter| {
            assert_eq!(refused(&starter, &JUDGE), Some(libc::ENOENT));
        });
    }
}
