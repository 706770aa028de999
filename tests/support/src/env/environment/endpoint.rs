//! The endpoint of a control plane whose load balancer has no data path.

use std::{collections::BTreeSet, future::ready, net::IpAddr, sync::Arc};

use capo_core::{Endpoint, EndpointAnswer, EndpointFailure, Excerpt};
use capo_gate::event::ProbeOutcome;
use capo_rs::tracker::prober::{Prober, TlsProber};
use futures::future::BoxFuture;
use parking_lot::Mutex;

/// The endpoints through which requests went.
#[derive(Debug, Clone, Default)]
pub struct EndpointRequests(Arc<Mutex<BTreeSet<String>>>);

impl EndpointRequests {
    /// The endpoints, each as `host:port`.
    pub fn endpoints(&self) -> BTreeSet<String> {
        self.0.lock().clone()
    }

    /// Forgets the endpoints, so that only those of later requests are returned.
    pub fn forget(&self) {
        self.0.lock().clear();
    }

    fn note(&self, endpoint: &Endpoint) {
        self.0.lock().insert(endpoint.to_string());
    }
}

/// Every request through the endpoint is answered. Requests to machines go to their own addresses.
pub(super) struct HealthyEndpoint {
    pub(super) machines: TlsProber,
    pub(super) requests: EndpointRequests,
}

impl Prober for HealthyEndpoint {
    fn probe(&self, address: IpAddr, port: u16, ca: Arc<str>) -> BoxFuture<'static, ProbeOutcome> {
        self.machines.probe(address, port, ca)
    }

    fn readyz(
        &self,
        endpoint: Endpoint,
        _: Arc<str>,
        _: Vec<IpAddr>,
    ) -> BoxFuture<'static, Result<EndpointAnswer, EndpointFailure>> {
        self.requests.note(&endpoint);
        let answer = EndpointAnswer {
            status: 200,
            named: Vec::new(),
            body: Excerpt::of("ok"),
        };
        Box::pin(ready(Ok(answer)))
    }

    fn connect(&self, endpoint: Endpoint) -> BoxFuture<'static, Result<(), EndpointFailure>> {
        self.requests.note(&endpoint);
        Box::pin(ready(Ok(())))
    }
}
