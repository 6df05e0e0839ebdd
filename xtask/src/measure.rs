//! `bench`: what can be measured without a GPU, written to `bench/results`.

use crate::command::{cargo, command, run};
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
    let bench = build::bench()?;
    let results = root().join("bench/results");
    let commit = suite::results::commit(&root());
    run(command(&bench, ["instrument", "--commit", &commit])
        .arg("--ptx")
        .arg(&corpora)
        .arg("--json")
        .arg(results.join("instrument.json")))?;
    // Writes bench/results/cpu-emulator.json itself.
    run(&mut cargo(&[
        "bench",
        "--package",
        "ringfence-emulate",
        "--bench",
        "emulator",
    ]))
}
