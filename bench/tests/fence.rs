//! The bench of fences, on the CPU device: with small problems and one turn, its
//! times mean nothing; but all of it runs, and each form of fences computes what
//! the kernels compute without.

mod common;

use common::{compile, ringfence};
use std::process::Command;

#[test]
fn each_form_computes_what_the_kernels_do() {
    let folder = tempfile::tempdir().unwrap();
    let programs = folder.path();
    std::fs::create_dir(programs.join("ptx")).unwrap();
    compile(&["fence.cu"], &programs.join("fence"), &[]);
    compile(&["bench.cu"], &programs.join("ptx/bench.ptx"), &["-ptx"]);
    let results = programs.join("results.json");
    let output = Command::new(env!("CARGO_BIN_EXE_ringfence-bench"))
        .args(["fence", "--device", "cpu", "--quick", "--timeout", "300"])
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
    let results: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(&results).unwrap()).unwrap();
    let summary = results["summary"].as_object().unwrap();
    assert_eq!(summary["kernels"], suite::results::KERNELS.len());
    for form in ["mask", "modulo", "check"] {
        assert!(summary[&format!("geomean_{form}")].as_f64() > Some(0.0));
        for row in results["rows"].as_array().unwrap() {
            assert!(row[form]["registers"].as_u64() > Some(0), "{row}");
        }
    }
}
