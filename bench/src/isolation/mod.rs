//! Whether tenants are isolated: attacks on a neighbour and on the manager,
//! while the neighbour computes.
//!
//! Each attack of a program is first made *unfenced in the neighbour's own
//! context*, as two threads of one program: only if it harms the neighbour there,
//! or reads its secret, does it count. Then the same attack is made by a tenant,
//! with another tenant as the neighbour: each of the neighbour's rounds must give
//! what it gives alone, in time. What only a manager can be attacked with
//! (messages, handles, shared memory) has no such counterpart.

mod attacks;
mod control;
mod exhaustion;
mod forged;
mod fuzz;
mod hostile;
pub mod manager;
mod mutate;
mod neighbour;
pub mod process;
mod raw;
mod record;
mod rings;
pub mod soak;

use crate::options::{Places, device_or_processor};
use crate::turns::{Runner, Variant};
use anyhow::{Result, ensure};
use attacks::{ATTACKS, Attack, Kind};
use control::Control;
use manager::Manager;
use neighbour::{Fate, Neighbour};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use std::borrow::Cow;
use std::cell::Cell;
use std::collections::BTreeSet;
use std::process::Command;
use std::time::{Duration, Instant};

/// Rounds after which the neighbour's digests are the same again.
const PERIOD: usize = 16;

/// What one attack has done.
#[derive(Default)]
pub struct Made {
    /// How often it was made.
    pub attempts: u64,
    /// How many of them the manager refused by name.
    pub refused: u64,
    /// Words of the neighbour's that it has seen.
    pub leaked: u64,
    /// Further numbers, for the row.
    pub more: Map<String, Value>,
}

/// The options.
#[derive(clap::Args)]
pub struct Isolation {
    #[command(flatten)]
    places: Places,
    /// `gpu` or `cpu`.
    #[arg(long, default_value = "gpu")]
    device: String,
    /// Seconds in which the neighbour must finish each round.
    #[arg(long, default_value_t = 5)]
    stall: u64,
    /// Seconds that the manager gives kernels that keep others from running or
    /// loading [default: 1 on a GPU, as the manager itself on the CPU device].
    #[arg(long)]
    kernel_time: Option<u64>,
    /// Only attacks whose class or name contains this.
    #[arg(long, default_value = "")]
    only: String,
    /// Messages of each type that must reach the manager [default: 1000, in a soak 100].
    #[arg(long)]
    messages: Option<u64>,
    /// Goes on with the results in `--json`, of the same commit on the same device:
    /// attacks that were made there are not made again.
    #[arg(long)]
    resume: bool,
}

impl Isolation {
    fn is_on_gpu(&self) -> bool {
        self.device == "gpu"
    }

    /// Whether an attack is to be made.
    fn asks_for(&self, attack: &Attack) -> bool {
        let mut texts = [attack.class, attack.name].into_iter();
        texts.any(|text| text.contains(&self.only)) && !(self.is_on_gpu() && attack.is_cpu_only)
    }

    fn stall(&self) -> Duration {
        Duration::from_secs(self.stall)
    }

    /// What the manager gives kernels, in seconds. (On the CPU device nothing stands
    /// still because of others, and loading on a busy machine takes its time.)
    fn kernel_time(&self) -> u64 {
        self.kernel_time
            .unwrap_or(if self.is_on_gpu() { 1 } else { 30 })
    }

    /// Messages of each type that must reach the manager.
    fn messages(&self) -> u64 {
        self.messages.unwrap_or(1000)
    }

    /// What counts as a stall in the control of an attack that does not end: a
    /// round takes some hundredths of a second on a GPU.
    fn control_stall(&self) -> Duration {
        match self.is_on_gpu() {
            true => self.stall().min(Duration::from_secs(2)),
            false => self.stall(),
        }
    }

    /// How long attacks that do not end go on before the neighbour's next rounds
    /// decide: on the CPU device longer than a round may take; on a GPU until
    /// the manager must have ended the kernels of all attackers.
    fn hold(&self, tenants: usize) -> Duration {
        let second = Duration::from_secs(1);
        match self.is_on_gpu() {
            true => Duration::from_secs(self.kernel_time()) * tenants as u32 + second,
            false => self.stall() + second,
        }
    }

    /// What the programs of both sides have in common.
    fn size(&self) -> &'static [&'static str] {
        if self.is_on_gpu() { &["--large"] } else { &[] }
    }
}

/// All that the attacks are made with.
pub struct Bench<'b> {
    options: &'b Isolation,
    manager: Manager,
    /// The neighbour's digests.
    expected: Vec<String>,
    /// Attacks by mutated sessions so far: each sends other messages.
    fuzzed: Cell<u64>,
}

