//! What the process was started with: settings, devices, and the folder in
//! which the command finds what went wrong.

use crate::stderr::say;
use driver::gpu::Gpu;
use model::{DeviceKind, Settings};
use report::session::Event;
use std::io::Write as _;
use std::path::Path;

/// The device that was asked for; else the GPU where there is a driver with
/// a device node, else the CPU. Cheap: constructors ask.
pub fn device_kind(settings: &Settings) -> DeviceKind {
    settings.device.unwrap_or_else(|| {
        let node = ["/dev/nvidiactl", "/dev/dxg"]
            .iter()
            .any(|path| Path::new(path).exists());
        let library = settings.driver.is_some() || Gpu::is_installed();
        if node && library {
            DeviceKind::Gpu
        } else {
            DeviceKind::Cpu
        }
    })
}

/// Settings from the environment.
pub fn settings() -> Result<Settings, String> {
    runtime::settings_from_environment(|name| std::env::var(name).ok())
        .map_err(|error| error.to_string())
}

/// Leaves an error for the command, without a runtime to do it.
pub fn leave_error(settings: &Settings, device: DeviceKind, message: &str) {
    let Some(folder) = &settings.session else {
        return;
    };
    let program = std::env::current_exe()
        .map(|path| path.display().to_string())
        .unwrap_or_default();
    let pid = std::process::id();
    let events = [
        Event::Start {
            pid,
            program,
            device,
            device_name: String::new(),
            driver_version: 0,
        },
        Event::Error {
            message: message.to_owned(),
            fatal: true,
        },
    ];
    let path = folder.join(format!("{pid}.jsonl"));
    let written = std::fs::OpenOptions::new()
        .create(true)
        .append(true)
        .open(&path)
        .and_then(|mut file| {
            for event in &events {
                let line = serde_json::to_string(event).map_err(std::io::Error::other)?;
                writeln!(file, "{line}")?;
            }
            Ok(())
        });
    if let Err(error) = written {
        say(&format!(
            "error: failed to write {}: {error}",
            path.display()
        ));
    }
}
