//! `bench`: what can be measured without a GPU, written to `bench/results`.

use crate::command::{command, run};
use crate::workspace::root;
use crate::{build, setup};
use anyhow::Result;

/// Measures instrumentation and the emulator.
///
/// # Errors
///
/// Something cannot be built, or a bench fails.
pub fn run_all() -> Result<()> {
    let corpora = setup::corpora()?;
    let built = build::all()?;
    let bench = built.folder.join("ringfence-bench");
    let results = root().join("bench/results");
    let commit = suite::results::commit(&root());
    run(command(&bench, ["instrument", "--commit", &commit])
        .arg("--ptx")
        .arg(&corpora)
        .arg("--json")
        .arg(results.join("instrument.json")))?;
    let toolchain = setup::cuda()?;
    run(command(&bench, ["emulator", "--commit", &commit])
        .arg("--kernels")
        .arg(root().join("bench/kernels/bench.cu"))
        .arg("--nvcc")
        .arg(toolchain.nvcc())
        .arg("--json")
        .arg(results.join("emulator.json")))
}
