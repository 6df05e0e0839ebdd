//! What a module costs when it is loaded, with and without a folder in which
//! instrumented modules are kept: `ringfence run --cache-dir`.

use ::cache::{Cache, Key};
use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};
use std::hint::black_box;
use std::path::PathBuf;
use std::time::Instant;
use suite::results::{Provenance, Results, median, round};

/// Bytes that the folder may hold.
const SIZE: u64 = 4 << 30;

/// What to measure.
#[derive(clap::Args)]
pub struct CachedStart {
    /// A module; it should have 5 MB or more.
    #[arg(long)]
    ptx: PathBuf,
    /// A folder on the disk that is measured; it must not be there.
    #[arg(long)]
    folder: PathBuf,
    /// File for the results.
    #[arg(long)]
    json: PathBuf,
    /// Commit of the measured sources.
    #[arg(long, default_value = "")]
    commit: String,
    /// Passes; the median counts.
    #[arg(long, default_value_t = 9)]
    passes: usize,
}

/// Milliseconds from a module's text to what is loaded in its place.
#[derive(Debug, Serialize, Deserialize)]
struct Summary {
    /// Megabytes (10^6) of the module.
    megabytes: f64,
    /// Without a folder.
    without: f64,
    /// With a folder in which it is not, and is written.
    cold: f64,
    /// With a folder in which it is.
    warm: f64,
    /// Megabytes of its file.
    file_megabytes: f64,
}

/// One pass.
#[derive(Debug, Serialize, Deserialize)]
struct Row {
    without: f64,
    cold: f64,
    warm: f64,
}

/// Measures and writes the results.
///
/// # Errors
///
/// The module cannot be read or instrumented, or the folder cannot be used.
pub fn measure(options: &CachedStart) -> Result<()> {
    ensure!(
        !options.folder.exists(),
        "{} is there already",
        options.folder.display()
    );
    let text = std::fs::read_to_string(&options.ptx)
        .with_context(|| format!("failed to read {}", options.ptx.display()))?;
    let make = || instrument::instrument(black_box(&text), &instrument::Options::default());
    let mut rows = Vec::new();
    let mut file = 0;
    for _ in 0..options.passes.max(1) {
        let start = Instant::now();
        black_box(make()?);
        let without = milliseconds(start);
        // As in `crates/runtime/src/prepare.rs`.
        let load = || -> Result<(f64, usize)> {
            let start = Instant::now();
            let cache = Cache::open(&options.folder, SIZE)?;
            let key = Key::of("bench").and(text.as_bytes()).key();
            let found = cache.get(&key);
            let bytes = found.as_ref().map_or(0, Vec::len);
            match found {
                Some(bytes) => {
                    let parts = instrument::from_bytes(&bytes).context("its bytes are none")?;
                    black_box(parts);
                }
                None => {
                    let parts = vec![make()?];
                    let bytes = instrument::to_bytes(&parts).context("it has no bytes")?;
                    cache.put(&key, &bytes);
                    black_box(parts);
                }
            }
            Ok((milliseconds(start), bytes))
        };
        let (cold, missing) = load()?;
        let (warm, found) = load()?;
        ensure!(missing == 0 && found > 0, "the folder does not keep it");
        file = found;
        std::fs::remove_dir_all(&options.folder)?;
        rows.push(Row {
            without: round(without),
            cold: round(cold),
            warm: round(warm),
        });
    }
    let of = |value: fn(&Row) -> f64| {
        let mut values: Vec<f64> = rows.iter().map(value).collect();
        median(&mut values).context("no pass was made")
    };
    let summary = Summary {
        megabytes: round(text.len() as f64 / 1e6),
        without: of(|row| row.without)?,
        cold: of(|row| row.cold)?,
        warm: of(|row| row.warm)?,
        file_megabytes: round(file as f64 / 1e6),
    };
    println!(
        "cached-start: {:.1} MB: {:.1} ms without a cache, {:.1} ms with an empty one, {:.1} ms with a warm one",
        summary.megabytes, summary.without, summary.cold, summary.warm
    );
    Results {
        summary,
        provenance: Provenance::without_driver(suite::results::processor(), &options.commit),
        rows,
    }
    .write(&options.json)
}

fn milliseconds(start: Instant) -> f64 {
    start.elapsed().as_secs_f64() * 1e3
}
