//! `ringfence manager`: owns a device, and runs tenants on it.

use crate::options::{ManagerDevice, ManagerOptions};
use crate::terminal;
use anyhow::Result;
use manager::{DeviceChoice, Options, Server};
use std::path::Path;

/// Runs a manager until it is ended.
pub fn manager(options: &ManagerOptions) -> Result<()> {
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
    })?;
    terminal::say(&format!(
        "the manager of {} takes tenants at {}",
        server.device_name(),
        socket.display()
    ));
    server.run();
    Ok(())
}

/// The GPU where there is one.
fn present() -> ManagerDevice {
    let has_node = Path::new("/dev/nvidiactl").exists();
    match has_node && driver::gpu::Gpu::is_installed() {
        true => ManagerDevice::Gpu,
        false => ManagerDevice::Cpu,
    }
}
