//! What can be typed. Names follow compute-sanitizer where both have the
//! thing. Every option of `run` ends in `model::Settings`, over what
//! `RINGFENCE_OPTIONS` says.

use clap::{Args, Parser, Subcommand, ValueEnum};
use model::{DeviceKind, LeakCheck, Settings, SettingsError};
use std::ffi::OsString;
use std::path::PathBuf;

/// Finds memory errors in unmodified CUDA and OpenCL programs.
#[derive(Debug, Parser)]
#[command(name = "ringfence", version, after_help = EXIT_CODES)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

const EXIT_CODES: &str = "Exit codes of `run`: the program's own if all is well; 98 findings (--error-exitcode \
overrides); 97 nothing was checked; 96 Ringfence failed; 128+N the program was killed by signal N.\n\
Options can also be given as RINGFENCE_OPTIONS=name=value:name=value; the command line wins.";

/// The subcommands.
#[derive(Debug, Subcommand)]
#[allow(
    clippy::large_enum_variant,
    reason = "one value in the life of the process"
)]
pub enum Command {
    /// Run a program and report its memory errors.
    Run(RunOptions),
    /// Add checks to a PTX file.
    Instrument(InstrumentOptions),
    /// Show the kernels of a program, library, cubin, fat binary or PTX file.
    Inspect(InspectOptions),
    /// Explain a rule, or list all rules.
    Explain {
        /// The rule's id, such as global-out-of-bounds-write; or `suppressions` for the form of that file.
        rule: Option<String>,
    },
}

/// Options of `ringfence run`.
#[derive(Debug, Default, Args)]
pub struct RunOptions {
    /// Exit code when there are findings [default: 98]; 0 passes the program's own on.
    #[arg(long, value_name = "CODE")]
    pub error_exitcode: Option<u8>,
    /// Findings shown as text at most; the rest is counted [default: 100].
    #[arg(long, value_name = "N")]
    pub print_limit: Option<u32>,
    /// File for the text report instead of stderr. %p is the process id, %q{VAR} an environment variable.
    #[arg(long, value_name = "FILE")]
    pub log_file: Option<String>,
    /// File for the JSON report.
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// File for the report as SARIF 2.1.0, for code scanning.
    #[arg(long, value_name = "FILE")]
    pub sarif: Option<PathBuf>,
    /// File for the report as JUnit XML, for continuous integration.
    #[arg(long, value_name = "FILE")]
    pub junit: Option<PathBuf>,
    /// File for the time that each kernel takes on the device, as JSON (`docs/time-kernels.md`); with --no-check,
    /// the program's own times.
    #[arg(long, value_name = "FILE")]
    pub time_kernels: Option<PathBuf>,
    /// File of known findings, which are counted only; `ringfence explain suppressions` shows its form.
    #[arg(long, value_name = "FILE")]
    pub suppressions: Option<PathBuf>,
    /// Print an entry for such a file after each finding.
    #[arg(long)]
    pub gen_suppressions: bool,
    /// Check only kernels whose mangled or demangled name contains this.
    #[arg(long, value_name = "TEXT")]
    pub kernel_name: Option<String>,
    /// Do not check kernels whose name contains this.
    #[arg(long, value_name = "TEXT")]
    pub kernel_name_exclude: Option<String>,
    /// Launches to let pass before checking.
    #[arg(long, value_name = "N")]
    pub launch_skip: Option<u64>,
    /// Launches to check after that; 0 is all.
    #[arg(long, value_name = "N")]
    pub launch_count: Option<u64>,
    /// Host frames shown per call stack [default: 16]; 0 takes none.
    #[arg(long, value_name = "N")]
    pub num_callers_host: Option<u32>,
    /// Launches of each kernel whose call stack is kept [default: 32].
    #[arg(long, value_name = "N")]
    pub launch_backtraces: Option<u32>,
    /// The real GPU, or the CPU device that executes PTX [default: the GPU where there is one].
    #[arg(long, value_enum)]
    pub device: Option<Device>,
    /// Path of the real libcuda.so.1.
    #[arg(long, value_name = "FILE")]
    pub driver: Option<PathBuf>,
    /// Seed of the CPU device's warp schedule and of canaries; without one,
    /// canaries are others in each run.
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
    /// Threads of the CPU device [default: one a core].
    #[arg(long, value_name = "N")]
    pub cpu_threads: Option<u32>,
    /// Kernels of the CPU device may access all memory of the program, as on GPUs with pageable memory access (ATS,
    /// HMM): on or off [default: off].
    #[arg(long, value_name = "ON|OFF")]
    pub cpu_pageable: Option<String>,
    /// Bytes of freed memory kept from reuse, so that stale pointers are found; k, m and g count in 1024s
    /// [default: 256m]; 0 keeps none.
    #[arg(long, value_name = "BYTES")]
    pub quarantine_size: Option<String>,
    /// Report memory that was never freed: full or no [default: no].
    #[arg(long, value_name = "WHICH")]
    pub leak_check: Option<String>,
    /// What happens to bad copies, sets and frees by the host: refuse them, pass them on, or off [default: refuse].
    #[arg(long, value_name = "WHAT")]
    pub api_errors: Option<String>,
    /// Launches that are shown to be in bounds run without checks: on, off, or verify (check them all the same) [default: on].
    #[arg(long, value_name = "WHEN")]
    pub prove: Option<String>,
    /// Protections, with a comma between: bounds (CUDA), canary (CUDA and OpenCL), watch (CUDA: canaries are looked at while kernels run) [default: bounds,canary].
    #[arg(long, value_name = "LIST")]
    pub protect: Option<String>,
    /// Bytes of canary on either side of a buffer, at least [default: 4k].
    #[arg(long, value_name = "BYTES")]
    pub canary_size: Option<String>,
    /// Milliseconds that the guard of `--protect watch` stays on the device at a time [default: 250].
    #[arg(long, value_name = "MILLISECONDS")]
    pub watch_slice: Option<String>,
    /// What canaries hold: random bytes, or one byte such as 0xC2 [default: random].
    #[arg(long, value_name = "PATTERN")]
    pub canary_pattern: Option<String>,
    /// Percent of the time that CUDA kernels run which verifying canaries between them may take; 100: after every
    /// kernel [default: 1].
    #[arg(long, value_name = "PERCENT")]
    pub canary_budget: Option<String>,
    /// Canaries before CUDA buffers, too, whose addresses are then not the driver's: on or off [default: on].
    #[arg(long, value_name = "WHETHER")]
    pub canary_head: Option<String>,
    /// Who verifies canaries in OpenCL programs: host, device (a kernel), or auto, which measures both
    /// [default: auto].
    #[arg(long, value_name = "WHO")]
    pub canary_checker: Option<String>,
    /// End the program at the first finding.
    #[arg(long)]
    pub halt_on_error: bool,
    /// Stop a kernel where a thread first fails a check, before the access: a debugger shows the line, and without
    /// one the launch fails.
    #[arg(long)]
    pub trap: bool,
    /// Hold only some accesses to their bounds: a list of global, shared, local, constant, parameter and fields
    /// [default: all].
    #[arg(long, value_name = "LIST")]
    pub check_only: Option<String>,
    /// Run the program under the library without checking anything.
    #[arg(long)]
    pub no_check: bool,
    /// The program and its arguments.
    #[arg(
        required = true,
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "PROGRAM"
    )]
    pub program: Vec<OsString>,
}

