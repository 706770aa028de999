//! Requests to API servers: through the endpoint of a control plane, and at a machine's own address.

mod connect;
mod machine;
mod readyz;
#[cfg(test)]
mod tests;
mod tls;

use std::{
    net::{IpAddr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use futures::{FutureExt, future::BoxFuture};
use hyper_util::client::proxy::matcher::Matcher;
use tokio::io::AsyncReadExt;

use capo_core::{Endpoint, EndpointAnswer, EndpointFailure};
use capo_gate::event::ProbeOutcome;

/// A way to reach API servers.
pub trait Prober: Send + Sync + 'static {
    /// Requests `/readyz` of the API server at `address` and `port`; `ca` is the cluster's CA in PEM.
    fn probe(&self, address: IpAddr, port: u16, ca: Arc<str>) -> BoxFuture<'static, ProbeOutcome>;

    /// Requests `/readyz` through the endpoint, over a connection of its own. `ca` is the cluster's CA in PEM, empty if
    /// the cluster has none; `addresses` are the addresses to look for in the serving certificate.
    fn readyz(
        &self,
        endpoint: Endpoint,
        ca: Arc<str>,
        addresses: Vec<IpAddr>,
    ) -> BoxFuture<'static, Result<EndpointAnswer, EndpointFailure>>;

    /// Opens a TCP connection through the endpoint that stays open for a while.
    fn connect(&self, endpoint: Endpoint) -> BoxFuture<'static, Result<(), EndpointFailure>>;
}

/// A prober without state. It authenticates to no server except a proxy.
#[derive(Debug, Clone)]
pub struct TlsProber {
    /// The proxies that the manager's environment names.
    proxies: Arc<Matcher>,
}

/// The time limit of a request through the endpoint or to a machine, from the lookup of the name to the end of the
/// answer.
const TIME_LIMIT: Duration = Duration::from_secs(3);
/// How long a TCP connection through the endpoint must stay open. A load balancer accepts a connection before it has
/// reached a member: HAProxy makes four attempts, a second apart, and then closes the connection again.
const STAYS_OPEN: Duration = Duration::from_secs(4);

impl TlsProber {
    /// Uses the proxies that `HTTPS_PROXY`, `ALL_PROXY` and `NO_PROXY` name.
    pub fn new() -> Self {
        Self::with_proxies(Matcher::from_env())
    }

    fn with_proxies(proxies: Matcher) -> Self {
        Self {
            proxies: Arc::new(proxies),
        }
    }
}

impl Default for TlsProber {
    fn default() -> Self {
        Self::new()
    }
}

impl Prober for TlsProber {
    fn probe(&self, address: IpAddr, port: u16, ca: Arc<str>) -> BoxFuture<'static, ProbeOutcome> {
        async move {
            let outcome = machine::probe(SocketAddr::new(address, port), &ca);
            match tokio::time::timeout(TIME_LIMIT, outcome).await {
                Ok(outcome) => outcome,
                Err(_) => ProbeOutcome::NoConnection,
            }
        }
        .boxed()
    }

    fn readyz(
        &self,
        endpoint: Endpoint,
        ca: Arc<str>,
        addresses: Vec<IpAddr>,
    ) -> BoxFuture<'static, Result<EndpointAnswer, EndpointFailure>> {
        let proxies = Arc::clone(&self.proxies);
        async move {
            let answer = async {
                if ca.is_empty() {
                    return Err(EndpointFailure::NoCaSecret);
                }
                let verifier = tls::Authority::new(&ca).ok_or(EndpointFailure::UnreadableCa)?;
                let stream = connect::open(&endpoint, &proxies).await?;
                let (stream, named) =
                    tls::handshake(verifier, &endpoint, stream, &addresses).await?;
                let (status, body) = readyz::get(stream, &endpoint).await?;
                Ok(EndpointAnswer {
                    status,
                    named,
                    body,
                })
            };
            in_time(TIME_LIMIT, answer).await
        }
        .boxed()
    }

    fn connect(&self, endpoint: Endpoint) -> BoxFuture<'static, Result<(), EndpointFailure>> {
        let proxies = Arc::clone(&self.proxies);
        async move {
            let mut stream = in_time(TIME_LIMIT, connect::open(&endpoint, &proxies)).await?;
            let mut byte = [0_u8; 1];
            match tokio::time::timeout(STAYS_OPEN, stream.read(&mut byte)).await {
                // Most servers wait for the client to send first, so it is normal that no byte arrives.
                Err(_) | Ok(Ok(1..)) => Ok(()),
                Ok(Ok(0) | Err(_)) => Err(EndpointFailure::Closed),
            }
        }
        .boxed()
    }
}

async fn in_time<T>(
    limit: Duration,
    answer: impl Future<Output = Result<T, EndpointFailure>>,
) -> Result<T, EndpointFailure> {
    tokio::time::timeout(limit, answer)
        .await
        .unwrap_or(Err(EndpointFailure::TimedOut(limit)))
}
