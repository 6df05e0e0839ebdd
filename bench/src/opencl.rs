//! What canary scans cost in OpenCL programs: clARMOR's microbenchmarks (Erb et
//! al., CGO 2017, figures 3 to 8). A kernel that does nothing gets many memory
//! objects, and the time of a launch is compared: native, with scans by the
//! host, and with scans by the device; then for many launches, including the
//! time to build the device's checker, and with the choice by measurement.

use crate::plots::{self, Chart, Line};
use anyhow::{Context, Result, bail, ensure};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use suite::process;
use suite::results::{Provenance, Results, round, today};

/// What to measure, and where.
#[derive(clap::Args)]
pub struct OpenCl {
    /// The program `canaries`.
    #[arg(long, required_unless_present = "draw_only")]
    program: Option<PathBuf>,
    /// The `ringfence` command.
    #[arg(long, required_unless_present = "draw_only")]
    ringfence: Option<PathBuf>,
    /// File for the results.
    #[arg(long)]
    json: PathBuf,
    /// Folder for plots of the results.
    #[arg(long)]
    plots: Option<PathBuf>,
    /// Only plots what the file for the results holds.
    #[arg(long, requires = "plots")]
    draw_only: bool,
    /// Commit of the measured sources.
    #[arg(long, default_value = "")]
    commit: String,
    /// Runs of each program; the least time counts.
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// Launches of which the median is taken.
    #[arg(long, default_value_t = 41)]
    launches: u32,
    /// Launches in a row.
    #[arg(long, default_value_t = 20_000)]
    repeated: u32,
    /// Seconds that one program may take.
    #[arg(long, default_value_t = 120)]
    timeout: u64,
}

/// Kinds of memory objects, as the program calls them.
const KINDS: [&str; 3] = ["buffers", "svm", "images"];

/// How the program is started.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Variant {
    Native,
    Host,
    Device,
    Auto,
}

/// Flat numbers: `KIND_COUNT_{host,device}_us`, the time that a launch with
/// this many objects takes beyond its native time; `KIND_pays_after`: the
/// number of launches after which the device's checker, including its build,
/// has cost less than the host.
type Summary = BTreeMap<String, f64>;

/// One point.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "what", rename_all = "kebab-case")]
enum Row {
    /// A launch with this many objects, in microseconds.
    Checks {
        kind: String,
        count: u32,
        native_us: f64,
        host_us: f64,
        device_us: f64,
    },
    /// This many launches with 8 objects, in milliseconds.
    Repeated {
        kind: String,
        launches: u32,
        native_ms: f64,
        host_ms: f64,
        device_ms: f64,
        auto_ms: f64,
    },
}

/// Measures, writes the results, and plots them.
///
/// # Errors
///
/// The program fails or runs out of time, or a file cannot be written.
pub fn measure(options: &OpenCl) -> Result<()> {
    let results = if options.draw_only {
        let text = std::fs::read_to_string(&options.json)
            .with_context(|| format!("failed to read {}", options.json.display()))?;
        serde_json::from_str(&text)
            .with_context(|| format!("{} holds no such results", options.json.display()))?
    } else {
        let (Some(program), Some(ringfence)) = (&options.program, &options.ringfence) else {
            bail!("program and command are needed");
        };
        let results = Bench {
            options,
            program,
            ringfence,
        }
        .run()?;
        results.write(&options.json)?;
        results
    };
    match &options.plots {
        Some(folder) => draw(&results, &options.json, folder),
        None => Ok(()),
    }
}

struct Bench<'x> {
    options: &'x OpenCl,
    program: &'x Path,
    ringfence: &'x Path,
}

/// What the program printed: device, platform, and a time for each number.
#[derive(Default)]
struct Printed {
    device: String,
    platform: String,
    times: BTreeMap<u32, f64>,
}

