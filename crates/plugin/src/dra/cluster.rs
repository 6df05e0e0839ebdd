//! The cluster's API server: claims are read there, and what a node has is written
//! there. HTTP over TLS, with the token of the driver's service account.

use super::claim::ResourceClaim;
use super::resource_slices::{API_VERSION, ResourceSlice};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper::{Method, Request, StatusCode};
use hyper_util::rt::TokioIo;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

/// How long the server may take for an answer.
const PATIENCE: Duration = Duration::from_secs(20);

/// Bytes of an answer at most.
const MOST: usize = 16 << 20;

/// Where the server is, and what opens it.
#[derive(Clone, Debug)]
pub struct Access {
    /// Its address, `https://HOST:PORT`.
    pub server: String,
    /// The file of the token. It is read again for each request, because the kubelet
    /// renews it.
    pub token: PathBuf,
    /// The file of the authorities, one of which has signed the server's
    /// certificate.
    pub authority: PathBuf,
}

/// The server was not asked, or does not do what it was asked for.
#[derive(Debug, thiserror::Error)]
pub enum ClusterError {
    /// Its address.
    #[error("`{0}` is no address of an API server, such as https://10.0.0.1:443")]
    Address(String),
    /// A file.
    #[error("{} cannot be used: {why}", .path.display())]
    File {
        /// Its path.
        path: PathBuf,
        /// Why.
        why: String,
    },
    /// It cannot be reached, or breaks off.
    #[error("the API server at {server} gave no answer: {why}")]
    Broken {
        /// Its address.
        server: String,
        /// Why.
        why: String,
    },
    /// It refuses.
    #[error("the API server refuses {method} {path}: {code}: {why}")]
    Refused {
        /// What was asked for.
        method: Method,
        /// Of which object.
        path: String,
        /// Its code.
        code: StatusCode,
        /// What it says.
        why: String,
    },
}

impl ClusterError {
    /// Whether the object is not there.
    pub(crate) fn is_missing(&self) -> bool {
        self.is(StatusCode::NOT_FOUND)
    }

    /// Whether somebody else has changed the object, or made it.
    pub(crate) fn is_conflict(&self) -> bool {
        self.is(StatusCode::CONFLICT)
    }

    fn is(&self, wanted: StatusCode) -> bool {
        matches!(self, ClusterError::Refused { code, .. } if *code == wanted)
    }
}

/// A connection to the server, made anew for each request: there are few.
pub(crate) struct Cluster {
    access: Access,
    host: String,
    port: u16,
    tls: TlsConnector,
}

/// What the server says of a failure.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Failure {
    message: String,
}

/// A list of objects.
#[derive(Deserialize)]
struct List {
    items: Vec<ResourceSlice>,
}

/// An object that has an identity.
#[derive(Deserialize)]
struct Node {
    metadata: Identity,
}

#[derive(Deserialize)]
struct Identity {
    uid: String,
}

impl Cluster {
    /// A cluster with this access.
    ///
    /// # Errors
    ///
    /// The address or the file of authorities is wrong.
    pub(crate) fn new(access: Access) -> Result<Cluster, ClusterError> {
        let address = || ClusterError::Address(access.server.clone());
        let uri: hyper::Uri = access.server.parse().map_err(|_| address())?;
        let is_plain = matches!(uri.path(), "" | "/") && uri.query().is_none();
        // Without encryption, anybody on the way could read the token.
        if uri.scheme_str() != Some("https") || !is_plain {
            return Err(address());
        }
        let host = uri.host().ok_or_else(address)?;
        let host = host.trim_matches(['[', ']']).to_owned();
        let port = uri.port_u16().unwrap_or(443);
        ServerName::try_from(host.as_str()).map_err(|_| address())?;
        let file = |why: String| ClusterError::File {
            path: access.authority.clone(),
            why,
        };
        let mut roots = RootCertStore::empty();
        let certificates = CertificateDer::pem_file_iter(&access.authority);
        for certificate in certificates.map_err(|error| file(error.to_string()))? {
            let certificate = certificate.map_err(|error| file(error.to_string()))?;
            let added = roots.add(certificate);
            added.map_err(|error| file(error.to_string()))?;
        }
        if roots.is_empty() {
            return Err(file("it holds no certificate".into()));
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let tls = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| file(error.to_string()))?
            .with_root_certificates(roots)
            .with_no_client_auth();
        Ok(Cluster {
            tls: TlsConnector::from(Arc::new(tls)),
            access,
            host,
            port,
        })
    }

