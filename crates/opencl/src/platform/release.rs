//! When it is safe to release events of commands.
//!
//! A platform may run through all commands that wait for a failed event while
//! the program is in `clSetUserEventStatus`. PoCL (3.1) then uses the event of
//! each of them after it has released its own reference, so that the process
//! crashes if there is no other reference. So Ringfence holds the events of its
//! own commands until they are complete, and releases none while any thread is
//! in that call.

use crate::platform::call;
use crate::sys::*;
use parking_lot::Mutex;

/// Threads in `clSetUserEventStatus`, and what is to be released when the last
/// of them has returned.
#[derive(Default)]
struct Setting {
    threads: usize,
    late: Vec<usize>,
    /// Error codes that the program has set as the status of user events.
    failures: Vec<cl_int>,
}

impl Setting {
    /// Whether an event may be released now; otherwise it is kept for later.
    fn may_release(&mut self, event: usize) -> bool {
        if self.threads > 0 {
            self.late.push(event);
        }
        self.threads == 0
    }

    /// A thread has returned: releases what may be released now.
    fn back(&mut self) -> Vec<usize> {
        self.threads = self.threads.saturating_sub(1);
        if self.threads == 0 {
            std::mem::take(&mut self.late)
        } else {
            Vec::new()
        }
    }
}

static SETTING: Mutex<Setting> = Mutex::new(Setting {
    threads: 0,
    late: Vec::new(),
    failures: Vec::new(),
});

/// Releases a reference of Ringfence, now or when that is safe.
pub fn let_go(event: cl_event) {
    if !event.is_null() && SETTING.lock().may_release(event as usize) {
        call!(clReleaseEvent(event));
    }
}

/// Sets a user event's status to that which the program passes.
pub fn set_user_event_status(event: cl_event, status: cl_int) -> cl_int {
    {
        let mut setting = SETTING.lock();
        setting.threads += 1;
        if status < 0 && !setting.failures.contains(&status) {
            setting.failures.push(status);
        }
    }
    let code = call!(clSetUserEventStatus(event, status));
    let late = SETTING.lock().back();
    for event in late {
        call!(clReleaseEvent(event as cl_event));
    }
    code
}

/// Whether the program made a user event fail with this code. A platform may
/// pass it on to all commands that waited for the event; NVIDIA's (driver 580)
/// returns it from `clFinish` while such a command is in the queue.
pub fn is_failure_of_the_program(status: cl_int) -> bool {
    SETTING.lock().failures.contains(&status)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_released_before_the_last_thread_is_back() {
        let mut setting = Setting::default();
        assert!(setting.may_release(1));
        setting.threads += 1;
        setting.threads += 1;
        assert!(!setting.may_release(2));
        assert!(setting.back().is_empty());
        assert!(!setting.may_release(3));
        assert_eq!(setting.back(), [2, 3]);
        assert!(setting.may_release(4));
        assert!(setting.back().is_empty());
    }
}
