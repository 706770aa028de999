//! Settings, leader lease, HTTP endpoints, start and stop order.
//!
//! Start: probes first, so that a kubelet sees life; then the Kubernetes API, webhooks and metrics; then
//! the leader lease; the work last. Stop is the reverse: the work ends, then the lease is given back,
//! then the endpoints close.

mod cluster_operator;
mod diagnostics;
mod http;
mod kube_budget;
mod kubernetes;
pub mod leader;
mod logging;
mod probes;
pub mod settings;
pub mod storage_migration;
mod tls;
mod work;

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use kube::Client;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

pub use logging::{messages as log_messages, start as start_logging};
pub use settings::Settings;

use crate::metrics::Metrics;
use capo_openstack::LeaseToken;
use leader::{Election, Ended, Timing};
use probes::Readiness;

/// Time for all of the work to end after the word to stop, hung requests included.
const STOP_WORK: Duration = Duration::from_millis(2_200);
/// The file in which a Pod finds its own namespace.
const POD_NAMESPACE: &str = "/var/run/secrets/kubernetes.io/serviceaccount/namespace";
/// The namespace of the shipped deployment.
pub const NAMESPACE: &str = "capo-system";

/// Runs the manager until SIGTERM or SIGINT.
///
/// # Errors
/// Why it could not start, or that it lost its leader lease.
pub async fn run(settings: Settings) -> Result<(), String> {
    // reqwest and kube both take the process's provider; a second call keeps the first.
    let _ = rustls::crypto::ring::default_provider().install_default();
    tracing::info!(
        version = capo_core::build_info::VERSION,
        revision = capo_core::build_info::REVISION,
        "Starting capo-rs"
    );
    for flag in settings.without_effect() {
        tracing::warn!(flag, "Accepting a flag that has no effect here");
    }
    let clients = work::of_clients(&settings)?;
    let stop = stop_on_signals()?;
    let readiness = Readiness::default();
    let metrics = Metrics::new(work::of_metrics(&settings)).map_err(|error| error.to_string())?;
    if let Some(address) = settings.health_addr.0 {
        let listener = http::bind("--health-addr", address).await?;
        tokio::spawn(probes::serve(listener, readiness.clone(), stop.never()));
    }
    let config = kubernetes::config(settings.kubeconfig.as_deref()).await?;
    let address = config.cluster_url.clone();
    let budget = settings.kube_budget();
    // Whoever works keeps to the budget; the leader lease does not wait in a queue.
    let workers = match budget {
        Some(_) => Some(kubernetes::client(config.clone(), &metrics, budget)?),
        None => None,
    };
    let client = kubernetes::client(config, &metrics, None)?;
    let leading = Arc::new(Mutex::new(None));
    let namespace = own_namespace(&settings);
    let source = diagnostics::Source {
        metrics: metrics.clone(),
        leading: leading.clone(),
    };
    serve_diagnostics(&settings, source, client.clone(), &stop).await?;
    tokio::select! {
        () = stop.asked.cancelled() => return Ok(()),
        () = kubernetes::until_it_answers(&client, &address) => readiness.kubernetes_answers(),
    }
    work::serve_webhooks(&settings, &metrics, &readiness, stop.never());

    let token = if settings.leader_elect {
        LeaseToken::not_held()
    } else {
        LeaseToken::unlimited()
    };
    let mut election = settings.leader_elect.then(|| {
        let timing = Timing {
            lease_duration: settings.leader_elect_lease_duration,
            renew_deadline: settings.leader_elect_renew_deadline,
            retry_period: settings.leader_elect_retry_period,
        };
        Election::new(
            client.clone(),
            &namespace,
            timing,
            token.clone(),
            settings.load_balancer_gate,
        )
    });
    if let Some(election) = &mut election {
        // A candidate serves webhooks and has no caches.
        readiness.caches_synced();
        tokio::select! {
            () = stop.asked.cancelled() => return Ok(()),
            () = election.acquire() => {}
        }
        tracing::info!(identity = election.identity(), "Leading");
    }
    metrics.leading(true);
    let halt = CancellationToken::new();
    let mut work = tokio::spawn(work::run(
        work::Parts {
            settings,
            client: workers.unwrap_or(client),
            metrics: metrics.clone(),
            token,
            clients,
            readiness,
            leading,
            namespace,
        },
        halt.clone(),
    ));
    let lease = async {
        if let Some(election) = &mut election {
            election.keep(&stop.asked).await
        } else {
            stop.asked.cancelled().await;
            Ended::Stopped
        }
    };
    let ended = tokio::select! {
        ended = lease => ended,
        early = &mut work => return Err(match early {
            Ok(()) => "the controllers ended by themselves".to_owned(),
            Err(error) => format!("the controllers ended: {error}"),
        }),
    };
    metrics.leading(false);
    if ended == Ended::Lost {
        // Whatever still runs may not write any more; the shortest way out is the safest.
        return Err("the leader lease was lost".to_owned());
    }
    tracing::info!("Stopping");
    halt.cancel();
    let clean = tokio::time::timeout(STOP_WORK, work).await.is_ok();
    if let Some(election) = &mut election {
        if clean {
            election.release().await;
        } else {
            tracing::warn!("Keeping the leader lease to its end: some work has not ended");
        }
    }
    stop.everything.cancel();
    Ok(())
}

