//! The manager that is attacked.

use super::Isolation;
use super::process::Program;
use super::raw::Raw;
use anyhow::{Context, Result, ensure};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// How long it may take to start.
const LONG: Duration = Duration::from_secs(30);
/// How long it may take to give back what tenants had that are gone.
const GIVEN_BACK: Duration = Duration::from_secs(20);

/// What it says when the process that owns the device is replaced.
const REPLACED: &str = "the process that owned the device has ended";

/// A manager, until this is dropped.
pub struct Manager {
    program: Program,
    folder: TempDir,
}

impl Manager {
    /// Starts one.
    ///
    /// # Errors
    ///
    /// It does not start.
    pub fn start(ringfence: &Path, options: &Isolation) -> Result<Manager> {
        let kernel_time = options.kernel_time().to_string();
        // (Lanes of a warp that wait for each other for ever are ended by the CPU device
        // alone.)
        let waits = if options.is_on_gpu() { "proved" } else { "any" };
        // (A cache of modules that is soon full: what it holds later is no leak.)
        let arguments = [
            "--kernel-time",
            &kernel_time,
            "--waits",
            waits,
            "--compile-cache",
            "16m",
        ];
        Manager::start_with(ringfence, &options.device, &arguments)
    }

    /// Starts one on a device with further options.
    ///
    /// # Errors
    ///
    /// It does not start.
    pub fn start_with(ringfence: &Path, device: &str, options: &[&str]) -> Result<Manager> {
        let folder = tempfile::tempdir()?;
        let mut command = Command::new(ringfence);
        command
            .args(["manager", "--device", device, "--socket"])
            .arg(folder.path().join("manager.sock"))
            .args(options)
            // As under systemd (`deploy/systemd`).
            .env("MALLOC_ARENA_MAX", "1")
            .env("MALLOC_TRIM_THRESHOLD_", "1048576")
            .env("MALLOC_MMAP_THRESHOLD_", "1048576")
            .env_remove("RINGFENCE_OPTIONS");
        let mut program = Program::start(&mut command)?;
        let is_there = program.wait_for(LONG, |program| {
            program.error().contains("takes tenants at") || program.ended().is_some()
        });
        ensure!(
            is_there && program.ended().is_none(),
            "the manager does not start: {}",
            program.error()
        );
        Ok(Manager { program, folder })
    }

    /// Where tenants connect.
    pub fn socket(&self) -> PathBuf {
        self.folder.path().join("manager.sock")
    }

    /// The number of its process, and that of the one that owns the device.
    ///
    /// # Errors
    ///
    /// There is none.
    pub fn processes(&self) -> Result<(u32, u32)> {
        let process = self.program.process();
        let list = std::fs::read_to_string(format!("/proc/{process}/task/{process}/children"));
        let worker = list.context("the manager has ended")?;
        let worker = worker
            .split_whitespace()
            .next()
            .context("no process owns the device")?;
        Ok((process, worker.parse()?))
    }

    /// Ends it, and waits until the process that owned the device is gone, and so what
    /// that had.
    pub fn stop(&mut self) {
        let worker = self.processes().map(|(_, worker)| worker);
        self.program.kill();
        if let Ok(worker) = worker {
            let path = format!("/proc/{worker}");
            let start = Instant::now();
            while Path::new(&path).exists() && start.elapsed() < LONG {
                std::thread::sleep(Duration::from_millis(5));
            }
        }
    }

    /// What it has warned of.
    pub fn warnings(&self) -> Vec<String> {
        let lines = self.program.errors().into_iter();
        lines.filter(|line| line.contains("warning: ")).collect()
    }

    /// A folder that lives as long as the manager.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Why it takes no tenant, if it does not.
    pub fn fault(&mut self) -> Option<String> {
        let start = Instant::now();
        loop {
            if let Some(status) = self.program.ended() {
                return Some(format!(
                    "the manager has ended ({status}): {}",
                    self.program.error()
                ));
            }
            // (A new one takes tenants, but this one's are harmed.)
            let errors = self.program.errors();
            if let Some(line) = errors.iter().find(|line| line.contains(REPLACED)) {
                return Some(line.clone());
            }
            let made = Raw::connect(&self.socket(), 0).and_then(|mut raw| raw.allocate(1 << 20));
            match made {
                Ok(_) => return None,
                Err(error) if start.elapsed() > GIVEN_BACK => {
                    return Some(format!("the manager takes no tenant: {error:#}"));
                }
                // What others had may not be free again yet.
                Err(_) => std::thread::sleep(Duration::from_millis(50)),
            }
        }
    }
}

impl Drop for Manager {
    fn drop(&mut self) {
        self.stop();
    }
}
