//! An inspection for people.

use super::{Accesses, Inspection, Kernel, ProofObstacle};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

/// Images first, then kernels, then what could not be read.
pub fn text(inspection: &Inspection) -> String {
    let mut text = String::new();
    // Writing to a String cannot fail.
    let _ = writeln!(text, "{}", inspection.file);
    for image in &inspection.images {
        let version = image
            .ptx_version
            .as_ref()
            .map(|version| format!(", PTX ISA {version}"))
            .unwrap_or_default();
        let packed = if image.compression == "none" {
            String::new()
        } else {
            format!(", {}", image.compression)
        };
        let _ = writeln!(
            text,
            "  {:5} sm_{}{version}{packed}, {} bytes, {} kernels",
            image.kind, image.architecture, image.bytes, image.kernels
        );
    }
    for (name, kernel) in &inspection.kernels {
        let _ = writeln!(
            text,
            "kernel {}",
            if kernel.demangled.is_empty() {
                name
            } else {
                &kernel.demangled
            }
        );
        let _ = writeln!(text, "  {}", code(kernel));
        if let Some(accesses) = &kernel.accesses {
            let _ = writeln!(text, "  {}", describe(accesses));
        }
    }
    for problem in &inspection.problems {
        let _ = writeln!(text, "problem: {problem}");
    }
    text
}

fn code(kernel: &Kernel) -> String {
    let list = |architectures: &BTreeSet<u32>| {
        architectures
            .iter()
            .map(|architecture| format!("sm_{architecture}"))
            .collect::<Vec<_>>()
            .join(", ")
    };
    match (kernel.ptx.is_empty(), kernel.sass.is_empty()) {
        (false, false) => format!("PTX {}; SASS {}", list(&kernel.ptx), list(&kernel.sass)),
        (false, true) => format!("PTX {}", list(&kernel.ptx)),
        (true, _) => format!("SASS only ({}): runs without checks", list(&kernel.sass)),
    }
}

fn describe(accesses: &Accesses) -> String {
    let list = |counts: &BTreeMap<String, u32>| {
        counts
            .iter()
            .map(|(name, count)| format!("{count} {name}"))
            .collect::<Vec<_>>()
            .join(", ")
    };
    if accesses.by_kind.is_empty()
        && accesses.exact + accesses.weak == 0
        && accesses.unchecked.is_empty()
        && accesses.calls_without_bounds == 0
    {
        return "no accesses to check".into();
    }
    let mut text = format!("accesses: {}", list(&accesses.by_kind));
    if accesses.by_kind.is_empty() {
        text = "accesses: only in functions".into();
    }
    if !accesses.by_bounds.is_empty() {
        let _ = write!(text, "; bounds from: {}", list(&accesses.by_bounds));
    }
    if accesses.weak > 0 {
        let _ = write!(text, "; {} checked by address alone", accesses.weak);
        if !accesses.weak_because.is_empty() {
            let _ = write!(text, " ({})", list(&accesses.weak_because));
        }
    }
    if !accesses.unchecked.is_empty() {
        let _ = write!(text, "; not checked: {}", list(&accesses.unchecked));
    }
    if accesses.calls_without_bounds > 0 {
        let _ = write!(
            text,
            "; {} calls through pointers without bounds",
            accesses.calls_without_bounds
        );
    }
    let _ = write!(text, "\n  {}", proofs(accesses.proof_obstacle.as_ref()));
    if let Some(sites) = accesses.residual_without {
        let _ = write!(
            text,
            "; {sites} of the accesses carry no checks where they are shown to be in bounds"
        );
    }
    text
}

fn proofs(obstacle: Option<&ProofObstacle>) -> String {
    let Some(obstacle) = obstacle else {
        return "launches that are shown to be in bounds run without checks".into();
    };
    let place = match (&obstacle.source, obstacle.ptx_line) {
        (Some(source), _) => format!(" ({source})"),
        (None, Some(line)) => format!(" (PTX line {line})"),
        (None, None) => String::new(),
    };
    format!(
        "all launches are checked, because {}{place}",
        obstacle.reason
    )
}
