//! The one context of a device, and questions about the device.

use super::Calls;
use crate::DriverError;
use crate::sys::{CUcontext, CUdevice, CUdevice_attribute, CUlimit, CUuuid};
use std::ffi::CStr;
use std::sync::Arc;

/// The primary context of the first device; it is released when the last value
/// that uses it is dropped.
#[derive(Clone)]
pub struct Context {
    pub(super) inner: Arc<Inner>,
}

pub(super) struct Inner {
    pub calls: Calls,
    pub device: CUdevice,
    raw: CUcontext,
}

impl Context {
    /// Initializes the driver, and makes the context, current on this thread.
    ///
    /// # Errors
    ///
    /// There is no device, or it cannot be used.
    pub fn open(calls: Calls) -> Result<Context, DriverError> {
        call!(calls, cuInit(0))?;
        let mut device = 0;
        call!(calls, cuDeviceGet(&mut device, 0))?;
        let mut raw = CUcontext::NULL;
        call!(calls, cuDevicePrimaryCtxRetain(&mut raw, device))?;
        let context = Context {
            inner: Arc::new(Inner { calls, device, raw }),
        };
        context.make_current()?;
        Ok(context)
    }

    pub(super) fn calls(&self) -> &Calls {
        &self.inner.calls
    }

    /// Makes the context current on the calling thread.
    ///
    /// # Errors
    ///
    /// The device is gone.
    pub fn make_current(&self) -> Result<(), DriverError> {
        call!(self.calls(), cuCtxSetCurrent(self.inner.raw))
    }

    /// Has room for kernels with so many bytes of local memory for each thread
    /// (`CU_LIMIT_STACK_SIZE`). The driver waits until no kernel runs; else it
    /// would do so at the first launch of such a kernel (H200, driver 580).
    ///
    /// # Errors
    ///
    /// There is not as much memory.
    pub fn reserve_local(&self, bytes: u64) -> Result<(), DriverError> {
        call!(
            self.calls(),
            cuCtxSetLimit(CUlimit::CU_LIMIT_STACK_SIZE, bytes as usize)
        )
    }

    /// The driver's version, as cuDriverGetVersion gives it.
    ///
    /// # Errors
    ///
    /// Those of the driver.
    pub fn version(&self) -> Result<i32, DriverError> {
        let mut version = 0;
        call!(self.calls(), cuDriverGetVersion(&mut version))?;
        Ok(version)
    }

    /// The device's name.
    ///
    /// # Errors
    ///
    /// Those of the driver.
    pub fn name(&self) -> Result<String, DriverError> {
        let mut text = [0u8; 256];
        call!(
            self.calls(),
            cuDeviceGetName(
                text.as_mut_ptr().cast(),
                text.len() as i32 - 1,
                self.inner.device
            )
        )?;
        let text = CStr::from_bytes_until_nul(&text).unwrap_or_default();
        Ok(text.to_string_lossy().into_owned())
    }

    /// The device's identifier.
    ///
    /// # Errors
    ///
    /// Those of the driver.
    pub fn uuid(&self) -> Result<[u8; 16], DriverError> {
        let mut uuid = CUuuid::zeroed();
        call!(
            self.calls(),
            cuDeviceGetUuid_v2(&mut uuid, self.inner.device)
        )?;
        Ok(uuid.bytes.map(|byte| byte as u8))
    }

    /// Bytes of memory that the device has.
    ///
    /// # Errors
    ///
    /// Those of the driver.
    pub fn total_memory(&self) -> Result<u64, DriverError> {
        let mut bytes = 0;
        call!(
            self.calls(),
            cuDeviceTotalMem_v2(&mut bytes, self.inner.device)
        )?;
        Ok(bytes as u64)
    }

    /// An attribute of the device.
    ///
    /// # Errors
    ///
    /// The driver does not know it.
    pub fn attribute(&self, attribute: CUdevice_attribute) -> Result<i32, DriverError> {
        let mut value = 0;
        call!(
            self.calls(),
            cuDeviceGetAttribute(&mut value, attribute, self.inner.device)
        )?;
        Ok(value)
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        // Nobody is left who could act on an error.
        let _ = call!(self.calls, cuDevicePrimaryCtxRelease_v2(self.device));
    }
}
