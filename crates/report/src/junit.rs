//! The report as JUnit XML, which continuous integration services show as
//! tests: one test case for each rule that a kernel breaks, one for each kernel
//! that breaks none.

use crate::json::{FindingReport, Report, Verdict};
use crate::{demangle, text};
use quick_xml::Writer;
use quick_xml::events::{BytesDecl, BytesText, Event};
use std::collections::BTreeMap;
use std::io;

/// How a test case ended.
enum Ended {
    Passed,
    Failed {
        kind: String,
        message: String,
        text: String,
    },
    Error {
        message: String,
    },
    Skipped {
        message: String,
    },
}

struct Case {
    class: String,
    name: String,
    ended: Ended,
}

/// The text of the report as JUnit XML.
///
/// # Errors
///
/// The XML cannot be written.
pub fn junit(report: &Report) -> io::Result<String> {
    let cases = cases(report);
    let count = |test: fn(&Ended) -> bool| {
        cases
            .iter()
            .filter(|case| test(&case.ended))
            .count()
            .to_string()
    };
    let tests = cases.len().to_string();
    let failures = count(|ended| matches!(ended, Ended::Failed { .. }));
    let errors = count(|ended| matches!(ended, Ended::Error { .. }));
    let skipped = count(|ended| matches!(ended, Ended::Skipped { .. }));
    let counts = [
        ("tests", tests.as_str()),
        ("failures", failures.as_str()),
        ("errors", errors.as_str()),
        ("skipped", skipped.as_str()),
    ];
    let command = clean(&report.command.join(" "));
    let mut writer = Writer::new_with_indent(Vec::new(), b' ', 2);
    writer.write_event(Event::Decl(BytesDecl::new("1.0", Some("UTF-8"), None)))?;
    writer
        .create_element("testsuites")
        .with_attribute(("name", "ringfence"))
        .with_attributes(counts)
        .write_inner_content(|writer| {
            writer
                .create_element("testsuite")
                .with_attribute(("name", command.as_str()))
                .with_attributes(counts)
                .write_inner_content(|writer| {
                    cases.iter().try_for_each(|case| write(writer, case))
                })?;
            Ok(())
        })?;
    let mut text = String::from_utf8(writer.into_inner()).map_err(io::Error::other)?;
    text.push('\n');
    Ok(text)
}

fn write(writer: &mut Writer<Vec<u8>>, case: &Case) -> io::Result<()> {
    let (class, name) = (clean(&case.class), clean(&case.name));
    let element = writer
        .create_element("testcase")
        .with_attribute(("classname", class.as_str()))
        .with_attribute(("name", name.as_str()));
    match &case.ended {
        Ended::Passed => element.write_empty()?,
        Ended::Failed {
            kind,
            message,
            text,
        } => element.write_inner_content(|writer| {
            writer
                .create_element("failure")
                .with_attribute(("type", kind.as_str()))
                .with_attribute(("message", clean(message).as_str()))
                .write_text_content(BytesText::new(&clean(text)))?;
            Ok(())
        })?,
        Ended::Error { message } => note(element, "error", message)?,
        Ended::Skipped { message } => note(element, "skipped", message)?,
    };
    Ok(())
}

fn note<'a>(
    element: quick_xml::writer::ElementWriter<'a, Vec<u8>>,
    name: &str,
    message: &str,
) -> io::Result<&'a mut Writer<Vec<u8>>> {
    element.write_inner_content(|writer| {
        let message = clean(message);
        writer
            .create_element(name)
            .with_attribute(("message", message.as_str()))
            .write_empty()?;
        Ok(())
    })
}

