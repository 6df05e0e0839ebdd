//! Large buffers at addresses of their own: under shadow memory, and where
//! addresses are kept.

use super::fake::{Bench, CONTEXT, Fake, extent, module};
use crate::{
    Fill, FreeCall, FreeRequest, Owner, Placement, PlacementRequest, StreamName, StreamUse,
};
use driver::sys::CUresult;
use model::layout::placed::{MAPPING_GRANULE, PLACED_BASE};
use model::layout::shadow::{Encoding, SHADOW_WINDOW};
use model::{AllocationKind, DeviceAddress, Protections, Settings};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const MIB: u64 = 1 << 20;
const ENCODING: Encoding = Encoding::Block256;
const STREAM: StreamUse = StreamUse {
    name: StreamName::Made(5),
    context: CONTEXT,
    blocking: true,
};

fn bench(settings: Settings) -> Bench {
    let device = Fake::default();
    device.vmm.lock().total = 1 << 37;
    Bench::with(settings, device, module(false))
}

fn shadowed() -> Bench {
    bench(Settings {
        protect: Protections {
            bounds: false,
            canary: false,
            watch: false,
            shadow: true,
            pages: false,
        },
        ..Settings::default()
    })
}

fn kept() -> Bench {
    bench(Settings {
        keep_addresses: true,
        ..Settings::default()
    })
}

/// Allocates as the shim does.
fn allocate(bench: &Bench, size: u64) -> Option<Placement> {
    allocate_in(bench, size, false)
}

fn allocate_in(bench: &Bench, size: u64, in_stream_order: bool) -> Option<Placement> {
    let placements = bench.runtime.placements();
    let request = PlacementRequest {
        size,
        in_stream_order,
        obstacle: None,
    };
    let placement = placements.place(&request)?;
    let owner = Owner {
        context: CONTEXT,
        ..Owner::default()
    };
    let kind = AllocationKind::Device;
    placements.placed(kind, size, owner, &placement, Fill::Now);
    Some(placement)
}

fn free(bench: &Bench, address: DeviceAddress) {
    let request = FreeRequest {
        function: "cuMemFree_v2",
        call: FreeCall::Free,
        address,
        capturing: false,
    };
    let forward = |address| panic!("the driver is asked to free {address}");
    let answer = bench.runtime.frees().free(request, &forward);
    assert_eq!(answer, CUresult::CUDA_SUCCESS);
}

/// The shadow bytes of four blocks.
fn shadow(bench: &Bench, address: u64) -> u32 {
    let words = bench.device.words.lock();
    let at = ENCODING.shadow_of(address);
    words.get(&at).copied().unwrap_or(0)
}

#[test]
fn small_buffers_are_the_drivers() {
    for bench in [shadowed(), kept()] {
        assert_eq!(allocate(&bench, 1), None);
        assert_eq!(allocate(&bench, MIB), None);
        assert_eq!(bench.device.vmm.lock().used(), 0);
        assert!(bench.runtime.ending().coverage().pages.is_none());
    }
}

#[test]
fn redzones_are_addresses_without_memory() {
    let bench = shadowed();
    let mut end = PLACED_BASE;
    for size in [MIB + 1, 2 * MIB, 5 * MIB + 7, 64 * MIB, 1 << 30] {
        let Placement {
            base,
            before,
            after,
        } = allocate(&bench, size).unwrap();
        let mapped = size.next_multiple_of(MAPPING_GRANULE);
        let vmm = bench.device.vmm.lock();
        assert_eq!(vmm.mapped.last_key_value().unwrap().1.0, mapped);
        assert!(!vmm.holds(base.0 - 1) && !vmm.holds(base.0 + mapped));
        for redzone in [before, after] {
            assert!(redzone >= size / 2, "{redzone} of {size}");
        }
        // None has the redzone of another.
        assert!(base.0 - before >= end);
        end = base.0 + size + after;
    }
    let shadow = bench.runtime.ending().coverage().shadow.unwrap();
    assert_eq!((shadow.buffers, shadow.bytes), (5, 0));
}

