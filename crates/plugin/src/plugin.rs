//! What is done about units: slices of the manager, and what a container needs.

use crate::api::{ContainerAllocateResponse, Mount};
use crate::stock::{LOST, Stock};
use crate::units::{MOST_UNITS, Units};
use container::{Edits, EditsError};
use protocol::{Control, ControlError, ManagerState, NewSlice};
use std::path::PathBuf;
use std::sync::Mutex;

/// How to run the plugin.
#[derive(Clone, Debug)]
pub struct Options {
    /// The resource that containers ask for.
    pub resource: String,
    /// Bytes of a unit.
    pub unit: u64,
    /// Bytes of device memory that are handed out; `None`: fifteen sixteenths of
    /// the device's.
    pub memory: Option<u64>,
    /// The manager's folder of slices, which has the same path on the host.
    pub slices: PathBuf,
    /// The folder of Ringfence's libraries on the host.
    pub libraries: PathBuf,
    /// Where this process sees it.
    pub libraries_here: PathBuf,
    /// The folder of the kubelet's socket.
    pub folder: PathBuf,
}

/// A container gets nothing.
#[derive(Debug, thiserror::Error)]
pub enum AllocateError {
    /// The manager.
    #[error(transparent)]
    Manager(#[from] ControlError),
    /// The device has failed.
    #[error("{LOST}")]
    Lost,
    /// More than a tenant may have.
    #[error(
        "{asked} bytes are asked for, and the manager gives a tenant {most}; start it with a larger --memory-per-tenant"
    )]
    TooMuch {
        /// Bytes that the container asks for.
        asked: u64,
        /// Bytes that a tenant may have.
        most: u64,
    },
    /// The libraries.
    #[error(transparent)]
    Edits(#[from] EditsError),
}

/// The plugin.
pub struct Plugin {
    options: Options,
    /// Held while slices are changed, so that each call finds what the one before
    /// has left.
    changing: Mutex<()>,
}

impl Plugin {
    /// A plugin with these options.
    pub fn new(options: Options) -> Plugin {
        Plugin {
            options,
            changing: Mutex::new(()),
        }
    }

    /// Its options.
    pub fn options(&self) -> &Options {
        &self.options
    }

    /// What it hands out.
    pub(crate) fn stock(&self) -> Stock {
        Stock {
            slices: self.options.slices.clone(),
            unit: self.options.unit,
            memory: self.options.memory,
            most: MOST_UNITS,
        }
    }

    /// Makes the slice that these units are, in the place of any that has one of
    /// them, and says what its container needs.
    ///
    /// # Errors
    ///
    /// See [`AllocateError`].
    pub fn allocate(&self, units: &Units) -> Result<ContainerAllocateResponse, AllocateError> {
        let slice = self.make(units, true)?;
        let options = &self.options;
        let edits = Edits::new(&slice, &options.libraries, &options.libraries_here)?;
        let mount = |mount: &container::Mount| Mount {
            container_path: mount.container.display().to_string(),
            host_path: mount.host.display().to_string(),
            read_only: true,
        };
        let variables = edits.environment.into_iter();
        Ok(ContainerAllocateResponse {
            envs: variables
                .map(|(name, value)| (name.into(), value))
                .collect(),
            mounts: edits.mounts.iter().map(mount).collect(),
            ..ContainerAllocateResponse::default()
        })
    }

    /// Makes the slice that these units are, unless it is there: their container
    /// starts, perhaps again, perhaps after the machine has.
    ///
    /// # Errors
    ///
    /// See [`AllocateError`].
    pub fn before_start(&self, units: &Units) -> Result<(), AllocateError> {
        self.make(units, false).map(drop)
    }

    /// `is_new`: what is there under the same name was somebody else's.
    fn make(&self, units: &Units, is_new: bool) -> Result<PathBuf, AllocateError> {
        // What it guards is in the manager.
        let _changing = self
            .changing
            .lock()
            .unwrap_or_else(|error| error.into_inner());
        let mut control = Control::connect(&self.options.slices)?;
        let state: ManagerState = control.state()?;
        if state.is_lost {
            return Err(AllocateError::Lost);
        }
        let memory = units.len() as u64 * self.options.unit;
        if memory > state.memory_per_tenant {
            return Err(AllocateError::TooMuch {
                asked: memory,
                most: state.memory_per_tenant,
            });
        }
        let name = units.slice();
        for slice in &state.slices {
            let of = Units::of_slice(&slice.name).filter(|of| of.overlap(units));
            if of.is_none() {
                continue;
            }
            if slice.name == name && slice.memory == memory && !is_new {
                return Ok(slice.folder.clone());
            }
            control.remove(&slice.name)?;
        }
        let made = control.add(NewSlice {
            name,
            memory,
            owner: None,
        })?;
        Ok(made.folder)
    }
}
