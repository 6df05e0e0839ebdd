//! Allocation, copies, fills, virtual memory.

use super::{Rig, linear};
use crate::device::{Copy, Device, Fill, Side};
use crate::mapping::Protection;
use driver::Driver;
use driver::sys::CUresult;
use model::{AllocationKind, DeviceAddress};

const INVALID: CUresult = CUresult::CUDA_ERROR_INVALID_VALUE;

#[test]
fn ranges_are_checked_against_allocations() {
    let rig = Rig::new();
    let device = &rig.device;
    let (a, b) = (rig.words(100), rig.words(100));
    assert_eq!((a % 512, b % 512), (0, 0));
    let fill = |address, width| Fill {
        address,
        pitch: 0,
        element: 4,
        value: 9,
        width,
        height: 1,
    };
    device.fill(fill(a, 100), 0).expect("all of it");
    assert_eq!(device.fill(fill(a, 101), 0), Err(INVALID));
    assert_eq!(device.fill(fill(a + 4, 100), 0), Err(INVALID));
    assert_eq!(device.fill(fill(a + 1, 10), 0), Err(INVALID));
    device.synchronize().expect("done");
    assert_eq!((rig.word(a + 396), rig.word(b)), (9, 0));
    assert_eq!(device.allocate(0, AllocationKind::Device, 0), Err(INVALID));
    let all = device.total_memory();
    assert_eq!(
        device.allocate(all + 1, AllocationKind::Device, 0),
        Err(CUresult::CUDA_ERROR_OUT_OF_MEMORY)
    );
    let both = Copy::linear(
        Side::linear(a, Some(true)),
        Side::linear(0x10, Some(true)),
        4,
    );
    assert_eq!(device.copy(both, 0), Err(INVALID));
    assert_eq!(device.copy(linear(a, b + 200, 400), 0), Err(INVALID));
    device
        .copy(linear(a, b, 0), 0)
        .expect("an empty copy is nothing");
}

/// What pools answer about their memory (cuda.h, `CUmemPool_attribute`).
#[test]
fn pools_count_what_they_hand_out() {
    use driver::sys::CUmemPool_attribute as A;
    let rig = Rig::new();
    let device = &rig.device;
    let pool = device.pool_create();
    let of = |pool| {
        [
            A::CU_MEMPOOL_ATTR_USED_MEM_CURRENT,
            A::CU_MEMPOOL_ATTR_USED_MEM_HIGH,
            A::CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT,
            A::CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH,
        ]
        .map(|attribute| device.pool_attribute(pool, attribute).expect("a count"))
    };
    const CHUNK: u64 = 32 << 20;
    assert_eq!(of(pool), [0; 4]);
    let first = device.allocate_from_pool(1000, pool, 0).expect("memory");
    let second = device.allocate_from_pool(CHUNK, pool, 0).expect("memory");
    assert_eq!(of(pool), [CHUNK + 1024, CHUNK + 1024, 2 * CHUNK, 2 * CHUNK]);
    // Another pool's is none of this one's.
    let other = device.allocate_async(512, 0).expect("memory");
    assert_eq!(of(device.pool_default()), [512, 512, CHUNK, CHUNK]);
    device.free_async(second, 0).expect("freed");
    assert_eq!(of(pool), [1024, CHUNK + 1024, CHUNK, 2 * CHUNK]);
    // What is below the threshold stays, until it is trimmed.
    let threshold = A::CU_MEMPOOL_ATTR_RELEASE_THRESHOLD;
    device
        .pool_set_attribute(pool, threshold, u64::MAX)
        .expect("set");
    rig.free(first.0).expect("freed");
    assert_eq!(of(pool), [0, CHUNK + 1024, CHUNK, 2 * CHUNK]);
    device.pool_trim(pool, 0).expect("trimmed");
    let most = A::CU_MEMPOOL_ATTR_USED_MEM_HIGH;
    assert_eq!(device.pool_set_attribute(pool, most, 5), Err(INVALID));
    device.pool_set_attribute(pool, most, 0).expect("reset");
    assert_eq!(of(pool), [0, 0, 0, 2 * CHUNK]);
    device.free_async(other, 0).expect("freed");
    assert_eq!(of(device.pool_default())[..2], [0, 512]);
}

