//! How processes share the device, and how they are started.

use super::Sharing;
use super::mps::Mps;
use crate::isolation::manager::Manager;
use crate::turns::Variant;
use anyhow::Result;
use std::process::Command;

/// A way to share the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Way {
    /// Processes by themselves: the driver gives each all of the device in turn.
    TimeSlicing,
    /// Processes under NVIDIA's Multi-Process Service.
    Mps,
    /// Tenants of `ringfence manager`.
    Tenants,
}

impl Way {
    /// As in the results.
    pub fn name(self) -> &'static str {
        match self {
            Way::TimeSlicing => "time_slicing",
            Way::Mps => "mps",
            Way::Tenants => "tenants",
        }
    }
}

/// What must run for a way to share the device, as long as this lives.
pub struct Host<'s> {
    sharing: &'s Sharing,
    mps: Option<Mps>,
    manager: Option<Manager>,
}

impl<'s> Host<'s> {
    /// Starts what must run. Tenants have `memory` each, with a suffix.
    ///
    /// # Errors
    ///
    /// It does not start.
    pub fn start(sharing: &'s Sharing, way: Way, memory: &str) -> Result<Host<'s>> {
        let ringfence = &sharing.places.ringfence;
        let options = ["--memory-per-tenant", memory];
        let manager = (way == Way::Tenants)
            .then(|| Manager::start_with(ringfence, &sharing.device, &options))
            .transpose()?;
        Ok(Host {
            sharing,
            mps: (way == Way::Mps).then(Mps::start).transpose()?,
            manager,
        })
    }

    /// The command of a process that does `work`.
    pub fn command(&self, work: &str) -> Command {
        let mut command = match &self.manager {
            Some(manager) => {
                let mut command = Command::new(&self.sharing.places.ringfence);
                command
                    .args(["run", "--device", "tenant", "--socket"])
                    .arg(manager.socket())
                    .arg("--")
                    .arg(self.sharing.places.programs.join("sharing"))
                    .env_remove("RINGFENCE_OPTIONS");
                command
            }
            None => {
                let runner = self.sharing.places.runner(&self.sharing.device);
                runner.command("sharing", Variant::Native)
            }
        };
        // A service that runs already would be another way to share.
        command.env("CUDA_MPS_PIPE_DIRECTORY", "/nonexistent");
        if let Some(mps) = &self.mps {
            mps.admit(&mut command);
        }
        command.arg(work);
        if self.sharing.is_small() {
            command.arg("--small");
        }
        command
    }

    /// An error, with what the service says about it.
    pub fn explain(&self, error: anyhow::Error) -> anyhow::Error {
        match &self.mps {
            Some(mps) => error.context(format!("MPS says: {}", mps.log())),
            None => error,
        }
    }
}
