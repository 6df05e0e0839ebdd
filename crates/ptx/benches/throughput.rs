//! Megabytes of PTX a second, by stage: `cargo bench -p ringfence-ptx`.
//! Reads the fixtures and, where they have been made, the corpora.

use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

fn collect(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            collect(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "ptx") {
            found.push(path);
        }
    }
}

/// Best of several rounds: the machine is shared.
fn measure(name: &str, bytes: usize, mut work: impl FnMut()) {
    let mut best = Duration::MAX;
    for _ in 0..10 {
        let started = Instant::now();
        work();
        best = best.min(started.elapsed());
    }
    println!(
        "{name:10} {:6.0} MB/s",
        bytes as f64 / 1e6 / best.as_secs_f64()
    );
}

fn main() {
    let crate_folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut paths = Vec::new();
    collect(&crate_folder.join("tests/data"), &mut paths);
    collect(&crate_folder.join("../../target/corpora"), &mut paths);
    let texts: Vec<String> = paths
        .iter()
        .filter_map(|path| std::fs::read_to_string(path).ok())
        .collect();
    let bytes = texts.iter().map(String::len).sum();
    println!("{} files, {:.1} MB", texts.len(), bytes as f64 / 1e6);
    measure("tokenize", bytes, || {
        for text in &texts {
            black_box(ptx::tokenize(text));
        }
    });
    measure("parse", bytes, || {
        for text in &texts {
            black_box(ptx::parse(text).is_ok());
        }
    });
    let modules: Vec<_> = texts
        .iter()
        .filter_map(|text| ptx::parse(text).ok())
        .collect();
    measure("classify", bytes, || {
        for function in modules.iter().flat_map(ptx::Module::functions) {
            for instruction in function.instructions() {
                black_box(ptx::table::classify(instruction));
            }
        }
    });
}
