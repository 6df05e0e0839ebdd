//! The asm of CCCL's `cuda/__ptx` headers: generated from the PTX ISA, they
//! hold a sample of nearly every form of the newer instructions.

mod support;

use std::collections::BTreeMap;

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
/// text and the constraints.
fn asm(mut rest: &str) -> (String, Vec<String>) {
    let (mut text, mut constraints) = (String::new(), Vec::new());
    let (mut depth, mut in_text) = (1, true);
    while let Some(at) = rest.find(['"', '(', ')', ':']) {
        let c = rest.as_bytes()[at];
        rest = &rest[at + 1..];
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
            b'(' => depth += 1,
            b')' => {
                depth -= 1;
                if depth == 0 {
                    break;
                }
            }
            _ => in_text = false,
        }
    }
    (text, constraints)
}

/// The text with operands in place of `%0`, `%1`, …
fn substitute(text: &str, constraints: &[String]) -> String {
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
        let number: usize = rest[..digits]
            .parse()
            .unwrap_or_else(|_| panic!("operand in {text}"));
        rest = &rest[digits..];
        out += &match constraints
            .get(number)
            .map(|c| c.trim_start_matches(['=', '+']))
        {
            Some("r") => format!("%r{number}"),
            Some("l") => format!("%rd{number}"),
            Some("h") => format!("%rs{number}"),
            Some("f") => format!("%f{number}"),
            Some("d") => format!("%fd{number}"),
            Some("q") => format!("%rq{number}"),
            Some("n") => "16".to_string(),
            other => panic!("constraint {other:?} in {text}"),
        };
    }
    out + rest
}

fn samples() -> Vec<(String, String)> {
    let folder = support::toolchain().join("include/cccl/cuda/__ptx");
    let mut samples = Vec::new();
    for path in support::files(&folder, "h") {
        let header = std::fs::read_to_string(&path).expect("header is readable");
        let name = path
            .file_name()
            .expect("file")
            .to_string_lossy()
            .into_owned();
        for part in header.split("asm").skip(1) {
            let part = part
                .trim_start()
                .trim_start_matches("volatile")
                .trim_start();
            let Some(rest) = part.strip_prefix('(') else {
                continue;
            };
            let (text, constraints) = asm(rest);
            samples.push((name.clone(), substitute(&text, &constraints)));
        }
    }
    samples
}

fn module(body: &str) -> String {
    format!(
        ".version 9.0\n.target sm_100a\n.address_size 64\n.visible .entry k()\n{{\n{body}\n}}\n"
    )
}

#[test]
fn every_asm_text_parses_and_is_classified() {
    let samples = samples();
    // 1,400 in CCCL 3.0: far fewer means that the extraction is broken.
    assert!(samples.len() > 1000, "only {} samples", samples.len());
    let mut report = BTreeMap::new();
    for (header, body) in &samples {
        for defect in support::defects(&module(body)) {
            report.entry(defect).or_insert(header);
        }
    }
    assert!(report.is_empty(), "{} defects: {report:#?}", report.len());
}