    /// A claim; `None` if there is none of this name.
    pub(crate) async fn claim(
        &self,
        namespace: &str,
        name: &str,
    ) -> Result<Option<ResourceClaim>, ClusterError> {
        let (namespace, name) = (escaped(namespace), escaped(name));
        let path = format!("/apis/{API_VERSION}/namespaces/{namespace}/resourceclaims/{name}");
        match self.ask(Method::GET, &path, None).await {
            Ok(claim) => Ok(Some(claim)),
            Err(error) if error.is_missing() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The UID of a node.
    pub(crate) async fn node(&self, name: &str) -> Result<String, ClusterError> {
        let path = format!("/api/v1/nodes/{}", escaped(name));
        let node: Node = self.ask(Method::GET, &path, None).await?;
        Ok(node.metadata.uid)
    }

    /// The objects of a driver and a node.
    pub(crate) async fn resource_slices(
        &self,
        driver: &str,
        node: &str,
    ) -> Result<Vec<ResourceSlice>, ClusterError> {
        let (driver, node) = (escaped(driver), escaped(node));
        let path = format!(
            "{}?fieldSelector=spec.driver%3D{driver}%2Cspec.nodeName%3D{node}",
            slices()
        );
        let list: List = self.ask(Method::GET, &path, None).await?;
        Ok(list.items)
    }

    /// Makes an object; how the server has it.
    pub(crate) async fn create(
        &self,
        object: &ResourceSlice,
    ) -> Result<ResourceSlice, ClusterError> {
        self.ask(Method::POST, &slices(), Some(object)).await
    }

    /// Replaces the version of an object that `object` names; how the server has it.
    pub(crate) async fn replace(
        &self,
        object: &ResourceSlice,
    ) -> Result<ResourceSlice, ClusterError> {
        let path = format!("{}/{}", slices(), escaped(&object.metadata.name));
        self.ask(Method::PUT, &path, Some(object)).await
    }

    /// Removes an object, unless it is gone.
    pub(crate) async fn remove(&self, name: &str) -> Result<(), ClusterError> {
        let path = format!("{}/{}", slices(), escaped(name));
        let removed = self.ask::<serde_json::Value>(Method::DELETE, &path, None);
        match removed.await {
            Err(error) if !error.is_missing() => Err(error),
            _ => Ok(()),
        }
    }

    async fn ask<A: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        object: Option<&ResourceSlice>,
    ) -> Result<A, ClusterError> {
        let asked = self.send(method.clone(), path, object);
        let answered = tokio::time::timeout(PATIENCE, asked).await;
        let (code, body) =
            answered.map_err(|_| self.broken(format!("none within {PATIENCE:?}")))??;
        if !code.is_success() {
            let failure: Failure = serde_json::from_slice(&body).unwrap_or_default();
            return Err(ClusterError::Refused {
                method,
                path: path.to_owned(),
                code,
                why: failure.message,
            });
        }
        serde_json::from_slice(&body).map_err(|error| self.broken(error.to_string()))
    }

    async fn send(
        &self,
        method: Method,
        path: &str,
        object: Option<&ResourceSlice>,
    ) -> Result<(StatusCode, Bytes), ClusterError> {
        let token = std::fs::read_to_string(&self.access.token);
        let token = token.map_err(|error| self.token(error.to_string()))?;
        let body = object.map(serde_json::to_vec).transpose();
        let body = body.map_err(|error| self.broken(error.to_string()))?;
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header("host", self.authority())
            .header("authorization", format!("Bearer {}", token.trim()))
            .header("accept", "application/json")
            .header("content-type", "application/json")
            .body(Full::new(Bytes::from(body.unwrap_or_default())))
            .map_err(|error| self.token(error.to_string()))?;
        let broken = |error: &dyn std::fmt::Display| self.broken(error.to_string());
        let stream = TcpStream::connect((self.host.as_str(), self.port)).await;
        let stream = stream.map_err(|error| broken(&error))?;
        let name = ServerName::try_from(self.host.clone());
        let name = name.map_err(|_| ClusterError::Address(self.access.server.clone()))?;
        let stream = self.tls.connect(name, stream).await;
        let stream = TokioIo::new(stream.map_err(|error| broken(&error))?);
        let (mut sender, connection) = http1::handshake(stream)
            .await
            .map_err(|error| broken(&error))?;
        // It ends with the sender.
        let connection = tokio::spawn(connection);
        let answered = async {
            let answer = sender.send_request(request).await;
            let (head, body) = answer.map_err(|error| broken(&error))?.into_parts();
            let body = Limited::new(body, MOST).collect().await;
            Ok((
                head.status,
                body.map_err(|error| broken(&error))?.to_bytes(),
            ))
        };
        let answered = answered.await;
        connection.abort();
        answered
    }

    fn authority(&self) -> String {
        match self.host.contains(':') {
            true => format!("[{}]:{}", self.host, self.port),
            false => format!("{}:{}", self.host, self.port),
        }
    }

    fn broken(&self, why: String) -> ClusterError {
        ClusterError::Broken {
            server: self.access.server.clone(),
            why,
        }
    }

    fn token(&self, why: String) -> ClusterError {
        ClusterError::File {
            path: self.access.token.clone(),
            why,
        }
    }
}

/// The path of all ResourceSlices.
fn slices() -> String {
    format!("/apis/{API_VERSION}/resourceslices")
}

/// A name as a part of a path or a query: what is not in the names of Kubernetes'
/// objects is escaped.
fn escaped(name: &str) -> String {
    let mut text = String::new();
    for byte in name.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' => text.push(byte.into()),
            // Only a name of dots would be another path.
            b'.' if name.bytes().any(|other| other != b'.') => text.push('.'),
            _ => text.push_str(&format!("%{byte:02X}")),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_do_not_leave_their_place_in_a_path() {
        assert_eq!(escaped("node-1.example.com"), "node-1.example.com");
        assert_eq!(escaped("../x?y"), "..%2Fx%3Fy");
        assert_eq!(escaped(".."), "%2E%2E");
        assert_eq!(escaped("ä"), "%C3%A4");
    }

    #[test]
    fn only_encrypted_addresses_are_taken() {
        let of = |server: &str| {
            let file = PathBuf::from("/nowhere");
            let access = Access {
                server: server.into(),
                token: file.clone(),
                authority: file,
            };
            Cluster::new(access).err().expect("an error")
        };
        for server in [
            "http://10.0.0.1:80",
            "10.0.0.1:443",
            "https://10.0.0.1/x",
            "https://10.0.0.1/?x",
            "https://a b",
            "",
        ] {
            assert!(matches!(of(server), ClusterError::Address(_)), "{server}");
        }
        for server in [
            "https://10.0.0.1",
            "https://[::1]:443/",
            "https://kubernetes:6443",
        ] {
            assert!(matches!(of(server), ClusterError::File { .. }), "{server}");
        }
    }
}
