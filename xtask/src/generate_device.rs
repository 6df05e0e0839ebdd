//! Writes what the device runs of Ringfence's own, as the pinned compiler
//! translates it: `device/heap.cu`, cut into the functions that instrumentation
//! inserts (`crates/instrument/src/device/*.ptx`), and modules of kernels that
//! the runtime loads (`crates/runtime/src/device/*.ptx`). Numbers that host and
//! device share go in as `-D` options.

use crate::command::{command, run as run_command};
use crate::setup;
use crate::workspace::root;
use anyhow::{Context, Result, bail, ensure};
use model::layout::{self, canary, guard, heap, records};
use std::path::{Path, PathBuf};

/// The function that every module needs which looks pointers up.
const BLOCK: &str = "__ringfence_block";
/// The oldest devices that kernels of Ringfence's own run on, as PTX names them.
const OLDEST: &str = "75";
/// Files of `device` that become modules, the devices they are for, and what is
/// added to their names.
const MODULES: [(&str, &str, &str); 4] = [
    ("canary", OLDEST, ""),
    ("canary", "90", "_sm_90"),
    ("guard", OLDEST, ""),
    ("heap_check", OLDEST, ""),
];
/// The PTX version of the oldest driver that Ringfence runs on, 12.0. The
/// compiler writes its own, though it needs nothing newer.
const PTX_VERSION: &str = ".version 8.0";

/// Regenerates, or with `check` only says whether the committed files differ.
///
/// # Errors
///
/// The compiler fails, its output has another form, or a file differs.
pub fn run(check: bool) -> Result<()> {
    let text = compile("heap", OLDEST, &["-rdc=true"])?;
    let (block, rest): (Vec<_>, Vec<_>) = functions(&text)?.into_iter().partition(|function| {
        function.contains(&format!("{BLOCK}(")) && function.starts_with(".func  (.param .align 8")
    });
    ensure!(block.len() == 1, "no function {BLOCK}");
    let instrument = root().join("crates/instrument/src/device");
    for (name, functions) in [("block.ptx", block), ("heap.ptx", rest)] {
        write(&instrument.join(name), "heap", &functions.concat(), check)?;
    }
    let runtime = root().join("crates/runtime/src/device");
    for (name, device, suffix) in MODULES {
        let text = module(&compile(name, device, &[])?);
        assemble(&text, device)
            .with_context(|| format!("device/{name}.cu needs more than PTX {PTX_VERSION}"))?;
        let path = runtime.join(format!("{name}{suffix}.ptx"));
        write(&path, name, &text, check)?;
    }
    Ok(())
}

fn scratch() -> Result<PathBuf> {
    let scratch = root().join("target/generate-device");
    std::fs::create_dir_all(&scratch)?;
    Ok(scratch)
}

/// The PTX of `device/NAME.cu`.
fn compile(name: &str, device: &str, options: &[&str]) -> Result<String> {
    let out = scratch()?.join(name).with_extension("ptx");
    let device = format!("-arch=compute_{device}");
    let mut nvcc = command(setup::cuda()?.nvcc(), ["-ptx", &device, "-o"]);
    nvcc.arg(&out)
        .args(options)
        .args(definitions())
        .arg(root().join("device").join(name).with_extension("cu"));
    run_command(&mut nvcc)?;
    Ok(std::fs::read_to_string(&out)?)
}

/// A module without the compiler's remarks, in the version of the oldest driver.
fn module(text: &str) -> String {
    let kept = text
        .lines()
        .map(str::trim_end)
        .filter(|line| !line.is_empty() && !line.starts_with("//"))
        .map(|line| match line.starts_with(".version ") {
            true => PTX_VERSION,
            false => line,
        });
    kept.flat_map(|line| [line, "\n"]).collect()
}

/// Lets the assembler look at a module.
fn assemble(text: &str, device: &str) -> Result<()> {
    let scratch = scratch()?;
    let source = scratch.join("module.ptx");
    std::fs::write(&source, text)?;
    let device = format!("-arch=sm_{device}");
    let mut ptxas = command(
        setup::cuda()?.nvcc().with_file_name("ptxas"),
        [&device, "-o"],
    );
    run_command(ptxas.arg(scratch.join("module.cubin")).arg(&source))
}

fn write(path: &Path, source: &str, text: &str, check: bool) -> Result<()> {
    let notice =
        format!("// Written by `cargo xtask generate` from device/{source}.cu; do not edit.\n");
    let text = notice + text;
    if std::fs::read_to_string(path).unwrap_or_default() == text {
        return Ok(());
    }
    if check {
        bail!(
            "{} is not what device/{source}.cu gives; run `cargo xtask generate`",
            path.display()
        );
    }
    std::fs::create_dir_all(path.parent().context("a file has a folder")?)?;
    std::fs::write(path, text).with_context(|| format!("failed to write {}", path.display()))
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
        ("STATE_FREEING", heap::STATE_FREEING),
        ("MISS_SIZE", layout::MISS_SIZE),
        ("HEAP_WATCH", records::HEAP_WATCH),
        ("HEAP_RECORDS", records::HEAP_RECORDS),
        ("RECORD_RINGS", u64::from(records::RECORD_RINGS)),
        ("RECORD_SEGMENT", u64::from(records::RECORD_SEGMENT)),
        ("RECORD_TRIES", u64::from(records::RECORD_TRIES)),
        ("BLOCK_HEAD", records::BLOCK_HEAD),
        ("HEAP_RECORD", records::HEAP_RECORD),
        ("SIDE_BEFORE", guard::SIDE_BEFORE),
        ("SIDE_AFTER", guard::SIDE_AFTER),
        ("RING_HEAD", layout::RING_HEAD),
        ("RING_TAIL", layout::RING_TAIL),
        ("RING_RECORDS", layout::RING_RECORDS),
        ("RING_CAPACITY", layout::RING_CAPACITY),
        ("CANARY_TABLE", canary::CANARY_TABLE),
        ("CANARY_PINS", canary::CANARY_PINS),
        ("CANARY_CLAIMED", u64::from(canary::CANARY_CLAIMED)),
        ("CANARY_RECORD", canary::CANARY_RECORD),
        ("CHECK_STAMPS", canary::CHECK_STAMPS),
        ("CHECK_BLOCKS", canary::CHECK_BLOCKS),
        ("STAMPS", canary::STAMPS),
        ("NAMED_SLOTS", canary::NAMED_SLOTS as u64),
        ("SLOTS_NAMED", u64::from(canary::SLOTS_NAMED)),
        ("GUARD_CONTROL", guard::GUARD_CONTROL),
        ("STOP", guard::STOP),
        ("TABLE_SLOTS", guard::SLOTS),
        ("CONSUMED", guard::CONSUMED),
        ("EPOCH", guard::EPOCH),
        ("BEGUN", guard::BEGUN),
        ("ENDED", guard::ENDED),
        ("TIME", guard::TIME),
        ("FOUND", guard::FOUND),
        ("VERIFIED", guard::VERIFIED),
        ("FINDINGS", guard::FINDINGS),
        ("GUARD_FINDINGS", guard::GUARD_FINDINGS),
    ];
    numbers
        .iter()
        .map(|(name, value)| format!("-DRF_{name}={value:#x}"))
        .collect()
}