impl Bench<'_> {
    fn run(&self) -> Result<Results<Summary, Row>> {
        let mut rows = Vec::new();
        let mut seen = Printed::default();
        for kind in KINDS {
            use Variant::{Auto, Device, Host, Native};
            let mut times = self.least("checks", kind, &[Native, Host, Device], &mut seen)?;
            let mut of = |variant| times.remove(&variant).unwrap_or_default();
            let (native, host, device) = (of(Native), of(Host), of(Device));
            for (count, native_us) in native {
                rows.push(Row::Checks {
                    kind: kind.into(),
                    count,
                    native_us,
                    host_us: at(&host, count)?,
                    device_us: at(&device, count)?,
                });
            }
            let all = [Native, Host, Device, Auto];
            let mut times = self.least("repeated", kind, &all, &mut seen)?;
            let mut of = |variant| times.remove(&variant).unwrap_or_default();
            let (native, host, device, auto) = (of(Native), of(Host), of(Device), of(Auto));
            for (launches, native_ms) in native {
                rows.push(Row::Repeated {
                    kind: kind.into(),
                    launches,
                    native_ms,
                    host_ms: at(&host, launches)?,
                    device_ms: at(&device, launches)?,
                    auto_ms: at(&auto, launches)?,
                });
            }
        }
        Ok(Results {
            summary: summary(&rows),
            provenance: Provenance {
                device: seen.device,
                driver: seen.platform,
                date: today(),
                commit: self.options.commit.clone(),
            },
            rows,
        })
    }

    /// The least time of all rounds, by variant and number.
    fn least(
        &self,
        what: &str,
        kind: &str,
        variants: &[Variant],
        seen: &mut Printed,
    ) -> Result<BTreeMap<Variant, BTreeMap<u32, f64>>> {
        let mut least: BTreeMap<Variant, BTreeMap<u32, f64>> = BTreeMap::new();
        for turn in 0..self.options.rounds.max(1) {
            for index in 0..variants.len() {
                // Each round begins with another one.
                let variant = variants[(index + turn) % variants.len()];
                let printed = self.start(what, kind, variant)?;
                let known = least.entry(variant).or_default();
                for (number, time) in &printed.times {
                    let shortest = known.entry(*number).or_insert(f64::INFINITY);
                    *shortest = shortest.min(*time);
                }
                *seen = printed;
            }
        }
        Ok(least)
    }

    fn start(&self, what: &str, kind: &str, variant: Variant) -> Result<Printed> {
        let checker = match variant {
            Variant::Native => None,
            Variant::Host => Some("host"),
            Variant::Device => Some("device"),
            Variant::Auto => Some("auto"),
        };
        let mut command = match checker {
            None => Command::new(self.program),
            Some(checker) => {
                let mut command = Command::new(self.ringfence);
                command.args([
                    "run",
                    "--protect",
                    "canary",
                    "--canary-checker",
                    checker,
                    "--",
                ]);
                command.arg(self.program);
                command
            }
        };
        let number = match what {
            "repeated" => self.options.repeated,
            _ => self.options.launches,
        };
        command
            .args([what, kind, &number.to_string()])
            .env_remove("RINGFENCE_OPTIONS");
        if what == "repeated" {
            // What is built is built.
            command
                .env("POCL_KERNEL_CACHE", "0")
                .env("CUDA_CACHE_DISABLE", "1");
        }
        let outcome = process::run(&mut command, Duration::from_secs(self.options.timeout))?;
        eprintln!(
            "{what} {kind} {}: {:.1} s",
            checker.unwrap_or("native"),
            outcome.elapsed.as_secs_f64()
        );
        ensure!(
            outcome.code() == Some(0),
            "{command:?} {}: {}",
            outcome.describe(),
            outcome.stderr
        );
        // An empty comparison would be the best result.
        if let Some("host" | "device") = checker {
            let by = format!("verified by the {}", checker.unwrap_or_default());
            let none = outcome.stdout.contains(" none\n");
            ensure!(
                none || outcome.stderr.contains(&by),
                "no canary was {by}: {}",
                outcome.stderr
            );
        }
        read(&outcome.stdout, kind)
    }
}

fn read(text: &str, kind: &str) -> Result<Printed> {
    let mut printed = Printed::default();
    for line in text.lines() {
        if let Some(device) = line.strip_prefix("device ") {
            printed.device = device.to_owned();
        } else if let Some(platform) = line.strip_prefix("platform ") {
            printed.platform = platform.to_owned();
        } else if let Some(rest) = line.strip_prefix(kind) {
            if rest.trim() == "none" {
                continue;
            }
            let (number, time) = rest
                .trim()
                .split_once(' ')
                .context("a line without a time")?;
            printed.times.insert(number.parse()?, time.parse()?);
        } else {
            bail!("the program printed {line}");
        }
    }
    Ok(printed)
}

fn at(times: &BTreeMap<u32, f64>, number: u32) -> Result<f64> {
    times
        .get(&number)
        .copied()
        .with_context(|| format!("one variant has no time for {number}"))
}

