//! Writes `crates/instrument/src/device/*.ptx`: `device/heap.cu` as the pinned
//! compiler translates it, cut into the functions that instrumentation
//! inserts. Numbers that host and device share go in as `-D` options.

use crate::command::{command, run as run_command};
use crate::setup;
use crate::workspace::root;
use anyhow::{Context, Result, bail, ensure};
use model::layout::{self, heap};

const NOTICE: &str = "// Written by `cargo xtask generate` from device/heap.cu; do not edit.\n";
/// The function that every module needs which looks pointers up.
const BLOCK: &str = "__ringfence_block";

/// Regenerates, or with `check` only says whether the committed files differ.
///
/// # Errors
///
/// The compiler fails, its output has another form, or a file differs.
pub fn run(check: bool) -> Result<()> {
    let scratch = root().join("target/generate-heap");
    std::fs::create_dir_all(&scratch)?;
    let out = scratch.join("heap.ptx");
    let mut nvcc = command(
        setup::cuda()?.nvcc(),
        ["-rdc=true", "-ptx", "-arch=compute_75", "-o"],
    );
    nvcc.arg(&out)
        .args(definitions())
        .arg(root().join("device/heap.cu"));
    run_command(&mut nvcc)?;
    let text = std::fs::read_to_string(&out)?;
    let (block, rest): (Vec<_>, Vec<_>) = functions(&text)?.into_iter().partition(|function| {
        function.contains(&format!("{BLOCK}(")) && function.starts_with(".func  (.param .align 8")
    });
    ensure!(block.len() == 1, "no function {BLOCK}");
    for (name, functions) in [("block.ptx", block), ("heap.ptx", rest)] {
        let path = root().join("crates/instrument/src/device").join(name);
        let text = format!("{NOTICE}{}", functions.concat());
        let old = std::fs::read_to_string(&path).unwrap_or_default();
        if old == text {
            continue;
        }
        if check {
            bail!(
                "{} is not what device/heap.cu gives; run `cargo xtask generate`",
                path.display()
            );
        }
        std::fs::create_dir_all(path.parent().context("a file has a folder")?)?;
        std::fs::write(&path, text)
            .with_context(|| format!("failed to write {}", path.display()))?;
    }
    Ok(())
}

/// The functions with a body, local to the file.
fn functions(text: &str) -> Result<Vec<String>> {
    let mut functions = Vec::new();
    let mut current: Option<String> = None;
    for line in text.lines() {
        let line = line.trim_end();
        if let Some(head) = line.strip_prefix(".visible ") {
            ensure!(
                current.is_none() && head.starts_with(".func"),
                "unexpected line `{line}`"
            );
            current = Some(String::new());
        }
        ensure!(
            !line.starts_with(".global") && !line.starts_with(".func"),
            "the heap has variables or functions of its own: `{line}`"
        );
        let Some(function) = &mut current else {
            continue;
        };
        if line.is_empty() {
            continue;
        }
        function.push_str(line.strip_prefix(".visible ").unwrap_or(line));
        function.push('\n');
        if line == "}" {
            functions.extend(current.take());
        }
    }
    Ok(functions)
}

fn definitions() -> Vec<String> {
    let numbers = [
        ("HEAP_BASE", heap::HEAP_BASE),
        ("CHUNK_SHIFT", u64::from(heap::CHUNK_SHIFT)),
        ("CHUNK_BLOCKS", heap::CHUNK_BLOCKS),
        ("CLASSES", u64::from(heap::CLASSES)),
        ("SLOTS", u64::from(heap::SLOTS)),
        ("HEAP_CHUNKS_MAPPED", heap::HEAP_CHUNKS_MAPPED),
        ("HEAP_CONTROL", heap::HEAP_CONTROL),
        ("HEAP_MAPS", heap::HEAP_MAPS),
        ("MAP_WORDS", heap::MAP_WORDS),
        ("MAP_FREE", heap::MAP_FREE),
        ("HEAP_QUARANTINE", heap::HEAP_QUARANTINE),
        ("QUARANTINE_CAPACITY", heap::QUARANTINE_CAPACITY),
        ("HEAP_CHUNKS", heap::HEAP_CHUNKS),
        ("HEAP_HEADERS", heap::HEAP_HEADERS),
        ("KIND_RUN", u64::from(heap::KIND_RUN)),
        ("KIND_REST", u64::from(heap::KIND_REST)),
        ("STATE_SHIFT", u64::from(heap::STATE_SHIFT)),
        ("STATE_LIVE", heap::STATE_LIVE),
        ("STATE_FREED", heap::STATE_FREED),
        ("FREE_AGAIN", heap::FREE_AGAIN),
        ("FREE_INSIDE", heap::FREE_INSIDE),
        ("FREE_NOTHING", heap::FREE_NOTHING),
        ("MISS_SIZE", layout::MISS_SIZE),
    ];
    numbers
        .iter()
        .map(|(name, value)| format!("-DRF_{name}={value:#x}"))
        .collect()
}
