//! The controllers of an environment, in this process.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use capo_core::ObjectName;
use capo_gate::{Schedule, Settings, Unobserved};
use capo_openstack::{ClientSettings, Clouds, LeaseToken, NoObserver};
use capo_rs::{
    controllers::{self, Observer, Parts, UncachedMachines},
    tracker::Membership,
};
use serde_json::json;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::Environment;
use crate::{
    env::kubernetes::client,
    waiting::{PATIENCE, until},
};

/// Ended passes of the OpenStackCluster controller.
#[derive(Debug, Clone, Default)]
pub(super) struct Passes(Arc<AtomicU64>);

impl Observer for Passes {
    fn pass(&self, controller: &'static str, _: &'static str, _: Duration) {
        if controller == "openstackcluster" {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }
}

pub(super) struct Controllers {
    work: JoinHandle<()>,
    stop: CancellationToken,
    membership: Membership,
}

impl Drop for Controllers {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

/// Settings with which a test sees within a second what an operator sees within minutes.
pub fn quick_gate() -> Settings {
    Settings {
        schedule: Schedule {
            first: vec![Duration::from_millis(200)],
            settling: Duration::from_millis(200),
            creating: Duration::from_millis(100),
            health: Duration::from_millis(200),
            health_at_most: Duration::from_millis(500),
            // Changes that others make in the load balancer are seen soon too.
            steady: Duration::from_secs(2),
            ..Schedule::default()
        },
        ..Settings::default()
    }
}

/// Clients that give up soon, so that a hanging service is noticed within the test.
pub(super) fn clouds() -> Clouds {
    let settings = ClientSettings {
        qps: 200.0,
        burst: 200,
        total_timeout: Duration::from_secs(3),
        ..ClientSettings::default()
    };
    Clouds::new(settings, LeaseToken::unlimited(), Arc::new(NoObserver))
}

impl Environment {
    /// Starts the controllers, as the shipped ServiceAccount.
    pub async fn start(&mut self) {
        let client = client(&self.kubeconfig).await.unwrap();
        let machines = UncachedMachines::new(client.clone());
        let membership = Membership::new(
            self.settings.clone(),
            Arc::new(machines.clone()),
            Arc::new(Unobserved),
        );
        let parts = Parts {
            client,
            clouds: clouds(),
            membership: membership.clone(),
            settings: controllers::Settings {
                namespace: Some(self.namespace.clone()),
                ..controllers::Settings::default()
            },
            observer: Arc::new(self.passes.clone()),
            synced: Box::new(move |_| machines.synced()),
        };
        let stop = CancellationToken::new();
        let work = tokio::spawn({
            let (stop, membership) = (stop.clone(), membership.clone());
            async move {
                Box::pin(controllers::run(parts, stop)).await;
                membership.shutdown().await;
            }
        });
        self.controllers = Some(Controllers {
            work,
            stop,
            membership,
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

    /// Lets the tracker read the load balancer of an OpenStackCluster now.
    pub fn nudge(&self, cluster: &str) {
        let name = ObjectName::new(&self.namespace, cluster);
        self.controllers.as_ref().unwrap().membership.nudge(&name);
    }

    /// Makes the controllers look at an OpenStackCluster once more and waits for the end of that pass; later ones may follow.
    pub async fn one_more_pass(&self, cluster: &str) {
        let before = self.passes.0.load(Ordering::SeqCst);
        let change = json!({"metadata": {"annotations": {"test/pass": before.to_string()}}});
        self.patch("OpenStackCluster", cluster, change).await;
        until("another pass", async || {
            (self.passes.0.load(Ordering::SeqCst) > before).then_some(())
        })
        .await;
    }
}
