//! `ringfence-device-plugin`: hands out a device's memory in Kubernetes.

use anyhow::{Context, Result, ensure};
use clap::Parser;
use plugin::{Options, Plugin, api};
use std::path::PathBuf;
use std::process::ExitCode;

/// Hands out the memory of a manager's device to containers of a Kubernetes node.
#[derive(Debug, Parser)]
#[command(name = "ringfence-device-plugin", version)]
struct Arguments {
    /// The resource that containers ask for.
    #[arg(long, value_name = "NAME", default_value = "ringfence.dev/gpu-memory")]
    resource: String,
    /// Bytes of one unit of it, with k, m or g for powers of 1024; a multiple of
    /// 64m.
    #[arg(long, value_name = "BYTES", default_value = "1g", value_parser = bytes)]
    unit: u64,
    /// Bytes of device memory that are handed out [default: fifteen sixteenths of
    /// the device's].
    #[arg(long, value_name = "BYTES", value_parser = bytes)]
    memory: Option<u64>,
    /// The manager's folder of slices, which must have the same path on the host.
    #[arg(long, value_name = "FOLDER", default_value = protocol::SYSTEM_SLICES)]
    slices: PathBuf,
    /// The folder of libringfence.so on the host.
    #[arg(long, value_name = "FOLDER", default_value = container::LIBRARIES)]
    libraries: PathBuf,
    /// The same folder, where this process sees it [default: the same path].
    #[arg(long, value_name = "FOLDER")]
    libraries_here: Option<PathBuf>,
    /// The folder of the kubelet's socket.
    #[arg(long, value_name = "FOLDER", default_value = api::FOLDER)]
    kubelet: PathBuf,
}

fn bytes(text: &str) -> Result<u64, String> {
    let bytes = model::settings::bytes(text).filter(|bytes| *bytes > 0);
    bytes.ok_or_else(|| "expected a number of bytes, with k, m or g for powers of 1024".into())
}

fn run(arguments: Arguments) -> Result<()> {
    ensure!(
        arguments
            .unit
            .is_multiple_of(model::layout::fence::HEADROOM),
        "a unit of {} bytes is no multiple of 64m, in which the manager gives memory; choose another --unit",
        arguments.unit
    );
    let libraries = arguments.libraries;
    let plugin = Plugin::new(Options {
        resource: arguments.resource,
        unit: arguments.unit,
        memory: arguments.memory,
        slices: arguments.slices,
        libraries_here: arguments
            .libraries_here
            .unwrap_or_else(|| libraries.clone()),
        libraries,
        folder: arguments.kubelet,
    });
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("tokio cannot be started")?;
    Ok(runtime.block_on(plugin::run(plugin))?)
}

fn main() -> ExitCode {
    match run(Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("ringfence-device-plugin: error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
