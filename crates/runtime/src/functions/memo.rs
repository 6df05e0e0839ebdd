//! A cache, for each thread, of the kernels that it has launched lately: programs
//! launch few kernels again and again.
//!
//! All threads share the table of kernels ([`Functions`](super::Functions)). A
//! lookup there takes a lock and a reference count: four atomic operations, each
//! as long as ten others. A launch takes the kernel out of its thread's cache
//! instead, and puts it back when the driver has taken the launch. An entry is
//! valid for one version of the table, which changes whenever a handle is added
//! or removed.

use super::Function;
use crate::spread;
use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Kernels that a thread remembers. Two that share a place displace each other. (A
/// step of training in PyTorch launches about thirty.)
const PLACES: usize = 64;

/// A version of a table of kernels: no other table of the process has it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Version(u64);

/// A kernel, and of which version of the table it is.
struct Known {
    version: Version,
    handle: u64,
    /// `None` while a launch has it.
    function: Option<Arc<Function>>,
}

thread_local! {
    static KNOWN: RefCell<[Option<Known>; PLACES]> = const { RefCell::new([const { None }; PLACES]) };
}

/// Where a thread remembers a kernel.
fn place(handle: u64) -> usize {
    spread::place(handle, PLACES)
}

/// The version of a table of kernels.
pub(crate) struct Versions(AtomicU64);

/// The version that the next change of any table makes.
static NEXT: AtomicU64 = AtomicU64::new(1);

impl Default for Versions {
    fn default() -> Versions {
        Versions(AtomicU64::new(NEXT.fetch_add(1, Ordering::Relaxed)))
    }
}

impl Versions {
    /// The table changes. The caller holds its lock for writing.
    pub fn changed(&self) {
        self.0
            .store(NEXT.fetch_add(1, Ordering::Relaxed), Ordering::Release);
    }

    /// Takes a kernel out of the thread's memo, or from the table by `find`.
    #[inline]
    pub fn take(
        &self,
        handle: u64,
        find: impl FnOnce() -> Option<Arc<Function>>,
    ) -> Option<Arc<Function>> {
        // Read before the table is: what changes meanwhile makes it differ.
        let version = Version(self.0.load(Ordering::Acquire));
        let remembered = KNOWN.try_with(|known| {
            let mut known = known.try_borrow_mut().ok()?;
            let known = known[place(handle)].as_mut()?;
            match known.handle == handle && known.version == version {
                true => known.function.take(),
                false => None,
            }
        });
        if let Ok(Some(function)) = remembered {
            return Some(function);
        }
        let function = find()?;
        // (Not in a thread that ends.)
        let old = KNOWN.try_with(|known| {
            known.try_borrow_mut().ok()?[place(handle)].replace(Known {
                version,
                handle,
                function: None,
            })
        });
        drop(old);
        Some(function)
    }
}

/// Puts a kernel back that [`Versions::take`] returned.
#[inline]
pub(crate) fn put_back(function: Arc<Function>) {
    let handle = function.handle;
    // What it displaces, and itself where it has no place any more, is dropped
    // when the memo can be used again.
    let _old = KNOWN.try_with(|known| {
        let Ok(mut known) = known.try_borrow_mut() else {
            return Some(function);
        };
        match known[place(handle)].as_mut() {
            Some(known) if known.handle == handle => known.function.replace(function),
            _ => Some(function),
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::functions::{Functions, tests};

    fn function(handle: u64, module: u64, name: &str) -> Function {
        tests::function(handle, name, module)
    }

    fn name(functions: &Functions, handle: u64) -> Option<String> {
        let function = functions.take(handle)?;
        let name = function.name.clone();
        put_back(function);
        Some(name)
    }

    #[test]
    fn kernels_are_remembered_until_a_handle_comes_or_goes() {
        let functions = Functions::default();
        functions.insert(function(7, 1, "first"));
        for _ in 0..3 {
            assert_eq!(name(&functions, 7).as_deref(), Some("first"));
        }
        // The memo and the table have it, nobody else.
        let taken = functions.take(7).expect("known");
        assert_eq!(Arc::strong_count(&taken), 2);
        put_back(taken);
        functions.insert(function(7, 2, "second"));
        assert_eq!(name(&functions, 7).as_deref(), Some("second"));
        functions.unload(2);
        assert_eq!(name(&functions, 7), None);
        functions.insert(function(7, 3, "third"));
        assert_eq!(name(&functions, 7).as_deref(), Some("third"));
    }

    #[test]
    fn a_launch_within_a_launch_has_the_same_kernel() {
        let functions = Functions::default();
        functions.insert(function(7, 1, "first"));
        let outer = functions.take(7).expect("known");
        let inner = functions.take(7).expect("known");
        assert!(Arc::ptr_eq(&outer, &inner));
        put_back(inner);
        put_back(outer);
        assert_eq!(name(&functions, 7).as_deref(), Some("first"));
    }

    #[test]
    fn handles_that_share_a_place_and_tables_that_share_a_thread_are_kept_apart() {
        let (one, other) = (Functions::default(), Functions::default());
        for handle in 0..100 {
            one.insert(function(handle, 1, &format!("one {handle}")));
            other.insert(function(handle, 1, &format!("other {handle}")));
        }
        for handle in (0..100).chain((0..100).rev()) {
            assert_eq!(name(&one, handle), Some(format!("one {handle}")));
            assert_eq!(name(&other, handle), Some(format!("other {handle}")));
        }
    }

    /// The kernel was unloaded while its launch was under way.
    #[test]
    fn what_is_put_back_late_is_not_found_again() {
        let functions = Functions::default();
        functions.insert(function(7, 1, "first"));
        let taken = functions.take(7).expect("known");
        functions.unload(1);
        functions.insert(function(7, 2, "second"));
        put_back(taken);
        assert_eq!(name(&functions, 7).as_deref(), Some("second"));
    }
}
