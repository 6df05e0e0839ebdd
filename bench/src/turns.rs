//! Programs under one variant or the other, in turn.
//!
//! Variants are measured in rounds: each round starts every variant once, the
//! next round begins with another one, and the first round, in which caches
//! fill, does not count. A device or a processor that warms up, or changes its
//! clock, then changes all variants alike; and the cost of running first in a
//! round is not always on the same variant.

use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};
use suite::process;
use suite::results::{geometric_mean, median, round};

/// How programs are started.
pub struct Runner<'x> {
    /// Folder of the programs.
    pub programs: &'x Path,
    /// The `ringfence` command.
    pub ringfence: &'x Path,
    /// `gpu`; on `cpu`, where no program runs by itself, native is without
    /// checks.
    pub device: &'x str,
    /// For one program.
    pub timeout: Duration,
}

/// How one is started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Variant<'x> {
    /// By itself.
    Native,
    /// Under Ringfence, with these options.
    Ringfence(&'x [&'x str]),
}

impl Runner<'_> {
    /// The command that starts a program.
    pub fn command(&self, program: &str, variant: Variant<'_>) -> Command {
        let path = self.programs.join(program);
        let options: &[&str] = match variant {
            Variant::Native if self.device == "gpu" => {
                let mut command = Command::new(&path);
                command.env_remove("RINGFENCE_OPTIONS");
                return command;
            }
            Variant::Native => &["--no-check"],
            Variant::Ringfence(options) => options,
        };
        let mut command = Command::new(self.ringfence);
        command
            .args(["run", "--device", self.device])
            .args(options)
            .arg("--")
            .arg(&path)
            .env_remove("RINGFENCE_OPTIONS");
        command
    }

    /// Runs a program.
    ///
    /// # Errors
    ///
    /// It fails, or runs out of time.
    pub fn run(
        &self,
        program: &str,
        arguments: &[&str],
        variant: Variant<'_>,
    ) -> Result<process::Outcome> {
        let mut command = self.command(program, variant);
        let outcome = process::run(command.args(arguments), self.timeout)?;
        ensure!(
            outcome.code() == Some(0),
            "{program} {variant:?} {}: {}",
            outcome.describe(),
            outcome.stderr.trim()
        );
        Ok(outcome)
    }
}

/// A line that a program with kernels prints.
#[derive(Debug, Deserialize)]
pub struct KernelLine {
    /// The kernel.
    #[serde(default)]
    pub kernel: String,
    /// Of the problem.
    pub size: u64,
    /// Median time of one launch.
    pub ms: f64,
    /// Of the result.
    pub digest: String,
}

impl KernelLine {
    /// Checks that this is the kernel of another line, with the same result.
    ///
    /// # Errors
    ///
    /// It is not.
    pub fn ensure_same(&self, native: &KernelLine) -> Result<()> {
        ensure!(
            self.kernel == native.kernel && self.digest == native.digest,
            "the result of {} is {}, natively {}",
            self.kernel,
            self.digest,
            native.digest
        );
        Ok(())
    }
}

/// A line that the program about memory prints, of buffers of one size.
#[derive(Debug, Deserialize)]
pub struct MemoryLine {
    /// Bytes of a buffer.
    pub buffer: u64,
    /// Bytes of the device's memory that each takes.
    pub bytes_each: f64,
    /// Microseconds to allocate one.
    pub allocate_us: f64,
}

/// All lines of a program with kernels. (Other tools write lines of their own
/// between.)
///
/// # Errors
///
/// There is none, or one is malformed.
pub fn kernel_lines(outcome: &process::Outcome) -> Result<Vec<KernelLine>> {
    let lines: Vec<KernelLine> = json_lines(outcome, "\"ms\"")
        .map(|text| {
            let line: KernelLine =
                serde_json::from_str(text).with_context(|| format!("in `{text}`"))?;
            ensure!(line.ms > 0.0, "it took no time: `{text}`");
            Ok(line)
        })
        .collect::<Result<_>>()?;
    ensure!(
        !lines.is_empty(),
        "it {} and printed no result: {}",
        outcome.describe(),
        outcome.stderr.trim()
    );
    Ok(lines)
}

