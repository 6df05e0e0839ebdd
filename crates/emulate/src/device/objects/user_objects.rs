//! User objects: destructors of the program with a count of references.

use crate::device::basics::Result;
use rustc_hash::FxHashMap;
use std::sync::Weak;

/// A destructor that waits for its last reference.
pub(crate) struct UserObject {
    pub count: u32,
    pub destroy: Box<dyn FnOnce() + Send>,
}

/// By handle.
pub(crate) type UserObjects = FxHashMap<u64, UserObject>;

/// Has the user objects.
pub(crate) trait Release: Send + Sync {
    /// Takes references back; without any the object is destroyed.
    fn release_object(&self, object: u64, count: u32) -> Result<()>;
}

/// A reference to each of some objects, which ends with it.
pub(crate) struct Held {
    objects: Vec<u64>,
    owner: Weak<dyn Release>,
}

impl Held {
    /// References that were taken.
    pub fn new(objects: Vec<u64>, owner: Weak<dyn Release>) -> Held {
        Held { objects, owner }
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.objects.is_empty()
    }

    /// Nothing: whoever can call this keeps the references.
    pub fn stays(&self) {}
}

impl Drop for Held {
    fn drop(&mut self) {
        let Some(owner) = self.owner.upgrade() else {
            return;
        };
        for object in self.objects.drain(..) {
            // (Gone already, if the program has released too many.)
            let _ = owner.release_object(object, 1);
        }
    }
}