/// Values of `--device`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Device {
    /// The real driver.
    Gpu,
    /// The CPU device.
    Cpu,
}

/// Options of `ringfence instrument`.
#[derive(Debug, Args)]
pub struct InstrumentOptions {
    /// The PTX to instrument.
    pub input: PathBuf,
    /// Where the result goes.
    #[arg(short, long, value_name = "FILE")]
    pub output: PathBuf,
    /// Also write the access sites and kernels as JSON.
    #[arg(long, value_name = "FILE")]
    pub sites: Option<PathBuf>,
}

/// Options of `ringfence inspect`.
#[derive(Debug, Args)]
pub struct InspectOptions {
    /// Program, shared library, cubin, fat binary or PTX.
    pub file: PathBuf,
    /// Machine-readable.
    #[arg(long)]
    pub json: bool,
}

impl RunOptions {
    /// The settings of the run: defaults, then `RINGFENCE_OPTIONS`, then the
    /// command line.
    ///
    /// # Errors
    ///
    /// `RINGFENCE_OPTIONS` cannot be read.
    pub fn settings(&self, environment: Option<&str>) -> Result<Settings, SettingsError> {
        let mut settings = Settings::default();
        if let Some(text) = environment {
            settings.apply_options(text)?;
        }
        fn over<T: Clone>(setting: &mut T, option: Option<&T>) {
            if let Some(value) = option {
                setting.clone_from(value);
            }
        }
        over(&mut settings.print_limit, self.print_limit.as_ref());
        over(&mut settings.launch_skip, self.launch_skip.as_ref());
        over(&mut settings.launch_count, self.launch_count.as_ref());
        over(
            &mut settings.num_callers_host,
            self.num_callers_host.as_ref(),
        );
        over(
            &mut settings.launch_backtraces,
            self.launch_backtraces.as_ref(),
        );
        over(&mut settings.seed, self.seed.as_ref());
        over(&mut settings.cpu_threads, self.cpu_threads.as_ref());
        settings.error_exitcode = self.error_exitcode.or(settings.error_exitcode);
        settings.log_file = self.log_file.clone().or(settings.log_file);
        settings.json = self.json.clone().or(settings.json);
        settings.sarif = self.sarif.clone().or(settings.sarif);
        settings.junit = self.junit.clone().or(settings.junit);
        settings.suppressions = self.suppressions.clone().or(settings.suppressions);
        settings.time_kernels = self.time_kernels.clone().or(settings.time_kernels);
        settings.gen_suppressions |= self.gen_suppressions;
        settings.halt_on_error |= self.halt_on_error;
        settings.trap |= self.trap;
        settings.kernel_name = self.kernel_name.clone().or(settings.kernel_name);
        settings.kernel_name_exclude = self
            .kernel_name_exclude
            .clone()
            .or(settings.kernel_name_exclude);
        settings.driver = self.driver.clone().or(settings.driver);
        let device = self.device.map(|device| match device {
            Device::Gpu => DeviceKind::Gpu,
            Device::Cpu => DeviceKind::Cpu,
        });
        settings.device = device.or(settings.device);
        settings.check &= !self.no_check;
        let spelled = [
            ("cpu-pageable", &self.cpu_pageable),
            ("quarantine-size", &self.quarantine_size),
            ("leak-check", &self.leak_check),
            ("api-errors", &self.api_errors),
            ("prove", &self.prove),
            ("protect", &self.protect),
            ("canary-size", &self.canary_size),
            ("watch-slice", &self.watch_slice),
            ("canary-pattern", &self.canary_pattern),
            ("canary-budget", &self.canary_budget),
            ("canary-head", &self.canary_head),
            ("canary-checker", &self.canary_checker),
            ("check-only", &self.check_only),
        ];
        for (name, value) in spelled {
            if let Some(value) = value {
                settings.set(name, value)?;
            }
        }
        // Frees are followed only where something is checked: every
        // allocation would be a leak.
        if !settings.check && settings.leak_check != LeakCheck::No {
            return Err(SettingsError {
                setting: "leak-check=full".into(),
                help: "leaks are found only with checking on; leave --no-check away".into(),
            });
        }
        Ok(settings)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_well_formed() {
        Cli::command().debug_assert();
    }

    #[test]
    fn leaks_are_not_looked_for_without_checks() {
        let parsed = Cli::try_parse_from(["ringfence", "run", "--no-check", "./app"]);
        let Command::Run(options) = parsed.unwrap().command else {
            panic!("expected `run`");
        };
        assert!(options.settings(None).is_ok());
        let error = options.settings(Some("leak-check=full")).unwrap_err();
        assert!(error.to_string().contains("--no-check"), "{error}");
    }

    #[test]
    fn the_command_line_wins_over_the_environment() {
        let parsed = Cli::try_parse_from([
            "ringfence",
            "run",
            "--seed",
            "2",
            "--device",
            "cpu",
            "./app",
            "--seed",
            "3",
        ]);
        let Command::Run(options) = parsed.unwrap().command else {
            panic!("not run")
        };
        assert_eq!(options.program, ["./app", "--seed", "3"]);
        let settings = options
            .settings(Some("seed=9:device=gpu:print-limit=5"))
            .unwrap();
        assert_eq!(
            (settings.seed, settings.device, settings.print_limit),
            (2, Some(DeviceKind::Cpu), 5)
        );
        assert!(options.settings(Some("sed=9")).is_err());
    }

    #[test]
    fn options_of_a_settings_own_spelling_are_read_by_it() {
        let settings = |value: &str| {
            let parsed =
                Cli::try_parse_from(["ringfence", "run", "--quarantine-size", value, "./app"]);
            let Command::Run(options) = parsed.unwrap().command else {
                panic!("not run")
            };
            options.settings(None)
        };
        assert_eq!(settings("64k").unwrap().quarantine_size, 64 << 10);
        assert!(settings("much").is_err());
    }

    #[test]
    fn every_setting_has_an_option_of_its_name() {
        let command = Cli::command();
        let run = command.find_subcommand("run").unwrap();
        let longs: Vec<&str> = run
            .get_arguments()
            .filter_map(|argument| argument.get_long())
            .collect();
        for name in model::SETTING_NAMES {
            let option = if *name == "check" { "no-check" } else { name };
            assert!(longs.contains(&option), "--{option} is missing");
        }
    }
}
