//! The CPU device of the process.

use super::Lent;
use emulate::device::Device;
use std::ops::Deref;
use std::sync::Arc;

/// The CPU device, and the memory that its C functions lend to the program.
pub struct Cpu {
    device: Arc<Device>,
    lent: Lent,
}

impl Cpu {
    /// A device that has lent nothing yet.
    pub fn new(device: Device) -> Cpu {
        Cpu {
            device: Arc::new(device),
            lent: Lent::default(),
        }
    }

    /// The device, to share.
    pub fn device(&self) -> Arc<Device> {
        Arc::clone(&self.device)
    }

    /// What C functions hand out pointers to.
    pub fn lent(&self) -> &Lent {
        &self.lent
    }
}

impl Deref for Cpu {
    type Target = Device;

    fn deref(&self) -> &Device {
        &self.device
    }
}
