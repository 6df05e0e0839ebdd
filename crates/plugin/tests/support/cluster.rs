//! The stand-in for an API server: HTTP over TLS, objects that follow
//! `resource.schema.json`, and the rights that the manifest gives the driver.

use super::objects;
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Instant;
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tokio_rustls::TlsAcceptor;

/// The node's UID.
pub const NODE_UID: &str = "11111111-2222-3333-4444-555555555555";

/// A file of `tests/tls`.
pub fn tls(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/tls")
        .join(name)
}

#[derive(Default)]
struct State {
    token: String,
    /// By path.
    objects: BTreeMap<String, Value>,
    version: u64,
    /// The feature DRAConsumableCapacity is off.
    forgets: bool,
    /// Answers nothing.
    is_down: bool,
    /// What was written.
    writes: u64,
    /// What it should not have been asked for.
    wrong: Vec<String>,
}

/// An API server.
pub struct Cluster {
    _runtime: Runtime,
    state: Arc<Mutex<State>>,
    pub address: String,
}

impl Cluster {
    /// Starts one that takes this token, and has a node.
    pub fn start(token: &str, node: &str) -> Cluster {
        let state = State {
            token: token.into(),
            objects: BTreeMap::from([(
                format!("/api/v1/nodes/{node}"),
                json!({ "kind": "Node", "metadata": { "name": node, "uid": NODE_UID } }),
            )]),
            ..State::default()
        };
        let state = Arc::new(Mutex::new(state));
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .expect("a runtime");
        let chain = CertificateDer::from_pem_file(tls("server.pem")).expect("a certificate");
        let key = PrivateKeyDer::from_pem_file(tls("server.key")).expect("a key");
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("versions")
            .with_no_client_auth()
            .with_single_cert(vec![chain], key)
            .expect("a key for the certificate");
        let tls = TlsAcceptor::from(Arc::new(config));
        let listener = runtime
            .block_on(TcpListener::bind("127.0.0.1:0"))
            .expect("a port");
        let address = format!("https://{}", listener.local_addr().expect("an address"));
        let of_server = Arc::clone(&state);
        runtime.spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.expect("a connection");
                let (tls, state) = (tls.clone(), Arc::clone(&of_server));
                tokio::spawn(async move {
                    // Who does not trust the server goes away.
                    let Ok(stream) = tls.accept(stream).await else {
                        return;
                    };
                    let service = service_fn(move |request| answer(Arc::clone(&state), request));
                    let served = http1::Builder::new()
                        .serve_connection(TokioIo::new(stream), service)
                        .await;
                    drop(served);
                });
            }
        });
        Cluster {
            _runtime: runtime,
            state,
            address,
        }
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().expect("a state")
    }

    /// Takes another token from now on.
    pub fn renew(&self, token: &str) {
        self.state().token = token.into();
    }

    /// As without the feature DRAConsumableCapacity.
    pub fn forget(&self) {
        self.state().forgets = true;
    }

    /// Answers nothing, or again.
    pub fn stop(&self, is_down: bool) {
        self.state().is_down = is_down;
    }

    /// How often objects were written.
    pub fn writes(&self) -> u64 {
        self.state().writes
    }

    /// What it should not have been asked for.
    pub fn wrong(&self) -> Vec<String> {
        self.state().wrong.clone()
    }

    /// Puts a claim there, with what a scheduler has allocated.
    pub fn allocate(&self, name: &str, uid: &str, results: Value, config: Value) {
        let claim = json!({
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceClaim",
            "metadata": { "name": name, "namespace": "default", "uid": uid },
            "spec": {},
            "status": { "allocation": { "devices": { "results": results, "config": config } } }
        });
        let errors = objects::errors(&objects::own(), "ResourceClaim", &claim);
        assert!(errors.is_empty(), "{errors:?}");
        let path = format!("/apis/resource.k8s.io/v1/namespaces/default/resourceclaims/{name}");
        self.state().objects.insert(path, claim);
    }

    /// The ResourceSlices that are there.
    pub fn resource_slices(&self) -> Vec<Value> {
        let state = self.state();
        let all = state.objects.iter();
        all.filter(|(path, _)| path.starts_with(SLICES))
            .map(|(_, object)| object.clone())
            .collect()
    }

    /// Removes them, as a kubelet does that starts.
    pub fn wipe(&self) {
        self.state()
            .objects
            .retain(|path, _| !path.starts_with(SLICES));
    }

    /// Waits until the ResourceSlices are like this.
    pub fn until(&self, what: &str, is_so: impl Fn(&[Value]) -> bool) -> Vec<Value> {
        let start = Instant::now();
        loop {
            let slices = self.resource_slices();
            if is_so(&slices) {
                return slices;
            }
            assert!(start.elapsed() < super::PATIENCE, "{what}: {slices:?}");
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
    }
}

const SLICES: &str = "/apis/resource.k8s.io/v1/resourceslices";

type Answer = Response<Full<Bytes>>;

fn respond(code: StatusCode, body: &Value) -> Answer {
    let mut answer = Response::new(Full::new(Bytes::from(body.to_string())));
    *answer.status_mut() = code;
    answer
}

fn failure(code: StatusCode, message: &str) -> Answer {
    respond(code, &json!({ "kind": "Status", "message": message }))
}

