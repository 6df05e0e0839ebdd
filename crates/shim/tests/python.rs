//! Host call stacks of Python programs, on the CPU device: with each CPython of
//! a version whose frames can be read that is installed here.

mod support;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Versions of Python 3 whose frames are read.
const VERSIONS: std::ops::RangeInclusive<u32> = 10..=14;

fn program() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/python/copies.py")
}

/// An interpreter of each version: Python 3's second number.
fn interpreters() -> BTreeMap<u32, PathBuf> {
    let mut candidates: Vec<PathBuf> = VERSIONS
        .map(|version| format!("python3.{version}").into())
        .collect();
    candidates.extend(["python3".into(), "/usr/bin/python3".into()]);
    let home = std::env::var_os("HOME").map(|home| Path::new(&home).join(".pyenv"));
    let pyenv = std::env::var_os("PYENV_ROOT").map(PathBuf::from).or(home);
    let installed = pyenv.and_then(|root| std::fs::read_dir(root.join("versions")).ok());
    for version in installed.into_iter().flatten().flatten() {
        candidates.push(version.path().join("bin/python3"));
    }
    let mut found = BTreeMap::new();
    for candidate in candidates {
        let output = Command::new(&candidate)
            .args([
                "-c",
                "import ctypes, sys; print(sys.version_info[1], sys.executable)",
            ])
            .output();
        let Ok(output) = output else { continue };
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        // (The file itself: a script that chooses one would start others first.)
        if let Some((version, path)) = text.trim().split_once(' ')
            && let Ok(version) = version.parse()
            && VERSIONS.contains(&version)
        {
            found.entry(version).or_insert_with(|| PathBuf::from(path));
        }
    }
    found
}

/// Line of the program that ends in a comment.
fn line(comment: &str) -> usize {
    let text = std::fs::read_to_string(program()).expect("the program");
    let ending = format!("# {comment}");
    let found = text.lines().position(|line| line.ends_with(&ending));
    found.expect("a line") + 1
}

/// Functions and lines of the program's own frames, of each finding.
fn stacks(stderr: &str) -> Vec<Vec<(String, usize)>> {
    let mut stacks = Vec::new();
    for text in stderr.lines() {
        if text.starts_with("========= ") && text.ends_with(']') {
            stacks.push(Vec::new());
        }
        // What comes before is where the buffer was allocated.
        if text.ends_with(" called at")
            && let Some(stack) = stacks.last_mut()
        {
            stack.clear();
        }
        let (Some(stack), Some((before, after))) =
            (stacks.last_mut(), text.split_once("copies.py:"))
        else {
            continue;
        };
        let number: String = after.chars().take_while(char::is_ascii_digit).collect();
        stack.push((before.to_owned(), number.parse().expect("a line")));
    }
    stacks
}

#[test]
fn call_stacks_show_pythons_frames() {
    let interpreters = interpreters();
    let untested: Vec<u32> = VERSIONS.filter(|v| !interpreters.contains_key(v)).collect();
    println!("tested: {interpreters:?}; not installed, so not tested: 3.{untested:?}");
    assert!(!interpreters.is_empty(), "Python 3.10 or later is needed");
    for (version, interpreter) in interpreters {
        let program = program();
        let program = program.to_str().expect("a path");
        let options = "num-callers-host=32";
        let (_, stderr, output) = support::run_with(&interpreter, &[program, "good"], options);
        assert_eq!(output.status.code(), Some(0), "3.{version}: {stderr}");
        let (_, stderr, _) = support::run_with(&interpreter, &[program], options);
        let stacks = stacks(&stderr);
        let qualified = |class: &str, name: &str| match version {
            10 => name.to_owned(),
            _ => format!("{class}{name}"),
        };
        let expected = [
            vec![
                (qualified("Buffer.", "upload"), line("here")),
                (qualified("größer.<locals>.", "<lambda>"), line("sorted")),
                ("größer".into(), line("sorted")),
                ("each".into(), line("generator")),
                ("main".into(), line("loop")),
                ("<module>".into(), line("module")),
            ],
            vec![
                (qualified("Buffer.", "upload"), line("here")),
                ("deep".into(), line("deepest")),
                ("deep".into(), line("several lines") - 1),
                ("deep".into(), line("several lines") - 1),
                (qualified("main.<locals>.", "work"), line("thread")),
            ],
        ];
        assert_eq!(stacks.len(), expected.len(), "3.{version}: {stderr}");
        for (stack, expected) in stacks.iter().zip(&expected) {
            let shown: Vec<usize> = stack.iter().map(|(_, line)| *line).collect();
            let lines: Vec<usize> = expected.iter().map(|(_, line)| *line).collect();
            assert!(shown.starts_with(&lines), "3.{version}: {stderr}");
            for ((text, _), (function, _)) in stack.iter().zip(expected) {
                assert!(
                    text.contains(function.as_str()),
                    "3.{version}: {function}: {stderr}"
                );
            }
        }
        assert!(!stderr.contains("_PyEval"), "3.{version}: {stderr}");
    }
}
