//! The same attack unfenced, in the neighbour's own context.

use super::Bench;
use super::neighbour::{Fate, Neighbour};
use crate::turns::Variant;
use anyhow::Result;
use std::time::Duration;

/// How long one may take.
const LIMIT: Duration = Duration::from_secs(30);

/// What an attack does where nothing is fenced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Control {
    /// What it did.
    Shown(&'static str),
    /// Nothing; why, where that is known.
    NotShown(&'static str),
    /// It needs a manager.
    NoCounterpart,
}

impl Control {
    /// In a table.
    pub fn name(self) -> &'static str {
        match self {
            Control::Shown(what) => what,
            Control::NotShown(_) => "not shown",
            Control::NoCounterpart => "no counterpart",
        }
    }
}

/// How often the two are started, until both run.
const TRIES: u32 = 5;

/// Makes the attack beside the neighbour in one program.
///
/// # Errors
///
/// The program does not start.
pub fn run(bench: &Bench<'_>, (group, name): (&str, &str), is_endless: bool) -> Result<Control> {
    let options = bench.options;
    // What stands still for so long beside an attack that does not end.
    let stall = match is_endless {
        true => options.control_stall(),
        false => options.stall(),
    };
    let mut command = bench.runner().command("attacker", Variant::Native);
    command
        .args([group, name, "--beside", "--attempts", "48"])
        .args(["--milliseconds", "100"])
        .args(options.size());
    let mut tries = 0;
    // An attack may end the program before the neighbour's first round: then they
    // did not overlap.
    let neighbour = loop {
        tries += 1;
        match Neighbour::start(&mut command, stall) {
            Ok(neighbour) => break neighbour,
            Err(error) if tries == TRIES => return Err(error),
            Err(_) => {}
        }
    };
    let limit = match is_endless {
        true => stall + Duration::from_secs(3),
        false => LIMIT,
    };
    let (fate, said) = neighbour.wait(&bench.expected, limit);
    let has_leaked = said.iter().any(|line| line.starts_with("leaked "));
    Ok(match fate {
        Fate::Unharmed if has_leaked => Control::Shown("secret read"),
        Fate::Unharmed => Control::NotShown(why_not(group, options.is_on_gpu())),
        other => Control::Shown(other.name()),
    })
}

/// Why an attack does nothing.
fn why_not(group: &str, is_on_gpu: bool) -> &'static str {
    match group {
        "residues" if !is_on_gpu => {
            "the CPU device clears memory, and registers, shared and local memory for each block"
        }
        "loops" | "waits" => "the device runs the neighbour beside it",
        "residues" => "what a kernel had left was overwritten before it was read",
        _ => "the neighbour does not notice it",
    }
}
