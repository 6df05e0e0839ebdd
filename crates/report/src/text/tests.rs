//! The wording, pinned. Addresses and ids are fixed by the samples.

use super::*;
use model::{
    Allocation, DeviceAddress, Extent, KernelArgument, RunningKernel, SourceLocation, Stopped,
    ThreadCoordinates, Watched,
};

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
        address: DeviceAddress(0x7f00_0000_0410),
        subject: Subject::Access(DeviceAccess {
            kind: AccessKind::Write,
            space: Space::Global,
            width: 4,
            width_at_run_time: false,
            alignment: None,
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
            launched_at: vec![frame("main", Some(60))],
        }),
        intended: Some(near(
            allocation(0x7f00_0000_0000, 1024, 1, AllocationKind::Device),
            Relation::After(16),
        )),
        nearest: Some(NearestAllocation {
            allocated_at: vec![],
            ..near(
                allocation(0x7f00_0000_0400, 4096, 2, AllocationKind::Managed),
                Relation::Inside(16),
            )
        }),
        occurrences: 1,
    }
}

/// A copy of 2,048 bytes to a buffer of 1,024.
pub(crate) fn sample_call() -> Finding {
    Finding {
        rule: Rule::CopyOutOfBoundsWrite,
        address: DeviceAddress(0x7f00_0000_0000),
        subject: Subject::Call(HostCall {
            function: "cuMemcpyHtoD_v2".into(),
            detail: "copy of 2,048 bytes from host memory to 0x7f0000000000".into(),
            width: Some(2048),
            called_at: vec![frame("upload(float*)", Some(71)), frame("main", Some(80))],
        }),
        intended: Some(near(
            allocation(0x7f00_0000_0000, 1024, 1, AllocationKind::Device),
            Relation::Inside(0),
        )),
        nearest: None,
        occurrences: 1,
    }
}

/// Two allocations of the same place that were never freed.
pub(crate) fn sample_leak() -> Finding {
    Finding {
        rule: Rule::MemoryLeak,
        address: DeviceAddress(0x7f00_0000_0000),
        subject: Subject::Leak,
        intended: Some(near(
            allocation(0x7f00_0000_0000, 1024, 1, AllocationKind::Device),
            Relation::Inside(0),
        )),
        nearest: None,
        occurrences: 2,
    }
}

/// An assertion that failed in one of two kernels.
pub(crate) fn sample_failure() -> Finding {
    let kernel = |kernel: &str, launch| RunningKernel {
        kernel: kernel.into(),
        launch,
        stream: "the default stream".into(),
        unfinished: None,
    };
    Finding {
        rule: Rule::KernelFailed,
        address: DeviceAddress(0),
        subject: Subject::Failure(Failure {
            error: "CUDA_ERROR_ASSERT".into(),
            code: 710,
            meaning: "device-side assert triggered".into(),
            kernels: vec![kernel("_Z5scalePfi", 0), kernel("_Z4gridv", 7)],
            stopped: Some(Stopped {
                detail: "assertion `i < n` failed".into(),
                thread: ThreadCoordinates {
                    block: [1, 0, 0],
                    thread: [31, 0, 0],
                },
                source: Some(SourceLocation {
                    file: "scale.cu".into(),
                    line: 12,
                    column: 5,
                    inlined_at: None,
                }),
                ptx_line: 54,
                instruction: "call.uni".into(),
            }),
            call: "cuCtxSynchronize".into(),
            called_at: vec![frame("main", Some(80))],
            launched_at: vec![],
        }),
        intended: None,
        nearest: None,
        occurrences: 1,
    }
}

/// Two streams with kernels, of which one has not ended.
pub(crate) fn sample_watched() -> Watched {
    let kernel = |kernel: &str, launch, stream: &str, unfinished| RunningKernel {
        kernel: kernel.into(),
        launch,
        stream: stream.into(),
        unfinished,
    };
    Watched {
        running: vec![
            kernel("scale", 2, "stream 0x55aa00001000", None),
            kernel("scale", 3, "stream 0x55aa00001000", Some(true)),
            kernel("", 4, "the default stream", Some(false)),
        ],
        device_time: 1_792_000_000_000_000_000,
    }
}

