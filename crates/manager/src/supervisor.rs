//! The supervisor: has the sockets, and keeps a process that owns the device, the
//! *worker*.
//!
//! The worker holds the context of all tenants and calls a driver. Should it end, by a
//! fault of the driver's or because its context has failed, what tenants had on the
//! device is gone. Each of them has one error then, and a new worker takes those that
//! come. The supervisor itself never touches a device.
//!
//! A worker that executes kernels itself, on the CPU device, gives up what that does not
//! take (`confine`), before tenants come. So it starts no programs, and neither does one
//! that owns a GPU: what compiles for them is started here, on their behalf
//! (`compile::serve`).

use crate::compile::{Allowed, serve};
use crate::confine;
use crate::device::DeviceChoice;
use crate::log;
use crate::options::{Options, StartError, Terms};
use crate::server::Server;
use crate::sockets::Sockets;
use crate::threads::spawn;
use rustix::process::{WaitOptions, wait};
use std::io::{BufRead, BufReader, Error, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::{Command, ExitStatus, Stdio};
use std::time::Duration;

/// New workers that do not come up one after the other, before the supervisor gives up.
const FAILURES: u32 = 5;
/// How long the next one waits after the first of them; twice as long after each.
const PAUSE: Duration = Duration::from_millis(500);
/// How long tenants have to ask, after the device has failed, and to be told so.
const LAST_WORDS: Duration = Duration::from_secs(1);
/// The exit code of a worker whose device has failed.
const LOST: i32 = 75;

/// Why a supervisor ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// The first worker did not come up; it has said why, and ended with this code.
    NotStarted(Option<i32>),
    /// Nor did several that came after one which had run.
    GaveUp,
}

/// Opens the sockets, and keeps a worker, which `command` starts and which calls
/// [`work_for`] with its standard input. `ready` gets the device's name as soon as the
/// first worker takes tenants.
///
/// # Errors
///
/// See [`StartError`].
pub fn supervise(
    options: &Options,
    command: impl Fn() -> Command,
    ready: impl FnOnce(&str),
) -> Result<Ended, StartError> {
    Terms::of(options)?;
    let (sockets, _locks) = Sockets::open(options)?;
    let ended = keep(|name| run(&sockets, options, command(), name), ready, PAUSE);
    ended.map_err(StartError::Worker)
}

/// Keeps a worker, which `run` runs to its end; it tells the device's name once it takes
/// tenants.
fn keep(
    run: impl Fn(&mut dyn FnMut(&str)) -> std::io::Result<ExitStatus>,
    ready: impl FnOnce(&str),
    pause: Duration,
) -> std::io::Result<Ended> {
    let (mut ready, mut failures) = (Some(ready), 0);
    loop {
        let mut is_up = false;
        let status = run(&mut |device| {
            is_up = true;
            match ready.take() {
                Some(ready) => ready(device),
                None => log::line(&format!("a new process owns {device}, and takes tenants")),
            }
        })?;
        if ready.is_some() {
            return Ok(Ended::NotStarted(status.code()));
        }
        failures = if is_up { 0 } else { failures + 1 };
        if failures == FAILURES {
            log::line("error: no process can own the device any more; the manager ends");
            return Ok(Ended::GaveUp);
        }
        log::line(&format!(
            "error: the process that owned the device has ended ({}); what tenants had there is gone, and a new one starts",
            why(status)
        ));
        std::thread::sleep(pause * (1 << failures) / 2);
    }
}

/// Why a worker ended.
fn why(status: ExitStatus) -> String {
    match status.code() {
        Some(LOST) => "the device's context had failed".into(),
        _ => status.to_string(),
    }
}

/// Runs a worker to its end; `ready` gets the device's name once it takes tenants.
fn run(
    sockets: &Sockets,
    options: &Options,
    mut command: Command,
    ready: &mut dyn FnMut(&str),
) -> std::io::Result<ExitStatus> {
    let (own, of_worker) = UnixStream::pair()?;
    let (starting, starter) = UnixStream::pair()?;
    let worker = command.stdin(Stdio::from(OwnedFd::from(of_worker))).spawn();
    // It holds the worker's end, whose closing tells that the worker has ended.
    drop(command);
    let mut worker = worker?;
    let allowed = Allowed {
        worker: &options.worker,
        device: &options.device,
        limits: options.compile,
    };
    let status = std::thread::scope(|scope| {
        // Until the worker is gone, which alone has the other end.
        let serving = std::thread::Builder::new().name("ringfence-starter".into());
        if let Err(error) = serving.spawn_scoped(scope, || serve(&allowed, starting)) {
            let _ = worker.kill();
            let _ = worker.wait();
            return Err(error);
        }
        let is_sent = sockets.send(&own, &starter).is_ok();
        drop(starter);
        let mut name = String::new();
        // (A worker that has ended tells nothing, and takes nothing.)
        if is_sent
            && BufReader::new(&own).read_line(&mut name).is_ok()
            && let Some(name) = name.strip_suffix('\n')
        {
            ready(name);
        }
        worker.wait()
    })?;
    // Its own children are this process's where that is the first one of a container.
    while matches!(wait(WaitOptions::NOHANG), Ok(Some(_))) {}
    Ok(status)
}

