//! Settings, probes, and the order of start and stop.
//!
//! The start order is: probes first, so that the kubelet sees that the process is alive; then metrics, the Kubernetes
//! API and webhooks; then the leader lease; the controllers last. The stop order is the reverse: the controllers end,
//! then the lease is released, then the listeners close.

mod cluster_operator;
mod diagnostics;
mod error;
mod leader_tasks;
mod logging;
pub mod plan;
mod probes;
pub mod settings;

use std::{sync::Arc, time::Duration};

use kube::Client;
use parking_lot::Mutex;
use tokio::{
    signal::unix::{SignalKind, signal},
    task::JoinHandle,
};
use tokio_util::{
    sync::CancellationToken,
    task::{AbortOnDropHandle, TaskTracker},
};

pub use error::ManagerError;
pub(crate) use leader_tasks::{client_settings as clients, with_authorities};
pub use logging::start as start_logging;
pub use settings::Settings;

use crate::{
    http::{Listener, ListenerLimits, Transport, mounted_or_self_signed, text},
    kubernetes::{
        self,
        leader::{Election, Ended, Timing},
    },
    metrics::{Leading, Metrics},
};
use capo_openstack::{ClientSettings, LeaseToken};
use probes::Readiness;

/// The time limit for all controllers to end after a stop, including requests that do not return.
const STOP_WORK: Duration = Duration::from_millis(2_200);
/// The time limit for all listeners to close after a stop, a little more than each of them gives its open requests.
/// Together with [`STOP_WORK`] and the second for the release of the lease, it is below the 10 s that the Deployment
/// sets as `terminationGracePeriodSeconds`.
const CLOSE_LISTENERS: Duration = Duration::from_millis(2_500);
/// The file that holds the namespace of the Pod.
const POD_NAMESPACE: &str = "/var/run/secrets/kubernetes.io/serviceaccount/namespace";
/// The namespace of the shipped Deployment.
pub const NAMESPACE: &str = "capo-system";

/// Runs the manager until SIGTERM or SIGINT.
///
/// # Errors
/// Why it could not start, or that it lost its leader lease.
pub async fn run(settings: Settings) -> Result<(), ManagerError> {
    // reqwest and kube both use the process's provider; a second call keeps the first.
    let _ = rustls::crypto::ring::default_provider().install_default();
    tracing::info!(
        version = capo_core::build_info::VERSION,
        revision = capo_core::build_info::REVISION,
        "Starting capo-rs"
    );
    for flag in settings.accepted.set() {
        tracing::warn!(flag, "Accepting a flag that has no effect here");
    }
    let clients = leader_tasks::client_settings(&settings)?;
    let stop = stop_on_signals()?;
    let outcome = match start(&settings, &stop).await? {
        Some(started) => lead(settings, clients, &started, &stop).await,
        None => Ok(()),
    };
    // After a lost lease, controllers that still run must not write any more, so the process ends without this wait.
    if !matches!(outcome, Err(ManagerError::LeaseLost)) {
        stop.close_listeners().await;
    }
    outcome
}

/// The parts of a process that run before it leads.
struct Started {
    metrics: Metrics,
    readiness: Readiness,
    client: Client,
    /// The client of the controllers. The request budget limits it, and the renewal of the leader lease does not wait
    /// for that budget.
    controller_client: Client,
    /// The state that only the leader has, from where the metrics read it.
    leading: Arc<Mutex<Option<Leading>>>,
    /// Follows whether the Kubernetes API answers.
    _following: AbortOnDropHandle<()>,
}

