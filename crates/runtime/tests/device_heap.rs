//! Device-side `malloc` and `free` on the heap of our own, on the CPU device:
//! the heap against a model, and what is reported of its misuse.

use driver::Driver;
use emulate::Device;
use emulate::device::Launch;
use heap::DeviceHeap;
use model::{
    AllocationKind, DeviceAddress, Extent, Finding, HostFrame, LeakCheck, NearestAllocation,
    Relation, Rule, Settings,
};
use runtime::{ModulePart, Prepared, Runtime};
use std::path::Path;
use std::process::Command;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

mod support;

/// What the program asked CUDA for; ours is larger.
const LIMIT: u64 = 4 << 20;

/// The heap lies at fixed addresses, so a process has one.
struct Bench {
    device: Arc<Device>,
    runtime: Arc<Runtime>,
    module: u64,
    session: tempfile::TempDir,
}

static BENCH: LazyLock<Mutex<Bench>> = LazyLock::new(|| Mutex::new(Bench::new()));

/// The kernels as the pinned compiler translates them.
fn kernels(folder: &Path) -> String {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let out = folder.join("kernels.ptx");
    let status = Command::new(toolchain::cuda().nvcc())
        .args(["-ptx", "-lineinfo", "-arch=compute_75", "-o"])
        .arg(&out)
        .arg(here.join("tests/device_heap.cu"))
        .status()
        .unwrap();
    assert!(status.success());
    std::fs::read_to_string(out).unwrap()
}

impl Bench {
    fn new() -> Bench {
        let device = support::device(4, 3);
        let session = tempfile::tempdir().unwrap();
        let settings = Settings {
            session: Some(session.path().to_path_buf()),
            log_file: Some(session.path().join("log").display().to_string()),
            leak_check: LeakCheck::Full,
            ..Settings::default()
        };
        let driver: Arc<dyn Driver> = device.clone();
        let runtime = Runtime::new(settings, driver).unwrap();
        runtime.device_heap().set_limit(LIMIT);
        let text = kernels(session.path());
        let prepared = runtime.modules().prepare(&[ModulePart::Ptx(&text)]);
        let Prepared::Instrumented { ptx, plan } = prepared else {
            panic!("not instrumented: {:?}", prepared.plan().unchecked());
        };
        assert!(plan.uses_device_heap() && !plan.uses_device_malloc());
        let parts: Vec<&str> = ptx.iter().map(String::as_str).collect();
        let module = device.load_module(&parts).unwrap();
        runtime.modules().loaded(module, plan);
        Bench {
            device,
            runtime,
            module,
            session,
        }
    }

    fn buffer(&self, size: u64) -> u64 {
        let kind = AllocationKind::Device;
        let padded = self.runtime.allocations().padded_size(size);
        let base = self.device.allocate(padded, kind, 0).unwrap();
        self.runtime
            .allocations()
            .allocated(kind, Extent { base, size });
        Driver::fill(&*self.device, base, 0, padded / 4).unwrap();
        base.0
    }

    fn words(&self, address: u64, count: usize) -> Vec<u64> {
        let mut bytes = vec![0; count * 8];
        Driver::read(&*self.device, DeviceAddress(address), &mut bytes).unwrap();
        bytes
            .chunks_exact(8)
            .map(|word| u64::from_le_bytes(word.try_into().unwrap()))
            .collect()
    }

    /// Launches a kernel, original or checked, and waits. New findings.
    fn launch(&self, kernel: &str, grid: u32, block: u32, arguments: &[u8]) -> Vec<Finding> {
        let before = self.findings().len();
        let shape = Launch {
            grid: [grid, 1, 1],
            block: [block, 1, 1],
            ..Launch::default()
        };
        support::launch(
            &self.device,
            &self.runtime,
            self.module,
            kernel,
            shape,
            arguments,
        );
        self.findings().split_off(before)
    }

    fn findings(&self) -> Vec<Finding> {
        support::findings(self.session.path())
    }

    /// Live blocks, as the host sees them, by address.
    fn live(&self) -> Vec<(u64, u64)> {
        let read =
            |at: DeviceAddress, bytes: &mut [u8]| Driver::read(&*self.device, at, bytes).ok();
        let mut blocks: Vec<(u64, u64)> = DeviceHeap::for_limit(LIMIT)
            .live_blocks(&read)
            .iter()
            .map(|block| (block.extent.base.0, block.extent.size))
            .collect();
        blocks.sort_unstable();
        blocks
    }

    fn line_of(&self, text: &str) -> u32 {
        let source = include_str!("device_heap.cu");
        source
            .lines()
            .position(|line| line.contains(text))
            .map_or(0, |index| index as u32 + 1)
    }
}

fn with(test: impl FnOnce(&Bench)) {
    let bench = BENCH.lock().unwrap_or_else(PoisonError::into_inner);
    support::make_current(&bench.device);
    test(&bench);
}

