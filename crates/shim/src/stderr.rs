//! Lines for people.

/// Prints one line to stderr.
pub fn say(message: &str) {
    runtime::write_stderr(&format!("ringfence: {message}\n"));
}
