//! What fences take of a multiprocessor: registers, spills and the warps that fit, as
//! ptxas says, optimized (-O3) and not (-O0) (in kind Guardian's figure 9, Middleware
//! 2024).

use crate::instrument::folders;
use anyhow::{Context, Result, bail, ensure};
use instrument::{FenceForm, fence};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Command;
use suite::results::{Provenance, Results, geometric_mean, round};

/// What to measure.
#[derive(clap::Args)]
pub struct Resources {
    /// Folders below which all .ptx files are taken.
    #[arg(long, required = true)]
    ptx: Vec<PathBuf>,
    /// NVIDIA's assembler.
    #[arg(long, default_value = "ptxas")]
    ptxas: PathBuf,
    /// File for the results.
    #[arg(long)]
    json: PathBuf,
    /// Commit of the sources.
    #[arg(long, default_value = "")]
    commit: String,
}

/// Levels of optimization.
const LEVELS: [u32; 2] = [0, 3];

/// What a kernel takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Taken {
    /// Registers of a thread.
    registers: u32,
    /// Bytes that are stored because there are no more registers.
    spilled: u64,
}

impl Taken {
    /// Warps that fit into a multiprocessor of compute capability 9.0, as far as
    /// registers decide: 65,536 of them, given to a warp in units of 256; 64 warps at
    /// most (CUDA C++ Programming Guide, "Compute Capabilities").
    fn warps(self) -> u32 {
        let of_warp = (32 * self.registers.max(1)).next_multiple_of(256);
        (65536 / of_warp).min(64)
    }
}

/// One kernel at one level, natively and fenced.
#[derive(Clone, Copy, Debug)]
struct Pair {
    native: Taken,
    fenced: Taken,
}

/// The kernels of one folder of PTX at one level.
#[derive(Debug, Serialize, Deserialize)]
struct Row {
    folder: String,
    level: u32,
    #[serde(flatten)]
    numbers: Map<String, Value>,
}

/// Measures and writes the results.
///
/// # Errors
///
/// There is no PTX or no ptxas, or ptxas refuses what it takes natively.
pub fn measure(options: &Resources) -> Result<()> {
    let mut rows = Vec::new();
    let mut all: BTreeMap<u32, Vec<Pair>> = BTreeMap::new();
    for path in &options.ptx {
        for (folder, files) in folders(path)? {
            for level in LEVELS {
                let mut pairs = Vec::new();
                for text in &files {
                    let of = options.pairs(text, level);
                    pairs.extend(of.with_context(|| format!("PTX of the folder `{folder}`"))?);
                }
                if !pairs.is_empty() {
                    let folder = folder.clone();
                    let numbers = numbers("", &pairs);
                    rows.push(Row {
                        folder,
                        level,
                        numbers,
                    });
                }
                all.entry(level).or_default().extend(pairs);
            }
        }
    }
    let mut summary = Map::new();
    for (level, pairs) in &all {
        ensure!(!pairs.is_empty(), "no kernel could be fenced and assembled");
        summary.extend(numbers(&format!("o{level}_"), pairs));
    }
    println!("{}", serde_json::to_string_pretty(&summary)?);
    Results {
        summary,
        provenance: Provenance::without_driver("none".into(), &options.commit),
        rows,
    }
    .write(&options.json)
}

/// Flat numbers of kernels.
fn numbers(prefix: &str, pairs: &[Pair]) -> Map<String, Value> {
    let ratio = |pair: &Pair| {
        f64::from(pair.fenced.registers.max(1)) / f64::from(pair.native.registers.max(1))
    };
    let mean = |of: &dyn Fn(&Pair) -> u32| {
        let sum: u64 = pairs.iter().map(|pair| u64::from(of(pair))).sum();
        round(sum as f64 / pairs.len() as f64)
    };
    let spill =
        |of: &dyn Fn(&Pair) -> Taken| pairs.iter().filter(|pair| of(pair).spilled > 0).count();
    let fewer = |pair: &&Pair| pair.fenced.warps() < pair.native.warps();
    let mut out = Map::new();
    let mut put = |name: &str, value: Value| out.insert(format!("{prefix}{name}"), value);
    put("kernels", json!(pairs.len()));
    put(
        "registers_native",
        json!(mean(&|pair| pair.native.registers)),
    );
    put(
        "registers_fenced",
        json!(mean(&|pair| pair.fenced.registers)),
    );
    put(
        "registers_ratio",
        json!(geometric_mean(pairs.iter().map(ratio)).map(round)),
    );
    put("warps_native", json!(mean(&|pair| pair.native.warps())));
    put("warps_fenced", json!(mean(&|pair| pair.fenced.warps())));
    put("fewer_warps", json!(pairs.iter().filter(fewer).count()));
    put("spill_native", json!(spill(&|pair| pair.native)));
    put("spill_fenced", json!(spill(&|pair| pair.fenced)));
    out
}

impl Resources {
    /// The kernels of a file; none if it is refused, or if ptxas does not take it.
    fn pairs(&self, text: &str, level: u32) -> Result<Vec<Pair>> {
        let Ok(fenced) = fence(text, FenceForm::default()) else {
            return Ok(Vec::new());
        };
        let Ok(native) = self.taken(text, level)? else {
            return Ok(Vec::new());
        };
        let fenced = match self.taken(&fenced.text, level)? {
            Ok(fenced) => fenced,
            Err(said) => bail!("ptxas refuses fenced PTX, and takes it unfenced: {said}"),
        };
        let pairs = native.into_iter().filter_map(|(name, native)| {
            let fenced = *fenced.get(&name)?;
            Some(Pair { native, fenced })
        });
        Ok(pairs.collect())
    }