/// A kernel that wrote three floats past a buffer of 1,024 bytes.
pub(crate) fn sample_overwritten() -> Finding {
    Finding {
        rule: Rule::CanaryOverwritten,
        address: DeviceAddress(0x55aa_0000_0404),
        subject: Subject::Kernel(KernelRun {
            kernel: "scale".into(),
            argument: Some(KernelArgument {
                index: 1,
                name: Some("out".into()),
            }),
            others: Vec::new(),
            overwritten: Overwritten {
                bytes: 12,
                farthest: 15,
                found: vec![0, 0, 0x80, 0x3f, 0, 0, 0x80, 0x3f, 0, 0, 0x80, 0x3f],
                pixel: None,
            },
            launch: 3,
            watched: None,
            launched_at: vec![frame("main", Some(60))],
        }),
        intended: Some(near(
            allocation(0x55aa_0000_0000, 1024, 2, AllocationKind::ClBuffer),
            Relation::After(4),
        )),
        nearest: None,
        occurrences: 1,
    }
}

fn near(allocation: Allocation, relation: Relation) -> NearestAllocation {
    NearestAllocation {
        allocation,
        relation,
        allocated_at: vec![frame("make_buffers()", Some(50)), frame("main", None)],
        freed: false,
        freed_at: vec![],
    }
}

fn access(finding: &mut Finding) -> &mut DeviceAccess {
    match &mut finding.subject {
        Subject::Access(access) => access,
        other => unreachable!("no access: {other:?}"),
    }
}

fn call(finding: &mut Finding) -> &mut HostCall {
    match &mut finding.subject {
        Subject::Call(call) => call,
        other => unreachable!("no call: {other:?}"),
    }
}

#[test]
fn a_write_into_another_live_buffer() {
    insta::assert_snapshot!(finding(&sample_finding()));
}

#[test]
fn a_read_through_a_freed_pointer_in_a_device_function() {
    let mut sample = sample_finding();
    sample.rule = Rule::UseAfterFree;
    sample.address = DeviceAddress(0x7f00_0000_0010);
    let access = access(&mut sample);
    access.kind = AccessKind::Read;
    access.space = Space::Generic;
    access.width = 16;
    access.function = "_Z4loadPK6float4".into();
    access.source = None;
    access.launch = 0;
    access.launched_at = vec![];
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
    sample.address = DeviceAddress(0);
    let access = access(&mut sample);
    access.kind = AccessKind::Atomic;
    access.width = 1;
    access.launched_at = vec![];
    sample.intended = None;
    sample.nearest = None;
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
    access(&mut sample).launched_at = vec![];
    insta::assert_snapshot!(finding(&sample));
}

#[test]
fn a_shared_array_and_the_array_beside_it() {
    let mut sample = sample_finding();
    sample.rule = Rule::SharedOutOfBoundsRead;
    sample.address = DeviceAddress(0x80);
    let by = access(&mut sample);
    by.kind = AccessKind::Read;
    by.space = Space::Shared;
    let shared = |base, name: &str, relation| NearestAllocation {
        allocation: Allocation {
            name: Some(name.into()),
            ..allocation(base, 128, 0, AllocationKind::Shared)
        },
        allocated_at: vec![],
        ..near(allocation(0, 0, 0, AllocationKind::Shared), relation)
    };
    sample.intended = Some(shared(0, "tile", Relation::After(0)));
    sample.nearest = Some(shared(0x80, "halo", Relation::Inside(0)));
    insta::assert_snapshot!(finding(&sample));
}

#[test]
fn a_local_object_after_its_scope() {
    let mut sample = sample_finding();
    sample.rule = Rule::UseAfterScope;
    sample.address = DeviceAddress(0xff_ff20);
    access(&mut sample).space = Space::Local;
    sample.intended = Some(NearestAllocation {
        allocated_at: vec![],
        freed: true,
        ..near(
            allocation(0xff_ff20, 16, 0, AllocationKind::Local),
            Relation::Inside(0),
        )
    });
    sample.nearest = None;
    insta::assert_snapshot!(finding(&sample));
}

#[test]
fn bytes_that_a_register_counts() {
    let mut sample = sample_finding();
    let by = access(&mut sample);
    (by.width, by.width_at_run_time, by.space) = (1, true, Space::Shared);
    let intended = sample.intended.as_mut().unwrap();
    intended.relation = Relation::Inside(0);
    let text = finding(&sample);
    assert!(
        text.starts_with("========= Invalid __shared__ write of run-time size ["),
        "{text}"
    );
    let start = "is the start of its allocation, and the access goes on past the end\n";
    assert!(text.contains(start), "{text}");
    sample.intended.as_mut().unwrap().relation = Relation::After(4);
    let text = finding(&sample);
    assert!(
        text.contains("is 4 bytes past the end of its allocation\n"),
        "{text}"
    );
}

