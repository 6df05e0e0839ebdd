//! What the tests that run kernels on the CPU device share: the device, a
//! launch as the shim makes it, and what was found.

// Each test uses its own part of it.
#![allow(dead_code)]

pub mod guarded;
pub mod shadowed;

use emulate::Device;
use emulate::device::{Host, Launch, Options};
use model::Finding;
use model::layout::{CHECKED_PREFIX, RESIDUAL_PREFIX};
use report::session::read_processes;
use runtime::{
    EntryPlan, KernelCopies, LaunchDecision, LaunchRequest, LaunchShape, Resolved, Runtime, Where,
};
use std::path::Path;
use std::sync::Arc;

/// The test's own process: nothing of it is given to the device.
struct Quiet;

impl Host for Quiet {
    fn copy(&self, _: u64, _: u64, _: usize) {}
    fn read(&self, _: u64, bytes: &mut [u8]) {
        bytes.fill(0);
    }
    fn print(&self, _: &[u8]) {}
    fn print_error(&self, _: &[u8]) {}
    fn report(&self, message: &str) {
        eprintln!("{message}");
    }
}

/// The variable that sets the seed of a test.
pub const SEED: &str = "RINGFENCE_TEST_SEED";

/// The seed that was set, else the test's own.
pub fn seed(own: u64) -> u64 {
    let set = std::env::var(SEED).ok();
    set.and_then(|seed| seed.parse().ok()).unwrap_or(own)
}

/// A device whose primary context is current.
pub fn device(threads: u32, seed: u64) -> Arc<Device> {
    let options = Options {
        threads,
        seed,
        pageable: false,
    };
    let device = Arc::new(Device::new(options, Arc::new(Quiet)).unwrap());
    device.init();
    make_current(&device);
    device
}

/// A context is current to a thread.
pub fn make_current(device: &Device) {
    let context = device.primary_retain().unwrap();
    device.context_set(context).unwrap();
}

/// Launches a kernel, original or checked, with the program's own parameter
/// block, and waits.
pub fn launch(
    device: &Device,
    runtime: &Runtime,
    module: u64,
    kernel: &str,
    shape: Launch,
    parameters: &[u8],
) {
    let function = device.function(module, kernel).unwrap();
    let copy = |prefix: &str| device.function(module, &format!("{prefix}{kernel}")).ok();
    runtime.modules().resolved(Resolved {
        handle: function,
        in_library: false,
        module,
        name: kernel,
        copies: KernelCopies {
            checked: copy(CHECKED_PREFIX),
            residual: copy(RESIDUAL_PREFIX),
        },
    });
    let read = |_: &EntryPlan, offset: u32, size: u8| {
        let (at, size) = (offset as usize, usize::from(size));
        let mut bits = [0; 8];
        bits[..size].copy_from_slice(parameters.get(at..at + size)?);
        Some(u64::from_le_bytes(bits))
    };
    let shown = LaunchShape {
        grid: shape.grid,
        block: shape.block,
        shared: shape.dynamic_shared,
    };
    let mut bytes = parameters.to_vec();
    let ticket = runtime.begin_launch(LaunchRequest {
        function,
        kernel: runtime.modules().kernel(function),
        shape: &shown,
        stream: None,
        read: &read,
    });
    let function = match ticket.decision().clone() {
        LaunchDecision::Original | LaunchDecision::Proved | LaunchDecision::InPlace => function,
        LaunchDecision::Checked {
            function,
            launch_parameter,
            plan,
            ..
        } => {
            if let Some(slot) = plan.launch_parameter {
                assert_eq!(launch_parameter.len(), slot.size as usize);
                bytes.resize(slot.offset as usize, 0);
                bytes.extend_from_slice(&launch_parameter);
            }
            function
        }
    };
    let launch = Launch {
        function,
        parameters: bytes,
        ..shape
    };
    device.launch(launch, 0).unwrap();
    ticket.submitted(Where::Unknown);
    device.synchronize().unwrap();
    runtime.synchronized();
}

/// What this process reported so far, by the session that it writes. It has said nothing
/// else.
pub fn findings(session: &Path) -> Vec<Finding> {
    let (findings, said) = reported(session);
    assert!(said.is_empty(), "{said:?}");
    findings
}

/// What this process reported so far, by the session that it writes, and what else it has
/// said.
pub fn reported(session: &Path) -> (Vec<Finding>, Vec<String>) {
    let file = session.join(format!("{}.jsonl", std::process::id()));
    let mut processes = read_processes(&std::fs::read_to_string(file).unwrap());
    let process = processes.remove(0);
    (process.findings, process.errors)
}