#[test]
fn a_free_takes_effect_once_and_only_at_the_base() {
    let rig = Rig::new();
    let device = &rig.device;
    let a = rig.words(100);
    assert_eq!(rig.free(a + 4), Err(INVALID));
    rig.free(a).expect("freed");
    assert_eq!(rig.free(a), Err(INVALID));
    assert!(device.pointer_info(a).is_none());
    rig.free(0).expect("null is nothing");
    let host = device
        .allocate(64, AllocationKind::Host, 0)
        .expect("memory");
    assert_eq!(device.free(host), Err(INVALID));
    device.free_host(host).expect("freed");
    assert_eq!(device.free_host(host), Err(INVALID));
}

#[test]
fn freed_memory_stays_until_running_work_is_over() {
    let rig = Rig::new();
    let device = &rig.device;
    let flag = rig.words(1);
    let big = rig.words(1 << 20);
    let stream = device.stream_create(1, 0).expect("a stream");
    device.launch(rig.spin(flag), stream).expect("launched");
    device.launch(rig.add(big, 1), stream).expect("queued");
    rig.free(big).expect("does not wait");
    assert!(
        device.state.memory.is_mapped(big, 4),
        "a queued kernel still uses it"
    );
    rig.set_word(flag, 1);
    device.synchronize().expect("no fault");
    rig.words(1);
    assert!(
        !device.state.memory.is_mapped(big, 4),
        "gone once the work is over"
    );
}

#[test]
fn pools_free_in_stream_order() {
    let rig = Rig::new();
    let device = &rig.device;
    let stream = device.stream_create(1, 0).expect("a stream");
    let base = device.allocate_async(4 << 20, stream).expect("memory");
    device.launch(rig.add(base.0, 1), stream).expect("launched");
    device.free_async(base, stream).expect("freed");
    assert_eq!(device.free_async(base, stream), Err(INVALID));
    device.synchronize().expect("no fault");
    let (free, total) = device.memory_info().expect("known");
    assert!(free <= total && total - free < 1 << 20);
}

#[test]
fn pinned_and_registered_memory() {
    let rig = Rig::new();
    let device = &rig.device;
    let pinned = device
        .allocate(128, AllocationKind::Host, 3)
        .expect("memory");
    let info = device.pointer_info(pinned.0 + 100).expect("known");
    assert_eq!(
        (info.kind, info.flags, info.on_host()),
        (AllocationKind::Host, 3, true)
    );
    let words = vec![1u32; 64];
    let address = words.as_ptr().expose_provenance() as u64;
    device.register_host(address, 256, 0).expect("registered");
    assert_eq!(
        device.register_host(address, 4, 0),
        Err(CUresult::CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED)
    );
    let copy = rig.words(64);
    device.launch(rig.add(copy, 2), 0).expect("launched");
    assert_eq!(
        device.pointer_info(address + 8).map(|info| info.kind),
        Some(AllocationKind::HostRegistered)
    );
    device.unregister_host(address).expect("unregistered");
    assert_eq!(
        device.unregister_host(address),
        Err(CUresult::CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED)
    );
    device.synchronize().expect("done");
}

