//! Limits of launches, and errors that stay.

use super::Rig;
use crate::device::Launch;
use driver::sys::{CUfunction_attribute as Attribute, CUresult};
use model::AllocationKind;

const INVALID: CUresult = CUresult::CUDA_ERROR_INVALID_VALUE;

#[test]
fn an_error_stays_until_the_context_is_gone() {
    let rig = Rig::new();
    let device = &rig.device;
    device
        .launch(rig.add(0x10, 1), 0)
        .expect("the error comes later");
    assert_eq!(
        device.synchronize(),
        Err(CUresult::CUDA_ERROR_ILLEGAL_ADDRESS)
    );
    assert_eq!(
        device.allocate(4, AllocationKind::Device, 0),
        Err(CUresult::CUDA_ERROR_ILLEGAL_ADDRESS)
    );
    assert_eq!(
        device.launch(rig.add(0x10, 1), 0),
        Err(CUresult::CUDA_ERROR_ILLEGAL_ADDRESS)
    );
    let words = device.fault().expect("in words");
    assert!(
        words.contains("add") && words.contains("ld.global.u32"),
        "{words}"
    );
    assert_eq!(rig.host.reports.lock().len(), 1, "said once");
    device.primary_reset().expect("reset");
    let context = device.primary_retain().expect("retained");
    device.context_set(context).expect("current");
    assert!(device.fault().is_none());
    device
        .allocate(4, AllocationKind::Device, 0)
        .expect("works again");
    device.synchronize().expect("works again");
}

#[test]
fn faults_have_the_drivers_codes() {
    for (name, address, code) in [
        ("add", 0x10, CUresult::CUDA_ERROR_ILLEGAL_ADDRESS),
        ("add", 2, CUresult::CUDA_ERROR_MISALIGNED_ADDRESS),
        ("stop", 0, CUresult::CUDA_ERROR_LAUNCH_FAILED),
    ] {
        let rig = Rig::new();
        let launch = if name == "add" {
            rig.add(address, 1)
        } else {
            rig.launch(name, 1, &[])
        };
        rig.device.launch(launch, 0).expect("launched");
        assert_eq!(rig.device.synchronize(), Err(code), "{name} {address:#x}");
    }
}

#[test]
fn a_fault_ends_kernels_that_wait() {
    let rig = Rig::new();
    let device = &rig.device;
    let flag = rig.words(1);
    let [first, second] = [(); 2].map(|()| device.stream_create(1, 0).expect("a stream"));
    device.launch(rig.spin(flag), first).expect("launched");
    device
        .launch(rig.launch("stop", 1, &[]), second)
        .expect("launched");
    assert_eq!(
        device.stream_synchronize(first),
        Err(CUresult::CUDA_ERROR_LAUNCH_FAILED)
    );
}

#[test]
fn launches_outside_the_limits_are_refused() {
    let rig = Rig::new();
    let device = &rig.device;
    let good = rig.add(rig.words(32), 1);
    let wrong: [Launch; 6] = [
        Launch {
            grid: [0, 1, 1],
            ..good.clone()
        },
        Launch {
            grid: [1, 65536, 1],
            ..good.clone()
        },
        Launch {
            block: [1025, 1, 1],
            ..good.clone()
        },
        Launch {
            block: [32, 32, 2],
            ..good.clone()
        },
        Launch {
            dynamic_shared: (48 << 10) + 1,
            ..good.clone()
        },
        Launch {
            parameters: vec![0; 8],
            ..good.clone()
        },
    ];
    for launch in wrong {
        assert_eq!(device.launch(launch.clone(), 0), Err(INVALID), "{launch:?}");
    }
    assert_eq!(
        device.launch(
            Launch {
                cluster: [2, 1, 1],
                ..good.clone()
            },
            0
        ),
        Err(CUresult::CUDA_ERROR_INVALID_CLUSTER_SIZE)
    );
    assert_eq!(
        device.launch(
            Launch {
                grid: [1 << 20, 1, 1],
                cooperative: true,
                ..good.clone()
            },
            0
        ),
        Err(CUresult::CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE)
    );
    assert_eq!(
        device.launch(
            Launch {
                function: 1,
                ..good.clone()
            },
            0
        ),
        Err(CUresult::CUDA_ERROR_INVALID_HANDLE)
    );
    device.launch(good, 0).expect("legal");
    device.synchronize().expect("none of this was a fault");
}

#[test]
fn shared_memory_beyond_the_default_is_opted_into() {
    let rig = Rig::new();
    let device = &rig.device;
    let out = rig.words(1);
    let mut launch = rig.launch("shared", 1, &out.to_le_bytes());
    let of = |attribute| {
        device
            .function_attribute(launch.function, attribute)
            .expect("known")
    };
    assert_eq!(of(Attribute::CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES), 16384);
    assert_eq!(
        of(Attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES),
        32768
    );
    assert!((8..=255).contains(&of(Attribute::CU_FUNC_ATTRIBUTE_NUM_REGS)));
    launch.dynamic_shared = 100 << 10;
    assert_eq!(device.launch(launch.clone(), 0), Err(INVALID));
    let opt_in = Attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
    assert_eq!(
        device.function_set_attribute(launch.function, opt_in, 227 << 10),
        Err(INVALID)
    );
    device
        .function_set_attribute(launch.function, opt_in, 100 << 10)
        .expect("fits with the static part");
    device.launch(launch, 0).expect("legal now");
    device.synchronize().expect("done");
    assert_eq!(rig.word(out), 3);
}

