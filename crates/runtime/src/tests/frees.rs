//! Frees: what is held, what is refused, and what is said about it.

use super::fake::{Bench, CONTEXT, Fake, extent, module, record};
use crate::{FreeCall, FreeRequest, Owner, StreamName, StreamUse};
use driver::sys::CUresult;
use driver::{Release, ReleaseCall};
use model::{AllocationKind, ApiErrors, DeviceAddress, Rule, Settings};
use std::sync::atomic::{AtomicU32, Ordering};

const A: u64 = 0x7f00_0000_0000;
const B: u64 = 0x7f00_0000_1000;
const INVALID_VALUE: CUresult = CUresult::CUDA_ERROR_INVALID_VALUE;
const SUCCESS: CUresult = CUresult::CUDA_SUCCESS;
const OWN: Owner = Owner {
    redzones: heap::Redzones {
        before: 0,
        after: 0,
        slot: None,
    },
    context: CONTEXT,
    pool: 0,
};
const STREAM: FreeCall = FreeCall::FreeAsync {
    stream: StreamUse {
        name: StreamName::Made(0x51),
        context: CONTEXT,
        blocking: true,
    },
};

fn bench(change: impl Fn(&mut Settings)) -> Bench {
    let mut settings = Settings {
        quarantine_size: 256,
        ..Settings::default()
    };
    change(&mut settings);
    Bench::with(settings, Fake::default(), module(false))
}

impl Bench {
    fn device(&self, base: u64, size: u64) {
        self.runtime
            .allocations()
            .allocated_by(AllocationKind::Device, extent(base, size), OWN);
    }

    /// Frees, and what the program and the device heard: the answer, and
    /// whether the device was called.
    fn free_by(&self, call: FreeCall, address: u64, device_says: CUresult) -> (CUresult, bool) {
        let calls = AtomicU32::new(0);
        let request = FreeRequest {
            function: "cuMemFree_v2",
            call,
            address: DeviceAddress(address),
            capturing: false,
        };
        let answer = self.runtime.frees().free(request, &|_| {
            calls.fetch_add(1, Ordering::Relaxed);
            device_says
        });
        (answer, calls.load(Ordering::Relaxed) > 0)
    }

    fn free(&self, address: u64) -> (CUresult, bool) {
        self.free_by(FreeCall::Free, address, SUCCESS)
    }

    fn released(&self) -> Vec<u64> {
        self.device
            .released
            .lock()
            .iter()
            .map(|release| release.address.0)
            .collect()
    }

    fn rules(&self) -> Vec<Rule> {
        let findings = self.process().findings;
        findings.iter().map(|finding| finding.rule).collect()
    }
}

#[test]
fn a_freed_allocation_is_held_until_others_push_it_out() {
    let bench = bench(|_| {});
    for (base, size) in [(A, 100), (B, 100), (B + 0x1000, 100)] {
        bench.device(base, size);
    }
    assert_eq!(bench.free(A), (SUCCESS, false));
    assert_eq!(bench.free(B), (SUCCESS, false));
    assert!(bench.released().is_empty());
    assert!(bench.runtime.allocations().is_hidden(DeviceAddress(A + 50)));
    assert_eq!(bench.runtime.frees().quarantined_bytes(), 202);
    assert_eq!(bench.free(B + 0x1000), (SUCCESS, false));
    let expected = Release {
        address: DeviceAddress(A),
        context: CONTEXT,
        call: ReleaseCall::Free,
    };
    assert_eq!(*bench.device.released.lock(), [expected]);
    assert!(!bench.runtime.allocations().is_hidden(DeviceAddress(A)));
    assert!(bench.runtime.frees().empty_quarantine());
    assert_eq!(bench.released(), [A, B, B + 0x1000]);
    assert!(!bench.runtime.frees().empty_quarantine());
    assert!(bench.rules().is_empty());
}

#[test]
fn what_is_too_large_to_hold_is_freed_at_once_and_remembered() {
    let bench = bench(|_| {});
    bench.device(A, 4096);
    assert_eq!(bench.free_by(FreeCall::Free, A, SUCCESS), (SUCCESS, true));
    bench.launch(A, 0);
    bench.device.leave(record(1, A + 8, 1));
    bench.runtime.synchronized();
    assert_eq!(bench.rules()[0], Rule::UseAfterFree);
}

