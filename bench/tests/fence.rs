//! The bench of fences, on the CPU device: with small problems and one turn, its
//! times mean nothing; but all of it runs, and each form of fences computes what
//! the kernels compute without.

mod common;

use common::{compile, measure};

#[test]
fn each_form_computes_what_the_kernels_do() {
    let folder = tempfile::tempdir().unwrap();
    let programs = folder.path();
    std::fs::create_dir(programs.join("ptx")).unwrap();
    compile(&["fence.cu"], &programs.join("fence"), &[]);
    compile(&["bench.cu"], &programs.join("ptx/bench.ptx"), &["-ptx"]);
    let results = measure("fence", programs, &["--quick", "--timeout", "300"]);
    let summary = results["summary"].as_object().unwrap();
    assert_eq!(summary["kernels"], suite::results::KERNELS.len());
    for form in ["mask", "modulo", "check"] {
        assert!(summary[&format!("geomean_{form}")].as_f64() > Some(0.0));
        for row in results["rows"].as_array().unwrap() {
            assert!(row[form]["registers"].as_u64() > Some(0), "{row}");
        }
    }
}
