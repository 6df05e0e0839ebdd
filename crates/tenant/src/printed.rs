//! What kernels print. They leave it in the tenant's memory (`model::printed`);
//! it becomes text here, where CUDA shows it: when the program waits for its
//! kernels (CUDA C++ Programming Guide, "Formatted Output").

use crate::convert::Answer;
use crate::link::Link;
use crate::state::Kernel;
use protocol::{Reply, Request};
use std::sync::atomic::Ordering;

/// Bytes of text that are collected before they are written.
const TOGETHER: usize = 64 << 10;

/// How many launches may print before what they have printed is looked for:
/// a program may never wait, and the buffer is as large as it is.
const LAUNCHES: u32 = 64;

/// A kernel was launched.
pub(crate) fn launched(link: &Link, kernel: &Kernel) {
    if !kernel.prints {
        return;
    }
    let before = link.state.unprinted.fetch_add(1, Ordering::AcqRel);
    if (before + 1).is_multiple_of(LAUNCHES) {
        show(link);
    }
}

/// The answer of a call that shows what kernels have printed.
pub(crate) fn behind(link: &Link, answer: Answer) -> Answer {
    show(link);
    answer
}

/// Writes what kernels have printed to the program's standard output. Waits for
/// none.
pub(crate) fn show(link: &Link) {
    let unprinted = &link.state.unprinted;
    if unprinted.load(Ordering::Acquire) == 0 {
        return;
    }
    // One thread after the other: what was printed first comes first.
    let _one = link.state.printing.lock();
    unprinted.store(0, Ordering::Release);
    loop {
        let mut bytes = Vec::new();
        let left = match link.ask(&Request::Printed, &[], |payload| bytes.extend(payload)) {
            Ok(Reply::Printed(left)) => left,
            Ok(_) => {
                link.astray();
                return;
            }
            // The manager is gone, or the device.
            Err(_) => return,
        };
        let is_garbage = !write(link, &bytes) || left.is_garbage;
        if is_garbage {
            link.say("a kernel has overwritten what kernels print: what is not readable any more is dropped");
        }
        if left.lost > 0 {
            link.say(&format!(
                "{} calls of printf in kernels found no room and are lost; cudaDeviceSetLimit with cudaLimitPrintfFifoSize gives more",
                left.lost
            ));
        }
        if !left.is_idle {
            unprinted.fetch_add(1, Ordering::AcqRel);
        }
        if !left.has_more {
            return;
        }
    }
}

/// Writes the text of records. Whether all were some.
fn write(link: &Link, records: &[u8]) -> bool {
    let (mut out, mut are_all) = (Vec::new(), true);
    for record in model::printed::records(records) {
        match record {
            Some(record) => record.write(&mut out),
            None => are_all = false,
        }
        if out.len() >= TOGETHER {
            link.print(&out);
            out.clear();
        }
    }
    if !out.is_empty() {
        link.print(&out);
    }
    are_all
}
