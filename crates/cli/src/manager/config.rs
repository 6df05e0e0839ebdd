//! The options of `ringfence manager` and the keys of its file, which are the same:
//! one declaration serves the command line and TOML. An option wins over the file.

use crate::options::MemorySize;
use clap::{Args, ValueEnum};
use manager::{
    CompileLimits, HEAVIEST, LogFormat, MetricsAddress, QUEUED, Quota, StallTime, TENANTS, Waits,
};
use serde::de::{Deserializer, Error as _};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Options of `ringfence manager`. Each but --config is also a key of its file.
#[derive(Debug, Default, Args, Deserialize)]
#[serde(default, rename_all = "kebab-case", deny_unknown_fields)]
pub struct ManagerOptions {
    /// A TOML file with these options as keys; those of what a tenant may have are in
    /// its table [limits], and those of single users in [users.UID]. Options win over
    /// it.
    #[arg(long, value_name = "FILE")]
    #[serde(skip)]
    pub config: Option<PathBuf>,
    /// Where tenants connect [default: /run/ringfence.sock for root, else
    /// ringfence.sock in the user's runtime directory].
    #[arg(long, value_name = "PATH")]
    pub socket: Option<PathBuf>,
    /// The device [default: the GPU where there is one].
    #[arg(long, value_enum, value_name = "DEVICE")]
    pub device: Option<ManagerDevice>,
    /// Path of the real libcuda.so.1 [default: the driver that the system's
    /// loader finds].
    #[arg(long, value_name = "FILE")]
    pub driver: Option<PathBuf>,
    /// How many threads the CPU device has; 0 is one for each core [default: 0].
    #[arg(long, value_name = "N")]
    pub cpu_threads: Option<Count<0, 4096>>,
    /// How long a kernel may run while another tenant waits to load code, which
    /// needs a moment without kernels; then it is ended. 0: for ever [default: 30].
    #[arg(long, value_name = "SECONDS")]
    pub kernel_time: Option<Count<0, DAY>>,
    /// How long the work of two tenants may stand still at the same time; then the
    /// kernels of the one that began first are ended. 0: for ever [default: as
    /// --kernel-time on a GPU, whose kernels keep others from running; 0 on the
    /// CPU device].
    #[arg(long, value_name = "SECONDS")]
    pub stall_time: Option<Count<0, DAY>>,
    /// Where slices are made, which are sockets with limits of their own; the
    /// control socket that `ringfence slice` uses lies there, too.
    #[arg(long, value_name = "FOLDER")]
    pub slices: Option<PathBuf>,
    /// Processor time of each step of the compilation of a module; a step may last
    /// twice as long [default: 60].
    #[arg(long, value_name = "SECONDS")]
    pub compile_time: Option<Count<1, DAY>>,
    /// Memory of each step of the compilation of a module [default: 2g].
    #[arg(long, value_name = "BYTES")]
    pub compile_memory: Option<MemorySize>,
    /// How many modules are compiled at a time [default: 4].
    #[arg(long, value_name = "N")]
    pub compile_jobs: Option<Count<1, 1024>>,
    /// Bytes of compiled modules that are kept for the next tenant with the same
    /// code; 0: none [default: 256m].
    #[arg(long, value_name = "BYTES")]
    pub compile_cache: Option<MemorySize>,
    /// The folder in which compiled modules are kept for the next manager. It must be
    /// the manager's user's alone, who is trusted: what is there is not verified again
    /// [default: none].
    #[arg(long, value_name = "FOLDER")]
    pub cache_dir: Option<PathBuf>,
    /// Bytes of files in it; those that were not used for longest go [default: 1g].
    #[arg(long, value_name = "BYTES")]
    pub cache_size: Option<MemorySize>,
    /// Serves metrics for Prometheus at a loopback address, such as 127.0.0.1:9400,
    /// or at the absolute path of a UNIX socket [default: nowhere].
    #[arg(long, value_name = "ADDRESS")]
    #[serde(deserialize_with = "parsed")]
    pub metrics: Option<MetricsAddress>,
    /// How lines on the standard error are written [default: text].
    #[arg(long, value_enum, value_name = "FORMAT")]
    pub log_format: Option<LogForm>,
    /// What a tenant may have.
    #[command(flatten)]
    pub limits: Limits,
    /// What tenants of one user may have, by the user's number.
    #[arg(skip)]
    pub users: BTreeMap<User, Limits>,
}