#[test]
fn an_address_that_is_not_aligned() {
    let mut sample = sample_finding();
    sample.rule = Rule::MisalignedAccess;
    access(&mut sample).alignment = Some(4);
    sample.address = DeviceAddress(0x7f00_0000_0012);
    sample.intended.as_mut().unwrap().relation = Relation::Inside(18);
    let text = finding(&sample);
    let start = "========= Misaligned __global__ write of size 4 bytes [misaligned-access]\n";
    assert!(text.starts_with(start), "{text}");
    assert!(text.contains(", and is not a multiple of 4\n"), "{text}");
}

#[test]
fn a_copy_that_is_larger_than_its_destination() {
    insta::assert_snapshot!(finding(&sample_call()));
}

#[test]
fn a_second_free_by_the_host() {
    let mut sample = sample_call();
    sample.rule = Rule::DoubleFree;
    *call(&mut sample) = HostCall {
        function: "cuMemFree_v2".into(),
        detail: String::new(),
        width: None,
        called_at: vec![frame("main", Some(90))],
    };
    let intended = sample.intended.as_mut().unwrap();
    intended.freed = true;
    intended.freed_at = vec![frame("main", Some(88))];
    insta::assert_snapshot!(finding(&sample));
}

#[test]
fn a_free_of_a_pointer_into_an_allocation_by_a_kernel() {
    let mut sample = sample_finding();
    sample.rule = Rule::InvalidFree;
    let intended = sample.intended.as_mut().unwrap();
    intended.allocation.kind = AllocationKind::DeviceHeap;
    intended.relation = Relation::Inside(8);
    intended.allocated_at = vec![];
    sample.nearest = None;
    let access = access(&mut sample);
    access.width = 0;
    access.instruction = "call.uni free, (param0);".into();
    insta::assert_snapshot!(finding(&sample));
}

#[test]
fn memory_that_was_never_freed() {
    insta::assert_snapshot!(finding(&sample_leak()));
}

#[test]
fn every_rule_has_a_headline_of_its_own_kind() {
    for &rule in Rule::ALL {
        for mut sample in [sample_finding(), sample_call(), sample_leak()] {
            sample.rule = rule;
            let line = headline(&sample);
            assert!(line.ends_with(&format!(" [{}]", rule.id())), "{line}");
        }
    }
}

#[test]
fn a_name_cannot_forge_lines() {
    let mut sample = sample_finding();
    access(&mut sample).function = "x\n========= no findings".into();
    let mut copy = sample_call();
    call(&mut copy).detail = "x\n========= no findings".into();
    for sample in [sample, copy] {
        let text = finding(&sample);
        assert_eq!(
            text.lines()
                .filter(|line| line.contains("no findings"))
                .count(),
            1
        );
        assert!(text.lines().all(|line| line.starts_with(PREFIX)));
    }
}

#[test]
fn an_overwritten_canary() {
    insta::assert_snapshot!(finding(&sample_overwritten()));
}

#[test]
fn a_canary_before_shared_memory_that_no_argument_names() {
    let mut sample = sample_overwritten();
    let near = sample.intended.as_mut().unwrap();
    near.allocation.kind = AllocationKind::ClSvm;
    near.relation = Relation::Before(1);
    let Subject::Kernel(run) = &mut sample.subject else {
        unreachable!("a kernel")
    };
    run.argument = None;
    run.overwritten = Overwritten {
        bytes: 1,
        farthest: 1,
        found: vec![7],
        pixel: None,
    };
    insta::assert_snapshot!(finding(&sample));
}

#[test]
fn a_canary_seen_while_kernels_ran() {
    let mut sample = sample_overwritten();
    let Subject::Kernel(run) = &mut sample.subject else {
        unreachable!("a kernel")
    };
    run.argument = None;
    run.watched = Some(sample_watched());
    insta::assert_snapshot!(finding(&sample));
}

#[test]
fn a_pixel_past_the_edge_of_an_image() {
    let mut sample = sample_overwritten();
    let near = sample.intended.as_mut().unwrap();
    near.allocation.kind = AllocationKind::ClImage;
    let Subject::Kernel(run) = &mut sample.subject else {
        unreachable!("a kernel")
    };
    run.overwritten.pixel = Some([64, 3, 0]);
    insta::assert_snapshot!(finding(&sample));
}

#[test]
fn a_kernel_that_the_device_stopped() {
    insta::assert_snapshot!(finding(&sample_failure()));
}
