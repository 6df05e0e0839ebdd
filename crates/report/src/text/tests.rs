//! The wording, pinned. Addresses and ids are fixed by the samples.

use super::*;
use model::{Allocation, DeviceAddress, Extent, Rule, SourceLocation, ThreadCoordinates};

fn allocation(base: u64, size: u64, serial: u64, kind: AllocationKind) -> Allocation {
    Allocation {
        extent: Extent {
            base: DeviceAddress(base),
            size,
        },
        kind,
        serial,
        name: None,
    }
}

fn frame(function: &str, line: Option<u32>) -> HostFrame {
    HostFrame {
        function: function.into(),
        file: line.map(|_| "demo.cu".into()),
        line,
        object: Some("/home/user/demo".into()),
    }
}

/// A write of four bytes, 16 bytes past a buffer of 1,024.
pub(crate) fn sample_finding() -> Finding {
    Finding {
        rule: Rule::GlobalOutOfBoundsWrite,
        kind: AccessKind::Write,
        space: Space::Global,
        width: 4,
        address: DeviceAddress(0x7f00_0000_0410),
        kernel: "_Z5scalePfi".into(),
        function: "_Z5scalePfi".into(),
        source: Some(SourceLocation {
            file: "demo.cu".into(),
            line: 39,
            column: 5,
            inlined_at: None,
        }),
        ptx_line: 57,
        instruction: "st.global.f32 [%rd4+16], %f2;".into(),
        thread: ThreadCoordinates {
            block: [1, 0, 0],
            thread: [4, 0, 0],
        },
        launch: 3,
        intended: Some(NearestAllocation {
            allocation: allocation(0x7f00_0000_0000, 1024, 1, AllocationKind::Device),
            relation: Relation::After(16),
            allocated_at: vec![frame("make_buffers()", Some(50)), frame("main", None)],
            freed: false,
            freed_at: vec![],
        }),
        nearest: Some(NearestAllocation {
            allocation: allocation(0x7f00_0000_0400, 4096, 2, AllocationKind::Managed),
            relation: Relation::Inside(16),
            allocated_at: vec![],
            freed: false,
            freed_at: vec![],
        }),
        launched_at: vec![frame("main", Some(60))],
        occurrences: 1,
    }
}

#[test]
fn a_write_into_another_live_buffer() {
    insta::assert_snapshot!(finding(&sample_finding()));
}

#[test]
fn a_read_through_a_freed_pointer_in_a_device_function() {
    let mut sample = sample_finding();
    sample.rule = Rule::InvalidPointer;
    sample.kind = AccessKind::Read;
    sample.space = Space::Generic;
    sample.width = 16;
    sample.function = "_Z4loadPK6float4".into();
    sample.source = None;
    sample.launch = 0;
    sample.launched_at = vec![];
    sample.address = DeviceAddress(0x7f00_0000_0010);
    let intended = sample.intended.as_mut().unwrap();
    intended.freed = true;
    intended.freed_at = vec![frame("main", Some(58))];
    intended.relation = Relation::Inside(16);
    sample.nearest = None;
    insta::assert_snapshot!(finding(&sample));
}

#[test]
fn a_null_pointer_and_the_smallest_numbers() {
    let mut sample = sample_finding();
    sample.rule = Rule::InvalidPointer;
    sample.kind = AccessKind::Atomic;
    sample.width = 1;
    sample.address = DeviceAddress(0);
    sample.intended = None;
    sample.nearest = None;
    sample.launched_at = vec![];
    insta::assert_snapshot!(finding(&sample));
}

#[test]
fn an_access_that_runs_over_the_end_of_a_variable() {
    let mut sample = sample_finding();
    let intended = sample.intended.as_mut().unwrap();
    intended.allocation.kind = AllocationKind::Variable;
    intended.allocation.name = Some("_ZN5table4dataE".into());
    intended.allocation.extent.size = 1_234_567;
    intended.relation = Relation::Inside(1_234_566);
    intended.allocated_at = vec![];
    sample.nearest = None;
    sample.launched_at = vec![];
    insta::assert_snapshot!(finding(&sample));
}

#[test]
fn a_name_cannot_forge_lines() {
    let mut sample = sample_finding();
    sample.function = "x\n========= no findings".into();
    let text = finding(&sample);
    assert_eq!(
        text.lines()
            .filter(|line| line.contains("no findings"))
            .count(),
        1
    );
    assert!(text.lines().all(|line| line.starts_with(PREFIX)));
}