fn cases(report: &Report) -> Vec<Case> {
    let mut cases = Vec::new();
    let mut run: Vec<String> = report.errors.clone();
    if report.verdict == Verdict::NothingChecked {
        run.push("nothing was checked".into());
    }
    let failed = matches!(report.verdict, Verdict::NothingChecked | Verdict::Failed);
    cases.push(Case {
        class: "ringfence".into(),
        name: "run".into(),
        ended: match run.is_empty() {
            true => Ended::Passed,
            false if failed => Ended::Error {
                message: run.join("; "),
            },
            // A warning: the findings of the run stand.
            false => Ended::Skipped {
                message: run.join("; "),
            },
        },
    });
    let mut broken: BTreeMap<(String, &str), Vec<&FindingReport>> = BTreeMap::new();
    for finding in report.findings.iter().chain(&report.suppressed) {
        let key = (class(finding), finding.finding.rule.id());
        broken.entry(key).or_default().push(finding);
    }
    for ((class, rule), findings) in &broken {
        cases.push(Case {
            class: class.clone(),
            name: (*rule).to_string(),
            ended: ended(rule, findings),
        });
    }
    for (kernel, coverage) in &report.coverage.kernels {
        let class = demangle(kernel);
        let checked = coverage.checked + coverage.proved;
        let reasons = crate::summary::reasons(coverage);
        if !coverage.unchecked.is_empty() {
            cases.push(Case {
                class: class.clone(),
                name: "unchecked launches".into(),
                ended: Ended::Skipped { message: reasons },
            });
        }
        if checked > 0 && !broken.keys().any(|(name, _)| *name == class) {
            cases.push(Case {
                class,
                name: "memory accesses".into(),
                ended: Ended::Passed,
            });
        }
    }
    cases
}

/// The kernel, or who else did it.
fn class(finding: &FindingReport) -> String {
    match &finding.kernel_demangled {
        Some(kernel) if kernel.is_empty() => finding.function_demangled.clone().unwrap_or_default(),
        Some(kernel) => kernel.clone(),
        None => finding
            .finding
            .call()
            .map_or("host".into(), |call| call.function.clone()),
    }
}

fn ended(rule: &str, findings: &[&FindingReport]) -> Ended {
    let shown: Vec<&&FindingReport> = findings
        .iter()
        .filter(|finding| finding.suppressed_by.is_none())
        .collect();
    let Some(first) = shown.first() else {
        let entries: Vec<&str> = findings
            .iter()
            .filter_map(|finding| finding.suppressed_by.as_deref())
            .collect();
        return Ended::Skipped {
            message: format!("suppressed by {}", entries.join(", ")),
        };
    };
    let mut message = first.message.clone();
    if shown.len() > 1 {
        message.push_str(&format!(" and {} more", shown.len() - 1));
    }
    Ended::Failed {
        kind: rule.to_string(),
        message,
        text: shown
            .iter()
            .map(|finding| text::finding(&finding.finding))
            .collect(),
    }
}

/// Without what XML 1.0 cannot hold (2.2, Char).
fn clean(text: &str) -> String {
    text.chars()
        .filter(|character| {
            matches!(character, '\t' | '\n' | '\r')
                || (*character >= ' ' && !matches!(character, '\u{fffe}' | '\u{ffff}'))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use quick_xml::Reader;

    #[test]
    fn the_sample_as_a_whole() {
        insta::assert_snapshot!(junit(&crate::json::tests::sample()).unwrap());
    }

    #[test]
    fn it_is_well_formed_whatever_names_and_texts_hold() {
        let mut report = crate::json::tests::sample();
        report.command = vec!["<&\"'>\u{0}\u{1b}\u{ffff}".into()];
        report.findings[0].message = "]]> <failure> &amp;".into();
        report.findings[0].kernel_demangled = Some("a<b>(\"c\")".into());
        report.findings[0].finding.address.0 = 0;
        let xml = junit(&report).unwrap();
        let mut reader = Reader::from_str(&xml);
        let mut names = Vec::new();
        loop {
            match reader.read_event().unwrap() {
                Event::Eof => break,
                Event::Start(element) | Event::Empty(element) => {
                    for attribute in element.attributes() {
                        let attribute = attribute.unwrap();
                        let value = attribute.unescape_value().unwrap().into_owned();
                        names.push(value);
                    }
                }
                _ => {}
            }
        }
        assert!(names.iter().any(|name| name == "<&\"'>"));
        assert!(names.iter().any(|name| name == "]]> <failure> &amp;"));
        assert!(names.iter().any(|name| name == "a<b>(\"c\")"));
    }

    #[test]
    fn a_run_that_checked_nothing_is_an_error() {
        let mut report = crate::json::tests::sample();
        report.findings.clear();
        report.suppressed.clear();
        report.coverage.kernels.clear();
        report.errors.clear();
        report.verdict = Verdict::NothingChecked;
        assert!(
            junit(&report)
                .unwrap()
                .contains("<error message=\"nothing was checked\"/>")
        );
        report.verdict = Verdict::Clean;
        let clean = junit(&report).unwrap();
        assert!(
            clean.contains("tests=\"1\" failures=\"0\" errors=\"0\" skipped=\"0\""),
            "{clean}"
        );
    }
}
