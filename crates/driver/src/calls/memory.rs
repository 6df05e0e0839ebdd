//! Memory at addresses that the caller chooses, and copies to and from it.

use super::Context;
use crate::DriverError;
use crate::sys::{
    CUDA_MEMCPY2D, CUmemAccess_flags, CUmemAccessDesc, CUmemAllocationProp, CUmemAllocationType,
    CUmemLocation, CUmemLocationType, CUmemorytype, CUresult, CUstream,
};
use std::fmt;
use std::marker::PhantomData;
use std::sync::{Arc, Mutex, PoisonError};

/// Physical memory of the device. It lives on while it is mapped.
pub struct Physical {
    context: Context,
    raw: u64,
    size: u64,
}

/// A range of device addresses, and what is mapped in it.
pub struct Reservation {
    context: Context,
    base: u64,
    size: u64,
    /// Mappings, as first bytes and sizes.
    mapped: Mutex<Vec<(u64, u64)>>,
}

/// A range that does not lie in its reservation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutOfReservation {
    /// First byte.
    pub address: u64,
    /// Bytes.
    pub size: u64,
}

impl std::error::Error for OutOfReservation {}

impl fmt::Display for OutOfReservation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let OutOfReservation { address, size } = self;
        write!(f, "{size} bytes at {address:#x} are not in the reservation")
    }
}

/// A range inside a reservation.
#[derive(Clone, Copy)]
pub struct Slice<'r> {
    /// The reservation lives as long.
    reservation: PhantomData<&'r Reservation>,
    pub(super) address: u64,
    pub(super) size: u64,
}

/// Rows inside a reservation.
#[derive(Clone, Copy)]
pub struct Rows<'r> {
    /// As in [`Slice`].
    reservation: PhantomData<&'r Reservation>,
    pub(super) address: u64,
    /// Bytes from one row to the next.
    pub(super) pitch: u64,
    /// Bytes of a row.
    pub(super) width: u64,
    /// How many.
    pub(super) height: u64,
}

impl Context {
    /// Reserves exactly these addresses.
    ///
    /// # Errors
    ///
    /// Something else has some of them (`CUDA_ERROR_OUT_OF_MEMORY`), or they
    /// are no multiples of the device's granule.
    pub fn reserve(&self, base: u64, size: u64) -> Result<Arc<Reservation>, DriverError> {
        let bytes = size as usize;
        let mut found = 0;
        call!(
            self.calls(),
            cuMemAddressReserve(&mut found, bytes, 0, base, 0)
        )?;
        if found != base {
            call!(self.calls(), cuMemAddressFree(found, bytes))?;
            return Err(DriverError {
                call: "cuMemAddressReserve",
                code: CUresult::CUDA_ERROR_OUT_OF_MEMORY,
                message: format!(
                    "the driver gives {found:#x} instead of the addresses {base:#x} to {:#x}",
                    base + size
                ),
            });
        }
        Ok(Arc::new(Reservation {
            context: self.clone(),
            base,
            size,
            mapped: Mutex::default(),
        }))
    }

    fn location(&self) -> CUmemLocation {
        CUmemLocation {
            type_: CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE,
            id: self.inner.device,
        }
    }

    /// Takes physical memory, which may still hold what others left in it.
    ///
    /// # Errors
    ///
    /// The device has not as much.
    pub fn physical(&self, size: u64) -> Result<Physical, DriverError> {
        let mut properties = CUmemAllocationProp::zeroed();
        properties.type_ = CUmemAllocationType::CU_MEM_ALLOCATION_TYPE_PINNED;
        properties.location = self.location();
        let mut raw = 0;
        call!(
            self.calls(),
            cuMemCreate(&mut raw, size as usize, &properties, 0)
        )?;
        Ok(Physical {
            context: self.clone(),
            raw,
            size,
        })
    }

    /// Copies bytes into device memory; complete on return. Not in order with
    /// any stream.
    ///
    /// # Errors
    ///
    /// Those of the driver.
    pub fn write(&self, to: Slice<'_>, bytes: &[u8]) -> Result<(), DriverError> {
        let size = bytes.len().min(to.size as usize);
        call!(
            self.calls(),
            cuMemcpyHtoD_v2_ptds(to.address, bytes.as_ptr().cast(), size)
        )?;
        self.settle()
    }

    /// Copies bytes out of device memory; complete on return. Not in order with
    /// any stream.
    ///
    /// # Errors
    ///
    /// Those of the driver.
    pub fn read(&self, from: Slice<'_>, bytes: &mut [u8]) -> Result<(), DriverError> {
        let size = bytes.len().min(from.size as usize);
        call!(
            self.calls(),
            cuMemcpyDtoH_v2_ptds(bytes.as_mut_ptr().cast(), from.address, size)
        )
    }

    /// As [`Context::write`], rows that follow each other in `bytes`.
    ///
    /// # Errors
    ///
    /// Those of the driver; `bytes` are not as many as the rows.
    pub fn write_rows(&self, to: Rows<'_>, bytes: &[u8]) -> Result<(), DriverError> {
        to.expect(bytes.len())?;
        let mut copy = to.of_a_copy();
        to.destination(&mut copy);
        copy.srcMemoryType = CUmemorytype::CU_MEMORYTYPE_HOST;
        copy.srcHost = bytes.as_ptr().cast();
        copy.srcPitch = to.width as usize;
        call!(self.calls(), cuMemcpy2D_v2_ptds(&copy))?;
        self.settle()
    }