/// What a tenant may have.
#[derive(Clone, Debug, Default, Args, Deserialize)]
#[command(next_help_heading = "What a tenant may have")]
#[serde(default, rename_all = "kebab-case", deny_unknown_fields)]
pub struct Limits {
    /// Bytes of device memory that a tenant may have, with k, m or g for powers of
    /// 1024 [default: 256m].
    #[arg(long, value_name = "BYTES")]
    pub memory_per_tenant: Option<MemorySize>,
    /// Tenants of one user at a time [default: 64].
    #[arg(long, value_name = "N")]
    pub tenants_per_user: Option<Count<0, { TENANTS as u64 }>>,
    /// Streams [default: 256].
    #[arg(long, value_name = "N")]
    pub max_streams: Option<Count<0, 65536>>,
    /// Events [default: 16384].
    #[arg(long, value_name = "N")]
    pub max_events: Option<Count<0, 1048576>>,
    /// Modules [default: 512].
    #[arg(long, value_name = "N")]
    pub max_modules: Option<Count<0, 65536>>,
    /// Kernels in all modules [default: 32768].
    #[arg(long, value_name = "N")]
    pub max_kernels: Option<Count<0, 1048576>>,
    /// Allocations, with the variables of modules [default: 65536].
    #[arg(long, value_name = "N")]
    pub max_allocations: Option<Count<0, 1048576>>,
    /// Bytes of the code of a module, as a program has it and as PTX [default: 64m].
    #[arg(long, value_name = "BYTES")]
    pub max_code: Option<MemorySize>,
    /// Launches, copies and memsets in one stream that are not over [default: 512].
    #[arg(long, value_name = "N")]
    pub max_queued: Option<Count<1, { QUEUED as u64 }>>,
    /// Which kernels run, whose threads wait for lanes of their warp: on a GPU, threads
    /// that wait for each other for ever cannot be ended [default: any].
    #[arg(long, value_enum, value_name = "KERNELS")]
    pub waits: Option<WaitsOf>,
    /// Parts of the device's time that a tenant gets where tenants of different
    /// weights have work: they take turns then [default: 1].
    #[arg(long, value_name = "N")]
    pub weight: Option<Count<1, { HEAVIEST as u64 }>>,
}

/// Which kernels run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WaitsOf {
    /// All.
    Any,
    /// Those that are proved to end.
    Proved,
}

/// Seconds of a day.
const DAY: u64 = 86_400;

/// The devices of a manager.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ManagerDevice {
    /// The first GPU.
    Gpu,
    /// The CPU device.
    Cpu,
}

/// How lines are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LogForm {
    /// For people.
    Text,
    /// One JSON object a line.
    Json,
}

/// A number from `LEAST` to `MOST`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Count<const LEAST: u64, const MOST: u64>(u64);

impl<const LEAST: u64, const MOST: u64> Count<LEAST, MOST> {
    fn of(number: Option<u64>) -> Result<Self, String> {
        match number {
            Some(number) if (LEAST..=MOST).contains(&number) => Ok(Count(number)),
            _ => Err(format!("expected a number from {LEAST} to {MOST}")),
        }
    }
}

impl<const LEAST: u64, const MOST: u64> std::str::FromStr for Count<LEAST, MOST> {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::of(text.parse().ok())
    }
}

impl<'de, const LEAST: u64, const MOST: u64> Deserialize<'de> for Count<LEAST, MOST> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let number = i64::deserialize(from)?;
        Self::of(u64::try_from(number).ok()).map_err(D::Error::custom)
    }
}

/// A user, by number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct User(u32);

impl<'de> Deserialize<'de> for User {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = String::deserialize(from)?;
        let number = text.parse().map(User);
        number.map_err(|_| D::Error::custom("expected the number of a user"))
    }
}

/// What is written in a file as on the command line.
fn parsed<'de, D, T>(from: D) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    T: std::str::FromStr<Err = String>,
{
    let text = String::deserialize(from)?;
    text.parse().map(Some).map_err(D::Error::custom)
}

/// What is wrong with a file.
#[derive(Debug)]
pub enum FileError {
    /// It cannot be read.
    Unreadable(PathBuf, std::io::Error),
    /// Its content, at a line.
    Content {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// The key there, if there is one.
        key: Option<String>,
        /// What is wrong.
        message: String,
    },
}

impl std::error::Error for FileError {}

impl std::fmt::Display for FileError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            FileError::Unreadable(path, error) => {
                write!(f, "{} cannot be read: {error}", path.display())
            }
            FileError::Content {
                path,
                line,
                key,
                message,
            } => {
                write!(f, "{}, line {line}: ", path.display())?;
                if let Some(key) = key {
                    write!(f, "`{key}`: ")?;
                }
                f.write_str(message)
            }
        }
    }
}

