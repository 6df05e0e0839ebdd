//! What the bounds of each access are derived from: how many sites are checked
//! by their address alone, because the buffer is not known, and why.

use crate::instrument::folders;
use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::PathBuf;
use suite::results::{Provenance, Results, round};

/// What to count.
#[derive(clap::Args)]
pub struct Origins {
    /// Folder below which all .ptx files are taken.
    #[arg(long)]
    ptx: PathBuf,
    /// File for the results.
    #[arg(long)]
    json: PathBuf,
    /// Commit of the sources.
    #[arg(long, default_value = "")]
    commit: String,
}

#[derive(Debug, Serialize, Deserialize)]
struct Summary {
    /// Accesses that carry a check.
    sites: usize,
    /// Of these, how many are checked by their address alone.
    by_address: usize,
    /// The same, of a hundred.
    by_address_percent: f64,
    /// Files.
    files: usize,
}

/// One folder of PTX.
#[derive(Debug, Serialize, Deserialize)]
struct Row {
    folder: String,
    files: usize,
    sites: usize,
    by_address: usize,
    /// Sites by the source of their bounds (`kind` of a site's provenance).
    bounds_from: BTreeMap<String, usize>,
    /// Sites that are checked by their address alone, by reason.
    because: BTreeMap<String, usize>,
}

/// Counts and writes the results.
///
/// # Errors
///
/// There is no PTX, or some of it cannot be instrumented.
pub fn measure(options: &Origins) -> Result<()> {
    let folders = folders(&options.ptx)?;
    let mut rows = Vec::new();
    for (folder, files) in &folders {
        let mut row = Row {
            folder: folder.clone(),
            files: files.len(),
            sites: 0,
            by_address: 0,
            bounds_from: BTreeMap::new(),
            because: BTreeMap::new(),
        };
        for text in files {
            let made = instrument::instrument(text, &instrument::Options::default())
                .with_context(|| format!("PTX of the folder `{folder}`"))?;
            row.sites += made.sites.len();
            row.by_address += made.lost.len();
            for site in &made.sites {
                let from = serde_json::to_value(site.provenance)?;
                let from = from["kind"].as_str().context("an origin has a kind")?;
                *row.bounds_from.entry(from.into()).or_default() += 1;
            }
            for (_, lost) in &made.lost {
                *row.because.entry(lost.name().into()).or_default() += 1;
            }
        }
        rows.push(row);
    }
    let sites = rows.iter().map(|row| row.sites).sum::<usize>();
    let by_address = rows.iter().map(|row| row.by_address).sum::<usize>();
    let summary = Summary {
        sites,
        by_address,
        by_address_percent: round(100.0 * by_address as f64 / sites.max(1) as f64),
        files: rows.iter().map(|row| row.files).sum(),
    };
    println!(
        "origins: {by_address} of {sites} accesses are checked by their address alone ({:.2} %)",
        summary.by_address_percent
    );
    Results {
        summary,
        provenance: Provenance::without_driver("none".into(), &options.commit),
        rows,
    }
    .write(&options.json)
}
