//! The device as Ringfence's runtime sees it: [`Driver`]. No call here waits
//! for a stream or cares about captures and sticky errors, but for `settle`
//! and `release`, which take the place of the program's own calls.

use crate::device::basics::Result as CudaResult;
use crate::device::objects::copy::Fill;
use crate::device::objects::launch::Launch;
use crate::device::objects::queue::Stream;
use crate::device::objects::queue::{GREATEST_PRIORITY, PER_THREAD};
use crate::device::objects::work::Work;
use crate::device::state::Device;
use crate::mapping::{AccessFault, MapError, Protection};
use driver::sys::{CUresult, CUstream_flags};
use driver::{
    DeviceFailure, Driver, DriverError, Element, HostMapping, Release, ReleaseCall, StreamEvent,
    SupportKernel, SupportLaunch, SupportModule, SupportStream,
};
use model::{DeviceAddress, DeviceKind, Extent};
use std::sync::Arc;

impl Device {
    fn support_stream(&self, stream: SupportStream) -> CudaResult<Arc<Stream>> {
        let stays = match stream {
            SupportStream::Program { handle, per_thread } => {
                let own = handle == 0 && per_thread;
                return self.state.stream(if own { PER_THREAD } else { handle });
            }
            SupportStream::Own => false,
            SupportStream::Guard => true,
        };
        let key = (self.current_context(), stays);
        let mut support = self.state.support.lock();
        if let Some(known) = support.streams.get(&key)
            && let Ok(stream) = self.state.stream(*known)
        {
            return Ok(stream);
        }
        let priority = if stays { GREATEST_PRIORITY } else { 0 };
        let handle = self.stream_create(CUstream_flags::CU_STREAM_NON_BLOCKING.0, priority)?;
        support.streams.insert(key, handle);
        self.state.stream(handle)
    }
}

fn map_error(call: &'static str, error: &MapError) -> DriverError {
    let code = match error {
        MapError::Invalid { .. } | MapError::InUse { .. } | MapError::NotMapped { .. } => {
            CUresult::CUDA_ERROR_INVALID_VALUE
        }
        MapError::NoMemory { .. } | MapError::Windows => CUresult::CUDA_ERROR_OUT_OF_MEMORY,
    };
    DriverError {
        call,
        code,
        message: error.to_string(),
    }
}

fn access_error(call: &'static str, error: AccessFault) -> DriverError {
    DriverError {
        call,
        code: CUresult::CUDA_ERROR_INVALID_VALUE,
        message: error.to_string(),
    }
}

impl Driver for Device {
    fn kind(&self) -> DeviceKind {
        DeviceKind::Cpu
    }

    fn name(&self) -> String {
        Device::NAME.to_owned()
    }

    fn version(&self) -> u32 {
        Device::VERSION
    }

    fn compute_capability(&self) -> Result<u32, DriverError> {
        Ok(Device::CAPABILITY.0 * 10 + Device::CAPABILITY.1)
    }

    fn map_fixed(&self, address: DeviceAddress, size: u64) -> Result<(), DriverError> {
        self.state
            .memory
            .map_fixed(address.0, size)
            .map_err(|error| map_error("cuMemMap", &error))
    }

    fn reserve_fixed(&self, extent: Extent) -> Result<(), DriverError> {
        let (base, size) = (extent.base.0, extent.size);
        let call = "cuMemAddressReserve";
        if self.has_reservation(base, size) {
            return Ok(());
        }
        let at = self
            .reserve(size, 0, base)
            .map_err(|code| call_error(call, code))?;
        if at == base {
            return Ok(());
        }
        // The conflict is the error to return, not a failure to release.
        let _ = self.address_free(at, size);
        let end = extent.end();
        Err(DriverError {
            call,
            code: CUresult::CUDA_ERROR_OUT_OF_MEMORY,
            message: format!("the address range {} to {end} is in use", extent.base),
        })
    }

    fn create_memory(&self, size: u64) -> Result<u64, DriverError> {
        self.memory_create(size)
            .map_err(|code| call_error("cuMemCreate", code))
    }

    fn map_memory(&self, extent: Extent, memory: u64) -> Result<(), DriverError> {
        let (base, size) = (extent.base.0, extent.size);
        self.memory_map(base, size, 0, memory)
            .map_err(|code| call_error("cuMemMap", code))?;
        let given = self.memory_access(base, size, Protection::ReadWrite);
        given.map_err(|code| {
            // The first error is the one to return.
            let _ = self.memory_unmap(base, size);
            call_error("cuMemSetAccess", code)
        })
    }