/// The numbers that a program prints, by name.
///
/// # Errors
///
/// It prints none.
pub fn numbers(outcome: &process::Outcome) -> Result<BTreeMap<String, f64>> {
    let text = json_lines(outcome, "_us\"")
        .next()
        .context("it printed no times")?;
    serde_json::from_str(text).with_context(|| format!("in `{text}`"))
}

/// All lines of JSON that have a key.
///
/// # Errors
///
/// There is none, or one is malformed.
pub fn lines<T: serde::de::DeserializeOwned>(
    outcome: &process::Outcome,
    key: &'static str,
) -> Result<Vec<T>> {
    let found: Vec<T> = json_lines(outcome, key)
        .map(|text| serde_json::from_str(text).with_context(|| format!("in `{text}`")))
        .collect::<Result<_>>()?;
    ensure!(!found.is_empty(), "it printed no {key}");
    Ok(found)
}

fn json_lines<'a>(
    outcome: &'a process::Outcome,
    key: &'static str,
) -> impl Iterator<Item = &'a str> {
    outcome
        .stdout
        .lines()
        .filter(move |line| line.starts_with('{') && line.contains(key))
}

/// What variants gave, round by round: `rounds[variant][round]`.
pub struct Rounds<T> {
    rounds: Vec<Vec<T>>,
}

impl<T> Default for Rounds<T> {
    fn default() -> Self {
        Rounds { rounds: Vec::new() }
    }
}

/// Measures variants in turn, for a number of rounds and one before them that
/// does not count.
///
/// # Errors
///
/// The first of `measure`.
pub fn in_turn<T>(
    variants: usize,
    rounds: usize,
    measure: impl FnMut(usize) -> Result<T>,
) -> Result<Rounds<T>> {
    in_turn_within(Duration::MAX, variants, rounds, measure)
}

/// The same; after this time no further round begins, but for the first that
/// counts.
///
/// # Errors
///
/// The first of `measure`.
pub fn in_turn_within<T>(
    budget: Duration,
    variants: usize,
    rounds: usize,
    mut measure: impl FnMut(usize) -> Result<T>,
) -> Result<Rounds<T>> {
    let start = Instant::now();
    let mut out = Rounds {
        rounds: (0..variants).map(|_| Vec::new()).collect(),
    };
    for round in 0..=rounds {
        if round > 1 && start.elapsed() >= budget {
            break;
        }
        for place in 0..variants {
            let variant = (place + round) % variants;
            let result = measure(variant)?;
            if round > 0 {
                out.rounds[variant].push(result);
            }
        }
    }
    Ok(out)
}

impl<T> Rounds<T> {
    /// The rounds of one variant.
    pub fn of(&self, variant: usize) -> &[T] {
        &self.rounds[variant]
    }

    /// The median of a number of one variant.
    ///
    /// # Errors
    ///
    /// No round was made.
    pub fn median(&self, variant: usize, number: impl Fn(&T) -> f64) -> Result<f64> {
        let mut numbers: Vec<f64> = self.of(variant).iter().map(number).collect();
        median(&mut numbers).context("nothing was measured")
    }

    /// The same, of a number that may be missing.
    ///
    /// # Errors
    ///
    /// It is missing in some round, or no round was made.
    pub fn median_of(&self, variant: usize, number: impl Fn(&T) -> Option<f64>) -> Result<f64> {
        let numbers: Option<Vec<f64>> = self.of(variant).iter().map(number).collect();
        let mut numbers = numbers.context("a number is missing")?;
        median(&mut numbers).context("nothing was measured")
    }

    /// The median of what one variant has more than another in the same round.
    ///
    /// # Errors
    ///
    /// No round was made.
    pub fn added(&self, variant: usize, to: usize, number: impl Fn(&T) -> f64) -> Result<f64> {
        let pairs = self.of(variant).iter().zip(self.of(to));
        let mut numbers: Vec<f64> = pairs.map(|(a, b)| number(a) - number(b)).collect();
        median(&mut numbers).context("nothing was measured")
    }

