//! What Ringfence costs in third-party programs: the time of each kernel on the
//! device, native, by default and with every launch checked.
//!
//! All three come from `--time-kernels`, native with `--no-check`, so the same
//! is measured in the same way. Variants run in turn, a round at a time.

use super::build::Built;
use super::collection::Program;
use super::run::{End, Runner};
use crate::process;
use crate::results::{Provenance, Results, today};
use anyhow::{Context, Result, ensure};
use model::{KernelTimes, Ran, TimesFile};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// The variant without checks.
pub const NATIVE: &str = "native";

/// What is measured: names and options of `ringfence run`.
pub const MEASURED: [(&str, &[&str]); 3] = [
    (NATIVE, &["--no-check"]),
    ("default", &[]),
    ("checked", &["--prove", "off"]),
];

/// What is measured besides, on request.
pub const ALSO: [(&str, &[&str]); 2] = [
    ("canary", &["--protect", "canary"]),
    ("watch", &["--protect", "canary,watch"]),
];

/// Kernels that take less natively are left out of the summary: what the
/// device does between two events is too much of what is measured.
pub const SHORTEST_US: f64 = 10.0;

/// One run of one program, as it was measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// The program.
    pub program: String,
    /// Its arguments.
    pub arguments: Vec<String>,
    /// Which variant.
    pub variant: String,
    /// Round, from 0.
    pub round: usize,
    /// How it ended.
    pub end: End,
    /// Wall seconds.
    pub seconds: f64,
    /// The device.
    pub device: String,
    /// The most memory of the device in use.
    pub memory: Option<u64>,
    /// The kernels.
    pub kernels: Vec<KernelTimes>,
}

/// One kernel of one program.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct KernelRow {
    /// The kernel.
    pub kernel: String,
    /// Launches that were timed, natively.
    pub launches: u64,
    /// Microseconds of a launch, natively.
    pub native_us: f64,
    /// By default.
    pub default_us: f64,
    /// With every launch checked.
    pub checked_us: f64,
    /// By default, over native.
    pub ratio: f64,
    /// With every launch checked, over native.
    pub checked_ratio: f64,
    /// Launches that ran the program's own kernel by default, as it was proved
    /// to be in bounds.
    pub proved: u64,
    /// Launches that ran the copy by default in which accesses that are proved
    /// carry no checks.
    #[serde(default)]
    pub residual: u64,
    /// Registers of a thread of that copy, if it ran.
    #[serde(default)]
    pub residual_registers: Option<u32>,
    /// Registers of a thread: natively, and of the copy with checks.
    pub registers: [Option<u32>; 2],
    /// Bytes of local memory of a thread, the same.
    pub local_bytes: [Option<u32>; 2],
    /// Whether it counts for the summary.
    pub counts: bool,
}

/// One program.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ProgramRow {
    /// The program.
    pub program: String,
    /// Its arguments.
    pub arguments: Vec<String>,
    /// Rounds.
    pub rounds: usize,
    /// Bytes of the device's memory in use, by variant.
    pub memory: BTreeMap<String, u64>,
    /// Its kernels.
    pub kernels: Vec<KernelRow>,
}

