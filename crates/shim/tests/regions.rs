//! `ringfence.h`: parts of allocations that a program declares.

mod support;

use support::{build, rules, run_with};

/// The rule of each bug in regions.cu, and a part of what is said about it.
const BUGS: [(&str, &str, &str); 9] = [
    ("1", "intra-allocation-out-of-bounds-write", "400 bytes"),
    ("2", "intra-allocation-out-of-bounds-write", "40 bytes"),
    ("3", "intra-allocation-out-of-bounds-write", "400 bytes"),
    ("4", "copy-out-of-bounds-write", "4,096 bytes"),
    ("5", "invalid-pointer", "1,048,576 bytes"),
    ("6", "use-after-free", "freed at"),
    ("7", "use-after-free", "freed at"),
    ("8", "use-after-free", "freed at"),
    (
        "9",
        "intra-allocation-out-of-bounds-write",
        "`weights` of 400 bytes",
    ),
];

fn program() -> std::path::PathBuf {
    let include = concat!("-I", env!("CARGO_MANIFEST_DIR"), "/../../include");
    build(&["-g", include], "regions.cu")
}

#[test]
fn blocks_of_a_pool_and_regions_are_held_to_their_own_bounds() {
    let program = program();
    for seed in 0..3 {
        let (stdout, stderr, output) = run_with(&program, &[], &format!("seed={seed}"));
        assert_eq!(stdout, "199 no error\n", "{stderr}");
        assert!(output.status.success(), "{stderr}");
        assert!(stderr.starts_with("ringfence: no findings;"), "{stderr}");
    }
    for (bug, rule, part) in BUGS {
        let (_, stderr, _) = run_with(&program, &[bug], "");
        let found = rules(&stderr);
        assert!(!found.is_empty(), "{bug}: {stderr}");
        // A read and a write of the same place are two findings.
        let kind = |rule: &str| {
            rule.trim_end_matches("-read")
                .trim_end_matches("-write")
                .to_owned()
        };
        assert!(
            found.contains(&rule) && found.iter().all(|found| kind(found) == kind(rule)),
            "{bug}: {found:?}: {stderr}"
        );
        assert!(stderr.contains(part), "{bug}: `{part}` is not in {stderr}");
        assert!(!stderr.contains("ringfence.h"), "{stderr}");
    }
}

#[test]
fn what_cannot_be_so_is_said_and_ignored() {
    let (stdout, stderr, _) = run_with(&program(), &["10"], "");
    assert!(stdout.starts_with("-2\n"), "{stdout}{stderr}");
    assert!(
        stderr.contains("ringfence_pool_free: no block starts at"),
        "{stderr}"
    );
    assert!(
        stderr.contains("does not lie in one known allocation"),
        "{stderr}"
    );
}

#[test]
fn the_header_does_nothing_without_ringfence() {
    let folder = tempfile::tempdir().expect("temporary folder");
    let source = folder.path().join("alone.c");
    let text = "#include \"ringfence.h\"\n\
                int main(void) { int x = 0; return ringfence_pool_create(&x, 4) + ringfence_pool_alloc(&x, &x, 4)\n\
                + ringfence_pool_free(&x) + ringfence_pool_destroy(&x) + ringfence_region_create(&x, 4, 0)\n\
                + ringfence_region_destroy(&x); }\n";
    std::fs::write(&source, text).expect("write the source");
    for compiler in [
        &["-std=c99", "-xc"][..],
        &["-std=c++11", "-xc++"],
        &["-no-pie", "-xc"],
    ] {
        let program = folder.path().join("alone");
        let built = std::process::Command::new("cc")
            .args(["-Wall", "-Wextra", "-Werror", "-pedantic"])
            .arg(concat!("-I", env!("CARGO_MANIFEST_DIR"), "/../../include"))
            .args(compiler)
            .arg(&source)
            .args(["-ldl", "-o"])
            .arg(&program)
            .status()
            .expect("start cc");
        assert!(built.success(), "{compiler:?}");
        let status = std::process::Command::new(&program)
            .status()
            .expect("start the program");
        assert_eq!(status.code(), Some(0), "{compiler:?}");
    }
}

#[test]
fn nvtx_names_memory_and_cuts_it_up() {
    let program = build(&["-g"], "nvtx.cu");
    for (bug, rule, part) in [
        ("0", "", "no findings"),
        ("1", "global-out-of-bounds-write", "`weights` of 400 bytes"),
        (
            "2",
            "intra-allocation-out-of-bounds-write",
            "`bias` of 1,024 bytes",
        ),
        ("3", "global-out-of-bounds-write", "of 4,096 bytes"),
    ] {
        let (stdout, stderr, _) = run_with(&program, &[bug], "");
        assert_eq!(stdout, "no error\n1\n", "{bug}: {stderr}");
        let expected: Vec<&str> = Some(rule)
            .filter(|rule| !rule.is_empty())
            .into_iter()
            .collect();
        assert_eq!(rules(&stderr), expected, "{bug}: {stderr}");
        assert!(stderr.contains(part), "{bug}: `{part}` is not in {stderr}");
    }
}
