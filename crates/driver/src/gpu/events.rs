//! Events of Ringfence's own in streams, and streams that are idle.

use super::{Gpu, check, missing};
use crate::sys::{CUevent, CUevent_flags, CUresult, CUstream};
use crate::{DriverError, StreamEvent, SupportStream};

impl Gpu {
    pub(super) fn record_in_stream(
        &self,
        stream: SupportStream,
    ) -> Result<StreamEvent, DriverError> {
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
            let event = StreamEvent { handle: event.0 };
            recorded
                .map(|()| event)
                .inspect_err(|_| self.destroy_event(event))
        })
    }

    pub(super) fn wait_for_event(&self, event: StreamEvent) -> Result<(), DriverError> {
        let waited = self.within(|_| call!(self, cuEventSynchronize(CUevent(event.handle))));
        self.destroy_event(event);
        waited
    }

    pub(super) fn is_event_over(&self, event: StreamEvent) -> Result<bool, DriverError> {
        self.within(|_| answer(call!(self, cuEventQuery(CUevent(event.handle)))))
    }

    pub(super) fn destroy_event(&self, event: StreamEvent) {
        // If this fails, the event is leaked, or was destroyed with its
        // context.
        let _ = call!(self, cuEventDestroy_v2(CUevent(event.handle)));
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
