//! What the tests of benches have in common.

use std::path::{Path, PathBuf};
use std::process::Command;

/// The `ringfence` command: named by `cargo xtask test`, else the newest beside
/// the tests.
fn ringfence() -> PathBuf {
    if let Some(command) = std::env::var_os("RINGFENCE_TEST_COMMAND") {
        return command.into();
    }
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap();
    let built = ["debug", "release"].map(|profile| target.join(profile).join("ringfence"));
    let newest = built
        .into_iter()
        .filter(|path| path.with_file_name("libringfence.so").exists())
        .filter_map(|path| Some((path.metadata().ok()?.modified().ok()?, path)))
        .max();
    match newest {
        Some((_, path)) => path,
        None => panic!(
            "no ringfence in {}; run `cargo xtask test`",
            target.display()
        ),
    }
}

/// Compiles a program of the bench's from sources in `bench/kernels`.
pub fn compile(sources: &[&str], to: &Path, flags: &[&str]) {
    let cuda = toolchain::cuda();
    let own = Path::new(env!("CARGO_MANIFEST_DIR"));
    let output = Command::new(cuda.nvcc())
        .args(["-std=c++17", "-cudart=static", "-arch=sm_90"])
        .args(flags)
        .arg("-L")
        .arg(cuda.libraries())
        .arg("-I")
        .arg(own.join("../suite/cases/include"))
        .args(
            sources
                .iter()
                .map(|source| own.join("kernels").join(source)),
        )
        .arg("-o")
        .arg(to)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{sources:?}: {said}");
}

/// Runs a bench over the programs of a folder; its results.
pub fn measure(bench: &str, programs: &Path, options: &[&str]) -> serde_json::Value {
    let results = programs.join("results.json");
    let output = Command::new(env!("CARGO_BIN_EXE_ringfence-bench"))
        .args([bench, "--device", "cpu"])
        .args(options)
        .arg("--programs")
        .arg(programs)
        .arg("--ringfence")
        .arg(ringfence())
        .arg("--json")
        .arg(&results)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    serde_json::from_str(&std::fs::read_to_string(&results).unwrap()).unwrap()
}
