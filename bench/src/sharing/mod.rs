//! What sharing a device costs: processes under time slicing, under NVIDIA's
//! Multi-Process Service, and as tenants of `ringfence manager`.
//!
//! Each program first runs alone, for as long as it is asked to, which says how
//! many rounds it makes in that time; in each workload it makes as many. What is
//! compared is the makespan: from when all processes, which are ready, are let
//! begin, until the last one has ended. A program that computes something else
//! than alone is an error of its workload.

mod contexts;
mod host;
mod mps;
mod together;
mod workloads;

pub mod calls;

use crate::options::{Places, device_or_processor};
use anyhow::{Context, Result, bail, ensure};
use host::{Host, Way};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Instant;
use suite::results::{geometric_mean, median, round};
use together::{Ended, Together};
use workloads::{WORKLOADS, Workload};

/// The options.
#[derive(clap::Args)]
pub struct Sharing {
    #[command(flatten)]
    places: Places,
    /// `gpu`, or `cpu` to try the bench itself.
    #[arg(long, default_value = "gpu")]
    device: String,
    /// Seconds that each program takes alone.
    #[arg(long, default_value_t = 5.0)]
    seconds: f64,
    /// How often each workload runs in each way.
    #[arg(long, default_value_t = 1)]
    repetitions: usize,
    /// Only these workloads, by their letters.
    #[arg(long, default_value = "ABCDEFGHIJKLMNOP")]
    workloads: String,
    /// Results of the same commit on such a device, which are taken as they are: what
    /// they hold is not measured again.
    #[arg(long, value_name = "JSON")]
    with: Vec<PathBuf>,
    /// Does not measure the memory of contexts.
    #[arg(long)]
    no_contexts: bool,
    /// Device memory of each tenant, with a suffix.
    #[arg(long, default_value = "1g")]
    memory: String,
}

impl Sharing {
    fn is_on_gpu(&self) -> bool {
        self.device == "gpu"
    }

    fn is_small(&self) -> bool {
        !self.is_on_gpu()
    }

    /// The ways to share this device.
    fn ways(&self) -> &'static [Way] {
        match self.is_on_gpu() {
            true => &[Way::TimeSlicing, Way::Mps, Way::Tenants],
            false => &[Way::TimeSlicing, Way::Tenants],
        }
    }

    /// Starts processes in one way, and lets them make their rounds; their rounds
    /// are options.
    fn run(&self, way: Way, processes: &[(&str, [String; 2])]) -> Result<together::Run> {
        let host = Host::start(self, way, &self.memory)?;
        let commands = processes.iter().map(|(work, rounds)| {
            let mut command = host.command(work);
            command.args(rounds);
            command
        });
        let run = Together::start(commands.collect(), self.places.timeout())
            .and_then(Together::run)
            .map_err(|error| host.explain(error));
        run.with_context(|| way.name())
    }

    fn device(&self) -> (String, String) {
        device_or_processor(self.is_on_gpu())
    }
}

/// A row of the results.
type Row = Map<String, Value>;

/// Measures everything; writes the results after each workload.
///
/// # Errors
///
/// The programs do not run alone, the results cannot be written; or, after all
/// has been measured, something of it could not be.
pub fn measure(sharing: &Sharing) -> Result<()> {
    let mut rows = earlier(sharing)?;
    let is_there =
        |rows: &[Row], key: &str, value: &Value| rows.iter().any(|row| row.get(key) == Some(value));
    let wanted: Vec<&Workload> = WORKLOADS
        .iter()
        .filter(|workload| sharing.workloads.contains(workload.name))
        .filter(|workload| !is_there(&rows, "workload", &json!(workload.name)))
        .collect();
    ensure!(
        !wanted.is_empty() || !rows.is_empty(),
        "no workload is asked for"
    );
    let start = Instant::now();
    let mut alone = BTreeMap::new();
    for work in wanted.iter().flat_map(|workload| workload.processes()) {
        if !alone.contains_key(work) {
            let ended = calibrate(sharing, work).with_context(|| format!("{work} alone"))?;
            println!("{work:<8} alone: {ended:?}");
            alone.insert(work, ended);
        }
    }
    let mut failures = Vec::new();
    for (turn, workload) in wanted.iter().enumerate() {
        let row = measure_workload(sharing, workload, turn, &alone, &mut failures);
        println!(
            "{:>5.1} s  {}",
            start.elapsed().as_secs_f64(),
            serde_json::to_string(&row)?
        );
        rows.push(row);
        write(sharing, &rows, &failures)?;
    }
    if sharing.is_on_gpu() && !sharing.no_contexts {
        for count in contexts::COUNTS {
            if is_there(&rows, "contexts", &json!(count)) {
                continue;
            }
            rows.push(measure_contexts(sharing, count, &mut failures));
            write(sharing, &rows, &failures)?;
        }
    }
    write(sharing, &rows, &failures)?;
    println!(
        "{}",
        serde_json::to_string_pretty(&summary(&rows, failures.len()))?
    );
    if failures.is_empty() {
        return Ok(());
    }
    bail!("not all could be measured: {}", failures.join("; "));
}

