//! Builds the controllers and the leader's other tasks from the settings.

use std::{sync::Arc, time::Duration};

use kube::Client;
use parking_lot::Mutex;
use tokio::sync::oneshot;
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};

use super::{
    ManagerError, Settings, cluster_operator::OperatorReport, host_name, probes::Readiness,
};
use crate::{
    controllers::{self, UncachedMachines},
    metrics::{self, Leading, Metrics},
    storage_migration::{self, plan::Phases},
    tracker::Tracker,
    webhooks::server::{self, Server},
};
use capo_core::GateMode;
use capo_openstack::{ClientSettings, Clouds, LeaseToken};

/// The pause before the webhooks' certificate and port are tried again.
const CERTIFICATE_RETRY: Duration = Duration::from_secs(2);
/// The time limit for open reviews to be answered after a stop. It is shorter than the server's default, because the
/// whole process must end before the kubelet kills it.
const CLOSE_WEBHOOKS: Duration = Duration::from_secs(2);

/// The parts that the controllers are built from.
pub(super) struct LeaderParts {
    pub(super) settings: Settings,
    pub(super) client: Client,
    pub(super) metrics: Metrics,
    pub(super) token: LeaseToken,
    pub(super) clients: ClientSettings,
    pub(super) readiness: Readiness,
    /// The state that only the leader has, from where the metrics read it.
    pub(super) leading: Arc<Mutex<Option<Leading>>>,
    /// The manager's own namespace.
    pub(super) namespace: String,
}

/// Serves admission and conversion in every process, leading or not, until `stop`. The certificate may be mounted after
/// the process has started, so the task waits for it.
pub(super) async fn serve_webhooks(
    settings: Settings,
    metrics: Metrics,
    readiness: Readiness,
    stop: CancellationToken,
) {
    if settings.webhook_port == 0 {
        readiness.no_webhooks();
        return;
    }
    let mut server_settings =
        server::Settings::new(settings.webhook_port, settings.webhook_cert_dir);
    server_settings.minimum_tls = settings.tls_min_version;
    server_settings.limits.stop = CLOSE_WEBHOOKS;
    let mut logged = None;
    let server = loop {
        match Server::bind(server_settings.clone(), Arc::new(metrics.clone())).await {
            Ok(server) => break server,
            Err(error) => {
                let reason = error.to_string();
                if logged.as_ref() != Some(&reason) {
                    tracing::warn!(reason, "Waiting to serve webhooks");
                    logged = Some(reason);
                }
            }
        }
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(CERTIFICATE_RETRY) => {}
        }
    };
    let _served = readiness.webhooks_are_served();
    tracing::info!(port = server_settings.address.port(), "Serving webhooks");
    server.serve(stop).await;
}

/// Runs the controllers and the load balancers' workers until `halt`.
pub(super) async fn run(parts: LeaderParts, halt: CancellationToken) {
    let LeaderParts {
        settings,
        client,
        metrics,
        token,
        clients,
        readiness,
        leading,
        namespace,
    } = parts;
    let machines = UncachedMachines::new(client.clone());
    let tracker = Tracker::new(
        tracker_settings(&settings),
        Arc::new(machines.clone()),
        Arc::new(metrics.clone()),
    );
    // `check` has refused unknown phases.
    let phases = Phases::without(&settings.skip_crd_migration_phases).unwrap_or(Phases::ALL);
    let migration = storage_migration::until_done(client.clone(), phases);
    let clouds = Clouds::new(clients, token, Arc::new(metrics.clone()));
    *leading.lock() = Some(Leading {
        tracker: tracker.clone(),
        clouds: clouds.clone(),
    });
    let (give_stores, stores) = oneshot::channel();
    let report = {
        let (client, metrics, last) = (client.clone(), metrics.clone(), readiness.operator());
        let name = (!settings.cluster_operator_name.is_empty())
            .then(|| settings.cluster_operator_name.clone());
        async move {
            if let Ok(stores) = stores.await {
                let report = OperatorReport {
                    client,
                    stores,
                    metrics,
                    last,
                    name,
                    namespace,
                };
                report.run().await;
            }
        }
    };
    let parts = controllers::Parts {
        client,
        clouds,
        tracker: tracker.clone(),
        settings: controller_settings(&settings),
        observer: Arc::new(metrics),
        synced: Box::new(move |stores| {
            machines.synced();
            let _ = give_stores.send(stores.clone());
            readiness.caches_synced();
            tracing::info!("Reconciling");
        }),
    };
    let _reporting = AbortOnDropHandle::new(tokio::spawn(report));
    let _migrating = AbortOnDropHandle::new(tokio::spawn(migration));
    Box::pin(controllers::run(parts, halt)).await;
    tracker.shutdown().await;
    *leading.lock() = None;
}

