//! Preparing modules, and the honest end.

use super::fake::{Bench, Fake, KERNEL, MODULE, NAME, module, resolved};
use crate::prepare::{Wanted, prepare};
use crate::{LaunchDecision, ModulePart, Prepared, Runtime, Where};
use model::{Checked, Settings, UncheckedReason};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

const PTX: &str = ".version 7.0\n.target sm_75\n.address_size 64\n\
    .visible .entry store(.param .u64 p)\n{\n.reg .b64 %rd<2>;\nld.param.u64 %rd1, [p];\n\
    st.global.u32 [%rd1], 1;\nret;\n}\n";

#[test]
fn launches_are_counted_by_outcome() {
    let bench = Bench::new();
    bench.launch(0, 0);
    bench.begin(0, 0, |mut ticket| {
        ticket.fall_back(UncheckedReason::Registers);
        assert!(matches!(ticket.decision(), LaunchDecision::Original));
        ticket.submitted(Where::Unknown);
    });
    bench
        .runtime
        .launcher()
        .unhooked(KERNEL, UncheckedReason::LaunchPath);
    // Resolving the kernel again must not lose its counts.
    bench
        .runtime
        .modules()
        .resolved(resolved(KERNEL, MODULE, NAME, Some(super::fake::COPY)));
    bench.runtime.ending().finish();
    bench.runtime.ending().finish();
    let process = bench.process();
    let kernel = &process.coverage.kernels[NAME];
    assert_eq!((kernel.checked, kernel.exact_sites), (1, 3));
    assert_eq!(kernel.unchecked[&UncheckedReason::Registers], 1);
    assert_eq!(kernel.unchecked[&UncheckedReason::LaunchPath], 1);
    assert_eq!(bench.events().matches("\"complete\":true").count(), 1);
    bench.launch(0, 0);
    bench.runtime.ending().finish();
    assert_eq!(bench.process().coverage.kernels[NAME].checked, 2);
}

#[test]
fn ptx_is_instrumented_and_rejection_is_remembered() {
    let bench = Bench::new();
    let Prepared::Instrumented { ptx, plan } =
        bench.runtime.modules().prepare(&[ModulePart::Ptx(PTX)])
    else {
        panic!("not instrumented");
    };
    assert!(ptx[0].contains("__ringfence_checked_store"));
    assert_eq!(
        plan.checked_entries().collect::<Vec<_>>(),
        [("store", "__ringfence_checked_store")]
    );
    assert_eq!(plan.entry("store").unwrap().roots, [0]);
    bench.runtime.modules().rejected(&plan, "ptxas said no");
    bench.runtime.modules().loaded(0x30, plan);
    bench
        .runtime
        .modules()
        .resolved(resolved(0x31, 0x30, "store", None));
    bench
        .begin_of(0x31, &|_, _, _| Some(0))
        .submitted(Where::Unknown);
    assert_eq!(
        bench.runtime.ending().coverage().kernels["store"].unchecked[&UncheckedReason::Rejected],
        1
    );
}

#[test]
fn what_cannot_be_checked_has_a_reason() {
    let reason = |settings: Settings, part: ModulePart<'_>| {
        let bench = Bench::with(settings, Fake::default(), module(false));
        let prepared = bench.runtime.modules().prepare(&[part]);
        let Prepared::Original { plan, ptx } = prepared else {
            panic!("instrumented")
        };
        let (reason, message) = plan.unchecked().unwrap();
        assert!(!message.is_empty());
        (reason, ptx.is_some())
    };
    let on = Settings::default;
    assert_eq!(
        reason(on(), ModulePart::Elf(b"\x7fELF")),
        (UncheckedReason::NoPtx, false)
    );
    assert_eq!(
        reason(on(), ModulePart::Fatbin(&[])),
        (UncheckedReason::NoPtx, false)
    );
    assert_eq!(
        reason(on(), ModulePart::Fatbin(b"garbage")),
        (UncheckedReason::NotInstrumentable, false)
    );
    assert_eq!(
        reason(on(), ModulePart::Ptx("} not ptx {")),
        (UncheckedReason::NotInstrumentable, true)
    );
    let off = Settings {
        check: false,
        ..Settings::default()
    };
    assert_eq!(
        reason(off, ModulePart::Ptx(PTX)),
        (UncheckedReason::Excluded, true)
    );
}

#[test]
fn modules_that_need_the_device_runtime_are_left_to_devices_that_link_it() {
    let launching = PTX.replace(
        ".visible",
        ".extern .func (.param .b64 r) __cudaCDP2GetParameterBufferV2(.param .b64 k);\n.visible",
    );
    let bounds = Wanted::Bounds {
        checked: Checked::default(),
        trap: false,
        in_place: false,
        shadow: None,
    };
    let prepared = |text: &str, launches_itself, wanted| {
        prepare(
            &[ModulePart::Ptx(text)],
            Ok(90),
            launches_itself,
            wanted,
            None,
        )
    };
    let reason = |prepared: Prepared| match prepared {
        Prepared::Original { plan, .. } => plan.unchecked().map(|(reason, _)| reason),
        Prepared::Instrumented { .. } => panic!("instrumented"),
    };
    let checked = |prepared| matches!(prepared, Prepared::Instrumented { .. });
    assert!(checked(prepared(&launching, true, bounds)));
    assert!(checked(prepared(PTX, false, bounds)));
    let on_gpu = prepared(&launching, false, bounds);
    assert_eq!(reason(on_gpu), Some(UncheckedReason::DeviceRuntime));
    // What is only looked at is loaded as it is anyway.
    assert_eq!(reason(prepared(&launching, false, Wanted::Look)), None);
}

