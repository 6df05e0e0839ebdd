//! Events.

use crate::convert::{functions, per_thread_functions, pick, put};
use driver::sys::*;

mod made {
    use super::*;
    functions! { gpu;
        fn cuEventCreate(event: *mut CUevent, flags: u32) {
            put(event, CUevent(gpu.event_create(flags)?))
        }
        fn cuEventDestroy(event: CUevent) {
            gpu.event_destroy(event.0)
        }
        fn cuEventDestroy_v2(event: CUevent) {
            gpu.event_destroy(event.0)
        }
        fn cuEventQuery(event: CUevent) {
            gpu.event_query(event.0)
        }
        fn cuEventSynchronize(event: CUevent) {
            gpu.event_synchronize(event.0)
        }
        fn cuEventElapsedTime(milliseconds: *mut f32, start: CUevent, end: CUevent) {
            put(milliseconds, gpu.event_elapsed(start.0, end.0)?)
        }
        fn cuEventElapsedTime_v2(milliseconds: *mut f32, start: CUevent, end: CUevent) {
            put(milliseconds, gpu.event_elapsed(start.0, end.0)?)
        }
    }
}

/// `CU_EVENT_RECORD_EXTERNAL`
const EXTERNAL: u32 = 1;

per_thread_functions! { gpu, default, register_records;
    fn cuEventRecord | cuEventRecord_ptsz(event: CUevent, stream: CUstream) {
        gpu.event_record(event.0, pick(stream, default))
    }
    fn cuEventRecordWithFlags | cuEventRecordWithFlags_ptsz(event: CUevent, stream: CUstream, flags: u32) {
        if flags & EXTERNAL != 0 {
            gpu.event_record_external(event.0, pick(stream, default))
        } else {
            gpu.event_record(event.0, pick(stream, default))
        }
    }
}

/// Enters this file's functions into the table.
pub fn register(api: &mut driver::Api) {
    made::register(api);
    register_records(api);
}
