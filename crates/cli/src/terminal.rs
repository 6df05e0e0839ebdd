//! Text for the terminal, or a pipe, which may be full or closed by its reader.
//! Messages beside a run are then lost: they must not change its exit code.

use anyhow::{Context, Result};
use std::io::{ErrorKind, Write as _};

/// Prints `ringfence: ` and a message to stderr.
pub fn say(message: &str) {
    line(&format!("ringfence: {message}"));
}

/// Prints a line to stderr.
pub fn line(text: &str) {
    let _ = std::io::stderr().write_all(format!("{text}\n").as_bytes());
}

/// Prints the requested output to stdout. A reader may close the pipe before
/// the end.
///
/// # Errors
///
/// It cannot be written.
pub fn print(text: &str) -> Result<()> {
    let mut out = std::io::stdout();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        result => result.context("cannot write to the standard output"),
    }
}
