//! Host memory that another process can change at any time, as where copies come
//! from and go to.

use super::{Context, Rows, Stream};
use crate::DriverError;
use crate::sys::{CUDA_MEMCPY2D, CUmemorytype, CUresult};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Host memory that the device may copy from and to by itself, if the driver
/// allows it.
pub struct HostMemory<O: AsRef<[AtomicU64]>> {
    context: Context,
    /// First byte, if the driver knows the memory.
    registered: Option<u64>,
    /// Streams copy from or to it, or have done so.
    is_used: AtomicBool,
    /// Keeps the memory; dropped after the driver has let go of it.
    owner: O,
}

impl<O: AsRef<[AtomicU64]>> HostMemory<O> {
    /// Memory that the driver is not told of: it copies through its own.
    pub fn unregistered(context: &Context, owner: O) -> HostMemory<O> {
        HostMemory {
            context: context.clone(),
            registered: None,
            is_used: AtomicBool::new(false),
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

    /// Whether the driver knows the memory.
    pub fn is_registered(&self) -> bool {
        self.registered.is_some()
    }

    /// The memory.
    pub fn owner(&self) -> &O {
        &self.owner
    }
}

impl<O: AsRef<[AtomicU64]>> Drop for HostMemory<O> {
    fn drop(&mut self) {
        if *self.is_used.get_mut() {
            // Nothing may come into memory that is another's then; an error says that
            // nothing does any more.
            let _ = self.context.synchronize();
        }
        if let Some(address) = self.registered {
            let first = std::ptr::with_exposed_provenance_mut(address as usize);
            // Nobody is left who could act on an error.
            let _ = call!(self.context.calls(), cuMemHostUnregister(first));
        }
    }
}

/// The words hold as many bytes as the rows, from a byte on.
fn fits(
    call: &'static str,
    rows: Rows<'_>,
    (words, first): (&[AtomicU64], u64),
) -> Result<(), DriverError> {
    let end = rows.width.checked_mul(rows.height);
    let end = end.and_then(|bytes| bytes.checked_add(first));
    if end.is_some_and(|end| end <= size_of_val(words) as u64) {
        return Ok(());
    }
    Err(DriverError {
        call,
        code: CUresult::CUDA_ERROR_INVALID_VALUE,
        message: "the memory holds fewer bytes than the rows".into(),
    })
}

/// A copy of host memory to rows.
fn to_rows(to: Rows<'_>, first: *const u8) -> CUDA_MEMCPY2D {
    let mut copy = to.of_a_copy();
    to.destination(&mut copy);
    copy.srcMemoryType = CUmemorytype::CU_MEMORYTYPE_HOST;
    copy.srcHost = first.cast();
    copy.srcPitch = to.width as usize;
    copy
}

/// A copy of rows to host memory.
fn of_rows(from: Rows<'_>, first: *const u8) -> CUDA_MEMCPY2D {
    let mut copy = from.of_a_copy();
    from.source(&mut copy);
    copy.dstMemoryType = CUmemorytype::CU_MEMORYTYPE_HOST;
    copy.dstHost = first.cast_mut().cast();
    copy.dstPitch = from.width as usize;
    copy
}

impl Stream {
    /// Puts in a copy of host memory, from this byte on, to rows. It may change until it
    /// is made: each byte is then an old or a new one.
    ///
    /// # Errors
    ///
    /// Those of the driver; the memory has not as many bytes.
    pub fn write_rows_of<O: AsRef<[AtomicU64]>>(
        &self,
        to: Rows<'_>,
        (memory, first): (&HostMemory<O>, u64),
    ) -> Result<(), DriverError> {
        let first = memory.used(first, to)?;
        self.put_copy(&to_rows(to, first))
    }

    /// Puts in a copy of rows to host memory, from this byte on.
    ///
    /// # Errors
    ///
    /// Those of the driver; the memory has not as many bytes.
    pub fn read_rows_to<O: AsRef<[AtomicU64]>>(
        &self,
        from: Rows<'_>,
        (memory, first): (&HostMemory<O>, u64),
    ) -> Result<(), DriverError> {
        let first = memory.used(first, from)?;
        self.put_copy(&of_rows(from, first))
    }
}

impl<O: AsRef<[AtomicU64]>> HostMemory<O> {
    /// A byte of it, from which on streams use as many as the rows have.
    fn used(&self, first: u64, rows: Rows<'_>) -> Result<*const u8, DriverError> {
        let words = self.owner.as_ref();
        fits("cuMemcpy2DAsync", rows, (words, first))?;
        self.is_used.store(true, Ordering::Release);
        Ok(words.as_ptr().cast::<u8>().wrapping_add(first as usize))
    }
}

impl Context {
    /// As [`Context::write_rows`], from memory that may change meanwhile: each
    /// byte is then an old or a new one.
    ///
    /// # Errors
    ///
    /// Those of the driver; the words are fewer than the rows.
    pub fn write_rows_of(&self, to: Rows<'_>, words: &[AtomicU64]) -> Result<(), DriverError> {
        fits("cuMemcpy2D", to, (words, 0))?;
        let copy = to_rows(to, words.as_ptr().cast());
        call!(self.calls(), cuMemcpy2D_v2_ptds(&copy))?;
        self.settle()
    }

    /// As [`Context::read_rows`], into memory that may change meanwhile.
    ///
    /// # Errors
    ///
    /// Those of the driver; the words are fewer than the rows.
    pub fn read_rows_to(&self, from: Rows<'_>, words: &[AtomicU64]) -> Result<(), DriverError> {
        fits("cuMemcpy2D", from, (words, 0))?;
        let copy = of_rows(from, words.as_ptr().cast());
        call!(self.calls(), cuMemcpy2D_v2_ptds(&copy))
    }
}
