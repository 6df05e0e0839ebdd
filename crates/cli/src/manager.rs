//! `ringfence manager`: owns a device, and runs tenants on it.

pub mod config;

use anyhow::{Context, Result};
use config::{ManagerDevice, ManagerOptions};
use manager::{DeviceChoice, Options, Server, Worker};
use sd_notify::NotifyState;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, ExitCode};

/// Runs a manager until it is ended.
pub fn manager(options: ManagerOptions) -> Result<()> {
    load_eagerly()?;
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
    let server = Server::start(&Options {
        quota,
        users,
        kernel_time,
        stall_time,
        slices: options.slices.clone(),
        compile,
        cache,
        metrics: options.metrics,
        ..Options::new(socket.clone(), device, own_worker())
    })?;
    manager::log_line(&format!(
        "the manager of {} takes tenants at {}",
        server.device_name(),
        socket.display()
    ));
    // To a service manager, if one has started it.
    if let Err(error) = sd_notify::notify(&[NotifyState::Ready]) {
        manager::log_line(&format!(
            "warning: the service manager cannot be told that it is ready: {error}"
        ));
    }
    server.run();
    Ok(())
}

/// Name of the subcommand by which the manager starts its own executable again.
pub const WORKER: &str = "compile-worker";

/// The manager's own executable, also when its file has been replaced.
fn own_worker() -> Worker {
    Worker {
        program: "/proc/self/exe".into(),
        arguments: vec![WORKER.into()],
        environment: Vec::new(),
    }
}

/// A worker of a manager.
pub fn worker() -> ExitCode {
    manager::work()
}

/// Starts again with drivers told to load kernels with their module. They load
/// each before its first launch otherwise, which waits until no kernel of any
/// tenant runs, and lets no other launch pass (CUDA C++ Programming Guide, "Lazy
/// Loading"; H200, driver 580).
fn load_eagerly() -> Result<()> {
    let (variable, eager) = ("CUDA_MODULE_LOADING", "EAGER");
    if std::env::var_os(variable).is_some_and(|value| value == eager) {
        return Ok(());
    }
    let own = std::env::current_exe().context("the manager cannot be started again")?;
    let mut arguments = std::env::args_os();
    let mut again = Command::new(own);
    if let Some(name) = arguments.next() {
        again.arg0(name);
    }
    // It returns only if it fails.
    Err(again.args(arguments).env(variable, eager).exec())
        .context("the manager cannot be started again")
}

/// The GPU where there is one.
fn present() -> ManagerDevice {
    let has_node = Path::new("/dev/nvidiactl").exists();
    match has_node && driver::gpu::Gpu::is_installed() {
        true => ManagerDevice::Gpu,
        false => ManagerDevice::Cpu,
    }
}
