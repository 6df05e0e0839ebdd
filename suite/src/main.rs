//! `ringfence-suite`: builds the detection cases, and runs them.

use anyhow::{Result, ensure};
use clap::{Parser, Subcommand, ValueEnum};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;
use suite::compile::{Linkage, Toolchain};
use suite::{alone, case, compare, compile, foreign, opencl, results, run, tenants};

#[derive(Parser)]
#[command(about = "Detection cases for Ringfence, each with a twin that must stay silent.")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Compiles the cases.
    Build {
        /// Folder with `include` and the groups of cases.
        #[arg(long, default_value = "suite/cases")]
        sources: PathBuf,
        /// Source of the bench kernels, to be run at small sizes as good programs.
        #[arg(long)]
        bench: Option<PathBuf>,
        /// Python environment or folder with the CUDA compiler.
        #[arg(long, default_value = toolchain::FOLDER)]
        toolchain: PathBuf,
        /// Where programs and manifest go.
        #[arg(long)]
        out: PathBuf,
        /// Runtime library of the cases that declare none.
        #[arg(long, default_value = "static")]
        cudart: Linkage,
    },
    /// Compiles the OpenCL cases.
    BuildOpencl {
        /// Folder with `include` and the cases.
        #[arg(long, default_value = "suite/opencl")]
        sources: PathBuf,
        /// Where programs and manifest go.
        #[arg(long)]
        out: PathBuf,
    },
    /// Runs built cases under Ringfence and judges each; as tenants, only the
    /// programs without a bug.
    Run(RunArguments),
    /// Runs built cases alone and under compute-sanitizer.
    Compare {
        /// Folder that `build` wrote.
        #[arg(long)]
        cases: PathBuf,
        /// The compute-sanitizer command.
        #[arg(long, default_value = "compute-sanitizer")]
        sanitizer: PathBuf,
        /// File for the results.
        #[arg(long)]
        json: Option<PathBuf>,
        /// Only cases whose name contains this.
        #[arg(long)]
        filter: Option<String>,
        /// Programs at a time.
        #[arg(long, default_value_t = 8)]
        jobs: usize,
        /// Seconds that one run of one program may take.
        #[arg(long, default_value_t = 60)]
        timeout: u64,
    },
    /// Builds and runs a checked-out collection of CUDA programs, and compares
    /// each with itself without Ringfence.
    Foreign(ForeignArguments),
    /// Lists the cases.
    List {
        /// Folder with the groups of cases.
        #[arg(long, default_value = "suite/cases")]
        sources: PathBuf,
    },
}

#[derive(clap::Args)]
struct ForeignArguments {
    /// The collection; docs/foreign.md says which are known.
    folder: PathBuf,
    /// Its OpenCL programs, where it has others, too.
    #[arg(long)]
    opencl: bool,
    /// Where programs are built, and foreign.jsonl with the results is written.
    #[arg(long)]
    out: PathBuf,
    /// Python environment or folder with the CUDA compiler; the system's nvcc
    /// where there is none.
    #[arg(long, default_value = toolchain::FOLDER)]
    toolchain: PathBuf,
    /// The `ringfence` command.
    #[arg(long)]
    ringfence: PathBuf,
    /// Device to run on.
    #[arg(long)]
    device: Device,
    /// Only programs whose name contains one of these, with commas between.
    #[arg(long, value_delimiter = ',')]
    filter: Vec<String>,
    /// This part of the programs, such as 1/4.
    #[arg(long, default_value = "1/1", value_parser = foreign::parse_shard)]
    shard: (usize, usize),
    /// Programs at a time.
    #[arg(long, default_value_t = 1)]
    jobs: usize,
    /// Seconds that one run of one program may take.
    #[arg(long, default_value_t = 60)]
    limit: u64,
    /// Seconds for everything; what was not begun by then is left for the next
    /// call.
    #[arg(long)]
    budget: Option<u64>,
    /// Only build the programs, and find the size at which each runs.
    #[arg(long)]
    build_only: bool,
    /// Only copy the sources of programs that need nothing else to this folder,
    /// for use on another machine.
    #[arg(long, value_name = "FOLDER")]
    pack: Option<PathBuf>,
    /// Interpreter for a folder that holds a Python package's tests in place of
    /// programs; it must have pytest and the package.
    #[arg(long, default_value = "python3")]
    python: PathBuf,
    /// Measure kernels, of OpenCL programs the whole, in place of comparing, and
    /// write what they cost to this file.
    #[arg(long, value_name = "FILE")]
    times: Option<PathBuf>,
    /// Rounds of measuring.
    #[arg(long, default_value_t = 1)]
    rounds: usize,
    /// Measure with canaries and with the guard, too.
    #[arg(long)]
    also: bool,
    /// Measure kernels under these protections in place of the default ones.
    #[arg(long, value_name = "LIST")]
    protect: Option<String>,
    /// Commit that is measured.
    #[arg(long, default_value = "")]
    commit: String,
    /// Only these variants, with commas between: no-check, default, verify,
    /// prove-off, watch, shadow, shadow-checked, pages, tenant; of OpenCL programs:
    /// default, host-checker, device-checker.
    #[arg(long, value_delimiter = ',')]
    variants: Vec<String>,
    /// How often programs repeat their work at most, where an argument sets it.
    #[arg(long, default_value_t = 2)]
    repeats: u64,
}

