//! The command line. Options have compute-sanitizer's names where both tools
//! have them. Every option of `run` sets a field of `model::Settings` and
//! overrides `RINGFENCE_OPTIONS`.

use crate::manager::config::ManagerOptions;
use clap::{Arg, ArgAction, ArgMatches, Args, FromArgMatches, Parser, Subcommand, ValueEnum};
use model::exit_code::{EXIT_CODES, SIGNAL};
use model::layout::shadow::Encoding;
use model::settings::{CommandOption, SECTIONS, Setting};
use model::{LeakCheck, Settings, SettingsError};
use std::ffi::OsString;
use std::fmt::Write as _;
use std::path::PathBuf;

/// Finds memory errors in unmodified CUDA and OpenCL programs.
#[derive(Debug, Parser)]
#[command(name = "ringfence", version, after_help = after_help())]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

fn after_help() -> String {
    let mut text = "Exit codes of `run`: the program's own, or\n".to_owned();
    for exit in EXIT_CODES {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "  {:5} {}", exit.code, exit.meaning);
    }
    let _ = writeln!(text, "  {SIGNAL}+N Signal N killed the program.");
    text + "Settings can also be given as RINGFENCE_OPTIONS=name=value:name=value; the command line wins."
}

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
    /// Own a device, and run programs on it that do not trust each other.
    Manager(Box<ManagerOptions>),
    /// Show who is on a manager's device.
    Tenants(TenantsOptions),
    /// Make, end and show slices of a manager's device, for containers and jobs.
    Slice(SliceOptions),
    /// Write a specification by which podman and docker give containers slices.
    Cdi(CdiOptions),
    /// The process of a manager that owns the device.
    #[command(name = crate::manager::DEVICE_WORKER, hide = true)]
    DeviceWorker(Box<ManagerOptions>),
    /// A process of a manager that compiles for it.
    #[command(name = crate::manager::COMPILE_WORKER, hide = true)]
    CompileWorker,
    /// Explain a rule, or list all rules.
    Explain {
        /// The rule's id, such as global-out-of-bounds-write; or `suppressions` for the form of that file.
        rule: Option<String>,
    },
}

/// Options of `ringfence run`: one for each of [`model::settings::SECTIONS`].
#[derive(Debug, Default)]
pub struct RunOptions {
    /// The settings that were given, with their values as text.
    given: Vec<(&'static Setting, String)>,
    /// The program and its arguments.
    pub program: Vec<OsString>,
}

/// Name of the argument that takes the program.
const PROGRAM: &str = "program";

impl Args for RunOptions {
    fn augment_args(command: clap::Command) -> clap::Command {
        let mut command = command;
        for section in SECTIONS {
            for setting in section.settings {
                command = command.arg(option(setting).help_heading(section.title));
            }
        }
        command.arg(
            Arg::new(PROGRAM)
                .help("The program and its arguments")
                .value_name("PROGRAM")
                .value_parser(clap::value_parser!(OsString))
                .num_args(1..)
                .required(true)
                .trailing_var_arg(true)
                .allow_hyphen_values(true),
        )
    }