/// The OpenStack client's part of the settings.
///
/// # Errors
/// When the file of `--ca-certs` can't be read or holds no certificates.
pub(crate) fn client_settings(settings: &Settings) -> Result<ClientSettings, ManagerError> {
    let clients = ClientSettings {
        qps: settings.openstack_qps,
        burst: settings.openstack_burst,
        max_in_flight: settings.openstack_max_in_flight as usize,
        ..ClientSettings::default()
    };
    with_authorities(clients, &settings.ca_certs)
}

/// Adds the certificate authorities in the file at `path` to the settings, or none if the path is empty.
///
/// # Errors
/// When the file can't be read or holds no certificates.
pub(crate) fn with_authorities(
    mut clients: ClientSettings,
    path: &str,
) -> Result<ClientSettings, ManagerError> {
    let path = path.to_owned();
    clients.ca_certs = match path.as_str() {
        "" => None,
        file => match std::fs::read_to_string(file) {
            Ok(text) => Some(text),
            Err(source) => return Err(ManagerError::AuthoritiesUnreadable { path, source }),
        },
    };
    match clients.validate() {
        Ok(()) => Ok(clients),
        Err(source) => Err(ManagerError::AuthoritiesUnusable { path, source }),
    }
}

pub(super) fn tracker_settings(settings: &Settings) -> capo_gate::Settings {
    capo_gate::Settings {
        mode: settings.load_balancer_gate,
        warn_after: settings.member_warn_after,
        alert_after: settings.member_alert_after,
        stuck_after: settings.member_stuck_after,
        orphan_after: settings.member_orphan_after,
        drain_grace: settings.member_drain_grace,
        // Every object is reconciled and every load balancer is read within this period.
        schedule: capo_gate::Schedule::default().at_least_every(settings.sync_period),
        ..capo_gate::Settings::default()
    }
}

/// The metrics' part of the settings.
pub(super) fn metrics_settings(settings: &Settings) -> metrics::Settings {
    metrics::Settings {
        member_detail: settings.metrics_member_detail,
        max_members: settings.metrics_max_members as usize,
        member_alert_after: settings.member_alert_after,
        sync_period: settings.sync_period,
        features: vec![
            (
                "GateHolds",
                settings.load_balancer_gate == GateMode::Enforce,
            ),
            ("GateReports", settings.load_balancer_gate != GateMode::Off),
            ("LeaderElection", settings.leader_elect),
            ("Webhooks", settings.webhook_port != 0),
            ("SecureDiagnostics", !settings.insecure_diagnostics),
        ],
    }
}

pub(super) fn controller_settings(settings: &Settings) -> controllers::Settings {
    let given = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    controllers::Settings {
        namespace: given(&settings.namespace),
        watch_filter: given(&settings.watch_filter),
        cluster_concurrency: settings.openstackcluster_concurrency,
        machine_concurrency: settings.openstackmachine_concurrency,
        machine_template_concurrency: settings.openstackmachinetemplate_concurrency,
        sync_period: settings.sync_period,
        secret_check_period: controllers::Settings::default().secret_check_period,
        cluster_identity_default: settings.cluster_identity_default,
        instance: given(&host_name()).unwrap_or_else(|| "capo-rs".to_owned()),
    }
}
