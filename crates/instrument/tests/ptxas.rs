//! ptxas takes the instrumented form of a module exactly if it takes the
//! module: our own kernels as nvcc compiles them for several targets, and
//! whatever corpora lie in `target/corpora`.

use crate::common;

use model::layout::shadow::Encoding;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Both generators of PTX in nvcc (typed up to sm_90, typeless from sm_100),
/// with and without line tables, for linking, and for debugging; sm_120 has an
/// optimizer of its own in ptxas.
const RUNS: [(&str, &[&str]); 6] = [
    ("75", &["-lineinfo"]),
    ("90", &["-lineinfo"]),
    ("100", &["-lineinfo"]),
    ("120", &["-lineinfo"]),
    ("90", &["-rdc=true"]),
    ("90", &["-G"]),
];

fn compile(source: &Path, architecture: &str, flags: &[&str], output: &Path) {
    let done = Command::new(common::tool("nvcc"))
        .args([
            "-w",
            "-std=c++17",
            "-ptx",
            &format!("-arch=compute_{architecture}"),
        ])
        .args(flags)
        .arg("-o")
        .arg(output)
        .arg(source)
        .output()
        .expect("nvcc runs");
    assert!(
        done.status.success(),
        "{}",
        String::from_utf8_lossy(&done.stderr)
    );
}

/// What is wrong with one module.
fn judge(path: &Path) -> Option<String> {
    let what = path.display().to_string();
    let source = std::fs::read_to_string(path).expect("a readable file");
    let original = common::assemble(&source);
    let source = instrument::without_wrappers(&source).unwrap_or(source);
    let done = common::instrument(&what, &source);
    let shadow = common::shadow(&what, &source, Encoding::Block256);
    let instrumented = common::assemble(&done.text).and_then(|()| match &original {
        Ok(()) => common::assemble(&shadow.text),
        Err(_) => Ok(()),
    });
    match (original, instrumented) {
        (Ok(()), Ok(())) | (Err(_), Err(_)) => None,
        (Ok(()), Err(message)) => Some(format!(
            "{what}: only the instrumented form is refused:\n{message}"
        )),
        (Err(message), Ok(())) => Some(format!("{what}: only the original is refused:\n{message}")),
    }
}

/// Judges modules on two threads.
fn judge_all(paths: &[PathBuf]) {
    let half = paths.len() / 2;
    let run = |paths: &[PathBuf]| {
        paths
            .iter()
            .filter_map(|path| judge(path))
            .collect::<Vec<_>>()
    };
    let wrong = std::thread::scope(|scope| {
        let first = scope.spawn(|| run(&paths[..half]));
        let mut wrong = run(&paths[half..]);
        wrong.extend(
            first
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
        );
        wrong
    });
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn own_kernels() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut paths = Vec::new();
    for source in common::files(
        &common::root().join("crates/instrument/tests/kernels"),
        "cu",
    ) {
        for (architecture, flags) in RUNS {
            let stem = source.file_stem().unwrap_or_default().to_string_lossy();
            let path = folder
                .path()
                .join(format!("{stem}.{architecture}{}.ptx", flags.join("")));
            compile(&source, architecture, flags, &path);
            paths.push(path);
        }
    }
    assert!(!paths.is_empty());
    judge_all(&paths);
}

#[test]
fn corpora() {
    let folder = common::root().join("target/corpora");
    let paths = common::files(&folder, "ptx");
    assert!(
        !paths.is_empty(),
        "no PTX below {}: run `cargo xtask corpora`",
        folder.display()
    );
    judge_all(&paths);
}