    /// What the kernels of a text take; what ptxas says if it refuses it.
    fn taken(&self, text: &str, level: u32) -> Result<Result<BTreeMap<String, Taken>, String>> {
        let file = tempfile::Builder::new().suffix(".ptx").tempfile()?;
        std::fs::write(file.path(), text).context("failed to write PTX")?;
        let output = Command::new(&self.ptxas)
            .args(["--verbose", "--output-file", "/dev/null"])
            .arg(format!("--opt-level={level}"))
            .arg(format!("--gpu-name={}", architecture(text)))
            .arg(file.path())
            .output()
            .with_context(|| format!("failed to start {}", self.ptxas.display()))?;
        let said = String::from_utf8_lossy(&output.stderr);
        Ok(match output.status.success() {
            true => Ok(kernels(&said)),
            false => Err(said.lines().take(4).collect::<Vec<_>>().join("\n")),
        })
    }
}

/// What to assemble a text for: its target, where that is one of a single architecture or
/// a later one; else compute capability 9.0.
fn architecture(text: &str) -> &str {
    let target = text
        .lines()
        .find_map(|line| line.trim().strip_prefix(".target"));
    let target = target.and_then(|names| names.split(',').next());
    let target = target.map_or("sm_90", str::trim);
    let number = target
        .strip_prefix("sm_")
        .and_then(|number| number.parse::<u32>().ok());
    match number {
        Some(..=90) => "sm_90",
        _ => target,
    }
}

/// What ptxas says of kernels.
fn kernels(said: &str) -> BTreeMap<String, Taken> {
    let mut all: BTreeMap<String, Taken> = BTreeMap::new();
    let mut entry = None;
    let mut properties_of = None;
    for line in said.lines() {
        let quoted = |line: &str| line.split('\'').nth(1).map(str::to_owned);
        if line.contains("Compiling entry function") {
            entry = quoted(line);
        } else if let Some((_, name)) = line.split_once("Function properties for ") {
            properties_of = Some(name.trim().to_owned());
        } else if line.contains("bytes spill stores") {
            // (Of other functions, too.)
            if entry.is_some() && properties_of == entry {
                let taken = all.entry(entry.clone().unwrap_or_default()).or_default();
                taken.spilled = before(line, "bytes spill stores").unwrap_or(0);
            }
        } else if line.contains("Used ")
            && let Some(name) = &entry
            && let Some(registers) = before(line, "registers")
        {
            let taken = all.entry(name.clone()).or_default();
            taken.registers = registers as u32;
        }
    }
    all
}

/// The number before some words.
fn before(line: &str, words: &str) -> Option<u64> {
    let (left, _) = line.split_once(words)?;
    left.split_whitespace().next_back()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAID: &str = "\
ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'k' for 'sm_90'
ptxas info    : Function properties for k
    16 bytes stack frame, 12 bytes spill stores, 8 bytes spill loads
ptxas info    : Used 255 registers, used 1 barriers, 368 bytes cmem[0]
ptxas info    : Compiling entry function 'other' for 'sm_90'
ptxas info    : Function properties for other
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 8 registers, used 0 barriers
ptxas info    : Function properties for called
    0 bytes stack frame, 4 bytes spill stores, 4 bytes spill loads
";

    #[test]
    fn what_ptxas_says_is_read() {
        let all = kernels(SAID);
        let taken = |registers, spilled| Taken { registers, spilled };
        assert_eq!(all["k"], taken(255, 12));
        assert_eq!(all["other"], taken(8, 0));
        assert_eq!(all.len(), 2);
        assert_eq!(all["k"].warps(), 8);
        assert_eq!(all["other"].warps(), 64);
        assert_eq!(taken(33, 0).warps(), 51);
    }

    #[test]
    fn texts_are_assembled_for_what_they_are_written_for() {
        assert_eq!(architecture(".version 8.0\n.target sm_75\n"), "sm_90");
        assert_eq!(architecture(".target sm_90a, debug\n"), "sm_90a");
        assert_eq!(architecture(".target sm_120\n"), "sm_120");
    }

    #[test]
    fn numbers_compare_kernels() {
        let taken = |registers, spilled| Taken { registers, spilled };
        let pairs = [
            Pair {
                native: taken(32, 0),
                fenced: taken(40, 0),
            },
            Pair {
                native: taken(128, 0),
                fenced: taken(128, 4),
            },
        ];
        let numbers = numbers("o3_", &pairs);
        assert_eq!(numbers["o3_kernels"], 2);
        assert_eq!(numbers["o3_registers_ratio"], 1.118);
        assert_eq!(numbers["o3_warps_native"], 40.0);
        assert_eq!(numbers["o3_warps_fenced"], 33.5);
        assert_eq!(numbers["o3_fewer_warps"], 1);
        assert_eq!(
            (&numbers["o3_spill_native"], &numbers["o3_spill_fenced"]),
            (&json!(0), &json!(1))
        );
    }
}
