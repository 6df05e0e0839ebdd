//! Any text: the verifier of fenced PTX never panics, and takes a time that is in
//! proportion to the text; of the text, and of what the pass makes of it in each
//! form. (That what is accepted stays in its partition is tested by running it:
//! `crates/runtime/tests/fence.rs`.)
//! Seeds: what `ringfence instrument --protect fence` makes of
//! `crates/ptx/tests/data`, and the data itself.
#![no_main]

use instrument::{FenceForm, fence, verify_contained};
use rustix::time::{ClockId, clock_gettime};
use std::time::Duration;

/// For each byte of a text; a hundred times what it takes, under the fuzzer.
const FOR_EACH_BYTE: Duration = Duration::from_micros(200);

/// What this thread has computed so far: on a machine that does other work, too,
/// the clock on the wall says nothing of the text.
fn computed() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

fn judge(text: &str) {
    let start = computed();
    let _ = verify_contained(text);
    let allowed = Duration::from_secs(1) + FOR_EACH_BYTE * text.len() as u32;
    let took = computed() - start;
    assert!(took < allowed, "{} bytes took {took:?}", text.len());
}

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return;
    };
    judge(text);
    for form in [FenceForm::Mask, FenceForm::Modulo, FenceForm::Check] {
        if let Ok(fenced) = fence(text, form) {
            judge(&fenced.text);
        }
    }
});
