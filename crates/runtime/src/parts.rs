//! Parts of allocations that the program declares itself (`ringfence.h`).

use crate::runtime::Runtime;
use heap::{Layer, PartError};
use host::stacks;
use model::{DeviceAddress, Extent};

impl Runtime {
    /// The program declares a part of an allocation.
    ///
    /// # Errors
    ///
    /// It does not lie where such a part can; nothing has changed.
    pub fn declare_part(
        &self,
        layer: Layer,
        extent: Extent,
        name: Option<String>,
    ) -> Result<(), PartError> {
        let stack = stacks::capture(self.settings.num_callers_host);
        self.memory.declare_part(layer, extent, name, stack)?;
        self.memory_changed();
        Ok(())
    }

    /// The end of the part of this kind that starts at `base`; of a pool's
    /// blocks, too. Returns whether there is one.
    pub fn release_part(&self, layer: Layer, base: DeviceAddress) -> bool {
        let stack = stacks::capture(self.settings.num_callers_host);
        self.memory.release_part(layer, base, stack)
    }

    /// The program names the part or allocation that starts here, if there is
    /// one: reports call it that.
    pub fn name_memory(&self, base: DeviceAddress, name: String) -> bool {
        self.memory.rename(base, name)
    }

    /// The pool that holds an address.
    pub fn pool_of(&self, address: DeviceAddress) -> Option<Extent> {
        self.memory.read(|registry| registry.pool_at(address))
    }
}