#[derive(Clone, Copy, ValueEnum)]
enum Device {
    Cpu,
    Gpu,
}

/// What to run, and where.
#[derive(clap::Args)]
struct RunArguments {
    /// Device to run on.
    #[arg(long)]
    device: RunDevice,
    /// Folder that `build` wrote.
    #[arg(long)]
    cases: PathBuf,
    /// The `ringfence` command.
    #[arg(long)]
    ringfence: PathBuf,
    /// File for the results.
    #[arg(long)]
    json: Option<PathBuf>,
    /// Setting of Ringfence for all cases, KEY=VALUE.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    settings: Vec<String>,
    /// Only cases whose name contains this.
    #[arg(long)]
    filter: Option<String>,
    /// Programs at a time.
    #[arg(long, default_value_t = 2)]
    jobs: usize,
    /// Seconds that one run of one program may take.
    #[arg(long, default_value_t = 60)]
    timeout: u64,
    /// Run the twins with a bug and their good twins under this protection alone, and
    /// count what it finds.
    #[arg(long, value_name = "PROTECTION")]
    alone: Option<String>,
    /// The programs that do not work as tenants.
    #[arg(long, default_value_t = format!("suite/cases/{}", tenants::LIST))]
    not_as_tenants: String,
}

#[derive(Clone, Copy, ValueEnum)]
enum RunDevice {
    Cpu,
    Gpu,
    /// Of a manager of the CPU device.
    Tenant,
}

impl Device {
    fn kind(self) -> model::DeviceKind {
        match self {
            Device::Cpu => model::DeviceKind::Cpu,
            Device::Gpu => model::DeviceKind::Gpu,
        }
    }
}

impl ForeignArguments {
    fn options(self) -> foreign::Options {
        foreign::Options {
            api: match self.opencl {
                true => case::Api::OpenCl,
                false => foreign::collection::api_of(&self.folder),
            },
            folder: self.folder,
            out: self.out,
            toolchain: self.toolchain,
            ringfence: self.ringfence,
            device: self.device.kind(),
            filter: self.filter,
            shard: self.shard,
            jobs: self.jobs,
            limit: Duration::from_secs(self.limit),
            budget: self.budget.map(Duration::from_secs),
            variants: self.variants,
            repeats: self.repeats,
        }
    }
}

fn run_foreign(arguments: ForeignArguments) -> Result<()> {
    let print = |line: &str| println!("{line}");
    let (pack, build_only) = (arguments.pack.clone(), arguments.build_only);
    let json = arguments.times.clone();
    let (rounds, also) = (arguments.rounds, arguments.also);
    let protect = arguments.protect.clone();
    let commit = arguments.commit.clone();
    let python = arguments.python.clone();
    let options = arguments.options();
    if !foreign::python_tests::files(&options.folder)?.is_empty() {
        let compared = foreign::python_tests::run(&options, &python, &print)?;
        for row in &compared.differences {
            println!(
                "{} [{}] {}: {}, not {}",
                row.file, row.variant, row.test, row.under, row.alone
            );
        }
        println!(
            "{} tests, {} differences",
            compared.tests,
            compared.differences.len()
        );
    } else if !foreign::conformance::programs(&options.folder)?.is_empty() {
        let rows = foreign::conformance::run(&options, &print)?;
        println!("{}", foreign::conformance::summary(&rows));
    } else if let Some(pack) = pack {
        let packed = foreign::pack::pack(&options, &pack)?;
        println!(
            "{}: {} programs, {:.1} MiB",
            pack.display(),
            packed.programs,
            packed.bytes as f64 / f64::from(1 << 20)
        );
    } else if build_only {
        let ready = foreign::build_all(&options, &print)?;
        println!("{ready} programs run");
    } else if let Some(json) = json {
        match options.api {
            case::Api::Cuda => {
                let results =
                    foreign::time(&options, rounds, (also, protect.as_deref()), commit, &print)?;
                println!("{:#?}", results.summary);
                results.write(&json)?;
            }
            case::Api::OpenCl => {
                let results = foreign::time_programs(&options, rounds, commit, &print)?;
                println!("{:#?}", results.summary);
                results.write(&json)?;
            }
        }
    } else {
        let rows = foreign::run(&options, &print)?;
        println!("{}", foreign::summary(&rows));
    }
    Ok(())
}