#[test]
fn a_use_of_held_memory_is_found_although_the_driver_still_has_it() {
    let device = Fake::default();
    device.foreign.lock().0.push(extent(A, 128));
    let settings = Settings::default();
    let bench = Bench::with(settings, device, module(true));
    bench.device(A, 100);
    bench.free(A);
    // Another allocation does not get the address.
    bench.device(B, 100);
    bench.launch(A + 4, B);
    bench.device.leave(record(1, A + 8, 1));
    // A pointer that the device looked up and did not find.
    bench.device.leave(model::layout::Record {
        base: A + 16,
        size: 0,
        ..record(4, A + 20, 1)
    });
    bench.runtime.synchronized();
    let findings = bench.process().findings;
    assert_eq!(findings.len(), 3);
    for finding in findings {
        assert_eq!(finding.rule, Rule::UseAfterFree);
        let intended = finding.intended.unwrap();
        assert_eq!(intended.allocation.extent, extent(A, 100));
        assert!(intended.freed && !intended.freed_at.is_empty());
        assert!(!intended.allocated_at.is_empty());
    }
}

#[test]
fn a_live_allocation_at_a_freed_address_is_no_use_after_free() {
    let bench = bench(|_| {});
    bench.device(A, 4096);
    bench.free(A);
    bench.device(A, 64);
    bench.launch(A, A);
    bench.device.leave(record(1, A + 64, 1));
    bench.runtime.synchronized();
    assert_eq!(bench.rules()[0], Rule::GlobalOutOfBoundsWrite);
}

#[test]
fn a_second_free_is_refused_and_names_the_first() {
    let bench = bench(|_| {});
    bench.device(A, 100);
    bench.free(A);
    assert_eq!(bench.free(A), (INVALID_VALUE, false));
    let finding = bench.process().findings.remove(0);
    assert_eq!(finding.rule, Rule::DoubleFree);
    assert_eq!(finding.call().unwrap().function, "cuMemFree_v2");
    let intended = finding.intended.unwrap();
    assert!(intended.freed && !intended.freed_at.is_empty());
    assert!(bench.log().contains("freed before"), "{}", bench.log());
}

#[test]
fn an_array_is_destroyed_once() {
    let bench = bench(|_| {});
    let frees = bench.runtime.frees();
    let destroy = |says| frees.free_array("cuArrayDestroy", 0x51, &|| says);
    frees.array_made(0x51, 640);
    // What the device refuses did not happen.
    assert_eq!(destroy(INVALID_VALUE), INVALID_VALUE);
    assert_eq!(destroy(SUCCESS), SUCCESS);
    assert!(bench.rules().is_empty());
    assert_eq!(destroy(SUCCESS), CUresult::CUDA_ERROR_INVALID_HANDLE);
    let finding = bench.process().findings.remove(0);
    let array = finding.intended.unwrap();
    assert_eq!((finding.rule, finding.nearest), (Rule::DoubleFree, None));
    assert_eq!(
        (array.allocation.extent, array.freed),
        (extent(0x51, 640), true)
    );
    // The handle is another array's now.
    frees.array_made(0x51, 64);
    assert_eq!(destroy(SUCCESS), SUCCESS);
    assert_eq!(bench.rules(), [Rule::DoubleFree]);
}

#[test]
fn bad_frees_that_are_passed_on_meet_the_device_as_it_would_be() {
    let bench = bench(|settings| settings.api_errors = ApiErrors::Pass);
    bench.device(A, 100);
    bench.free(A);
    assert_eq!(
        bench.free_by(FreeCall::Free, A, INVALID_VALUE),
        (INVALID_VALUE, true)
    );
    // The first free has reached the device before the second.
    assert_eq!(bench.released(), [A]);
    assert_eq!(bench.rules(), [Rule::DoubleFree]);
}

#[test]
fn nothing_is_said_about_frees_when_that_is_off() {
    let bench = bench(|settings| settings.api_errors = ApiErrors::Off);
    bench.device(A, 100);
    bench.free(A);
    assert_eq!(
        bench.free_by(FreeCall::Free, A, INVALID_VALUE),
        (INVALID_VALUE, true)
    );
    bench.device(B, 100);
    bench.free_by(FreeCall::FreeHost, B, INVALID_VALUE);
    bench.free_by(FreeCall::Free, B + 4, INVALID_VALUE);
    assert!(bench.rules().is_empty());
}