/// Flat numbers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// Programs with a kernel that counts.
    pub programs: usize,
    /// Kernels that count.
    pub kernels: usize,
    /// Kernels that are too short to count.
    pub short_kernels: usize,
    /// Kernels without code that can be checked, which do not count.
    pub unchecked_kernels: usize,
    /// Geometric mean of kernel times over native.
    pub geomean: f64,
    /// Nine of ten kernels take at most so much.
    pub p90: f64,
    /// The most.
    pub worst: f64,
    /// `geomean` and `p90` over the half of the programs whose kernels may be looked at
    /// to make Ringfence faster ([`is_looked_at`]).
    #[serde(default)]
    pub looked_at_geomean: f64,
    /// See `looked_at_geomean`.
    #[serde(default)]
    pub looked_at_p90: f64,
    /// And over the other half, of which only these numbers are read.
    #[serde(default)]
    pub other_geomean: f64,
    /// See `other_geomean`.
    #[serde(default)]
    pub other_p90: f64,
    /// Part of the kernels whose launches all ran the program's own code.
    pub native_share: f64,
    /// Part of the kernels whose other launches all carried only the checks that
    /// could not be proved.
    #[serde(default)]
    pub residual_share: f64,
    /// Part of the kernels of which some launch carried all checks.
    #[serde(default)]
    pub full_share: f64,
    /// As `geomean`, with every launch checked.
    pub checked_geomean: f64,
    /// As `p90`.
    pub checked_p90: f64,
    /// As `worst`.
    pub checked_worst: f64,
    /// Geometric mean over programs of the time of all their kernels.
    pub programs_geomean: f64,
    /// The same with every launch checked.
    pub checked_programs_geomean: f64,
    /// Mean of the registers of a thread, natively.
    pub registers: f64,
    /// And with checks.
    pub checked_registers: f64,
    /// Kernels that have local memory with checks and none natively.
    pub spilling_kernels: usize,
    /// Geometric mean of the device's memory in use, over native.
    pub memory_geomean: f64,
}

/// The result file.
pub type ForeignResults = Results<Summary, ProgramRow>;

/// Whether a program is in the half that may be looked at: what helps the programs of
/// this half alone shows as a difference between the halves. By a hash of the name
/// (FNV-1a, whether it is even), so that it does not depend on the other programs.
pub fn is_looked_at(program: &str) -> bool {
    let hash = program
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)
        });
    hash.is_multiple_of(2)
}

/// Runs a program once in one variant.
///
/// # Errors
///
/// It cannot be started, or what it wrote cannot be read.
pub fn measure(
    runner: &Runner,
    program: &Program,
    built: &Built,
    arguments: &[String],
    (variant, options): (&str, &[&str]),
    round: usize,
) -> Result<Sample> {
    let scratch = &built.scratch;
    let file = scratch.join(format!("{variant}.times.json"));
    if file.exists() {
        std::fs::remove_file(&file)?;
    }
    let file_option = file.display().to_string();
    let mut options = options.to_vec();
    options.extend(["--error-exitcode", "0", "--time-kernels", &file_option]);
    let log = scratch.join(format!("{variant}.log"));
    let mut command = runner.under(&options, built, arguments, &log)?;
    // Code is loaded with its module, not within the first launch.
    command.env("CUDA_MODULE_LOADING", "EAGER");
    let outcome = process::run(&mut command, runner.limit)?;
    let times: TimesFile = match std::fs::read_to_string(&file) {
        Ok(text) if !text.is_empty() => serde_json::from_str(&text)
            .with_context(|| format!("{} is not of the form that is known", file.display()))?,
        _ => TimesFile {
            version: model::TIMES_VERSION,
            processes: Vec::new(),
        },
    };
    let first = times.processes.first();
    Ok(Sample {
        program: program.name.clone(),
        arguments: arguments.to_vec(),
        variant: variant.to_owned(),
        round,
        end: End::of(&outcome),
        seconds: outcome.elapsed.as_secs_f64(),
        device: first.map(|one| one.device_name.clone()).unwrap_or_default(),
        memory: first.and_then(|process| process.memory_used),
        kernels: times
            .processes
            .into_iter()
            .flat_map(|process| process.kernels)
            .collect(),
    })
}

/// Puts samples together.
///
/// # Errors
///
/// There is no program with all that is needed.
pub fn summarize(samples: &[Sample], commit: String) -> Result<ForeignResults> {
    let mut by_program: BTreeMap<&str, Vec<&Sample>> = BTreeMap::new();
    for sample in samples {
        by_program.entry(&sample.program).or_default().push(sample);
    }
    let rows: Vec<ProgramRow> = by_program
        .into_iter()
        .filter_map(|(program, samples)| program_row(program, &samples))
        .collect();
    ensure!(!rows.is_empty(), "no program was measured in every variant");
    let device = samples.iter().map(|sample| sample.device.as_str());
    Ok(Results {
        summary: summary(&rows),
        provenance: Provenance {
            device: device
                .max_by_key(|name| name.len())
                .unwrap_or_default()
                .to_owned(),
            driver: driver(),
            date: today(),
            commit,
        },
        rows,
    })
}

