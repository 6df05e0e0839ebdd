//! What a stream capture forbids other calls (CUDA driver API,
//! `cuThreadExchangeStreamCaptureMode`), for the devices that are not a GPU.
//!
//! Calls that a capture cannot record, and that may have to wait for the device,
//! fail as the modes of the capture and of the calling thread say. That was
//! measured for each of them in each mode on driver 580.

use std::cell::Cell;
use std::thread::ThreadId;

/// What a capture forbids, and what a thread lets captures forbid
/// (`CUstreamCaptureMode`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CaptureMode {
    /// Such calls, in all threads.
    Global,
    /// Such calls, in the thread that began the capture.
    ThreadLocal,
    /// None.
    Relaxed,
}

thread_local! {
    static THREAD: Cell<CaptureMode> = const { Cell::new(CaptureMode::Global) };
}

impl CaptureMode {
    /// The mode of the driver's number.
    pub fn of(number: u32) -> Option<CaptureMode> {
        [
            CaptureMode::Global,
            CaptureMode::ThreadLocal,
            CaptureMode::Relaxed,
        ]
        .into_iter()
        .find(|mode| *mode as u32 == number)
    }

    /// The mode of this thread becomes this one; what it was.
    pub fn exchange(self) -> CaptureMode {
        THREAD.replace(self)
    }

    /// Whether a capture of this mode, which `beginner` has begun, forbids this
    /// thread such calls.
    pub fn forbids(self, beginner: ThreadId) -> bool {
        // (Destructors of other variables of the thread may call, too.)
        let thread = THREAD.try_with(Cell::get).unwrap_or(CaptureMode::Global);
        match (thread, self) {
            (CaptureMode::Relaxed, _) | (_, CaptureMode::Relaxed) => false,
            (CaptureMode::Global, CaptureMode::Global) => true,
            _ => beginner == std::thread::current().id(),
        }
    }
}
