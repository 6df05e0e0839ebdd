//! The report as JUnit XML, which continuous integration services show as
//! tests: one test case for each rule that a kernel breaks, one for each kernel
//! that breaks none.

use crate::json::{FindingReport, Report, Verdict};
use crate::{demangle, text};
use quick_junit::{NonSuccessKind, SerializeError, TestCase, TestCaseStatus, TestSuite};
use std::collections::BTreeMap;

/// The text of the report as JUnit XML.
///
/// # Errors
///
/// The XML cannot be written.
pub fn junit(report: &Report) -> Result<String, SerializeError> {
    let mut suite = TestSuite::new(clean(&report.command.join(" ")));
    suite.add_test_cases(cases(report));
    let mut document = quick_junit::Report::new("ringfence");
    document.add_test_suite(suite);
    document.to_string()
}

fn case(class: &str, name: &str, status: TestCaseStatus) -> TestCase {
    let mut case = TestCase::new(clean(name), status);
    case.set_classname(clean(class));
    case
}

fn error(message: &str) -> TestCaseStatus {
    let mut status = TestCaseStatus::non_success(NonSuccessKind::Error);
    status.set_message(clean(message));
    status
}

fn skipped(message: &str) -> TestCaseStatus {
    let mut status = TestCaseStatus::skipped();
    status.set_message(clean(message));
    status
}

fn cases(report: &Report) -> Vec<TestCase> {
    let mut cases = Vec::new();
    let mut run: Vec<String> = report.errors.clone();
    if report.verdict == Verdict::NothingChecked {
        run.push("nothing was checked".into());
    }
    let failed = matches!(report.verdict, Verdict::NothingChecked | Verdict::Failed);
    let outcome = match run.is_empty() {
        true => TestCaseStatus::success(),
        false if failed => error(&run.join("; ")),
        // A warning: the findings of the run stand.
        false => skipped(&run.join("; ")),
    };
    cases.push(case("ringfence", "run", outcome));
    let mut broken: BTreeMap<(String, &str), Vec<&FindingReport>> = BTreeMap::new();
    for finding in report.findings.iter().chain(&report.suppressed) {
        let key = (class(finding), finding.finding.rule.id());
        broken.entry(key).or_default().push(finding);
    }
    for ((class, rule), findings) in &broken {
        cases.push(case(class, rule, status(rule, findings)));
    }
    for (kernel, coverage) in &report.coverage.kernels {
        let class = demangle(kernel);
        let checked = coverage.checked + coverage.proved;
        let reasons = crate::summary::reasons(coverage);
        if !coverage.unchecked.is_empty() {
            cases.push(case(&class, "unchecked launches", skipped(&reasons)));
        }
        if checked > 0 && !broken.keys().any(|(name, _)| *name == class) {
            cases.push(case(&class, "memory accesses", TestCaseStatus::success()));
        }
    }
    cases
}

/// The kernel or the call that is the culprit.
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

fn status(rule: &str, findings: &[&FindingReport]) -> TestCaseStatus {
    let shown: Vec<&&FindingReport> = findings
        .iter()
        .filter(|finding| finding.suppressed_by.is_none())
        .collect();
    let Some(first) = shown.first() else {
        let entries: Vec<&str> = findings
            .iter()
            .filter_map(|finding| finding.suppressed_by.as_deref())
            .collect();
        return skipped(&format!("suppressed by {}", entries.join(", ")));
    };
    let mut message = first.message.clone();
    if shown.len() > 1 {
        message.push_str(&format!(" and {} more", shown.len() - 1));
    }
    let text: String = shown
        .iter()
        .map(|finding| text::finding(&finding.finding))
        .collect();
    let mut status = TestCaseStatus::non_success(NonSuccessKind::Failure);
    status
        .set_type(rule)
        .set_message(clean(&message))
        .set_description(clean(&text));
    status
}

/// Without what XML 1.0 cannot hold (2.2, Char). `XmlString` keeps two of
/// these characters, drops tabs, and drops text after an escape character.
fn clean(text: &str) -> String {
    text.replace('\t', " ")
        .chars()
        .filter(|character| {
            *character == '\n'
                || (*character >= ' ' && !matches!(character, '\u{fffe}' | '\u{ffff}'))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sample_as_a_whole() {
        insta::assert_snapshot!(junit(&crate::json::tests::sample()).unwrap());
    }

    #[test]
    fn it_reads_back_whatever_names_and_texts_hold() {
        let mut report = crate::json::tests::sample();
        report.command = vec!["<&\"'>\u{0}\u{1b}]\u{ffff}\tx".into()];
        report.findings[0].message = "]]> <failure> &amp;".into();
        report.findings[0].kernel_demangled = Some("a<b>(\"c\")".into());
        report.findings[0].finding.address.0 = 0;
        let xml = junit(&report).unwrap();
        assert!(!xml.contains('\u{ffff}'));
        let read = quick_junit::Report::deserialize_from_str(&xml).unwrap();
        let [suite] = read.test_suites.as_slice() else {
            panic!("{} suites", read.test_suites.len());
        };
        assert_eq!(suite.name.as_str(), "<&\"'>] x");
        let case = suite
            .test_cases
            .iter()
            .find(|case| {
                case.classname
                    .as_ref()
                    .is_some_and(|name| name.as_str() == "a<b>(\"c\")")
            })
            .unwrap();
        let TestCaseStatus::NonSuccess { message, .. } = &case.status else {
            panic!("{case:?}");
        };
        assert_eq!(message.as_ref().unwrap().as_str(), "]]> <failure> &amp;");
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
            clean.contains("tests=\"1\" skipped=\"0\" failures=\"0\" errors=\"0\""),
            "{clean}"
        );
    }
}
