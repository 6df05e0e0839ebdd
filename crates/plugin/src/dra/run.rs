//! Sockets: the kubelet finds the driver by one in its registry, and calls it at
//! another one.

use super::cluster::{Cluster, ClusterError};
use super::driver::{Driver, Options};
use super::publish::{PublishError, publish};
use super::service::{Registration, Service};
use super::{DRIVER, say};
use crate::health;
use crate::socket::{self, Identity, identity};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio_stream::wrappers::UnixListenerStream;
use tonic::transport::Server;

/// The socket at which the driver is called, in its own folder.
const SOCKET: &str = "dra.sock";

/// How often the sockets are looked at.
const PERIOD: Duration = Duration::from_millis(500);

/// The driver cannot go on.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// A socket.
    #[error("the socket {} cannot be made: {error}", .path.display())]
    Socket {
        /// Its path.
        path: PathBuf,
        /// Why.
        error: std::io::Error,
    },
    /// The cluster.
    #[error(transparent)]
    Cluster(#[from] ClusterError),
    /// What the node has cannot be told.
    #[error(transparent)]
    Publish(#[from] PublishError),
    /// A socket is not served any more.
    #[error("the socket {} is not served any more: {why}", .path.display())]
    Ended {
        /// Its path.
        path: PathBuf,
        /// Why.
        why: String,
    },
}

/// Serves the kubelet and informs the cluster, for ever.
///
/// # Errors
///
/// See [`RunError`].
pub async fn run(options: Options) -> Result<(), RunError> {
    let cluster = Arc::new(Cluster::new(options.access.clone())?);
    let driver = Arc::new(Driver::new(options));
    let options = driver.options();
    let own = options.folder.join(SOCKET);
    let registry = options.registry.join(format!("{DRIVER}-reg.sock"));
    // The kubelet has pods that wait for their claims to be unprepared, also while
    // there is no manager: it gets an error, and asks again.
    let service = Service {
        driver: Arc::clone(&driver),
        cluster: Arc::clone(&cluster),
    };
    let mut serving = serve(&own, service.clone()).await?;
    let registration = || Registration {
        endpoint: own.clone(),
    };
    let mut registering = serve(&registry, registration()).await?;
    let published = async {
        let health = health::watch(driver.stock(), say).await;
        publish(cluster, driver.pool().clone(), health).await
    };
    tokio::pin!(published);
    loop {
        tokio::select! {
            error = &mut published => return Err(error.into()),
            ended = &mut serving.task => return Err(serving.ended(ended)),
            ended = &mut registering.task => return Err(registering.ended(ended)),
            () = tokio::time::sleep(PERIOD) => {}
        }
        // A kubelet that is installed anew may remove what is in its folders.
        if !serving.is_there() {
            serving.task.abort();
            serving = serve(&own, service.clone()).await?;
        }
        if !registering.is_there() {
            registering.task.abort();
            registering = serve(&registry, registration()).await?;
        }
    }
}

/// A socket that is served.
struct Serving {
    path: PathBuf,
    identity: Option<Identity>,
    task: tokio::task::JoinHandle<Result<(), tonic::transport::Error>>,
}

impl Serving {
    fn is_there(&self) -> bool {
        identity(&self.path) == self.identity
    }

    fn ended(
        &self,
        how: Result<Result<(), tonic::transport::Error>, tokio::task::JoinError>,
    ) -> RunError {
        let why = match how {
            Ok(Ok(())) => "it has no listener".to_owned(),
            Ok(Err(error)) => error.to_string(),
            Err(error) => error.to_string(),
        };
        RunError::Ended {
            path: self.path.clone(),
            why,
        }
    }
}

/// Serves at a socket, in the place of one that was left there.
async fn serve<S>(path: &Path, service: S) -> Result<Serving, RunError>
where
    S: tonic::codegen::Service<
            tonic::codegen::http::Request<tonic::body::Body>,
            Response = tonic::codegen::http::Response<tonic::body::Body>,
            Error = std::convert::Infallible,
        > + Clone
        + Send
        + Sync
        + 'static,
    S::Future: Send + 'static,
{
    let failed = |error| RunError::Socket {
        path: path.to_owned(),
        error,
    };
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder).map_err(failed)?;
    }
    let listener = socket::bind(path).map_err(failed)?;
    let incoming = UnixListenerStream::new(listener);
    let task = tokio::spawn(Server::builder().serve_with_incoming(service, incoming));
    Ok(Serving {
        path: path.to_owned(),
        identity: identity(path),
        task,
    })
}