    fn unmap_memory(&self, extent: Extent) -> Result<(), DriverError> {
        self.memory_unmap(extent.base.0, extent.size)
            .map_err(|code| call_error("cuMemUnmap", code))
    }

    fn release_memory(&self, memory: u64) -> Result<(), DriverError> {
        self.memory_release(memory)
            .map_err(|code| call_error("cuMemRelease", code))
    }

    fn total_memory(&self) -> Result<u64, DriverError> {
        Ok(Device::total_memory(self))
    }

    fn map_host_fixed(
        &self,
        address: DeviceAddress,
        size: u64,
    ) -> Result<HostMapping, DriverError> {
        self.state
            .memory
            .map_host_fixed(address.0, size)
            .map_err(|error| map_error("cuMemHostAlloc", &error))
    }

    fn restore_host(&self, _: HostMapping) -> Result<(), DriverError> {
        // Host mappings here belong to the process, not to a context.
        Ok(())
    }

    fn write(&self, address: DeviceAddress, bytes: &[u8]) -> Result<(), DriverError> {
        self.state
            .memory
            .write(address.0, bytes)
            .map_err(|error| access_error("cuMemcpyHtoD", error))
    }

    fn fill(&self, address: DeviceAddress, value: u32, count: u64) -> Result<(), DriverError> {
        let filled = self
            .state
            .memory
            .fill(address.0, &value.to_le_bytes(), count);
        filled.map_err(|error| access_error("cuMemsetD32", error))
    }

    fn fill_in_stream(
        &self,
        address: DeviceAddress,
        element: Element,
        count: u64,
        stream: SupportStream,
    ) -> Result<(), DriverError> {
        let (call, bytes, value) = match element {
            Element::Byte(value) => ("cuMemsetD8Async", 1, value.into()),
            Element::Word(value) => ("cuMemsetD32Async", 4, value),
        };
        let fill = Fill {
            address: address.0,
            pitch: 0,
            element: bytes,
            value,
            width: count,
            height: 1,
        };
        // (What Ringfence maps is no allocation of the program's, which a fill of the
        // program's would be checked to be.)
        let filled = self
            .support_stream(stream)
            .and_then(|stream| self.enqueue(&stream, Work::Fill(fill), true));
        filled.map_err(|code| call_error(call, code))
    }

    fn read(&self, address: DeviceAddress, bytes: &mut [u8]) -> Result<(), DriverError> {
        self.state
            .memory
            .read(address.0, bytes)
            .map_err(|error| access_error("cuMemcpyDtoH", error))
    }

    fn load_support(&self, ptx: &'static str) -> Result<SupportModule, DriverError> {
        let mut support = self.state.support.lock();
        let place = ptx.as_ptr().addr();
        if let Some(module) = support.modules.get(&place) {
            return Ok(SupportModule { handle: *module });
        }
        let handle = self.load_library(&[ptx]).map_err(|(code, message)| {
            let call = "cuModuleLoadDataEx";
            DriverError {
                call,
                code,
                message,
            }
        })?;
        support.modules.insert(place, handle);
        Ok(SupportModule { handle })
    }

    fn support_kernel(
        &self,
        module: SupportModule,
        name: &str,
    ) -> Result<SupportKernel, DriverError> {
        let handle = self
            .function(module.handle, name)
            .map_err(|code| call_error("cuModuleGetFunction", code))?;
        Ok(SupportKernel { handle })
    }

    fn launch_support(
        &self,
        kernel: SupportKernel,
        launch: &SupportLaunch<'_>,
    ) -> Result<(), DriverError> {
        // Here no kernel starts before those before it in its stream have
        // ended, also of one that would wait itself.
        let put = || {
            let stream = self.support_stream(launch.stream)?;
            let call = self.kernel_call(Launch {
                function: kernel.handle,
                grid: [launch.blocks, 1, 1],
                block: [launch.threads, 1, 1],
                parameters: launch.parameters.to_vec(),
                ..Launch::default()
            })?;
            self.enqueue(&stream, Work::Kernel(Arc::new(call)), false)
        };
        put().map_err(|code| call_error("cuLaunchKernel", code))
    }

