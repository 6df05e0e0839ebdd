//! `ringfence-dra-driver`: hands out a device's memory in clusters with dynamic
//! resource allocation.

use anyhow::{Context, Result, ensure};
use clap::Parser;
use plugin::dra::{self, Access, Options, Sharing, api};
use std::path::PathBuf;
use std::process::ExitCode;

/// Where a pod finds what opens the API server.
const TOKEN: &str = "/var/run/secrets/kubernetes.io/serviceaccount/token";
const AUTHORITY: &str = "/var/run/secrets/kubernetes.io/serviceaccount/ca.crt";

/// Hands out the memory of a manager's device to the claims of a Kubernetes node.
#[derive(Debug, Parser)]
#[command(name = "ringfence-dra-driver", version, args_override_self = true)]
struct Arguments {
    /// The node's name in the cluster [default: the variable NODE_NAME].
    #[arg(long, value_name = "NAME")]
    node: Option<String>,
    /// Bytes of one unit of memory, with k, m or g for powers of 1024; a multiple of
    /// 64m. Each unit is a device, of which a claim has 32 at most.
    #[arg(long, value_name = "BYTES", default_value = "1g", value_parser = bytes)]
    unit: u64,
    /// Bytes of device memory that are handed out [default: fifteen sixteenths of
    /// the device's].
    #[arg(long, value_name = "BYTES", value_parser = bytes)]
    memory: Option<u64>,
    /// Claims name an amount of memory, and not a number of units; the cluster needs
    /// its feature DRAConsumableCapacity.
    #[arg(long)]
    capacity: bool,
    /// The manager's folder of slices, which must have the same path on the host.
    #[arg(long, value_name = "FOLDER", default_value = protocol::SYSTEM_SLICES)]
    slices: PathBuf,
    /// The folder of libringfence.so on the host.
    #[arg(long, value_name = "FOLDER", default_value = container::LIBRARIES)]
    libraries: PathBuf,
    /// The same folder, where this process sees it [default: the same path].
    #[arg(long, value_name = "FOLDER")]
    libraries_here: Option<PathBuf>,
    /// The folder in which the kubelet looks for plugins.
    #[arg(long, value_name = "FOLDER", default_value = api::REGISTRY)]
    registry: PathBuf,
    /// The folder of plugins' own folders, which must have the same path on the
    /// host.
    #[arg(long, value_name = "FOLDER", default_value = api::PLUGINS)]
    plugins: PathBuf,
    /// The folder in which the container runtime looks for devices.
    #[arg(long, value_name = "FOLDER", default_value = "/var/run/cdi")]
    cdi: PathBuf,
    /// The API server [default: the one of the pod that this process is in].
    #[arg(long, value_name = "URL")]
    server: Option<String>,
    /// The file of the token for it.
    #[arg(long, value_name = "FILE", default_value = TOKEN)]
    token: PathBuf,
    /// The file of the authorities for its certificate.
    #[arg(long, value_name = "FILE", default_value = AUTHORITY)]
    authority: PathBuf,
}

fn bytes(text: &str) -> Result<u64, String> {
    let bytes = model::settings::bytes(text).filter(|bytes| *bytes > 0);
    bytes.ok_or_else(|| "expected a number of bytes, with k, m or g for powers of 1024".into())
}

/// The server of the cluster whose pod this process is in.
fn server() -> Result<String> {
    let of = |name| {
        std::env::var(name).with_context(|| {
            format!("--server is not given, and {name} is not set, as it is in a pod")
        })
    };
    let host = of("KUBERNETES_SERVICE_HOST")?;
    let port = of("KUBERNETES_SERVICE_PORT")?;
    Ok(match host.contains(':') {
        true => format!("https://[{host}]:{port}"),
        false => format!("https://{host}:{port}"),
    })
}

fn run(arguments: Arguments) -> Result<()> {
    let headroom = model::layout::fence::HEADROOM;
    ensure!(
        arguments.unit.is_multiple_of(headroom),
        "a unit of {} bytes is no multiple of 64m, in which the manager gives memory; choose another --unit",
        arguments.unit
    );
    let node = match arguments.node {
        Some(node) => node,
        None => std::env::var("NODE_NAME")
            .context("--node is not given, and the variable NODE_NAME is not set")?,
    };
    ensure!(!node.is_empty(), "the name of the node is empty");
    let libraries = arguments.libraries;
    let options = Options {
        node,
        unit: arguments.unit,
        memory: arguments.memory,
        sharing: match arguments.capacity {
            true => Sharing::Capacity,
            false => Sharing::Units,
        },
        slices: arguments.slices,
        libraries_here: arguments
            .libraries_here
            .unwrap_or_else(|| libraries.clone()),
        libraries,
        registry: arguments.registry,
        folder: arguments.plugins.join(dra::DRIVER),
        cdi: arguments.cdi,
        access: Access {
            server: arguments.server.map_or_else(server, Ok)?,
            token: arguments.token,
            authority: arguments.authority,
        },
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("tokio cannot be started")?;
    Ok(runtime.block_on(dra::run(options))?)
}

fn main() -> ExitCode {
    match run(Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("ringfence-dra-driver: error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
