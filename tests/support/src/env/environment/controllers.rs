//! The controllers of an environment, in this process.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use capo_core::ObjectName;
use capo_gate::{
    Schedule, Settings, Unobserved,
    findings::{Findings, MachineFinding},
};
use capo_openstack::{ClientSettings, Clouds, LeaseToken, NoObserver};
use capo_rs::{
    controllers::{self, Parts, PassObserver, PassResult, UncachedMachines},
    metrics::{self, Leading, Metrics},
    tracker::{Tracker, prober::TlsProber},
};
use serde_json::json;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::{Environment, endpoint::HealthyEndpoint};
use crate::{
    env::kubernetes::client,
    waiting::{PATIENCE, until},
};

/// Ended passes of two controllers.
#[derive(Debug, Clone, Default)]
pub(super) struct Passes {
    clusters: Arc<AtomicU64>,
    servers: Arc<AtomicU64>,
}

impl PassObserver for Passes {
    fn pass(&self, controller: &'static str, _: PassResult, _: Duration) {
        let counter = match controller {
            "openstackcluster" => &self.clusters,
            "openstackserver" => &self.servers,
            _ => return,
        };
        counter.fetch_add(1, Ordering::SeqCst);
    }
}

pub(super) struct Controllers {
    work: JoinHandle<()>,
    stop: CancellationToken,
    tracker: Tracker,
}

impl Drop for Controllers {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

/// Short intervals, with which a test observes within a second what takes minutes in production.
pub fn quick_gate() -> Settings {
    Settings {
        schedule: Schedule {
            first: vec![Duration::from_millis(200)],
            settling: Duration::from_millis(200),
            creating: Duration::from_millis(100),
            health: Duration::from_millis(200),
            health_at_most: Duration::from_millis(500),
            // Changes by other clients of the load balancer are also noticed soon.
            steady: Duration::from_secs(2),
            ..Schedule::default()
        },
        ..Settings::default()
    }
}

/// Settings of clients with short time-outs, so that a hanging service is noticed during the test.
pub(super) fn quick_client() -> ClientSettings {
    ClientSettings {
        qps: 200.0,
        burst: 200,
        total_timeout: Duration::from_secs(3),
        ..ClientSettings::default()
    }
}

pub(super) fn clouds(settings: ClientSettings, lease: LeaseToken) -> Clouds {
    Clouds::new(settings, lease, Arc::new(NoObserver))
}

impl Environment {
    /// Starts the controllers, as the shipped ServiceAccount.
    pub async fn start(&mut self) {
        let client = self.writes.of(client(&self.kubeconfig).await.unwrap());
        let machines = UncachedMachines::new(client.clone());
        let tracker = Tracker::with_prober(
            self.settings.clone(),
            Arc::new(machines.clone()),
            Arc::new(Unobserved),
            Arc::new(HealthyEndpoint {
                machines: TlsProber::new(),
                requests: self.endpoint_requests.clone(),
            }),
        );
        let parts = Parts {
            client,
            clouds: clouds(self.client.clone(), self.lease.clone()),
            tracker: tracker.clone(),
            settings: controllers::Settings {
                namespace: Some(self.namespace.clone()),
                secret_check_period: Duration::from_secs(1),
                sync_period: self.sync_period,
                watch_filter: self.watch_filter.clone(),
                ..controllers::Settings::default()
            },
            observer: Arc::new(self.passes.clone()),
            synced: Box::new(move |_| machines.synced()),
        };
        let stop = CancellationToken::new();
        let work = tokio::spawn({
            let (stop, tracker) = (stop.clone(), tracker.clone());
            async move {
                Box::pin(controllers::run(parts, stop)).await;
                tracker.shutdown().await;
            }
        });
        self.controllers = Some(Controllers {
            work,
            stop,
            tracker,
        });
    }

    /// Stops the controllers and waits for their end, as at the end of a process.
    pub async fn stop(&mut self) {
        if let Some(mut controllers) = self.controllers.take() {
            controllers.stop.cancel();
            tokio::time::timeout(PATIENCE, &mut controllers.work)
                .await
                .unwrap()
                .unwrap();
        }
    }

    /// Ends the controllers at once, in the middle of what they do, as if the process were killed.
    pub async fn kill(&mut self) {
        if let Some(mut controllers) = self.controllers.take() {
            controllers.work.abort();
            // The task was aborted, so its result is an error.
            let _ = (&mut controllers.work).await;
            controllers.tracker.shutdown().await;
        }
    }

    /// The number of passes over OpenStackServers that have ended.
    pub fn server_passes(&self) -> u64 {
        self.passes.servers.load(Ordering::SeqCst)
    }

    /// Whether the release gate of a machine is open, even if Kubernetes does not show it yet.
    pub fn is_release_open(&self, cluster: &str, machine: &str) -> bool {
        self.finding(cluster, machine, |_, gates| gates.release.is_open())
    }

    /// Whether the admission gate of a machine is open, even if Kubernetes does not show it yet.
    pub fn is_admission_open(&self, cluster: &str, machine: &str) -> bool {
        self.finding(cluster, machine, |_, gates| gates.admission.is_open())
    }

    /// Whether the last read of the load balancer is new enough to act on a gate that opened on it.
    pub fn is_read_fresh(&self, cluster: &str, machine: &str) -> bool {
        self.finding(cluster, machine, |findings, _| {
            findings
                .fresh_until
                .is_some_and(|until| Instant::now() <= until)
        })
    }

    fn finding(
        &self,
        cluster: &str,
        machine: &str,
        holds: impl Fn(&Findings, &MachineFinding) -> bool,
    ) -> bool {
        let name = ObjectName::new(&self.namespace, cluster);
        let findings = self.controllers.as_ref().unwrap().tracker.findings(&name);
        findings.is_some_and(|findings| {
            let name = ObjectName::new(&self.namespace, machine);
            let machine = findings.machines.get(&name);
            machine.is_some_and(|machine| holds(&findings, machine))
        })
    }

    /// The page of metrics of a process with these load balancers.
    pub fn metrics(&self) -> String {
        let leading = Leading {
            tracker: self.controllers.as_ref().unwrap().tracker.clone(),
            clouds: clouds(self.client.clone(), self.lease.clone()),
        };
        let metrics = Metrics::new(metrics::Settings::default()).unwrap();
        metrics.render(Some(&leading)).unwrap()
    }

    /// Requests that the tracker reads the load balancer of an OpenStackCluster now.
    pub fn nudge(&self, cluster: &str) {
        let name = ObjectName::new(&self.namespace, cluster);
        self.controllers.as_ref().unwrap().tracker.nudge(&name);
    }

    /// Makes the controllers reconcile an OpenStackCluster once more and waits for the end of a pass that began after
    /// this call. Later passes may follow.
    pub async fn one_more_pass(&self, cluster: &str) {
        // The first pass that ends may have been under way before. The second one was not.
        for _ in 0..2 {
            let before = self.passes.clusters.load(Ordering::SeqCst);
            let change = json!({"metadata": {"annotations": {"test/pass": before.to_string()}}});
            self.patch("OpenStackCluster", cluster, change).await;
            until("another pass", async || {
                (self.passes.clusters.load(Ordering::SeqCst) > before).then_some(())
            })
            .await;
        }
    }
}