/// One attack.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Row {
    class: Cow<'static, str>,
    attack: Cow<'static, str>,
    attempts: u64,
    /// What it did in the neighbour's own context.
    control: Cow<'static, str>,
    /// What became of the neighbour.
    neighbour: Cow<'static, str>,
    outcome: Cow<'static, str>,
    /// Rounds that the neighbour finished meanwhile.
    rounds: usize,
    #[serde(flatten)]
    more: Map<String, Value>,
}

/// Makes all attacks and writes the results.
///
/// # Errors
///
/// Something does not start, or fails without an attack.
pub fn measure(options: &Isolation) -> Result<()> {
    let device = device_or_processor(options.is_on_gpu());
    let mut rows = match options.resume {
        true => earlier(&options.places, &device)?,
        false => Vec::new(),
    };
    let mut bench = Bench::new(options)?;
    let start = Instant::now();
    for attack in ATTACKS {
        if is_there(&rows, attack) || !options.asks_for(attack) {
            continue;
        }
        // One that could not be made must not cost the results of all others.
        let row = match bench.row(attack) {
            Ok(row) => row,
            Err(error) => {
                bench.restart_if_faulty()?;
                not_made(attack, &error)
            }
        };
        println!(
            "{:>5.1} s  {:<28} {:<28} {:>8} attempts; unfenced: {:<16} neighbour: {:<16} {} {}",
            start.elapsed().as_secs_f64(),
            row.class,
            row.attack,
            row.attempts,
            row.control,
            row.neighbour,
            row.outcome,
            row.more.get("note").and_then(Value::as_str).unwrap_or(""),
        );
        rows.push(row);
        // A run that is cut off leaves what it has, and another one goes on.
        let (device, summary) = (device.clone(), summary(&rows));
        options.places.write_of(device, summary, rows.clone())?;
    }
    println!("{}", serde_json::to_string_pretty(&summary(&rows))?);
    let failed: Vec<&str> = rows
        .iter()
        .filter(|row| row.outcome == NOT_MADE)
        .map(|row| &*row.attack)
        .collect();
    let failed = failed.join(", ");
    ensure!(
        failed.is_empty(),
        "attacks that could not be made: {failed}"
    );
    Ok(())
}

/// Whether there is a row of an attack. (Names are those of programs' attacks, which
/// may be in several classes.)
fn is_there(rows: &[Row], attack: &Attack) -> bool {
    let is_its = |row: &Row| row.class == attack.class && row.attack == attack.name;
    rows.iter().any(is_its)
}

/// The attacks that an earlier run has made. Those that it could not make are tried
/// again.
fn earlier(places: &Places, device: &(String, String)) -> Result<Vec<Row>> {
    let rows: Vec<Row> = places.earlier(&places.json, device)?;
    let is_made = |row: &Row| row.outcome != NOT_MADE;
    Ok(rows.into_iter().filter(is_made).collect())
}

/// The outcome of an attack that the bench could not make.
const NOT_MADE: &str = "not made";

fn not_made(attack: &Attack, error: &anyhow::Error) -> Row {
    let mut more = Map::new();
    more.insert("note".into(), json!(format!("{error:#}")));
    Row {
        class: attack.class.into(),
        attack: attack.name.into(),
        attempts: 0,
        control: NOT_MADE.into(),
        neighbour: NOT_MADE.into(),
        outcome: NOT_MADE.into(),
        rounds: 0,
        more,
    }
}

impl<'b> Bench<'b> {
    fn new(options: &'b Isolation) -> Result<Bench<'b>> {
        let rounds = PERIOD.to_string();
        let runner = options.places.runner(&options.device);
        let mut command = runner.command("neighbour", Variant::Native);
        command.args(["--rounds", &rounds]).args(options.size());
        let expected = neighbour::alone(&mut command, PERIOD)?;
        let bench = Bench {
            options,
            manager: Manager::start(&options.places.ringfence, options)?,
            expected,
            fuzzed: Cell::new(0),
        };
        let as_tenant = neighbour::alone(
            bench
                .tenant("neighbour")
                .args(["--rounds", &rounds])
                .args(options.size()),
            PERIOD,
        )?;
        ensure!(
            as_tenant == bench.expected,
            "the neighbour computes something else as a tenant"
        );
        Ok(bench)
    }

    fn runner(&self) -> Runner<'_> {
        self.options.places.runner(&self.options.device)
    }

    /// A program, as a tenant.
    fn tenant(&self, program: &str) -> Command {
        let places = &self.options.places;
        let mut command = Command::new(&places.ringfence);
        command
            .args(["run", "--device", "tenant", "--socket"])
            .arg(self.manager.socket())
            .arg("--")
            .arg(places.programs.join(program))
            .env_remove("RINGFENCE_OPTIONS");
        command
    }

    fn neighbour(&self) -> Result<Neighbour> {
        let mut command = self.tenant("neighbour");
        Neighbour::start(command.args(self.options.size()), self.options.stall())
    }

