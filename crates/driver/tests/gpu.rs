//! `Gpu` over a driver made of a few C functions, which checks that calls use
//! Ringfence's own stream with a relaxed capture mode.

use driver::gpu::{Gpu, OpenError};
use driver::{Driver, DriverError, SupportLaunch, SupportStream};
use model::layout::{CONTROL_BASE, CONTROL_SIZE, REGION_TABLE, RING_BASE, RING_SIZE, RING_TAIL};
use model::{DeviceAddress, DeviceKind, Extent};
use std::path::{Path, PathBuf};
use std::process::Command;

fn fake(name: &str) -> PathBuf {
    let folder = tempfile::tempdir().expect("temporary folder").keep();
    let library = folder.join(name);
    let done = Command::new("cc")
        .args(["-shared", "-fPIC"])
        .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/c/driver.c"))
        .arg("-o")
        .arg(&library)
        .status()
        .expect("start cc");
    assert!(done.success());
    library
}

fn call(gpu: &Gpu, name: &std::ffi::CStr) -> i32 {
    let function = gpu.symbol(name);
    assert!(!function.is_null());
    // SAFETY: the functions of that name in driver.c take nothing and return
    // an int.
    let function: extern "C" fn() -> i32 = unsafe { std::mem::transmute(function) };
    function()
}

#[test]
fn files_that_are_no_driver() {
    let missing = Gpu::open(Some(Path::new("/nowhere/libcuda.so.1")))
        .err()
        .expect("no such file");
    assert!(matches!(missing, OpenError::Load { .. }), "{missing}");
    // Any library will do that has no cuDriverGetVersion.
    let folder = tempfile::tempdir().expect("temporary folder");
    let source = folder.path().join("empty.c");
    let library = folder.path().join("libcuda.so.1");
    std::fs::write(&source, "int nothing;\n").expect("write");
    let done = Command::new("cc")
        .args(["-shared", "-o"])
        .arg(&library)
        .arg(&source)
        .status()
        .expect("start cc");
    assert!(done.success());
    let error = Gpu::open(Some(&library)).err().expect("no driver");
    assert!(error.to_string().contains("cuDriverGetVersion"), "{error}");
    // Another file: the first one stays mapped.
    let library = folder.path().join("text");
    std::fs::write(&library, "not ELF").expect("write");
    assert!(matches!(
        Gpu::open(Some(&library)).err(),
        Some(OpenError::Load { .. })
    ));
}