/// A client for what is run once, from a kubeconfig or the Pod's own ServiceAccount.
///
/// # Errors
/// What is missing.
pub async fn connect(kubeconfig: Option<&std::path::Path>) -> Result<Client, String> {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let config = kubernetes::config(kubeconfig).await?;
    Client::try_from(config).map_err(|error| error.to_string())
}

/// The two moments of a stop.
struct Stop {
    /// SIGTERM or SIGINT arrived.
    asked: CancellationToken,
    /// The work has ended: the endpoints close.
    everything: CancellationToken,
}

impl Stop {
    /// For what serves until the very end.
    fn never(&self) -> CancellationToken {
        self.everything.clone()
    }
}

fn stop_on_signals() -> Result<Stop, String> {
    let told = |error: std::io::Error| format!("can't wait for signals: {error}");
    let mut terminate = signal(SignalKind::terminate()).map_err(told)?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(told)?;
    let stop = Stop {
        asked: CancellationToken::new(),
        everything: CancellationToken::new(),
    };
    let asked = stop.asked.clone();
    tokio::spawn(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        asked.cancel();
    });
    Ok(stop)
}

async fn serve_diagnostics(
    settings: &Settings,
    source: diagnostics::Source,
    client: Client,
    stop: &Stop,
) -> Result<(), String> {
    let Some(address) = settings.diagnostics_address.0 else {
        return Ok(());
    };
    let listener = http::bind("--diagnostics-address", address).await?;
    let stop = stop.never();
    if settings.insecure_diagnostics {
        tokio::spawn(http::serve(listener, stop, http::plain, move |request| {
            let answer = source.answer(request.method(), request.uri().path());
            async move { answer }
        }));
        return Ok(());
    }
    let acceptor = tls::acceptor(settings).await?;
    let readers = diagnostics::Readers::new(client);
    tokio::spawn(http::serve(
        listener,
        stop,
        move |stream| acceptor.accept(stream),
        move |request| {
            let (source, readers) = (source.clone(), readers.clone());
            async move {
                match readers.may_read(request.headers()).await {
                    Ok(()) => source.answer(request.method(), request.uri().path()),
                    Err(status) => http::text(status, status.to_string()),
                }
            }
        },
    ));
    Ok(())
}

fn own_namespace(settings: &Settings) -> String {
    namespace_or_own(&settings.leader_elect_resource_namespace)
}

/// `given`, or else the Pod's own namespace, or that of the shipped deployment.
pub fn namespace_or_own(given: &str) -> String {
    if !given.is_empty() {
        return given.to_owned();
    }
    std::fs::read_to_string(POD_NAMESPACE)
        .ok()
        .map(|text| text.trim().to_owned())
        .filter(|text| !text.is_empty())
        .unwrap_or_else(|| NAMESPACE.to_owned())
}
