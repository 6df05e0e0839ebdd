//! The report as SARIF 2.1.0 (OASIS), for code scanning services and editors.
//!
//! Fingerprints hold what stays the same from run to run: rule, functions,
//! file and line, never an address.

use crate::json::{FindingReport, ProgramEnd, Report, Verdict};
use crate::{RuleHelp, rules};
use model::{Finding, HostFrame, Rule, SourceLocation, Subject};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

const SCHEMA: &str =
    "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json";

/// The text of a SARIF log with one run.
///
/// # Errors
///
/// A path or name in it cannot be written as JSON.
pub fn sarif(report: &Report) -> Result<String, serde_json::Error> {
    let mut seen = BTreeMap::new();
    let results: Vec<Value> = report
        .findings
        .iter()
        .chain(&report.suppressed)
        .map(|finding| result(finding, &mut seen))
        .collect();
    let log = json!({
        "$schema": SCHEMA,
        "version": "2.1.0",
        "runs": [{
            "tool": { "driver": {
                "name": report.tool.name,
                "semanticVersion": report.tool.version,
                "rules": rules().iter().map(descriptor).collect::<Vec<_>>(),
            } },
            "invocations": [invocation(report)],
            "results": results,
        }],
    });
    Ok(serde_json::to_string_pretty(&log)? + "\n")
}

fn level(rule: Rule) -> &'static str {
    match rule {
        Rule::MemoryLeak => "warning",
        _ => "error",
    }
}

fn descriptor(help: &RuleHelp) -> Value {
    let name: String = help.rule.id().split('-').map(capitalized).collect();
    json!({
        "id": help.rule.id(),
        "name": name,
        "shortDescription": { "text": help.title },
        "help": { "text": help.text },
        "defaultConfiguration": { "level": level(help.rule) },
    })
}

fn capitalized(word: &str) -> String {
    let mut characters = word.chars();
    let first = characters.next().map(|first| first.to_ascii_uppercase());
    first.into_iter().chain(characters).collect()
}

fn invocation(report: &Report) -> Value {
    let mut invocation = Map::new();
    invocation.insert("commandLine".into(), report.command.join(" ").into());
    let succeeded = report.verdict != Verdict::Failed;
    invocation.insert("executionSuccessful".into(), succeeded.into());
    match report.program {
        ProgramEnd::Code(code) => invocation.insert("exitCode".into(), code.into()),
        ProgramEnd::Signal(signal) => invocation.insert("exitSignalNumber".into(), signal.into()),
    };
    let notes: Vec<Value> = report
        .errors
        .iter()
        .map(|error| json!({ "level": "warning", "message": { "text": error } }))
        .collect();
    invocation.insert("toolExecutionNotifications".into(), notes.into());
    Value::Object(invocation)
}

fn result(report: &FindingReport, seen: &mut BTreeMap<u64, u32>) -> Value {
    let finding = &report.finding;
    let index = rules().iter().position(|help| help.rule == finding.rule);
    let mut result = json!({
        "ruleId": finding.rule.id(),
        "level": level(finding.rule),
        "message": { "text": message(report) },
        "locations": locations(report),
        "occurrenceCount": finding.occurrences,
        "partialFingerprints": { "ringfence/v1": fingerprint(finding, seen) },
    });
    if let Some(index) = index {
        result["ruleIndex"] = index.into();
    }
    let history = history(finding);
    let related: Vec<Value> = history
        .iter()
        .filter_map(|(text, frames)| frame_location(text, first_known(frames)?))
        .collect();
    if !related.is_empty() {
        result["relatedLocations"] = related.into();
    }
    let stacks: Vec<Value> = history
        .iter()
        .filter(|(_, frames)| !frames.is_empty())
        .map(|(text, frames)| {
            let frames: Vec<Value> = frames.iter().map(stack_frame).collect();
            json!({ "message": { "text": text }, "frames": frames })
        })
        .collect();
    if !stacks.is_empty() {
        result["stacks"] = stacks.into();
    }
    let steps = steps(report, &history);
    if steps.len() > 1 {
        result["codeFlows"] = json!([{ "threadFlows": [{ "locations": steps }] }]);
    }
    if let Some(entry) = &report.suppressed_by {
        result["suppressions"] = json!([{ "kind": "external", "justification": entry }]);
    }
    result
}

/// What is wrong, and with what.
fn message(report: &FindingReport) -> String {
    let mut text = report.message.clone();
    for line in crate::text::context(&report.finding) {
        text.push_str(": ");
        text.push_str(&line);
    }
    text
}

