//! Requests to the Kubernetes API, under client-go's names.

use std::{
    task::{Context, Poll},
    time::Instant,
};

use futures::{FutureExt as _, future::BoxFuture};
use http::{Method, Request, Response};
use prometheus::{HistogramVec, IntCounterVec, Registry};
use tower::{Layer, Service};

use super::{
    Metrics, catalogue,
    families::{Result, counters, histograms},
};

pub(super) struct Families {
    requests: IntCounterVec,
    durations: HistogramVec,
}

impl Families {
    pub(super) fn new(registry: &Registry) -> Result<Self> {
        Ok(Self {
            requests: counters(registry, &catalogue::KUBERNETES_REQUESTS)?,
            durations: histograms(registry, &catalogue::KUBERNETES_DURATION)?,
        })
    }
}

/// A layer of the Kubernetes client that counts its requests to one host.
#[derive(Clone)]
pub struct RequestCount {
    metrics: Metrics,
    host: String,
}

impl RequestCount {
    /// Counts requests to `host`, a name or address with a port.
    pub fn new(metrics: Metrics, host: String) -> Self {
        Self { metrics, host }
    }

    fn ended(&self, method: &Method, code: Option<u16>, seconds: f64) {
        let families = &self.metrics.0.kubernetes;
        let code = code.map_or_else(|| "<error>".to_owned(), |code| code.to_string());
        families
            .requests
            .with_label_values(&[code.as_str(), method.as_str(), &self.host])
            .inc();
        families
            .durations
            .with_label_values(&[method.as_str(), &self.host])
            .observe(seconds);
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

/// A service whose requests are counted.
#[derive(Clone)]
pub struct Counted<S> {
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
    type Future = BoxFuture<'static, std::result::Result<S::Response, S::Error>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<std::result::Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let (count, method, begun) = (self.count.clone(), request.method().clone(), Instant::now());
        self.inner
            .call(request)
            .map(move |answer| {
                let code = answer.as_ref().ok().map(|answer| answer.status().as_u16());
                count.ended(&method, code, begun.elapsed().as_secs_f64());
                answer
            })
            .boxed()
    }
}