/// The GPU's driver, as nvidia-smi gives it; empty where it does not.
fn driver() -> String {
    let mut command = std::process::Command::new("nvidia-smi");
    command.args(["--query-gpu=driver_version", "--format=csv,noheader"]);
    process::run(&mut command, std::time::Duration::from_secs(30))
        .ok()
        .and_then(|outcome| outcome.stdout.lines().next().map(str::to_owned))
        .unwrap_or_default()
}

/// `None` if a variant is missing or ended in another way than the native one.
fn program_row(program: &str, samples: &[&Sample]) -> Option<ProgramRow> {
    let of = |variant: &str| -> Vec<&Sample> {
        let these = samples.iter().filter(|sample| sample.variant == variant);
        these.copied().collect()
    };
    let measured = MEASURED.map(|(variant, _)| of(variant));
    let [native, default, checked] = &measured;
    let first = native.first()?;
    let arguments = &first.arguments;
    let alike = measured.iter().flatten().all(|sample| {
        sample.end == first.end && sample.end != End::Hang && sample.arguments == *arguments
    });
    if !alike || default.is_empty() || checked.is_empty() {
        return None;
    }
    let names: BTreeSet<&str> = native
        .iter()
        .flat_map(|sample| &sample.kernels)
        .map(|kernel| kernel.name.as_str())
        .collect();
    let kernels: Vec<KernelRow> = names
        .into_iter()
        .filter_map(|name| kernel_row(name, native, default, checked))
        .collect();
    let memory = MEASURED.iter().chain(&ALSO).filter_map(|(variant, _)| {
        let most = of(variant)
            .iter()
            .filter_map(|sample| sample.memory)
            .max()?;
        Some(((*variant).to_owned(), most))
    });
    Some(ProgramRow {
        program: program.to_owned(),
        arguments: arguments.clone(),
        rounds: native.len(),
        memory: memory.collect(),
        kernels,
    })
}

fn kernel_row(
    name: &str,
    native: &[&Sample],
    default: &[&Sample],
    checked: &[&Sample],
) -> Option<KernelRow> {
    let rows = |sample: &Sample| -> Vec<KernelTimes> {
        let these = sample.kernels.iter();
        let these = these.filter(|kernel| kernel.name == name && kernel.times.launches > 0);
        these.cloned().collect()
    };
    let time = |samples: &[&Sample]| {
        let all = samples.iter().filter_map(|sample| launch_us(&rows(sample)));
        median(all.collect())
    };
    let first = |samples: &[&Sample]| {
        samples
            .first()
            .map(|sample| rows(sample))
            .unwrap_or_default()
    };
    let (ran_native, ran_default, ran_checked) = (first(native), first(default), first(checked));
    let launches = |rows: &[KernelTimes], ran: Option<Ran>| -> u64 {
        let these = rows
            .iter()
            .filter(|row| ran.is_none_or(|ran| row.ran == ran));
        these.map(|row| row.times.launches).sum()
    };
    let (native_us, default_us, checked_us) = (time(native)?, time(default)?, time(checked)?);
    let code = |rows: &[KernelTimes], ran: Ran| rows.iter().find(|row| row.ran == ran).cloned();
    let own = code(&ran_native, Ran::Native);
    let copy = code(&ran_checked, Ran::Checked);
    // A kernel without accesses has no copy, and is proved even so.
    let can_be_checked = !ran_checked.iter().any(|row| row.ran == Ran::Unchecked);
    Some(KernelRow {
        kernel: ran_native.first()?.demangled.clone(),
        launches: launches(&ran_native, None),
        native_us: round(native_us),
        default_us: round(default_us),
        checked_us: round(checked_us),
        ratio: round(default_us / native_us),
        checked_ratio: round(checked_us / native_us),
        proved: launches(&ran_default, Some(Ran::Proved)),
        residual: launches(&ran_default, Some(Ran::Residual)),
        residual_registers: code(&ran_default, Ran::Residual).and_then(|row| row.registers),
        registers: [
            own.as_ref().and_then(|row| row.registers),
            copy.as_ref().and_then(|row| row.registers),
        ],
        local_bytes: [
            own.and_then(|row| row.local_bytes),
            copy.and_then(|row| row.local_bytes),
        ],
        counts: can_be_checked && native_us >= SHORTEST_US,
    })
}

