//! A thread that drains the ring while kernels run, so that a kernel which
//! never ends still reports. It holds no strong reference and is never
//! joined: it cannot keep a process from exiting.

use crate::runtime::Runtime;
use std::sync::Weak;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// While launches are outstanding.
const BUSY: Duration = Duration::from_millis(20);
/// After a synchronization without launches since.
const IDLE: Duration = Duration::from_millis(200);

/// Whether the thread runs and whether there is something to watch.
#[derive(Debug, Default)]
pub(crate) struct Watcher {
    started: AtomicBool,
    outstanding: AtomicBool,
}

impl Watcher {
    /// A launch was made. Starts the thread at the first one.
    #[inline]
    pub fn launched(&self, runtime: &Weak<Runtime>) {
        self.outstanding.store(true, Ordering::Relaxed);
        if !self.started.load(Ordering::Relaxed) && !self.started.swap(true, Ordering::Relaxed) {
            let runtime = runtime.clone();
            let name = "ringfence".to_string();
            let spawned = std::thread::Builder::new()
                .name(name)
                .stack_size(1 << 20)
                .spawn(move || watch(&runtime));
            if spawned.is_err() {
                // Synchronizations still drain; try again at the next launch.
                self.started.store(false, Ordering::Relaxed);
            }
        }
    }

    /// The program waited for the device.
    pub fn synchronized(&self) {
        self.outstanding.store(false, Ordering::Relaxed);
    }
}

fn watch(runtime: &Weak<Runtime>) {
    let mut pause = BUSY;
    loop {
        std::thread::sleep(pause);
        let Some(runtime) = runtime.upgrade() else {
            return;
        };
        if runtime.is_finished() {
            return;
        }
        runtime.glance();
        pause = if runtime.watcher().outstanding.load(Ordering::Relaxed) {
            BUSY
        } else {
            IDLE
        };
    }
}
