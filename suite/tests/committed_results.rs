//! The committed results say what the project claims: on the GPU and on the
//! CPU device every program gets the same verdict, and the right one.

use std::collections::BTreeMap;
use std::path::Path;
use suite::results::{Results, SuiteRow, SuiteSummary, Twin};

type SuiteResults = Results<SuiteSummary, SuiteRow>;

/// Programs whose output may differ between devices, and why.
const OUTPUT_DIFFERS: &[(&str, &str)] = &[
    (
        "good_bench_n_body",
        "rsqrt.approx is approximate, in its own way on each device",
    ),
    (
        "good_canary_machine_code_under",
        "its kernel is machine code, which the CPU device does not run",
    ),
    (
        "good_bench_d2q9",
        "mul and add without a rounding modifier may be contracted (PTX ISA, 9.7.3)",
    ),
];

fn read(name: &str) -> SuiteResults {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../bench/results")
        .join(name);
    let text = std::fs::read_to_string(&path).unwrap();
    serde_json::from_str(&text).unwrap()
}

/// The part of a verdict that is the same on all devices: a GPU reports that a
/// kernel has failed, but not where, nor always why. The head of each case
/// declares which places and errors are right.
fn agreed(verdict: &str) -> Vec<&str> {
    let findings = verdict.split("; ");
    let parts = findings.map(|finding| match finding.starts_with("kernel-failed ") {
        true => "kernel-failed",
        false => finding,
    });
    parts.collect()
}

fn by_program(results: &SuiteResults) -> BTreeMap<&str, &SuiteRow> {
    results
        .rows
        .iter()
        .map(|row| (row.program.as_str(), row))
        .collect()
}

#[test]
fn every_program_is_judged_right_or_listed_on_both_devices() {
    for name in ["suite-cpu.json", "suite-gpu.json"] {
        let results = read(name);
        assert!(results.summary.cases >= 24, "{name}");
        assert_eq!(results.summary.false_alarms, 0, "{name}");
        let programs = by_program(&results);
        for row in &results.rows {
            assert!(row.pass, "{name}: {}", row.program);
            // Some devices lack what a program needs, by its own word.
            if row.not_runnable.is_some() {
                continue;
            }
            // A bug is found, or found once it is annotated, or listed.
            let annotated = row.program.replacen("bad_", "annotated_", 1);
            assert!(
                row.twin != Twin::Bad
                    || row.found == Some(true)
                    || row.expected_missing.is_some()
                    || programs.contains_key(annotated.as_str()),
                "{name}: {}",
                row.program
            );
        }
    }
}

#[test]
fn verdicts_and_outputs_are_the_same_on_both_devices() {
    let (cpu, gpu) = (read("suite-cpu.json"), read("suite-gpu.json"));
    let (cpu, gpu) = (by_program(&cpu), by_program(&gpu));
    for (program, on_gpu) in gpu {
        let on_cpu = cpu
            .get(program)
            .unwrap_or_else(|| panic!("{program} was judged on the GPU only"));
        let is_runnable = on_cpu.not_runnable.is_none() && on_gpu.not_runnable.is_none();
        if on_cpu.expected_missing != on_gpu.expected_missing || !is_runnable {
            continue;
        }
        let compared = |verdict| match SIZES_DIFFER.contains(&program) {
            true => without_size(verdict),
            false => agreed(verdict),
        };
        assert_eq!(
            compared(&on_cpu.verdict),
            compared(&on_gpu.verdict),
            "{program}"
        );
        if !OUTPUT_DIFFERS.iter().any(|(name, _)| *name == program) {
            assert_eq!(on_cpu.output, on_gpu.output, "{program}");
        }
    }
}

/// Programs whose verdicts name sizes in shared memory that the devices have each their
/// own of: that of all shared memory of a block, which a GPU gives in units of 128 bytes
/// and the CPU device in units of 16; and that of two arrays together, where a pointer to
/// one is the end of the other, which depends on the order in which arrays are placed.
const SIZES_DIFFER: [&str; 2] = ["bad_shared_loaded_address", "bad_shared_exchanged_debug"];

/// The same without the sizes that findings end with.
fn without_size(verdict: &str) -> Vec<&str> {
    let parts = agreed(verdict).into_iter();
    let place = |part: &'_ str| part.rfind(" of ").unwrap_or(part.len());
    parts.map(|part| &part[..place(part)]).collect()
}

/// The classes of attacks of the bench of isolation.
const ATTACKED: &[&str] = &[
    "out of bounds",
    "misaligned access",
    "shared and local memory",
    "ends of the context",
    "calls and jumps",
    "kernels that do not end",
    "tenants that work together",
    "threads that wait for ever",
    "addresses in host calls",
    "residue",
    "forged handles",
    "fuzzed messages",
    "shared-memory rings",
    "kill -9",
    "exhaustion",
];

#[test]
fn every_attack_on_tenants_is_contained() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../bench/results");
    for name in ["isolation-cpu.json", "isolation-gpu.json"] {
        let text = std::fs::read_to_string(folder.join(name)).unwrap();
        let results: serde_json::Value = serde_json::from_str(&text).unwrap();
        let rows = results["rows"].as_array().unwrap();
        for class in ATTACKED {
            let is_made = rows.iter().any(|row| row["class"] == *class);
            assert!(is_made, "{name}: {class}");
        }
        for row in rows {
            assert!(row["attempts"].as_u64() > Some(0), "{name}: {row}");
            assert_eq!(row["neighbour"], "unharmed", "{name}: {row}");
        }
        let of = |outcome: &str| rows.iter().filter(|row| row["outcome"] == outcome).count();
        let contained = of("contained") + of("refused");
        assert_eq!(contained + of("not shown"), rows.len(), "{name}");
        let summary = &results["summary"];
        assert_eq!(summary["attacks"], contained, "{name}");
        assert_eq!(summary["contained"], contained, "{name}");
        assert!(
            summary["fuzzed_of_each_type"].as_u64() >= Some(1000),
            "{name}"
        );
    }
}