/// Microseconds of a launch: the median of each way in which it ran, by how
/// often it did.
fn launch_us(rows: &[KernelTimes]) -> Option<f64> {
    let launches: u64 = rows.iter().map(|row| row.times.launches).sum();
    let total: f64 = rows
        .iter()
        .map(|row| row.times.median_us * row.times.launches as f64)
        .sum();
    (launches > 0).then(|| total / launches as f64)
}

fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    values.get(values.len().checked_sub(1)? / 2).copied()
}

fn round(value: f64) -> f64 {
    (value * 1e4).round() / 1e4
}

pub(super) fn geomean(values: &[f64]) -> f64 {
    if values.is_empty() {
        return 0.0;
    }
    let sum: f64 = values.iter().map(|value| value.ln()).sum();
    round((sum / values.len() as f64).exp())
}

/// The value that `share` of all do not exceed.
pub(super) fn quantile(values: &[f64], share: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let position = (share * sorted.len() as f64).ceil() as usize;
    sorted.get(position.max(1) - 1).copied().unwrap_or_default()
}

fn mean(values: &[f64]) -> f64 {
    if values.is_empty() {
        return 0.0;
    }
    round(values.iter().sum::<f64>() / values.len() as f64)
}

/// Whether all launches ran the program's own code.
fn is_native(kernel: &KernelRow) -> bool {
    kernel.proved >= kernel.launches
}

/// Whether some launch carried all checks.
fn is_full(kernel: &KernelRow) -> bool {
    kernel.proved + kernel.residual < kernel.launches
}

