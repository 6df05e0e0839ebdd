//! A soak: tenants that compute, and one that attacks them at random, for as
//! long as is asked for.
//!
//! It goes in *shifts*. In each, all neighbours start, one attack after the other
//! is made on one of them, and then the neighbours end: each digest of theirs must
//! be the one that they have alone, and no round may take too long. Between
//! shifts, when no tenant is there, the bench measures what the manager holds.
//! What grows from shift to shift is lost.

use super::attacks::{ATTACKS, Attack};
use super::mutate::Random;
use super::neighbour::{Fate, Neighbour};
use super::{Bench, Isolation, Made};
use crate::options::{device_or_processor, memory_used};
use anyhow::{Context, Result, ensure};
use serde::Serialize;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

/// Messages of each type in one attack by mutated sessions. The next one does not send
/// the same: a soak makes many short attacks, and isolation a long one.
const MESSAGES: u64 = 100;

/// The options.
#[derive(clap::Args)]
pub struct Soak {
    #[command(flatten)]
    isolation: Isolation,
    /// Seconds that the soak takes.
    #[arg(long, default_value_t = 600)]
    seconds: u64,
    /// Tenants, the attacker among them.
    #[arg(long, default_value_t = 8)]
    tenants: usize,
    /// Attacks in a shift.
    #[arg(long, default_value_t = 12)]
    attacks: usize,
    /// Seed of the random choice of attacks.
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// What the manager holds while no tenant is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
struct Held {
    /// Resident memory of the manager and its workers, KiB.
    resident_kib: u64,
    /// Open descriptors of the process that owns the device.
    descriptors: u64,
    /// Threads of the process that owns the device.
    threads: u64,
    /// Memory of the device in use, MiB; 0 on the CPU device, whose memory is
    /// the manager's.
    device_mib: u64,
}

/// One shift.
#[derive(Debug, Serialize)]
struct Shift {
    shift: usize,
    /// Rounds that the neighbours have made.
    rounds: usize,
    attacks: usize,
    attempts: u64,
    refused: u64,
    /// Words of the neighbours' that attackers have seen.
    leaked: u64,
    /// What went wrong.
    harm: Vec<String>,
    #[serde(flatten)]
    held: Held,
}

/// Runs the soak, and writes its results after each shift.
///
/// # Errors
///
/// Something does not start, or somebody was harmed; the results are written
/// all the same.
pub fn measure(mut soak: Soak) -> Result<()> {
    ensure!(soak.tenants >= 2, "a soak takes two tenants at least");
    soak.isolation.messages.get_or_insert(MESSAGES);
    let options = &soak.isolation;
    let time = Duration::from_secs(soak.seconds);
    let mut bench = Bench::new(options)?;
    let attacks: Vec<&Attack> = ATTACKS
        .iter()
        .filter(|attack| options.asks_for(attack))
        .collect();
    ensure!(!attacks.is_empty(), "no attack is asked for");
    let mut random = Random(soak.seed.max(1));
    let mut made_of = BTreeMap::new();
    let mut shifts: Vec<Shift> = Vec::new();
    let device = device_or_processor(options.is_on_gpu());
    let start = Instant::now();
    // One shift at least, so that there is something to tell.
    while shifts.is_empty() || start.elapsed() < time {
        let chosen: Vec<&Attack> = (0..soak.attacks)
            .map(|_| attacks[random.below(attacks.len())])
            .collect();
        let number = shifts.len() + 1;
        // (The first one is whole.)
        let end = (number > 1).then_some(start + time);
        let plan = (chosen.as_slice(), end);
        let shift = bench.shift(number, soak.tenants - 1, plan, &mut random)?;
        for attack in &chosen[..shift.attacks] {
            *made_of.entry(attack.class).or_insert(0) += 1;
        }
        println!(
            "{:>6.1} s  {}",
            start.elapsed().as_secs_f64(),
            serde_json::to_string(&shift)?
        );
        let is_over = !shift.harm.is_empty();
        shifts.push(shift);
        let summary = summary(&shifts, start.elapsed(), soak.tenants, &made_of);
        let rows = shifts.iter().collect();
        options.places.write_of(device.clone(), summary, rows)?;
        if is_over {
            break;
        }
    }
    let harm = shifts.iter().flat_map(|shift| &shift.harm);
    let harm: Vec<&str> = harm.map(String::as_str).collect();
    ensure!(harm.is_empty(), "{}", harm.join("; "));
    Ok(())
}

impl Bench<'_> {
    /// The shift with this number, with so many neighbours: its attacks, of which none
    /// begins after the end.
    fn shift(
        &mut self,
        number: usize,
        neighbours: usize,
        (attacks, end): (&[&Attack], Option<Instant>),
        random: &mut Random,
    ) -> Result<Shift> {
        let mut beside: Vec<Neighbour> = (0..neighbours)
            .map(|place| {
                self.neighbour()
                    .with_context(|| format!("neighbour {} of {neighbours}", place + 1))
            })
            .collect::<Result<_>>()?;
        let mut total = Made::default();
        let mut harm = Vec::new();
        let mut done = 0;
        for attack in attacks {
            let victim = random.below(neighbours);
            match self.made(attack, &mut beside[victim]) {
                Ok(made) => {
                    total.attempts += made.attempts;
                    total.refused += made.refused;
                    total.leaked += made.leaked;
                    if made.leaked > 0 {
                        harm.push(format!("{}: {} words leaked", attack.name, made.leaked));
                    }
                    done += 1;
                }
                Err(error) => harm.push(format!("{}: {error:#}", attack.name)),
            }
            for (place, neighbour) in beside.iter_mut().enumerate() {
                if !neighbour.goes_on(1) {
                    let name = attack.name;
                    harm.push(format!("neighbour {} stands still after {name}", place + 1));
                }
            }
            if !harm.is_empty() || end.is_some_and(|end| Instant::now() >= end) {
                break;
            }
        }
        let rounds = beside.iter().map(Neighbour::rounds).sum();
        for (place, neighbour) in beside.into_iter().enumerate() {
            let fate = match harm.is_empty() {
                true => neighbour.finish(&self.expected),
                // (One that stands still does not end either.)
                false => neighbour.stop(&self.expected),
            };
            let is_well = fate == Fate::Unharmed || (fate == Fate::Stalled && !harm.is_empty());
            if !is_well {
                let why = match &fate {
                    Fate::Ended(why) => why.as_str(),
                    _ => "",
                };
                harm.push(format!("neighbour {}: {} {why}", place + 1, fate.name()));
            }
        }
        if let Some(fault) = self.fault() {
            harm.push(fault);
        }
        Ok(Shift {
            shift: number,
            rounds,
            attacks: done,
            attempts: total.attempts,
            refused: total.refused,
            leaked: total.leaked,
            harm,
            held: held(self.manager.processes()?, self.options.is_on_gpu())?,
        })
    }
}

