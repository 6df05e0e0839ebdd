//! NVIDIA's Multi-Process Service, in a folder of its own.

use crate::isolation::process::Program;
use anyhow::{Context, Result, ensure};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use tempfile::TempDir;

/// What it may take to start, and to end.
const LONG: Duration = Duration::from_secs(15);

/// Ends the service as soon as its standard input ends: also when the bench is
/// killed.
const SCRIPT: &str = "nvidia-cuda-mps-control -f & daemon=$!; read -r line; \
    echo quit | nvidia-cuda-mps-control; wait $daemon";

/// The service, until this is dropped.
pub struct Mps {
    program: Program,
    folder: TempDir,
}

impl Mps {
    /// Starts it.
    ///
    /// # Errors
    ///
    /// It is not installed, or does not start.
    pub fn start() -> Result<Mps> {
        let folder = tempfile::tempdir().context("failed to make a folder")?;
        for name in ["pipe", "log"] {
            std::fs::create_dir(folder.path().join(name)).context("failed to make a folder")?;
        }
        let mut command = Command::new("sh");
        command.args(["-c", SCRIPT]);
        Mps::join(&mut command, folder.path());
        let mut program = Program::start(&mut command)?;
        let control = folder.path().join("pipe/control");
        let is_there = program.wait_for(LONG, |program| {
            control.exists() || program.ended().is_some()
        });
        ensure!(
            is_there && program.ended().is_none() && control.exists(),
            "nvidia-cuda-mps-control does not start: {}",
            program.error()
        );
        Ok(Mps { program, folder })
    }

    /// Lets a program that is started in this folder take part.
    fn join(command: &mut Command, folder: &Path) {
        command
            .env("CUDA_MPS_PIPE_DIRECTORY", folder.join("pipe"))
            .env("CUDA_MPS_LOG_DIRECTORY", folder.join("log"));
    }

    /// Lets a program take part.
    pub fn admit(&self, command: &mut Command) {
        Mps::join(command, self.folder.path());
    }

    /// What the service says, for an error.
    pub fn log(&self) -> String {
        let read = |name: &str| {
            let path: PathBuf = self.folder.path().join("log").join(name);
            std::fs::read_to_string(path).unwrap_or_default()
        };
        let text = read("control.log") + &read("server.log");
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(5)..].join("; ")
    }
}

impl Drop for Mps {
    fn drop(&mut self) {
        self.program.end_input();
        // What is left after that is killed with the program.
        self.program
            .wait_for(LONG, |program| program.ended().is_some());
    }
}
