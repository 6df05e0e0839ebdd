//! What the user asked for, resolved. One declaration of every option that
//! the library reads; the command line and `RINGFENCE_OPTIONS` both end here.

use crate::Checked;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use std::time::Duration;

/// Which device the program gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DeviceKind {
    /// The real driver.
    Gpu,
    /// The CPU device that executes PTX.
    Cpu,
}

/// Whether memory that is never freed is reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LeakCheck {
    /// Not at all.
    No,
    /// What lives when its context or the process ends.
    Full,
}

/// What happens to a bad copy, set or free by the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ApiErrors {
    /// It is reported and not made; the program gets the error that an
    /// invalid value gives.
    Refuse,
    /// It is reported and made.
    Pass,
    /// It is not looked at.
    Off,
}

/// Whether launches whose accesses can all be shown to be in bounds run
/// without checks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Prove {
    /// They do.
    On,
    /// Every launch is checked.
    Off,
    /// Every launch is checked; a finding in one that was shown to be in
    /// bounds is an error of Ringfence.
    Verify,
}

/// Which protections are on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Protections {
    /// Exact bounds, by rewriting PTX: CUDA programs.
    pub bounds: bool,
    /// Canaries around buffers, verified after each kernel: OpenCL programs.
    pub canary: bool,
    /// Canaries verified while kernels run, by a kernel of Ringfence's own:
    /// CUDA programs.
    #[serde(default)]
    pub watch: bool,
}

/// What canaries hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CanaryPattern {
    /// Bytes that differ from buffer to buffer and from run to run.
    Random,
    /// This byte.
    Byte(u8),
}

/// Who verifies canaries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CanaryChecker {
    /// Whichever is faster, as measured while the program runs.
    Auto,
    /// The host, which reads them.
    Host,
    /// A kernel on the device.
    Device,
}

/// Settings of one run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "kebab-case", deny_unknown_fields)]
pub struct Settings {
    /// `None`: the GPU when a driver answers, else the CPU device.
    pub device: Option<DeviceKind>,
    /// Instrument kernels; off, the shim only forwards (identity runs).
    pub check: bool,
    /// Which accesses are held to their bounds.
    pub check_only: Checked,
    /// File for the text report; `%p` is the process id. `None`: stderr.
    pub log_file: Option<String>,
    /// Text findings printed at most; the rest is counted.
    pub print_limit: u32,
    /// Only kernels whose mangled or demangled name contains this.
    pub kernel_name: Option<String>,
    /// Kernels whose name contains this run without checks.
    pub kernel_name_exclude: Option<String>,
    /// Launches to skip before checking.
    pub launch_skip: u64,
    /// Launches to check after that; 0 is all.
    pub launch_count: u64,
    /// Host frames kept per allocation and launch.
    pub num_callers_host: u32,
    /// Launches of each kernel whose host call stack is kept. Walking a stack
    /// costs microseconds, so by default only the first launches pay.
    pub launch_backtraces: u32,
    /// Bytes of freed memory that are not given back to the driver, so that
    /// stale pointers into them stay stale; 0: none.
    pub quarantine_size: u64,
    /// Whether memory that is never freed is reported.
    pub leak_check: LeakCheck,
    /// What happens to a bad copy, set or free by the host.
    pub api_errors: ApiErrors,
    /// Whether launches that are proved in bounds run without checks.
    pub prove: Prove,
    /// Which protections are on.
    pub protect: Protections,
    /// Bytes of canary on either side of a buffer, at least.
    pub canary_size: u64,
    /// What canaries hold.
    pub canary_pattern: CanaryPattern,
    /// Who verifies them.
    pub canary_checker: CanaryChecker,
    /// Whether buffers of CUDA have a canary before them, too. Their addresses
    /// are then not those that the driver gave.
    pub canary_head: bool,
    /// Percent of the time that kernels run which may be spent on verifying
    /// canaries between them; 100: after every kernel.
    pub canary_budget: u32,
    /// How long the guard stays on the device at a time.
    pub watch_slice: Duration,
    /// End the program at the first finding.
    pub halt_on_error: bool,
    /// A thread that fails a check stops its kernel there, for a debugger.
    pub trap: bool,
    /// Exit code of `ringfence run` when there are findings; `None`: 98.
    pub error_exitcode: Option<u8>,
    /// File for the JSON report, written by `ringfence run`.
    pub json: Option<PathBuf>,
    /// File for the report as SARIF, written by `ringfence run`.
    pub sarif: Option<PathBuf>,
    /// File for the report as JUnit XML, written by `ringfence run`.
    pub junit: Option<PathBuf>,
    /// File of findings that are known (`docs/suppressions.md`).
    pub suppressions: Option<PathBuf>,
    /// File for the time of each kernel (`docs/time-kernels.md`), written by
    /// `ringfence run`.
    pub time_kernels: Option<PathBuf>,
    /// Print an entry for such a file after each finding.
    pub gen_suppressions: bool,
    /// Seed of the CPU device's warp schedule and of canaries; without one,
    /// canaries are others in each run.
    pub seed: u64,
    /// Worker threads of the CPU device; 0 is one a core.
    pub cpu_threads: u32,
    /// The CPU device's kernels may access all memory of the program, as those
    /// of devices with pageable memory access (ATS, HMM) may.
    pub cpu_pageable: bool,
    /// Directory where processes of one run leave their results for the
    /// command; set by `ringfence run`.
    pub session: Option<PathBuf>,
    /// Path of the real libcuda; found by `ringfence run`.
    pub driver: Option<PathBuf>,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            device: None,
            check: true,
            check_only: Checked::default(),
            log_file: None,
            print_limit: 100,
            kernel_name: None,
            kernel_name_exclude: None,
            launch_skip: 0,
            launch_count: 0,
            num_callers_host: 16,
            launch_backtraces: 32,
            quarantine_size: 256 << 20,
            leak_check: LeakCheck::No,
            api_errors: ApiErrors::Refuse,
            prove: Prove::On,
            protect: Protections {
                bounds: true,
                canary: true,
                watch: false,
            },
            canary_size: 4096,
            canary_pattern: CanaryPattern::Random,
            canary_checker: CanaryChecker::Auto,
            canary_head: true,
            canary_budget: 1,
            watch_slice: Duration::from_millis(250),
            halt_on_error: false,
            trap: false,
            error_exitcode: None,
            json: None,
            sarif: None,
            junit: None,
            suppressions: None,
            time_kernels: None,
            gen_suppressions: false,
            seed: 0,
            cpu_threads: 0,
            cpu_pageable: false,
            session: None,
            driver: None,
        }
    }
}

