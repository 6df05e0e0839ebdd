//! Measures the pass: `throughput FILE-OR-FOLDER... [--verify]` instruments
//! all PTX below, one module after the other on one core, for at least two
//! seconds, and prints megabytes of PTX a second.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

fn collect(path: PathBuf, out: &mut Vec<(PathBuf, String)>) {
    if path.is_dir() {
        let mut inside: Vec<PathBuf> = std::fs::read_dir(&path)
            .into_iter()
            .flatten()
            .filter_map(|entry| Some(entry.ok()?.path()))
            .collect();
        inside.sort();
        inside.into_iter().for_each(|path| collect(path, out));
    } else if path.extension().is_some_and(|extension| extension == "ptx")
        && let Ok(text) = std::fs::read_to_string(&path)
    {
        out.push((path, text));
    }
}

fn main() -> ExitCode {
    let verify = std::env::args().any(|argument| argument == "--verify");
    let mut modules = Vec::new();
    for path in std::env::args()
        .skip(1)
        .filter(|argument| argument != "--verify")
    {
        collect(PathBuf::from(path), &mut modules);
    }
    if modules.is_empty() {
        eprintln!("usage: throughput FILE-OR-FOLDER... [--verify]");
        return ExitCode::from(2);
    }
    let options = instrument::Options::default();
    let (mut bytes, mut written, mut sites, mut rounds) = (0usize, 0usize, 0usize, 0u32);
    let start = Instant::now();
    while start.elapsed() < Duration::from_secs(2) {
        rounds += 1;
        for (path, text) in &modules {
            match instrument::instrument(text, &options) {
                Ok(done) => {
                    bytes += text.len();
                    written += done.text.len();
                    sites += done.sites.len();
                    if verify
                        && let Err(errors) = instrument::verify(text, &done.text, &done.entries)
                    {
                        eprintln!("{}: {}", path.display(), errors[0]);
                        return ExitCode::FAILURE;
                    }
                }
                Err(error) => {
                    eprintln!("{}: {error}", path.display());
                    return ExitCode::FAILURE;
                }
            }
        }
    }
    let seconds = start.elapsed().as_secs_f64();
    println!(
        "{} modules, {:.2} MB, {} sites: {:.1} MB/s in, {:.1} MB/s out",
        modules.len(),
        bytes as f64 / f64::from(rounds) / 1e6,
        sites / rounds as usize,
        bytes as f64 / 1e6 / seconds,
        written as f64 / 1e6 / seconds
    );
    ExitCode::SUCCESS
}