#[test]
fn what_is_live_is_addressable_and_nothing_else() {
    let bench = shadowed();
    let size = 3 * MIB + 200;
    let [first, second] = [(); 2].map(|()| allocate(&bench, size).unwrap());
    bench.launch(first.base.0, 0);
    let window = bench.device.u64(SHADOW_WINDOW + 8);
    assert_eq!(window, u64::from(Encoding::Block256.covered_units(1)));
    for base in [first.base.0, second.base.0] {
        assert_eq!(shadow(&bench, base), u32::MAX);
        let last = base + size - 200;
        assert_eq!(shadow(&bench, last - 1024), u32::MAX);
        assert_eq!(shadow(&bench, base - 1024), 0);
        assert_eq!(shadow(&bench, last + 1024), 0);
    }
    free(&bench, first.base);
    assert!(!bench.device.vmm.lock().holds(first.base.0));
    bench.launch(second.base.0, 0);
    assert_eq!(shadow(&bench, first.base.0), 0);
    assert_eq!(shadow(&bench, second.base.0), u32::MAX);
    // One piece of shadow memory is enough for all of that.
    let coverage = bench.runtime.ending().coverage().shadow.unwrap();
    assert_eq!(coverage.shadow, MAPPING_GRANULE);
}

#[test]
fn shadow_memory_is_at_most_a_hundredth_of_the_devices() {
    let bench = shadowed();
    let total = 1 << 30;
    bench.device.vmm.lock().total = total;
    let mut seen = std::collections::BTreeSet::new();
    for _ in 0..200 {
        let base = allocate(&bench, 16 * MIB).unwrap().base;
        seen.insert(base.0);
        free(&bench, base);
    }
    bench.launch(PLACED_BASE, 0);
    // The addresses that were freed first are given out again in the end.
    assert!((60..200).contains(&seen.len()), "{}", seen.len());
    let coverage = bench.runtime.ending().coverage().shadow.unwrap();
    assert!(coverage.shadow <= total / 100 + MAPPING_GRANULE);
    assert!(coverage.bare.is_empty());
}

#[test]
fn small_buffers_in_stream_order_share_granules_and_stay_apart() {
    let bench = shadowed();
    let sizes = [1, 255, 256, 4096, 100_000, MIB];
    let take = |size| allocate_in(&bench, size, true).unwrap();
    let all: Vec<Placement> = (0..200).map(|number| take(sizes[number % 6])).collect();
    let mut apart: Vec<(u64, u64)> = Vec::new();
    for (placement, size) in all.iter().zip(sizes.iter().cycle()) {
        let Placement {
            base,
            before,
            after,
        } = *placement;
        assert!(base.0.is_multiple_of(512) && before >= 256 && after >= 256);
        let vmm = bench.device.vmm.lock();
        assert!(vmm.holds(base.0 - before) && vmm.holds(base.0 + size + after - 1));
        apart.push((base.0 - before, base.0 + size + after));
    }
    apart.sort_unstable();
    assert!(apart.windows(2).all(|pair| pair[0].1 <= pair[1].0));
    bench.launch(all[0].base.0, 0);
    assert_eq!(shadow(&bench, all[3].base.0), u32::MAX);
    for placement in &all {
        free(&bench, placement.base);
    }
    bench.launch(0, 0);
    assert_eq!(shadow(&bench, all[3].base.0), 0);
    // The quarantine has them, until memory is needed.
    assert!(bench.device.vmm.lock().used() > 0);
    let other = take(256).base;
    assert!(all.iter().all(|placement| placement.base != other));
    free(&bench, other);
    assert!(bench.runtime.frees().empty_quarantine());
    assert_eq!(bench.device.vmm.lock().used(), 0);
    assert!(!bench.runtime.frees().empty_quarantine());
}