/// The names that [`Settings::set`] knows, as the command line and
/// `RINGFENCE_OPTIONS` spell them.
pub const SETTING_NAMES: &[&str] = &[
    "api-errors",
    "canary-budget",
    "canary-checker",
    "canary-head",
    "canary-pattern",
    "canary-size",
    "check",
    "check-only",
    "cpu-pageable",
    "cpu-threads",
    "device",
    "driver",
    "error-exitcode",
    "gen-suppressions",
    "halt-on-error",
    "json",
    "junit",
    "kernel-name",
    "kernel-name-exclude",
    "launch-backtraces",
    "launch-count",
    "launch-skip",
    "leak-check",
    "log-file",
    "num-callers-host",
    "print-limit",
    "protect",
    "prove",
    "quarantine-size",
    "sarif",
    "seed",
    "suppressions",
    "time-kernels",
    "trap",
    "watch-slice",
];

impl Settings {
    /// Applies the text of `RINGFENCE_OPTIONS`: `key=value` pairs separated by
    /// colons; a colon or a backslash inside a value is written `\:` or
    /// `\\`. Empty pairs are ignored.
    ///
    /// # Errors
    ///
    /// The first pair that is malformed, unknown, or out of range.
    pub fn apply_options(&mut self, text: &str) -> Result<(), SettingsError> {
        for pair in split_options(text) {
            if pair.is_empty() {
                continue;
            }
            let Some((key, value)) = pair.split_once('=') else {
                return Err(SettingsError {
                    setting: pair,
                    help: "expected key=value; separate settings by colons".into(),
                });
            };
            self.set(key.trim(), value)?;
        }
        Ok(())
    }

