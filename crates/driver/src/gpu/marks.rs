//! Places in streams, by events of Ringfence's own, and streams that are idle.

use super::{Gpu, check, missing};
use crate::sys::{CUevent, CUevent_flags, CUresult, CUstream};
use crate::{DriverError, Mark, SupportStream};

impl Gpu {
    pub(super) fn mark_stream(&self, stream: SupportStream) -> Result<Mark, DriverError> {
        self.within(|context| {
            let mut event = CUevent::NULL;
            let flags = CUevent_flags::CU_EVENT_DISABLE_TIMING.0;
            call!(self, cuEventCreate(&mut event, flags))?;
            let recorded = match stream {
                SupportStream::Program {
                    handle,
                    per_thread: true,
                } => call!(self, cuEventRecord_ptsz(event, CUstream(handle))),
                SupportStream::Program { handle, .. } => {
                    call!(self, cuEventRecord(event, CUstream(handle)))
                }
                SupportStream::Own => call!(self, cuEventRecord(event, self.stream(context)?)),
                SupportStream::Guard => {
                    call!(self, cuEventRecord(event, self.guard_stream(context)?))
                }
            };
            let mark = Mark { handle: event.0 };
            recorded
                .map(|()| mark)
                .inspect_err(|_| self.destroy_event(mark))
        })
    }

    pub(super) fn wait_for_event(&self, mark: Mark) -> Result<(), DriverError> {
        let waited = self.within(|_| call!(self, cuEventSynchronize(CUevent(mark.handle))));
        self.destroy_event(mark);
        waited
    }

    pub(super) fn is_event_over(&self, mark: Mark) -> Result<bool, DriverError> {
        self.within(|_| answer(call!(self, cuEventQuery(CUevent(mark.handle)))))
    }

    pub(super) fn destroy_event(&self, mark: Mark) {
        // A failure leaves an event behind, or it went with its context.
        let _ = call!(self, cuEventDestroy_v2(CUevent(mark.handle)));
    }

    pub(super) fn is_stream_idle(&self, stream: SupportStream) -> Result<bool, DriverError> {
        self.within(|context| {
            answer(match stream {
                SupportStream::Program {
                    handle,
                    per_thread: true,
                } => call!(self, cuStreamQuery_ptsz(CUstream(handle))),
                SupportStream::Program { handle, .. } => {
                    call!(self, cuStreamQuery(CUstream(handle)))
                }
                SupportStream::Own => call!(self, cuStreamQuery(self.stream(context)?)),
                SupportStream::Guard => call!(self, cuStreamQuery(self.guard_stream(context)?)),
            })
        })
    }
}

fn answer(result: Result<(), DriverError>) -> Result<bool, DriverError> {
    match result {
        Ok(()) => Ok(true),
        Err(error) if error.code == CUresult::CUDA_ERROR_NOT_READY => Ok(false),
        Err(error) => Err(error),
    }
}