fn run_as_tenants(options: &tenants::Options) -> Result<bool> {
    let (summary, _) = tenants::run(options, &|line| println!("{line}"))?;
    println!(
        "{} programs work as tenants, {} are refused as listed, {} failed",
        summary.work, summary.refused, summary.failed
    );
    Ok(summary.failed == 0)
}

fn main() -> ExitCode {
    match act(Arguments::parse().command) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("ringfence-suite: {error:#}");
            ExitCode::from(2)
        }
    }
}

/// Runs built cases.
fn run_suite(arguments: RunArguments) -> Result<bool> {
    let RunArguments {
        device,
        cases,
        ringfence,
        json,
        settings,
        filter,
        jobs,
        timeout,
        alone,
        not_as_tenants,
    } = arguments;
    let limit = Duration::from_secs(timeout);
    let device = match device {
        RunDevice::Cpu => Device::Cpu,
        RunDevice::Gpu => Device::Gpu,
        RunDevice::Tenant => {
            ensure!(
                settings.is_empty() && json.is_none() && alone.is_none(),
                "--set, --json and --alone do not work with --device tenant; remove them"
            );
            return run_as_tenants(&tenants::Options {
                cases,
                ringfence,
                list: not_as_tenants.into(),
                filter,
                jobs,
                limit,
            });
        }
    };
    let options = run::Options {
        settings,
        device: device.kind(),
        cases,
        ringfence,
        filter,
        jobs,
        limit,
    };
    if let Some(protection) = alone {
        return run_alone(&options, &protection, json.as_deref());
    }
    let results = run::run(&options, &|line| println!("{line}"))?;
    let summary = &results.summary;
    println!(
        "{} of {} bad twins detected, {} false alarms in {} good programs, on {}",
        summary.detected,
        summary.cases,
        summary.false_alarms,
        summary.good,
        results.provenance.device
    );
    if summary.not_runnable > 0 {
        println!("{} cases cannot run here", summary.not_runnable);
    }
    println!("{} passed, {} failed", summary.passed, summary.failed);
    if let Some(json) = json {
        results.write(&json)?;
    }
    Ok(summary.failed == 0)
}

/// Runs built cases under one protection.
fn run_alone(options: &run::Options, protection: &str, json: Option<&Path>) -> Result<bool> {
    let results = alone::run(options, protection, &|line| println!("{line}"))?;
    let summary = &results.summary;
    println!(
        "{protection} alone: findings in {} of {} bad twins, as expected in {}, {} false alarms, {} listed, {} listed in vain, on {}",
        summary.detected,
        summary.cases,
        summary.exact,
        summary.false_alarms,
        summary.listed,
        summary.listed_in_vain,
        results.provenance.device
    );
    if let Some(json) = json {
        results.write(json)?;
    }
    Ok(summary.false_alarms == 0 && summary.listed_in_vain == 0)
}

fn act(command: Command) -> Result<bool> {
    match command {
        Command::Build {
            sources,
            bench,
            toolchain,
            out,
            cudart,
        } => {
            let commit = results::commit(&sources);
            let toolchain = Toolchain::find(&toolchain)?;
            let programs =
                compile::build(&sources, bench.as_deref(), &toolchain, cudart, commit, &out)?;
            println!("{programs} programs in {}", out.display());
            Ok(true)
        }
        Command::BuildOpencl { sources, out } => {
            let commit = results::commit(&sources);
            let programs = opencl::build(&sources, commit, &out)?;
            println!("{programs} programs in {}", out.display());
            Ok(true)
        }
        Command::Run(run) => run_suite(run),
        Command::Compare {
            cases,
            sanitizer,
            json,
            filter,
            jobs,
            timeout,
        } => {
            let options = compare::Options {
                cases,
                sanitizer,
                filter,
                jobs,
                limit: Duration::from_secs(timeout),
            };
            let results = compare::run(&options, &|line| println!("{line}"))?;
            let summary = &results.summary;
            println!(
                "compute-sanitizer found {} of {} bugs, with {} false alarms; the programs alone \
                 showed {}",
                summary.detected, summary.cases, summary.false_alarms, summary.baseline_detected
            );
            if let Some(json) = json {
                results.write(&json)?;
            }
            Ok(true)
        }
        Command::Foreign(arguments) => {
            run_foreign(arguments)?;
            Ok(true)
        }
        Command::List { sources } => {
            for source in case::read_sources(&sources)? {
                println!(
                    "{:<20} {:<34} {:<36} {}",
                    source.category, source.name, source.expect[0].rule, source.bug
                );
            }
            Ok(true)
        }
    }
}
