//! Host memory that another process can change at any time, as where copies come
//! from and go to.

use super::{Context, Rows};
use crate::DriverError;
use crate::sys::{CUmemorytype, CUresult};
use std::sync::atomic::AtomicU64;

/// Host memory that the device may copy from and to by itself, if the driver
/// allows it.
pub struct HostMemory<O: AsRef<[AtomicU64]>> {
    context: Context,
    /// First byte, if the driver knows the memory.
    registered: Option<u64>,
    /// Keeps the memory; dropped after the driver has let go of it.
    owner: O,
}

impl<O: AsRef<[AtomicU64]>> HostMemory<O> {
    /// Memory that the driver is not told of: it copies through its own.
    pub fn unregistered(context: &Context, owner: O) -> HostMemory<O> {
        HostMemory {
            context: context.clone(),
            registered: None,
            owner,
        }
    }

    /// Makes the memory known to the driver (cuMemHostRegister), which pins it.
    ///
    /// # Errors
    ///
    /// The driver cannot do that with this memory.
    pub fn register(&mut self) -> Result<(), DriverError> {
        let words = self.owner.as_ref();
        if self.registered.is_some() || words.is_empty() {
            return Ok(());
        }
        let first = words.as_ptr().cast_mut();
        call!(
            self.context.calls(),
            cuMemHostRegister_v2(first.cast(), size_of_val(words), 0)
        )?;
        self.registered = Some(first.expose_provenance() as u64);
        Ok(())
    }

    /// The memory.
    pub fn owner(&self) -> &O {
        &self.owner
    }
}

impl<O: AsRef<[AtomicU64]>> Drop for HostMemory<O> {
    fn drop(&mut self) {
        if let Some(address) = self.registered {
            let first = std::ptr::with_exposed_provenance_mut(address as usize);
            // Nobody is left who could act on an error.
            let _ = call!(self.context.calls(), cuMemHostUnregister(first));
        }
    }
}

/// The words hold as many bytes as the rows.
fn fits(rows: Rows<'_>, words: &[AtomicU64]) -> Result<(), DriverError> {
    let bytes = rows.width.checked_mul(rows.height);
    if bytes.is_some_and(|bytes| bytes <= size_of_val(words) as u64) {
        return Ok(());
    }
    Err(DriverError {
        call: "cuMemcpy2D",
        code: CUresult::CUDA_ERROR_INVALID_VALUE,
        message: "the memory holds fewer bytes than the rows".into(),
    })
}

impl Context {
    /// As [`Context::write_rows`], from memory that may change meanwhile: each
    /// byte is then an old or a new one.
    ///
    /// # Errors
    ///
    /// Those of the driver; the words are fewer than the rows.
    pub fn write_rows_of(&self, to: Rows<'_>, words: &[AtomicU64]) -> Result<(), DriverError> {
        fits(to, words)?;
        let mut copy = to.of_a_copy();
        to.destination(&mut copy);
        copy.srcMemoryType = CUmemorytype::CU_MEMORYTYPE_HOST;
        copy.srcHost = words.as_ptr().cast();
        copy.srcPitch = to.width as usize;
        call!(self.calls(), cuMemcpy2D_v2_ptds(&copy))?;
        self.settle()
    }

    /// As [`Context::read_rows`], into memory that may change meanwhile.
    ///
    /// # Errors
    ///
    /// Those of the driver; the words are fewer than the rows.
    pub fn read_rows_to(&self, from: Rows<'_>, words: &[AtomicU64]) -> Result<(), DriverError> {
        fits(from, words)?;
        let mut copy = from.of_a_copy();
        from.source(&mut copy);
        copy.dstMemoryType = CUmemorytype::CU_MEMORYTYPE_HOST;
        copy.dstHost = words.as_ptr().cast_mut().cast();
        copy.dstPitch = from.width as usize;
        call!(self.calls(), cuMemcpy2D_v2_ptds(&copy))
    }
}