#[test]
fn pitched_fills_touch_only_their_rows() {
    let rig = Rig::new();
    let device = &rig.device;
    let (base, pitch) = device.allocate_pitch(100, 3, 4).expect("memory");
    assert_eq!(pitch, 512);
    device
        .state
        .memory
        .fill(base.0, &[0], pitch * 3)
        .expect("mapped");
    let rows = Fill {
        address: base.0 + 4,
        pitch,
        element: 1,
        value: 0x11,
        width: 4,
        height: 3,
    };
    device.fill(rows, 0).expect("filled");
    device.synchronize().expect("done");
    for row in 0..3 {
        let at = base.0 + row * pitch;
        assert_eq!(
            [rig.word(at), rig.word(at + 4), rig.word(at + 8)],
            [0, 0x1111_1111, 0]
        );
    }
    assert_eq!(device.fill(Fill { height: 4, ..rows }, 0), Err(INVALID));
    assert_eq!(device.fill(Fill { pitch: 2, ..rows }, 0), Err(INVALID));
}

#[test]
fn virtual_memory_is_reserved_mapped_and_protected() {
    let rig = Rig::new();
    let device = &rig.device;
    let granule = Device::GRANULARITY;
    let hint = 0x3100_0000_0000;
    let size = 16 * granule;
    let va = device.address_reserve(size, 0, hint).expect("reserved");
    assert_eq!(va, hint);
    // Taken, too small, and no multiple of 32 MiB.
    let free = hint + (1 << 32);
    for (size, hint) in [(size, hint), (granule, free), (size, free + granule)] {
        let elsewhere = device
            .address_reserve(size, 0, hint)
            .expect("a hint that does not fit is moved");
        assert_ne!(elsewhere, hint);
        device.address_free(elsewhere, size).expect("freed");
    }
    let handle = device.memory_create(granule).expect("memory");
    device
        .memory_map(va + granule, granule, 0, handle)
        .expect("mapped");
    assert!(
        !device.state.memory.is_mapped(va + granule, 4),
        "no access was given yet"
    );
    device
        .memory_access(va + granule, granule, Protection::ReadWrite)
        .expect("access");
    assert_eq!(
        device.memory_protection(va + granule),
        Ok(Protection::ReadWrite)
    );
    assert_eq!(device.memory_protection(va), Err(INVALID));
    rig.set_word(va + granule + 8, 42);
    assert_eq!(
        device.memory_access(va, granule, Protection::ReadWrite),
        Err(INVALID)
    );
    assert_eq!(device.address_free(va, size), Err(INVALID));
    // The contents move with the physical memory.
    device
        .memory_unmap(va + granule, granule)
        .expect("unmapped");
    assert!(!device.state.memory.is_mapped(va + granule, 4));
    device
        .memory_map(va + 2 * granule, granule, 0, handle)
        .expect("mapped");
    device
        .memory_access(va + 2 * granule, granule, Protection::Read)
        .expect("access");
    assert_eq!(rig.word(va + 2 * granule + 8), 42);
    assert!(
        device.state.memory.write(va + 2 * granule, &[1]).is_err(),
        "read-only"
    );
    device.memory_release(handle).expect("released");
    assert_eq!(device.memory_map(va, granule, 0, handle), Err(INVALID));
    device
        .memory_unmap(va + 2 * granule, granule)
        .expect("unmapped");
    device.address_free(va, size).expect("freed");
}

