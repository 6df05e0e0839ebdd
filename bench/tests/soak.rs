//! The soak, on the CPU device: three tenants and a few attacks, so that all of
//! it runs. How long it is soaked is for the bench itself.

mod common;

use common::{compile, ringfence};
use std::process::Command;

#[test]
fn neighbours_are_unharmed_and_nothing_is_lost() {
    let folder = tempfile::tempdir().unwrap();
    let programs = folder.path();
    compile(&["attacks/neighbour.cu"], &programs.join("neighbour"), &[]);
    let attacker = [
        "attacks/attacker.cu",
        "attacks/accesses.cu",
        "attacks/ends.cu",
        "attacks/waits.cu",
        "attacks/calls.cu",
        "attacks/copies.cu",
        "attacks/tour.cu",
    ];
    compile(&attacker, &programs.join("attacker"), &[]);
    let results = programs.join("results.json");
    let output = Command::new(env!("CARGO_BIN_EXE_ringfence-bench"))
        .args(["soak", "--device", "cpu", "--stall", "60", "--seconds", "1"])
        .args([
            "--tenants",
            "3",
            "--attacks",
            "3",
            "--only",
            "out of bounds",
        ])
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
    let summary = &results["summary"];
    for (name, number) in [("tenants", 3), ("harmed", 0), ("leaked", 0), ("classes", 1)] {
        assert_eq!(summary[name], number, "{name}: {summary}");
    }
    assert!(summary["attacks"].as_u64() >= Some(3), "{summary}");
    assert!(summary["attempts"].as_u64() >= Some(3), "{summary}");
    let row = &results["rows"][0];
    assert!(row["rounds"].as_u64() >= Some(2), "{row}");
    for held in ["resident_kib", "descriptors", "threads"] {
        assert!(row[held].as_u64() > Some(0), "{row}");
    }
}