/// What results of earlier runs hold.
fn earlier(sharing: &Sharing) -> Result<Vec<Row>> {
    let mut all = Vec::new();
    if !sharing.with.is_empty() {
        let device = sharing.device();
        for path in &sharing.with {
            all.extend(sharing.places.earlier::<Row>(path, &device)?);
        }
    }
    Ok(all)
}

/// Writes the results, the workloads by their letters.
fn write(sharing: &Sharing, rows: &[Row], failures: &[String]) -> Result<()> {
    let mut rows = rows.to_vec();
    // (What has no letter stays behind them, in the order in which it was measured.)
    rows.sort_by_key(|row| match row.get("workload").and_then(Value::as_str) {
        Some(letter) => (0, letter.to_owned()),
        None => (1, String::new()),
    });
    let summary = summary(&rows, failures.len());
    sharing.places.write_of(sharing.device(), summary, rows)
}

/// A program alone, for the wanted time.
fn calibrate(sharing: &Sharing, work: &str) -> Result<Ended> {
    let seconds = sharing.seconds.to_string();
    let run = sharing.run(Way::TimeSlicing, &[(work, ["--seconds".into(), seconds])])?;
    let ended = run.ended.into_iter().next();
    ended.context("it said nothing")
}

/// One workload in all ways, in turn. What fails goes to `failures`, and its
/// numbers are missing.
fn measure_workload(
    sharing: &Sharing,
    workload: &Workload,
    turn: usize,
    alone: &BTreeMap<&str, Ended>,
    failures: &mut Vec<String>,
) -> Row {
    let processes: Vec<&str> = workload.processes().collect();
    let options: Vec<(&str, [String; 2])> = processes
        .iter()
        .map(|work| {
            (
                *work,
                ["--rounds".to_owned(), alone[work].rounds.to_string()],
            )
        })
        .collect();
    let in_sequence: f64 = processes.iter().map(|work| alone[work].seconds).sum();
    let mut row = Map::new();
    row.insert("workload".into(), json!(workload.name));
    row.insert("programs".into(), json!(workload.describe()));
    row.insert("processes".into(), json!(processes.len()));
    row.insert("in_sequence_s".into(), json!(round(in_sequence)));
    let ways = sharing.ways();
    let mut runs: BTreeMap<Way, Vec<together::Run>> = BTreeMap::new();
    let mut failed = Vec::new();
    for repetition in 0..sharing.repetitions {
        for place in 0..ways.len() {
            let way = ways[(place + turn + repetition) % ways.len()];
            if failed.contains(&way) {
                continue;
            }
            let run = sharing
                .run(way, &options)
                .and_then(|run| same(&processes, alone, &run.ended).map(|()| run));
            match run {
                Ok(run) => runs.entry(way).or_default().push(run),
                Err(error) => {
                    let text = format!("workload {}: {error:#}", workload.name);
                    eprintln!("ringfence-bench: {text}");
                    failures.push(text);
                    failed.push(way);
                }
            }
        }
    }
    for (way, runs) in runs {
        let of = |number: &dyn Fn(&together::Run) -> f64| {
            let mut numbers: Vec<f64> = runs.iter().map(number).collect();
            median(&mut numbers).map(round)
        };
        let name = way.name();
        if !failed.contains(&way) {
            row.insert(format!("{name}_s"), json!(of(&|run| run.makespan)));
            row.insert(format!("{name}_start_s"), json!(of(&|run| run.start)));
        }
    }
    for other in ["mps", "time_slicing"] {
        let number = |name: &str| row.get(&format!("{name}_s")).and_then(Value::as_f64);
        if let (Some(tenants), Some(other_s)) = (number("tenants"), number(other)) {
            row.insert(format!("vs_{other}"), json!(round(tenants / other_s)));
        }
    }
    row
}

