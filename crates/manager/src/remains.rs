//! What is left of tenants that are gone while their kernels run: nobody else
//! gets their addresses and memory before the last kernel is over. Kernels that
//! run are ended: nobody waits for their results.

use crate::device::Device;
use crate::lanes::Lanes;
use crate::log;
use crate::modules::Loaded;
use crate::partition::{Partition, Why};
use crate::quiet::Waiter;
use crate::staged::Staged;
use parking_lot::Mutex;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long kernels of a tenant that is gone may run before the administrator is
/// told.
const LONG: Duration = Duration::from_secs(10);
/// How often they are looked at.
const PAUSE: Duration = Duration::from_millis(5);

/// What is left of one tenant.
pub(crate) struct Remains {
    lanes: Lanes,
    modules: Vec<Loaded>,
    partition: Partition,
    /// Streams may still copy from and to it.
    staged: Option<Staged>,
    since: Instant,
    is_reported: bool,
}

impl Remains {
    /// Of a tenant that is gone now.
    pub(crate) fn new(
        lanes: Lanes,
        (partition, staged): (Partition, Option<Staged>),
        modules: Vec<Loaded>,
    ) -> Remains {
        Remains {
            lanes,
            modules,
            partition,
            staged,
            since: Instant::now(),
            is_reported: false,
        }
    }

    /// Whether its kernels are over. What cannot be told is not over.
    fn is_over(&mut self) -> bool {
        self.lanes.all_idle().unwrap_or(false)
    }

    /// Clears all of it away. Kernels of others may run: modules go later, and
    /// what their tables lead to is not reached any more.
    fn clear(self, device: &Device) {
        // What they have launched keeps the modules loaded.
        drop(self.lanes);
        if let Some(staged) = self.staged {
            device.quiet.discard(Box::new(staged));
        }
        if !self.modules.is_empty() {
            device.quiet.discard(Box::new(self.modules));
        }
    }
}

/// The remains of all tenants that are gone.
#[derive(Default)]
pub(crate) struct Graveyard {
    remains: Mutex<Vec<Remains>>,
}

impl Graveyard {
    /// Clears the remains away, now if their kernels are over.
    pub(crate) fn add(&self, device: &Device, mut remains: Remains) {
        if remains.is_over() {
            return remains.clear(device);
        }
        let stop = remains.partition.stopper().stop(&device.context, Why::Gone);
        if let Err(error) = stop {
            log::line(&format!(
                "error: kernels of a tenant that is gone cannot be ended: {error}"
            ));
        }
        self.remains.lock().push(remains);
    }

    /// Clears away what it can, for ever.
    pub(crate) fn keep(&self, device: &Arc<Device>) {
        if let Err(error) = device.context.make_current() {
            log::line(&format!(
                "error: memory of tenants cannot be freed: {error}"
            ));
            return;
        }
        let mut waiter = None;
        loop {
            std::thread::sleep(PAUSE);
            if device.quiet.has_discarded() {
                let waiter = waiter.get_or_insert_with(|| Waiter::patient(&device.quiet));
                // The device's failure is noticed by who asks for something.
                let _ = waiter.try_enter(&device.quiet, &device.context);
            } else {
                waiter = None;
            }
            let all = std::mem::take(&mut *self.remains.lock());
            for mut remains in all {
                if remains.is_over() {
                    remains.clear(device);
                    continue;
                }
                if !remains.is_reported && remains.since.elapsed() > LONG {
                    remains.is_reported = true;
                    log::line(
                        "warning: a kernel of a tenant that is gone does not end; its memory stays taken",
                    );
                }
                self.remains.lock().push(remains);
            }
        }
    }
}
