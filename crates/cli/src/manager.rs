//! `ringfence manager`: owns a device, and runs tenants on it.

pub mod config;

use anyhow::{Context, Result};
use config::{ManagerDevice, ManagerOptions};
use manager::{DeviceChoice, Ended, Options, Worker};
use model::exit_code;
use sd_notify::NotifyState;
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, ExitCode};

/// Runs a manager until it is ended; its exit code.
pub fn manager(options: ManagerOptions) -> Result<u8> {
    let options = options_of(options)?;
    let socket = options.socket.clone();
    let ended = manager::supervise(&options, device_worker, |device| {
        manager::log_line(&format!(
            "the manager of {device} takes tenants at {}",
            socket.display()
        ));
        // To a service manager, if one has started it.
        if let Err(error) = sd_notify::notify(&[NotifyState::Ready]) {
            manager::log_line(&format!(
                "warning: the service manager cannot be told that it is ready: {error}"
            ));
        }
    })?;
    Ok(match ended {
        // (One that a signal ended has no code.)
        Ended::NotStarted(code) => code
            .and_then(|code| u8::try_from(code).ok())
            .filter(|code| *code != 0)
            .unwrap_or(exit_code::FAILED),
        Ended::GaveUp => exit_code::FAILED,
    })
}

/// Runs the process of a manager that owns the device.
pub fn work(options: ManagerOptions) -> Result<u8> {
    let supervisor = std::io::stdin().as_fd().try_clone_to_owned();
    let supervisor = supervisor.context("the manager's process cannot be reached")?;
    manager::work_for(supervisor.into(), &options_of(options)?)?;
    Ok(0)
}

fn options_of(options: ManagerOptions) -> Result<Options> {
    let options = options.with_file()?;
    manager::set_log_format(options.log_format());
    let device = match options.device.unwrap_or_else(present) {
        ManagerDevice::Gpu => DeviceChoice::Gpu(options.driver.clone()),
        ManagerDevice::Cpu => DeviceChoice::Cpu(options.cpu_threads()),
    };
    let (quota, users) = options.quotas();
    let (compile, cache) = (options.compile(), options.cache());
    let (kernel_time, stall_time) = (options.kernel_time(), options.stall_time());
    let socket = options.socket.unwrap_or_else(protocol::default_socket);
    Ok(Options {
        quota,
        users,
        kernel_time,
        stall_time,
        slices: options.slices.clone(),
        compile,
        cache,
        metrics: options.metrics,
        ..Options::new(socket, device, compile_worker())
    })
}

/// Names of the subcommands by which the manager starts its own executable again.
pub const COMPILE_WORKER: &str = "compile-worker";
pub const DEVICE_WORKER: &str = "device-worker";

/// The own executable, also when its file has been replaced.
const OWN: &str = "/proc/self/exe";

/// The process that owns the device: with this one's options, and drivers told to load
/// kernels with their module. They load each before its first launch otherwise, which
/// waits until no kernel of any tenant runs, and lets no other launch pass (CUDA C++
/// Programming Guide, "Lazy Loading"; H200, driver 580).
fn device_worker() -> Command {
    let mut command = Command::new(OWN);
    let mut arguments = std::env::args_os();
    if let Some(name) = arguments.next() {
        command.arg0(name);
    }
    command
        .arg(DEVICE_WORKER)
        .args(arguments.skip(1))
        .env("CUDA_MODULE_LOADING", "EAGER");
    command
}

/// The processes that compile.
fn compile_worker() -> Worker {
    Worker {
        program: OWN.into(),
        arguments: vec![COMPILE_WORKER.into()],
        environment: Vec::new(),
    }
}

/// A process that compiles for a manager.
pub fn compile() -> ExitCode {
    manager::work()
}

/// The GPU where there is one.
fn present() -> ManagerDevice {
    let has_node = Path::new("/dev/nvidiactl").exists();
    match has_node && driver::gpu::Gpu::is_installed() {
        true => ManagerDevice::Gpu,
        false => ManagerDevice::Cpu,
    }
}
