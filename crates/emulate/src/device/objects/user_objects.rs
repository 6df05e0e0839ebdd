//! User objects: destructors of the program with a count of references.

use rustc_hash::FxHashMap;

/// A destructor that waits for its last reference.
pub(crate) struct UserObject {
    pub count: u32,
    pub destroy: Box<dyn FnOnce() + Send>,
}

/// By handle.
pub(crate) type UserObjects = FxHashMap<u64, UserObject>;
