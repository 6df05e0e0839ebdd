//! What an administrator's program and the manager say to each other at the
//! manager's control socket: which slices there are, and how much memory the
//! tenants of each may have together.
//!
//! A slice is a socket with a limit. Who can reach the socket can be a tenant
//! within the limit; nothing that a tenant sends changes it.
//!
//! Each message is a [`crate::Frame`] without payload, over the socket itself.

use crate::{Channel, ChannelError, Frame, SocketChannel};
use serde::{Deserialize, Serialize};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// First bytes of a [`ControlRequest::Hello`].
pub const CONTROL_MAGIC: [u8; 8] = *b"ringctrl";

/// The version of these messages. Both sides have the same one, or do not talk.
pub const CONTROL_VERSION: u32 = 1;

/// Bytes of a slice's name at most.
pub const SLICE_NAME_BYTES: usize = 63;

/// The control socket in a manager's folder of slices.
pub const CONTROL_SOCKET: &str = "control.sock";

/// The socket of a slice, in the folder that its tenants see.
pub const SLICE_SOCKET: &str = "ringfence.sock";

/// A slice that is asked for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NewSlice {
    /// Its name: letters, digits, `.`, `_` and `-`, at most [`SLICE_NAME_BYTES`],
    /// the first and the last a letter or a digit.
    pub name: String,
    /// Bytes of device memory that its tenants may have together; rounded up to
    /// 64 MiB.
    pub memory: u64,
    /// The only user, besides the superuser, who may connect to its socket;
    /// `None`: whoever can reach the folder that [`SliceState::folder`] names.
    pub owner: Option<u32>,
}

/// The folder of slices of a manager that root has started, unless it is given
/// another.
pub const SYSTEM_SLICES: &str = "/run/ringfence";

/// What is asked of the manager.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ControlRequest {
    /// The first one. [`ControlReply::Done`]
    Hello {
        /// [`CONTROL_MAGIC`]
        magic: [u8; 8],
        /// [`CONTROL_VERSION`]
        version: u32,
    },
    /// How things are. [`ControlReply::State`]
    State,
    /// Makes a slice. One of the same name must not be there.
    /// [`ControlReply::Slice`]
    Add(NewSlice),
    /// Ends a slice and the connections of its tenants. [`ControlReply::Done`],
    /// also if there is none of this name.
    Remove {
        /// Its name.
        name: String,
    },
}

/// A slice.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SliceState {
    /// Its name.
    pub name: String,
    /// Bytes of device memory that its tenants may have together.
    pub memory: u64,
    /// Bytes that they have, with those that are gone and whose kernels are not
    /// over.
    pub used: u64,
    /// How many tenants that are.
    pub tenants: u32,
    /// The only user who may connect to it.
    pub owner: Option<u32>,
    /// The folder that holds its socket, [`SLICE_SOCKET`], and nothing else.
    pub folder: PathBuf,
}

/// A manager.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ManagerState {
    /// The device's name.
    pub device: String,
    /// Bytes of memory that the device has.
    pub memory: u64,
    /// Bytes that one tenant may have.
    pub memory_per_tenant: u64,
    /// The device has failed; the manager must be restarted.
    pub is_lost: bool,
    /// The slices, by name.
    pub slices: Vec<SliceState>,
}

/// What the manager answers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ControlReply {
    /// It is done.
    Done,
    /// It is not done. Why, for people.
    Refused(String),
    /// To [`ControlRequest::State`].
    State(ManagerState),
    /// To [`ControlRequest::Add`].
    Slice(SliceState),
}

/// Why a manager was not asked, or did not do what it was asked for.
#[derive(Debug, thiserror::Error)]
pub enum ControlError {
    /// Nobody listens.
    #[error("there is no manager at {}: {error}; start one with `ringfence manager --slices {}`", .socket.display(), .folder.display())]
    NoManager {
        /// The control socket.
        socket: PathBuf,
        /// The folder of slices.
        folder: PathBuf,
        /// The system's error.
        error: std::io::Error,
    },
    /// It does not answer, or ends the connection.
    #[error("the manager at {} gave no answer: {error}", .socket.display())]
    Broken {
        /// The control socket.
        socket: PathBuf,
        /// Why.
        error: ChannelError,
    },
    /// It does not do that.
    #[error("the manager refuses: {0}")]
    Refused(String),
    /// Its answer does not belong to the question.
    #[error("the manager at {} gave an answer of another kind", .0.display())]
    Astray(PathBuf),
}

