//! `bench`: what can be measured without a GPU, written to `bench/results`.

use crate::command::{cargo, command, run};
use crate::workspace::{root, target};
use crate::{build, setup};
use anyhow::Result;

/// Measures instrumentation, canary scans and the emulator, and judges the
/// OpenCL cases on this machine's platform.
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
    run(command(&bench, ["origins", "--commit", &commit])
        .arg("--ptx")
        .arg(&corpora)
        .arg("--json")
        .arg(results.join("origins.json")))?;
    run(command(&bench, ["fenced", "--commit", &commit])
        .arg("--ptx")
        .arg(&corpora)
        .arg("--json")
        .arg(results.join("fenced.json")))?;
    run(command(&bench, ["resources", "--commit", &commit])
        .arg("--ptx")
        .arg(&corpora)
        .arg("--ptxas")
        .arg(toolchain::cuda().program("ptxas"))
        .arg("--json")
        .arg(results.join("fence-resources.json")))?;
    let cases = target().join("suite-opencl");
    build::opencl_cases(&cases)?;
    let built = build::all()?;
    run(command(
        built.folder.join("ringfence-suite"),
        ["run", "--device", "cpu"],
    )
    .arg("--cases")
    .arg(&cases)
    .arg("--ringfence")
    .arg(&built.command)
    .arg("--json")
    .arg(results.join("suite-opencl-cpu.json")))?;
    let program = target().join("opencl-canaries");
    build::opencl_bench(&program)?;
    run(command(&bench, ["opencl", "--commit", &commit])
        .arg("--program")
        .arg(&program)
        .arg("--ringfence")
        .arg(&built.command)
        .arg("--json")
        .arg(results.join("opencl-cpu.json"))
        .arg("--plots")
        .arg(root().join("docs")))?;
    // Writes bench/results/cpu-emulator.json itself.
    run(&mut cargo(&[
        "bench",
        "--package",
        "ringfence-emulate",
        "--bench",
        "emulator",
    ]))
}
