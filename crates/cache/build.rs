//! Computes what distinguishes this build's results from those of any other: a hash
//! of the sources that decide them, and of the versions of what they use. A version
//! number would not do: it stays the same while the sources change.

use std::path::{Path, PathBuf};

/// The crates whose code makes of PTX what is kept, or reads it again.
const CRATES: [&str; 9] = [
    "analysis",
    "cache",
    "debuginfo",
    "driver",
    "fatbin",
    "instrument",
    "model",
    "ptx",
    "runtime",
];

/// Folders and files besides, from the workspace's root.
const OTHERS: [&str; 3] = ["Cargo.lock", "crates/manager/src/compile", "device"];

fn main() -> std::io::Result<()> {
    let own = PathBuf::from(std::env::var_os("CARGO_MANIFEST_DIR").unwrap_or_default());
    let root = own.join("../..");
    let mut files = Vec::new();
    let crates = CRATES.map(|name| format!("crates/{name}/src"));
    for path in crates.iter().map(String::as_str).chain(OTHERS) {
        let path = root.join(path);
        println!("cargo::rerun-if-changed={}", path.display());
        below(&path, &mut files)?;
    }
    files.sort();
    let mut hash = blake3::Hasher::new();
    for file in files {
        let name = file.strip_prefix(&root).unwrap_or(&file);
        let bytes = std::fs::read(&file)?;
        for part in [name.as_os_str().as_encoded_bytes(), &bytes] {
            hash.update(&(part.len() as u64).to_le_bytes());
            hash.update(part);
        }
    }
    println!("cargo::rustc-env=RINGFENCE_SOURCES={}", hash.finalize());
    Ok(())
}

/// All files below a path.
fn below(path: &Path, files: &mut Vec<PathBuf>) -> std::io::Result<()> {
    if !path.is_dir() {
        files.push(path.to_owned());
        return Ok(());
    }
    for entry in std::fs::read_dir(path)? {
        below(&entry?.path(), files)?;
    }
    Ok(())
}
