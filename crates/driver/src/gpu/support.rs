//! Kernels of Ringfence's own on the real driver.

use super::{Gpu, check, missing};
use crate::sys::{
    CU_LAUNCH_PARAM_BUFFER_POINTER, CU_LAUNCH_PARAM_BUFFER_SIZE, CU_LAUNCH_PARAM_END, CUcontext,
    CUfunction, CUlaunchAttribute, CUlaunchAttributeID, CUlaunchConfig, CUmodule, CUresult,
    CUstream, CUstream_flags, CUstreamCaptureStatus,
};
use crate::{DriverError, SupportKernel, SupportLaunch, SupportModule, SupportStream};
use std::collections::HashMap;
use std::ffi::{CString, c_void};

/// A launch's parameters in one block: `{1, block, 2, &size, 0}`.
type Extra = [*mut c_void; 5];

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
        let extra = [
            CU_LAUNCH_PARAM_BUFFER_POINTER as usize as *mut c_void,
            launch.parameters.as_ptr().cast_mut().cast(),
            CU_LAUNCH_PARAM_BUFFER_SIZE as usize as *mut c_void,
            (&raw mut size).cast(),
            CU_LAUNCH_PARAM_END as usize as *mut c_void,
        ];
        let function = CUfunction(kernel.handle);
        if let SupportStream::Program { handle, per_thread } = launch.stream {
            // As the program launches itself: a stream that is captured takes
            // it in, and the capture mode does not matter.
            let stream = CUstream(handle);
            return match launch.waits_itself {
                true => self.put_early(function, launch, stream, per_thread, extra),
                false => self.put(function, launch, stream, per_thread, extra),
            };
        }
        self.within(|context| {
            let stream = match launch.stream {
                SupportStream::Guard => self.guard_stream(context)?,
                _ => self.stream(context)?,
            };
            self.put(function, launch, stream, false, extra)
        })
    }

    /// Launches a kernel after all that is in the stream.
    fn put(
        &self,
        function: CUfunction,
        launch: &SupportLaunch<'_>,
        stream: CUstream,
        per_thread: bool,
        mut extra: Extra,
    ) -> Result<(), DriverError> {
        let api = &self.library.api;
        let (name, entry) = match per_thread {
            true => ("cuLaunchKernel_ptsz", api.cuLaunchKernel_ptsz),
            false => ("cuLaunchKernel", api.cuLaunchKernel),
        };
        let entry = entry.ok_or_else(|| missing(name))?;
        let none = std::ptr::null_mut();
        let extra = extra.as_mut_ptr();
        let (blocks, threads) = (launch.blocks, launch.threads);
        // SAFETY: the driver's function under cuda.h's signature; `extra` is a
        // list up to its end mark, of the parameters and their size, which
        // `launch_support_kernel` holds.
        let result = unsafe {
            entry(
                function, blocks, 1, 1, threads, 1, 1, 0, stream, none, extra,
            )
        };
        check(name, result)
    }

    /// Launches a kernel that waits itself for what is before it, if that can
    /// be: the device starts its blocks when those of the kernel before have
    /// all ended or said so, and not only when all that they wrote is where it
    /// belongs. What else may be before it (copies, waits for events, other
    /// streams that the legacy one waits for) has ended by then as ever.
    fn put_early(
        &self,
        function: CUfunction,
        launch: &SupportLaunch<'_>,
        stream: CUstream,
        per_thread: bool,
        mut extra: Extra,
    ) -> Result<(), DriverError> {
        let api = &self.library.api;
        let (name, entry) = match per_thread {
            true => ("cuLaunchKernelEx_ptsz", api.cuLaunchKernelEx_ptsz),
            false => ("cuLaunchKernelEx", api.cuLaunchKernelEx),
        };
        let Some(entry) = entry.filter(|_| !self.may_be_captured(stream, per_thread)) else {
            return self.put(function, launch, stream, per_thread, extra);
        };
        let mut attribute = CUlaunchAttribute::zeroed();
        attribute.id = CUlaunchAttributeID::CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION;
        attribute.value.programmaticStreamSerializationAllowed = 1;
        let mut config = CUlaunchConfig::zeroed();
        (config.gridDimX, config.gridDimY, config.gridDimZ) = (launch.blocks, 1, 1);
        (config.blockDimX, config.blockDimY, config.blockDimZ) = (launch.threads, 1, 1);
        config.hStream = stream;
        config.attrs = &raw mut attribute;
        config.numAttrs = 1;
        let none = std::ptr::null_mut();
        // SAFETY: the driver's function under cuda.h's signature; `config` has
        // one attribute, which lives until the call returns, and `extra` is as
        // in `put`.
        let result = unsafe { entry(&raw const config, function, none, extra.as_mut_ptr()) };
        match result {
            // The driver, or a tool between Ringfence and the driver, does not
            // support the attribute.
            CUresult::CUDA_ERROR_INVALID_VALUE | CUresult::CUDA_ERROR_NOT_SUPPORTED => {
                self.put(function, launch, stream, per_thread, extra)
            }
            result => check(name, result),
        }
    }

    /// Whether a launch into a stream of the program may become a node of a
    /// graph. How a graph takes one in that may start early differs from driver
    /// to driver.
    fn may_be_captured(&self, stream: CUstream, per_thread: bool) -> bool {
        let api = &self.library.api;
        let ask = match per_thread {
            true => api.cuStreamIsCapturing_ptsz,
            false => api.cuStreamIsCapturing,
        };
        let mut status = CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_ACTIVE;
        // SAFETY: a place for the answer; the stream is the program's. Asking
        // ends no capture.
        let asked = ask.map(|ask| unsafe { ask(stream, &mut status) });
        asked != Some(CUresult::CUDA_SUCCESS)
            || status != CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE
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
