//! CUDA arrays: the device bounds what is fetched from them, and they have a
//! handle instead of an address. One that is destroyed twice is a finding.

use super::Frees;
use crate::findings::{Context, HostError, Near};
use driver::sys::CUresult;
use host::Stack;
use model::{Allocation, AllocationKind, ApiErrors, DeviceAddress, Extent, Rule};
use rustc_hash::FxHashMap;
use std::sync::atomic::Ordering;

/// What is known of arrays, by handle.
#[derive(Default)]
pub(super) struct Arrays {
    /// Bytes of those that there are, and of those that there were, and what
    /// made them.
    made: FxHashMap<u64, (u64, Stack)>,
    /// Those that were destroyed, whose handle was not given out since.
    destroyed: FxHashMap<u64, Stack>,
}

impl Frees {
    /// The device has made an array of so many bytes. It gives handles out again.
    pub fn array_made(&self, handle: u64, bytes: u64) {
        let stack = self.below.env.stack();
        let mut arrays = self.arrays.lock();
        arrays.destroyed.remove(&handle);
        arrays.made.insert(handle, (bytes, stack));
    }

    /// Destroys an array, by `forward`. Returns the answer for the program.
    pub fn free_array(
        &self,
        function: &'static str,
        handle: u64,
        forward: &dyn Fn() -> CUresult,
    ) -> CUresult {
        let settings = self.below.env.settings();
        if !settings.check || handle == 0 {
            return forward();
        }
        self.calls.fetch_add(1, Ordering::Relaxed);
        let stack = self.below.env.stack();
        // Before the call: after it, another thread may get the handle anew.
        let (before, made) = {
            let mut arrays = self.arrays.lock();
            let before = arrays.destroyed.get(&handle).cloned();
            arrays.destroyed.entry(handle).or_insert(stack);
            (
                before,
                arrays.made.get(&handle).cloned().unwrap_or_default(),
            )
        };
        let Some(before) = before else {
            let answer = forward();
            if answer != CUresult::CUDA_SUCCESS {
                self.arrays.lock().destroyed.remove(&handle);
            }
            return answer;
        };
        if settings.api_errors != ApiErrors::Off {
            self.report_array(function, handle, made, before);
        }
        match settings.api_errors {
            ApiErrors::Refuse => CUresult::CUDA_ERROR_INVALID_HANDLE,
            _ => forward(),
        }
    }

    fn report_array(
        &self,
        function: &'static str,
        handle: u64,
        (size, made): (u64, Stack),
        before: Stack,
    ) {
        let address = DeviceAddress(handle);
        let error = HostError {
            rule: Rule::DoubleFree,
            function,
            detail: format!("destroys the array {address}, which was destroyed before"),
            width: None,
            pointer: address,
            address,
        };
        let array = Allocation {
            extent: Extent {
                base: address,
                size,
            },
            kind: AllocationKind::Array,
            serial: 0,
            name: None,
        };
        let context = Context {
            intended: Some(Near::gone(array, made, before)),
            nearest: None,
        };
        self.below.reporter.host_error_in(error, context);
    }
}
