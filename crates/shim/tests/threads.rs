//! Threads that share streams, allocate, free and copy, under each protection on the CPU
//! device: every result is right, and there is no finding.

mod support;

use support::{build, rules, run_with};

#[test]
fn threads_that_share_streams_work_the_same_under_each_protection() {
    let program = build(&["-arch=sm_75", "-std=c++17"], "threads.cu");
    for protect in [
        "bounds",
        "canary",
        "canary,watch",
        "pages",
        "shadow",
        "auto",
    ] {
        for number in ["5", "12"] {
            let options = format!("protect={protect}");
            let (stdout, stderr, output) = run_with(&program, &[number, "100"], &options);
            assert_eq!(stdout, "wrong: 0\n", "{protect} {number}: {stderr}");
            assert!(output.status.success(), "{protect} {number}: {stderr}");
            assert_eq!(rules(&stderr), [""; 0], "{protect} {number}: {stderr}");
        }
    }
}