    /// Why the manager is of no use to other tenants, if it is not: one that comes
    /// now computes what it computes alone.
    fn fault(&mut self) -> Option<String> {
        if let Some(fault) = self.manager.fault() {
            return Some(fault);
        }
        let mut command = self.tenant("neighbour");
        command.args(["--rounds", "1"]).args(self.options.size());
        match neighbour::alone(&mut command, 1) {
            Ok(rounds) if rounds == self.expected[..1] => None,
            Ok(_) => Some("a tenant that comes afterwards computes something else".into()),
            Err(error) => Some(format!("a tenant that comes afterwards: {error:#}")),
        }
    }

    fn restart(&mut self) -> Result<()> {
        // Two managers of one device would both give out all of its memory.
        self.manager.stop();
        self.manager = Manager::start(&self.options.places.ringfence, self.options)?;
        Ok(())
    }

    fn restart_if_faulty(&mut self) -> Result<()> {
        match self.fault() {
            Some(_) => self.restart(),
            None => Ok(()),
        }
    }

    /// Makes an attack beside a neighbour.
    fn made(&self, attack: &Attack, neighbour: &mut Neighbour) -> Result<Made> {
        match attack.kind {
            Kind::Program { group } => hostile::run(self, neighbour, group, attack.name),
            Kind::Endless { group, tenants } => {
                hostile::endless(self, neighbour, (group, attack.name), tenants)
            }
            Kind::Killed { what } => hostile::killed(self, neighbour, what),
            Kind::Protocol(attack) => attack(self, neighbour),
        }
    }

    fn row(&mut self, attack: &Attack) -> Result<Row> {
        let control = match attack.kind {
            Kind::Program { group } => control::run(self, (group, attack.name), false)?,
            Kind::Endless { group, .. } => control::run(self, (group, attack.name), true)?,
            Kind::Protocol(_) | Kind::Killed { .. } => Control::NoCounterpart,
        };
        let mut neighbour = self.neighbour()?;
        let before = neighbour.rounds();
        let warned = self.manager.warnings().len();
        let made = self.made(attack, &mut neighbour);
        let rounds = neighbour.rounds() - before;
        let fate = match neighbour.goes_on(2) {
            true => neighbour.finish(&self.expected),
            false => neighbour.stop(&self.expected),
        };
        // Beside what stalls a neighbour, one that comes would wait in vain.
        let mut fault = match fate {
            Fate::Stalled => Some("not asked, as the neighbour stalled".to_owned()),
            _ => self.fault(),
        };
        let mut made = match made {
            Ok(made) => made,
            // A manager that is gone, or that does not answer.
            Err(error) if fault.is_some() || fate != Fate::Unharmed => {
                fault.get_or_insert_with(|| format!("{error:#}"));
                Made::default()
            }
            Err(error) => return Err(error),
        };
        let outcome = outcome(control, &fate, fault.is_some(), &made);
        if let Fate::Ended(why) = &fate {
            made.more.insert("note".into(), json!(why));
        }
        // Whose kernels it has ended, and why.
        let warnings = self.manager.warnings();
        if fate != Fate::Unharmed && warnings.len() > warned {
            let new = &warnings[warned..];
            made.more.insert("manager".into(), json!(new));
        }
        if let Some(fault) = fault {
            made.more.insert("note".into(), json!(fault));
            self.restart()?;
        }
        if let Control::NotShown(why) = control {
            made.more.insert("note".into(), json!(why));
        }
        Ok(Row {
            class: attack.class.into(),
            attack: attack.name.into(),
            attempts: made.attempts,
            control: control.name().into(),
            neighbour: fate.name().into(),
            outcome: outcome.into(),
            rounds,
            more: made.more,
        })
    }
}

fn outcome(control: Control, fate: &Fate, is_faulty: bool, made: &Made) -> &'static str {
    if *fate != Fate::Unharmed {
        return "harmed";
    }
    if is_faulty {
        return "manager harmed";
    }
    if made.leaked > 0 {
        return "leaked";
    }
    if matches!(control, Control::NotShown(_)) {
        return "not shown";
    }
    if made.refused > 0 {
        return "refused";
    }
    "contained"
}