async fn answer(
    state: Arc<Mutex<State>>,
    request: Request<Incoming>,
) -> Result<Answer, Infallible> {
    let (head, body) = request.into_parts();
    let body = body.collect().await.expect("a body").to_bytes();
    let mut state = state.lock().expect("a state");
    let (method, path) = (head.method, head.uri.path());
    if state.is_down {
        return Ok(failure(StatusCode::SERVICE_UNAVAILABLE, "it starts"));
    }
    let expected = format!("Bearer {}", state.token);
    let token = head.headers.get("authorization");
    if token.is_none_or(|token| token.as_bytes() != expected.as_bytes()) {
        return Ok(failure(StatusCode::UNAUTHORIZED, "Unauthorized"));
    }
    if !is_allowed(&method, path) {
        state.wrong.push(format!("{method} {path}: no right"));
        return Ok(failure(StatusCode::FORBIDDEN, "forbidden"));
    }
    let object = (!body.is_empty()).then(|| serde_json::from_slice(&body).expect("JSON"));
    let done = match (method, object) {
        (Method::GET, None) if path == SLICES => Ok(state.list(head.uri.query())),
        (Method::GET, None) => state
            .objects
            .get(path)
            .cloned()
            .ok_or((StatusCode::NOT_FOUND, "not found".into())),
        (Method::DELETE, None) => {
            state.writes += 1;
            let removed = state.objects.remove(path);
            removed.ok_or((StatusCode::NOT_FOUND, "not found".into()))
        }
        (Method::POST, Some(object)) if path == SLICES => state.write(object, None),
        (Method::PUT, Some(object)) => state.write(object, Some(path)),
        (method, _) => panic!("{method} {path}"),
    };
    Ok(match done {
        Ok(object) => respond(StatusCode::OK, &object),
        Err((code, why)) => {
            if code == StatusCode::UNPROCESSABLE_ENTITY {
                state.wrong.push(why.clone());
            }
            failure(code, &why)
        }
    })
}

impl State {
    fn list(&self, query: Option<&str>) -> Value {
        let query = query.expect("a selector");
        let selector = query.strip_prefix("fieldSelector=").expect("a selector");
        let selector = selector.replace("%3D", "=").replace("%2C", ",");
        let matches = |object: &Value| {
            selector.split(',').all(|term| {
                let (field, value) = term.split_once('=').expect("a term");
                let field = format!("/{}", field.replace('.', "/"));
                object.pointer(&field).is_some_and(|found| found == value)
            })
        };
        let all = self
            .objects
            .iter()
            .filter(|(path, _)| path.starts_with(SLICES));
        let mut items: Vec<Value> = all.map(|(_, object)| object.clone()).collect();
        items.retain(matches);
        // Members of lists have no kind.
        for item in &mut items {
            let item = item.as_object_mut().expect("an object");
            item.remove("apiVersion");
            item.remove("kind");
        }
        json!({ "kind": "ResourceSliceList", "items": items })
    }

    /// Makes an object, or replaces the one at `path`.
    fn write(
        &mut self,
        mut object: Value,
        path: Option<&str>,
    ) -> Result<Value, (StatusCode, String)> {
        self.writes += 1;
        let errors = objects::errors(&objects::own(), "ResourceSlice", &object);
        if !errors.is_empty() {
            return Err((StatusCode::UNPROCESSABLE_ENTITY, errors.join(", ")));
        }
        let own = format!(
            "{SLICES}/{}",
            object["metadata"]["name"].as_str().expect("a name")
        );
        let found = self.objects.get(&own);
        let is_expected = match path {
            None => found.is_none(),
            Some(path) => {
                assert_eq!(path, own);
                let found = found.ok_or((StatusCode::NOT_FOUND, "not found".into()))?;
                found["metadata"]["resourceVersion"] == object["metadata"]["resourceVersion"]
            }
        };
        if !is_expected {
            return Err((StatusCode::CONFLICT, "it has changed".into()));
        }
        self.version += 1;
        object["metadata"]["resourceVersion"] = json!(self.version.to_string());
        // What servers add.
        object["metadata"]["managedFields"] = json!([]);
        if self.forgets {
            for device in object["spec"]["devices"]
                .as_array_mut()
                .into_iter()
                .flatten()
            {
                let device = device.as_object_mut().expect("a device");
                device.remove("allowMultipleAllocations");
                for (_, capacity) in device["capacity"].as_object_mut().expect("a map") {
                    capacity
                        .as_object_mut()
                        .expect("a map")
                        .remove("requestPolicy");
                }
            }
        }
        self.objects.insert(own, object.clone());
        Ok(object)
    }
}

/// Whether the role in the manifest has the right.
fn is_allowed(method: &Method, path: &str) -> bool {
    let parts: Vec<&str> = path.trim_start_matches('/').split('/').collect();
    let (group, rest) = match parts[..] {
        ["api", "v1", ref rest @ ..] => ("", rest),
        ["apis", group, "v1", ref rest @ ..] => (group, rest),
        _ => return false,
    };
    let rest = match rest {
        ["namespaces", _, rest @ ..] => rest,
        rest => rest,
    };
    let verb = match (method, rest.len()) {
        (&Method::GET, 1) => "list",
        (&Method::GET, _) => "get",
        (&Method::POST, _) => "create",
        (&Method::PUT, _) => "update",
        (&Method::DELETE, _) => "delete",
        _ => return false,
    };
    let documents = objects::documents("dra.yaml");
    let rules = objects::of_kind(&documents, "ClusterRole")["rules"].clone();
    let has = |rule: &Value, key: &str, wanted: &str| {
        rule[key]
            .as_array()
            .expect("a list")
            .iter()
            .any(|found| found == wanted)
    };
    rules.as_array().expect("rules").iter().any(|rule| {
        has(rule, "apiGroups", group) && has(rule, "resources", rest[0]) && has(rule, "verbs", verb)
    })
}
