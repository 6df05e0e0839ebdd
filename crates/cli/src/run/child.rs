//! Starts the program, passes signals on, and waits for it.

use super::library::Environment;
use anyhow::{Context, Result};
use model::Settings;
use rustix::process::{Pid, Signal, kill_process};
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2};
use signal_hook::iterator::SignalsInfo;
use signal_hook::iterator::exfiltrator::origin::WithOrigin;
use signal_hook::low_level::siginfo::Cause;
use std::ffi::OsString;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::Command;

/// How the program ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// It exited with this code.
    Code(u8),
    /// This signal killed it.
    Signal(u8),
}

/// What to start.
pub struct Start<'a> {
    /// The file.
    pub program: &'a Path,
    /// Its name as typed, and its arguments.
    pub arguments: &'a [OsString],
    /// Variables to set.
    pub environment: &'a Environment,
    /// Settings for the library.
    pub settings: &'a Settings,
}

/// This process, and its name as the kernel has it: the program ends with it, also
/// where a signal ends it that cannot be passed on.
fn own_name() -> String {
    // (Without it the program lives on.)
    let name = std::fs::read_to_string("/proc/self/comm").unwrap_or_default();
    format!("{} {}", std::process::id(), name.trim_end())
}

/// Runs the program to its end.
///
/// # Errors
///
/// It cannot be started.
pub fn run(start: &Start<'_>) -> Result<Ended> {
    let settings =
        serde_json::to_string(start.settings).context("the settings cannot be passed on")?;
    // Registered first: a signal that arrives before the program has started is
    // kept.
    let mut signals =
        SignalsInfo::<WithOrigin>::new([SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2])
            .context("signals cannot be handled")?;
    let mut child = Command::new(start.program)
        .arg0(&start.arguments[0])
        .args(&start.arguments[1..])
        .envs(start.environment.iter().map(|(key, value)| (*key, value)))
        .env("RINGFENCE_SETTINGS", settings)
        .env("RINGFENCE_LAUNCHER", own_name())
        .spawn()
        .with_context(|| format!("cannot start {}", start.program.display()))?;
    let handle = signals.handle();
    let pid = Pid::from_child(&child);
    let forwarder = std::thread::spawn(move || {
        for origin in &mut signals {
            // A terminal sends its signals to the program, too.
            let to_all = origin.cause == Cause::Kernel;
            if let Some(signal) = Signal::from_named_raw(origin.signal).filter(|_| !to_all) {
                // It may have ended meanwhile; then the signal is dropped.
                let _ = kill_process(pid, signal);
            }
        }
    });
    let status = child.wait().context("cannot wait for the program");
    handle.close();
    // It ends when the handle is closed, and cannot panic.
    let _ = forwarder.join();
    let status = status?;
    Ok(match (status.code(), status.signal()) {
        (Some(code), _) => Ended::Code(code as u8),
        (None, signal) => Ended::Signal(signal.unwrap_or(0) as u8),
    })
}
