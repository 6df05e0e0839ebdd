//! What the layers below report (findings, counts and errors), and the trait
//! that receives it. [`crate::output`] writes them; tests keep them.

#[cfg(test)]
pub mod testing;

use crate::objects::access::Access;
use crate::objects::buffer::Buffer;
use crate::objects::kernel::Kernel;
use heap::canary::Damage;
use heap::image_canary::PixelDamage;
use host::Stack;
use model::{Note, UncheckedReason};
use std::sync::Arc;

/// Receives what was found and what was checked.
pub trait Report: Send + Sync {
    /// Counts a launch of a kernel whose canaries were scanned.
    fn checked(&self, kernel: &str);

    /// Counts a launch of a kernel that was not checked.
    fn unchecked(&self, kernel: &str, reason: UncheckedReason);

    /// Names arguments of a kernel whose memory has no canaries.
    fn bare(&self, kernel: &str, arguments: &[String]);

    /// Counts something that the summary says.
    fn note(&self, note: Note);

    /// Reports a failure of Ringfence.
    fn error(&self, message: &str);

    /// A canary that was found overwritten.
    fn overwritten(&self, found: &Overwritten<'_>);

    /// A host call that accesses memory outside a memory object.
    fn call(&self, error: CallError);
}

/// A canary that was found overwritten.
pub struct Overwritten<'a> {
    pub culprit: &'a Culprit,
    pub buffer: &'a Buffer,
    /// The argument through which the kernel reaches it.
    pub argument: Option<u32>,
    pub damage: &'a Damaged,
}

/// What has overwritten the canaries that a scan finds overwritten.
pub enum Culprit {
    /// A kernel.
    Kernel(Launch),
    /// The host.
    Host { action: HostAction, stack: Stack },
}

/// A launch whose canaries are scanned.
pub struct Launch {
    pub kernel: Arc<Kernel>,
    /// From 1.
    pub number: u64,
    pub stack: Stack,
}

/// What the host did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostAction {
    /// The function of OpenCL.
    pub function: &'static str,
    /// What it was.
    pub what: &'static str,
}

impl Culprit {
    /// The kernel's name, if it is one.
    pub fn kernel(&self) -> Option<&str> {
        match self {
            Culprit::Kernel(launch) => Some(&launch.kernel.name),
            Culprit::Host { .. } => None,
        }
    }
}

/// What a scan shows.
#[derive(Debug)]
pub enum Damaged {
    /// Beside a buffer.
    Bytes(Damage),
    /// Past the edges of an image.
    Pixels(PixelDamage),
}

/// A host call that accesses memory outside a memory object.
pub struct CallError {
    pub function: &'static str,
    pub access: Access,
    /// The requested access, without the outcome.
    pub detail: String,
    /// Bytes that it was to touch.
    pub width: u64,
    /// Where in the object.
    pub offset: u64,
    pub buffer: Arc<Buffer>,
}