/// Serves probes, metrics and webhooks, once the Kubernetes API answers. Returns `None` if the stop came before that.
async fn start(settings: &Settings, stop: &Stop) -> Result<Option<Started>, ManagerError> {
    let readiness = Readiness::default();
    let metrics = Metrics::new(leader_tasks::metrics_settings(settings))?;
    if let Some(address) = settings.health_addr.0 {
        let limits = ListenerLimits::default();
        let listener = Listener::bind(address, "--health-addr", Transport::Plain, limits).await?;
        let serving = probes::serve(listener, readiness.clone(), stop.listeners());
        stop.serving.spawn(serving);
    }
    let config = kubernetes::config(settings.kubeconfig.as_deref()).await?;
    let address = config.cluster_url.clone();
    let observer = Arc::new(metrics.clone());
    let client = kubernetes::client(config.clone(), observer.clone(), None)?;
    let controller_client = match settings.kube_budget() {
        None => client.clone(),
        budget => kubernetes::client(config, observer, budget)?,
    };
    let leading = Arc::default();
    let source = diagnostics::Source {
        metrics: metrics.clone(),
        leading: Arc::clone(&leading),
    };
    serve_diagnostics(settings, source, client.clone(), stop).await?;
    tokio::select! {
        () = stop.requested.cancelled() => return Ok(None),
        () = kubernetes::until_it_answers(&client, &address) => readiness.kubernetes_answers(true),
    }
    let following = {
        let readiness = readiness.clone();
        let follow = kubernetes::follow_availability(client.clone(), move |answers| {
            readiness.kubernetes_answers(answers);
        });
        AbortOnDropHandle::new(tokio::spawn(follow))
    };
    let (metrics_of_server, listeners) = (metrics.clone(), stop.listeners());
    stop.serving.spawn(leader_tasks::serve_webhooks(
        settings.clone(),
        metrics_of_server,
        readiness.clone(),
        listeners,
    ));
    Ok(Some(Started {
        metrics,
        readiness,
        client,
        controller_client,
        leading,
        _following: following,
    }))
}

/// Waits for the leader lease and runs the controllers until the stop.
async fn lead(
    settings: Settings,
    clients: ClientSettings,
    started: &Started,
    stop: &Stop,
) -> Result<(), ManagerError> {
    let namespace = own_namespace(&settings);
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
            started.client.clone(),
            &namespace,
            &host_name(),
            timing,
            token.clone(),
            settings.load_balancer_gate,
        )
    });
    if let Some(election) = &mut election {
        // A candidate serves webhooks and needs no caches.
        started.readiness.caches_synced();
        tokio::select! {
            () = stop.requested.cancelled() => {
                // The write that takes the lease may have been sent. Nothing was written to OpenStack yet.
                election.release().await;
                return Ok(());
            }
            () = election.acquire() => {}
        }
        tracing::info!(identity = election.identity(), "Leading");
    }
    started.metrics.leading(true);
    let halt = CancellationToken::new();
    let parts = leader_tasks::LeaderParts {
        settings,
        client: started.controller_client.clone(),
        metrics: started.metrics.clone(),
        token,
        clients,
        readiness: started.readiness.clone(),
        leading: started.leading.clone(),
        namespace,
    };
    let mut work = tokio::spawn(leader_tasks::run(parts, halt.clone()));
    let lease = async {
        if let Some(election) = &mut election {
            election.hold(&stop.requested).await
        } else {
            stop.requested.cancelled().await;
            Ended::Stopped
        }
    };
    let ended = tokio::select! {
        ended = lease => ended,
        early = &mut work => return Err(match early {
            Ok(()) => ManagerError::ControllersEnded,
            Err(error) => error.into(),
        }),
    };
    started.metrics.leading(false);
    if ended == Ended::Lost {
        // Controllers that still run must not write any more, so the process ends at once.
        return Err(ManagerError::LeaseLost);
    }
    stop.complete(&halt, work, election).await
}

/// The two steps of a stop.
struct Stop {
    /// SIGTERM or SIGINT arrived.
    requested: CancellationToken,
    /// The controllers have ended, so the listeners close.
    listeners: CancellationToken,
    /// The tasks of the listeners, for the wait until their open requests are answered.
    serving: TaskTracker,
}

impl Stop {
    /// The token that stops the listeners, after the controllers have ended.
    fn listeners(&self) -> CancellationToken {
        self.listeners.clone()
    }

    /// Closes the listeners and waits a bounded time for the requests that are still open. The API server refuses a
    /// change whose admission request is cut.
    async fn close_listeners(&self) {
        self.listeners.cancel();
        self.serving.close();
        let closed = tokio::time::timeout(CLOSE_LISTENERS, self.serving.wait()).await;
        if closed.is_err() {
            tracing::warn!("Some listeners have not closed");
        }
    }