#[test]
fn what_was_instrumented_is_found_by_the_next_process() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("cache");
    let bounds = Wanted::Bounds {
        checked: Checked::default(),
        trap: false,
        in_place: false,
        shadow: None,
    };
    // A process: what it has made, what it has found, and what it has removed.
    let process = |text: &str, wanted| {
        let cache = cache::Cache::open(&path, 1 << 20).unwrap();
        let prepared = prepare(&[ModulePart::Ptx(text)], Ok(90), true, wanted, Some(&cache));
        let of = |count: &std::sync::atomic::AtomicU64| count.load(Relaxed);
        let counts = cache.counts();
        (
            format!("{prepared:?}"),
            of(&counts.found),
            of(&counts.damaged),
        )
    };
    let (first, ..) = process(PTX, bounds);
    assert_eq!(process(PTX, bounds), (first.clone(), 1, 0));
    assert!(first.contains("__ringfence_checked_store"));
    // Anything that decides it makes another one.
    let other = PTX.replace("store", "other");
    assert_eq!(
        (process(&other, bounds).1, process(&other, bounds).1),
        (0, 1)
    );
    let trapping = Wanted::Bounds {
        checked: Checked::default(),
        trap: true,
        in_place: false,
        shadow: None,
    };
    for wanted in [trapping, Wanted::Look, Wanted::DeviceHeap] {
        let (made, found, _) = process(PTX, wanted);
        assert_eq!(found, 0, "{wanted:?}");
        assert_eq!(process(PTX, wanted), (made, 1, 0));
    }
    // What cannot be read is made anew, also if its hash is right.
    for entry in std::fs::read_dir(&path).unwrap() {
        let path = entry.unwrap().path();
        let mut bytes = std::fs::read(&path).unwrap();
        bytes.truncate(200);
        std::fs::write(path, bytes).unwrap();
    }
    assert_eq!(process(PTX, bounds), (first.clone(), 0, 1));
    assert_eq!(process(PTX, bounds), (first, 1, 0));
    // A module that cannot be instrumented is not kept.
    let broken = PTX.replace("ld.param.u64 %rd1, [p];", "ld.param.u64 %rd1, [p]; }");
    assert_eq!(
        (process(&broken, bounds).1, process(&broken, bounds).1),
        (0, 0)
    );
}

#[test]
fn fat_binaries_give_the_best_ptx() {
    let sm = |arch: u32| PTX.replace("sm_75", &format!("sm_{arch}"));
    let (old, new, newer) = (sm(75), sm(90), sm(100));
    let entries = [(75, &old), (90, &new), (100, &newer)].map(|(arch, text)| fatbin::NewEntry {
        kind: fatbin::Kind::Ptx,
        arch,
        target: fatbin::Target::Generic,
        version: (7, 0),
        identifier: None,
        compression: fatbin::Compression::None,
        payload: text.clone().into_bytes(),
    });
    let bytes = fatbin::write(&entries);
    let Prepared::Instrumented { ptx, .. } = Bench::new()
        .runtime
        .modules()
        .prepare(&[ModulePart::Fatbin(&bytes)])
    else {
        panic!("not instrumented");
    };
    assert!(ptx[0].contains("sm_90"));
    let only_newer = fatbin::write(&entries[2..]);
    let prepared = Bench::new()
        .runtime
        .modules()
        .prepare(&[ModulePart::Fatbin(&only_newer)]);
    let (reason, message) = prepared.plan().unchecked().unwrap();
    assert_eq!(reason, UncheckedReason::NoPtx);
    assert!(message.contains("compute_100"), "{message}");
}

#[test]
fn files_that_cannot_be_written_stop_the_start() {
    let settings = Settings {
        log_file: Some("/no/such/directory/log".into()),
        ..Settings::default()
    };
    let error = Runtime::new(settings, Arc::new(Fake::default()))
        .err()
        .unwrap()
        .to_string();
    assert!(error.contains("/no/such/directory/log"), "{error}");
}

#[test]
fn a_kernel_none_of_whose_accesses_can_be_checked_is_unchecked() {
    let launched = |unchecked: &[&str]| {
        let mut module = module(false);
        let entry = &mut module.entries[0];
        entry.checked_name = None;
        entry.coverage.exact_sites = 0;
        let opcodes = unchecked.iter().map(|opcode| ((*opcode).to_string(), 1));
        entry.coverage.unchecked_sites = opcodes.collect();
        let bench = Bench::with(Settings::default(), Fake::default(), module);
        bench.launch(0, 0);
        bench.runtime.ending().coverage().kernels[NAME].clone()
    };
    let none = launched(&["tex.2d"]);
    assert_eq!((none.proved, none.checked), (0, 0));
    assert_eq!(none.unchecked[&UncheckedReason::NoCheckedSite], 1);
    let idle = launched(&[]);
    assert_eq!((idle.proved, idle.unchecked.len()), (1, 0));
}
