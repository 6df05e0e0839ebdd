//! Who is at the other end of the socket, and whether it is still there.
//!
//! The socket stays open while the rings are used, and nothing is sent through
//! it: when the last process that has the other end ends, the kernel hangs it
//! up. A process may hand its end to others, by a fork for instance, and die;
//! so the manager also holds a descriptor of the process that connected, which
//! stays the same process when its number is used again.

use nix::sys::socket::{getsockopt, sockopt};
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::time::Duration;

/// Who connected, as the kernel noted when it did (`SO_PEERCRED`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Credentials {
    /// Its process number in this process's namespace, if it has one there. For
    /// messages only: a number may be used again. [`Peer::process`] is not.
    pub pid: Option<u32>,
    /// Its effective user.
    pub uid: u32,
    /// Its effective group.
    pub gid: u32,
}

impl Credentials {
    /// Those of the process at the other end of this socket: a client's when
    /// it connected, a manager's when it began to listen.
    ///
    /// # Errors
    ///
    /// If the system call failed.
    pub fn of(socket: &UnixStream) -> Result<Credentials, PeerError> {
        let noted = getsockopt(socket, sockopt::PeerCredentials)
            .map_err(|errno| failed("getsockopt(SO_PEERCRED)", errno as i32))?;
        Ok(Credentials {
            // 0: it is not in this namespace.
            pid: u32::try_from(noted.pid()).ok().filter(|pid| *pid != 0),
            uid: noted.uid(),
            gid: noted.gid(),
        })
    }
}

impl std::fmt::Display for Credentials {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.pid {
            Some(pid) => write!(f, "process {pid}, user {}", self.uid),
            None => write!(f, "a process elsewhere, user {}", self.uid),
        }
    }
}

/// Why a peer is not known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PeerError {
    /// It ended before it was identified.
    #[error("the peer ended before it was identified")]
    Ended,
    /// A system call failed.
    #[error("{call} failed for the peer: {errno}")]
    System {
        /// Which.
        call: &'static str,
        /// Its error.
        errno: Errno,
    },
}

fn failed(call: &'static str, errno: i32) -> PeerError {
    let errno = Errno::from_raw_os_error(errno);
    PeerError::System { call, errno }
}

/// The process at the other end.
#[derive(Debug)]
pub struct Peer {
    socket: UnixStream,
    process: Option<OwnedFd>,
    credentials: Credentials,
}

impl Peer {
    /// The client that connected to this socket, with a descriptor of its
    /// process if the kernel has such.
    ///
    /// # Errors
    ///
    /// If it ended already, or a system call failed.
    pub fn client(socket: UnixStream) -> Result<Peer, PeerError> {
        let mut peer = Peer::manager(socket)?;
        peer.process = peer.process_of_client()?;
        Ok(peer)
    }

    /// The manager that accepted this connection. The kernel notes for it the
    /// process that began to listen, which may be a supervisor that is no
    /// longer there: the socket alone says whether it is.
    ///
    /// # Errors
    ///
    /// If a system call failed.
    pub fn manager(socket: UnixStream) -> Result<Peer, PeerError> {
        Ok(Peer {
            credentials: Credentials::of(&socket)?,
            socket,
            process: None,
        })
    }

    /// The socket knows the process itself since Linux 6.5. Before, its number
    /// is looked up; that the connection is still up behind the look-up says
    /// that the number was not used again meanwhile, unless the process gave
    /// its end away.
    fn process_of_client(&self) -> Result<Option<OwnedFd>, PeerError> {
        use nix::errno::Errno::{EINVAL, ENOPROTOOPT, ESRCH};
        match getsockopt(&self.socket, sockopt::PeerPidfd) {
            Ok(process) => return Ok(Some(process)),
            Err(ENOPROTOOPT) => {}
            // What kernels say of a process that was waited for.
            Err(EINVAL | ESRCH) => return Err(PeerError::Ended),
            Err(errno) => return Err(failed("getsockopt(SO_PEERPIDFD)", errno as i32)),
        }
        let Some(pid) = self.credentials.pid.and_then(|pid| i32::try_from(pid).ok()) else {
            return Ok(None);
        };
        let Some(pid) = rustix::process::Pid::from_raw(pid) else {
            return Ok(None);
        };
        let process = match rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty()) {
            Ok(process) => process,
            // Before Linux 5.3.
            Err(Errno::NOSYS) => return Ok(None),
            Err(Errno::SRCH) => return Err(PeerError::Ended),
            Err(errno) => return Err(failed("pidfd_open", errno.raw_os_error())),
        };
        match self.is_gone()? {
            true => Err(PeerError::Ended),
            false => Ok(Some(process)),
        }
    }

    /// Who connected.
    pub fn credentials(&self) -> Credentials {
        self.credentials
    }

    /// The process that connected; known to the manager only, and only where
    /// the kernel has such descriptors.
    pub fn process(&self) -> Option<&OwnedFd> {
        self.process.as_ref()
    }

    /// The socket.
    pub fn socket(&self) -> &UnixStream {
        &self.socket
    }

    /// Whether it ended or closed the connection.
    ///
    /// # Errors
    ///
    /// If a system call failed.
    pub fn is_gone(&self) -> Result<bool, PeerError> {
        self.wait_gone(Duration::ZERO)
    }

    /// Waits until it ends or closes the connection, at most for some time;
    /// whether it did. A signal ends the wait early.
    ///
    /// # Errors
    ///
    /// If a system call failed.
    pub fn wait_gone(&self, time: Duration) -> Result<bool, PeerError> {
        // What the peer sends is never read, and does not end the wait.
        let mut ends = vec![PollFd::new(&self.socket, PollFlags::RDHUP)];
        // A process is readable when it has ended.
        ends.extend(self.process.iter().map(|p| PollFd::new(p, PollFlags::IN)));
        match rustix::event::poll(&mut ends, Some(&timespec(time))) {
            Ok(ready) => Ok(ready > 0),
            Err(Errno::INTR) => Ok(false),
            Err(errno) => Err(failed("poll", errno.raw_os_error())),
        }
    }
}

/// As the kernel takes times; at most 68 years.
pub(crate) fn timespec(time: Duration) -> Timespec {
    Timespec {
        tv_sec: i64::from(i32::try_from(time.as_secs()).unwrap_or(i32::MAX)),
        tv_nsec: i64::from(time.subsec_nanos()),
    }
}
