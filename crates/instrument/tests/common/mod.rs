//! What several tests of this crate need: the pinned CUDA compiler, and the
//! check that every instrumented text must pass.

#![allow(dead_code)]

pub mod defects;

use instrument::{Instrumented, Options};
use model::layout::shadow::Encoding;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The workspace's folder.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// A program of the pinned CUDA compiler.
pub fn tool(name: &str) -> PathBuf {
    toolchain::cuda().program(name)
}

/// The `.target` that a module is assembled for.
pub fn target_of(ptx: &str) -> &str {
    let line = ptx
        .lines()
        .find_map(|line| line.trim().strip_prefix(".target"))
        .expect("a .target");
    line.trim().split([',', ' ']).next().expect("a target word")
}

/// The oldest architecture that the pinned ptxas assembles for; it takes
/// modules for older ones, too.
const OLDEST: &str = "sm_75";

/// Assembles; the answer is ptxas's message if it refuses. Lines are read, too, as
/// the driver reads them: names in them may lack their strings.
pub fn assemble(ptx: &str) -> Result<(), String> {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let input = folder.path().join("in.ptx");
    std::fs::write(&input, ptx).expect("a written file");
    let target = match target_of(ptx) {
        "sm_50" | "sm_52" | "sm_53" | "sm_60" | "sm_61" | "sm_62" | "sm_70" | "sm_72" => OLDEST,
        target => target,
    };
    let output = Command::new(tool("ptxas"))
        .args(["-c", "-lineinfo"])
        .arg(format!("-arch={target}"))
        .arg(&input)
        .arg("-o")
        .arg(folder.path().join("out.cubin"))
        .output()
        .expect("ptxas runs");
    if output.status.success() {
        Ok(())
    } else {
        // A ptxas that crashes has no output but its status.
        let message = String::from_utf8_lossy(&output.stderr);
        let lines = message.lines().take(8).collect::<Vec<_>>().join("\n");
        Err(format!("{}: {lines}", output.status))
    }
}

/// Instruments, and verifies the invariants of every result; of checks against
/// shadow memory, too.
pub fn instrument(what: &str, source: &str) -> Instrumented {
    for encoding in Encoding::ALL {
        shadow(what, source, encoding);
    }
    with(what, source, &Options::default())
}

/// With checks against shadow memory.
pub fn shadow(what: &str, source: &str, encoding: Encoding) -> Instrumented {
    let options = Options {
        shadow: Some(encoding),
        ..Options::default()
    };
    with(&format!("{what}, shadow {encoding}"), source, &options)
}

fn with(what: &str, source: &str, options: &Options) -> Instrumented {
    let done =
        instrument::instrument(source, options).unwrap_or_else(|error| panic!("{what}: {error}"));
    check(what, source, &done);
    done
}

/// Holds the result of instrumenting `source` to all that must always be true.
pub fn check(what: &str, source: &str, done: &Instrumented) {
    if let Err(errors) = instrument::verify_output(source, done) {
        let all: Vec<String> = errors.iter().map(ToString::to_string).collect();
        panic!(
            "{what}: the instrumented text is not right:\n{}",
            all.join("\n")
        );
    }
    for (index, site) in done.sites.iter().enumerate() {
        assert_eq!(
            site.id.0 as usize,
            index + 1,
            "{what}: sites are numbered in order"
        );
        assert!(
            site.group <= site.id,
            "{what}: a group is led by its first site"
        );
    }
    assert_ne!(done.tag, 0);
}

/// All files with an extension below a folder, in order.
pub fn files(folder: &Path, extension: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut stack = vec![folder.to_path_buf()];
    while let Some(folder) = stack.pop() {
        let Ok(entries) = std::fs::read_dir(&folder) else {
            continue;
        };
        for path in entries.filter_map(|entry| Some(entry.ok()?.path())) {
            if path.is_dir() {
                stack.push(path);
            } else if path.extension().is_some_and(|e| e == extension) {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

/// Inputs of a proof that have one value each.
pub fn single(inputs: &[u64]) -> Vec<instrument::Values> {
    let inputs = inputs.iter();
    inputs.map(|bits| instrument::Values::only(*bits)).collect()
}