/// How long a manager may take for an answer.
const PATIENCE: Duration = Duration::from_secs(30);

/// A connection to a manager's control socket.
pub struct Control {
    socket: PathBuf,
    channel: SocketChannel,
    frame: Frame,
}

impl Control {
    /// Connects to the manager that has its slices in this folder.
    ///
    /// # Errors
    ///
    /// See [`ControlError`].
    pub fn connect(folder: &Path) -> Result<Control, ControlError> {
        let socket = folder.join(CONTROL_SOCKET);
        let stream = UnixStream::connect(&socket).map_err(|error| ControlError::NoManager {
            socket: socket.clone(),
            folder: folder.to_owned(),
            error,
        })?;
        let broken = |error| ControlError::Broken {
            socket: socket.clone(),
            error,
        };
        let mut channel = SocketChannel::new(stream).map_err(broken)?;
        channel.set_patience(Some(PATIENCE)).map_err(broken)?;
        let mut control = Control {
            socket,
            channel,
            frame: Frame::default(),
        };
        let hello = ControlRequest::Hello {
            magic: CONTROL_MAGIC,
            version: CONTROL_VERSION,
        };
        match control.ask(&hello)? {
            ControlReply::Done => Ok(control),
            _ => Err(control.astray()),
        }
    }

    /// How the manager and its slices are.
    ///
    /// # Errors
    ///
    /// See [`ControlError`].
    pub fn state(&mut self) -> Result<ManagerState, ControlError> {
        match self.ask(&ControlRequest::State)? {
            ControlReply::State(state) => Ok(state),
            _ => Err(self.astray()),
        }
    }

    /// Makes a slice.
    ///
    /// # Errors
    ///
    /// See [`ControlError`].
    pub fn add(&mut self, slice: NewSlice) -> Result<SliceState, ControlError> {
        match self.ask(&ControlRequest::Add(slice))? {
            ControlReply::Slice(state) => Ok(state),
            _ => Err(self.astray()),
        }
    }

    /// Ends a slice, and the connections of its tenants.
    ///
    /// # Errors
    ///
    /// See [`ControlError`].
    pub fn remove(&mut self, name: &str) -> Result<(), ControlError> {
        let request = ControlRequest::Remove { name: name.into() };
        match self.ask(&request)? {
            ControlReply::Done => Ok(()),
            _ => Err(self.astray()),
        }
    }

    fn ask(&mut self, request: &ControlRequest) -> Result<ControlReply, ControlError> {
        let sent = Frame::send(&mut self.channel, request, &[]);
        let reply = sent.and_then(|()| self.frame.receive(&mut self.channel));
        match reply {
            Ok(ControlReply::Refused(why)) => Err(ControlError::Refused(why)),
            Ok(reply) => Ok(reply),
            Err(error) => Err(ControlError::Broken {
                socket: self.socket.clone(),
                error,
            }),
        }
    }

    fn astray(&self) -> ControlError {
        ControlError::Astray(self.socket.clone())
    }
}

/// The folder with the socket of a slice, and nothing else, in a manager's folder
/// of slices.
pub fn slice_folder(folder: &Path, name: &str) -> PathBuf {
    folder.join("slices").join(name).join("run")
}

/// Whether a slice may have this name, which becomes that of a folder.
pub fn is_slice_name(name: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    name.len() <= SLICE_NAME_BYTES
        && name.starts_with(|c: char| c.is_ascii_alphanumeric())
        && name.ends_with(|c: char| c.is_ascii_alphanumeric())
        && name.chars().all(is_plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_slices_are_names_of_files_in_one_folder() {
        let longest = "a".repeat(SLICE_NAME_BYTES);
        for good in ["a", "7", "job-12.step_3", longest.as_str()] {
            assert!(is_slice_name(good), "{good}");
        }
        let longer = format!("{longest}a");
        for bad in [
            "",
            ".",
            "..",
            "-a",
            "a/b",
            "a b",
            "a\0",
            "ä",
            longer.as_str(),
        ] {
            assert!(!is_slice_name(bad), "{bad:?}");
        }
    }
}