#[test]
fn modules_give_functions_and_variables() {
    let rig = Rig::new();
    let device = &rig.device;
    assert_eq!(
        device.function_names(rig.module).expect("loaded"),
        ["add", "meet", "shared", "spin", "stop"]
    );
    assert_eq!(
        device.function(rig.module, "nothing"),
        Err(CUresult::CUDA_ERROR_NOT_FOUND)
    );
    let add = device.function(rig.module, "add").expect("an entry");
    assert_eq!(device.function(rig.module, "add"), Ok(add));
    assert_eq!(
        device.function_info(add).expect("known").parameters,
        [(0, 8), (8, 4)]
    );
    let counter = device.variable(rig.module, "counter").expect("a variable");
    assert_eq!((counter.size, rig.word(counter.base.0)), (4, 5));
    assert_eq!(
        device.pointer_info(counter.base.0).map(|info| info.kind),
        Some(AllocationKind::Variable)
    );
    let table = device.variable(rig.module, "table").expect("a variable");
    assert_eq!(rig.word(table.base.0 + 4), 9);
    device.module_unload(rig.module).expect("unloaded");
    assert_eq!(
        device.function_info(add).map(drop),
        Err(CUresult::CUDA_ERROR_INVALID_HANDLE)
    );
    assert!(device.pointer_info(counter.base.0).is_none());
}

/// As the driver answers (measured on driver 580).
#[test]
fn what_is_no_ptx_does_not_load() {
    let rig = Rig::new();
    let (code, words) = rig
        .device
        .load_module(&["this is not PTX"])
        .expect_err("refused");
    assert_eq!(code, CUresult::CUDA_ERROR_INVALID_IMAGE);
    assert!(!words.is_empty());
    let load = |version: &str, body: &str| {
        let text = format!(
            ".version {version}\n.target sm_75\n.address_size 64\n\
             .extern .func elsewhere ();\n\
             .visible .entry k() {{ .reg .b32 %r<2>; .reg .pred %p; {body} ret; }}\n"
        );
        rig.device.load_module(&[&text]).map(drop).map_err(|e| e.0)
    };
    for body in [
        "frobnicate.u32 %r1, 5;",
        "add.u32 %r1, %r1 5;",
        "add.u32 %r1, %r9, 5;",
        "add.u32 %r9, %r1, 5;",
        "mov.u32 %r1, nothing;",
        "@%q add.u32 %r1, %r1, 5;",
        "ld.global.u32 %r1, [%rd1];",
        "bra NOWHERE;",
        "call.uni elsewhere;",
    ] {
        assert_eq!(
            load("7.0", body),
            Err(CUresult::CUDA_ERROR_INVALID_PTX),
            "{body}"
        );
    }
    // A later version may have such an instruction: it fails when it is reached.
    assert_eq!(load("99.0", "frobnicate.u32 %r1, 5;"), Ok(()));
    // What the device lacks, too.
    assert_eq!(load("7.0", "mov.u32 %r1, %pm0;"), Ok(()));
}

#[test]
fn nothing_works_without_initialization_or_context() {
    let rig = Rig::new();
    let device = &rig.device;
    assert_ne!(device.context_pop(), Ok(0));
    assert_eq!(
        device.allocate(4, AllocationKind::Device, 0),
        Err(CUresult::CUDA_ERROR_INVALID_CONTEXT)
    );
    assert_eq!(
        device.context_pop(),
        Err(CUresult::CUDA_ERROR_INVALID_CONTEXT)
    );
    let own = device.context_create(0).expect("created and current");
    device
        .allocate(4, AllocationKind::Device, 0)
        .expect("in the new context");
    device.context_destroy(own).expect("destroyed");
    assert_eq!(device.context_current(), Ok(0));
    assert_eq!(
        device.context_set(own),
        Err(CUresult::CUDA_ERROR_INVALID_CONTEXT)
    );
    let fresh = crate::device::Device::new(Default::default(), rig.host.clone()).expect("a device");
    assert_eq!(
        fresh.primary_retain(),
        Err(CUresult::CUDA_ERROR_NOT_INITIALIZED)
    );
}

#[test]
fn libraries_outlive_the_context_and_start_afresh() {
    let rig = Rig::new();
    let device = &rig.device;
    let library = device.load_library(&[super::KERNELS]).expect("loads");
    let add = device.function(library, "add").expect("an entry");
    let counter = device
        .variable(library, "counter")
        .expect("a variable")
        .base
        .0;
    rig.set_word(counter, 77);
    device.primary_reset().expect("reset");
    assert!(
        !device.module_exists(rig.module),
        "modules belong to the context"
    );
    let context = device.primary_retain().expect("retained");
    device.context_set(context).expect("current");
    assert_eq!(rig.word(counter), 5);
    let data = rig.words(32);
    device
        .launch(
            Launch {
                function: add,
                ..rig_launch(data)
            },
            0,
        )
        .expect("launched");
    device.synchronize().expect("done");
    assert_eq!(rig.word(data), 1);
}

/// One block of `add` with 1, without its function.
fn rig_launch(data: u64) -> Launch {
    let mut parameters = data.to_le_bytes().to_vec();
    parameters.extend(1u32.to_le_bytes());
    Launch {
        grid: [1; 3],
        block: [32, 1, 1],
        parameters,
        ..Launch::default()
    }
}