#[test]
fn metadata_is_mapped_at_its_addresses() {
    let library = fake("libcuda.so.1");
    let gpu = Gpu::open(Some(&library)).expect("opens");
    assert_eq!(
        (gpu.kind(), gpu.version(), gpu.name().as_str()),
        (DeviceKind::Gpu, 13000, "Fake GPU")
    );
    assert_eq!(gpu.compute_capability(), Ok(90));
    let control = DeviceAddress(CONTROL_BASE);

    // SAFETY: a new mapping, which nothing else uses.
    let blocker = unsafe {
        libc::mmap(
            (CONTROL_BASE + 0x10_0000) as *mut _,
            4096,
            libc::PROT_NONE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED_NOREPLACE,
            -1,
            0,
        )
    };
    let error = gpu
        .map_fixed(control, CONTROL_SIZE)
        .expect_err("the range is taken");
    assert!(error.to_string().contains("0x200000000000"), "{error}");
    // SAFETY: mapped above.
    unsafe { libc::munmap(blocker, 4096) };

    gpu.map_fixed(control, CONTROL_SIZE)
        .expect("the range is free");
    let mut bytes = [1; 64];
    gpu.read(DeviceAddress(CONTROL_BASE + 0x1000), &mut bytes)
        .expect("reads");
    assert_eq!(bytes, [0; 64], "fresh memory is zeroed");
    gpu.write(control, &[7; 8]).expect("writes");
    gpu.fill(DeviceAddress(CONTROL_BASE + 8), 0x0102_0304, 2)
        .expect("fills");
    let mut bytes = [0; 16];
    gpu.read(control, &mut bytes).expect("reads");
    assert_eq!(bytes, [7, 7, 7, 7, 7, 7, 7, 7, 4, 3, 2, 1, 4, 3, 2, 1]);
    gpu.map_fixed(DeviceAddress(REGION_TABLE), 2 << 20)
        .expect("within the reservation");
    assert_eq!(
        call(&gpu, c"fakeMode"),
        0,
        "the thread's capture mode is as it was"
    );

    assert!(gpu.reaches_current_device());

    // A thread without a context, like the record-drain thread, uses another
    // thread's.
    std::thread::scope(|scope| {
        scope.spawn(|| {
            call(&gpu, c"fakeForgetContext");
            let mut bytes = [0; 8];
            gpu.read(control, &mut bytes).expect("reads");
            assert_eq!(bytes, [7; 8]);
            let mut context = driver::sys::CUcontext(1);
            let get = gpu.api().cuCtxGetCurrent.expect("exported");
            // SAFETY: a place for the answer.
            unsafe { get(&mut context) };
            assert_eq!(context, driver::sys::CUcontext::NULL, "and gives it back");
        });
    });

    let ring = gpu
        .map_host_fixed(DeviceAddress(RING_BASE), RING_SIZE)
        .expect("maps");
    assert_eq!(
        ring.extent(),
        Extent {
            base: DeviceAddress(RING_BASE),
            size: RING_SIZE
        }
    );
    assert!(ring.store_u64_release(RING_TAIL - RING_BASE, 5));
    let error = gpu
        .map_host_fixed(DeviceAddress(RING_BASE), RING_SIZE)
        .expect_err("taken by the first");
    assert!(error.to_string().contains("0x210000000000"), "{error}");

    let allocation = gpu
        .allocation_of(DeviceAddress(0x7f00_0000_0210))
        .expect("known");
    assert_eq!(
        allocation,
        Extent {
            base: DeviceAddress(0x7f00_0000_0200),
            size: 512
        }
    );
    assert_eq!(gpu.allocation_of(DeviceAddress(0x1000)), None);
}

#[test]
fn kernels_that_wait_themselves_are_started_early_where_that_can_be() {
    let gpu = Gpu::open(Some(&fake("libcuda_launches.so"))).expect("opens");
    let module = gpu.load_support(".entry own_check(").expect("loads");
    let kernel = gpu.support_kernel(module, "own_check").expect("is there");
    let launch = |stream, waits_itself| -> Result<(i32, i32), DriverError> {
        let launch = SupportLaunch {
            blocks: 2,
            threads: 256,
            parameters: &7u32.to_le_bytes(),
            stream,
            waits_itself,
        };
        gpu.launch_support(kernel, &launch)?;
        Ok((call(&gpu, c"fakePlain"), call(&gpu, c"fakeEarly")))
    };
    let stream = |per_thread| SupportStream::Program {
        handle: 0x70,
        per_thread,
    };
    // Never in Ringfence's own streams.
    assert_eq!(launch(SupportStream::Own, true), Ok((1, 0)));
    assert_eq!(launch(stream(false), false), Ok((2, 0)));
    assert_eq!(launch(stream(false), true), Ok((2, 1)));
    // A graph accepts what every driver supports.
    call(&gpu, c"fakeBeginCapture");
    assert_eq!(launch(stream(false), true), Ok((3, 1)));
    call(&gpu, c"fakeEndCapture");
    assert_eq!(launch(stream(false), true), Ok((3, 2)));
    // A driver that has neither entry for a thread's own stream.
    let error = launch(stream(true), true).expect_err("there is none");
    assert_eq!(error.call, "cuLaunchKernel_ptsz");
    // A driver that does not support the attribute.
    call(&gpu, c"fakeForgetAttributes");
    assert_eq!(launch(stream(false), true), Ok((4, 2)));
}