    /// As [`Context::read`], rows that follow each other in `bytes`.
    ///
    /// # Errors
    ///
    /// Those of the driver; `bytes` are not as many as the rows.
    pub fn read_rows(&self, from: Rows<'_>, bytes: &mut [u8]) -> Result<(), DriverError> {
        from.expect(bytes.len())?;
        let mut copy = from.of_a_copy();
        from.source(&mut copy);
        copy.dstMemoryType = CUmemorytype::CU_MEMORYTYPE_HOST;
        copy.dstHost = bytes.as_mut_ptr().cast();
        copy.dstPitch = from.width as usize;
        call!(self.calls(), cuMemcpy2D_v2_ptds(&copy))
    }

    /// Waits until what this thread has copied into device memory is there: a
    /// copy from pageable memory returns when it has read the memory
    /// (CUDA driver API, "API synchronization behavior").
    pub(super) fn settle(&self) -> Result<(), DriverError> {
        call!(self.calls(), cuStreamSynchronize_ptsz(CUstream::NULL))
    }

    /// Waits until all work in the context is over.
    pub(super) fn synchronize(&self) -> Result<(), DriverError> {
        call!(self.calls(), cuCtxSynchronize())
    }
}

impl Reservation {
    /// First address.
    pub fn base(&self) -> u64 {
        self.base
    }

    /// Maps the whole of some memory, readable and writable by kernels.
    ///
    /// # Errors
    ///
    /// It does not fit, or something is mapped there.
    pub fn map(&self, address: u64, memory: &Physical) -> Result<(), DriverError> {
        let size = memory.size as usize;
        if self.slice(address, memory.size).is_err() {
            return Err(DriverError {
                call: "cuMemMap",
                code: CUresult::CUDA_ERROR_INVALID_VALUE,
                message: "the memory does not fit the reservation".into(),
            });
        }
        let calls = self.context.calls();
        call!(calls, cuMemMap(address, size, 0, memory.raw, 0))?;
        let mapped = self.mapped.lock();
        mapped
            .unwrap_or_else(PoisonError::into_inner)
            .push((address, memory.size));
        let access = CUmemAccessDesc {
            location: self.context.location(),
            flags: CUmemAccess_flags::CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
        };
        call!(calls, cuMemSetAccess(address, size, &access, 1))
    }

    /// A range inside.
    ///
    /// # Errors
    ///
    /// It is not inside.
    pub fn slice(&self, address: u64, size: u64) -> Result<Slice<'_>, OutOfReservation> {
        let end = address.checked_add(size);
        if address < self.base || end.is_none_or(|end| end > self.base + self.size) {
            return Err(OutOfReservation { address, size });
        }
        Ok(Slice {
            reservation: PhantomData,
            address,
            size,
        })
    }

    /// Rows inside: the first byte, the bytes from one row to the next, the
    /// bytes of a row, and how many there are.
    ///
    /// # Errors
    ///
    /// They are not inside.
    pub fn rows(
        &self,
        address: u64,
        pitch: u64,
        width: u64,
        height: u64,
    ) -> Result<Rows<'_>, OutOfReservation> {
        let before_last = pitch.checked_mul(height.saturating_sub(1));
        let size = before_last.and_then(|bytes| bytes.checked_add(width));
        self.slice(address, size.unwrap_or(u64::MAX))?;
        Ok(Rows {
            reservation: PhantomData,
            address,
            pitch,
            width,
            height,
        })
    }
}

impl Rows<'_> {
    fn expect(&self, bytes: usize) -> Result<(), DriverError> {
        if self.width.checked_mul(self.height) == Some(bytes as u64) {
            return Ok(());
        }
        Err(DriverError {
            call: "cuMemcpy2D",
            code: CUresult::CUDA_ERROR_INVALID_VALUE,
            message: "the bytes are not as many as the rows".into(),
        })
    }

    /// A copy of so many bytes and rows.
    pub(super) fn of_a_copy(&self) -> CUDA_MEMCPY2D {
        let mut copy = CUDA_MEMCPY2D::zeroed();
        copy.WidthInBytes = self.width as usize;
        copy.Height = self.height as usize;
        copy
    }

    pub(super) fn destination(&self, copy: &mut CUDA_MEMCPY2D) {
        copy.dstMemoryType = CUmemorytype::CU_MEMORYTYPE_DEVICE;
        copy.dstDevice = self.address;
        copy.dstPitch = self.pitch as usize;
    }

    pub(super) fn source(&self, copy: &mut CUDA_MEMCPY2D) {
        copy.srcMemoryType = CUmemorytype::CU_MEMORYTYPE_DEVICE;
        copy.srcDevice = self.address;
        copy.srcPitch = self.pitch as usize;
    }
}

impl Drop for Physical {
    fn drop(&mut self) {
        // Nobody is left who could act on an error.
        let _ = call!(self.context.calls(), cuMemRelease(self.raw));
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        let calls = self.context.calls();
        let mapped = self.mapped.get_mut();
        let mapped = std::mem::take(mapped.unwrap_or_else(PoisonError::into_inner));
        for (address, size) in mapped {
            // As above; addresses that stay mapped are not handed out again,
            // because the range is then not freed either.
            let _ = call!(calls, cuMemUnmap(address, size as usize));
        }
        let _ = call!(calls, cuMemAddressFree(self.base, self.size as usize));
    }
}
