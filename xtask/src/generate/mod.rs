//! Generates `crates/driver/src/generated` from the headers of the pinned
//! CUDA toolchain: the one declaration of the CUDA driver API that exports,
//! hooks, the table of real functions and the CPU device derive from.
//!
//! `cuda.h` is preprocessed with `__CUDA_API_VERSION_INTERNAL`, which declares
//! every revision of every function. Values, sizes and offsets are not
//! computed here but printed by a C program, so that Rust and C cannot
//! disagree unnoticed. The output depends on the headers alone.

mod emit;
mod layout;
pub mod parse;

use anyhow::{Context, Result, bail};
use std::path::Path;
use std::process::Command;
use toolchain::Cuda;

/// Where the generated files live, from the workspace root.
const OUTPUT: &str = "crates/driver/src/generated";

/// Writes the generated files; with `check`, compares instead and fails with
/// the name of the first file that differs.
pub fn run(check: bool) -> Result<()> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .context("xtask has no parent folder")?;
    let include = Cuda::pinned()?.include();
    let text = preprocess(&include)?;
    let header = parse::header(&text).context("in cuda.h")?;
    let typedefs = std::fs::read_to_string(include.join("cudaTypedefs.h"))
        .context("failed to read cudaTypedefs.h")?;
    let revisions = parse::revisions(&typedefs, &header)?;
    let mut others = Vec::new();
    for name in ["cudaGL.h", "cudaEGL.h", "cudaVDPAU.h"] {
        others.push(
            std::fs::read_to_string(include.join(name))
                .with_context(|| format!("failed to read {name}"))?,
        );
    }
    let profiler = std::fs::read_to_string(include.join("cudaProfilerTypedefs.h"))
        .context("failed to read cudaProfilerTypedefs.h")?;
    let extras = parse::extras(&others, &profiler);
    let values = layout::measure(&header, &include)?;
    let output = root.join(OUTPUT);
    for (name, content) in emit::files(&header, &revisions, &extras, &values)? {
        let path = output.join(name);
        if check {
            let present = std::fs::read_to_string(&path).unwrap_or_default();
            if present != content {
                bail!(
                    "{OUTPUT}/{name} differs from what the headers give; run `cargo xtask generate`"
                );
            }
        } else {
            std::fs::create_dir_all(&output)?;
            std::fs::write(&path, content)
                .with_context(|| format!("failed to write {}", path.display()))?;
        }
    }
    Ok(())
}

/// `cuda.h` after preprocessing, only its own lines, with the macros that it
/// defines still in place.
fn preprocess(include: &Path) -> Result<String> {
    let header = include.join("cuda.h");
    let output = Command::new("cc")
        .args(["-E", "-dD", "-D__CUDA_API_VERSION_INTERNAL", "-x", "c"])
        .arg(&header)
        .output()
        .context("failed to start the C compiler `cc`")?;
    if !output.status.success() {
        bail!(
            "cc -E failed on {}: {}",
            header.display(),
            String::from_utf8_lossy(&output.stderr)
        );
    }
    let text =
        String::from_utf8(output.stdout).context("cc -E printed something that is not UTF-8")?;
    let mut kept = String::new();
    let mut own = false;
    for line in text.lines() {
        if let Some(marker) = line.strip_prefix("# ") {
            own = marker
                .split('"')
                .nth(1)
                .is_some_and(|file| file.ends_with("/cuda.h"));
        } else if own {
            kept.push_str(line);
            kept.push('\n');
        }
    }
    Ok(kept)
}
