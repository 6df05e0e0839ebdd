//! The calls that the kubelet makes.

use crate::api::{self, HEALTHY, UNHEALTHY, calls};
use crate::health::Health;
use crate::plugin::{AllocateError, Plugin};
use crate::units::{Units, prefer};
use prost::Message;
use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio::sync::watch;
use tokio_stream::wrappers::WatchStream;
use tokio_stream::{Stream, StreamExt};
use tonic::body::Body;
use tonic::codegen::http;
use tonic::server::{Grpc, ServerStreamingService, UnaryService};
use tonic::{Request, Response, Status};
use tonic_prost::ProstCodec;

type Answer<T> = Pin<Box<dyn Future<Output = T> + Send>>;
type Lists = Pin<Box<dyn Stream<Item = Result<api::ListAndWatchResponse, Status>> + Send>>;

/// Answers the kubelet's calls.
#[derive(Clone)]
pub struct Service {
    plugin: Arc<Plugin>,
    health: watch::Receiver<Health>,
}

/// One of the calls that have one answer.
struct Unary<F>(F);

impl<F, Q, A> UnaryService<Q> for Unary<F>
where
    F: FnOnce(Q) -> Result<A, Status> + Clone + Send + 'static,
    Q: Send + 'static,
    A: Send + 'static,
{
    type Response = A;
    type Future = Answer<Result<Response<A>, Status>>;

    fn call(&mut self, request: Request<Q>) -> Self::Future {
        let answer = self.0.clone();
        Box::pin(async move {
            // The manager is asked over a socket.
            let done = tokio::task::spawn_blocking(move || answer(request.into_inner())).await;
            let done = done.map_err(|error| Status::internal(error.to_string()))?;
            done.map(Response::new)
        })
    }
}

/// ListAndWatch.
struct List(watch::Receiver<Health>);

impl ServerStreamingService<api::Empty> for List {
    type Response = api::ListAndWatchResponse;
    type ResponseStream = Lists;
    type Future = std::future::Ready<Result<Response<Lists>, Status>>;

    fn call(&mut self, _: Request<api::Empty>) -> Self::Future {
        // The first one is how things are now.
        let all = WatchStream::new(self.0.clone()).map(|health| Ok(units(health)));
        std::future::ready(Ok(Response::new(Box::pin(all))))
    }
}

impl Service {
    /// A service for this plugin, whose manager is as `health` says.
    pub(crate) fn new(plugin: Arc<Plugin>, health: watch::Receiver<Health>) -> Service {
        Service { plugin, health }
    }

    async fn unary<Q, A>(
        request: http::Request<Body>,
        answer: impl FnOnce(Q) -> Result<A, Status> + Clone + Send + 'static,
    ) -> http::Response<Body>
    where
        Q: Message + Default + 'static,
        A: Message + Default + 'static,
    {
        let mut grpc = Grpc::new(ProstCodec::<A, Q>::default());
        grpc.unary(Unary(answer), request).await
    }

    async fn answer(self, request: http::Request<Body>) -> http::Response<Body> {
        let plugin = self.plugin;
        match request.uri().path() {
            calls::OPTIONS => Self::unary(request, |api::Empty {}| Ok(options())).await,
            calls::PREFER => Self::unary(request, preferred).await,
            calls::ALLOCATE => {
                Self::unary(request, move |request| allocate(&plugin, &request)).await
            }
            calls::PRE_START => {
                let answer = move |request: api::PreStartContainerRequest| {
                    let units = of(&request.devices_ids)?;
                    plugin
                        .before_start(&units)
                        .map_err(|error| status(&error))?;
                    Ok(api::PreStartContainerResponse {})
                };
                Self::unary(request, answer).await
            }
            calls::LIST => {
                let codec = ProstCodec::<api::ListAndWatchResponse, api::Empty>::default();
                let list = List(self.health);
                Grpc::new(codec).server_streaming(list, request).await
            }
            other => Status::unimplemented(format!("there is no call {other}")).into_http(),
        }
    }
}

impl tonic::codegen::Service<http::Request<Body>> for Service {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = Answer<Result<http::Response<Body>, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let service = self.clone();
        Box::pin(async move { Ok(service.answer(request).await) })
    }
}

/// What the plugin can do. Before a container starts again, its slice may have to
/// be made again: the kubelet does not allocate a second time.
pub(crate) fn options() -> api::DevicePluginOptions {
    api::DevicePluginOptions {
        pre_start_required: true,
        get_preferred_allocation_available: true,
    }
}

fn units(health: Health) -> api::ListAndWatchResponse {
    let device = |number| api::Device {
        id: Units::name(number),
        health: if number < health.healthy {
            HEALTHY
        } else {
            UNHEALTHY
        }
        .into(),
        topology: None,
    };
    api::ListAndWatchResponse {
        devices: (0..health.all).map(device).collect(),
    }
}

fn of(names: &[String]) -> Result<Units, Status> {
    Units::of(names).map_err(|error| Status::invalid_argument(error.to_string()))
}

fn status(error: &AllocateError) -> Status {
    let text = error.to_string();
    match error {
        AllocateError::Manager(_) | AllocateError::Lost => Status::unavailable(text),
        AllocateError::TooMuch { .. } | AllocateError::Edits(_) => {
            Status::failed_precondition(text)
        }
    }
}

fn preferred(
    request: api::PreferredAllocationRequest,
) -> Result<api::PreferredAllocationResponse, Status> {
    let each = request.container_requests.iter().map(|request| {
        let count = usize::try_from(request.allocation_size).ok();
        let (free, must) = (
            &request.available_device_ids,
            &request.must_include_device_ids,
        );
        let chosen = count.and_then(|count| prefer(free, must, count));
        let device_ids = chosen.ok_or_else(|| {
            Status::invalid_argument(format!(
                "{} of {} units cannot be chosen with {} that must be among them",
                request.allocation_size,
                free.len(),
                must.len()
            ))
        })?;
        Ok(api::ContainerPreferredAllocationResponse { device_ids })
    });
    Ok(api::PreferredAllocationResponse {
        container_responses: each.collect::<Result<_, Status>>()?,
    })
}

fn allocate(
    plugin: &Plugin,
    request: &api::AllocateRequest,
) -> Result<api::AllocateResponse, Status> {
    let requests = request.container_requests.iter();
    let all = requests.map(|request| of(&request.devices_ids));
    let all = all.collect::<Result<Vec<_>, Status>>()?;
    for (at, units) in all.iter().enumerate() {
        if all[..at].iter().any(|before| before.overlap(units)) {
            return Err(Status::invalid_argument("two containers ask for one unit"));
        }
    }
    let each = all
        .iter()
        .map(|units| plugin.allocate(units).map_err(|error| status(&error)));
    Ok(api::AllocateResponse {
        container_responses: each.collect::<Result<_, Status>>()?,
    })
}
