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

/// See the module's header.
#[derive(Default)]
pub struct Objects {
    serials: AtomicU64,
    buffers: ByHandle<Arc<Buffer>>,
    /// Shared virtual memory, by address.
    svm: Mutex<BTreeMap<usize, Arc<Buffer>>>,
    kernels: ByHandle<Arc<Kernel>>,
    /// Programs that were built with an option of ours.
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

    /// Adds a memory object. A handle may be that of an object that is gone: it
    /// is replaced.
    pub fn add(&self, buffer: Buffer) {
        let before = self.buffers.lock().insert(buffer.handle, Arc::new(buffer));
        // What it holds is released without the lock.
        drop(before);
    }

    /// Forgets a memory object.
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

    /// Forgets an allocation of shared virtual memory that starts there.
    pub fn take_svm(&self, address: usize) -> Option<Arc<Buffer>> {
        self.svm.lock().remove(&address)
    }

    /// The kernel with this handle.
    pub fn kernel(&self, kernel: cl_kernel) -> Option<Arc<Kernel>> {
        self.kernels.lock().get(&(kernel as usize)).cloned()
    }

    /// Adds a kernel. A handle may be that of a kernel that is gone: it is
    /// replaced.
    pub fn add_kernel(&self, kernel: Arc<Kernel>) {
        self.kernels.lock().insert(kernel.handle, kernel);
    }

    /// Says whether a program was built with an option of ours.
    pub fn set_altered(&self, program: cl_program, altered: bool) {
        let mut programs = self.programs.lock();
        if altered {
            programs.insert(program as usize, ());
        } else {
            programs.remove(&(program as usize));
        }
    }

    /// Whether a program was built with an option of ours.
    pub fn is_altered(&self, program: cl_program) -> bool {
        self.programs.lock().contains_key(&(program as usize))
    }
}
