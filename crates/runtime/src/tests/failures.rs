//! Kernels that the device stops.

use super::fake::{Bench, CONTEXT, COPY, Fake, NAME, module};
use crate::{Owner, StreamName, Where};
use driver::sys::CUresult;
use driver::{DeviceFailure, FailedKernel};
use model::{
    AllocationKind, DeviceAddress, Extent, Failure, LeakCheck, Note, Rule, Settings, Stopped,
    Subject, ThreadCoordinates, UncheckedReason,
};

const STREAM: StreamName = StreamName::Made(5);
const ILLEGAL: CUresult = CUresult::CUDA_ERROR_ILLEGAL_ADDRESS;

/// Launches the kernel, as the shim does.
fn launch(bench: &Bench, stream: StreamName) {
    let place = Where::Stream {
        name: stream,
        handle: 5,
        per_thread: false,
    };
    bench.begin(0, 0, |ticket| ticket.submitted(place));
}

fn failures(bench: &Bench) -> Vec<Failure> {
    let findings = bench.process().findings;
    let failures = findings.into_iter().map(|finding| {
        assert_eq!(finding.rule, Rule::KernelFailed);
        match finding.subject {
            Subject::Failure(failure) => failure,
            other => panic!("{other:?}"),
        }
    });
    failures.collect()
}

#[test]
fn the_kernels_that_could_have_failed_are_named_and_not_counted() {
    let bench = Bench::new();
    launch(&bench, STREAM);
    bench.runtime.host_waits().waited_for(STREAM);
    launch(&bench, STREAM);
    launch(&bench, StreamName::Legacy { context: CONTEXT });
    bench
        .runtime
        .failures()
        .kernel_failed(ILLEGAL, "cuStreamSynchronize");
    // Errors stick: the next calls say nothing new.
    bench
        .runtime
        .failures()
        .kernel_failed(ILLEGAL, "cuMemFree_v2");
    bench.runtime.ending().finish();
    let [failure] = &failures(&bench)[..] else {
        panic!("{:?}", bench.process().findings)
    };
    assert_eq!(
        (failure.code, failure.error.as_str()),
        (700, "CUDA_ERROR_ILLEGAL_ADDRESS")
    );
    assert_eq!(failure.call, "cuStreamSynchronize");
    let named: Vec<(&str, &str)> = failure
        .kernels
        .iter()
        .map(|kernel| (kernel.kernel.as_str(), kernel.stream.as_str()))
        .collect();
    assert_eq!(named, [(NAME, "stream 0x5"), (NAME, "the default stream")]);
    let kernel = &bench.process().coverage.kernels[NAME];
    assert_eq!(kernel.checked, 1);
    assert_eq!(kernel.unchecked[&UncheckedReason::Unfinished], 2);
}

#[test]
fn errors_that_say_nothing_of_kernels_are_no_findings() {
    let bench = Bench::new();
    launch(&bench, STREAM);
    for code in [
        CUresult::CUDA_ERROR_INVALID_VALUE,
        CUresult::CUDA_ERROR_OUT_OF_MEMORY,
        CUresult::CUDA_ERROR_DEINITIALIZED,
        CUresult::CUDA_ERROR_NOT_READY,
        CUresult::CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES,
        CUresult::CUDA_ERROR_CONTEXT_IS_DESTROYED,
        CUresult::CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED,
        CUresult::CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE,
        CUresult::CUDA_ERROR_NOT_SUPPORTED,
    ] {
        bench
            .runtime
            .failures()
            .kernel_failed(code, "cuMemAlloc_v2");
    }
    bench.runtime.ending().finish();
    assert!(bench.process().findings.is_empty());
    assert_eq!(bench.process().coverage.kernels[NAME].checked, 1);
}

#[test]
fn a_device_that_knows_the_kernel_names_it_alone() {
    let bench = Bench::new();
    let stopped = Stopped {
        detail: "trap".into(),
        thread: ThreadCoordinates {
            block: [0; 3],
            thread: [7, 0, 0],
        },
        source: None,
        ptx_line: 12,
        instruction: "trap".into(),
    };
    for _ in 0..3 {
        launch(&bench, STREAM);
    }
    *bench.device.failed.lock() = Some(DeviceFailure {
        code: CUresult::CUDA_ERROR_LAUNCH_FAILED,
        kernel: Some(FailedKernel {
            function: COPY,
            name: NAME.into(),
            stopped: stopped.clone(),
            address: 0,
            threads: Vec::new(),
        }),
        detail: "the CPU device stopped: trap".into(),
        device_lacks: false,
    });
    // The last two never ran to their end. No call of the program says so.
    bench.device.not_run.lock().extend([COPY, COPY]);
    bench.runtime.ending().exit_begins();
    let [failure] = &failures(&bench)[..] else {
        panic!("{:?}", bench.process().findings)
    };
    assert_eq!(failure.kernel(), Some(NAME));
    assert_eq!(failure.stopped.as_ref(), Some(&stopped));
    let kernel = &bench.process().coverage.kernels[NAME];
    assert_eq!(
        (
            kernel.checked,
            kernel.unchecked[&UncheckedReason::Unfinished]
        ),
        (1, 2)
    );
}

#[test]
fn what_the_device_lacks_is_no_fault_of_the_program() {
    let bench = Bench::new();
    launch(&bench, STREAM);
    *bench.device.failed.lock() = Some(DeviceFailure {
        code: CUresult::CUDA_ERROR_ILLEGAL_INSTRUCTION,
        kernel: None,
        detail: "the CPU device stopped: not supported".into(),
        device_lacks: true,
    });
    bench
        .runtime
        .failures()
        .kernel_failed(CUresult::CUDA_ERROR_ILLEGAL_INSTRUCTION, "cuCtxSynchronize");
    bench.runtime.ending().finish();
    let process = bench.process();
    assert!(process.findings.is_empty());
    assert!(process.failed);
}

#[test]
fn what_a_failure_keeps_from_being_freed_is_no_leak() {
    let settings = Settings {
        leak_check: LeakCheck::Full,
        ..Settings::default()
    };
    let bench = Bench::with(settings, Fake::default(), module(false));
    let extent = Extent {
        base: DeviceAddress(0x7000_0000),
        size: 64,
    };
    let owner = Owner {
        context: CONTEXT,
        ..Owner::default()
    };
    bench
        .runtime
        .allocations()
        .allocated_by(AllocationKind::Device, extent, owner);
    bench
        .runtime
        .failures()
        .kernel_failed(ILLEGAL, "cuCtxSynchronize");
    bench.runtime.ending().end();
    assert_eq!(failures(&bench).len(), 1);
    assert_eq!(bench.process().coverage.notes[&Note::HeldByFailure], 1);
}

#[test]
fn a_launch_that_was_refused_is_not_counted() {
    let bench = Bench::new();
    bench.launch(0, 0);
    bench.begin(0, 0, |ticket| ticket.refused());
    bench.begin(0, 0, |mut ticket| {
        ticket.fall_back(UncheckedReason::Registers);
        ticket.refused();
    });
    assert_eq!(bench.runtime.ending().coverage().kernels[NAME].checked, 1);
}
