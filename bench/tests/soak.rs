//! The soak, on the CPU device: three tenants and a few attacks, so that all of
//! it runs. How long it is soaked is for the bench itself.

mod common;

use common::{compile, measure};

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
    let options = "--stall 60 --seconds 1 --tenants 3 --attacks 3 --only".split(' ');
    let options: Vec<&str> = options.chain(["out of bounds"]).collect();
    let results = measure("soak", programs, &options);
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
