//! Contexts: names with a count over the one device.

use crate::device::basics::Result;
use crate::device::objects::context::{DEFAULT_HEAP, STACK, current};
use crate::device::state::Device;
use driver::sys::{CUlimit, CUresult};

impl Device {
    fn initialized(&self) -> Result<()> {
        if self.is_initialized() {
            Ok(())
        } else {
            Err(CUresult::CUDA_ERROR_NOT_INITIALIZED)
        }
    }

    /// `cuDevicePrimaryCtxRetain`
    pub fn primary_retain(&self) -> Result<u64> {
        self.initialized()?;
        let mut contexts = self.state.contexts.lock();
        if contexts.primary == 0 {
            contexts.primary = self.handle();
        }
        let (handle, flags) = (contexts.primary, contexts.primary_flags);
        contexts.primary_count += 1;
        contexts.live.insert(handle, flags);
        Ok(handle)
    }

    /// `cuDevicePrimaryCtxRelease`
    pub fn primary_release(&self) -> Result<()> {
        self.initialized()?;
        let mut contexts = self.state.contexts.lock();
        if contexts.primary_count == 0 {
            return Err(CUresult::CUDA_ERROR_INVALID_CONTEXT);
        }
        contexts.primary_count -= 1;
        let (last, handle) = (contexts.primary_count == 0, contexts.primary);
        drop(contexts);
        if last {
            self.destroy(handle);
        }
        Ok(())
    }

    /// `cuDevicePrimaryCtxReset`: all that the context holds is gone; the
    /// handle stays good.
    pub fn primary_reset(&self) -> Result<()> {
        self.initialized()?;
        let mut contexts = self.state.contexts.lock();
        let handle = contexts.primary;
        contexts.primary_count = 0;
        drop(contexts);
        if handle != 0 {
            self.destroy(handle);
        }
        Ok(())
    }

    /// `cuDevicePrimaryCtxSetFlags`
    pub fn primary_set_flags(&self, flags: u32) -> Result<()> {
        self.initialized()?;
        self.state.contexts.lock().primary_flags = flags;
        Ok(())
    }

    /// `cuDevicePrimaryCtxGetState`: flags, and whether it is active.
    pub fn primary_state(&self) -> Result<(u32, bool)> {
        self.initialized()?;
        let contexts = self.state.contexts.lock();
        Ok((contexts.primary_flags, contexts.primary_count > 0))
    }

    /// `cuCtxCreate`: a new context, current on this thread.
    pub fn context_create(&self, flags: u32) -> Result<u64> {
        self.initialized()?;
        let handle = self.handle();
        self.state.contexts.lock().live.insert(handle, flags);
        STACK.with_borrow_mut(|stack| stack.push(handle));
        Ok(handle)
    }

    /// `cuCtxDestroy`
    pub fn context_destroy(&self, handle: u64) -> Result<()> {
        self.initialized()?;
        let contexts = self.state.contexts.lock();
        if !contexts.live.contains_key(&handle) || handle == contexts.primary {
            return Err(CUresult::CUDA_ERROR_INVALID_CONTEXT);
        }
        drop(contexts);
        self.destroy(handle);
        STACK.with_borrow_mut(|stack| {
            if stack.last() == Some(&handle) {
                stack.pop();
            }
        });
        Ok(())
    }

    /// Waits for the context's work, as the driver does (programs rely on a
    /// reset to show what kernels printed), then lets go of what it holds.
    /// Work of a context that has failed ends by itself.
    fn destroy(&self, handle: u64) {
        for ticket in self.state.in_flight() {
            ticket.wait();
        }
        self.state.flush();
        self.close_streams(handle);
        self.unload_context(handle);
        self.free_context(handle);
        if self.state.contexts.lock().primary == handle {
            self.restore_libraries();
        }
        self.state.contexts.lock().live.remove(&handle);
        self.state.recover();
    }

    /// Whether a handle is a live context.
    pub fn context_exists(&self, handle: u64) -> bool {
        self.state.contexts.lock().live.contains_key(&handle)
    }