#[test]
fn frees_of_what_is_no_start_and_by_the_wrong_call_are_invalid() {
    let bench = bench(|_| {});
    bench.device(A, 100);
    bench
        .runtime
        .allocations()
        .allocated_by(AllocationKind::Host, extent(B, 100), OWN);
    assert_eq!(bench.free(A + 8), (INVALID_VALUE, false));
    assert_eq!(
        bench.free_by(FreeCall::FreeHost, A, SUCCESS),
        (INVALID_VALUE, false)
    );
    assert_eq!(bench.free(B), (INVALID_VALUE, false));
    assert_eq!(bench.rules(), [Rule::InvalidFree; 3]);
    let log = bench.log();
    assert!(log.contains("lies 8 bytes into one of 100 bytes"), "{log}");
    assert!(log.contains("cuMemFreeHost (cudaFreeHost) frees"), "{log}");
    // Nothing was freed.
    assert_eq!(bench.free(A), (SUCCESS, false));
    assert_eq!(
        bench.free_by(FreeCall::FreeHost, B, SUCCESS),
        (SUCCESS, false)
    );
}

#[test]
fn of_what_is_not_known_the_device_is_the_judge() {
    let bench = bench(|_| {});
    bench
        .runtime
        .allocations()
        .allocated(AllocationKind::Foreign, extent(B, 100));
    assert_eq!(bench.free_by(FreeCall::Free, A, SUCCESS), (SUCCESS, true));
    assert_eq!(bench.free_by(FreeCall::Free, B, SUCCESS), (SUCCESS, true));
    // A sticky error says nothing about the pointer.
    assert_eq!(
        bench.free_by(FreeCall::Free, A, CUresult::CUDA_ERROR_ILLEGAL_ADDRESS),
        (CUresult::CUDA_ERROR_ILLEGAL_ADDRESS, true)
    );
    assert!(bench.rules().is_empty());
    let answer = bench.free_by(FreeCall::Free, A, INVALID_VALUE);
    assert_eq!(answer, (INVALID_VALUE, true));
    assert_eq!(bench.rules(), [Rule::InvalidFree]);
    // Freeing nothing is legal.
    assert_eq!(bench.free_by(FreeCall::Free, 0, SUCCESS), (SUCCESS, true));
}

#[test]
fn a_free_that_the_device_refuses_did_not_happen() {
    let bench = bench(|_| {});
    bench.device(A, 4096);
    assert_eq!(
        bench.free_by(FreeCall::Free, A, CUresult::CUDA_ERROR_ILLEGAL_ADDRESS),
        (CUresult::CUDA_ERROR_ILLEGAL_ADDRESS, true)
    );
    assert_eq!(
        bench.runtime.allocations().extent_of(DeviceAddress(A)),
        Some(extent(A, 4096))
    );
    // What the wait before a held free answers is the program's answer.
    bench.device(B, 8);
    *bench.device.failure.lock() = CUresult::CUDA_ERROR_LAUNCH_FAILED;
    assert_eq!(bench.free(B), (CUresult::CUDA_ERROR_LAUNCH_FAILED, false));
    assert!(
        bench
            .runtime
            .allocations()
            .extent_of(DeviceAddress(B))
            .is_some()
    );
    // A context that is gone is the device's to speak about.
    *bench.device.failure.lock() = CUresult::CUDA_ERROR_CONTEXT_IS_DESTROYED;
    assert_eq!(
        bench.free_by(FreeCall::Free, B, CUresult::CUDA_ERROR_CONTEXT_IS_DESTROYED),
        (CUresult::CUDA_ERROR_CONTEXT_IS_DESTROYED, true)
    );
}

