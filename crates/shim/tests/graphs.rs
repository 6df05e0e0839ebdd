//! Graphs made by hand, and threads that launch at once, on the CPU device.

mod support;

use support::{build, rules, run, run_with};

const OUTPUT: &str = "a 13 12\nb 3 3\nthreads 0 no error\n";

#[test]
fn kernels_in_graphs_made_by_hand_are_checked_and_right_ones_are_left_alone() {
    for arguments in [&["-g"][..], &["-g", "-default-stream", "per-thread"]] {
        let program = build(arguments, "graphs.cu");
        for seed in 0..3 {
            let (stdout, stderr, _) = run(&program, &format!("seed={seed}"));
            assert_eq!(stdout, OUTPUT, "{stderr}");
            assert!(stderr.starts_with("ringfence: no findings;"), "{stderr}");
            assert!(stderr.contains("0 unchecked"), "{stderr}");
        }
        let kernels = ["added", "changed", "instantiated", "nested", "threaded"];
        for (bug, kernel) in (1..).zip(kernels) {
            let (_, stderr, _) = run_with(&program, &[&bug.to_string()], "");
            let found = rules(&stderr);
            assert!(
                !found.is_empty()
                    && found
                        .iter()
                        .all(|rule| rule.starts_with("global-out-of-bounds-")),
                "{bug}: {found:?} {stderr}"
            );
            assert!(
                stderr.contains(&format!("at {kernel}(int*, int")),
                "{bug}: {stderr}"
            );
            assert!(stderr.contains("graphs.cu:"), "{bug}: {stderr}");
        }
    }
}