    /// `cuCtxSetCurrent`; 0 takes the current one off.
    pub fn context_set(&self, handle: u64) -> Result<()> {
        self.initialized()?;
        if handle != 0 && !self.context_exists(handle) {
            return Err(CUresult::CUDA_ERROR_INVALID_CONTEXT);
        }
        STACK.with_borrow_mut(|stack| {
            stack.pop();
            if handle != 0 {
                stack.push(handle);
            }
        });
        Ok(())
    }

    /// `cuCtxPushCurrent`
    pub fn context_push(&self, handle: u64) -> Result<()> {
        self.initialized()?;
        if !self.context_exists(handle) {
            return Err(CUresult::CUDA_ERROR_INVALID_CONTEXT);
        }
        STACK.with_borrow_mut(|stack| stack.push(handle));
        Ok(())
    }

    /// `cuCtxPopCurrent`
    pub fn context_pop(&self) -> Result<u64> {
        self.initialized()?;
        STACK
            .with_borrow_mut(|stack| stack.pop())
            .ok_or(CUresult::CUDA_ERROR_INVALID_CONTEXT)
    }

    /// `cuCtxGetCurrent`: 0 if there is none.
    pub fn context_current(&self) -> Result<u64> {
        self.initialized()?;
        Ok(current().unwrap_or(0))
    }

    /// `cuCtxGetFlags` of the current context.
    pub fn context_flags(&self) -> Result<u32> {
        self.initialized()?;
        let handle = current().ok_or(CUresult::CUDA_ERROR_INVALID_CONTEXT)?;
        self.state
            .contexts
            .lock()
            .live
            .get(&handle)
            .copied()
            .ok_or(CUresult::CUDA_ERROR_CONTEXT_IS_DESTROYED)
    }

    /// `cuCtxSynchronize`: all streams are done; printed text is shown.
    pub fn synchronize(&self) -> Result<()> {
        self.enter()?;
        self.apart_from_all_captures()?;
        self.state.wait_for_all();
        self.state.flush();
        self.state.check()
    }

    /// `cuCtxSetLimit`
    pub fn set_limit(&self, limit: u32, value: u64) -> Result<()> {
        self.enter()?;
        default_limit(limit)?;
        if limit == CUlimit::CU_LIMIT_MALLOC_HEAP_SIZE.0 {
            let heap = value.next_multiple_of(crate::mapping::GRANULE);
            self.state
                .machine
                .set_heap_size(heap)
                .map_err(|_| CUresult::CUDA_ERROR_OUT_OF_MEMORY)?;
        }
        self.state.limits.lock().insert(limit, value);
        Ok(())
    }

    /// `cuCtxGetLimit`
    pub fn limit(&self, limit: u32) -> Result<u64> {
        self.enter()?;
        let default = default_limit(limit)?;
        Ok(self
            .state
            .limits
            .lock()
            .get(&limit)
            .copied()
            .unwrap_or(default))
    }
}

/// The values that the real driver starts with.
fn default_limit(limit: u32) -> Result<u64> {
    Ok(match CUlimit(limit) {
        CUlimit::CU_LIMIT_STACK_SIZE => 1024,
        CUlimit::CU_LIMIT_PRINTF_FIFO_SIZE => 7_340_032,
        CUlimit::CU_LIMIT_MALLOC_HEAP_SIZE => DEFAULT_HEAP,
        CUlimit::CU_LIMIT_DEV_RUNTIME_SYNC_DEPTH => 2,
        CUlimit::CU_LIMIT_DEV_RUNTIME_PENDING_LAUNCH_COUNT => 2048,
        CUlimit::CU_LIMIT_MAX_L2_FETCH_GRANULARITY => 64,
        CUlimit::CU_LIMIT_PERSISTING_L2_CACHE_SIZE => 0,
        _ => return Err(CUresult::CUDA_ERROR_UNSUPPORTED_LIMIT),
    })
}
