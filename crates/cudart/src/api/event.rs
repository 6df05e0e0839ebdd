//! Events.

use crate::generated::types::*;
use crate::state::ready;
use driver::sys::CUevent;

fn create(out: *mut cudaEvent_t, flags: u32) -> Result<(), cudaError_t> {
    ready()?;
    let mut event = CUevent::NULL;
    // The runtime's flags are the driver's.
    cu!(cuEventCreate(&raw mut event, flags))?;
    put!(out, event)
}

runtime! {
    /// A new event.
    fn cudaEventCreate(event: *mut cudaEvent_t) {
        create(event, 0)
    }

    /// A new event with flags.
    fn cudaEventCreateWithFlags(event: *mut cudaEvent_t, flags: u32) {
        create(event, flags)
    }

    /// Enqueues an event.
    fn cudaEventRecord / cudaEventRecord_ptsz [stream] (event: cudaEvent_t, stream: cudaStream_t) {
        ready()?;
        cu!(cuEventRecord(event, stream))
    }

    /// Enqueues an event with flags.
    fn cudaEventRecordWithFlags / cudaEventRecordWithFlags_ptsz [stream] (
        event: cudaEvent_t, stream: cudaStream_t, flags: u32
    ) {
        ready()?;
        cu!(cuEventRecordWithFlags(event, stream, flags))
    }

    /// Has an event passed?
    fn cudaEventQuery(event: cudaEvent_t) {
        ready()?;
        cu!(cuEventQuery(event))
    }

    /// Waits for an event.
    fn cudaEventSynchronize(event: cudaEvent_t) {
        ready()?;
        cu!(cuEventSynchronize(event))
    }

    /// Destroys an event.
    fn cudaEventDestroy(event: cudaEvent_t) {
        ready()?;
        cu!(cuEventDestroy_v2(event))
    }

    /// Milliseconds between two events.
    fn cudaEventElapsedTime(ms: *mut f32, start: cudaEvent_t, end: cudaEvent_t) {
        ready()?;
        match crate::state::api()?.cuEventElapsedTime_v2 {
            Some(_) => cu!(cuEventElapsedTime_v2(ms, start, end)),
            None => cu!(cuEventElapsedTime(ms, start, end)),
        }
    }
}
