//! The stand-in for the kubelet: what its device manager does with a plugin.

use super::PATIENCE;
use plugin::api::{self, KUBELET_SOCKET, calls};
use prost::Message;
use std::convert::Infallible;
use std::future::Future;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::net::UnixListener;
use tokio::runtime::Runtime;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::JoinHandle;
use tokio_stream::StreamExt;
use tokio_stream::wrappers::UnixListenerStream;
use tonic::body::Body;
use tonic::codegen::http::{self, uri::PathAndQuery};
use tonic::server::UnaryService;
use tonic::transport::{Channel, Endpoint, Server};
use tonic::{Request, Response, Status, Streaming};
use tonic_prost::ProstCodec;

type Answer<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// A kubelet.
pub struct Kubelet {
    runtime: Runtime,
    folder: PathBuf,
    server: JoinHandle<()>,
    registered: UnboundedReceiver<api::RegisterRequest>,
}

/// Its registration service; `refuses` with this text.
#[derive(Clone)]
struct Registration {
    refuses: Option<&'static str>,
    registered: UnboundedSender<api::RegisterRequest>,
}

impl UnaryService<api::RegisterRequest> for Registration {
    type Response = api::Empty;
    type Future = std::future::Ready<Result<Response<api::Empty>, Status>>;

    fn call(&mut self, request: Request<api::RegisterRequest>) -> Self::Future {
        let _ = self.registered.send(request.into_inner());
        std::future::ready(match self.refuses {
            Some(why) => Err(Status::unknown(why)),
            None => Ok(Response::new(api::Empty {})),
        })
    }
}

impl tonic::codegen::Service<http::Request<Body>> for Registration {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = Answer<Result<http::Response<Body>, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        assert_eq!(request.uri().path(), calls::REGISTER);
        let service = self.clone();
        Box::pin(async move {
            let codec = ProstCodec::<api::Empty, api::RegisterRequest>::default();
            Ok(tonic::server::Grpc::new(codec)
                .unary(service, request)
                .await)
        })
    }
}

impl Kubelet {
    /// Starts: removes the sockets of the one before, and of all plugins.
    pub fn start(folder: &Path) -> Kubelet {
        Kubelet::start_with(folder, None)
    }

    /// One that refuses every plugin.
    pub fn that_refuses(folder: &Path, why: &'static str) -> Kubelet {
        Kubelet::start_with(folder, Some(why))
    }

    fn start_with(folder: &Path, refuses: Option<&'static str>) -> Kubelet {
        for entry in std::fs::read_dir(folder).expect("a folder") {
            std::fs::remove_file(entry.expect("an entry").path()).expect("removed");
        }
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .expect("a runtime");
        let (sender, registered) = unbounded_channel();
        let service = Registration {
            refuses,
            registered: sender,
        };
        let path = folder.join(KUBELET_SOCKET);
        let server = runtime.spawn(async move {
            let listener = UnixListener::bind(path).expect("a socket");
            let incoming = UnixListenerStream::new(listener);
            let served = Server::builder().serve_with_incoming(service, incoming);
            served.await.expect("served");
        });
        Kubelet {
            runtime,
            folder: folder.into(),
            server,
            registered,
        }
    }

    /// Waits for a plugin; which one.
    pub fn registered(&mut self) -> api::RegisterRequest {
        let next = self.registered.recv();
        let next = self
            .runtime
            .block_on(async { tokio::time::timeout(PATIENCE, next).await });
        next.expect("a plugin in time").expect("a kubelet")
    }

    /// Connects to a plugin.
    pub fn connect(&self, plugin: &api::RegisterRequest) -> Connection<'_> {
        let path = self.folder.join(&plugin.endpoint);
        let endpoint = Endpoint::from_shared(format!("unix://{}", path.display()));
        let endpoint = endpoint.expect("an endpoint").timeout(PATIENCE);
        let channel = self.runtime.block_on(endpoint.connect()).expect("a plugin");
        Connection {
            runtime: &self.runtime,
            channel,
        }
    }
}