    fn augment_args_for_update(command: clap::Command) -> clap::Command {
        RunOptions::augment_args(command)
    }
}

impl FromArgMatches for RunOptions {
    fn from_arg_matches(matches: &ArgMatches) -> Result<RunOptions, clap::Error> {
        let mut options = RunOptions::default();
        options.update_from_arg_matches(matches)?;
        Ok(options)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        for setting in Setting::all() {
            let name = setting.name;
            let value = match setting.option {
                CommandOption::Value(_) => matches.get_one::<String>(name).cloned(),
                CommandOption::Flag => matches.get_flag(name).then(|| "on".to_owned()),
                CommandOption::Negation { .. } => matches.get_flag(name).then(|| "off".to_owned()),
            };
            self.given.extend(value.map(|value| (setting, value)));
        }
        let program = matches.get_many::<OsString>(PROGRAM);
        self.program = program.into_iter().flatten().cloned().collect();
        Ok(())
    }
}

/// The option of a setting.
fn option(setting: &'static Setting) -> Arg {
    let sentence = setting.help.trim_end_matches('.');
    let argument = Arg::new(setting.name);
    match setting.option {
        CommandOption::Value(value) => argument
            .long(setting.name)
            .value_name(value)
            .help(match setting.default_text() {
                Some(default) => format!("{sentence} [default: {default}]"),
                None => sentence.to_owned(),
            })
            .value_parser(
                move |text: &str| match setting.set(&mut Settings::default(), text) {
                    Ok(()) => Ok(text.to_owned()),
                    Err(error) => Err(error.help),
                },
            ),
        CommandOption::Flag => argument
            .long(setting.name)
            .help(sentence.to_owned())
            .action(ArgAction::SetTrue),
        CommandOption::Negation { option, help } => {
            argument.long(option).help(help).action(ArgAction::SetTrue)
        }
    }
}

/// Options of `ringfence instrument`.
#[derive(Debug, Args)]
pub struct InstrumentOptions {
    /// The PTX to instrument.
    pub input: PathBuf,
    /// Where the result is written.
    #[arg(short, long, value_name = "FILE")]
    pub output: PathBuf,
    /// Also write the access sites and kernels as JSON; of a fenced module, its
    /// variables and how many accesses have which fence.
    #[arg(long, value_name = "FILE")]
    pub sites: Option<PathBuf>,
    /// What is added: checks of bounds; checks against shadow memory; or fences,
    /// which keep every access in the memory of one tenant.
    #[arg(long, value_enum, default_value = "bounds")]
    pub protect: Pass,
    /// How fences force an address into a partition: by a mask, for sizes that
    /// are powers of two; by a remainder, for any size; or by a comparison, which
    /// is recorded.
    #[arg(long, value_enum, value_name = "FORM", default_value = "mask")]
    pub fence_form: FenceForm,
    /// How many bytes of memory one byte of shadow memory stands for: 8, 128 or 256.
    #[arg(long, value_name = "BYTES", default_value = "256", value_parser = encoding)]
    pub shadow_encoding: Encoding,
}

fn encoding(text: &str) -> Result<Encoding, String> {
    text.parse()
        .map_err(|()| "expected 8, 128 or 256".to_owned())
}

/// Passes from PTX to PTX.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Pass {
    /// Checks of bounds.
    Bounds,
    /// Checks against shadow memory.
    Shadow,
    /// Fences.
    Fence,
}

/// See [`instrument::FenceForm`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum FenceForm {
    /// By a mask.
    Mask,
    /// By a remainder.
    Modulo,
    /// By a comparison, which is recorded.
    Check,
}

impl From<FenceForm> for instrument::FenceForm {
    fn from(form: FenceForm) -> Self {
        match form {
            FenceForm::Mask => instrument::FenceForm::Mask,
            FenceForm::Modulo => instrument::FenceForm::Modulo,
            FenceForm::Check => instrument::FenceForm::Check,
        }
    }
}

/// Options of `ringfence tenants`.
#[derive(Debug, Args)]
pub struct TenantsOptions {
    /// The socket of the manager's tenants [default: /run/ringfence.sock for root,
    /// else ringfence.sock in the user's runtime directory].
    #[arg(long, value_name = "PATH")]
    pub socket: Option<PathBuf>,
    /// Machine-readable: one JSON object a line.
    #[arg(long)]
    pub json: bool,
    /// Again and again, so many seconds apart.
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u32).range(1..))]
    pub watch: Option<u32>,
}

/// Options of `ringfence slice`.
#[derive(Debug, Args)]
pub struct SliceOptions {
    /// The manager's folder of slices.
    #[arg(long, value_name = "FOLDER", default_value = protocol::SYSTEM_SLICES, global = true)]
    pub slices: PathBuf,
    /// What to do.
    #[command(subcommand)]
    pub command: SliceCommand,
}

/// What is done with slices.
#[derive(Debug, Subcommand)]
pub enum SliceCommand {
    /// Make a slice.
    Add {
        /// Its name.
        name: String,
        /// Bytes of device memory that its processes may have together, with k, m or
        /// g for powers of 1024; rounded up to 64m.
        #[arg(long, value_name = "BYTES")]
        memory: MemorySize,
        /// Number of the only user who may use it; without one, whoever sees its
        /// folder, which only containers do that have it mounted.
        #[arg(long, value_name = "UID")]
        owner: Option<u32>,
    },
    /// End a slice and its processes' use of the device.
    Remove {
        /// Its name.
        name: String,
    },
    /// Show all slices.
    List,
    /// Print the variables by which a process of this host uses a slice, for a
    /// shell or for Slurm's task prolog.
    Env {
        /// Its name.
        name: String,
    },
}

