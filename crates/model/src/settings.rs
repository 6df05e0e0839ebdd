//! What the user asked for, resolved. One declaration of every option that
//! the library reads; the command line and `RINGFENCE_OPTIONS` both end here.

use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// Which device the program gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DeviceKind {
    /// The real driver.
    Gpu,
    /// The CPU device that executes PTX.
    Cpu,
}

/// Settings of one run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "kebab-case", deny_unknown_fields)]
pub struct Settings {
    /// `None`: the GPU when a driver answers, else the CPU device.
    pub device: Option<DeviceKind>,
    /// Instrument kernels; off, the shim only forwards (identity runs).
    pub check: bool,
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
    /// Seed of the CPU device's warp schedule.
    pub seed: u64,
    /// Worker threads of the CPU device; 0 is one a core.
    pub cpu_threads: u32,
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
            log_file: None,
            print_limit: 100,
            kernel_name: None,
            kernel_name_exclude: None,
            launch_skip: 0,
            launch_count: 0,
            num_callers_host: 16,
            seed: 0,
            cpu_threads: 0,
            session: None,
            driver: None,
        }
    }
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
