//! How fast PTX is instrumented, on one core: what loading a module costs.

use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};
use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::time::Instant;
use suite::results::{Provenance, Results, median, round};

/// What to measure.
#[derive(clap::Args)]
pub struct Instrument {
    /// Folder below which all .ptx files are taken.
    #[arg(long)]
    ptx: PathBuf,
    /// File for the results.
    #[arg(long)]
    json: PathBuf,
    /// Commit of the measured sources.
    #[arg(long, default_value = "")]
    commit: String,
    /// Passes over all files; the median counts.
    #[arg(long, default_value_t = 5)]
    passes: usize,
}

#[derive(Debug, Serialize, Deserialize)]
struct Summary {
    /// Megabytes (10^6) of source PTX a second.
    megabytes_per_second: f64,
    /// Megabytes of source PTX.
    megabytes: f64,
    /// Files.
    files: usize,
    /// Bytes written for each byte read.
    growth: f64,
}

/// One folder of PTX.
#[derive(Debug, Serialize, Deserialize)]
struct Row {
    folder: String,
    files: usize,
    megabytes: f64,
    megabytes_per_second: f64,
}

/// Measures and writes the results.
///
/// # Errors
///
/// There is no PTX, or some of it cannot be instrumented.
pub fn measure(options: &Instrument) -> Result<()> {
    let folders = folders(&options.ptx)?;
    let mut rows = Vec::new();
    let (mut bytes, mut written, mut seconds) = (0, 0, 0.0);
    for (folder, files) in &folders {
        let size: usize = files.iter().map(String::len).sum();
        let mut times = Vec::new();
        let mut output = 0;
        for _ in 0..options.passes.max(1) {
            output = 0;
            let start = Instant::now();
            for text in files {
                let made = instrument::instrument(black_box(text), &instrument::Options::default())
                    .with_context(|| format!("PTX of the folder `{folder}`"))?;
                output += black_box(made).text.len();
            }
            times.push(start.elapsed().as_secs_f64());
        }
        let time = median(&mut times).context("no pass was made")?;
        rows.push(Row {
            folder: folder.clone(),
            files: files.len(),
            megabytes: round(size as f64 / 1e6),
            megabytes_per_second: round(size as f64 / 1e6 / time),
        });
        bytes += size;
        written += output;
        seconds += time;
    }
    let summary = Summary {
        megabytes_per_second: round(bytes as f64 / 1e6 / seconds),
        megabytes: round(bytes as f64 / 1e6),
        files: rows.iter().map(|row| row.files).sum(),
        growth: round(written as f64 / bytes as f64),
    };
    println!(
        "instrument: {:.1} MB/s over {:.1} MB in {} files, growth {:.2}",
        summary.megabytes_per_second, summary.megabytes, summary.files, summary.growth
    );
    Results {
        summary,
        provenance: Provenance::without_driver(suite::results::processor(), &options.commit),
        rows,
    }
    .write(&options.json)
}

/// The PTX below a folder: each folder that holds some, with its files.
///
/// # Errors
///
/// There is none, or some cannot be read.
pub fn folders(path: &Path) -> Result<Vec<(String, Vec<String>)>> {
    let mut folders = Vec::new();
    read(path, &mut folders)?;
    folders.sort();
    ensure!(!folders.is_empty(), "no PTX below {}", path.display());
    Ok(folders)
}

/// Texts of all PTX below `path`, by folder.
fn read(path: &Path, folders: &mut Vec<(String, Vec<String>)>) -> Result<()> {
    let mut files = Vec::new();
    let entries =
        std::fs::read_dir(path).with_context(|| format!("failed to list {}", path.display()))?;
    for entry in entries {
        let entry = entry?.path();
        if entry.is_dir() {
            read(&entry, folders)?;
        } else if entry
            .extension()
            .is_some_and(|extension| extension == "ptx")
        {
            files.push(
                std::fs::read_to_string(&entry)
                    .with_context(|| format!("failed to read {}", entry.display()))?,
            );
        }
    }
    if !files.is_empty() {
        let name = path.file_name().unwrap_or(path.as_os_str());
        folders.push((name.to_string_lossy().into_owned(), files));
    }
    Ok(())
}
