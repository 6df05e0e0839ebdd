//! Writes what the device runs of Ringfence's own, as the pinned compiler
//! translates it: `device/heap.cu` and `device/tenant.cu`, cut into the functions
//! that instrumentation inserts (`crates/instrument/src/device/*.ptx`), and modules of kernels that
//! the runtime loads (`crates/runtime/src/device/*.ptx`). What host and device
//! share is in `device/layout.cuh` (`generate_layout`).

use crate::command::{command, run as run_command};
use crate::setup;
use crate::workspace::root;
use anyhow::{Context, Result, bail, ensure};
use std::path::{Path, PathBuf};

/// The function that every module with pointer lookups needs.
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
    let tenant = compile("tenant", OLDEST, &["-rdc=true"])?;
    let text = functions(&tenant)?.concat();
    write(&instrument.join("tenant.ptx"), "tenant", &text, check)?;
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

/// Checks a module with the assembler.
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
