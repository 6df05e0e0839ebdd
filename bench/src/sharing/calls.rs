//! What single calls take natively and of tenants: the program `sharing calls`
//! measures them, in turns of both; and how many launches a second one tenant
//! makes, and four.

use super::Sharing;
use super::host::{Host, Way};
use crate::live::{Length, Live, On, side_by_side};
use anyhow::{Result, ensure};
use serde_json::{Map, Value, json};
use suite::results::round;

/// What `sharing calls` measures, in order; times are microseconds.
const NAMES: [&str; 15] = [
    "launch_us",
    "launch_and_synchronize_us",
    "launch_and_stream_synchronize_us",
    "malloc_free_4k_us",
    "malloc_free_4m_us",
    "to_device_64_us",
    "to_host_64_us",
    "to_device_4k_us",
    "to_host_4k_us",
    "to_device_256k_us",
    "to_host_256k_us",
    "pageable_to_device_gbs",
    "pageable_to_host_gbs",
    "pinned_to_device_gbs",
    "pinned_to_host_gbs",
];

/// Launches in a round of `sharing empty`.
const LAUNCHES: f64 = 2000.0;
/// The same of small programs.
const LAUNCHES_SMALL: f64 = 20.0;

/// The options.
#[derive(clap::Args)]
pub struct Calls {
    #[command(flatten)]
    sharing: Sharing,
    /// Turns of each process.
    #[arg(long, default_value_t = 7)]
    turns: usize,
}

/// Measures, and writes the results.
///
/// # Errors
///
/// A program fails, or the results cannot be written.
pub fn measure(calls: &Calls) -> Result<()> {
    let sharing = &calls.sharing;
    let ways = [Way::TimeSlicing, Way::Tenants];
    let hosts = ways
        .iter()
        .map(|way| Host::start(sharing, *way, &sharing.memory))
        .collect::<Result<Vec<Host<'_>>>>()?;
    let rounds = side_by_side(
        ways.len(),
        Length::of(1, calls.turns),
        // The manager answers from another one.
        On::AnyCore,
        |variant| {
            Live::start(
                &mut hosts[variant].command("calls"),
                sharing.places.timeout(),
            )
        },
        |processes| {
            processes.iter().try_for_each(|process| {
                let line: Value = process.line()?;
                ensure!(line["ready"] == true, "`sharing calls` printed {line}");
                Ok(())
            })
        },
    )?;
    drop(hosts);
    let mut rows = Vec::new();
    for (index, name) in NAMES.iter().enumerate() {
        let number = |numbers: &Vec<f64>| numbers.get(index).copied().unwrap_or(f64::NAN);
        rows.push(row(
            name,
            rounds.median(0, number)?,
            rounds.median(1, number)?,
        ));
    }
    for count in [1, 4] {
        let rate = |way| launches_per_second(sharing, way, count);
        let name = format!("launches_per_second_{count}");
        rows.push(row(&name, rate(Way::TimeSlicing)?, rate(Way::Tenants)?));
    }
    let mut summary = Map::new();
    for row in &rows {
        println!("{}", serde_json::to_string(row)?);
        for way in ["native", "tenant"] {
            let name = row["what"].as_str().unwrap_or_default();
            summary.insert(format!("{way}_{name}"), row[way].clone());
        }
    }
    sharing.places.write_of(sharing.device(), summary, rows)
}

fn row(what: &str, native: f64, tenant: f64) -> Map<String, Value> {
    let mut row = Map::new();
    row.insert("what".into(), json!(what));
    row.insert("native".into(), json!(round(native)));
    row.insert("tenant".into(), json!(round(tenant)));
    row.insert("added".into(), json!(round(tenant - native)));
    row
}

/// Launches of an empty kernel a second, of all processes together.
fn launches_per_second(sharing: &Sharing, way: Way, processes: usize) -> Result<f64> {
    let rounds = if sharing.is_small() { 5 } else { 100 };
    let process = ("empty", ["--rounds".to_owned(), rounds.to_string()]);
    let run = sharing.run(way, &vec![process; processes])?;
    let launches = match sharing.is_small() {
        true => LAUNCHES_SMALL,
        false => LAUNCHES,
    };
    Ok(launches * f64::from(rounds) * processes as f64 / run.makespan)
}