    /// What one variant has for one of another in the same round, in ascending
    /// order.
    pub fn ratios(&self, variant: usize, to: usize, number: impl Fn(&T) -> f64) -> Vec<f64> {
        let pairs = self.of(variant).iter().zip(self.of(to));
        let mut ratios: Vec<f64> = pairs.map(|(a, b)| number(a) / number(b)).collect();
        ratios.sort_by(f64::total_cmp);
        ratios
    }

    /// The standard error of the ratio of one variant to another. The rounds are those of
    /// pairs of processes, one pair after the other, `turns` of each, and the error is that of
    /// the mean over pairs: two processes of one variant differ by more than the turns of one
    /// pair show. `None` for a single pair.
    pub fn ratio_error(
        &self,
        variant: usize,
        to: usize,
        turns: usize,
        number: impl Fn(&T) -> f64,
    ) -> Option<f64> {
        let turns = turns.max(1);
        let medians: Vec<f64> = self
            .of(variant)
            .chunks_exact(turns)
            .zip(self.of(to).chunks_exact(turns))
            .filter_map(|(these, those)| {
                let ratios = these.iter().zip(those).map(|(a, b)| number(a) / number(b));
                median(&mut ratios.collect::<Vec<f64>>())
            })
            .collect();
        let count = medians.len() as f64;
        if count < 2.0 {
            return None;
        }
        let mean = medians.iter().sum::<f64>() / count;
        let squares: f64 = medians.iter().map(|median| (median - mean).powi(2)).sum();
        Some((squares / (count - 1.0) / count).sqrt())
    }

    /// Of several processes of each variant, measured as variants of their own in the
    /// order of the variants again and again: the rounds of the variants.
    pub fn folded(self, variants: usize) -> Rounds<T> {
        let mut folded = Rounds {
            rounds: (0..variants).map(|_| Vec::new()).collect(),
        };
        for (process, rounds) in self.rounds.into_iter().enumerate() {
            folded.rounds[process % variants].extend(rounds);
        }
        folded
    }

    /// Puts the rounds of another measurement of the same variants behind these.
    pub fn append(&mut self, more: Rounds<T>) {
        if self.rounds.is_empty() {
            *self = more;
        } else {
            for (all, more) in self.rounds.iter_mut().zip(more.rounds) {
                all.extend(more);
            }
        }
    }

    /// From the least to the greatest number of one variant: differences that
    /// are smaller say nothing.
    pub fn spread(&self, variant: usize, number: impl Fn(&T) -> f64) -> f64 {
        let numbers = || self.of(variant).iter().map(&number);
        let least = numbers().fold(f64::INFINITY, f64::min);
        (numbers().fold(least, f64::max) - least).max(0.0)
    }
}

/// One kernel; times in milliseconds.
#[derive(Debug, Serialize)]
pub struct KernelRatios {
    /// The kernel.
    pub kernel: String,
    /// Of the problem.
    pub size: u64,
    /// Median time of one launch, natively.
    pub native_ms: f64,
    /// Kernel time over native, by variant.
    #[serde(flatten)]
    pub ratios: BTreeMap<&'static str, f64>,
}

/// What kernels take over native under one variant.
///
/// # Errors
///
/// It was not measured.
fn ratios_of(kernels: &[KernelRatios], variant: &str) -> Result<Vec<f64>> {
    let ratios = kernels.iter().map(|kernel| kernel.ratios.get(variant));
    let ratios: Option<Vec<f64>> = ratios.map(Option::<&f64>::copied).collect();
    ratios.with_context(|| format!("{variant} was not measured"))
}

/// The largest of what kernels take over native under one variant.
///
/// # Errors
///
/// It was not measured.
pub fn worst_of(kernels: &[KernelRatios], variant: &str) -> Result<f64> {
    Ok(ratios_of(kernels, variant)?.into_iter().fold(0.0, f64::max))
}