/// Flat numbers. Attacks that were not shown to succeed unfenced are counted
/// apart, and in nothing else unless they harmed somebody.
fn summary(rows: &[Row]) -> Map<String, Value> {
    let counted: Vec<&Row> = rows
        .iter()
        .filter(|row| !["not shown", NOT_MADE].contains(&&*row.outcome))
        .collect();
    let count = |is_so: &dyn Fn(&Row) -> bool| counted.iter().filter(|row| is_so(row)).count();
    let classes: BTreeSet<&str> = counted.iter().map(|row| &*row.class).collect();
    let attempts: u64 = counted.iter().map(|row| row.attempts).sum();
    let mut out = Map::new();
    let mut put = |name: &str, number: Value| out.insert(name.into(), number);
    put("attacks", json!(counted.len()));
    put("survived", json!(count(&|row| row.neighbour == "unharmed")));
    put(
        "contained",
        json!(count(
            &|row| ["contained", "refused"].contains(&&*row.outcome)
        )),
    );
    put("refused", json!(count(&|row| row.outcome == "refused")));
    let all = |outcome: &str| rows.iter().filter(|row| row.outcome == outcome).count();
    put("not_shown", json!(all("not shown")));
    put("not_made", json!(all(NOT_MADE)));
    put("classes", json!(classes.len()));
    put("attempts", json!(attempts));
    put(
        "shown_unfenced",
        json!(count(&|row| row.control != "no counterpart")),
    );
    for row in &counted {
        if let Some(least) = row.more.get("least_of_a_type") {
            put("fuzzed_of_each_type", least.clone());
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    fn row(class: &'static str, control: &'static str, outcome: &'static str) -> Row {
        Row {
            class: class.into(),
            attack: "a".into(),
            attempts: 10,
            control: control.into(),
            neighbour: match outcome {
                "harmed" => "stalled".into(),
                _ => "unharmed".into(),
            },
            outcome: outcome.into(),
            rounds: 3,
            more: Map::new(),
        }
    }

    #[derive(clap::Parser)]
    struct Parsed {
        #[command(flatten)]
        places: Places,
    }

    #[test]
    fn a_run_goes_on_with_results_of_its_commit_and_device_alone() {
        let folder = tempfile::tempdir().unwrap();
        let json = folder.path().join("isolation.json");
        let places = |commit: &str| {
            let mut arguments = vec!["bench", "--programs", ".", "--ringfence", "r"];
            arguments.extend(["--commit", commit, "--json", json.to_str().unwrap()]);
            Parsed::try_parse_from(arguments).unwrap().places
        };
        let device = ("a device".to_owned(), "1.0".to_owned());
        assert!(earlier(&places("c"), &device).is_err(), "there are none");
        let rows = vec![row("a", "ended", "contained"), row("b", NOT_MADE, NOT_MADE)];
        let of = places("c");
        of.write_of(device.clone(), summary(&rows), rows).unwrap();
        let found = earlier(&of, &device).unwrap();
        assert_eq!(found.len(), 1, "what was not made is tried again");
        assert_eq!((&*found[0].class, found[0].attempts), ("a", 10));
        assert!(earlier(&places("d"), &device).is_err());
        let other = ("another".to_owned(), device.1);
        assert!(earlier(&of, &other).is_err());
    }

    #[test]
    fn attacks_of_one_name_in_two_classes_are_two() {
        let mut rows: Vec<Row> = Vec::new();
        for attack in ATTACKS {
            assert!(!is_there(&rows, attack), "{} {}", attack.class, attack.name);
            rows.push(not_made(attack, &anyhow::anyhow!("not tried")));
            assert!(is_there(&rows, attack));
        }
    }

    #[test]
    fn what_was_not_shown_does_not_count() {
        let rows = [
            row("a", "ended", "contained"),
            row("a", "stalled", "harmed"),
            row("b", "no counterpart", "refused"),
            row("c", "not shown", "not shown"),
            row("c", NOT_MADE, NOT_MADE),
        ];
        let summary = summary(&rows);
        for (name, number) in [
            ("attacks", 3),
            ("survived", 2),
            ("contained", 2),
            ("refused", 1),
            ("not_shown", 1),
            ("not_made", 1),
            ("classes", 2),
            ("attempts", 30),
            ("shown_unfenced", 2),
        ] {
            assert_eq!(summary[name], number, "{name}");
        }
    }

    #[test]
    fn harm_is_never_called_contained() {
        let shown = Control::Shown("ended");
        let fine = Made::default();
        let leaked = Made {
            leaked: 1,
            ..Made::default()
        };
        let refused = Made {
            refused: 1,
            ..Made::default()
        };
        let not_shown = Control::NotShown("why");
        assert_eq!(outcome(shown, &Fate::Unharmed, false, &fine), "contained");
        assert_eq!(outcome(shown, &Fate::Unharmed, false, &refused), "refused");
        assert_eq!(
            outcome(shown, &Fate::Unharmed, true, &fine),
            "manager harmed"
        );
        assert_eq!(
            outcome(not_shown, &Fate::Unharmed, false, &fine),
            "not shown"
        );
        assert_eq!(
            outcome(not_shown, &Fate::Unharmed, false, &leaked),
            "leaked"
        );
        for fate in [Fate::Changed, Fate::Stalled, Fate::Ended(String::new())] {
            assert_eq!(outcome(not_shown, &fate, false, &refused), "harmed");
        }
    }
}
