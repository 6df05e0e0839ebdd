//! Modules, and the functions and variables in them.

use crate::device::properties;
use crate::engine::{Entry, Program};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, AtomicU32, Ordering};

/// A loaded module.
pub(crate) struct Module {
    pub context: u64,
    pub program: Arc<Program>,
    /// Handles of functions that were asked for, by name.
    pub functions: Mutex<BTreeMap<String, u64>>,
    /// Its variables, as they are in the table of allocations.
    pub variables: Vec<Initial>,
}

/// A variable and what it holds to begin with.
pub(crate) struct Initial {
    pub base: u64,
    pub size: u64,
    /// `None`: zeros, which need no copy.
    pub bytes: Option<Vec<u8>>,
}

/// An entry of a module.
pub(crate) struct Function {
    pub module: u64,
    pub program: Arc<Program>,
    pub entry: Entry,
    /// `CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES`
    pub max_dynamic_shared: AtomicU32,
    pub carveout: AtomicI32,
    pub non_portable_cluster: AtomicI32,
}

impl Function {
    /// Most threads of a block.
    pub fn max_threads(&self) -> u32 {
        self.entry
            .max_threads
            .unwrap_or(properties::MAX_THREADS)
            .min(properties::MAX_THREADS)
    }

    /// Dynamic shared memory that a launch may ask for.
    pub fn dynamic_shared_limit(&self) -> u32 {
        let default = properties::SHARED_DEFAULT.saturating_sub(self.entry.static_shared);
        default.max(self.max_dynamic_shared.load(Ordering::Relaxed))
    }
}

/// What is known about an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FunctionInfo {
    /// Name.
    pub name: String,
    /// Handle of its module.
    pub module: u64,
    /// Byte offset and size of each parameter, in order.
    pub parameters: Vec<(u32, u32)>,
    /// Bytes of all parameters.
    pub parameter_bytes: u32,
}
