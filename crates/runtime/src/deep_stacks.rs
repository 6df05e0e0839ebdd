//! Room for the stacks of recursive kernels.
//!
//! Where functions call themselves, or through pointers, a thread has as much
//! stack as the context's limit says (`CU_LIMIT_STACK_SIZE`, 1 KiB by default),
//! which the program chose for its own frames. Those of checked functions also
//! hold bounds. The limit is raised before the first checked launch of such a
//! module in a context; the program goes on seeing its own.

use crate::Runtime;
use driver::{Driver, DriverError};
use parking_lot::Mutex;
use rustc_hash::FxHashMap;

/// The limit becomes so many times as large. Only the driver's compiler knows
/// how large checked frames are. On an H200, the checked copies of the suite's
/// mutually recursive kernels fail with the default limit and run with this one.
const LARGER: u64 = 4;

/// The limits that programs chose, by context.
#[derive(Debug, Default)]
pub(crate) struct DeepStacks {
    /// Of contexts that were asked for more; none where the device refused.
    chosen: Mutex<FxHashMap<u64, Option<u64>>>,
}

impl DeepStacks {
    /// Raises the limit of the current context, once.
    ///
    /// # Errors
    ///
    /// The device has no room for such stacks. It is not asked again.
    pub fn make_room(&self, driver: &dyn Driver) -> Result<(), DriverError> {
        let context = driver.current_context();
        if self.chosen.lock().contains_key(&context) {
            return Ok(());
        }
        let Some(limit) = driver.stack_limit() else {
            return Ok(());
        };
        let raised = driver.set_stack_limit(limit.saturating_mul(LARGER));
        let chosen = raised.is_ok().then_some(limit);
        self.chosen.lock().insert(context, chosen);
        raised
    }

    /// The limit that the program chose in a context, if another one holds.
    pub fn chosen(&self, context: u64) -> Option<u64> {
        self.chosen.lock().get(&context).copied().flatten()
    }

    /// What to set where the program chooses a limit in a context.
    pub fn raised(&self, context: u64, limit: u64) -> u64 {
        match self.chosen(context) {
            Some(_) => limit.saturating_mul(LARGER),
            None => limit,
        }
    }

    /// The program has chosen a limit, and what is to be set was.
    pub fn choose(&self, context: u64, limit: u64) {
        if let Some(Some(chosen)) = self.chosen.lock().get_mut(&context) {
            *chosen = limit;
        }
    }

    /// The context is gone.
    pub fn context_gone(&self, context: u64) {
        self.chosen.lock().remove(&context);
    }
}

impl Runtime {
    /// What to set where the program chooses the bytes of stack of a thread
    /// (`cudaLimitStackSize`) in the current context.
    pub fn stack_limit_to_set(&self, bytes: u64) -> u64 {
        let context = self.driver.current_context();
        self.deep_stacks.raised(context, bytes)
    }

    /// The program has chosen that limit.
    pub fn stack_limit_chosen(&self, bytes: u64) {
        let context = self.driver.current_context();
        self.deep_stacks.choose(context, bytes);
    }

    /// The limit that the program chose, if another one holds.
    pub fn chosen_stack_limit(&self) -> Option<u64> {
        self.deep_stacks.chosen(self.driver.current_context())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_sees_the_limit_that_it_chose() {
        let stacks = DeepStacks::default();
        assert_eq!(stacks.raised(1, 1024), 1024, "nothing was raised there");
        stacks.chosen.lock().insert(1, Some(1024));
        stacks.chosen.lock().insert(2, None);
        assert_eq!(stacks.chosen(1), Some(1024));
        assert_eq!(stacks.raised(1, 2048), 8192);
        stacks.choose(1, 2048);
        assert_eq!(stacks.chosen(1), Some(2048));
        assert_eq!(stacks.raised(2, 2048), 2048, "the device refused there");
        stacks.context_gone(1);
        assert_eq!(stacks.chosen(1), None);
    }
}