    /// Ends the controllers and releases the lease.
    ///
    /// # Errors
    /// When the controllers panicked during the stop. The lease is not released then, because nobody knows what still
    /// runs.
    async fn complete(
        &self,
        halt: &CancellationToken,
        work: JoinHandle<()>,
        election: Option<Election>,
    ) -> Result<(), ManagerError> {
        tracing::info!("Stopping");
        halt.cancel();
        let ended = tokio::time::timeout(STOP_WORK, work).await;
        let clean = matches!(ended, Ok(Ok(())));
        if let Some(mut election) = election {
            if clean {
                election.release().await;
            } else {
                tracing::warn!(
                    "Some controllers have not ended properly: the leader lease is not released and expires by itself"
                );
            }
        }
        match ended {
            Ok(Err(panicked)) => Err(panicked.into()),
            // Requests that do not return in time are no failure of this process.
            Ok(Ok(())) | Err(_) => Ok(()),
        }
    }
}

fn stop_on_signals() -> Result<Stop, ManagerError> {
    let mut terminate = signal(SignalKind::terminate()).map_err(ManagerError::Signals)?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(ManagerError::Signals)?;
    let stop = Stop {
        requested: CancellationToken::new(),
        listeners: CancellationToken::new(),
        serving: TaskTracker::new(),
    };
    let requested = stop.requested.clone();
    tokio::spawn(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        requested.cancel();
    });
    Ok(stop)
}

async fn serve_diagnostics(
    settings: &Settings,
    source: diagnostics::Source,
    client: Client,
    stop: &Stop,
) -> Result<(), ManagerError> {
    let Some(address) = settings.diagnostics_address.0 else {
        return Ok(());
    };
    let transport = if settings.insecure_diagnostics {
        Transport::Plain
    } else {
        let folder = settings.webhook_cert_dir.clone();
        Transport::Tls(mounted_or_self_signed("metrics", folder, settings.tls_min_version).await?)
    };
    let limits = ListenerLimits::default();
    let listener = Listener::bind(address, "--diagnostics-address", transport, limits).await?;
    let readers = (!settings.insecure_diagnostics).then(|| diagnostics::Readers::new(client));
    let serving = listener.serve(stop.listeners(), move |request| {
        let (source, readers) = (source.clone(), readers.clone());
        async move {
            let allowed = match &readers {
                Some(readers) => readers.may_read(request.headers()).await,
                None => Ok(()),
            };
            match allowed {
                Ok(()) => source.respond(request.method(), request.uri().path()),
                Err(status) => text(status, status.to_string()),
            }
        }
    });
    stop.serving.spawn(serving);
    Ok(())
}

fn own_namespace(settings: &Settings) -> String {
    namespace_or_own(&settings.leader_elect_resource_namespace)
}

/// `given`, or else the Pod's own namespace, or else that of the shipped Deployment.
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

/// The host's name, which in a Pod is the name of the Pod; empty if the kernel does not provide one.
fn host_name() -> String {
    let read = std::fs::read_to_string("/proc/sys/kernel/hostname");
    read.unwrap_or_default().trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stop() -> Stop {
        Stop {
            requested: CancellationToken::new(),
            listeners: CancellationToken::new(),
            serving: TaskTracker::new(),
        }
    }

    #[tokio::test]
    async fn controllers_that_panic_during_the_stop_are_an_error() {
        let work = tokio::spawn(async { panic!("on purpose") });
        let ended = stop().complete(&CancellationToken::new(), work, None).await;
        assert!(
            matches!(ended, Err(ManagerError::ControllersFailed(_))),
            "{ended:?}"
        );
    }

    #[tokio::test]
    async fn controllers_that_end_by_themselves_end_cleanly() {
        let halt = CancellationToken::new();
        let work = tokio::spawn(halt.clone().cancelled_owned());
        assert!(stop().complete(&halt, work, None).await.is_ok());
    }

    #[tokio::test]
    async fn listeners_are_waited_for_only_so_long() {
        let stop = stop();
        let listeners = stop.listeners();
        let (answered, mut answer) = tokio::sync::oneshot::channel();
        stop.serving.spawn(async move {
            listeners.cancelled().await;
            tokio::time::sleep(Duration::from_millis(50)).await;
            let _ = answered.send(());
        });
        stop.close_listeners().await;
        assert!(answer.try_recv().is_ok());

        tokio::time::pause();
        stop.serving.spawn(std::future::pending::<()>());
        stop.close_listeners().await;
    }
}
