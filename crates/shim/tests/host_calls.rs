//! Copies and sets by the host, on the CPU device.

mod support;

use support::{build, rules, run};

/// What each call of copies.cu answers, as `name error`.
fn answers(stdout: &str) -> Vec<(String, bool)> {
    stdout
        .lines()
        .map(|line| {
            let (_, rest) = line.split_once(' ').expect("number");
            let (name, error) = rest.rsplit_once(' ').expect("error");
            (name.to_owned(), error != "0")
        })
        .collect()
}

/// Which side of each call reaches too far.
const EXPECTED: [(&str, &str); 26] = [
    ("HostToDevice", "copy-out-of-bounds-write"),
    ("DeviceToHost", "copy-out-of-bounds-read"),
    ("DeviceToDevice", "copy-out-of-bounds-read"),
    ("Default", "copy-out-of-bounds-read"),
    ("managed", "copy-out-of-bounds-write"),
    ("pinned", "copy-out-of-bounds-read"),
    ("pool", "copy-out-of-bounds-write"),
    ("registered", "copy-out-of-bounds-write"),
    ("async", "copy-out-of-bounds-read"),
    ("async", "copy-out-of-bounds-write"),
    ("peer", "copy-out-of-bounds-read"),
    ("peer", "copy-out-of-bounds-write"),
    ("2D", "copy-out-of-bounds-write"),
    ("2D width", "copy-out-of-bounds-read"),
    ("3D", "copy-out-of-bounds-write"),
    ("set", "copy-out-of-bounds-write"),
    ("set async", "copy-out-of-bounds-write"),
    ("set 2D", "copy-out-of-bounds-write"),
    ("to symbol", "copy-out-of-bounds-write"),
    ("from symbol", "copy-out-of-bounds-read"),
    ("by address", "copy-out-of-bounds-write"),
    ("graph copy", "copy-out-of-bounds-read"),
    ("graph copy", "copy-out-of-bounds-write"),
    ("graph set", "copy-out-of-bounds-write"),
    ("captured", "copy-out-of-bounds-read"),
    ("captured", "copy-out-of-bounds-write"),
];

#[test]
fn calls_that_reach_too_far_are_reported_and_refused_and_no_others() {
    let program = build(&["-g"], "copies.cu");
    let (stdout, stderr, _) = run(&program, "");
    assert!(
        answers(&stdout).iter().all(|(_, failed)| !failed),
        "{stdout}{stderr}"
    );
    assert_eq!(rules(&stderr), [""; 0], "{stderr}");

    let (stdout, stderr, _) = support::run_with(&program, &["bad"], "");
    let after = ["invalid-pointer", "use-after-free", "use-after-free"];
    let expected: Vec<&str> = EXPECTED
        .iter()
        .map(|(_, rule)| *rule)
        .chain(after)
        .collect();
    assert_eq!(rules(&stderr), expected, "{stdout}{stderr}");
    let bad = |name: &str| {
        EXPECTED.iter().any(|(bad, _)| *bad == name)
            || ["not the device's", "freed"].contains(&name)
    };
    for (name, failed) in answers(&stdout) {
        assert_eq!(failed, bad(&name), "{name}: {stdout}");
    }
    for part in [
        "reads 501 bytes at 0x",
        "where 500 bytes are left of the allocation",
        "writes 9 rows of 100 bytes at 0x",
        "copies.cu:",
        "device variable `variable` of 100 bytes",
    ] {
        assert!(stderr.contains(part), "`{part}` is not in: {stderr}");
    }
}

#[test]
fn bad_calls_can_be_passed_on_or_left_alone() {
    let program = build(&["-g"], "copies.cu");
    let (_, refused, _) = support::run_with(&program, &["bad"], "");
    let (_, passed, _) = support::run_with(&program, &["bad"], "api-errors=pass");
    assert_eq!(rules(&passed), rules(&refused), "{passed}");
    let (stdout, alone, _) = support::run_with(&program, &["bad"], "api-errors=off");
    assert_eq!(rules(&alone), [""; 0], "{alone}");
    // The allocation is larger than the program asked for, and the device does
    // not mind.
    assert!(stdout.starts_with("1 HostToDevice 0\n"), "{stdout}");
}
