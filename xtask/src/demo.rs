//! The demo: a real CUDA program with a planted bug, compiled by nvcc, under
//! Ringfence on the CPU device; then two tenants of a manager, one of them hostile
//! (`demo_tenants`).

use crate::command::command;
use crate::workspace::{root, target};
use crate::{build, demo_tenants, setup};
use anyhow::{Context, Result, ensure};
use std::path::PathBuf;
use std::time::Instant;
use suite::case::Cudart;
use suite::compile::{Job, Toolchain, flags};
use suite::judge::EXIT_FINDINGS;

/// Builds everything, runs the demo, shows the report.
///
/// # Errors
///
/// Something cannot be built, the bug was not found, or a tenant was harmed.
pub fn run() -> Result<()> {
    let start = Instant::now();
    let toolchain = setup::cuda()?;
    let built = build::all()?;
    let program = program(&toolchain)?;
    println!("ready after {:.0} s\n", start.elapsed().as_secs_f64());
    println!("$ ringfence run --device cpu -- {}", program.display());
    let status = command(&built.command, ["run", "--device", "cpu", "--"])
        .arg(&program)
        .status()
        .with_context(|| format!("failed to start {}", built.command.display()))?;
    ensure!(
        status.code() == Some(EXIT_FINDINGS),
        "the planted bug was not reported: ringfence ended with {status}"
    );
    println!(
        "\nThe bug is in suite/demo/blur.cu; exit status {EXIT_FINDINGS} says that something was \
         found."
    );
    demo_tenants::run(&built, &toolchain)
}

/// Compiles the program of the demo.
///
/// # Errors
///
/// The CUDA compiler refuses it.
pub fn program(toolchain: &Toolchain) -> Result<PathBuf> {
    let folder = target().join("demo");
    std::fs::create_dir_all(&folder)
        .with_context(|| format!("failed to make {}", folder.display()))?;
    let program = folder.join("blur");
    toolchain.compile(
        &Job {
            sources: vec![root().join("suite/demo/blur.cu")],
            flags: demo_flags(),
            output: program.clone(),
        },
        &[root().join("suite/cases/include")],
    )?;
    Ok(program)
}

/// nvcc's flags: as a developer would build it, with line numbers of the host.
fn demo_flags() -> Vec<String> {
    let mut flags = flags(Cudart::Static, None);
    flags.push("-g".into());
    flags
}
