//! A thread that drains the ring while kernels run, so that a kernel which
//! never ends still reports. It holds no strong reference and is never
//! joined: it cannot keep a process from exiting.

use super::Records;
use super::drain::Mode;
use std::sync::Weak;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// While launches are outstanding.
const BUSY: Duration = Duration::from_millis(20);
/// After a synchronization without launches since.
const IDLE: Duration = Duration::from_millis(200);

/// Whether the thread runs and whether there is something to watch.
#[derive(Debug, Default)]
pub(super) struct DrainThread {
    started: AtomicBool,
    outstanding: AtomicBool,
}

impl DrainThread {
    /// A launch was made. Starts the thread at the first one.
    #[inline]
    pub fn launched(&self, records: &Weak<Records>) {
        self.outstanding.store(true, Ordering::Relaxed);
        if !self.started.load(Ordering::Relaxed) && !self.started.swap(true, Ordering::Relaxed) {
            let records = records.clone();
            let name = "ringfence".to_string();
            let spawned = std::thread::Builder::new()
                .name(name)
                .stack_size(1 << 20)
                .spawn(move || watch(&records));
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

fn watch(records: &Weak<Records>) {
    let mut pause = BUSY;
    loop {
        std::thread::sleep(pause);
        let Some(records) = records.upgrade() else {
            return;
        };
        if records.is_finished() {
            return;
        }
        records.run(Mode::Glance);
        pause = if records.drain_thread.outstanding.load(Ordering::Relaxed) {
            BUSY
        } else {
            IDLE
        };
    }
}
