//! The asm of the toolchain's headers. CCCL's `cuda/__ptx`, generated from the
//! PTX ISA, holds a sample of nearly every form of the newer instructions;
//! the others show how libraries write PTX by hand.

use crate::support;

use std::collections::BTreeMap;
use std::path::Path;

/// A string literal from the text after its opening quote, and what follows.
fn literal(text: &str) -> (String, &str) {
    let mut value = String::new();
    let mut characters = text.char_indices();
    while let Some((at, c)) = characters.next() {
        match c {
            '"' => return (value, &text[at + 1..]),
            '\\' => match characters.next() {
                Some((_, 'n')) => value.push('\n'),
                Some((_, 't')) => value.push('\t'),
                Some((_, other)) => value.push(other),
                None => break,
            },
            _ => value.push(c),
        }
    }
    (value, "")
}

/// `asm("text" "text" : "=r"(x) : "r"(y) : "memory")` from after the `(`: the
/// text and the constraints. `None` if macros stand between the strings.
fn asm(mut rest: &str) -> Option<(String, Vec<String>)> {
    let (mut text, mut constraints) = (String::new(), Vec::new());
    let (mut depth, mut in_text) = (1, true);
    while let Some(at) = rest.find(['"', '(', ')', ':']) {
        let gap = rest[..at].trim();
        let c = rest.as_bytes()[at];
        rest = &rest[at + 1..];
        if in_text && !gap.is_empty() {
            // A raw string: R"YYY(text)YYY".
            let (delimiter, raw) = rest.split_once('(').filter(|_| gap == "R" && c == b'"')?;
            let (value, after) = raw.split_once(&format!("){delimiter}\""))?;
            text += value;
            rest = after;
            continue;
        }
        match c {
            b'"' => {
                let (value, after) = literal(rest);
                rest = after;
                if in_text {
                    text += &value;
                } else {
                    constraints.push(value);
                }
            }
            b'(' => {
                // `__LDG_PTR (p)` stands for `"l" (p)`.
                if depth == 1 && gap.ends_with("_PTR") {
                    constraints.push("l".to_string());
                }
                depth += 1;
            }
            b')' => {
                depth -= 1;
                if depth == 0 {
                    break;
                }
            }
            _ => in_text = false,
        }
    }
    Some((text, constraints))
}

/// The text with operands in place of `%0`, `%1`, …; `None` for text that the
/// preprocessor was still to complete.
fn substitute(text: &str, constraints: &[String]) -> Option<String> {
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find('%') {
        out += &rest[..at];
        rest = &rest[at + 1..];
        if let Some(after) = rest.strip_prefix('%') {
            out.push('%');
            rest = after;
            continue;
        }
        let digits = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        let number: usize = rest[..digits].parse().ok()?;
        rest = &rest[digits..];
        out += &match constraints.get(number)?.trim_start_matches(['=', '+', '&']) {
            "r" => format!("%r{number}"),
            "l" => format!("%rd{number}"),
            "h" => format!("%rs{number}"),
            "f" => format!("%f{number}"),
            "d" => format!("%fd{number}"),
            "q" => format!("%rq{number}"),
            "n" => "16".to_string(),
            _ => return None,
        };
    }
    Some(out + rest)
}

/// Header and asm text of all `asm` statements below `folder`, and how many
/// could not be completed.
fn samples(folder: &Path) -> (Vec<(String, String)>, usize) {
    let mut samples = Vec::new();
    let mut incomplete = 0;
    for extension in ["h", "hpp", "cuh", "inl"] {
        for path in support::files(folder, extension) {
            let header =
                String::from_utf8_lossy(&std::fs::read(&path).expect("header is readable"))
                    .into_owned();
            let name = path
                .strip_prefix(folder)
                .expect("below the folder")
                .display()
                .to_string();
            // Comments without strings, and continuations of macros' lines.
            let code: Vec<&str> = header
                .lines()
                .map(|line| {
                    line.split_once("//")
                        .filter(|(_, after)| !after.contains('"'))
                        .map_or(line, |(code, _)| code)
                })
                .map(|line| line.trim_end().trim_end_matches('\\'))
                .filter(|line| !line.trim_start().starts_with("//"))
                .collect();
            for part in code.join("\n").split("asm").skip(1) {
                let part = part.trim_start_matches('_').trim_start();
                let part = part
                    .trim_start_matches('_')
                    .trim_start_matches("volatile")
                    .trim_start_matches('_')
                    .trim_start();
                let Some(rest) = part.strip_prefix('(') else {
                    continue;
                };
                let body =
                    asm(rest).and_then(|(text, constraints)| substitute(&text, &constraints));
                match body {
                    Some(body) if body.contains(';') => samples.push((name.clone(), body)),
                    // Also the host's own asm: `pause`.
                    _ => incomplete += 1,
                }
            }
        }
    }
    (samples, incomplete)
}

fn module(body: &str) -> String {
    format!(
        ".version 9.0\n.target sm_100a\n.address_size 64\n.visible .entry k()\n{{\n{body}\n}}\n"
    )
}

fn assert_sound(samples: &[(String, String)]) {
    let mut report = BTreeMap::new();
    for (header, body) in samples {
        for defect in support::defects(&module(body)) {
            report.entry(defect).or_insert(header);
        }
    }
    assert!(report.is_empty(), "{} defects: {report:#?}", report.len());
}

#[test]
fn the_generated_headers_parse_and_are_classified() {
    let (samples, incomplete) = samples(&toolchain::cuda().include().join("cccl/cuda/__ptx"));
    assert!(
        samples.len() > 1000,
        "only {} samples: is the extraction broken?",
        samples.len()
    );
    assert_eq!(incomplete, 0);
    assert_sound(&samples);
}

#[test]
fn all_other_headers_parse_and_are_classified() {
    let (samples, incomplete) = samples(&toolchain::cuda().include());
    assert!(
        samples.len() > 3000 && incomplete < 100,
        "{} samples, {incomplete} incomplete",
        samples.len()
    );
    assert_sound(&samples);
}