fn locations(report: &FindingReport) -> Vec<Value> {
    let place = match &report.finding.subject {
        Subject::Access(access) => {
            // The program's own line; the inlined places are in the flow.
            let place = access.source.iter().flat_map(SourceLocation::chain).last();
            place.map(|place| physical(&place.file, place.line, place.column))
        }
        Subject::Kernel(run) => first_known(&run.launched_at).and_then(frame_place),
        Subject::Call(call) => first_known(&call.called_at).and_then(frame_place),
        Subject::Failure(failure) => {
            let place = failure.source().and_then(|source| source.chain().last());
            place
                .map(|place| physical(&place.file, place.line, place.column))
                .or_else(|| first_known(failure.frames()).and_then(frame_place))
        }
        Subject::Leak => {
            let leaked = report.finding.intended.as_ref();
            leaked.and_then(|leaked| frame_place(first_known(&leaked.allocated_at)?))
        }
    };
    let mut location = Map::new();
    if let Some(place) = place {
        location.insert("physicalLocation".into(), place);
    }
    if let Some(function) = &report.function_demangled {
        let logical = json!([{ "fullyQualifiedName": function, "kind": "function" }]);
        location.insert("logicalLocations".into(), logical);
    }
    if location.is_empty() {
        return Vec::new();
    }
    vec![Value::Object(location)]
}

/// The host stacks of a finding, in the order of time.
fn history(finding: &Finding) -> Vec<(&'static str, &[HostFrame])> {
    let mut history = Vec::new();
    if let Some(intended) = &finding.intended {
        history.push(("allocated here", intended.allocated_at.as_slice()));
        history.push(("freed here", intended.freed_at.as_slice()));
    }
    if let Some(nearest) = &finding.nearest {
        history.push((
            "the allocation that is hit or nearest was made here",
            nearest.allocated_at.as_slice(),
        ));
    }
    match &finding.subject {
        Subject::Access(access) => history.push(("kernel launched here", &access.launched_at)),
        Subject::Kernel(run) => history.push(("kernel launched here", &run.launched_at)),
        Subject::Call(call) => history.push(("called here", &call.called_at)),
        Subject::Failure(failure) => {
            history.push(("kernel launched here", &failure.launched_at));
            history.push(("the error was returned here", &failure.called_at));
        }
        Subject::Leak => {}
    }
    history
}

fn steps(report: &FindingReport, history: &[(&str, &[HostFrame])]) -> Vec<Value> {
    let mut steps: Vec<Value> = history
        .iter()
        .filter_map(|(text, frames)| frame_location(text, first_known(frames)?))
        .map(|location| json!({ "location": location }))
        .collect();
    if let Some(access) = report.finding.access() {
        let chain: Vec<&SourceLocation> = access
            .source
            .iter()
            .flat_map(SourceLocation::chain)
            .collect();
        for (depth, place) in chain.iter().enumerate().rev() {
            let text = if depth == 0 {
                report.message.as_str()
            } else {
                "inlined here"
            };
            steps.push(json!({ "location": {
                "physicalLocation": physical(&place.file, place.line, place.column),
                "message": { "text": text },
            } }));
        }
    }
    steps
}

fn first_known(frames: &[HostFrame]) -> Option<&HostFrame> {
    frames
        .iter()
        .find(|frame| frame.file.is_some() && frame.line.is_some())
}

fn frame_place(frame: &HostFrame) -> Option<Value> {
    Some(physical(frame.file.as_deref()?, frame.line?, 0))
}

fn frame_location(text: &str, frame: &HostFrame) -> Option<Value> {
    Some(json!({ "physicalLocation": frame_place(frame)?, "message": { "text": text } }))
}

fn stack_frame(frame: &HostFrame) -> Value {
    let mut location = json!({
        "logicalLocations": [{ "fullyQualifiedName": frame.function, "kind": "function" }],
    });
    if let Some(place) = frame_place(frame) {
        location["physicalLocation"] = place;
    }
    let mut value = json!({ "location": location });
    if let Some(object) = &frame.object {
        value["module"] = object.as_str().into();
    }
    value
}

fn physical(file: &str, line: u32, column: u32) -> Value {
    let mut region = Map::new();
    // Lines and columns count from 1; 0 means that the compiler gave none.
    if line > 0 {
        region.insert("startLine".into(), line.into());
        if column > 0 {
            region.insert("startColumn".into(), column.into());
        }
    }
    let mut place = json!({ "artifactLocation": { "uri": uri(file) } });
    if !region.is_empty() {
        place["region"] = Value::Object(region);
    }
    place
}

/// A path as a URI reference (RFC 3986): absolute ones get the scheme `file`.
fn uri(path: &str) -> String {
    let mut uri = String::with_capacity(path.len() + 8);
    if path.starts_with('/') {
        uri.push_str("file://");
    }
    for byte in path.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b'/' => {
                uri.push(char::from(byte));
            }
            other => uri.push_str(&format!("%{other:02X}")),
        }
    }
    uri
}

