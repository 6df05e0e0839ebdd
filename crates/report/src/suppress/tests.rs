use super::*;
use crate::text::tests::{sample_call, sample_finding, sample_leak};

fn matches(text: &str, finding: &Finding) -> bool {
    Suppressions::parse(text).unwrap().find(finding).is_some()
}

#[test]
fn every_condition_must_match() {
    let sample = sample_finding();
    for (conditions, expected) in [
        ("rule = global-out-of-bounds-write", true),
        ("rule = global-*", true),
        ("rule = global-out-of-bounds-read", false),
        ("kernel = scale", true),
        ("kernel = scale(float*, int)", true),
        ("kernel = _Z5scale*", true),
        ("kernel = scal", false),
        ("function = scale\nkernel = other*", false),
        ("source = demo.cu", true),
        ("source = demo.cu:39", true),
        ("source = demo.cu:30-39", true),
        ("source = demo.cu:40", false),
        ("source = *.cu:39", true),
        ("object = table", false),
        ("frame = main", true),
        ("frame = make_buffers\nframe = main", true),
        ("frame = make_buffers\nframe = other", false),
    ] {
        let text = format!("[entry]\n{conditions}\n");
        assert_eq!(matches(&text, &sample), expected, "{conditions}");
    }
    assert!(matches("[a]\nsource = demo.cu:71", &sample_call()));
    assert!(matches("[a]\nfunction = cuMemcpy*", &sample_call()));
    assert!(!matches("[a]\nkernel = *", &sample_call()));
    assert!(matches("[a]\nsource = demo.cu:50", &sample_leak()));
    assert!(!matches("[a]\nfunction = *", &sample_leak()));
}

#[test]
fn a_source_matches_where_the_access_was_inlined_and_in_any_folder() {
    let mut sample = sample_finding();
    let Subject::Access(access) = &mut sample.subject else {
        unreachable!("an access")
    };
    access.source = Some(SourceLocation {
        file: "/usr/include/cuda/atomic.hpp".into(),
        line: 7,
        column: 1,
        inlined_at: access.source.take().map(Box::new),
    });
    assert!(matches("[a]\nsource = demo.cu:39", &sample));
    assert!(matches("[a]\nsource = atomic.hpp", &sample));
    assert!(matches("[a]\nsource = /usr/*/atomic.hpp:7", &sample));
    assert!(!matches("[a]\nsource = cuda/atomic.hpp:7", &sample));
}

#[test]
fn the_first_entry_that_matches_is_named_and_the_rest_is_unused() {
    let text = "# known\n[one]\nrule = memory-leak\n\n[two]\nkernel = scale\n[two]\nkernel = *\n";
    let suppressions = Suppressions::parse(text).unwrap();
    assert_eq!(
        suppressions.find(&sample_finding()).as_deref(),
        Some("two (line 5)")
    );
    assert_eq!(suppressions.idle(), ["one (line 2)", "two (line 7)"]);
    assert_eq!(
        suppressions.unused(["two (line 5)"]),
        ["one (line 2)", "two (line 7)"]
    );
    assert_eq!(suppressions.find(&sample_call()), None);
}

#[test]
fn a_file_that_is_not_understood_is_an_error_with_its_line() {
    for (text, line, part) in [
        ("rule = memory-leak", 1, "before the first"),
        ("[a]\n", 1, "no condition"),
        ("[a]\n\n[b]\nrule = memory-leak", 1, "no condition"),
        ("[]\n", 1, "name of the entry"),
        ("[a\n", 1, "name of the entry"),
        ("[a]\nrule memory-leak", 2, "key = value"),
        ("[a]\nrule =", 2, "key = value"),
        ("[a]\nrule = leak", 2, "no rule is called"),
        ("[a]\nrules = memory-leak", 2, "unknown key"),
        ("[a]\nkernel = x\nkernel = y", 3, "twice"),
        ("[a]\nsource = x\nsource = y", 3, "twice"),
        ("[a]\nsource = x.cu:9-3", 2, "first-last"),
        ("[a]\nsource = x.cu:9x", 2, "first-last"),
    ] {
        let error = Suppressions::parse(text).unwrap_err();
        assert_eq!(error.line, line, "{text}");
        assert!(error.to_string().contains(part), "{error}");
    }
}

#[test]
fn a_generated_entry_suppresses_its_finding_and_no_other() {
    let mut operator = sample_finding();
    let Subject::Access(access) = &mut operator.subject else {
        unreachable!("an access")
    };
    access.kernel = "x\n[y]".into();
    access.source = None;
    let mut without_lines = sample_leak();
    for frame in &mut without_lines.intended.as_mut().unwrap().allocated_at {
        frame.file = None;
        frame.function += " *";
    }
    let samples = [
        sample_finding(),
        sample_call(),
        sample_leak(),
        without_lines,
    ];
    for (index, sample) in samples.iter().enumerate() {
        let text = entry_for(sample);
        assert!(matches(&text, sample), "{text}");
        // The two leaks are distinguished by their frames only.
        for other in samples.iter().take(index) {
            assert!(!matches(&text, other), "{text}");
        }
    }
    assert_eq!(
        Suppressions::parse(&entry_for(&operator))
            .unwrap()
            .entries
            .len(),
        1
    );
    insta::assert_snapshot!(entry_for(&sample_finding()) + &entry_for(&samples[3]));
}

#[test]
fn the_help_s_example_is_one() {
    let example: String = HELP
        .lines()
        .filter_map(|line| line.strip_prefix("    "))
        .take_while(|line| !line.starts_with("rule  "))
        .map(|line| line.to_string() + "\n")
        .collect();
    assert_eq!(Suppressions::parse(&example).unwrap().entries.len(), 1);
}
