//! What the leader does, put together.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use kube::Client;
use tokio_util::sync::CancellationToken;

use super::{Settings, probes::Readiness};
use crate::{
    membership::Membership,
    metrics::Metrics,
    openstack::LeaseToken,
    webhooks::server::{self, Server},
};

/// The pause before the webhooks' certificate and port are tried again.
const CERTIFICATE_RETRY: Duration = Duration::from_secs(2);

/// What the work is made of.
pub(super) struct Parts {
    pub(super) settings: Settings,
    pub(super) client: Client,
    pub(super) metrics: Metrics,
    pub(super) token: LeaseToken,
    pub(super) readiness: Readiness,
    /// Where the metrics find the members of the leader.
    pub(super) membership: Arc<Mutex<Option<Membership>>>,
}

/// Serves admission and conversion, by every process, leading or not. The certificate may come later than
/// the process: it is waited for.
pub(super) fn serve_webhooks(
    settings: &Settings,
    metrics: &Metrics,
    readiness: &Readiness,
    stop: CancellationToken,
) {
    if settings.webhook_port == 0 {
        readiness.webhooks_serve();
        return;
    }
    let mut of_server =
        server::Settings::new(settings.webhook_port, settings.webhook_cert_dir.clone());
    if settings.tls_min_version == "VersionTLS13" {
        of_server.minimum_tls = server::MinimumTls::V1_3;
    }
    // The process must be gone within three seconds.
    of_server.limits.stop = Duration::from_millis(500);
    let (metrics, readiness) = (metrics.clone(), readiness.clone());
    tokio::spawn(async move {
        let mut told = None;
        let server = loop {
            match Server::bind(of_server.clone(), Arc::new(metrics.clone())).await {
                Ok(server) => break server,
                Err(error) => {
                    let reason = error.to_string();
                    if told.as_ref() != Some(&reason) {
                        tracing::warn!(reason, "Waiting to serve webhooks");
                        told = Some(reason);
                    }
                }
            }
            tokio::select! {
                () = stop.cancelled() => return,
                () = tokio::time::sleep(CERTIFICATE_RETRY) => {}
            }
        };
        readiness.webhooks_serve();
        tracing::info!(port = of_server.address.port(), "Serving webhooks");
        server.serve(stop).await;
    });
}

/// Runs the controllers and the load balancers' tasks until `halt`.
pub(super) async fn run(parts: Parts, halt: CancellationToken) -> Result<(), String> {
    let _ = (
        parts.settings,
        parts.client,
        parts.metrics,
        parts.token,
        parts.membership,
    );
    parts.readiness.caches_synced();
    halt.cancelled().await;
    Ok(())
}