#[test]
fn what_a_stream_frees_is_hidden_from_what_it_executes_later() {
    let bench = shadowed();
    let [freed, other] = [(); 2].map(|()| allocate_in(&bench, 100_000, true).unwrap());
    bench.device.behind.store(true, Ordering::Relaxed);
    let in_stream = |address| {
        let request = FreeRequest {
            function: "cuMemFreeAsync",
            call: FreeCall::FreeAsync { stream: STREAM },
            address,
            capturing: false,
        };
        let forward = |address| panic!("the driver is asked to free {address}");
        let answer = bench.runtime.frees().free(request, &forward);
        assert_eq!(answer, CUresult::CUDA_SUCCESS);
    };
    // No kernel was launched since it was allocated.
    in_stream(freed.base);
    assert_eq!(shadow(&bench, freed.base.0), 0);
    assert!(
        bench.device.vmm.lock().holds(freed.base.0),
        "the stream has not come there"
    );
    bench.launch(other.base.0, 0);
    assert_eq!(shadow(&bench, freed.base.0), 0);
    assert_eq!(shadow(&bench, freed.base.0 + 98_304), 0);
    assert_eq!(shadow(&bench, other.base.0), u32::MAX);
    bench.device.behind.store(false, Ordering::Relaxed);
    in_stream(other.base);
    let again = allocate_in(&bench, 100_000, true).unwrap();
    bench.launch(again.base.0, 0);
    assert_eq!(shadow(&bench, freed.base.0), 0);
    assert_eq!(shadow(&bench, other.base.0), 0);
    assert_eq!(shadow(&bench, again.base.0), u32::MAX);
}

#[test]
fn kept_addresses_are_not_given_out_again_and_keep_no_memory() {
    let bench = kept();
    let mut seen = Vec::new();
    for _ in 0..500 {
        let Placement {
            base,
            before,
            after,
        } = allocate(&bench, 2 * MIB).unwrap();
        assert!(!seen.contains(&base.0));
        seen.push(base.0);
        // Canaries lie in memory.
        assert!(before >= 4096 && after >= 4096 && base.0.is_multiple_of(512));
        let vmm = bench.device.vmm.lock();
        assert!(vmm.holds(base.0 - before) && vmm.holds(base.0 + 2 * MIB + after - 1));
        drop(vmm);
        free(&bench, base);
        assert_eq!(bench.device.vmm.lock().used(), 0);
    }
    let memory = bench.runtime.allocations();
    assert_eq!(memory.extent_of(DeviceAddress(seen[0])), None);
    // A pointer just before its buffer is meant for it.
    let base = allocate(&bench, 2 * MIB).unwrap().base;
    let whole = Some(extent(base.0, 2 * MIB));
    assert_eq!(memory.outside(DeviceAddress(base.0 - 4)), whole);
    assert_eq!(memory.outside(DeviceAddress(seen[0] - 4)), None);
}

/// A launch that finds another thread at work on the shadow of its buffer waits for it.
#[test]
fn launches_wait_for_what_another_thread_is_writing() {
    let bench = shadowed();
    let buffer = allocate(&bench, 4 * MIB).unwrap();
    let (address, launched) = (buffer.base.0, AtomicBool::new(false));
    std::thread::scope(|scope| {
        // The device is slow.
        let words = bench.device.words.lock();
        scope.spawn(|| drop(bench.launch(address, address)));
        std::thread::sleep(Duration::from_millis(100));
        scope.spawn(|| {
            bench.launch(address, address);
            launched.store(true, Ordering::Release);
        });
        std::thread::sleep(Duration::from_millis(100));
        assert!(!launched.load(Ordering::Acquire));
        drop(words);
    });
    assert_eq!(shadow(&bench, address), u32::MAX);
    assert!(launched.load(Ordering::Acquire));
}
