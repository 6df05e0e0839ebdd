//! Large copies: through memory that the tenant writes and reads, and that the
//! device copies from and to by itself where the driver allows it.

use crate::device::Device;
use crate::log;
use driver::calls::HostMemory;
use protocol::{Chunk, Staging};

/// The staging area of a tenant.
pub(crate) struct Staged(HostMemory<Staging>);

impl Staged {
    /// Of a connection.
    pub(crate) fn new(device: &Device, staging: Staging) -> Staged {
        let mut memory = HostMemory::unregistered(&device.context, staging);
        // The CPU device copies from any memory.
        if !device.is_cpu()
            && let Err(error) = memory.register()
        {
            log::line(&format!(
                "warning: large copies of a tenant are slower, because its memory for them could not be registered: {error}"
            ));
        }
        Staged(memory)
    }

    /// Part of it; why there is none.
    pub(crate) fn chunk(&self, offset: u64, length: u64) -> Result<Chunk<'_>, String> {
        let staging = self.0.owner();
        staging
            .chunk(offset, length)
            .map_err(|error| error.to_string())
    }
}
