//! Builds programs with the pinned nvcc and runs them on the CPU device.

#![allow(dead_code, reason = "each test binary uses a part")]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// The library under test: cargo builds it beside the test's own executable.
pub fn library() -> PathBuf {
    let own = std::env::current_exe().expect("path of the test");
    own.ancestors()
        .skip(1)
        .take(2)
        .map(|folder| folder.join("libringfence.so"))
        .find(|path| path.is_file())
        .expect("libringfence.so beside the test")
}

pub fn build(arguments: &[&str], source: &str) -> PathBuf {
    let program = tempfile::tempdir()
        .expect("temporary folder")
        .keep()
        .join("program");
    let cuda = toolchain::cuda();
    let output = Command::new(cuda.nvcc())
        .arg(format!("-L{}", cuda.libraries().display()))
        .args(arguments)
        .arg(
            Path::new(env!("CARGO_MANIFEST_DIR"))
                .join("tests/cuda")
                .join(source),
        )
        .arg("-o")
        .arg(&program)
        .output()
        .expect("start nvcc");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    program
}

pub fn run(program: &Path, options: &str) -> (String, String, Output) {
    run_with(program, &[], options)
}

pub fn run_with(program: &Path, arguments: &[&str], options: &str) -> (String, String, Output) {
    let output = Command::new(program)
        .args(arguments)
        .env("LD_PRELOAD", library())
        .env("NVTX_INJECTION64_PATH", library())
        .env("RINGFENCE_OPTIONS", format!("device=cpu:{options}"))
        .env_remove("RINGFENCE_SETTINGS")
        .output()
        .expect("start the program");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (text(&output.stdout), text(&output.stderr), output)
}

/// The rules of the findings, in order.
pub fn rules(stderr: &str) -> Vec<&str> {
    stderr
        .lines()
        .filter_map(|line| line.strip_prefix("========= ")?.strip_suffix(']'))
        .filter_map(|headline| Some(headline.rsplit_once('[')?.1))
        .collect()
}
