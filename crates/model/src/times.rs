//! How long kernels took: the file of `--time-kernels` (`docs/time-kernels.md`).

use crate::DeviceKind;
use serde::{Deserialize, Serialize};

/// Version of the file.
pub const TIMES_VERSION: u32 = 1;

/// How the files end in which processes of one run leave their
/// [`ProcessTimes`] for the command.
pub const TIMES_SUFFIX: &str = ".times.json";

/// The whole file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TimesFile {
    /// [`TIMES_VERSION`].
    pub version: u32,
    /// Processes that launched kernels.
    pub processes: Vec<ProcessTimes>,
}

/// What a launch ran.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Ran {
    /// The program's kernel, with checking switched off.
    Native,
    /// The program's kernel, whose accesses are in bounds.
    Proved,
    /// The copy with checks, or the program's kernel with checks in the
    /// functions that it calls.
    Checked,
    /// The copy with checks of those accesses only that were not proved in
    /// bounds.
    Residual,
    /// The program's kernel, which could not be checked.
    Unchecked,
}

/// One process.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ProcessTimes {
    /// Its id.
    pub pid: u32,
    /// Its executable.
    pub program: String,
    /// Which device.
    pub device: DeviceKind,
    /// The device's name.
    pub device_name: String,
    /// The most device memory in use by all processes when a kernel was
    /// launched for the first time; `null` if the device did not report it.
    pub memory_used: Option<u64>,
    /// Kernels, with a row for each of the ways in which they ran.
    pub kernels: Vec<KernelTimes>,
    /// Launches of graphs, as a whole.
    pub graphs: Vec<LaunchTimes>,
    /// Launches that became nodes of a graph: their time is the graph's.
    pub captured: u64,
    /// Launches that could not be timed.
    pub not_timed: u64,
}

/// One kernel that ran in one way.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct KernelTimes {
    /// Mangled name.
    pub name: String,
    /// As its author wrote it.
    pub demangled: String,
    /// What ran.
    pub ran: Ran,
    /// Registers of a thread of the code that ran.
    pub registers: Option<u32>,
    /// Bytes of local memory of a thread, which holds what is spilled.
    pub local_bytes: Option<u32>,
    /// Its launches.
    #[serde(flatten)]
    pub times: LaunchTimes,
}

/// Durations of launches, in microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LaunchTimes {
    /// Launches that were timed.
    pub launches: u64,
    /// The sum.
    pub total_us: f64,
    /// The median; of the first 65,536 launches if there are more.
    pub median_us: f64,
    /// The shortest.
    pub min_us: f64,
    /// The longest.
    pub max_us: f64,
}

/// Durations kept for the median.
const KEPT: usize = 1 << 16;

/// Collects [`LaunchTimes`].
#[derive(Clone, Debug, Default)]
pub struct Durations {
    count: u64,
    total: f64,
    min: f64,
    max: f64,
    kept: Vec<f32>,
}

impl Durations {
    /// One launch more.
    pub fn add(&mut self, microseconds: f64) {
        if self.count == 0 || microseconds < self.min {
            self.min = microseconds;
        }
        if self.count == 0 || microseconds > self.max {
            self.max = microseconds;
        }
        self.count += 1;
        self.total += microseconds;
        if self.kept.len() < KEPT {
            self.kept.push(microseconds as f32);
        }
    }

    /// Their times so far.
    pub fn times(&self) -> LaunchTimes {
        let mut sorted = self.kept.clone();
        sorted.sort_by(f32::total_cmp);
        let middle = sorted.len() / 2;
        let median = match sorted.len() {
            0 => 0.0,
            odd if odd % 2 == 1 => f64::from(sorted[middle]),
            _ => (f64::from(sorted[middle - 1]) + f64::from(sorted[middle])) / 2.0,
        };
        LaunchTimes {
            launches: self.count,
            total_us: self.total,
            median_us: median,
            min_us: self.min,
            max_us: self.max,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Durations;

    #[test]
    fn durations_give_median_and_extremes() {
        let mut durations = Durations::default();
        assert_eq!(durations.times().launches, 0);
        for time in [4.0, 1.0, 3.0] {
            durations.add(time);
        }
        let times = durations.times();
        assert_eq!(
            (times.median_us, times.min_us, times.max_us),
            (3.0, 1.0, 4.0)
        );
        durations.add(8.0);
        let times = durations.times();
        assert_eq!(
            (times.median_us, times.total_us, times.launches),
            (3.5, 16.0, 4)
        );
    }
}
