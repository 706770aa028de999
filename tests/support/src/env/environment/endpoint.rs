//! The endpoint of a control plane whose load balancer has no data path.

use std::{future::ready, net::IpAddr, sync::Arc};

use capo_core::{Endpoint, EndpointAnswer, EndpointFailure, Excerpt};
use capo_gate::event::ProbeOutcome;
use capo_rs::tracker::prober::{Prober, TlsProber};
use futures::future::BoxFuture;

/// Every request through the endpoint is answered. Requests to machines go to their own addresses.
pub(super) struct HealthyEndpoint(pub(super) TlsProber);

impl Prober for HealthyEndpoint {
    fn probe(&self, address: IpAddr, port: u16, ca: Arc<str>) -> BoxFuture<'static, ProbeOutcome> {
        self.0.probe(address, port, ca)
    }

    fn readyz(
        &self,
        _: Endpoint,
        _: Arc<str>,
        _: Vec<IpAddr>,
    ) -> BoxFuture<'static, Result<EndpointAnswer, EndpointFailure>> {
        let answer = EndpointAnswer {
            status: 200,
            named: Vec::new(),
            body: Excerpt::of("ok"),
        };
        Box::pin(ready(Ok(answer)))
    }

    fn connect(&self, _: Endpoint) -> BoxFuture<'static, Result<(), EndpointFailure>> {
        Box::pin(ready(Ok(())))
    }
}
