//! Text for the terminal, which may be full, or a pipe that nobody reads any
//! more. Messages beside a run are then lost: they must not change its exit
//! code.

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

/// Prints what the user asked for to stdout. A reader that needs no more of it
/// may go.
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