    /// Sets one option by its name in kebab-case.
    ///
    /// # Errors
    ///
    /// The name is unknown, or the value is not of its kind.
    pub fn set(&mut self, key: &str, value: &str) -> Result<(), SettingsError> {
        let fail = |help: &str| SettingsError {
            setting: format!("{key}={value}"),
            help: help.into(),
        };
        match key {
            "device" => {
                self.device = Some(parse_device(value).ok_or_else(|| fail("expected gpu or cpu"))?)
            }
            "check" => self.check = parse_bool(value).ok_or_else(|| fail("expected on or off"))?,
            "check-only" => {
                self.check_only = value.parse().map_err(|()| fail(CHECKED_HELP))?;
            }
            "log-file" => {
                self.log_file = Some(non_empty(value).ok_or_else(|| fail("expected a file name"))?)
            }
            "json" | "sarif" | "junit" | "suppressions" | "time-kernels" => {
                let path = non_empty(value).ok_or_else(|| fail("expected a file name"))?;
                *match key {
                    "json" => &mut self.json,
                    "sarif" => &mut self.sarif,
                    "junit" => &mut self.junit,
                    "time-kernels" => &mut self.time_kernels,
                    _ => &mut self.suppressions,
                } = Some(path.into());
            }
            "gen-suppressions" => {
                self.gen_suppressions =
                    parse_bool(value).ok_or_else(|| fail("expected on or off"))?;
            }
            "driver" => {
                let path =
                    non_empty(value).ok_or_else(|| fail("expected the path of libcuda.so.1"))?;
                self.driver = Some(path.into());
            }
            "kernel-name" => {
                self.kernel_name =
                    Some(non_empty(value).ok_or_else(|| fail("expected part of a kernel's name"))?);
            }
            "kernel-name-exclude" => {
                let name =
                    non_empty(value).ok_or_else(|| fail("expected part of a kernel's name"))?;
                self.kernel_name_exclude = Some(name);
            }
            "print-limit" => self.print_limit = number(value).ok_or_else(|| fail(U32_HELP))?,
            "num-callers-host" => {
                self.num_callers_host = number(value).ok_or_else(|| fail(U32_HELP))?
            }
            "launch-backtraces" => {
                self.launch_backtraces = number(value).ok_or_else(|| fail(U32_HELP))?
            }
            "cpu-pageable" => {
                self.cpu_pageable = parse_bool(value).ok_or_else(|| fail("expected on or off"))?;
            }
            "cpu-threads" => self.cpu_threads = number(value).ok_or_else(|| fail(U32_HELP))?,
            "launch-skip" => self.launch_skip = number(value).ok_or_else(|| fail(U64_HELP))?,
            "launch-count" => self.launch_count = number(value).ok_or_else(|| fail(U64_HELP))?,
            "seed" => self.seed = number(value).ok_or_else(|| fail(U64_HELP))?,
            "quarantine-size" => {
                self.quarantine_size = parse_bytes(value).ok_or_else(|| fail(BYTES_HELP))?
            }
            "leak-check" => {
                self.leak_check = match value {
                    "full" => LeakCheck::Full,
                    _ if parse_bool(value) == Some(false) => LeakCheck::No,
                    _ => return Err(fail("expected full or no")),
                }
            }
            "api-errors" => {
                self.api_errors = match value {
                    "refuse" => ApiErrors::Refuse,
                    "pass" => ApiErrors::Pass,
                    _ if parse_bool(value) == Some(false) => ApiErrors::Off,
                    _ => return Err(fail("expected refuse, pass or off")),
                }
            }
            "prove" => {
                self.prove = match value {
                    "verify" => Prove::Verify,
                    _ => match parse_bool(value) {
                        Some(true) => Prove::On,
                        Some(false) => Prove::Off,
                        None => return Err(fail("expected on, off or verify")),
                    },
                }
            }
            "protect" => {
                self.protect = parse_protections(value).ok_or_else(|| {
                    fail("expected bounds, canary or watch, or several, with commas")
                })?
            }
            "canary-size" => {
                self.canary_size = parse_bytes(value)
                    .filter(|bytes| (16..=1 << 30).contains(bytes))
                    .ok_or_else(|| fail("expected 16 bytes to 1g"))?
            }
            "canary-budget" => {
                self.canary_budget = number(value)
                    .filter(|percent| (1..=100).contains(percent))
                    .ok_or_else(|| fail("expected a percentage from 1 to 100"))?
            }
            "canary-head" => {
                self.canary_head = parse_bool(value).ok_or_else(|| fail("expected on or off"))?;
            }
            "canary-pattern" => {
                self.canary_pattern = parse_pattern(value)
                    .ok_or_else(|| fail("expected random, or a byte such as 0xC2"))?
            }
            "canary-checker" => {
                self.canary_checker = match value {
                    "auto" => CanaryChecker::Auto,
                    "host" => CanaryChecker::Host,
                    "device" => CanaryChecker::Device,
                    _ => return Err(fail("expected auto, host or device")),
                }
            }
            "watch-slice" => {
                self.watch_slice = number(value)
                    .filter(|milliseconds| (1..=60_000).contains(milliseconds))
                    .map(Duration::from_millis)
                    .ok_or_else(|| fail("expected milliseconds from 1 to 60000"))?
            }
            "trap" => self.trap = parse_bool(value).ok_or_else(|| fail("expected on or off"))?,
            "halt-on-error" => {
                self.halt_on_error = parse_bool(value).ok_or_else(|| fail("expected on or off"))?;
            }
            "error-exitcode" => {
                self.error_exitcode =
                    Some(number(value).ok_or_else(|| fail("expected a number from 0 to 255"))?);
            }
            _ => {
                return Err(fail(&format!(
                    "unknown setting; known are {}",
                    SETTING_NAMES.join(", ")
                )));
            }
        }
        Ok(())
    }