impl Drop for Kubelet {
    fn drop(&mut self) {
        self.server.abort();
    }
}

/// A connection to a plugin.
pub struct Connection<'k> {
    runtime: &'k Runtime,
    channel: Channel,
}

/// What ListAndWatch says.
pub struct Lists<'k> {
    runtime: &'k Runtime,
    stream: Streaming<api::ListAndWatchResponse>,
}

impl Connection<'_> {
    fn call<Q, A>(&self, path: &'static str, request: Q) -> Result<A, Status>
    where
        Q: Message + Default + 'static,
        A: Message + Default + 'static,
    {
        let mut grpc = tonic::client::Grpc::new(self.channel.clone());
        self.runtime.block_on(async {
            grpc.ready().await.expect("a connection");
            let path = PathAndQuery::from_static(path);
            let codec = ProstCodec::<Q, A>::default();
            let answer = grpc.unary(Request::new(request), path, codec).await;
            answer.map(Response::into_inner)
        })
    }

    pub fn options(&self) -> api::DevicePluginOptions {
        self.call(calls::OPTIONS, api::Empty {}).expect("options")
    }

    pub fn list(&self) -> Lists<'_> {
        let mut grpc = tonic::client::Grpc::new(self.channel.clone());
        let stream = self.runtime.block_on(async {
            grpc.ready().await.expect("a connection");
            let path = PathAndQuery::from_static(calls::LIST);
            let codec = ProstCodec::default();
            let mut request = Request::new(api::Empty {});
            // The stream is for ever.
            request.set_timeout(std::time::Duration::from_secs(3600));
            grpc.server_streaming(request, path, codec).await
        });
        Lists {
            runtime: self.runtime,
            stream: stream.expect("a stream").into_inner(),
        }
    }

    pub fn preferred(
        &self,
        available: &[String],
        must: &[String],
        size: i32,
    ) -> Result<Vec<String>, Status> {
        let request = api::PreferredAllocationRequest {
            container_requests: vec![api::ContainerPreferredAllocationRequest {
                available_device_ids: available.to_vec(),
                must_include_device_ids: must.to_vec(),
                allocation_size: size,
            }],
        };
        let answer: api::PreferredAllocationResponse = self.call(calls::PREFER, request)?;
        let [answer] = &answer.container_responses[..] else {
            panic!("not one answer: {answer:?}");
        };
        Ok(answer.device_ids.clone())
    }

    /// Allocates for containers, each these units.
    pub fn allocate(
        &self,
        containers: &[&[String]],
    ) -> Result<Vec<api::ContainerAllocateResponse>, Status> {
        let request = |units: &&[String]| api::ContainerAllocateRequest {
            devices_ids: units.to_vec(),
        };
        let request = api::AllocateRequest {
            container_requests: containers.iter().map(request).collect(),
        };
        let answer: api::AllocateResponse = self.call(calls::ALLOCATE, request)?;
        assert_eq!(answer.container_responses.len(), containers.len());
        Ok(answer.container_responses)
    }

    pub fn before_start(&self, units: &[String]) -> Result<(), Status> {
        let request = api::PreStartContainerRequest {
            devices_ids: units.to_vec(),
        };
        let answer: Result<api::PreStartContainerResponse, _> =
            self.call(calls::PRE_START, request);
        answer.map(drop)
    }
}

impl Lists<'_> {
    /// The next list; how many units are healthy, and of how many.
    pub fn next(&mut self) -> (usize, Vec<api::Device>) {
        let next = self
            .runtime
            .block_on(async { tokio::time::timeout(PATIENCE, self.stream.next()).await });
        let list = next
            .expect("a list in time")
            .expect("a stream")
            .expect("a list");
        let healthy = list
            .devices
            .iter()
            .filter(|device| device.health == api::HEALTHY);
        (healthy.count(), list.devices)
    }
}