#[test]
fn physical_memory_is_mapped_at_several_addresses() {
    let rig = Rig::new();
    let device = &rig.device;
    let granule = Device::GRANULARITY;
    let va = device
        .address_reserve(4 * granule, 0, 0)
        .expect("addresses");
    let handle = device.memory_create(granule).expect("memory");
    for place in [0, 2, 3] {
        let at = va + place * granule;
        device.memory_map(at, granule, 0, handle).expect("mapped");
        device
            .memory_access(at, granule, Protection::ReadWrite)
            .expect("access");
    }
    device.memory_release(handle).expect("released");
    rig.set_word(va + 8, 42);
    assert_eq!(rig.word(va + 2 * granule + 8), 42);
    device.memory_unmap(va, granule).expect("unmapped");
    assert_eq!(rig.word(va + 3 * granule + 8), 42, "the others stay");
    device
        .memory_unmap(va + 2 * granule, 2 * granule)
        .expect("unmapped");
    assert_eq!(
        device.memory_size(handle),
        Err(INVALID),
        "the last one went"
    );
    // Clearing gives pages up, at all of their addresses.
    let both = device.memory_create(granule).expect("memory");
    for place in [0, 1] {
        let at = va + place * granule;
        device.memory_map(at, granule, 0, both).expect("mapped");
        device
            .memory_access(at, granule, Protection::ReadWrite)
            .expect("access");
    }
    rig.set_word(va + 16, 7);
    let words = granule / 4;
    device
        .state
        .memory
        .fill(va + granule, &[0; 4], words)
        .expect("filled");
    assert_eq!(rig.word(va + 16), 0);
    device.memory_release(both).expect("released");
    device.memory_unmap(va, 2 * granule).expect("unmapped");
    // Its pages are handed out again, without what they held.
    let handle = device.memory_create(granule).expect("memory");
    device.memory_map(va, granule, 0, handle).expect("mapped");
    device
        .memory_access(va, granule, Protection::ReadWrite)
        .expect("access");
    assert_eq!(rig.word(va + 8), 0);
}

#[test]
fn the_runtime_maps_its_own_memory() {
    let rig = Rig::new();
    let device: &dyn Driver = &rig.device;
    let at = DeviceAddress(0x2800_0000_0000);
    device.map_fixed(at, 2 << 20).expect("free");
    let taken = device.map_fixed(at, 2 << 20).expect_err("taken");
    assert!(taken.to_string().contains("0x280000000000"), "{taken}");
    device.write(at, &[1, 2, 3, 4]).expect("mapped");
    device.fill(DeviceAddress(at.0 + 4), 7, 2).expect("mapped");
    let mut bytes = [0; 12];
    device.read(at, &mut bytes).expect("mapped");
    assert_eq!(bytes, [1, 2, 3, 4, 7, 0, 0, 0, 7, 0, 0, 0]);
    assert!(device.read(DeviceAddress(16), &mut bytes).is_err());
    let a = rig.words(3);
    assert_eq!(
        device
            .allocation_of(DeviceAddress(a + 11))
            .map(|e| (e.base.0, e.size)),
        Some((a, 12))
    );
    assert_eq!(device.allocation_of(DeviceAddress(a + 12)), None);
    assert_eq!(device.compute_capability(), Ok(90));
}

/// Who unmaps what is freed waits for all streams, in order with the default one or not.
#[test]
fn all_work_can_be_waited_for_as_a_gpu_does_before_it_frees() {
    let rig = Rig::new();
    let device = &rig.device;
    let blocking = device.stream_create(0, 0).expect("a stream");
    let apart = device.stream_create(1, 0).expect("a stream");
    for stream in [0, blocking, apart] {
        let (flag, data) = (rig.words(1), rig.words(32));
        device.launch(rig.spin(flag), stream).expect("launched");
        device.launch(rig.add(data, 1), stream).expect("queued");
        std::thread::scope(|scope| {
            scope.spawn(|| {
                std::thread::sleep(std::time::Duration::from_millis(20));
                rig.set_word(flag, 1);
            });
            driver::Driver::settle(device, 0).expect("no fault");
        });
        assert_eq!(rig.word(data), 1, "the work before is over");
    }
}

#[test]
fn a_free_waits_for_the_default_stream() {
    let rig = Rig::new();
    let device = &rig.device;
    let (flag, data) = (rig.words(1), rig.words(32));
    let other = rig.words(1);
    device.launch(rig.spin(flag), 0).expect("launched");
    device.launch(rig.add(data, 1), 0).expect("queued");
    std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(std::time::Duration::from_millis(20));
            rig.set_word(flag, 1);
        });
        rig.free(other).expect("freed");
    });
    assert_eq!(rig.word(data), 1, "the work before the free is over");
}
