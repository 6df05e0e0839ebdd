//! What the runtime itself needs from a device, whatever the device is.
//!
//! The program's own calls do not go through this trait: they are passed on to
//! the device's API table with the program's arguments. This is for what
//! Ringfence adds: metadata at fixed addresses and queries about memory.

use crate::sys::CUresult;
use crate::{
    DeviceFailure, HostMapping, StreamEvent, SupportKernel, SupportLaunch, SupportModule,
    SupportStream, kernel_error,
};
use model::{DeviceAddress, DeviceKind, Extent};
use std::path::Path;

/// A driver call that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DriverError {
    /// The call, `cuMemAddressReserve`.
    pub call: &'static str,
    /// Its result.
    pub code: CUresult,
    /// What it means here and what to do.
    pub message: String,
}

impl DriverError {
    /// Whether every call in the context fails: a kernel of the program has
    /// failed, after which `cuda.h` requires that the context, or the process,
    /// be ended before CUDA can be used again; or it has ended. The program's
    /// own calls return the same error.
    pub fn is_sticky(&self) -> bool {
        let context_is_lost = matches!(
            self.code,
            CUresult::CUDA_ERROR_DEINITIALIZED
                | CUresult::CUDA_ERROR_INVALID_CONTEXT
                | CUresult::CUDA_ERROR_ECC_UNCORRECTABLE
                | CUresult::CUDA_ERROR_NVLINK_UNCORRECTABLE
                | CUresult::CUDA_ERROR_CONTAINED
                | CUresult::CUDA_ERROR_CONTEXT_IS_DESTROYED
        );
        context_is_lost || kernel_error(self.code).is_some()
    }
}

impl std::fmt::Display for DriverError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{} failed with error {}: {}",
            self.call, self.code.0, self.message
        )
    }
}

impl std::error::Error for DriverError {}

/// The error of a device without virtual memory management.
fn unmappable(call: &'static str) -> DriverError {
    DriverError {
        call,
        code: CUresult::CUDA_ERROR_NOT_SUPPORTED,
        message: "the device has no virtual memory management".into(),
    }
}

/// Memory of the program to be released to the device, long after the program
/// freed it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Release {
    /// First byte.
    pub address: DeviceAddress,
    /// The context that it belongs to, as a handle.
    pub context: u64,
    /// The call that gives it back.
    pub call: ReleaseCall,
}

/// The calls that give memory back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReleaseCall {
    /// `cuMemFree`
    Free,
    /// `cuMemFreeHost`
    FreeHost,
    /// `cuMemFreeAsync` in a stream, a handle that does not depend on the
    /// calling thread.
    FreeAsync {
        /// The stream.
        stream: u64,
    },
}

/// Something to store in mapped device memory.
#[derive(Clone, Copy, Debug)]
pub enum Store<'a> {
    /// Bytes from an address on.
    Bytes(DeviceAddress, &'a [u8]),
    /// One word, repeatedly.
    Fill {
        /// First byte.
        address: DeviceAddress,
        /// The word.
        value: u32,
        /// How often.
        count: u64,
    },
}

/// What memory is filled with, repeatedly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Element {
    /// A byte.
    Byte(u8),
    /// A word of 32 bits, at multiples of four bytes.
    Word(u32),
}

/// The runtime's interface to a device. Every call must be legal while a stream
/// is being captured, and must not wait for kernels of the program, unless it
/// says otherwise.
pub trait Driver: Send + Sync {
    /// Which kind.
    fn kind(&self) -> DeviceKind;

    /// The device's name, for reports.
    fn name(&self) -> String;

    /// Driver version as cuDriverGetVersion gives it: 13000.
    fn version(&self) -> u32;

    /// Compute capability of the current device times ten: 90 for sm_90.
    fn compute_capability(&self) -> Result<u32, DriverError>;

