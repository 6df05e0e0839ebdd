//! What work needs to be executed: memory, the machine, the process, and the
//! error of the current context.

use super::basics::{Host, Result};
use crate::engine::{Machine, Processors};
use crate::mapping::Memory;
use driver::DeviceFailure;
use driver::sys::CUresult;
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

/// What the device's threads share.
pub(crate) struct Core {
    pub memory: Arc<Memory>,
    pub machine: Machine,
    pub host: Arc<dyn Host>,
    pub threads: u32,
    /// As many, for programs that share them.
    pub processors: Arc<Processors>,
    pub seed: u64,
    /// The first error of a kernel in the current context; 0 is none.
    fault: AtomicU32,
    /// What that error was.
    failure: Mutex<Option<DeviceFailure>>,
    /// Kernels that were launched and have not run to their end.
    not_run: Mutex<Vec<u64>>,
    /// Set for running kernels when their context dies; replaced with it.
    cancel: Mutex<Arc<AtomicBool>>,
    /// Device-side `printf` output not yet shown.
    printed: Arc<Mutex<Vec<u8>>>,
}

impl Core {
    /// Without an error. `printed` is where the machine puts what kernels print.
    pub fn new(
        (memory, machine): (Arc<Memory>, Machine),
        host: Arc<dyn Host>,
        printed: Arc<Mutex<Vec<u8>>>,
        threads: u32,
        seed: u64,
    ) -> Core {
        Core {
            memory,
            machine,
            host,
            threads,
            processors: Processors::new(threads as usize),
            seed,
            fault: AtomicU32::new(0),
            failure: Mutex::new(None),
            not_run: Mutex::default(),
            cancel: Mutex::new(Arc::new(AtomicBool::new(false))),
            printed,
        }
    }

    /// The sticky error, if there is one.
    pub fn check(&self) -> Result<()> {
        match self.fault.load(Ordering::Acquire) {
            0 => Ok(()),
            code => Err(CUresult(code)),
        }
    }

    /// Makes the error of something other than a kernel sticky, says so, and
    /// stops what runs. The first one stays.
    pub fn fail(&self, code: CUresult, message: &str) {
        let failure = DeviceFailure {
            code,
            kernel: None,
            detail: message.to_owned(),
            device_lacks: false,
        };
        if self.fail_silently(failure) {
            self.host.report(message);
        }
    }

    /// As [`Core::fail`], for every error, and without a word. Whether it was
    /// the first.
    pub fn fail_silently(&self, failure: DeviceFailure) -> bool {
        let order = (Ordering::AcqRel, Ordering::Acquire);
        if self
            .fault
            .compare_exchange(0, failure.code.0, order.0, order.1)
            .is_err()
        {
            return false;
        }
        *self.failure.lock() = Some(failure);
        self.cancel.lock().store(true, Ordering::Release);
        true
    }

    /// The context is gone: its error goes with it.
    pub fn recover(&self) {
        *self.cancel.lock() = Arc::new(AtomicBool::new(false));
        *self.failure.lock() = None;
        self.fault.store(0, Ordering::Release);
    }

    /// The flag that stops kernels of the current context.
    pub fn cancel(&self) -> Arc<AtomicBool> {
        self.cancel.lock().clone()
    }

    /// Shows what kernels printed.
    pub fn flush(&self) {
        let bytes = std::mem::take(&mut *self.printed.lock());
        if !bytes.is_empty() {
            self.host.print(&bytes);
        }
    }

    /// What the sticky error was.
    pub fn failure(&self) -> Option<DeviceFailure> {
        self.failure.lock().clone()
    }

    /// A kernel was put into a stream, and has not run to its end.
    pub fn add_not_run(&self, function: u64) {
        self.not_run.lock().push(function);
    }

    /// Takes the kernels that have not run to their end.
    pub fn take_not_run(&self) -> Vec<u64> {
        std::mem::take(&mut *self.not_run.lock())
    }
}