/// Whether the processes have computed what they compute alone.
fn same(processes: &[&str], alone: &BTreeMap<&str, Ended>, ended: &[Ended]) -> Result<()> {
    for (work, ended) in processes.iter().zip(ended) {
        let expected = &alone[work];
        ensure!(
            ended.rounds == expected.rounds && ended.digest == expected.digest,
            "the result of {work} is {}, alone {}",
            ended.digest,
            expected.digest
        );
    }
    Ok(())
}

fn measure_contexts(sharing: &Sharing, count: usize, failures: &mut Vec<String>) -> Row {
    let mut row = Map::new();
    row.insert("contexts".into(), json!(count));
    for way in sharing.ways() {
        match contexts::measure(sharing, *way, count) {
            Ok(taken) => {
                row.insert(format!("{}_mib", way.name()), json!(taken));
            }
            Err(error) => {
                let text = format!("{count} contexts, {}: {error:#}", way.name());
                eprintln!("ringfence-bench: {text}");
                failures.push(text);
            }
        }
    }
    println!("{}", Value::Object(row.clone()));
    row
}

/// Flat numbers: the geometric mean of the workloads' ratios, and the worst.
fn summary(rows: &[Row], failures: usize) -> Map<String, Value> {
    let mut out = Map::new();
    for other in ["mps", "time_slicing"] {
        let ratio = |row: &Row| row.get(&format!("vs_{other}")).and_then(Value::as_f64);
        let ratios: Vec<f64> = rows.iter().filter_map(ratio).collect();
        let Some(mean) = geometric_mean(ratios.iter().copied()) else {
            continue;
        };
        let worst = ratios.iter().copied().fold(0.0, f64::max);
        let row = rows.iter().find(|row| ratio(row) == Some(worst));
        let name = row.map_or(Value::Null, |row| row["workload"].clone());
        out.insert(format!("sharing_vs_{other}"), json!(round(mean)));
        out.insert(format!("sharing_vs_{other}_worst"), json!(worst));
        out.insert(format!("sharing_vs_{other}_worst_workload"), name);
    }
    let workloads = rows.iter().filter(|row| row.contains_key("workload"));
    out.insert("workloads".into(), json!(workloads.count()));
    for row in rows {
        let Some(count) = row.get("contexts") else {
            continue;
        };
        for (name, number) in row.iter().filter(|(name, _)| name.ends_with("_mib")) {
            out.insert(format!("contexts_{count}_{name}"), number.clone());
        }
    }
    out.insert("failures".into(), json!(failures));
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(value: Value) -> Row {
        value.as_object().unwrap().clone()
    }

    #[test]
    fn the_summary_is_flat_and_leaves_out_what_is_missing() {
        let rows = [
            row(json!({"workload": "A", "vs_mps": 1.0, "vs_time_slicing": 0.5})),
            row(json!({"workload": "B", "vs_mps": 4.0, "vs_time_slicing": 0.5})),
            row(json!({"workload": "C", "vs_time_slicing": 0.5})),
            row(json!({"contexts": 4, "mps_mib": 700, "tenants_mib": 900})),
        ];
        let summary = summary(&rows, 1);
        assert_eq!(summary["sharing_vs_mps"], 2.0);
        assert_eq!(summary["sharing_vs_mps_worst"], 4.0);
        assert_eq!(summary["sharing_vs_mps_worst_workload"], "B");
        assert_eq!(summary["sharing_vs_time_slicing"], 0.5);
        assert_eq!(summary["workloads"], 3);
        assert_eq!(summary["contexts_4_mps_mib"], 700);
        assert_eq!(summary["failures"], 1);
        assert!(summary.values().all(|value| !value.is_object()));
    }

    #[test]
    fn another_result_is_an_error() {
        let ended = |digest: &str| Ended {
            rounds: 3,
            seconds: 1.0,
            digest: digest.into(),
        };
        let alone = BTreeMap::from([("train", ended("a"))]);
        assert!(same(&["train"], &alone, &[ended("a")]).is_ok());
        assert!(same(&["train"], &alone, &[ended("b")]).is_err());
    }
}
