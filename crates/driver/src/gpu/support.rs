//! Kernels of Ringfence's own on the real driver.

use super::{Gpu, check, missing};
use crate::sys::{
    CU_LAUNCH_PARAM_BUFFER_POINTER, CU_LAUNCH_PARAM_BUFFER_SIZE, CU_LAUNCH_PARAM_END, CUcontext,
    CUfunction, CUmodule, CUstream, CUstream_flags,
};
use crate::{DriverError, SupportKernel, SupportLaunch, SupportModule, SupportStream};
use std::collections::HashMap;
use std::ffi::{CString, c_void};

/// What is loaded and made for them, by context.
#[derive(Default)]
pub(super) struct Support {
    /// Modules by the place of their text, which is never moved.
    modules: HashMap<(CUcontext, usize), CUmodule>,
    guards: HashMap<CUcontext, CUstream>,
}

impl Support {
    /// A context is being destroyed.
    pub fn forget(&mut self, context: CUcontext) {
        self.modules.retain(|(owner, _), _| *owner != context);
        self.guards.remove(&context);
    }
}

impl Gpu {
    pub(super) fn load_support_module(
        &self,
        ptx: &'static str,
    ) -> Result<SupportModule, DriverError> {
        self.within(|context| {
            let key = (context, ptx.as_ptr().addr());
            if let Some(module) = self.lock().support.modules.get(&key) {
                return Ok(SupportModule { handle: module.0 });
            }
            // The driver reads up to a null byte.
            let text = CString::new(ptx).map_err(|_| missing("cuModuleLoadDataEx"))?;
            let mut module = CUmodule::NULL;
            call!(
                self,
                cuModuleLoadDataEx(
                    &mut module,
                    text.as_ptr().cast(),
                    0,
                    std::ptr::null_mut(),
                    std::ptr::null_mut(),
                )
            )?;
            // Another thread may have loaded it meanwhile; both work.
            self.lock().support.modules.insert(key, module);
            Ok(SupportModule { handle: module.0 })
        })
    }

    pub(super) fn find_support_kernel(
        &self,
        module: SupportModule,
        name: &str,
    ) -> Result<SupportKernel, DriverError> {
        let name = CString::new(name).map_err(|_| missing("cuModuleGetFunction"))?;
        self.within(|_| {
            let mut function = CUfunction::NULL;
            call!(
                self,
                cuModuleGetFunction(&mut function, CUmodule(module.handle), name.as_ptr())
            )?;
            // With lazy loading the first launch would load the code, and wait
            // for the device. Drivers before 12.4 load it with the question.
            if self.library.api.cuFuncLoad.is_some() {
                call!(self, cuFuncLoad(function))?;
            }
            Ok(SupportKernel { handle: function.0 })
        })
    }

    pub(super) fn launch_support_kernel(
        &self,
        kernel: SupportKernel,
        launch: &SupportLaunch<'_>,
    ) -> Result<(), DriverError> {
        let mut size = launch.parameters.len();
        let mut extra = [
            CU_LAUNCH_PARAM_BUFFER_POINTER as usize as *mut c_void,
            launch.parameters.as_ptr().cast_mut().cast(),
            CU_LAUNCH_PARAM_BUFFER_SIZE as usize as *mut c_void,
            (&raw mut size).cast(),
            CU_LAUNCH_PARAM_END as usize as *mut c_void,
        ];
        let function = CUfunction(kernel.handle);
        let (blocks, threads) = (launch.blocks, launch.threads);
        let none = std::ptr::null_mut();
        if let SupportStream::Program { handle, per_thread } = launch.stream {
            // As the program launches itself: a stream that is captured takes
            // it in, and the capture mode does not matter.
            let stream = CUstream(handle);
            return if per_thread {
                call!(
                    self,
                    cuLaunchKernel_ptsz(
                        function,
                        blocks,
                        1,
                        1,
                        threads,
                        1,
                        1,
                        0,
                        stream,
                        none,
                        extra.as_mut_ptr(),
                    )
                )
            } else {
                call!(
                    self,
                    cuLaunchKernel(
                        function,
                        blocks,
                        1,
                        1,
                        threads,
                        1,
                        1,
                        0,
                        stream,
                        none,
                        extra.as_mut_ptr(),
                    )
                )
            };
        }
        self.within(|context| {
            let stream = match launch.stream {
                SupportStream::Guard => self.guard_stream(context)?,
                _ => self.stream(context)?,
            };
            call!(
                self,
                cuLaunchKernel(
                    function,
                    blocks,
                    1,
                    1,
                    threads,
                    1,
                    1,
                    0,
                    stream,
                    none,
                    extra.as_mut_ptr(),
                )
            )
        })
    }

    pub(super) fn wait_for_own_stream(&self) -> Result<(), DriverError> {
        self.on_stream(|_| Ok(()))
    }

    /// The stream of kernels that stay, in a context that is current.
    pub(super) fn guard_stream(&self, context: CUcontext) -> Result<CUstream, DriverError> {
        if let Some(stream) = self.lock().support.guards.get(&context) {
            return Ok(*stream);
        }
        let (mut least, mut greatest) = (0, 0);
        call!(self, cuCtxGetStreamPriorityRange(&mut least, &mut greatest))?;
        let mut stream = CUstream::NULL;
        call!(
            self,
            cuStreamCreateWithPriority(
                &mut stream,
                CUstream_flags::CU_STREAM_NON_BLOCKING.0,
                greatest,
            )
        )?;
        // Were there two, one kernel would not follow the other.
        Ok(*self.lock().support.guards.entry(context).or_insert(stream))
    }
}
