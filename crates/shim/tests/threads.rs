//! Threads that share streams, allocate, free, copy and capture, under each protection on the
//! CPU device: every result is right, and there is no finding.

mod support;

use std::path::Path;
use support::{build, rules, run_with};

const PROTECTIONS: [&str; 6] = [
    "bounds",
    "canary",
    "canary,watch",
    "pages",
    "shadow",
    "auto",
];

fn works_the_same(program: &Path, arguments: &[&str]) {
    for protect in PROTECTIONS {
        let options = format!("protect={protect}");
        let (stdout, stderr, output) = run_with(program, arguments, &options);
        assert_eq!(stdout, "wrong: 0\n", "{protect} {arguments:?}: {stderr}");
        assert!(output.status.success(), "{protect} {arguments:?}: {stderr}");
        assert_eq!(rules(&stderr), [""; 0], "{protect} {arguments:?}: {stderr}");
    }
}

#[test]
fn threads_that_share_streams_work_the_same_under_each_protection() {
    let program = build(&["-arch=sm_75", "-std=c++17"], "threads.cu");
    for number in ["5", "12"] {
        works_the_same(&program, &[number, "100"]);
    }
}

#[test]
fn a_capture_beside_other_threads_works_the_same_under_each_protection() {
    let program = build(&["-arch=sm_75", "-std=c++17"], "captures_beside.cu");
    works_the_same(&program, &["100"]);
}