/// Reads the content of a file.
fn parse(path: &Path, text: &str) -> Result<ManagerOptions, FileError> {
    toml::from_str(text).map_err(|error| {
        let at = error.span().map_or(text.len(), |span| span.start);
        let before = text.get(..at).unwrap_or_default();
        let line = before.matches('\n').count();
        let written = text.lines().nth(line).unwrap_or_default();
        let key = written.split('=').next().unwrap_or_default().trim();
        FileError::Content {
            path: path.to_owned(),
            line: line + 1,
            key: (!key.is_empty()).then(|| key.to_owned()),
            message: error.message().replace('\n', " "),
        }
    })
}

impl ManagerOptions {
    /// With what the file says that --config names.
    ///
    /// # Errors
    ///
    /// The file.
    pub fn with_file(self) -> Result<ManagerOptions, FileError> {
        let Some(path) = self.config.clone() else {
            return Ok(self);
        };
        let text = std::fs::read_to_string(&path);
        let text = text.map_err(|error| FileError::Unreadable(path.clone(), error))?;
        let file = parse(&path, &text)?;
        Ok(self.over(file))
    }

    /// These, and where they say nothing, those.
    fn over(self, file: ManagerOptions) -> ManagerOptions {
        ManagerOptions {
            config: self.config,
            socket: self.socket.or(file.socket),
            device: self.device.or(file.device),
            driver: self.driver.or(file.driver),
            cpu_threads: self.cpu_threads.or(file.cpu_threads),
            kernel_time: self.kernel_time.or(file.kernel_time),
            stall_time: self.stall_time.or(file.stall_time),
            slices: self.slices.or(file.slices),
            compile_time: self.compile_time.or(file.compile_time),
            compile_memory: self.compile_memory.or(file.compile_memory),
            compile_jobs: self.compile_jobs.or(file.compile_jobs),
            compile_cache: self.compile_cache.or(file.compile_cache),
            cache_dir: self.cache_dir.or(file.cache_dir),
            cache_size: self.cache_size.or(file.cache_size),
            metrics: self.metrics.or(file.metrics),
            log_format: self.log_format.or(file.log_format),
            limits: self.limits.over(file.limits),
            users: file.users,
        }
    }

    /// What the compilation of a module may take.
    pub fn compile(&self) -> CompileLimits {
        let default = CompileLimits::default();
        CompileLimits {
            time: (self.compile_time).map_or(default.time, |time| Duration::from_secs(time.0)),
            memory: self.compile_memory.map_or(default.memory, |size| size.0),
            at_a_time: (self.compile_jobs).map_or(default.at_a_time, |count| count.0 as usize),
            cache: self.compile_cache.map_or(default.cache, |size| size.0),
        }
    }

    /// Where compiled modules are kept, and how many bytes of them.
    pub fn cache(&self) -> Option<(PathBuf, u64)> {
        let size = self.cache_size.map_or(1 << 30, |size| size.0);
        self.cache_dir.clone().map(|folder| (folder, size))
    }

    /// How long kernels may keep others from loading code; `None`: for ever.
    pub fn kernel_time(&self) -> Option<Duration> {
        match self.kernel_time.map_or(30, |time| time.0) {
            0 => None,
            seconds => Some(Duration::from_secs(seconds)),
        }
    }

    /// How long the work of tenants may stand still beside that of another one.
    pub fn stall_time(&self) -> StallTime {
        match self.stall_time {
            None => StallTime::OfDevice,
            Some(Count(0)) => StallTime::Unlimited,
            Some(Count(seconds)) => StallTime::Limited(Duration::from_secs(seconds)),
        }
    }

    /// How many threads the CPU device has; 0 is one for each core.
    pub fn cpu_threads(&self) -> u32 {
        self.cpu_threads.map_or(0, |count| count.0 as u32)
    }

    /// How lines are written.
    pub fn log_format(&self) -> LogFormat {
        match self.log_format {
            Some(LogForm::Json) => LogFormat::Json,
            Some(LogForm::Text) | None => LogFormat::Text,
        }
    }

    /// What tenants may have, and those of single users.
    pub fn quotas(&self) -> (Quota, BTreeMap<u32, Quota>) {
        let quota = self.limits.quota(Quota::default());
        let users = self.users.iter();
        let users = users.map(|(user, limits)| (user.0, limits.quota(quota)));
        (quota, users.collect())
    }
}