fn summary(rows: &[ProgramRow]) -> Summary {
    let all = || rows.iter().flat_map(|row| &row.kernels);
    let counted: Vec<&KernelRow> = all().filter(|kernel| kernel.counts).collect();
    let ratios: Vec<f64> = counted.iter().map(|kernel| kernel.ratio).collect();
    let checked: Vec<f64> = counted.iter().map(|kernel| kernel.checked_ratio).collect();
    let half = |looked_at: bool| -> Vec<f64> {
        let half = rows
            .iter()
            .filter(|row| is_looked_at(&row.program) == looked_at);
        let kernels = half.flat_map(|row| &row.kernels);
        let counted = kernels.filter(|kernel| kernel.counts);
        counted.map(|kernel| kernel.ratio).collect()
    };
    let (looked_at, other) = (half(true), half(false));
    let share = |of: fn(&KernelRow) -> bool| {
        let these = counted.iter().filter(|kernel| of(kernel)).count();
        round(these as f64 / counted.len().max(1) as f64)
    };
    let short = all().filter(|kernel| !kernel.counts && kernel.native_us < SHORTEST_US);
    let programs: Vec<&ProgramRow> = rows
        .iter()
        .filter(|row| row.kernels.iter().any(|kernel| kernel.counts))
        .collect();
    let whole = |of: fn(&KernelRow) -> f64| -> Vec<f64> {
        let total = |row: &ProgramRow, of: &dyn Fn(&KernelRow) -> f64| -> f64 {
            let kernels = row.kernels.iter().filter(|kernel| kernel.counts);
            kernels
                .map(|kernel| of(kernel) * kernel.launches as f64)
                .sum()
        };
        programs
            .iter()
            .map(|row| total(row, &of) / total(row, &|kernel| kernel.native_us))
            .collect()
    };
    let both: Vec<[u32; 2]> = counted
        .iter()
        .filter_map(|kernel| Some([kernel.registers[0]?, kernel.registers[1]?]))
        .collect();
    let registers =
        |at: usize| -> Vec<f64> { both.iter().map(|pair| f64::from(pair[at])).collect() };
    let memory: Vec<f64> = programs
        .iter()
        .filter_map(|row| {
            let native = *row.memory.get("native")?;
            let default = *row.memory.get("default")?;
            (native > 0).then(|| default as f64 / native as f64)
        })
        .collect();
    Summary {
        programs: programs.len(),
        kernels: counted.len(),
        short_kernels: short.count(),
        unchecked_kernels: all()
            .filter(|kernel| !kernel.counts && kernel.native_us >= SHORTEST_US)
            .count(),
        geomean: geomean(&ratios),
        p90: quantile(&ratios, 0.9),
        worst: quantile(&ratios, 1.0),
        looked_at_geomean: geomean(&looked_at),
        looked_at_p90: quantile(&looked_at, 0.9),
        other_geomean: geomean(&other),
        other_p90: quantile(&other, 0.9),
        native_share: share(is_native),
        residual_share: share(|kernel| !is_native(kernel) && !is_full(kernel)),
        full_share: share(is_full),
        checked_geomean: geomean(&checked),
        checked_p90: quantile(&checked, 0.9),
        checked_worst: quantile(&checked, 1.0),
        programs_geomean: geomean(&whole(|kernel| kernel.default_us)),
        checked_programs_geomean: geomean(&whole(|kernel| kernel.checked_us)),
        registers: mean(&registers(0)),
        checked_registers: mean(&registers(1)),
        spilling_kernels: counted
            .iter()
            .filter(|kernel| {
                kernel.local_bytes[0] == Some(0) && kernel.local_bytes[1].is_some_and(|b| b > 0)
            })
            .count(),
        memory_geomean: geomean(&memory),
    }
}

