//! The device as Ringfence's runtime sees it: [`Driver`]. No call here waits
//! for a stream or cares about captures and sticky errors, but for `settle`
//! and `release`, which take the place of the program's own calls.

use super::Device;
use crate::mapping::{AccessFault, MapError};
use driver::sys::CUresult;
use driver::{Driver, DriverError, HostMapping, Release, ReleaseCall};
use model::{DeviceAddress, DeviceKind, Extent};

fn map_error(call: &'static str, error: &MapError) -> DriverError {
    let code = match error {
        MapError::Invalid { .. } | MapError::InUse { .. } | MapError::NotMapped { .. } => {
            CUresult::CUDA_ERROR_INVALID_VALUE
        }
        MapError::NoMemory { .. } | MapError::Windows => CUresult::CUDA_ERROR_OUT_OF_MEMORY,
    };
    DriverError {
        call,
        code: code.0,
        message: error.to_string(),
    }
}

fn access_error(call: &'static str, error: AccessFault) -> DriverError {
    DriverError {
        call,
        code: CUresult::CUDA_ERROR_INVALID_VALUE.0,
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

    fn read(&self, address: DeviceAddress, bytes: &mut [u8]) -> Result<(), DriverError> {
        self.state
            .memory
            .read(address.0, bytes)
            .map_err(|error| access_error("cuMemcpyDtoH", error))
    }

    fn allocation_of(&self, address: DeviceAddress) -> Option<Extent> {
        self.pointer_info(address.0).map(|info| info.extent)
    }

    fn current_context(&self) -> u64 {
        super::context::current().unwrap_or(0)
    }

    fn settle(&self, _context: u64) -> Result<(), DriverError> {
        // All contexts share the one queue of work.
        self.wait_as_free()
            .map_err(|code| call_error("cuMemFree", code))
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
                .free_async(release.address, stream)
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
        code: code.0,
        message: code.name().unwrap_or("an error of no name").to_owned(),
    }
}