/// What a worker does: it owns the device, and runs what tenants ask for, until the
/// device fails or its supervisor is gone. `supervisor` is what its supervisor has
/// given it as standard input.
///
/// # Errors
///
/// See [`StartError`].
pub fn work_for(mut supervisor: UnixStream, options: &Options) -> Result<(), StartError> {
    let is_confined = matches!(options.device, DeviceChoice::Cpu(_));
    if is_confined {
        // While this is the only thread.
        give_up_files(options)?;
    }
    let server = Server::of_supervisor(options, &supervisor)?;
    if is_confined {
        confine::device().map_err(StartError::Confine)?;
    }
    let failure = server.failure();
    spawn("ringfence-failure", move || {
        failure();
        std::thread::sleep(LAST_WORDS);
        std::process::exit(LOST);
    });
    let told = supervisor.write_all(format!("{}\n", server.device_name()).as_bytes());
    told.map_err(StartError::Inherited)?;
    spawn("ringfence-orphan", move || {
        // Nothing comes, ever.
        let _ = supervisor.read(&mut [0]);
        std::process::exit(0);
    });
    server.run();
    Ok(())
}

/// Gives up all files but those of the cache and of slices.
fn give_up_files(options: &Options) -> Result<(), StartError> {
    let mut folders = Vec::new();
    if let Some((folder, limit)) = &options.cache {
        // Made now, as it could not be later.
        cache::Cache::open(folder, *limit)?;
        folders.push(folder.as_path());
    }
    folders.extend(options.slices.as_deref());
    let files = confine::files(&folders).map_err(|error| StartError::Confine(Error::other(error)));
    if !files? {
        log::line(
            "warning: the process that executes kernels keeps the files of this user: the system has no Landlock (Linux 5.13)",
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::Device;
    use driver::sys::CUresult;
    use std::cell::RefCell;
    use std::collections::VecDeque;
    use std::os::unix::process::ExitStatusExt;
    use std::sync::Arc;

    /// What becomes of a manager whose workers come up or not, and end with these codes;
    /// and the devices that it named.
    fn kept(workers: &[(bool, i32)]) -> (Option<Ended>, usize, Vec<String>) {
        let left = RefCell::new(VecDeque::from_iter(workers.iter().copied()));
        let mut named = Vec::new();
        let ended = keep(
            |ready| {
                let (is_up, code) = left
                    .borrow_mut()
                    .pop_front()
                    .ok_or(std::io::ErrorKind::Other)?;
                if is_up {
                    ready("a device");
                }
                Ok(ExitStatus::from_raw(code << 8))
            },
            |device| named.push(device.to_owned()),
            Duration::ZERO,
        );
        let left = left.borrow().len();
        (ended.ok(), left, named)
    }

    #[test]
    fn a_first_worker_that_does_not_come_up_ends_the_manager() {
        let ended = Some(Ended::NotStarted(Some(97)));
        assert_eq!(kept(&[(false, 97), (true, 0)]), (ended, 1, vec![]));
    }

    #[test]
    fn a_worker_that_has_run_is_replaced_and_its_device_named_once() {
        let workers = [(true, 1), (false, 2), (false, 2), (true, LOST), (false, 1)];
        assert_eq!(kept(&workers), (None, 0, vec!["a device".to_owned()]));
    }

    #[test]
    fn several_that_do_not_come_up_are_the_end() {
        let mut workers = vec![(true, 1)];
        workers.extend([(false, 3); FAILURES as usize + 2]);
        let (ended, left, _) = kept(&workers);
        assert_eq!((ended, left), (Some(Ended::GaveUp), 2));
    }

    #[test]
    fn who_waits_for_the_device_to_fail_is_told() {
        let device = Arc::new(Device::open(&DeviceChoice::Cpu(1), None, None).unwrap());
        let waits = std::thread::spawn({
            let device = Arc::clone(&device);
            move || device.wait_until_lost()
        });
        device.notice(CUresult::CUDA_ERROR_INVALID_VALUE, "no fault of the device");
        assert!(!device.is_lost());
        device.notice(CUresult::CUDA_ERROR_ILLEGAL_ADDRESS, "a fault");
        waits.join().unwrap();
    }
}
