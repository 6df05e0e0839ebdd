//! Broken files and all that must be said of them: `errors/NAME.ptx` and, for
//! people to review, `errors/NAME.expected`. RINGFENCE_BLESS=1 rewrites the
//! latter.

use crate::support;

use std::path::Path;

use ptx::LineIndex;

#[test]
fn every_broken_file_is_explained() {
    let bless = std::env::var_os("RINGFENCE_BLESS").is_some();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/errors");
    let files = support::files(&folder, "ptx");
    assert!(files.len() >= 12, "the broken files are missing");
    for path in files {
        let source = std::fs::read_to_string(&path).expect("broken file is UTF-8");
        let Err(errors) = ptx::parse(&source) else {
            panic!("{} has no errors", path.display())
        };
        check(&source, &errors);
        let text: String = errors.iter().map(|error| format!("{error}\n")).collect();
        let golden = path.with_extension("expected");
        if bless {
            std::fs::write(&golden, &text).expect("golden file is writable");
        }
        let expected = std::fs::read_to_string(&golden).unwrap_or_default();
        assert!(
            text == expected,
            "{} differs:\n{text}\nRINGFENCE_BLESS=1 accepts this",
            golden.display()
        );
    }
}

/// What holds of the errors of any file.
fn check(source: &str, errors: &[ptx::Error]) {
    assert!(!errors.is_empty());
    let lines = LineIndex::new(source);
    for error in errors {
        assert!(!error.message.trim().is_empty(), "{error:?}");
        assert!(!error.line.trim().is_empty(), "{error:?}");
        assert!(
            error.help.ends_with('.') && error.help.len() > 10,
            "{error:?}"
        );
        assert!(
            error.span.start <= error.span.end && error.span.end as usize <= source.len(),
            "{error:?}"
        );
        assert_eq!(
            error.position,
            lines.position(error.span.start),
            "{error:?}"
        );
    }
    assert!(errors.is_sorted_by_key(|error| error.span.start));
}

/// Every single deletion of a token from a real file yields a tree or errors
/// that say something; never a panic, never an empty text.
#[test]
fn errors_are_never_empty() {
    let source = include_str!("data/numba.stencil.90.ptx");
    let mut broken = 0;
    for token in ptx::tokenize(source) {
        let mut edits = ptx::Edits::new();
        edits.replace(token.span, "");
        let text = edits.apply(source);
        if let Err(errors) = ptx::parse(&text) {
            check(&text, &errors);
            broken += 1;
        }
    }
    assert!(broken > 100, "only {broken} deletions were noticed");
}

#[test]
fn one_error_does_not_hide_the_next() {
    let body = "mov.u32 %r1 1;\n".repeat(50);
    let source = format!(".version 8.0\n.target sm_80\n.visible .entry k()\n{{\n{body}}}\n");
    let errors = ptx::parse(&source).expect_err("it is broken");
    let lines: Vec<u32> = errors.iter().map(|error| error.position.line).collect();
    assert_eq!(lines, (5..55).collect::<Vec<_>>());
}