/// Flat numbers. What is lost is what is held after the last shift beyond what
/// was held after the second: the first ones fill caches.
fn summary(
    shifts: &[Shift],
    time: Duration,
    tenants: usize,
    made_of: &BTreeMap<&str, usize>,
) -> Map<String, Value> {
    let sum = |number: &dyn Fn(&Shift) -> u64| shifts.iter().map(number).sum::<u64>();
    let lost = |number: &dyn Fn(&Held) -> u64| {
        let first = shifts.get(1).or(shifts.first());
        let [first, last] = [first, shifts.last()]
            .map(|shift| shift.map_or(0, |shift| number(&shift.held).cast_signed()));
        json!(last - first)
    };
    let mut out = Map::new();
    let mut put = |name: &str, number: Value| out.insert(name.into(), number);
    put("seconds", json!(time.as_secs()));
    put("tenants", json!(tenants));
    put("shifts", json!(shifts.len()));
    put("rounds", json!(sum(&|shift| shift.rounds as u64)));
    put("attacks", json!(sum(&|shift| shift.attacks as u64)));
    put("classes", json!(made_of.len()));
    put("attempts", json!(sum(&|shift| shift.attempts)));
    put("leaked", json!(sum(&|shift| shift.leaked)));
    put("harmed", json!(sum(&|shift| shift.harm.len() as u64)));
    put("lost_resident_kib", lost(&|held| held.resident_kib));
    put("lost_descriptors", lost(&|held| held.descriptors));
    put("lost_threads", lost(&|held| held.threads));
    put("lost_device_mib", lost(&|held| held.device_mib));
    out
}