    /// Map zero-filled device memory at exactly this address, readable and
    /// writable by kernels of the current device. The range lies in the
    /// metadata region or the device heap of `model::layout`; `size` is a
    /// multiple of 2 MiB. If an address range is in use, the error names it.
    fn map_fixed(&self, address: DeviceAddress, size: u64) -> Result<(), DriverError>;

    /// Reserves exactly these addresses, for [`Driver::map_memory`]. A second call
    /// for the same ones does nothing. If an address range is in use, the error
    /// names it.
    fn reserve_fixed(&self, extent: Extent) -> Result<(), DriverError> {
        let _ = extent;
        Err(unmappable("cuMemAddressReserve"))
    }

    /// Takes physical memory of the current device, a multiple of 2 MiB. Pass the
    /// handle to [`Driver::release_memory`] in the end; what is mapped stays then,
    /// until it is unmapped. The content is not defined.
    fn create_memory(&self, size: u64) -> Result<u64, DriverError> {
        let _ = size;
        Err(unmappable("cuMemCreate"))
    }

    /// Maps all of such memory at reserved addresses, a multiple of 2 MiB, for
    /// kernels of the current device and of those that can access its memory. It
    /// may be mapped at several addresses.
    fn map_memory(&self, extent: Extent, memory: u64) -> Result<(), DriverError> {
        let _ = (extent, memory);
        Err(unmappable("cuMemMap"))
    }

    /// Unmaps what one call of [`Driver::map_memory`] mapped. No kernel may be
    /// running that accesses it and should not fail.
    fn unmap_memory(&self, extent: Extent) -> Result<(), DriverError> {
        let _ = extent;
        Err(unmappable("cuMemUnmap"))
    }

    /// The handle is not needed any more.
    fn release_memory(&self, memory: u64) -> Result<(), DriverError> {
        let _ = memory;
        Err(unmappable("cuMemRelease"))
    }

    /// Bytes of memory that the current device has.
    fn total_memory(&self) -> Result<u64, DriverError> {
        Err(unmappable("cuDeviceTotalMem"))
    }

    /// Map zero-filled host memory at exactly this address, which is also its
    /// device address. Stays until the process ends.
    fn map_host_fixed(&self, address: DeviceAddress, size: u64)
    -> Result<HostMapping, DriverError>;

    /// A context was destroyed: make `mapping` accessible to the device again.
    /// Registrations of host memory end with their context, mappings of device
    /// memory do not (measured on driver 580).
    fn restore_host(&self, mapping: HostMapping) -> Result<(), DriverError>;

    /// Copy bytes into mapped device memory; done when it returns.
    fn write(&self, address: DeviceAddress, bytes: &[u8]) -> Result<(), DriverError>;

    /// Several [`Driver::write`]s, in this order; done when it returns.
    fn write_all(&self, writes: &[(DeviceAddress, &[u8])]) -> Result<(), DriverError> {
        writes
            .iter()
            .try_for_each(|(address, bytes)| self.write(*address, bytes))
    }

