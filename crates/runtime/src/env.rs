//! What all services share: what the user asked for, the device, and where
//! findings and errors go.

use driver::Driver;
use host::Output;
use host::stacks::{self, Stack};
use model::Settings;
use report::Event;
use std::sync::Arc;

/// The runtime could not start; the program should run without it.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The log file or the session directory cannot be written.
    #[error("{0}")]
    Output(String),
    /// The folder of instrumented modules cannot be used.
    #[error(transparent)]
    Cache(#[from] cache::FolderError),
}

/// See the module's header.
pub struct Env {
    settings: Settings,
    driver: Arc<dyn Driver>,
    output: Output,
}

impl Env {
    /// Opens the output, and says there that a process has started.
    pub(crate) fn new(settings: Settings, driver: Arc<dyn Driver>) -> Result<Arc<Env>, StartError> {
        let output = Output::open(&settings, "").map_err(StartError::Output)?;
        output.event(&Event::Start {
            pid: std::process::id(),
            program: std::env::current_exe()
                .map(|path| path.display().to_string())
                .unwrap_or_default(),
            device: driver.kind(),
            device_name: driver.name(),
            driver_version: driver.version(),
        });
        Ok(Arc::new(Env {
            settings,
            driver,
            output,
        }))
    }

    /// The settings that the runtime runs under.
    #[inline]
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The device that it runs on.
    #[inline]
    pub fn driver(&self) -> &dyn Driver {
        &*self.driver
    }

    /// Says something that went wrong, on stderr or in the log, and to the
    /// command; each text once. `fatal`: nothing can be checked any more.
    pub fn error(&self, message: &str, fatal: bool) {
        self.output.error(message, fatal);
    }

    /// Where findings, totals and errors go.
    pub(crate) fn output(&self) -> &Output {
        &self.output
    }

    /// How many frames of a host call stack are kept.
    pub(crate) fn callers(&self) -> u32 {
        self.settings.num_callers_host
    }

    /// The call stack of the calling thread.
    #[inline]
    pub(crate) fn stack(&self) -> Stack {
        stacks::capture(self.settings.num_callers_host)
    }
}