fn summary(rows: &[Row]) -> Summary {
    let mut summary = Summary::new();
    for row in rows {
        match row {
            Row::Checks {
                kind,
                count,
                native_us,
                host_us,
                device_us,
            } => {
                summary.insert(
                    format!("{kind}_{count}_host_us"),
                    round(host_us - native_us),
                );
                summary.insert(
                    format!("{kind}_{count}_device_us"),
                    round(device_us - native_us),
                );
            }
            Row::Repeated {
                kind,
                launches,
                host_ms,
                device_ms,
                ..
            } => {
                if device_ms < host_ms {
                    let first = summary
                        .entry(format!("{kind}_pays_after"))
                        .or_insert(f64::INFINITY);
                    *first = first.min(f64::from(*launches));
                }
            }
        }
    }
    summary
}

fn draw(results: &Results<Summary, Row>, json: &Path, folder: &Path) -> Result<()> {
    let name = json
        .file_stem()
        .context("a file without a name")?
        .to_string_lossy();
    let device = &results.provenance.device;
    let mut checks = Vec::new();
    let mut repeated = Vec::new();
    for kind in KINDS {
        let mut launch: [Vec<(f64, f64)>; 2] = Default::default();
        let mut total: [Vec<(f64, f64)>; 3] = Default::default();
        for row in &results.rows {
            match row {
                Row::Checks {
                    kind: of,
                    count,
                    native_us,
                    host_us,
                    device_us,
                } if of == kind => {
                    for (points, time) in launch.iter_mut().zip([host_us, device_us]) {
                        points.push((f64::from(*count), time - native_us));
                    }
                }
                Row::Repeated {
                    kind: of,
                    launches,
                    native_ms,
                    host_ms,
                    device_ms,
                    auto_ms,
                } if of == kind => {
                    for (points, time) in total.iter_mut().zip([host_ms, device_ms, auto_ms]) {
                        points.push((f64::from(*launches), time - native_ms));
                    }
                }
                Row::Checks { .. } | Row::Repeated { .. } => {}
            }
        }
        if launch[0].is_empty() {
            continue;
        }
        let lines = |names: &[&'static str], points: Vec<Vec<(f64, f64)>>| -> Vec<Line> {
            let both = names.iter().zip(points);
            both.map(|(name, points)| Line { name, points }).collect()
        };
        checks.push(Chart {
            title: format!("{kind}: µs added to a launch"),
            across: format!("{kind} of a launch"),
            lines: lines(&["host", "device"], launch.into()),
        });
        repeated.push(Chart {
            title: format!("8 {kind}: ms added in all"),
            across: "launches".into(),
            lines: lines(&["host", "device", "auto"], total.into()),
        });
    }
    std::fs::create_dir_all(folder)
        .with_context(|| format!("failed to make {}", folder.display()))?;
    plots::draw(&folder.join(format!("{name}-checks.svg")), device, &checks)?;
    plots::draw(
        &folder.join(format!("{name}-repeated.svg")),
        device,
        &repeated,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_program_prints_is_read() {
        let printed = read(
            "device a b\nplatform OpenCL 3.0 x\nsvm 1 2.50\nsvm 16 9.75\n",
            "svm",
        )
        .unwrap();
        assert_eq!(printed.device, "a b");
        assert_eq!(printed.times, BTreeMap::from([(1, 2.5), (16, 9.75)]));
        assert!(
            read("device a\nimages none\n", "images")
                .unwrap()
                .times
                .is_empty()
        );
        assert!(read("something else\n", "images").is_err());
        assert!(read("images 7\n", "images").is_err());
    }

    #[test]
    fn the_summary_says_what_is_added_and_when_the_device_pays() {
        let repeated = |launches, device_ms| Row::Repeated {
            kind: "svm".into(),
            launches,
            native_ms: 1.0,
            host_ms: 5.0 * f64::from(launches),
            device_ms,
            auto_ms: 1.0,
        };
        let rows = [
            Row::Checks {
                kind: "svm".into(),
                count: 8,
                native_us: 2.0,
                host_us: 12.5,
                device_us: 5.0,
            },
            repeated(1, 90.0),
            repeated(20, 95.0),
            repeated(50, 99.0),
        ];
        let summary = summary(&rows);
        assert_eq!(summary["svm_8_host_us"], 10.5);
        assert_eq!(summary["svm_8_device_us"], 3.0);
        assert_eq!(summary["svm_pays_after"], 20.0);
    }
}
