//! `bench`: what can be measured without a GPU, written to `bench/results`.

use crate::command::{command, run};
use crate::workspace::{root, target};
use crate::{build, setup};
use anyhow::Result;
use suite::case::Cudart;
use suite::compile::{Job, flags};

/// Measures instrumentation and the emulator.
///
/// # Errors
///
/// Something cannot be built, or a bench fails.
pub fn run_all() -> Result<()> {
    let corpora = setup::corpora()?;
    let toolchain = setup::cuda()?;
    let bench = build::bench()?;
    let results = root().join("bench/results");
    let commit = suite::results::commit(&root());
    run(command(&bench, ["instrument", "--commit", &commit])
        .arg("--ptx")
        .arg(&corpora)
        .arg("--json")
        .arg(results.join("instrument.json")))?;
    let kernels = root().join("bench/kernels");
    let ptx = target().join("bench.ptx");
    let mut flags = flags(Cudart::Static, Some(90));
    flags.push("-ptx".into());
    toolchain.compile(
        &Job {
            sources: vec![kernels.join("bench.cu")],
            flags,
            output: ptx.clone(),
        },
        &kernels,
    )?;
    run(command(&bench, ["emulator", "--commit", &commit])
        .arg("--ptx")
        .arg(&ptx)
        .arg("--json")
        .arg(results.join("emulator.json")))
}
