//! The calls that the kubelet makes.

use super::api::{self, calls};
use super::cluster::Cluster;
use super::driver::Driver;
use super::{DRIVER, say};
use prost::Message;
use std::convert::Infallible;
use std::future::Future;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use tonic::body::Body;
use tonic::codegen::http;
use tonic::server::{Grpc, UnaryService};
use tonic::{Request, Response, Status};
use tonic_prost::ProstCodec;

type Answer<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// A call: what is done with a request.
struct Call<F>(F);

impl<F, Q, A, W> UnaryService<Q> for Call<F>
where
    F: FnOnce(Q) -> W + Clone,
    W: Future<Output = A> + Send + 'static,
{
    type Response = A;
    type Future = Answer<Result<Response<A>, Status>>;

    fn call(&mut self, request: Request<Q>) -> Self::Future {
        let answer = self.0.clone()(request.into_inner());
        Box::pin(async move { Ok(Response::new(answer.await)) })
    }
}

async fn unary<Q, A, W>(
    request: http::Request<Body>,
    answer: impl FnOnce(Q) -> W + Clone + Send + 'static,
) -> http::Response<Body>
where
    Q: Message + Default + 'static,
    A: Message + Default + 'static,
    W: Future<Output = A> + Send + 'static,
{
    let mut grpc = Grpc::new(ProstCodec::<A, Q>::default());
    grpc.unary(Call(answer), request).await
}

/// Answers at the socket in the kubelet's registry.
#[derive(Clone)]
pub(crate) struct Registration {
    /// The socket of [`Service`].
    pub(crate) endpoint: PathBuf,
}

impl Registration {
    async fn answer(self, request: http::Request<Body>) -> http::Response<Body> {
        match request.uri().path() {
            calls::INFO => {
                let info = api::PluginInfo {
                    kind: api::PLUGIN_TYPE.into(),
                    name: DRIVER.into(),
                    endpoint: self.endpoint.display().to_string(),
                    supported_versions: api::VERSIONS.map(Into::into).into(),
                };
                unary(request, |api::InfoRequest {}| std::future::ready(info)).await
            }
            calls::STATUS => {
                let note = |status: api::RegistrationStatus| {
                    say(&match status.plugin_registered {
                        true => format!("the kubelet has registered {DRIVER}"),
                        false => format!("the kubelet refuses {DRIVER}: {}", status.error),
                    });
                    std::future::ready(api::RegistrationStatusResponse {})
                };
                unary(request, note).await
            }
            other => unknown(other),
        }
    }
}

/// Answers at the driver's own socket.
#[derive(Clone)]
pub(crate) struct Service {
    pub(crate) driver: Arc<Driver>,
    pub(crate) cluster: Arc<Cluster>,
}

impl Service {
    async fn answer(self, request: http::Request<Body>) -> http::Response<Body> {
        match request.uri().path() {
            calls::PREPARE => unary(request, move |request| self.prepare(request)).await,
            calls::PREPARE_BETA => {
                let answer = move |request| async {
                    let mut answer = self.prepare(request).await;
                    // It has no such field.
                    let answers = answer.claims.values_mut();
                    for device in answers.flat_map(|answer| &mut answer.devices) {
                        device.share_id = None;
                    }
                    answer
                };
                unary(request, answer).await
            }
            calls::UNPREPARE | calls::UNPREPARE_BETA => {
                unary(request, move |request| self.unprepare(request)).await
            }
            other => unknown(other),
        }
    }

    async fn prepare(
        self,
        request: api::NodePrepareResourcesRequest,
    ) -> api::NodePrepareResourcesResponse {
        let mut response = api::NodePrepareResourcesResponse::default();
        for claim in request.claims {
            let prepared = self.driver.prepare(&self.cluster, &claim).await;
            let (devices, error) = match prepared {
                Ok(devices) => (devices, String::new()),
                Err(error) => (Vec::new(), refused("prepared", &claim, &error)),
            };
            let answer = api::NodePrepareResourceResponse { devices, error };
            response.claims.insert(claim.uid, answer);
        }
        response
    }

    async fn unprepare(
        self,
        request: api::NodeUnprepareResourcesRequest,
    ) -> api::NodeUnprepareResourcesResponse {
        let mut response = api::NodeUnprepareResourcesResponse::default();
        for claim in request.claims {
            let error = match self.driver.unprepare(&claim).await {
                Ok(()) => String::new(),
                Err(error) => refused("unprepared", &claim, &error),
            };
            let answer = api::NodeUnprepareResourceResponse { error };
            response.claims.insert(claim.uid, answer);
        }
        response
    }
}

/// One error, for whoever asks the cluster about the pod and for whoever reads what
/// the driver says.
fn refused(what: &str, claim: &api::Claim, error: &dyn std::fmt::Display) -> String {
    say(&format!(
        "the claim {}/{} is not {what}: {error}",
        claim.namespace, claim.name
    ));
    error.to_string()
}

fn unknown(path: &str) -> http::Response<Body> {
    Status::unimplemented(format!("there is no call {path}")).into_http()
}

/// Makes a service of what answers requests.
macro_rules! serve {
    ($($service:ty),*) => {$(
        impl tonic::codegen::Service<http::Request<Body>> for $service {
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
    )*};
}

serve!(Registration, Service);
