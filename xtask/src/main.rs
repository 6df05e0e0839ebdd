//! `cargo xtask STEP`: every step that CI takes, the demo, the GPU bundle and
//! the benches. A step does its own set-up and says what it needs.

use anyhow::Result;
use clap::{Parser, Subcommand};

mod architecture;
mod build;
mod bundle;
mod check;
mod command;
mod demo;
mod demo_tenants;
mod documented;
mod fence_table;
mod foreign;
mod generate;
mod generate_cudart;
mod generate_device;
mod generate_layout;
mod generate_opencl;
mod generate_options;
mod headers;
mod headline;
mod host_table;
mod install;
mod isolation_table;
mod layers;
mod markdown;
mod measure;
mod messages;
mod modules;
mod pages;
mod pages_table;
mod planted_table;
mod readme;
mod setup;
mod shadow_table;
mod sharing_table;
mod site;
mod soak_table;
mod suite_tables;
mod workspace;

#[derive(Parser)]
#[command(bin_name = "cargo xtask", about = "Build, test and measure Ringfence.")]
struct Arguments {
    #[command(subcommand)]
    step: Step,
}

#[derive(Subcommand)]
enum Step {
    /// Installs the pinned CUDA compiler into target/toolchain/cuda.
    #[command(alias = "toolchain")]
    Setup,
    /// Installs PoCL and OpenCL's loader and headers.
    Opencl,
    /// Makes the PTX corpora in target/corpora.
    Corpora,
    /// Regenerates what is generated: from the headers of CUDA and OpenCL, the
    /// sources in `device`, and the tables of settings and exit codes.
    Generate {
        /// Only compare with what is committed.
        #[arg(long)]
        check: bool,
    },
    /// Checks that crates use each other as ARCHITECTURE.md says.
    Layers,
    /// Builds the command, the library and the runtime's forwarding libraries.
    Build,
    /// Builds them and copies them to where a user runs them.
    Install {
        /// The prefix that gets bin, lib and include [default: that of `cargo
        /// install`].
        #[arg(long, value_name = "FOLDER")]
        root: Option<std::path::PathBuf>,
    },
    /// Runs a CUDA program with a planted bug on the CPU device.
    Demo,
    /// Runs every test that this machine can run.
    Test,
    /// What CI runs.
    Ci,
    /// Writes a self-contained folder that runs suite and benches on a GPU.
    GpuBundle,
    /// Builds a checked-out collection of third-party programs and compares
    /// each run under Ringfence with one without: HeCBench, CUDA samples,
    /// Rodinia, PolyBench for GPUs, or a Python package's tests.
    Foreign {
        /// The collection.
        folder: std::path::PathBuf,
        /// Options of `ringfence-suite foreign`.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<std::ffi::OsString>,
    },
    /// Measures what can be measured without a GPU.
    Bench,
    /// Writes the tables of README.md and docs from the committed results.
    Readme {
        /// Only compare with what is committed.
        #[arg(long)]
        check: bool,
    },
    /// Builds README.md and docs as a site, with mdBook.
    Docs,
}

fn main() -> Result<()> {
    match Arguments::parse().step {
        Step::Setup => {
            println!("CUDA compiler: {}", setup::cuda()?.nvcc().display());
            Ok(())
        }
        Step::Opencl => setup::opencl(),
        Step::Corpora => {
            println!("PTX corpora: {}", setup::corpora()?.display());
            Ok(())
        }
        Step::Generate { check } => check::generated(check),
        Step::Layers => layers::check(),
        Step::Build => build::all().map(drop),
        Step::Install { root } => install::run(root),
        Step::Demo => demo::run(),
        Step::Test => check::test(),
        Step::Ci => check::ci(),
        Step::GpuBundle => bundle::write(),
        Step::Foreign { folder, arguments } => foreign::run_collection(&folder, &arguments),
        Step::Bench => measure::run_all(),
        Step::Readme { check } => readme::run(check),
        Step::Docs => site::build(),
    }
}