    /// Whether a kernel passes the name filters. Either of its names may
    /// match.
    pub fn selects_kernel(&self, mangled: &str, demangled: &str) -> bool {
        let matches =
            |part: &String| mangled.contains(part.as_str()) || demangled.contains(part.as_str());
        self.kernel_name.as_ref().is_none_or(matches)
            && !self.kernel_name_exclude.as_ref().is_some_and(matches)
    }
}

const CHECKED_HELP: &str =
    "expected all, or a list of global, shared, local, constant, parameter and fields";
const U32_HELP: &str = "expected a number from 0 to 4294967295";
const BYTES_HELP: &str = "expected a number of bytes, with k, m or g for powers of 1024: 512m";
const U64_HELP: &str = "expected a number from 0 to 18446744073709551615";

fn split_options(text: &str) -> Vec<String> {
    let mut pairs = vec![String::new()];
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        let last = pairs.len() - 1;
        match character {
            ':' => pairs.push(String::new()),
            '\\' => match characters.next() {
                Some(escaped @ (':' | '\\')) => pairs[last].push(escaped),
                Some(other) => pairs[last].extend(['\\', other]),
                None => pairs[last].push('\\'),
            },
            other => pairs[last].push(other),
        }
    }
    pairs
}

fn parse_device(value: &str) -> Option<DeviceKind> {
    match value {
        "gpu" => Some(DeviceKind::Gpu),
        "cpu" => Some(DeviceKind::Cpu),
        _ => None,
    }
}

fn parse_bool(value: &str) -> Option<bool> {
    match value {
        "1" | "on" | "yes" | "true" => Some(true),
        "0" | "off" | "no" | "false" => Some(false),
        _ => None,
    }
}

fn parse_protections(value: &str) -> Option<Protections> {
    let mut protections = Protections {
        bounds: false,
        canary: false,
        watch: false,
    };
    for name in value.split(',') {
        match name.trim() {
            "bounds" => protections.bounds = true,
            "canary" => protections.canary = true,
            "watch" => protections.watch = true,
            _ => return None,
        }
    }
    Some(protections)
}

fn parse_pattern(value: &str) -> Option<CanaryPattern> {
    if value == "random" {
        return Some(CanaryPattern::Random);
    }
    let byte = match value
        .strip_prefix("0x")
        .or_else(|| value.strip_prefix("0X"))
    {
        Some(digits) => u8::from_str_radix(digits, 16).ok()?,
        None => value.parse().ok()?,
    };
    Some(CanaryPattern::Byte(byte))
}

fn parse_bytes(value: &str) -> Option<u64> {
    let digits = value.trim_end_matches(|last: char| last.is_ascii_alphabetic());
    let shift = match value[digits.len()..].to_ascii_lowercase().as_str() {
        "" => 0,
        "k" => 10,
        "m" => 20,
        "g" => 30,
        _ => return None,
    };
    digits.parse::<u64>().ok()?.checked_mul(1 << shift)
}