    fn wait_for_own(&self) -> Result<(), DriverError> {
        let wait = || {
            let stream = self.support_stream(SupportStream::Own)?;
            if let Some(ticket) = stream.newest() {
                ticket.wait();
            }
            self.state.check()
        };
        wait().map_err(|code| call_error("cuStreamSynchronize", code))
    }

    fn with_context(
        &self,
        context: u64,
        work: &mut dyn FnMut() -> Result<(), DriverError>,
    ) -> Result<(), DriverError> {
        if self.current_context() == context {
            return work();
        }
        self.context_push(context)
            .map_err(|code| call_error("cuCtxPushCurrent", code))?;
        let result = work();
        self.context_pop()
            .map_err(|code| call_error("cuCtxPopCurrent", code))?;
        result
    }

    fn record_event(&self, stream: SupportStream) -> Result<StreamEvent, DriverError> {
        let stream = self
            .support_stream(stream)
            .map_err(|code| call_error("cuEventRecord", code))?;
        let handle = self.handle();
        let tail = self.stream_tail(&stream);
        self.state.support.lock().events.insert(handle, tail);
        Ok(StreamEvent { handle })
    }

    fn wait_for_event(&self, event: StreamEvent) -> Result<(), DriverError> {
        let tickets = self.state.support.lock().events.remove(&event.handle);
        for ticket in tickets.into_iter().flatten() {
            ticket.wait();
        }
        self.state
            .check()
            .map_err(|code| call_error("cuEventSynchronize", code))
    }

    fn is_over(&self, event: StreamEvent) -> Result<bool, DriverError> {
        self.state
            .check()
            .map_err(|code| call_error("cuEventQuery", code))?;
        let support = self.state.support.lock();
        let tickets = support.events.get(&event.handle);
        Ok(tickets.is_none_or(|tickets| tickets.iter().all(|ticket| ticket.is_done())))
    }

    fn destroy_event(&self, event: StreamEvent) {
        self.state.support.lock().events.remove(&event.handle);
    }

    fn is_idle(&self, stream: SupportStream) -> Result<bool, DriverError> {
        let idle = || {
            let stream = self.support_stream(stream)?;
            self.state.check()?;
            Ok(self
                .stream_tail(&stream)
                .iter()
                .all(|ticket| ticket.is_done()))
        };
        idle().map_err(|code| call_error("cuStreamQuery", code))
    }

    fn accesses_pageable_memory(&self) -> bool {
        self.state.memory.admits_host()
    }

    fn allocation_of(&self, address: DeviceAddress) -> Option<Extent> {
        self.pointer_info(address.0).map(|info| info.extent)
    }

    fn failure(&self) -> Option<DeviceFailure> {
        self.state.failure()
    }

    fn take_not_run(&self) -> Vec<u64> {
        self.state.take_not_run()
    }

    fn current_context(&self) -> u64 {
        crate::device::objects::context::current().unwrap_or(0)
    }

    fn settle(&self, _context: u64) -> Result<(), DriverError> {
        // As a GPU's driver, this waits for all streams: the caller may unmap what it frees
        // at once. (`Device::free` keeps the pages until non-blocking streams are done, so
        // that a kernel there may wait for the host.)
        let settled = || {
            self.apart_from_strict_captures()?;
            self.enter()?;
            self.state.wait_for_all();
            self.state.check()
        };
        settled().map_err(|code| call_error("cuMemFree", code))
    }

    fn release(&self, release: &Release) -> Result<(), DriverError> {
        let borrowed = self.current_context() != release.context;
        if borrowed {
            self.context_push(release.context)
                .map_err(|code| call_error("cuCtxPushCurrent", code))?;
        }
        let result = match release.call {
            ReleaseCall::Free => self
                .free(release.address)
                .map_err(|code| call_error("cuMemFree", code)),
            ReleaseCall::FreeHost => self
                .free_host(release.address)
                .map_err(|code| call_error("cuMemFreeHost", code)),
            ReleaseCall::FreeAsync { stream } => self
                .release_async(release.address, stream)
                .map_err(|code| call_error("cuMemFreeAsync", code)),
        };
        if borrowed {
            self.context_pop()
                .map_err(|code| call_error("cuCtxPopCurrent", code))?;
        }
        result
    }
}

fn call_error(call: &'static str, code: CUresult) -> DriverError {
    DriverError {
        call,
        code,
        message: code.name().unwrap_or("an error of no name").to_owned(),
    }
}