/// A parameter block: values of eight bytes, and of four.
#[derive(Clone, Copy)]
enum P {
    Long(u64),
    Word(u32),
}

fn block(values: &[P]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for value in values {
        match value {
            P::Long(value) => {
                bytes.resize(bytes.len().next_multiple_of(8), 0);
                bytes.extend_from_slice(&value.to_le_bytes());
            }
            P::Word(value) => bytes.extend_from_slice(&value.to_le_bytes()),
        }
    }
    bytes
}

fn one(findings: Vec<Finding>) -> Finding {
    assert_eq!(findings.len(), 1, "{findings:#?}");
    findings.into_iter().next().unwrap()
}

fn line(frames: &[HostFrame]) -> Option<u32> {
    frames.first().and_then(|frame| frame.line)
}

fn intended(finding: &Finding) -> &NearestAllocation {
    let near = finding.intended.as_ref().expect("an allocation");
    assert_eq!(near.allocation.kind, AllocationKind::DeviceHeap);
    near
}

#[test]
fn many_threads_against_a_model() {
    with(|bench| {
        let (grid, threads, per_thread) = (8, 96, 4);
        let count = (grid * threads * per_thread) as usize;
        let slots = bench.buffer(count as u64 * 16);
        for seed in 0..6 {
            let errors = bench.buffer(16);
            // In the third round, blocks are as large as several chunks.
            let most = [2000, 9000, 70_000][seed as usize % 3];
            let arguments = block(&[
                P::Long(slots),
                P::Word(per_thread),
                P::Word(24),
                P::Word(most),
                P::Word(seed),
                P::Long(errors),
            ]);
            assert_eq!(bench.launch("churn", grid, threads, &arguments), []);
            let seen = bench.words(errors, 2);
            assert_eq!(
                (seen[0] as u32, seen[0] >> 32, seed % 3 == 2 || seen[1] == 0),
                (0, 0, true),
                "changed, misaligned, failed: {seen:?}"
            );
            // The program's own list of what it holds is the heap's.
            let mut held: Vec<(u64, u64)> = bench
                .words(slots, count * 2)
                .chunks_exact(2)
                .filter(|slot| slot[0] != 0)
                .map(|slot| (slot[0], slot[1]))
                .collect();
            held.sort_unstable();
            assert!(!held.is_empty());
            for pair in held.windows(2) {
                // One past the end is no other block's first byte.
                assert!(pair[0].0 + pair[0].1 < pair[1].0, "{pair:x?}");
            }
            assert_eq!(bench.live(), held);
        }
        let arguments = block(&[P::Long(slots), P::Word(count as u32)]);
        let blocks = (count as u32).div_ceil(threads);
        assert_eq!(bench.launch("release", blocks, threads, &arguments), []);
        assert_eq!(bench.live(), []);
    });
}

#[test]
fn exhaustion_answers_null_and_all_of_the_memory_comes_back() {
    with(|bench| {
        let count = bench.buffer(8);
        let take_all = |size: u64| {
            let arguments = block(&[P::Long(size), P::Long(count)]);
            assert_eq!(bench.launch("exhaust", 1, 1, &arguments), []);
            bench.words(count, 1)[0] as u32 as u64
        };
        for size in [200, 2700, 16_383, 16_384, 100_000, 1 << 20] {
            let first = take_all(size);
            // As much as the program asked CUDA for, whatever came before.
            assert!(first * size >= LIMIT, "{first} of {size}");
            let second = take_all(size);
            if size < 16_384 {
                assert_eq!(second, first, "of {size}");
            } else {
                // Freed blocks that are held back decide where others go.
                assert!(second * 20 >= first * 19, "{first}, {second} of {size}");
            }
        }
        assert_eq!(take_all(1 << 40), 0);
        assert_eq!(bench.live(), []);
    });
}

#[test]
fn bounds_are_exact_across_kernels_and_for_objects() {
    with(|bench| {
        let place = bench.buffer(8);
        let touch =
            |offset: u64| bench.launch("touch", 1, 1, &block(&[P::Long(place), P::Long(offset)]));
        bench.launch("take", 1, 1, &block(&[P::Long(place), P::Long(13)]));
        let pointer = bench.words(place, 1)[0];
        assert_eq!(touch(12), []);
        let finding = one(touch(13));
        assert_eq!(finding.rule, Rule::GlobalOutOfBoundsWrite);
        let near = intended(&finding);
        assert_eq!(near.relation, Relation::After(0));
        assert_eq!(
            near.allocation.extent,
            Extent {
                base: DeviceAddress(pointer),
                size: 13
            }
        );
        assert_eq!(line(&near.allocated_at), Some(bench.line_of("void take(")));
        // As a kernel's argument, too.
        let argument = |offset: u64| {
            let arguments = block(&[P::Long(pointer), P::Long(offset)]);
            bench.launch("touch_argument", 1, 1, &arguments)
        };
        assert_eq!(argument(12), []);
        let finding = one(argument(16));
        assert_eq!(intended(&finding).relation, Relation::After(3));
        assert_eq!(bench.launch("drop", 1, 1, &block(&[P::Long(place)])), []);
        let sum = bench.buffer(4);
        assert_eq!(bench.launch("objects", 1, 32, &block(&[P::Long(sum)])), []);
        assert_eq!(bench.words(sum, 1)[0] as u32, 45);
    });
}