/// What a process and those that it has started hold.
fn held((manager, worker): (u32, u32), is_on_gpu: bool) -> Result<Held> {
    let mut resident_kib = 0;
    let mut threads = 0;
    for one in with_descendants(manager)? {
        // A worker may have ended meanwhile.
        let Ok(status) = std::fs::read_to_string(format!("/proc/{one}/status")) else {
            continue;
        };
        resident_kib += field(&status, "VmRSS:").unwrap_or(0);
        if one == worker {
            threads = field(&status, "Threads:").context("no count of threads")?;
        }
    }
    let descriptors = std::fs::read_dir(format!("/proc/{worker}/fd"))
        .context("the manager has ended")?
        .count() as u64;
    let device_mib = match is_on_gpu {
        true => memory_used()?,
        false => 0,
    };
    Ok(Held {
        resident_kib,
        descriptors,
        threads,
        device_mib,
    })
}

/// The number behind a name in `/proc/PID/status`.
fn field(status: &str, name: &str) -> Option<u64> {
    let line = status.lines().find(|line| line.starts_with(name))?;
    line.split_whitespace().nth(1)?.parse().ok()
}

/// A process, its children, and theirs.
fn with_descendants(process: u32) -> Result<Vec<u32>> {
    let mut parents = Vec::new();
    for entry in std::fs::read_dir(Path::new("/proc"))? {
        let name = entry?.file_name();
        let Some(id) = name.to_str().and_then(|name| name.parse::<u32>().ok()) else {
            continue;
        };
        if let Ok(status) = std::fs::read_to_string(format!("/proc/{id}/status"))
            && let Some(parent) = field(&status, "PPid:")
        {
            parents.push((id, parent));
        }
    }
    let mut found = vec![process];
    let mut at = 0;
    while let Some(parent) = found.get(at).copied() {
        at += 1;
        let children = parents.iter().filter(|(_, of)| u64::from(parent) == *of);
        found.extend(children.map(|(id, _)| *id));
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    fn shift(resident_kib: u64, descriptors: u64) -> Shift {
        Shift {
            shift: 1,
            rounds: 100,
            attacks: 12,
            attempts: 500,
            refused: 1,
            leaked: 0,
            harm: Vec::new(),
            held: Held {
                resident_kib,
                descriptors,
                threads: 9,
                device_mib: 0,
            },
        }
    }

    #[test]
    fn what_the_first_shift_fills_is_not_lost() {
        let shifts = [shift(1000, 20), shift(5000, 25), shift(5100, 24)];
        let made_of = BTreeMap::from([("out of bounds", 30), ("residue", 6)]);
        let summary = summary(&shifts, Duration::from_secs(90), 8, &made_of);
        assert_eq!(summary["lost_resident_kib"], 100);
        assert_eq!(summary["lost_descriptors"], -1);
        assert_eq!(summary["lost_threads"], 0);
        assert_eq!(summary["attacks"], 36);
        assert_eq!(summary["classes"], 2);
        assert_eq!(summary["harmed"], 0);
        assert_eq!(summary["seconds"], 90);
    }

    #[test]
    fn a_process_holds_what_its_children_hold() {
        let own = std::process::id();
        let alone = held((own, own), false).unwrap();
        assert!(alone.resident_kib > 0 && alone.descriptors > 2 && alone.threads > 0);
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        assert!(with_descendants(own).unwrap().contains(&child.id()));
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(!with_descendants(own).unwrap().contains(&child.id()));
    }
}
