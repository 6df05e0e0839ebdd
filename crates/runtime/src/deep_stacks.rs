//! Room for the stacks of recursive kernels.
//!
//! Where functions call themselves, or through pointers, a thread has as much
//! stack as the context's limit says (`CU_LIMIT_STACK_SIZE`, 1 KiB by default),
//! which the program chose for its own frames. Those of checked functions also
//! hold bounds. The limit is raised before the first checked launch of such a
//! module in a context; the program goes on seeing its own.

use crate::env::Env;
use driver::DriverError;
use parking_lot::Mutex;
use rustc_hash::FxHashMap;
use std::sync::Arc;

/// The limit becomes so many times as large. Only the driver's compiler knows
/// how large checked frames are. On an H200, the checked copies of the suite's
/// mutually recursive kernels fail with the default limit and run with this one.
const LARGER: u64 = 4;

/// The limits that programs chose, by context.
#[derive(Debug, Default)]
struct Limits {
    /// Of contexts that were asked for more; none where the device refused.
    chosen: Mutex<FxHashMap<u64, Option<u64>>>,
}

impl Limits {
    fn is_asked(&self, context: u64) -> bool {
        self.chosen.lock().contains_key(&context)
    }

    /// The limit that the program chose in a context, if another one holds.
    fn chosen(&self, context: u64) -> Option<u64> {
        self.chosen.lock().get(&context).copied().flatten()
    }

    /// What to set where the program chooses a limit in a context.
    fn raised(&self, context: u64, limit: u64) -> u64 {
        match self.chosen(context) {
            Some(_) => limit.saturating_mul(LARGER),
            None => limit,
        }
    }

    /// The program has chosen a limit, and what is to be set was.
    fn choose(&self, context: u64, limit: u64) {
        if let Some(Some(chosen)) = self.chosen.lock().get_mut(&context) {
            *chosen = limit;
        }
    }

    /// The context is gone.
    fn forget(&self, context: u64) {
        self.chosen.lock().remove(&context);
    }
}

/// The stacks of threads; see the module's header.
pub struct DeepStacks {
    env: Arc<Env>,
    limits: Limits,
}

impl DeepStacks {
    pub(crate) fn new(env: Arc<Env>) -> DeepStacks {
        DeepStacks {
            env,
            limits: Limits::default(),
        }
    }

    /// Raises the limit of the current context, once.
    ///
    /// # Errors
    ///
    /// The device has no room for such stacks. It is not asked again.
    pub(crate) fn make_room(&self) -> Result<(), DriverError> {
        let driver = self.env.driver();
        let context = driver.current_context();
        if self.limits.is_asked(context) {
            return Ok(());
        }
        let Some(limit) = driver.stack_limit() else {
            return Ok(());
        };
        let raised = driver.set_stack_limit(limit.saturating_mul(LARGER));
        let chosen = raised.is_ok().then_some(limit);
        self.limits.chosen.lock().insert(context, chosen);
        raised
    }

    /// What to set where the program chooses the bytes of stack of a thread
    /// (`cudaLimitStackSize`) in the current context.
    pub fn limit_to_set(&self, bytes: u64) -> u64 {
        self.limits
            .raised(self.env.driver().current_context(), bytes)
    }

    /// The program has chosen that limit.
    pub fn limit_chosen(&self, bytes: u64) {
        self.limits
            .choose(self.env.driver().current_context(), bytes);
    }

    /// The limit that the program chose, if another one holds.
    pub fn chosen_limit(&self) -> Option<u64> {
        self.limits.chosen(self.env.driver().current_context())
    }

    /// The context is gone.
    pub(crate) fn context_gone(&self, context: u64) {
        self.limits.forget(context);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_sees_the_limit_that_it_chose() {
        let limits = Limits::default();
        assert_eq!(limits.raised(1, 1024), 1024, "nothing was raised there");
        limits.chosen.lock().insert(1, Some(1024));
        limits.chosen.lock().insert(2, None);
        assert_eq!(limits.chosen(1), Some(1024));
        assert_eq!(limits.raised(1, 2048), 8192);
        limits.choose(1, 2048);
        assert_eq!(limits.chosen(1), Some(2048));
        assert_eq!(limits.raised(2, 2048), 2048, "the device refused there");
        limits.forget(1);
        assert_eq!(limits.chosen(1), None);
    }
}
