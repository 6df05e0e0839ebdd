//! Streams that are in order with no other, events, and what is put into
//! streams.

use super::{Context, Rows, Slice};
use crate::DriverError;
use crate::sys::{CUDA_MEMCPY2D, CUevent, CUevent_flags, CUresult, CUstream, CUstream_flags};

/// A stream. Work that is in it when it is dropped is still done.
pub struct Stream {
    pub(super) context: Context,
    pub(super) raw: CUstream,
}

/// An event.
pub struct Event {
    context: Context,
    raw: CUevent,
}

impl Context {
    /// Makes a stream that does not wait for any other.
    ///
    /// # Errors
    ///
    /// Those of the driver.
    pub fn stream(&self) -> Result<Stream, DriverError> {
        let mut raw = CUstream::NULL;
        let flags = CUstream_flags::CU_STREAM_NON_BLOCKING.0;
        call!(self.calls(), cuStreamCreate(&mut raw, flags))?;
        Ok(Stream {
            context: self.clone(),
            raw,
        })
    }

    /// Makes an event; `is_timed` if [`Event::since`] will be asked for.
    ///
    /// # Errors
    ///
    /// Those of the driver.
    pub fn event(&self, is_timed: bool) -> Result<Event, DriverError> {
        let mut raw = CUevent::NULL;
        let flags = match is_timed {
            true => CUevent_flags::CU_EVENT_DEFAULT,
            false => CUevent_flags::CU_EVENT_DISABLE_TIMING,
        };
        call!(self.calls(), cuEventCreate(&mut raw, flags.0))?;
        Ok(Event {
            context: self.clone(),
            raw,
        })
    }
}

/// Whether a query says that all is over.
fn is_over(answer: Result<(), DriverError>) -> Result<bool, DriverError> {
    match answer {
        Ok(()) => Ok(true),
        Err(error) if error.code == CUresult::CUDA_ERROR_NOT_READY => Ok(false),
        Err(error) => Err(error),
    }
}

impl Stream {
    /// The driver's handle, to tell the device itself about it.
    pub fn raw(&self) -> u64 {
        self.raw.0
    }

    /// Whether all work that was put in is over. Never waits.
    ///
    /// # Errors
    ///
    /// Those of the driver.
    pub fn is_idle(&self) -> Result<bool, DriverError> {
        is_over(call!(self.context.calls(), cuStreamQuery(self.raw)))
    }

    /// What is put in from now on waits for what `event` was last recorded
    /// behind.
    ///
    /// # Errors
    ///
    /// Those of the driver.
    pub fn wait_for(&self, event: &Event) -> Result<(), DriverError> {
        let calls = self.context.calls();
        call!(calls, cuStreamWaitEvent(self.raw, event.raw, 0))
    }

    /// Puts in a copy from device memory to device memory, of the bytes that
    /// both have.
    ///
    /// # Errors
    ///
    /// Those of the driver.
    pub fn copy(&self, to: Slice<'_>, from: Slice<'_>) -> Result<(), DriverError> {
        let size = to.size.min(from.size) as usize;
        let calls = self.context.calls();
        call!(
            calls,
            cuMemcpyDtoDAsync_v2(to.address, from.address, size, self.raw)
        )
    }

    /// As [`Stream::copy`], for rows.
    ///
    /// # Errors
    ///
    /// Those of the driver; the rows are not equally many and long.
    pub fn copy_rows(&self, to: Rows<'_>, from: Rows<'_>) -> Result<(), DriverError> {
        if (to.width, to.height) != (from.width, from.height) {
            return Err(DriverError {
                call: "cuMemcpy2DAsync",
                code: CUresult::CUDA_ERROR_INVALID_VALUE,
                message: "the rows of a copy differ".into(),
            });
        }
        let mut copy = to.of_a_copy();
        to.destination(&mut copy);
        from.source(&mut copy);
        self.put_copy(&copy)
    }

    /// Puts in a copy. Its sides live until it is made.
    pub(super) fn put_copy(&self, copy: &CUDA_MEMCPY2D) -> Result<(), DriverError> {
        call!(self.context.calls(), cuMemcpy2DAsync_v2(copy, self.raw))
    }

    /// Puts in a store of one value of 1, 2 or 4 bytes (`element`) to all of
    /// some rows, whose widths are multiples of it.
    ///
    /// # Errors
    ///
    /// Those of the driver; there are no such elements.
    pub fn fill(&self, rows: Rows<'_>, element: u32, value: u32) -> Result<(), DriverError> {
        let calls = self.context.calls();
        let (at, pitch, height) = (rows.address, rows.pitch as usize, rows.height as usize);
        let is_whole = matches!(element, 1 | 2 | 4) && rows.width.is_multiple_of(element.into());
        if !is_whole {
            return Err(DriverError {
                call: "cuMemsetD2D32Async",
                code: CUresult::CUDA_ERROR_INVALID_VALUE,
                message: "the rows do not hold whole elements".into(),
            });
        }
        let width = (rows.width / u64::from(element)) as usize;
        let stream = self.raw;
        match (element, height) {
            (1, 1) => call!(calls, cuMemsetD8Async(at, value as u8, width, stream)),
            (2, 1) => call!(calls, cuMemsetD16Async(at, value as u16, width, stream)),
            (_, 1) => call!(calls, cuMemsetD32Async(at, value, width, stream)),
            (1, _) => call!(
                calls,
                cuMemsetD2D8Async(at, pitch, value as u8, width, height, stream)
            ),
            (2, _) => call!(
                calls,
                cuMemsetD2D16Async(at, pitch, value as u16, width, height, stream)
            ),
            _ => call!(
                calls,
                cuMemsetD2D32Async(at, pitch, value, width, height, stream)
            ),
        }
    }
}

impl Event {
    /// Records the event behind the work that is in a stream.
    ///
    /// # Errors
    ///
    /// Those of the driver.
    pub fn record(&self, stream: &Stream) -> Result<(), DriverError> {
        call!(self.context.calls(), cuEventRecord(self.raw, stream.raw))
    }

    /// Whether the work before the event is over. Never waits.
    ///
    /// # Errors
    ///
    /// Those of the driver.
    pub fn is_over(&self) -> Result<bool, DriverError> {
        is_over(call!(self.context.calls(), cuEventQuery(self.raw)))
    }

    /// Milliseconds from an earlier event to this one.
    ///
    /// # Errors
    ///
    /// One of them is not over, was not recorded, or is not timed.
    pub fn since(&self, start: &Event) -> Result<f32, DriverError> {
        let mut milliseconds = 0.0;
        call!(
            self.context.calls(),
            cuEventElapsedTime(&mut milliseconds, start.raw, self.raw)
        )?;
        Ok(milliseconds)
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        // Nobody is left who could act on an error.
        let _ = call!(self.context.calls(), cuStreamDestroy_v2(self.raw));
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        // As above.
        let _ = call!(self.context.calls(), cuEventDestroy_v2(self.raw));
    }
}