/// Samples of earlier calls.
///
/// # Errors
///
/// The file exists and cannot be read.
pub fn read(path: &Path) -> Result<Vec<Sample>> {
    super::read_lines(path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::LaunchTimes;

    fn sample(variant: &str, round: usize, kernels: &[(&str, Ran, u64, f64)]) -> Sample {
        let kernels = kernels.iter().map(|(name, ran, launches, us)| KernelTimes {
            name: (*name).into(),
            demangled: format!("{name}()"),
            ran: *ran,
            registers: Some(if *ran == Ran::Checked { 40 } else { 20 }),
            local_bytes: Some(0),
            times: LaunchTimes {
                launches: *launches,
                median_us: *us,
                ..LaunchTimes::default()
            },
        });
        Sample {
            program: "p".into(),
            arguments: vec![],
            variant: variant.into(),
            round,
            end: End::Code(0),
            seconds: 1.0,
            device: "a GPU".into(),
            memory: Some(if variant == "native" { 100 } else { 150 }),
            kernels: kernels.collect(),
        }
    }

    fn samples() -> Vec<Sample> {
        vec![
            sample(
                "native",
                0,
                &[("a", Ran::Native, 4, 100.0), ("b", Ran::Native, 1, 2.0)],
            ),
            sample(
                "default",
                0,
                &[
                    ("a", Ran::Proved, 3, 100.0),
                    ("a", Ran::Checked, 1, 200.0),
                    ("b", Ran::Proved, 1, 2.0),
                ],
            ),
            sample(
                "checked",
                0,
                &[("a", Ran::Checked, 4, 200.0), ("b", Ran::Checked, 1, 3.0)],
            ),
        ]
    }

    #[test]
    fn ratios_weigh_what_ran() {
        let results = summarize(&samples(), "c".into()).unwrap();
        let summary = &results.summary;
        assert_eq!(
            (summary.programs, summary.kernels, summary.short_kernels),
            (1, 1, 1)
        );
        assert_eq!((summary.geomean, summary.checked_geomean), (1.25, 2.0));
        assert_eq!((summary.worst, summary.checked_p90), (1.25, 2.0));
        // One of its launches was not the program's own.
        assert!(summary.native_share.abs() < 1e-9);
        assert_eq!((summary.registers, summary.checked_registers), (20.0, 40.0));
        assert_eq!(summary.memory_geomean, 1.5);
        assert_eq!(results.rows[0].kernels[0].proved, 3);
    }

    #[test]
    fn kernels_are_told_apart_by_the_checks_that_their_launches_carried() {
        let shares = |ran: &[(&str, Ran, u64, f64)]| {
            let mut all = samples();
            all[1] = sample("default", 0, ran);
            let results = summarize(&all, String::new()).unwrap();
            let summary = results.summary;
            let row = &results.rows[0].kernels[0];
            let shares = [
                summary.native_share,
                summary.residual_share,
                summary.full_share,
            ];
            (shares, row.residual, row.residual_registers)
        };
        let proved = ("a", Ran::Proved, 3, 100.0);
        assert_eq!(
            shares(&[proved, ("a", Ran::Checked, 1, 200.0)]),
            ([0.0, 0.0, 1.0], 0, None)
        );
        assert_eq!(
            shares(&[proved, ("a", Ran::Residual, 1, 120.0)]),
            ([0.0, 1.0, 0.0], 1, Some(20))
        );
        assert_eq!(
            shares(&[("a", Ran::Proved, 4, 100.0)]),
            ([1.0, 0.0, 0.0], 0, None)
        );
    }

    #[test]
    fn a_program_is_in_one_half_whatever_else_is_there() {
        // FNV-1a of "a" is af63_dc4c_8601_ec8c, of "b" af63_df4c_8601_f1a5.
        assert!(is_looked_at("a") && !is_looked_at("b"));
        let mut all = samples();
        let of = |samples: &[Sample]| summarize(samples, String::new()).unwrap().summary;
        for sample in &mut all {
            sample.program = "a".into();
        }
        let alone = of(&all);
        assert_eq!((alone.looked_at_geomean, alone.other_geomean), (1.25, 0.0));
        let mut others = samples();
        for sample in &mut others {
            sample.program = "b".into();
        }
        others[1] = Sample {
            program: "b".into(),
            ..sample("default", 0, &[("a", Ran::Proved, 4, 100.0)])
        };
        all.extend(others);
        let both = of(&all);
        assert_eq!((both.looked_at_geomean, both.other_geomean), (1.25, 1.0));
        assert_eq!((both.looked_at_p90, both.other_p90), (1.25, 1.0));
    }

    #[test]
    fn the_median_of_the_rounds_counts() {
        let mut all = samples();
        for (round, us) in [(1, 110.0), (2, 400.0)] {
            all.push(sample("native", round, &[("a", Ran::Native, 4, us)]));
        }
        let row = &summarize(&all, String::new()).unwrap().rows[0];
        assert_eq!((row.rounds, row.kernels[0].native_us), (3, 110.0));
    }

    #[test]
    fn a_program_that_ends_in_another_way_is_left_out() {
        let mut all = samples();
        all[2].end = End::Code(1);
        assert!(summarize(&all, String::new()).is_err());
        assert!(summarize(&samples()[..2], String::new()).is_err());
    }

    #[test]
    fn a_row_without_launches_says_nothing() {
        let mut all = samples();
        let failed = sample("checked", 0, &[("a", Ran::Unchecked, 0, 0.0)]);
        all[2].kernels.extend(failed.kernels);
        let summary = summarize(&all, String::new()).unwrap().summary;
        assert_eq!((summary.kernels, summary.unchecked_kernels), (1, 0));
    }

    #[test]
    fn a_kernel_that_cannot_be_checked_does_not_count() {
        let mut all = samples();
        all[2].kernels[0].ran = Ran::Unchecked;
        let summary = summarize(&all, String::new()).unwrap().summary;
        assert_eq!((summary.kernels, summary.unchecked_kernels), (0, 1));
    }
}