/// Options of `ringfence cdi`.
#[derive(Debug, Args)]
pub struct CdiOptions {
    /// The manager's folder of slices.
    #[arg(long, value_name = "FOLDER", default_value = protocol::SYSTEM_SLICES)]
    pub slices: PathBuf,
    /// The folder of libringfence.so [default: where this command finds it].
    #[arg(long, value_name = "FOLDER")]
    pub libraries: Option<PathBuf>,
    /// Where the specification is written, such as /etc/cdi/ringfence.json
    /// [default: the standard output].
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
}

/// Bytes, as text with a suffix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemorySize(pub u64);

impl std::str::FromStr for MemorySize {
    type Err = String;

    fn from_str(text: &str) -> Result<MemorySize, String> {
        model::settings::bytes(text).map(MemorySize).ok_or_else(|| {
            "expected a number of bytes, with k, m or g for powers of 1024".to_owned()
        })
    }
}

/// In a file a number, or text as on the command line.
impl<'de> serde::Deserialize<'de> for MemorySize {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Either;
        impl serde::de::Visitor<'_> for Either {
            type Value = MemorySize;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a number of bytes, or text such as \"4g\"")
            }

            fn visit_i64<E: serde::de::Error>(self, number: i64) -> Result<MemorySize, E> {
                let number = u64::try_from(number);
                number
                    .map(MemorySize)
                    .map_err(|_| E::custom("expected a number of bytes"))
            }

            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<MemorySize, E> {
                text.parse().map_err(E::custom)
            }
        }
        from.deserialize_any(Either)
    }
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
    /// Whether the command line names a setting.
    pub fn is_given(&self, name: &str) -> bool {
        self.given.iter().any(|(setting, _)| setting.name == name)
    }

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
        for (setting, value) in &self.given {
            setting.set(&mut settings, value)?;
        }
        // Frees are only followed if something is checked: otherwise every
        // allocation would be a leak.
        if !settings.check && settings.leak_check != LeakCheck::No {
            return Err(SettingsError {
                setting: "leak-check=full".into(),
                help: "leaks are found only with checking on; remove --no-check".into(),
            });
        }
        Ok(settings)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;
    use model::DeviceKind;

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

    /// The settings that these arguments of `run` give, if they are accepted.
    fn parsed(arguments: &[&str]) -> Option<Settings> {
        let all = ["ringfence", "run"]
            .iter()
            .chain(arguments)
            .chain(&["./app"]);
        let Command::Run(options) = Cli::try_parse_from(all).ok()?.command else {
            panic!("not run")
        };
        options.settings(None).ok()
    }

    #[test]
    fn every_option_sets_what_the_setting_of_its_name_does() {
        let samples = [
            "7", "16", "64k", "cpu", "full", "watch", "fields", "device", "start", "off", "on", "",
            "-1", "300", "128", "always",
        ];
        for setting in Setting::all() {
            let name = setting.name;
            let mut accepted = 0;
            for text in samples {
                let mut expected = Settings::default();
                let set = expected.apply_options(&format!("{name}={text}"));
                let expected = set.ok().map(|()| expected);
                let long = format!("--{name}");
                let given = match setting.option {
                    CommandOption::Value(_) => parsed(&[&format!("{long}={text}")]),
                    CommandOption::Flag if text == "on" => parsed(&[&long]),
                    CommandOption::Negation { option, .. } if text == "off" => {
                        parsed(&[&format!("--{option}")])
                    }
                    CommandOption::Flag | CommandOption::Negation { .. } => continue,
                };
                assert_eq!(given, expected, "{name}={text}");
                let changes = expected.is_some_and(|settings| settings != Settings::default());
                accepted += usize::from(changes);
            }
            assert!(accepted > 0, "{name} takes none of the samples");
        }
    }

    #[test]
    fn a_bad_value_is_refused_with_what_was_expected() {
        let error = Cli::try_parse_from(["ringfence", "run", "--device", "tpu", "./app"]);
        let message = error.unwrap_err().to_string();
        assert!(message.contains("--device"), "{message}");
        assert!(message.contains("expected gpu, cpu or tenant"), "{message}");
    }

    #[test]
    fn help_texts_hold_all_options_and_exit_codes() {
        let mut command = Cli::command();
        let run = command.find_subcommand_mut("run").unwrap();
        let help = run.render_help().to_string();
        for setting in Setting::all() {
            let option = match setting.option {
                CommandOption::Negation { option, .. } => option,
                _ => setting.name,
            };
            assert!(
                help.contains(&format!("--{option}")),
                "--{option} is missing"
            );
        }
        let help = command.render_help().to_string();
        for exit in EXIT_CODES {
            assert!(help.contains(&exit.code.to_string()), "{help}");
        }
    }
}