#[test]
fn wrong_frees_and_uses_after_them() {
    with(|bench| {
        let place = bench.buffer(8);
        bench.launch("take", 1, 1, &block(&[P::Long(place), P::Long(100)]));
        let pointer = bench.words(place, 1)[0];
        let free = |pointer: u64, offset: u64| {
            let arguments = block(&[P::Long(pointer), P::Long(offset)]);
            bench.launch("drop_argument", 1, 1, &arguments)
        };
        // A pointer into the block; the block stays.
        let finding = one(free(pointer, 16));
        assert_eq!(finding.rule, Rule::InvalidFree);
        assert_eq!(intended(&finding).relation, Relation::Inside(16));
        assert!(!intended(&finding).freed);
        assert_eq!(bench.live(), [(pointer, 100)]);

        assert_eq!(bench.launch("drop", 1, 1, &block(&[P::Long(place)])), []);
        let finding = one(bench.launch("drop", 1, 1, &block(&[P::Long(place)])));
        assert_eq!(finding.rule, Rule::DoubleFree);
        let near = intended(&finding);
        assert!(near.freed);
        assert_eq!(line(&near.allocated_at), Some(bench.line_of("void take(")));
        assert_eq!(line(&near.freed_at), Some(bench.line_of("void drop(")));
        assert!(
            near.freed_at
                .iter()
                .any(|f| f.function.contains(" of drop"))
        );

        let arguments = block(&[P::Long(place), P::Long(3)]);
        let finding = one(bench.launch("touch", 1, 1, &arguments));
        assert_eq!(finding.rule, Rule::UseAfterFree);
        assert_eq!(intended(&finding).relation, Relation::Inside(3));
        assert_eq!(
            line(&intended(&finding).freed_at),
            Some(bench.line_of("void drop("))
        );

        assert_eq!(free(0, 0), [], "free of null is legal");
        assert_eq!(bench.live(), []);
    });
}

#[test]
fn a_free_of_what_is_no_block() {
    with(|bench| {
        let buffer = bench.buffer(64);
        let place = bench.buffer(8);
        Driver::write(&*bench.device, DeviceAddress(place), &buffer.to_le_bytes()).unwrap();
        // (`drop` is shared with other tests, whose findings of its site are
        // double frees.)
        let finding = one(bench.launch("drop", 1, 1, &block(&[P::Long(place)])));
        assert_eq!(finding.rule, Rule::InvalidFree);
        let near = finding.intended.expect("the buffer");
        assert_eq!(
            (near.allocation.kind, near.allocation.extent.base.0),
            (AllocationKind::Device, buffer)
        );
    });
}

#[test]
fn uses_after_a_free_in_the_same_kernel() {
    with(|bench| {
        let out = bench.buffer(128);
        for (kernel, threads, offset) in [("use_after", 1, 16), ("use_after_barrier", 32, 20)] {
            let run = |bad: u32| {
                let arguments = block(&[P::Long(out), P::Word(bad)]);
                bench.launch(kernel, 1, threads, &arguments)
            };
            assert_eq!(run(0), [], "{kernel}");
            let finding = one(run(1));
            assert_eq!(finding.rule, Rule::UseAfterFree, "{kernel}");
            assert_eq!(intended(&finding).relation, Relation::Inside(offset));
            assert!(intended(&finding).freed);
        }
        assert_eq!(bench.live(), []);
    });
}

#[test]
fn what_a_context_leaves_is_a_leak_and_gone_with_it() {
    with(|bench| {
        let place = bench.buffer(8);
        bench.launch("take", 1, 1, &block(&[P::Long(place), P::Long(24)]));
        bench.launch("take", 1, 1, &block(&[P::Long(place), P::Long(24)]));
        let before = bench.findings().len();
        let context = Driver::current_context(&*bench.device);
        bench.runtime.device_heap().context_ending(context);
        let finding = one(bench.findings().split_off(before));
        assert_eq!(finding.rule, Rule::MemoryLeak);
        let near = intended(&finding);
        assert_eq!(line(&near.allocated_at), Some(bench.line_of("void take(")));
        // The next kernel finds the heap empty.
        bench.launch("take", 1, 1, &block(&[P::Long(place), P::Long(8)]));
        assert_eq!(bench.live().len(), 1);
        assert_eq!(bench.launch("drop", 1, 1, &block(&[P::Long(place)])), []);
    });
}
