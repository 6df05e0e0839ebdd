//! The kubelet: registers with it, again whenever it has started again.

use crate::api::{self, KUBELET_SOCKET, VERSION, calls};
use crate::health;
use crate::plugin::Plugin;
use crate::service::{self, Service};
use crate::socket::{self, Identity, identity};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio_stream::wrappers::UnixListenerStream;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::transport::{Endpoint, Server};
use tonic::{Code, Request};
use tonic_prost::ProstCodec;

/// The plugin's socket, in the kubelet's folder.
const SOCKET: &str = "ringfence-gpu-memory.sock";

/// How often the sockets are looked at.
const PERIOD: Duration = Duration::from_millis(500);

/// How long the kubelet may take for an answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// The plugin cannot go on.
#[derive(Debug, thiserror::Error)]
pub enum RegisterError {
    /// Its socket.
    #[error("the socket {} cannot be made: {error}", .path.display())]
    Socket {
        /// Its path.
        path: PathBuf,
        /// Why.
        error: std::io::Error,
    },
    /// The kubelet does not take it: it speaks another version, or another plugin
    /// has the resource.
    #[error("the kubelet at {} refuses the resource {resource}: {why}", .path.display())]
    Refused {
        /// Its socket.
        path: PathBuf,
        /// The resource.
        resource: String,
        /// What it says.
        why: String,
    },
}

/// Writes a line to stderr; what that does not take is lost.
pub(crate) fn say(text: &str) {
    use std::io::Write;
    let _ = std::io::stderr().write_all(format!("ringfence-device-plugin: {text}\n").as_bytes());
}

/// Serves the kubelet for ever.
///
/// # Errors
///
/// See [`RegisterError`].
pub async fn run(plugin: Plugin) -> Result<(), RegisterError> {
    let plugin = Arc::new(plugin);
    let folder = plugin.options().folder.clone();
    let health = health::watch(plugin.stock(), say).await;
    let kubelet = folder.join(KUBELET_SOCKET);
    let own = folder.join(SOCKET);
    loop {
        let listener = socket::bind(&own).map_err(|error| RegisterError::Socket {
            path: own.clone(),
            error,
        })?;
        let service = Service::new(Arc::clone(&plugin), health.clone());
        let incoming = UnixListenerStream::new(listener);
        // It ends with this round: its socket may be another one in the next.
        let server = tokio::spawn(Server::builder().serve_with_incoming(service, incoming));
        let registered = register(&kubelet, &plugin.options().resource).await?;
        say(&format!(
            "registered {} with {}",
            plugin.options().resource,
            kubelet.display()
        ));
        // A kubelet that starts removes all sockets in its folder, and makes its own.
        let of_plugin = identity(&own);
        while identity(&own) == of_plugin && still(&kubelet, registered) && !server.is_finished() {
            tokio::time::sleep(PERIOD).await;
        }
        server.abort();
        say("the kubelet has started again");
    }
}

/// Whether the socket is not another one than then. One that is gone will be.
fn still(path: &Path, then: Option<Identity>) -> bool {
    let now = identity(path);
    now.is_none() || now == then
}

/// Registers, as soon as the kubelet is there; which socket it was.
async fn register(path: &Path, resource: &str) -> Result<Option<Identity>, RegisterError> {
    let mut is_said = false;
    loop {
        let which = identity(path);
        let error = match which {
            Some(_) => match ask(path, resource).await {
                Ok(()) => return Ok(which),
                Err(NotRegistered::Refused(why)) => {
                    return Err(RegisterError::Refused {
                        path: path.to_owned(),
                        resource: resource.to_owned(),
                        why,
                    });
                }
                Err(NotRegistered::NotThere(error)) => error,
            },
            None => format!("there is no {}", path.display()),
        };
        if !is_said {
            say(&format!("waiting for the kubelet: {error}"));
            is_said = true;
        }
        tokio::time::sleep(PERIOD).await;
    }
}

enum NotRegistered {
    NotThere(String),
    Refused(String),
}

async fn ask(path: &Path, resource: &str) -> Result<(), NotRegistered> {
    let not_there = |error: &dyn std::fmt::Display| NotRegistered::NotThere(error.to_string());
    let endpoint = Endpoint::from_shared(format!("unix://{}", path.display()));
    let endpoint = endpoint
        .map_err(|error| not_there(&error))?
        .timeout(PATIENCE);
    let channel = endpoint.connect().await;
    let mut grpc = tonic::client::Grpc::new(channel.map_err(|error| not_there(&error))?);
    grpc.ready().await.map_err(|error| not_there(&error))?;
    let request = api::RegisterRequest {
        version: VERSION.into(),
        endpoint: SOCKET.into(),
        resource_name: resource.into(),
        options: Some(service::options()),
    };
    let codec = ProstCodec::<api::RegisterRequest, api::Empty>::default();
    let call = PathAndQuery::from_static(calls::REGISTER);
    match grpc.unary(Request::new(request), call, codec).await {
        Ok(_) => Ok(()),
        // It ends, or is only beginning.
        Err(status) if matches!(status.code(), Code::Unavailable | Code::Cancelled) => {
            Err(not_there(&status.message()))
        }
        Err(status) => Err(NotRegistered::Refused(status.message().into())),
    }
}