    /// Several [`Driver::write`]s and [`Driver::fill`]s, which kernels observe
    /// in this order; complete on return.
    fn store_all(&self, stores: &[Store<'_>]) -> Result<(), DriverError> {
        stores.iter().try_for_each(|store| match *store {
            Store::Bytes(address, bytes) => self.write(address, bytes),
            Store::Fill {
                address,
                value,
                count,
            } => self.fill(address, value, count),
        })
    }

    /// Store `value` `count` times from `address` on; done when it returns.
    fn fill(&self, address: DeviceAddress, value: u32, count: u64) -> Result<(), DriverError>;

    /// Stores an element `count` times from `address` on, in its turn in a stream of the
    /// current context. Not legal in a stream that is being captured.
    fn fill_in_stream(
        &self,
        address: DeviceAddress,
        element: Element,
        count: u64,
        stream: SupportStream,
    ) -> Result<(), DriverError>;

    /// Copy bytes out of device memory; done when it returns.
    fn read(&self, address: DeviceAddress, bytes: &mut [u8]) -> Result<(), DriverError>;

    /// Loads a module of Ringfence's own in the current context; a second call
    /// returns the same one. Loading may synchronize the device: do it before
    /// the program depends on concurrent kernels.
    fn load_support(&self, ptx: &'static str) -> Result<SupportModule, DriverError>;

    /// A kernel of such a module, ready to be launched.
    fn support_kernel(
        &self,
        module: SupportModule,
        name: &str,
    ) -> Result<SupportKernel, DriverError>;

    /// Launches such a kernel in the context that its module was loaded in,
    /// which must be current.
    fn launch_support(
        &self,
        kernel: SupportKernel,
        launch: &SupportLaunch<'_>,
    ) -> Result<(), DriverError>;

    /// Waits for what was put into [`crate::SupportStream::Own`] of the current
    /// context.
    fn wait_for_own(&self) -> Result<(), DriverError>;

    /// Runs `work` with this context current on the calling thread, whatever
    /// is current there.
    fn with_context(
        &self,
        context: u64,
        work: &mut dyn FnMut() -> Result<(), DriverError>,
    ) -> Result<(), DriverError>;

    /// Records an event behind the work that is in a stream of the current
    /// context. Not legal in a stream that is being captured. Pass the event to
    /// [`Driver::wait_for_event`] or [`Driver::destroy_event`] in the end.
    fn record_event(&self, stream: SupportStream) -> Result<StreamEvent, DriverError>;

    /// Waits for the recorded event only. The stream may have been destroyed.
    fn wait_for_event(&self, event: StreamEvent) -> Result<(), DriverError>;

    /// Whether the work before the event is complete. Never waits.
    fn is_over(&self, event: StreamEvent) -> Result<bool, DriverError>;

    /// The event is no longer needed.
    fn destroy_event(&self, event: StreamEvent);

    /// Whether all work in a stream of the current context is complete. Never
    /// waits.
    fn is_idle(&self, stream: SupportStream) -> Result<bool, DriverError>;

    /// The allocation that holds an address, according to the driver; `None` if
    /// there is none.
    fn allocation_of(&self, address: DeviceAddress) -> Option<Extent>;

    /// Whether a kernel has failed in the current context, and what is known
    /// of it. Never waits.
    fn failure(&self) -> Option<DeviceFailure>;

    /// From now on the device leaves what it knows of a kernel that fails in this
    /// file, for [`Driver::failure`]. Does nothing on a device that reports it
    /// anyway. To be called before the program has a context.
    fn dump_failures(&self, file: &Path) -> Result<(), DriverError> {
        let _ = file;
        Ok(())
    }

    /// Handles of kernels that were put into streams and have not run to their
    /// end, each as often as it was launched, since the last call of this.
    /// Empty where the device does not report them.
    fn take_not_run(&self) -> Vec<u64>;

    /// Whether kernels of the current device may access host memory that was
    /// not registered (`CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS`).
    fn accesses_pageable_memory(&self) -> bool {
        false
    }

    /// Bytes of stack that each thread has in the current context where a
    /// kernel's need is not known (`CU_LIMIT_STACK_SIZE`). `None` where stacks
    /// have no limit.
    fn stack_limit(&self) -> Option<u64> {
        None
    }

    /// Sets that limit.
    ///
    /// # Errors
    ///
    /// The device has no room for such stacks.
    fn set_stack_limit(&self, bytes: u64) -> Result<(), DriverError> {
        let _ = bytes;
        Ok(())
    }

    /// The current context of the calling thread, as a handle; 0 if none.
    fn current_context(&self) -> u64;

    /// Waits for kernels as `cuMemFree` of memory of this context does:
    /// programs rely on it. Not legal while a stream is being captured. The
    /// error is what the free would have returned.
    fn settle(&self, context: u64) -> Result<(), DriverError>;

    /// Releases memory of the program. Not legal while a stream is being
    /// captured; may wait for kernels.
    fn release(&self, release: &Release) -> Result<(), DriverError>;
}
