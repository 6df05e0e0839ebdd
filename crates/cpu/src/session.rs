//! The CPU device of this process. C functions have no argument for it, so it
//! is a static.

use crate::host::{Output, Process};
use crate::lent::Lent;
use emulate::device::{Device, Options};
use std::ops::Deref;
use std::sync::{Arc, OnceLock};

/// The CPU device, and the memory that its C functions lend to the program.
pub struct Cpu {
    device: Arc<Device>,
    lent: Lent,
    output: Output,
}

static DEVICE: OnceLock<Cpu> = OnceLock::new();

/// Makes the CPU device of the process, or gives the one that was made.
///
/// # Errors
///
/// A sentence that says what to do.
pub fn open(options: Options, output: Output) -> Result<&'static Cpu, String> {
    if let Some(made) = DEVICE.get() {
        return Ok(made);
    }
    let device = Device::new(options, Arc::new(Process(output)))
        .map_err(|error| format!("the CPU device could not start: {error}"))?;
    Ok(DEVICE.get_or_init(|| Cpu {
        device: Arc::new(device),
        lent: Lent::default(),
        output,
    }))
}

/// The device, once it was opened.
pub(crate) fn get() -> Option<&'static Cpu> {
    DEVICE.get()
}

/// One line for people.
pub(crate) fn say(message: &str) {
    if let Some(cpu) = get() {
        (cpu.output.say)(message);
    }
}

impl Cpu {
    /// The device, to share.
    pub fn device(&self) -> Arc<Device> {
        Arc::clone(&self.device)
    }

    /// What C functions hand out pointers to.
    pub(crate) fn lent(&self) -> &Lent {
        &self.lent
    }
}

impl Deref for Cpu {
    type Target = Device;

    fn deref(&self) -> &Device {
        &self.device
    }
}