/// The geometric mean of what kernels take over native under one variant.
///
/// # Errors
///
/// It was not measured; or a kernel took no time at all.
pub fn mean_of(kernels: &[KernelRatios], variant: &str) -> Result<f64> {
    let mean = geometric_mean(ratios_of(kernels, variant)?);
    mean.map(round).context("a kernel took no time at all")
}

impl Rounds<Vec<KernelLine>> {
    /// Each kernel under all variants, of which the first one is native. Prints a line for
    /// each.
    ///
    /// # Errors
    ///
    /// As [`Rounds::time`].
    pub fn kernels(&self, variants: &[(&'static str, Variant<'_>)]) -> Result<Vec<KernelRatios>> {
        let kernels = self.first().iter().enumerate().map(|(index, line)| {
            let native_ms = self.time(0, index)?;
            let mut ratios = BTreeMap::new();
            for (variant, (name, _)) in variants.iter().enumerate().skip(1) {
                ratios.insert(*name, round(self.time(variant, index)? / native_ms));
            }
            println!("{:<18} native {native_ms:>9.4} ms  {ratios:?}", line.kernel);
            Ok(KernelRatios {
                kernel: line.kernel.clone(),
                size: line.size,
                native_ms,
                ratios,
            })
        });
        kernels.collect()
    }

    /// The kernels of the first round of the first variant, which is native.
    pub fn first(&self) -> &[KernelLine] {
        &self.rounds[0][0]
    }

    /// The median time of the kernel at `index`, whose results must be the
    /// native ones.
    ///
    /// # Errors
    ///
    /// They are not, or nothing was measured.
    pub fn time(&self, variant: usize, index: usize) -> Result<f64> {
        let first = &self.first()[index];
        let mut times = Vec::new();
        for lines in self.of(variant) {
            let line = lines.get(index).context("a kernel is missing")?;
            line.ensure_same(first)?;
            times.push(line.ms);
        }
        median(&mut times).context("nothing was measured")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_variant_comes_first_in_its_turn_and_the_first_round_does_not_count() {
        let mut order = Vec::new();
        let rounds = in_turn(3, 3, |variant| {
            order.push(variant);
            Ok(order.len() as f64)
        })
        .unwrap();
        assert_eq!(order, [0, 1, 2, 1, 2, 0, 2, 0, 1, 0, 1, 2]);
        assert_eq!(rounds.of(0), [6.0, 8.0, 10.0]);
        assert_eq!(rounds.of(1), [4.0, 9.0, 11.0]);
        assert_eq!(rounds.median(0, |number| *number).unwrap(), 8.0);
        // 4 - 6, 9 - 8, 11 - 10
        assert_eq!(rounds.added(1, 0, |number| *number).unwrap(), 1.0);
        assert_eq!(rounds.spread(1, |number| *number), 7.0);
    }

    #[test]
    fn processes_of_a_variant_are_compared_with_their_neighbours() {
        let rounds = in_turn(4, 2, |process| Ok(process as f64)).unwrap();
        let folded = rounds.folded(2);
        assert_eq!(folded.of(0), [0.0, 0.0, 2.0, 2.0]);
        assert_eq!(folded.of(1), [1.0, 1.0, 3.0, 3.0]);
        assert_eq!(folded.added(1, 0, |number| *number).unwrap(), 1.0);
    }

    #[test]
    fn what_pairs_of_processes_differ_by_is_the_error() {
        let folded = Rounds {
            rounds: vec![vec![1.0; 6], vec![2.0, 2.0, 9.0, 3.0, 3.0, 0.1]],
        };
        let error = |turns| folded.ratio_error(1, 0, turns, |number| *number);
        // Medians of 2 and 3.
        assert_eq!(error(3), Some(0.5));
        assert_eq!(error(6), None);
    }

    #[test]
    fn without_time_one_round_counts() {
        let mut made = 0;
        let rounds = in_turn_within(Duration::ZERO, 2, 5, |_| {
            made += 1;
            Ok(made)
        })
        .unwrap();
        assert_eq!((rounds.of(0), rounds.of(1)), (&[4][..], &[3][..]));
        assert_eq!(made, 4);
    }
}
