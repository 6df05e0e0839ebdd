//! Linkers: texts that are to be linked.

use rustc_hash::FxHashMap;

/// The texts that each linker has, by handle.
pub(crate) type Linkers = FxHashMap<u64, Vec<String>>;
