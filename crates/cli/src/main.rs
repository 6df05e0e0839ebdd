//! The `ringfence` command.
//!
//! `run` checks its arguments before anything starts, preloads Ringfence's
//! library into the program, and merges the results of all processes into one
//! line, one file and one exit code. An error is one message: what, where, what
//! to do.

mod explain;
mod inspect;
mod instrument;
mod manager;
mod options;
mod run;
mod slice;
mod tenants;
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
            // Help that is written to a closed pipe is no failure.
            let _ = error.print();
            return ExitCode::from(if help { 0 } else { exit_code::FAILED });
        }
    };
    let result = match cli.command {
        Command::Run(options) => run::run(&options),
        Command::Instrument(options) => instrument::instrument(&options).map(|()| 0),
        Command::Inspect(options) => inspect::inspect(&options).map(|()| 0),
        Command::Manager(options) => manager::manager(*options),
        Command::Slice(options) => slice::slice(&options).map(|()| 0),
        Command::Cdi(options) => slice::cdi(&options).map(|()| 0),
        Command::Tenants(options) => tenants::tenants(&options).map(|()| 0),
        Command::DeviceWorker(options) => manager::work(*options),
        Command::CompileWorker => return manager::compile(),
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