/// The same for the same error in every run; errors that look alike are
/// numbered in the order they were found.
fn fingerprint(finding: &Finding, seen: &mut BTreeMap<u64, u32>) -> String {
    let mut hash = Fnv::default();
    hash.text(finding.rule.id());
    let mut place = |file: &str, line: u32| {
        hash.text(file.rsplit('/').next().unwrap_or(file));
        hash.text(&line.to_string());
    };
    match &finding.subject {
        Subject::Access(access) => {
            for source in access.source.iter().flat_map(SourceLocation::chain) {
                place(&source.file, source.line);
            }
            hash.text(&access.kernel);
            hash.text(&access.function);
        }
        Subject::Kernel(run) => {
            hash.text(&run.kernel);
            if let Some(argument) = &run.argument {
                hash.text(&argument.index.to_string());
            }
        }
        Subject::Call(call) => {
            if let Some(frame) = first_known(&call.called_at) {
                place(
                    frame.file.as_deref().unwrap_or_default(),
                    frame.line.unwrap_or_default(),
                );
            }
            hash.text(&call.function);
        }
        Subject::Failure(failure) => {
            hash.text(&failure.error);
            for kernel in &failure.kernels {
                hash.text(&kernel.kernel);
            }
        }
        Subject::Leak => {
            let frames = finding
                .intended
                .as_ref()
                .map_or(&[][..], |near| &near.allocated_at);
            if let Some(frame) = first_known(frames) {
                place(
                    frame.file.as_deref().unwrap_or_default(),
                    frame.line.unwrap_or_default(),
                );
            }
        }
    }
    let number = seen.entry(hash.0).or_default();
    *number += 1;
    format!("{:016x}:{number}", hash.0)
}

/// FNV-1a: small, and the same on every machine and in every version.
struct Fnv(u64);

impl Default for Fnv {
    fn default() -> Self {
        Fnv(0xcbf2_9ce4_8422_2325)
    }
}

impl Fnv {
    /// Adds a text and its end.
    fn text(&mut self, text: &str) {
        for byte in text.bytes().chain([0]) {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The parts of the format that are written, each closed to other
    /// properties, after the OASIS schema of SARIF 2.1.0.
    fn schema() -> jsonschema::Validator {
        let text = include_str!("sarif/subset.schema.json");
        let schema = serde_json::from_str(text).expect("the schema is JSON");
        jsonschema::validator_for(&schema).expect("the schema is one")
    }

    fn log() -> Value {
        serde_json::from_str(&sarif(&crate::json::tests::sample()).unwrap()).unwrap()
    }

    #[test]
    fn logs_follow_the_format() {
        let errors: Vec<String> = schema()
            .iter_errors(&log())
            .map(|error| format!("{}: {error}", error.instance_path))
            .collect();
        assert!(errors.is_empty(), "{errors:#?}");
        let mut bad = log();
        bad["runs"][0]["results"][0]["level"] = "fatal".into();
        assert!(!schema().is_valid(&bad));
    }

    #[test]
    fn results_refer_to_rules_and_carry_their_places() {
        let log = log();
        let run = &log["runs"][0];
        let results = run["results"].as_array().unwrap();
        assert_eq!(results.len(), 7);
        for result in results {
            let index = usize::try_from(result["ruleIndex"].as_u64().unwrap()).unwrap();
            assert_eq!(
                run["tool"]["driver"]["rules"][index]["id"],
                result["ruleId"]
            );
        }
        let region = &results[0]["locations"][0]["physicalLocation"]["region"];
        assert_eq!(
            (&region["startLine"], &region["startColumn"]),
            (&json!(39), &json!(5))
        );
        let steps = results[0]["codeFlows"][0]["threadFlows"][0]["locations"]
            .as_array()
            .unwrap();
        let lines: Vec<u64> = steps
            .iter()
            .filter_map(|step| step["location"]["physicalLocation"]["region"]["startLine"].as_u64())
            .collect();
        assert_eq!(lines, [50, 60, 39]);
        assert_eq!(results[3]["level"], "warning");
        let stopped = &results[5]["locations"][0]["physicalLocation"]["region"];
        assert_eq!(stopped["startLine"], 12);
        assert_eq!(results[6]["suppressions"][0]["kind"], "external");
        insta::assert_snapshot!(serde_json::to_string_pretty(&results[2]).unwrap());
    }

    #[test]
    fn fingerprints_outlast_addresses_and_tell_lines_apart() {
        let of = |finding: &Finding| fingerprint(finding, &mut BTreeMap::new());
        let sample = crate::text::tests::sample_finding();
        let mut moved = sample.clone();
        moved.address.0 += 4096;
        assert_eq!(of(&sample), of(&moved));
        assert_eq!(of(&sample), "6acb5ab978ca517a:1");
        let Subject::Access(access) = &mut moved.subject else {
            unreachable!("an access")
        };
        access.source.as_mut().unwrap().line += 1;
        assert_ne!(of(&sample), of(&moved));
        let mut seen = BTreeMap::new();
        assert_ne!(
            fingerprint(&sample, &mut seen),
            fingerprint(&sample, &mut seen)
        );
    }

    #[test]
    fn paths_become_uris() {
        assert_eq!(uri("/a b/ü.cu"), "file:///a%20b/%C3%BC.cu");
        assert_eq!(uri("src/x.cu"), "src/x.cu");
    }
}