#[test]
fn a_free_in_stream_order_keeps_lookups_until_its_stream_was_waited_for() {
    let bench = bench(|_| {});
    let pool = Owner { pool: 0x90, ..OWN };
    bench
        .runtime
        .allocations()
        .allocated_by(AllocationKind::Pool, extent(A, 100), pool);
    assert_eq!(bench.free_by(STREAM, A, SUCCESS), (SUCCESS, false));
    let padded = Owner {
        redzones: heap::Redzones {
            after: 1,
            ..heap::Redzones::default()
        },
        ..pool
    };
    // A byte more than the program asked for, live and freed.
    bench
        .runtime
        .allocations()
        .allocated_by(AllocationKind::Pool, extent(B, 512), padded);
    assert_eq!(bench.runtime.frees().unused_of_pool(0x90), 512 + 512);
    assert_eq!(bench.runtime.frees().quarantined_bytes(), 0);
    assert!(
        bench
            .runtime
            .allocations()
            .extent_of(DeviceAddress(A))
            .is_some()
    );
    bench
        .runtime
        .host_waits()
        .waited_for(StreamName::Made(0x52));
    bench.runtime.host_waits().waited_for_context(0xc2);
    assert!(
        bench
            .runtime
            .allocations()
            .extent_of(DeviceAddress(A))
            .is_some()
    );
    // Freed is freed, whatever the stream has reached.
    assert_eq!(bench.free_by(STREAM, A, SUCCESS), (INVALID_VALUE, false));
    let finding = bench.process().findings.remove(0);
    assert_eq!(finding.rule, Rule::DoubleFree);
    assert!(finding.intended.unwrap().freed);
    bench
        .runtime
        .host_waits()
        .waited_for(StreamName::Made(0x51));
    assert!(
        bench
            .runtime
            .allocations()
            .extent_of(DeviceAddress(A))
            .is_none()
    );
    // The stream's end frees what is to be freed in it, in it.
    bench.runtime.frees().stream_ending(0x51);
    let call = ReleaseCall::FreeAsync { stream: 0x51 };
    assert_eq!(bench.device.released.lock()[0].call, call);
}

#[test]
fn memory_goes_with_its_context_and_only_that() {
    let bench = bench(|_| {});
    let other = Owner {
        context: 0xc1,
        ..OWN
    };
    bench.device(A, 8);
    bench.device(B, 8);
    bench
        .runtime
        .allocations()
        .allocated_by(AllocationKind::Device, extent(B + 0x1000, 8), other);
    bench.free(A);
    bench.runtime.context_gone(Some(CONTEXT));
    assert!(!bench.runtime.allocations().is_hidden(DeviceAddress(A)));
    assert!(bench.released().is_empty());
    let lives = |address| {
        bench
            .runtime
            .allocations()
            .extent_of(DeviceAddress(address))
            .is_some()
    };
    assert!(!lives(B) && lives(B + 0x1000));
    assert_eq!(
        bench.free_by(FreeCall::Free, B, INVALID_VALUE),
        (INVALID_VALUE, true)
    );
    assert_eq!(bench.rules(), [Rule::DoubleFree]);
}

#[test]
fn during_a_capture_the_device_gets_every_call() {
    let bench = bench(|_| {});
    bench.device(A, 8);
    let request = FreeRequest {
        function: "cuMemFree_v2",
        call: FreeCall::Free,
        address: DeviceAddress(A),
        capturing: true,
    };
    assert_eq!(
        bench.runtime.frees().free(request, &|_| {
            CUresult::CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED
        }),
        CUresult::CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED
    );
    assert!(
        bench
            .runtime
            .allocations()
            .extent_of(DeviceAddress(A))
            .is_some()
    );
    assert_eq!(bench.runtime.frees().free(request, &|_| SUCCESS), SUCCESS);
    assert!(
        bench
            .runtime
            .allocations()
            .extent_of(DeviceAddress(A))
            .is_none()
    );
    assert!(!bench.runtime.allocations().is_hidden(DeviceAddress(A)));
}

#[test]
fn threads_that_free_the_same_address_free_it_once() {
    let bench = bench(|settings| settings.quarantine_size = 1 << 20);
    for round in 0..200u64 {
        let base = A + round * 0x1000;
        bench.device(base, 64);
        let good = AtomicU32::new(0);
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| good.fetch_add(bench.free(base).0.0, Ordering::Relaxed));
            }
        });
        assert_eq!(good.load(Ordering::Relaxed), INVALID_VALUE.0);
    }
    assert_eq!(bench.runtime.frees().quarantined_bytes(), 200 * 65);
}
