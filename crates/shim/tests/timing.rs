//! `time-kernels`: what is timed, and that the program does not notice.

mod support;

use model::{ProcessTimes, Ran, TimesFile};
use std::path::Path;
use support::{build, run_with};

/// Three launches of `scale` make 8 (255 - i), `gather` reverses that, and each
/// of the graph's two launches doubles and reverses it: 32 (255 - i).
const OUTPUT: &str = "cudaErrorInvalidValue\n8160 7936 cudaSuccess\n";

/// What a run left.
fn times(program: &Path, arguments: &[&str], options: &str) -> ProcessTimes {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("times.json");
    let options = format!("{options}:time-kernels={}", path.display());
    let (stdout, stderr, _) = run_with(program, arguments, &options);
    assert_eq!(stdout, OUTPUT, "{stderr}");
    let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{e}: {stderr}"));
    let mut file: TimesFile = serde_json::from_str(&text).unwrap();
    assert_eq!(file.processes.len(), 1);
    file.processes.remove(0)
}

/// Launches of a kernel that were timed, by what ran.
fn launches(times: &ProcessTimes, kernel: &str) -> Vec<(Ran, u64)> {
    let rows = times.kernels.iter();
    let these = rows.filter(|row| row.demangled.starts_with(kernel));
    these.map(|row| (row.ran, row.times.launches)).collect()
}

#[test]
fn launches_are_timed_by_what_ran_and_graphs_as_a_whole() {
    for flags in [&[][..], &["-default-stream", "per-thread"]] {
        let program = build(flags, "timing.cu");
        for end in [&[][..], &["reset"]] {
            let native = times(&program, end, "check=off");
            let default = times(&program, end, "");
            let checked = times(&program, end, "prove=off");
            for (times, scale, gather) in [
                (&native, Ran::Native, Ran::Native),
                (&default, Ran::Proved, Ran::Residual),
                (&checked, Ran::Checked, Ran::Checked),
            ] {
                assert_eq!(launches(times, "scale("), [(scale, 3)], "{times:?}");
                assert_eq!(launches(times, "gather("), [(gather, 2)], "{times:?}");
                assert_eq!(times.captured, 2, "{times:?}");
                // The one beside the capture; the one that failed is none.
                assert_eq!(times.not_timed, 1, "{times:?}");
                let graphs: Vec<u64> = times.graphs.iter().map(|graph| graph.launches).collect();
                assert_eq!(graphs, [2], "{times:?}");
                for row in &times.kernels {
                    assert!(row.times.min_us <= row.times.median_us, "{row:?}");
                    assert!(row.times.median_us <= row.times.max_us, "{row:?}");
                    assert!(
                        row.times.total_us > 0.0 && row.registers.is_some(),
                        "{row:?}"
                    );
                }
            }
        }
    }
}