impl Limits {
    fn over(self, file: Limits) -> Limits {
        Limits {
            memory_per_tenant: self.memory_per_tenant.or(file.memory_per_tenant),
            tenants_per_user: self.tenants_per_user.or(file.tenants_per_user),
            max_streams: self.max_streams.or(file.max_streams),
            max_events: self.max_events.or(file.max_events),
            max_modules: self.max_modules.or(file.max_modules),
            max_kernels: self.max_kernels.or(file.max_kernels),
            max_allocations: self.max_allocations.or(file.max_allocations),
            max_code: self.max_code.or(file.max_code),
            max_queued: self.max_queued.or(file.max_queued),
            waits: self.waits.or(file.waits),
            weight: self.weight.or(file.weight),
        }
    }

    /// These, and where they say nothing, those.
    fn quota(&self, rest: Quota) -> Quota {
        let number = |count: Option<u64>, rest: usize| count.map_or(rest, |count| count as usize);
        Quota {
            memory: self.memory_per_tenant.map_or(rest.memory, |size| size.0),
            tenants: number(self.tenants_per_user.map(|count| count.0), rest.tenants),
            streams: number(self.max_streams.map(|count| count.0), rest.streams),
            events: number(self.max_events.map(|count| count.0), rest.events),
            modules: number(self.max_modules.map(|count| count.0), rest.modules),
            kernels: number(self.max_kernels.map(|count| count.0), rest.kernels),
            allocations: number(self.max_allocations.map(|count| count.0), rest.allocations),
            code: self.max_code.map_or(rest.code, |size| size.0),
            queued: (self.max_queued).map_or(rest.queued, |count| count.0 as u32),
            waits: self.waits.map_or(rest.waits, |waits| match waits {
                WaitsOf::Any => Waits::Any,
                WaitsOf::Proved => Waits::Proved,
            }),
            weight: self.weight.map_or(rest.weight, |weight| weight.0 as u32),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::{Cli, Command};
    use clap::{CommandFactory, Parser};

    fn given(arguments: &[&str]) -> ManagerOptions {
        let all = ["ringfence", "manager"].iter().chain(arguments);
        match Cli::try_parse_from(all).unwrap().command {
            Command::Manager(options) => *options,
            _ => panic!("not manager"),
        }
    }

    fn file(text: &str) -> Result<ManagerOptions, String> {
        parse(Path::new("manager.toml"), text).map_err(|error| error.to_string())
    }

    const FILE: &str = r#"
socket = "/run/one.sock"
device = "cpu"
cpu-threads = 2
kernel-time = 0
stall-time = 9
slices = "/run/slices"
compile-time = 5
compile-memory = "1g"
compile-jobs = 2
compile-cache = 0
cache-dir = "/var/cache/ringfence"
cache-size = "2g"
metrics = "127.0.0.1:9400"
log-format = "json"

[limits]
memory-per-tenant = "1g"
max-streams = 8
max-queued = 16
waits = "proved"

[users.1000]
memory-per-tenant = "4g"
max-events = 1
waits = "any"
weight = 4
"#;

    #[test]
    fn a_file_says_what_options_say_and_options_win() {
        let options = file(FILE).unwrap();
        let (quota, users) = options.quotas();
        assert_eq!(
            (quota.memory, quota.streams, quota.queued),
            (1 << 30, 8, 16)
        );
        let of_user = users[&1000];
        assert_eq!((of_user.memory, of_user.events), (4 << 30, 1));
        assert_eq!((quota.waits, of_user.waits), (Waits::Proved, Waits::Any));
        assert_eq!((quota.weight, of_user.weight), (1, 4));
        assert_eq!(
            of_user.streams, 8,
            "what is not said for a user is said for all"
        );
        assert_eq!(
            (options.kernel_time(), options.log_format()),
            (None, LogFormat::Json)
        );
        assert_eq!(
            (options.stall_time(), options.slices.as_deref()),
            (
                StallTime::Limited(Duration::from_secs(9)),
                Some(Path::new("/run/slices"))
            )
        );
        let compile = CompileLimits {
            time: Duration::from_secs(5),
            memory: 1 << 30,
            at_a_time: 2,
            cache: 0,
        };
        assert_eq!(options.compile(), compile);
        let cache = Some(("/var/cache/ringfence".into(), 2 << 30));
        assert_eq!(options.cache(), cache);
        let given = given(&[
            "--max-streams",
            "9",
            "--compile-time",
            "7",
            "--socket",
            "/two",
        ]);
        let both = given.over(file(FILE).unwrap());
        assert_eq!(both.quotas().0.streams, 9);
        assert_eq!(both.quotas().0.memory, 1 << 30);
        assert_eq!(both.compile().time, Duration::from_secs(7));
        assert_eq!(both.socket.as_deref(), Some(Path::new("/two")));
    }

    /// Every option is a key, but for --config, and the other way round.
    #[test]
    fn options_and_keys_are_the_same() {
        let mut command = Cli::command();
        let manager = command.find_subcommand_mut("manager").unwrap();
        let mut options: Vec<_> = manager
            .get_arguments()
            .filter_map(|argument| argument.get_long())
            .filter(|name| !["config", "help", "version"].contains(name))
            .map(str::to_owned)
            .collect();
        let expected = |text: &str| {
            let error = file(text).err().unwrap();
            let list = error.split("expected one of ").nth(1).unwrap().to_owned();
            let names = list
                .split(", ")
                .map(|name| name.trim_matches('`').to_owned());
            names.collect::<Vec<_>>()
        };
        let mut keys = expected("unknown = 1");
        keys.retain(|key| !["limits", "users"].contains(&&**key));
        keys.extend(expected("[limits]\nunknown = 1"));
        options.sort();
        keys.sort();
        assert_eq!(options, keys);
    }

    #[test]
    fn an_error_names_file_line_and_key() {
        for (text, parts) in [
            ("\n\nsocke = 1\n", ["line 3", "socke", "unknown field"]),
            (
                "[limits]\nmax-streams = -1\n",
                ["line 2", "max-streams", "from 0 to 65536"],
            ),
            (
                "[limits]\nmax-queued = 0\n",
                ["line 2", "max-queued", "from 1 to 512"],
            ),
            (
                "cpu-threads = \"many\"",
                ["line 1", "cpu-threads", "invalid type"],
            ),
            (
                "compile-memory = \"much\"",
                ["line 1", "compile-memory", "a number of bytes"],
            ),
            ("metrics = \"0.0.0.0:1\"", ["line 1", "metrics", "loopback"]),
            ("device = \"tpu\"", ["line 1", "device", "unknown variant"]),
            (
                "[users.root]\nmax-events = 1\n",
                ["line 1", "users.root", "number of a user"],
            ),
            (
                "[users.7]\nsocket = \"/a\"\n",
                ["line 2", "socket", "unknown field"],
            ),
            ("config = \"/a\"\n", ["line 1", "config", "unknown field"]),
            (
                "socket = \"/a\"\nsocket = \"/b\"\n",
                ["line 2", "socket", "duplicate key"],
            ),
            ("socket \"/a\"\n", ["line 1", "socket", "key"]),
        ] {
            let error = file(text).err().unwrap();
            assert!(error.starts_with("manager.toml, line "), "{error}");
            assert_eq!(error.lines().count(), 1, "{error}");
            for part in parts {
                assert!(error.contains(part), "`{part}` is not in: {error}");
            }
        }
    }

    /// The help says the defaults that the manager has.
    #[test]
    fn defaults_are_those_of_the_manager() {
        let (options, quota) = (given(&[]), Quota::default());
        assert_eq!(options.quotas(), (quota, BTreeMap::new()));
        assert_eq!(options.compile(), CompileLimits::default());
        let mut command = Cli::command();
        let manager = command.find_subcommand_mut("manager").unwrap();
        let mut arguments = vec!["ringfence".to_owned(), "manager".to_owned()];
        for argument in manager.get_arguments() {
            let help = argument.get_help().unwrap_or_default().to_string();
            let default = help
                .rsplit_once("[default: ")
                .map(|(_, rest)| rest.trim_end_matches(['.', ']']));
            let is_value = |text: &&str| text.starts_with(|c: char| c.is_ascii_digit());
            if let (Some(name), Some(default)) = (argument.get_long(), default.filter(is_value)) {
                arguments.extend([format!("--{name}"), default.to_owned()]);
            }
        }
        assert!(arguments.len() > 2 + 2 * 12, "{arguments:?}");
        let Command::Manager(options) = Cli::try_parse_from(arguments).unwrap().command else {
            panic!("not manager");
        };
        assert_eq!(options.quotas(), (quota, BTreeMap::new()));
        assert_eq!(options.compile(), CompileLimits::default());
        assert_eq!(options.kernel_time(), Some(Duration::from_secs(30)));
    }
}
