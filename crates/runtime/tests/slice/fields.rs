//! Arrays that are fields, in kernels built with `-G`: the index must stay in
//! the field, and everything else be as before.

use super::{Slice, access, with};
use model::{AllocationKind, Finding, Relation, Rule};

const PTX: &str = include_str!("../../../analysis/tests/fields.ptx");

/// Bytes of the structs in the text.
const RECORD: u64 = 68;
const OUTER: u64 = 8 + 3 * RECORD;

/// Asserts that every finding is of one rule, in one field.
fn assert_fields(findings: &[Finding], rule: Rule, name: &str, size: u64, kernel: &str) {
    assert!(!findings.is_empty(), "{kernel}: nothing was found");
    for finding in findings {
        assert_eq!(finding.rule, rule, "{kernel}: {finding:#?}");
        let intended = finding.intended.as_ref().expect("the field");
        assert_eq!(intended.allocation.kind, AllocationKind::Region, "{kernel}");
        assert_eq!(intended.allocation.name.as_deref(), Some(name), "{kernel}");
        assert_eq!(intended.allocation.extent.size, size, "{kernel}");
        assert_eq!(intended.relation, Relation::After(0), "{kernel}");
        assert!(access(finding).source.is_some(), "{kernel}");
    }
}

#[test]
fn an_index_must_stay_in_its_field() {
    with(|slice: &mut Slice| {
        let module = slice.load_text(PTX);
        let records = slice.buffer(4 * RECORD);
        let out = slice.buffer(64);
        let outer = slice.buffer(OUTER);
        let launch = |kernel: &str, threads: u32, parameters: &[u64]| {
            let shape = emulate::device::Launch {
                grid: [1; 3],
                block: [threads, 1, 1],
                ..Default::default()
            };
            slice.launch_in(module, kernel, shape, parameters)
        };
        use Rule::{
            IntraAllocationOutOfBoundsRead as Read, IntraAllocationOutOfBoundsWrite as Write,
        };
        let cases: [(&str, Vec<u64>, Rule, &str); 7] = [
            ("parameter", vec![records, out], Write, "records[].values"),
            ("pointer", vec![records, out], Read, "records[].values"),
            ("local", vec![out], Read, "record.values"),
            ("shared", vec![out], Read, "records[].values"),
            ("variable", vec![out], Read, "variables[].values"),
            ("nested", vec![outer, out], Read, "o->in[].values"),
            // Read and written in one statement: the last is recorded.
            ("called", vec![records], Write, "record->values"),
        ];
        for (kernel, pointers, rule, name) in cases {
            for index in [7u64, 8] {
                let mut parameters = pointers.clone();
                parameters.push(index);
                if matches!(kernel, "local" | "nested") {
                    parameters.push(1);
                }
                let findings = launch(kernel, 1, &parameters);
                if index == 7 {
                    assert!(findings.is_empty(), "{kernel}: {findings:#?}");
                    continue;
                }
                assert_fields(&findings, rule, name, 32, kernel);
            }
        }
    });
}

#[test]
fn what_a_field_is_part_of_still_counts() {
    with(|slice: &mut Slice| {
        let module = slice.load_text(PTX);
        let records = slice.buffer(RECORD);
        let out = slice.buffer(64);
        let shape = |threads| emulate::device::Launch {
            grid: [1; 3],
            block: [threads, 1, 1],
            ..Default::default()
        };
        // No record at all, and a record behind the last.
        let null = slice.launch_in(module, "pointer", shape(1), &[0, out, 2]);
        assert_eq!(null.len(), 1);
        assert_eq!(null[0].rule, Rule::InvalidPointer, "{null:#?}");
        let behind = slice.launch_in(module, "parameter", shape(2), &[records, out, 2]);
        assert!(!behind.is_empty());
        for finding in &behind {
            let expected = [Rule::GlobalOutOfBoundsWrite, Rule::GlobalOutOfBoundsRead];
            assert!(expected.contains(&finding.rule), "{finding:#?}");
            let intended = finding.intended.as_ref().expect("the buffer");
            assert_eq!(intended.allocation.extent.size, RECORD, "{finding:#?}");
        }
    });
}

#[test]
fn structs_copied_by_words_and_bytes_are_no_findings() {
    with(|slice: &mut Slice| {
        let module = slice.load_text(PTX);
        let (a, b) = (slice.buffer(RECORD), slice.buffer(RECORD));
        let out = slice.buffer(64);
        let shape = || emulate::device::Launch {
            grid: [1; 3],
            block: [1; 3],
            ..Default::default()
        };
        for (kernel, parameters) in [
            ("words", vec![a, out]),
            ("bytes", vec![a, b]),
            ("first", vec![a, out, 6]),
            ("flexible", vec![a, out, 9]),
            ("both", vec![a, out, 5]),
            ("text", vec![a, out, 9]),
            ("whole", vec![a, b]),
            ("other", vec![a, out, 11]),
        ] {
            let findings = slice.launch_in(module, kernel, shape(), &parameters);
            assert!(findings.is_empty(), "{kernel}: {findings:#?}");
        }
    });
}
