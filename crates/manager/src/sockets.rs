//! The sockets of a manager. They outlive the process that owns the device, so who
//! connects while a new one starts waits, and is not refused.

use crate::descriptors;
use crate::metrics::{Listener, MetricsAddress};
use crate::options::{Options, StartError};
use crate::slices::Slices;
use protocol::CONTROL_SOCKET;
use std::fs::{File, TryLockError};
use std::io::ErrorKind;
use std::net::TcpListener;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::time::Duration;

/// What a manager listens at.
pub(crate) struct Sockets {
    pub(crate) tenants: UnixListener,
    pub(crate) admin: UnixListener,
    /// Where slices are made.
    pub(crate) control: Option<UnixListener>,
    pub(crate) metrics: Option<Listener>,
}

/// By which a manager knows that no other one has its sockets.
pub(crate) struct Locks(#[expect(dead_code, reason = "held, not used")] Vec<File>);

/// How long they take to come.
const PATIENCE: Duration = Duration::from_secs(10);

impl Sockets {
    /// Makes them.
    ///
    /// # Errors
    ///
    /// The system's; another manager has one.
    pub(crate) fn open(options: &Options) -> Result<(Sockets, Locks), StartError> {
        let mut locks = vec![lock(&options.socket)?];
        let tenants = listen(&options.socket)?;
        let admin = private(&protocol::admin_socket(&options.socket))?;
        let metrics = options.metrics.as_ref().map(metrics_at).transpose()?;
        let control = options.slices.as_deref().map(listen_for_control);
        let control = control.transpose()?.map(|(listener, lock)| {
            locks.push(lock);
            listener
        });
        let sockets = Sockets {
            tenants,
            admin,
            control,
            metrics,
        };
        Ok((sockets, Locks(locks)))
    }

    /// Gives them to another process, too, with the socket at which that has workers
    /// started.
    ///
    /// # Errors
    ///
    /// The system's.
    pub(crate) fn send(&self, to: &UnixStream, starter: &UnixStream) -> std::io::Result<()> {
        let own = [starter.as_fd(), self.tenants.as_fd(), self.admin.as_fd()];
        let mut all: Vec<BorrowedFd<'_>> = own.into();
        all.extend(self.control.as_ref().map(AsFd::as_fd));
        all.extend(self.metrics.as_ref().map(|metrics| match metrics {
            Listener::Tcp(listener) => listener.as_fd(),
            Listener::Unix(listener) => listener.as_fd(),
        }));
        descriptors::send(to, &all)
    }

    /// Those that another process [sends](Self::send), which has opened them for the
    /// same options.
    ///
    /// # Errors
    ///
    /// The system's; they are others than these options ask for.
    pub(crate) fn receive(
        options: &Options,
        from: &UnixStream,
    ) -> std::io::Result<(Sockets, UnixStream)> {
        from.set_read_timeout(Some(PATIENCE))?;
        let all = descriptors::receive(from)?;
        from.set_read_timeout(None)?;
        let (has_control, has_metrics) = (options.slices.is_some(), options.metrics.is_some());
        let expected = 3 + usize::from(has_control) + usize::from(has_metrics);
        if all.len() != expected {
            let got = all.len();
            return Err(std::io::Error::other(format!(
                "{got} came, and the options ask for {expected}; start the manager again after changes of --slices or --metrics"
            )));
        }
        let mut all = all.into_iter();
        let mut next = || {
            all.next()
                .ok_or(std::io::Error::from(ErrorKind::InvalidData))
        };
        let (starter, tenants, admin) = (next()?.into(), next()?.into(), next()?.into());
        let control = has_control
            .then(|| next().map(UnixListener::from))
            .transpose()?;
        let metrics = options.metrics.as_ref().map(|address| {
            let socket = next()?;
            std::io::Result::Ok(match address {
                MetricsAddress::Loopback(_) => Listener::Tcp(TcpListener::from(socket)),
                MetricsAddress::Unix(_) => Listener::Unix(UnixListener::from(socket)),
            })
        });
        let sockets = Sockets {
            tenants,
            admin,
            control,
            metrics: metrics.transpose()?,
        };
        Ok((sockets, starter))
    }
}

/// Locks the file beside the socket, by which a manager knows that no other one has
/// the socket.
fn lock(path: &Path) -> Result<File, StartError> {
    let failed = |error| StartError::Socket {
        path: path.to_owned(),
        error,
    };
    let mut name = path.as_os_str().to_owned();
    name.push(".lock");
    let mut open = File::options();
    // Nobody else can take the lock.
    let open = open.create(true).write(true).truncate(false).mode(0o600);
    let lock = open.open(name);
    let lock = lock.map_err(failed)?;
    match lock.try_lock() {
        Ok(()) => Ok(lock),
        Err(TryLockError::WouldBlock) => Err(StartError::Running(path.to_owned())),
        Err(TryLockError::Error(error)) => Err(failed(error)),
    }
}

/// Makes a socket, in the place of one that a manager has left that is gone.
fn listen(path: &Path) -> Result<UnixListener, StartError> {
    let failed = |error| StartError::Socket {
        path: path.to_owned(),
        error,
    };
    match std::fs::symlink_metadata(path) {
        Ok(found) if std::os::unix::fs::FileTypeExt::is_socket(&found.file_type()) => {
            std::fs::remove_file(path).map_err(failed)?;
        }
        Ok(_) => return Err(StartError::NoSocket(path.to_owned())),
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        Err(error) => return Err(failed(error)),
    }
    UnixListener::bind(path).map_err(failed)
}

/// A socket that only this user, and root, can connect to.
fn private(path: &Path) -> Result<UnixListener, StartError> {
    let listener = listen(path)?;
    let own = std::fs::Permissions::from_mode(0o600);
    std::fs::set_permissions(path, own).map_err(|error| StartError::Socket {
        path: path.to_owned(),
        error,
    })?;
    Ok(listener)
}

/// What listens for who asks for metrics.
fn metrics_at(address: &MetricsAddress) -> Result<Listener, StartError> {
    let at = |path: &Path| {
        listen(path).map_err(|error| match error {
            StartError::Socket { error, .. } => error,
            other => std::io::Error::other(other),
        })
    };
    Listener::bind(address, at).map_err(|error| StartError::Metrics {
        address: address.clone(),
        error,
    })
}

/// Makes the folder of slices, and the control socket in it.
fn listen_for_control(folder: &Path) -> Result<(UnixListener, File), StartError> {
    let failed = |error| StartError::Slices {
        path: folder.to_owned(),
        error,
    };
    Slices::make_folders(folder).map_err(failed)?;
    let path = folder.join(CONTROL_SOCKET);
    let lock = lock(&path)?;
    Ok((private(&path)?, lock))
}
