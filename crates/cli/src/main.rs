//! The `ringfence` command.
//!
//! `run` is the front door: it checks what it is given before anything
//! starts, puts Ringfence's library in front of the program, and turns what
//! the processes leave into one line, one file and one exit code. What it
//! cannot do, it says in one message: what, where, what to do.

mod explain;
mod inspect;
mod instrument;
mod options;
mod run;
mod terminal;

use clap::Parser;
use model::exit_code;
use options::{Cli, Command};
use std::process::ExitCode;

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            let help = !error.use_stderr();
            // Writing help to a closed pipe is no reason to fail.
            let _ = error.print();
            return ExitCode::from(if help { 0 } else { exit_code::FAILED });
        }
    };
    let result = match cli.command {
        Command::Run(options) => run::run(&options),
        Command::Instrument(options) => instrument::instrument(&options).map(|()| 0),
        Command::Inspect(options) => inspect::inspect(&options).map(|()| 0),
        Command::Explain { rule } => explain::explain(rule.as_deref()).map(|()| 0),
    };
    match result {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            terminal::say(&format!("error: {error:#}"));
            ExitCode::from(exit_code::FAILED)
        }
    }
}
