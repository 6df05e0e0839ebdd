//! Which objects the program has.

use crate::objects::ByHandle;
use crate::objects::buffer::Buffer;
use crate::objects::kernel::Kernel;
use crate::objects::maps::Maps;
use crate::sys::*;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The program's objects, by handle.
#[derive(Default)]
pub struct Objects {
    serials: AtomicU64,
    buffers: ByHandle<Arc<Buffer>>,
    /// Shared virtual memory, by address.
    svm: Mutex<BTreeMap<usize, Arc<Buffer>>>,
    kernels: ByHandle<Arc<Kernel>>,
    /// Programs that were built with an option of Ringfence.
    programs: ByHandle<()>,
    /// Maps that hold canaries.
    pub maps: Maps,
}

impl Objects {
    /// Number of the next memory object, from 1.
    pub fn next_serial(&self) -> u64 {
        self.serials.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// The memory object with this handle, if it is one.
    pub fn buffer(&self, handle: usize) -> Option<Arc<Buffer>> {
        self.buffers.lock().get(&handle).cloned()
    }

    /// All memory objects of a context.
    pub fn buffers_of(&self, context: usize) -> Vec<Arc<Buffer>> {
        let known = self.buffers.lock();
        let here = known.values().filter(|buffer| buffer.context == context);
        here.cloned().collect()
    }

    /// Adds a memory object. The handle may be that of a freed object, which it
    /// replaces.
    pub fn add(&self, buffer: Buffer) {
        let before = self.buffers.lock().insert(buffer.handle, Arc::new(buffer));
        // What it holds is released without the lock.
        drop(before);
    }

    /// Removes a memory object.
    pub fn take(&self, handle: usize) -> Option<Arc<Buffer>> {
        self.buffers.lock().remove(&handle)
    }

    /// The allocation of shared virtual memory that holds an address, or that
    /// ends there.
    pub fn svm_at(&self, address: usize) -> Option<Arc<Buffer>> {
        let known = self.svm.lock();
        let (start, buffer) = known.range(..=address).next_back()?;
        ((address - start) as u64 <= buffer.size).then(|| buffer.clone())
    }

    /// All allocations of shared virtual memory of a context.
    pub fn svm_of(&self, context: usize) -> Vec<Arc<Buffer>> {
        let known = self.svm.lock();
        let here = known.values().filter(|buffer| buffer.context == context);
        here.cloned().collect()
    }

    /// Adds an allocation of shared virtual memory, whose handle is its address.
    pub fn add_svm(&self, buffer: Arc<Buffer>) {
        self.svm.lock().insert(buffer.handle, buffer);
    }

    /// Removes the allocation of shared virtual memory that starts there.
    pub fn take_svm(&self, address: usize) -> Option<Arc<Buffer>> {
        self.svm.lock().remove(&address)
    }

    /// The kernel with this handle.
    pub fn kernel(&self, kernel: cl_kernel) -> Option<Arc<Kernel>> {
        self.kernels.lock().get(&(kernel as usize)).cloned()
    }

    /// Adds a kernel. The handle may be that of a released kernel, which it
    /// replaces.
    pub fn add_kernel(&self, kernel: Arc<Kernel>) {
        self.kernels.lock().insert(kernel.handle, kernel);
    }

    /// Sets whether a program was built with an option of Ringfence.
    pub fn set_altered(&self, program: cl_program, altered: bool) {
        let mut programs = self.programs.lock();
        if altered {
            programs.insert(program as usize, ());
        } else {
            programs.remove(&(program as usize));
        }
    }

    /// Whether a program was built with an option of Ringfence.
    pub fn is_altered(&self, program: cl_program) -> bool {
        self.programs.lock().contains_key(&(program as usize))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::objects::buffer::Place;
    use crate::objects::buffer::testing::made;

    fn buffer(handle: usize, size: u64, context: usize) -> Buffer {
        let mut made = made(handle, size, Place::Bare("a test"));
        made.context = context;
        Buffer::of(made)
    }

    #[test]
    fn an_address_belongs_to_the_allocation_that_holds_it() {
        let objects = Objects::default();
        objects.add_svm(Arc::new(buffer(0x1000, 0x100, 1)));
        objects.add_svm(Arc::new(buffer(0x2000, 0x100, 2)));
        let at = |address| objects.svm_at(address).map(|buffer| buffer.handle);
        assert_eq!(at(0xfff), None);
        assert_eq!(at(0x1000), Some(0x1000));
        assert_eq!(at(0x10ff), Some(0x1000));
        // A pointer past the end is one to the allocation.
        assert_eq!(at(0x1100), Some(0x1000));
        assert_eq!(at(0x1101), None);
        assert_eq!(at(0x2080), Some(0x2000));
        assert_eq!(objects.svm_of(1).len(), 1);
        // Only its start frees it.
        assert!(objects.take_svm(0x1001).is_none());
        assert!(objects.take_svm(0x1000).is_some());
        assert_eq!(at(0x1000), None);
    }

    #[test]
    fn a_handle_is_that_of_the_latest_object() {
        let objects = Objects::default();
        objects.add(buffer(7, 10, 1));
        objects.add(buffer(7, 20, 2));
        assert_eq!(objects.buffer(7).map(|buffer| buffer.size), Some(20));
        assert_eq!(objects.buffers_of(1).len(), 0);
        assert_eq!(objects.buffers_of(2).len(), 1);
        assert!(objects.take(7).is_some());
        assert!(objects.buffer(7).is_none());
        assert_eq!((objects.next_serial(), objects.next_serial()), (1, 2));
    }

    #[test]
    fn a_program_is_altered_until_it_is_built_without_the_option() {
        let objects = Objects::default();
        let program = 5 as cl_program;
        assert!(!objects.is_altered(program));
        objects.set_altered(program, true);
        assert!(objects.is_altered(program));
        objects.set_altered(program, false);
        assert!(!objects.is_altered(program));
    }
}
