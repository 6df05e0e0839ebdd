//! `ringfence manager`: owns a device, and runs tenants on it.

use crate::options::{ManagerDevice, ManagerOptions};
use crate::terminal;
use anyhow::{Context, Result};
use manager::{DeviceChoice, Options, Server, StallTime};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// Runs a manager until it is ended.
pub fn manager(options: &ManagerOptions) -> Result<()> {
    load_eagerly()?;
    let device = match options.device.unwrap_or_else(present) {
        ManagerDevice::Gpu => DeviceChoice::Gpu(options.driver.clone()),
        ManagerDevice::Cpu => DeviceChoice::Cpu(options.cpu_threads),
    };
    let socket = options.socket.clone();
    let socket = socket.unwrap_or_else(protocol::default_socket);
    let server = Server::start(&Options {
        socket: socket.clone(),
        device,
        memory_per_tenant: options.memory_per_tenant.0,
        kernel_time: match options.kernel_time {
            0 => None,
            seconds => Some(Duration::from_secs(seconds.into())),
        },
        slices: options.slices.clone(),
        stall_time: match options.stall_time {
            None => StallTime::OfDevice,
            Some(0) => StallTime::Unlimited,
            Some(seconds) => StallTime::Limited(Duration::from_secs(seconds.into())),
        },
    })?;
    terminal::say(&format!(
        "the manager of {} takes tenants at {}",
        server.device_name(),
        socket.display()
    ));
    server.run();
    Ok(())
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