fn non_empty(value: &str) -> Option<String> {
    (!value.is_empty()).then(|| value.to_string())
}

fn number<T: std::str::FromStr>(value: &str) -> Option<T> {
    value.parse().ok()
}

/// A setting that could not be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SettingsError {
    /// The text `key=value` at fault.
    pub setting: String,
    /// What was expected.
    pub help: String,
}

impl std::fmt::Display for SettingsError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "setting `{}`: {}", self.setting, self.help)
    }
}

impl std::error::Error for SettingsError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_read_in_order_and_colons_can_be_escaped() {
        let mut settings = Settings::default();
        settings
            .apply_options(
                r"device=cpu:print-limit=3::log-file=/tmp/a\:b-%p.log:check=off:print-limit=4",
            )
            .unwrap();
        assert_eq!(settings.device, Some(DeviceKind::Cpu));
        assert_eq!(settings.print_limit, 4);
        assert_eq!(settings.log_file.as_deref(), Some("/tmp/a:b-%p.log"));
        assert!(!settings.check);
    }

    #[test]
    fn every_known_name_can_be_set_and_none_other() {
        for name in SETTING_NAMES {
            let accepted = ["1", "cpu", "no", "4k", "canary", "all", "auto"]
                .iter()
                .any(|value| Settings::default().set(name, value).is_ok());
            assert!(accepted, "{name} takes none of the sample values");
        }
        assert!(Settings::default().set("sesion", "1").is_err());
    }

    #[test]
    fn errors_name_the_pair_and_what_was_expected() {
        for text in [
            "nonsense",
            "device=tpu",
            "print-limit=-1",
            "error-exitcode=256",
            "check=maybe",
            "json=",
            "x=1",
        ] {
            let error = Settings::default().apply_options(text).unwrap_err();
            assert!(error.setting.contains(text), "{error}");
            assert!(!error.help.is_empty());
        }
    }

    #[test]
    fn bytes_have_suffixes() {
        for (text, bytes) in [
            ("0", Some(0)),
            ("4096", Some(4096)),
            ("64k", Some(64 << 10)),
            ("512M", Some(512 << 20)),
            ("2g", Some(2 << 30)),
            ("2t", None),
            ("g", None),
            ("99999999999g", None),
        ] {
            let mut settings = Settings::default();
            let set = settings.set("quarantine-size", text);
            assert_eq!(set.ok().map(|()| settings.quarantine_size), bytes, "{text}");
        }
    }

    #[test]
    fn protections_are_a_list() {
        let parse = |value: &str| {
            let mut settings = Settings::default();
            settings.set("protect", value).ok()?;
            Some((settings.protect.bounds, settings.protect.canary))
        };
        assert_eq!(parse("canary"), Some((false, true)));
        assert_eq!(parse("bounds"), Some((true, false)));
        assert_eq!(parse("bounds, canary"), Some((true, true)));
        assert_eq!(parse(""), None);
        assert_eq!(parse("bounds,fence"), None);
    }

    #[test]
    fn canaries_hold_what_is_asked_for() {
        let mut settings = Settings::default();
        for (text, pattern) in [
            ("0xC2", CanaryPattern::Byte(0xc2)),
            ("7", CanaryPattern::Byte(7)),
            ("random", CanaryPattern::Random),
        ] {
            settings.set("canary-pattern", text).unwrap();
            assert_eq!(settings.canary_pattern, pattern);
        }
        assert!(settings.set("canary-pattern", "256").is_err());
        assert!(settings.set("canary-size", "8").is_err());
        assert!(settings.set("canary-size", "64k").is_ok());
        assert!(settings.set("canary-budget", "0").is_err());
        assert!(settings.set("canary-budget", "100").is_ok());
        assert!(settings.set("canary-head", "off").is_ok() && !settings.canary_head);
    }

    #[test]
    fn kernel_filters_match_either_name() {
        let only = Settings {
            kernel_name: Some("scale(".into()),
            ..Settings::default()
        };
        assert!(only.selects_kernel("_Z5scalePf", "scale(float*)"));
        assert!(!only.selects_kernel("_Z3addPf", "add(float*)"));
        let not = Settings {
            kernel_name_exclude: Some("_Z3add".into()),
            ..Settings::default()
        };
        assert!(!not.selects_kernel("_Z3addPf", "add(float*)"));
    }
}
