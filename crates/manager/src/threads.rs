//! Threads.

use crate::log;

/// Starts a thread. Whether it has.
pub(crate) fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> bool {
    let thread = std::thread::Builder::new().name(name.into()).spawn(work);
    if let Err(error) = &thread {
        log::line(&format!("error: {name} could not be started: {error}"));
    }
    thread.is_ok()
}
