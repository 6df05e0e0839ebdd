//! The stand-in for the kubelet: what its plugin watcher and its manager of claims do
//! with a driver.

use super::PATIENCE;
use plugin::dra::api::{self, calls};
use prost::Message;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use tokio::runtime::Runtime;
use tonic::transport::{Channel, Endpoint};
use tonic::{Request, Response, Status};
use tonic_prost::ProstCodec;

/// A kubelet.
pub struct Kubelet {
    runtime: Runtime,
    registry: PathBuf,
}

/// A driver that is registered.
pub struct Driver<'k> {
    runtime: &'k Runtime,
    channel: Channel,
    pub info: api::PluginInfo,
    /// Calls the older version.
    pub is_beta: bool,
}

/// What a claim is called.
pub fn claim(name: &str, uid: &str) -> api::Claim {
    api::Claim {
        namespace: "default".into(),
        uid: uid.into(),
        name: name.into(),
    }
}

impl Kubelet {
    /// One that looks for plugins in this folder.
    pub fn new(registry: &Path) -> Kubelet {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .expect("a runtime");
        Kubelet {
            runtime,
            registry: registry.into(),
        }
    }

    fn connect(&self, path: &Path) -> Option<Channel> {
        let endpoint = Endpoint::from_shared(format!("unix://{}", path.display()));
        let endpoint = endpoint.expect("an endpoint").timeout(PATIENCE);
        self.runtime.block_on(endpoint.connect()).ok()
    }

    /// Waits for a socket in the registry, and registers who listens there.
    pub fn registered(&self) -> Driver<'_> {
        let start = Instant::now();
        let channel = loop {
            let entries = std::fs::read_dir(&self.registry).into_iter().flatten();
            let mut sockets = entries.flatten().map(|entry| entry.path());
            if let Some(channel) = sockets.find_map(|path| self.connect(&path)) {
                break channel;
            }
            assert!(start.elapsed() < PATIENCE, "no driver in time");
            std::thread::sleep(Duration::from_millis(20));
        };
        let info = call(&self.runtime, &channel, calls::INFO, api::InfoRequest {});
        let info: api::PluginInfo = info.expect("a plugin");
        let status = api::RegistrationStatus {
            plugin_registered: true,
            error: String::new(),
        };
        let noted = call(&self.runtime, &channel, calls::STATUS, status);
        let _: api::RegistrationStatusResponse = noted.expect("an answer");
        let channel = self.connect(Path::new(&info.endpoint));
        Driver {
            runtime: &self.runtime,
            channel: channel.expect("the driver's socket"),
            info,
            is_beta: false,
        }
    }
}

fn call<Q, A>(runtime: &Runtime, channel: &Channel, path: &str, request: Q) -> Result<A, Status>
where
    Q: Message + Default + 'static,
    A: Message + Default + 'static,
{
    let mut grpc = tonic::client::Grpc::new(channel.clone());
    runtime.block_on(async {
        grpc.ready().await.expect("a connection");
        let path = path.parse().expect("a path");
        let codec = ProstCodec::<Q, A>::default();
        let answer = grpc.unary(Request::new(request), path, codec).await;
        answer.map(Response::into_inner)
    })
}

impl Driver<'_> {
    /// Calls what the driver does not have.
    pub fn call_astray(&self, path: &str) -> Status {
        let answer: Result<api::InfoRequest, _> =
            call(self.runtime, &self.channel, path, api::InfoRequest {});
        answer.expect_err("no such call")
    }

    /// Prepares claims, each with its answer.
    pub fn prepare(&self, claims: &[api::Claim]) -> Vec<Result<Vec<api::Device>, String>> {
        let path = match self.is_beta {
            true => calls::PREPARE_BETA,
            false => calls::PREPARE,
        };
        let request = api::NodePrepareResourcesRequest {
            claims: claims.to_vec(),
        };
        let answer = call(self.runtime, &self.channel, path, request);
        let answer: api::NodePrepareResourcesResponse = answer.expect("answers");
        assert_eq!(answer.claims.len(), claims.len());
        let each = claims.iter().map(|claim| {
            let answer = &answer.claims[&claim.uid];
            match answer.error.is_empty() {
                true => Ok(answer.devices.clone()),
                false => Err(answer.error.clone()),
            }
        });
        each.collect()
    }

    /// Prepares one.
    pub fn prepare_one(&self, claim: &api::Claim) -> Result<Vec<api::Device>, String> {
        self.prepare(std::slice::from_ref(claim)).remove(0)
    }

    /// Takes one back.
    pub fn unprepare(&self, claim: &api::Claim) -> Result<(), String> {
        let path = match self.is_beta {
            true => calls::UNPREPARE_BETA,
            false => calls::UNPREPARE,
        };
        let request = api::NodeUnprepareResourcesRequest {
            claims: vec![claim.clone()],
        };
        let answer = call(self.runtime, &self.channel, path, request);
        let answer: api::NodeUnprepareResourcesResponse = answer.expect("answers");
        let error = answer.claims[&claim.uid].error.clone();
        match error.is_empty() {
            true => Ok(()),
            false => Err(error),
        }
    }
}
