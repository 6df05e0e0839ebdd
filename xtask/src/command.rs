//! Starts programs, with errors that say which one failed and how.

use anyhow::{Context, Result, ensure};
use std::ffi::OsStr;
use std::process::Command;

/// `program` with `arguments`, to be run in the workspace's folder.
pub fn command<S: AsRef<OsStr>>(
    program: impl AsRef<OsStr>,
    arguments: impl IntoIterator<Item = S>,
) -> Command {
    let mut command = Command::new(program);
    command
        .args(arguments)
        .current_dir(crate::workspace::root());
    command
}

/// `cargo` with `arguments`: the one that runs this step.
pub fn cargo(arguments: &[&str]) -> Command {
    command(
        std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()),
        arguments,
    )
}

/// Runs it to the end, its output going to the terminal.
///
/// # Errors
///
/// It cannot be started, or does not exit with 0.
pub fn run(command: &mut Command) -> Result<()> {
    let status = command
        .status()
        .with_context(|| format!("failed to start {}", describe(command)))?;
    ensure!(
        status.success(),
        "{} ended with {status}",
        describe(command)
    );
    Ok(())
}

/// Runs it to the end and returns what it wrote to standard output.
///
/// # Errors
///
/// As [`run`]; what it wrote to standard error is in the error.
pub fn output(command: &mut Command) -> Result<String> {
    let output = command
        .output()
        .with_context(|| format!("failed to start {}", describe(command)))?;
    ensure!(
        output.status.success(),
        "{} ended with {}:\n{}",
        describe(command),
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

fn describe(command: &Command) -> String {
    let mut text = format!("`{}", command.get_program().display());
    for argument in command.get_args() {
        text += &format!(" {}", argument.display());
    }
    text + "`"
}
