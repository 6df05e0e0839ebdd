//! The benches of sharing and of calls, on the CPU device: their numbers mean
//! nothing there; but all of it runs, and each program computes the same alone,
//! beside others, and as a tenant.

mod common;

use common::{compile, measure};
use serde_json::Value;
use std::path::Path;

const SOURCES: [&str; 7] = [
    "sharing/sharing.cu",
    "sharing/compute.cu",
    "sharing/memory.cu",
    "sharing/gather.cu",
    "sharing/launch.cu",
    "sharing/train.cu",
    "sharing/calls.cu",
];

/// Runs a bench with tenants of little memory; its results.
fn run(bench: &str, programs: &Path, options: &[&str]) -> Value {
    let all = [&["--timeout", "300", "--memory", "64m"], options].concat();
    measure(bench, programs, &all)
}

#[test]
fn programs_compute_the_same_alone_and_beside_others() {
    let folder = tempfile::tempdir().unwrap();
    let programs = folder.path();
    compile(&SOURCES, &programs.join("sharing"), &[]);
    // All five kinds of programs: L has three, E and G the others.
    let options = |workloads| ["--seconds", "0.1", "--workloads", workloads];
    let first = run("sharing", programs, &options("G"));
    assert_eq!(first["summary"]["workloads"], 1);
    let path = programs.join("first.json");
    std::fs::write(&path, first.to_string()).unwrap();
    let with = ["--with", path.to_str().unwrap()];
    let results = run(
        "sharing",
        programs,
        &[&options("LEG")[..], &with[..]].concat(),
    );
    // It is not measured again, and stands where its letter is.
    assert_eq!(results["rows"][1], first["rows"][0]);
    assert_eq!(results["rows"][2]["workload"], "L");
    let summary = results["summary"].as_object().unwrap();
    assert_eq!(summary["workloads"], 3);
    assert_eq!(summary["failures"], 0);
    assert!(summary["sharing_vs_time_slicing"].as_f64() > Some(0.0));
    assert!(!summary.contains_key("sharing_vs_mps"), "there is none");
    for row in results["rows"].as_array().unwrap() {
        for number in ["in_sequence_s", "time_slicing_s", "tenants_s"] {
            assert!(row[number].as_f64() > Some(0.0), "{row}");
        }
    }
    let results = run("calls", programs, &["--turns", "1"]);
    let summary = results["summary"].as_object().unwrap();
    for name in ["launch_us", "pinned_to_device_gbs", "launches_per_second_4"] {
        for side in ["native", "tenant"] {
            let number = summary[&format!("{side}_{name}")].as_f64();
            assert!(number > Some(0.0), "{side} {name}");
        }
    }
}
