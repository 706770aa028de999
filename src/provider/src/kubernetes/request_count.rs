//! Counts the requests of a Kubernetes client.

use std::{
    sync::Arc,
    task::{Context, Poll},
    time::{Duration, Instant},
};

use futures::{FutureExt as _, future::BoxFuture};
use http::{Method, Request, Response};
use tower::{Layer, Service};

/// Receives an event for every request to the Kubernetes API.
pub trait RequestObserver: Send + Sync + 'static {
    /// A request to `host` was answered with the HTTP status `code`, or failed without one.
    fn kubernetes_request(&self, host: &str, method: &Method, code: Option<u16>, took: Duration);
}

/// A layer of the Kubernetes client that reports its requests to one host.
#[derive(Clone)]
pub(super) struct RequestCount {
    observer: Arc<dyn RequestObserver>,
    host: String,
}

impl RequestCount {
    /// Reports requests to `host`, a name or address with a port.
    pub(super) fn new(observer: Arc<dyn RequestObserver>, host: String) -> Self {
        Self { observer, host }
    }
}

impl<S> Layer<S> for RequestCount {
    type Service = Counted<S>;

    fn layer(&self, inner: S) -> Counted<S> {
        Counted {
            inner,
            count: self.clone(),
        }
    }
}

/// A service whose requests are reported.
#[derive(Clone)]
pub(super) struct Counted<S> {
    inner: S,
    count: RequestCount,
}

impl<S, B, C> Service<Request<B>> for Counted<S>
where
    S: Service<Request<B>, Response = Response<C>>,
    S::Future: Send + 'static,
    S::Error: Send + 'static,
    C: Send + 'static,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = BoxFuture<'static, Result<S::Response, S::Error>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let (count, method, begun) = (self.count.clone(), request.method().clone(), Instant::now());
        self.inner
            .call(request)
            .map(move |answer| {
                let code = answer.as_ref().ok().map(|answer| answer.status().as_u16());
                let RequestCount { observer, host } = count;
                observer.kubernetes_request(&host, &method, code, begun.elapsed());
                answer
            })
            .boxed()
    }
}
