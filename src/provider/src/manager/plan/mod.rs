//! `capo-rs plan` and `--dry-run`: the passes of every controller run once, with clients that record writes instead of
//! sending them. The process takes no lease, serves nothing, and writes nothing to Kubernetes or OpenStack.

pub(crate) mod dry_run;
mod recorder;

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use serde::Serialize;
use serde_json::Value;
use tokio::{sync::oneshot, time::Instant};
use tokio_util::sync::CancellationToken;

use super::{ManagerError, Settings, leader_tasks};
use crate::{
    controllers::{self, Stores, UncachedMachines},
    kubernetes,
    reconcile::name_of,
    subject::Subject,
    tracker::Tracker,
};
use capo_openstack::{Clouds, LeaseToken};
use recorder::Recorder;

/// The plan is complete when nothing was recorded for this time and no object waits.
const SETTLED: Duration = Duration::from_secs(3);
/// How long an object may wait, such as for its load balancer, before the wait counts as its result.
const LONGEST_WAIT: Duration = Duration::from_secs(30);
/// The plan ends if nothing was recorded for this time, even if an object has had no pass yet. Requests to a slow cloud
/// take up to 30 s each.
const LONGEST_SILENCE: Duration = Duration::from_mins(2);

/// The changes that the manager would make.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Plan {
    /// Every object that had a pass or would be changed.
    pub objects: Vec<ObjectPlan>,
}

/// The changes that the manager would make to one object, and for it in OpenStack.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ObjectPlan {
    /// The object.
    #[serde(flatten)]
    pub object: Subject,
    /// How its pass ended.
    pub result: Assessment,
    /// The calls that would change something in OpenStack. Only the first call of each step is listed, because the
    /// later ones depend on its answer.
    pub openstack: Vec<OpenStackWrite>,
    /// Changes of the object, apart from its status.
    pub kubernetes: Vec<KubernetesWrite>,
    /// Whether the object's status would be updated. Such an update only reports something, so it does not count as a
    /// change.
    pub updates_status: bool,
    /// The conditions that would show parts of the object's spec that the manager does not apply.
    pub refusals: Vec<PlanRefusal>,
}

/// A condition that would be False because a part of the spec is refused.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PlanRefusal {
    /// The condition's type.
    pub condition: String,
    /// NotSupported or InvalidSpec.
    pub reason: String,
    /// The condition's message.
    pub message: String,
}

/// A call to OpenStack that was not sent.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct OpenStackWrite {
    /// The service's type.
    pub service: &'static str,
    /// The call's name, as in the metrics.
    pub request: &'static str,
    /// The HTTP method.
    pub method: &'static str,
    /// The path below the service's base.
    pub path: String,
    /// The body without user data.
    #[serde(skip_serializing_if = "Value::is_null")]
    pub body: Value,
}

/// A change in Kubernetes that was not sent.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct KubernetesWrite {
    /// create, patch, replace or delete.
    pub verb: &'static str,
    /// The difference for an existing object, or the whole new object.
    #[serde(skip_serializing_if = "Value::is_null")]
    pub content: Value,
}

/// How the pass over an object ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "state", rename_all = "camelCase")]
pub enum Assessment {
    /// The pass ended, or reached the first write that was not sent.
    #[serde(rename = "judged")]
    Completed,
    /// The object waits.
    Waiting {
        /// The reason of the wait.
        reason: String,
        /// The message of the wait.
        message: String,
    },
    /// The pass failed, so the changes are unknown.
    Failed {
        /// Why.
        reason: String,
        /// The message of the failure.
        message: String,
    },
    /// The object had no pass.
    NotReached,
}

impl Plan {
    /// The number of writing calls to OpenStack and of changes in Kubernetes, without updates of a status.
    pub fn changes(&self) -> (usize, usize) {
        let openstack = self.objects.iter().map(|object| object.openstack.len());
        let kubernetes = self.objects.iter().map(|object| object.kubernetes.len());
        (openstack.sum(), kubernetes.sum())
    }

    /// The number of objects whose changes are unknown.
    pub fn unknown(&self) -> usize {
        let unknown = |object: &&ObjectPlan| {
            matches!(
                object.result,
                Assessment::Failed { .. } | Assessment::NotReached
            )
        };
        self.objects.iter().filter(unknown).count()
    }
}

/// Runs the passes once.
///
/// # Errors
/// When the Kubernetes API can't be read or the settings can't be used.
pub async fn plan(settings: &Settings) -> Result<Plan, ManagerError> {
    let clients = leader_tasks::client_settings(settings)?;
    let client = kubernetes::connect(settings.kubeconfig.as_deref()).await?;
    let recorder = Arc::new(Recorder::default());
    let record = recorder.clone();
    let client = dry_run::recording(client, Arc::new(move |write| record.kubernetes(write)))
        .await
        .map_err(ManagerError::Group)?;
    let machines = UncachedMachines::new(client.clone());
    let tracker = Tracker::new(
        leader_tasks::tracker_settings(settings),
        Arc::new(machines.clone()),
        Arc::new(capo_gate::Unobserved),
    );
    let clouds = Clouds::new(clients, LeaseToken::dry_run(), recorder.clone());
    let (give_stores, stores) = oneshot::channel();
    let parts = controllers::Parts {
        client,
        clouds,
        tracker: tracker.clone(),
        settings: leader_tasks::controller_settings(settings),
        observer: recorder.clone(),
        synced: Box::new(move |stores: &Stores| {
            machines.synced();
            let _ = give_stores.send(stores.clone());
        }),
    };
    let halt = CancellationToken::new();
    let expected = tokio::select! {
        () = Box::pin(controllers::run(parts, halt.clone())) => BTreeSet::new(),
        expected = settled(&recorder, stores) => expected?,
    };
    halt.cancel();
    tracker.shutdown().await;
    Ok(recorder.plan(&expected))
}

/// Waits until every object had a pass and nothing new is recorded. Returns the objects.
async fn settled(
    recorder: &Recorder,
    stores: oneshot::Receiver<Stores>,
) -> Result<BTreeSet<Subject>, ManagerError> {
    let listed = tokio::time::timeout(LONGEST_SILENCE, stores).await;
    let Ok(Ok(stores)) = listed else {
        return Err(ManagerError::NotListed);
    };
    let begun = Instant::now();
    let expected = subjects(&stores);
    loop {
        tokio::time::sleep(Duration::from_millis(100)).await;
        let progress = recorder.progress(&expected);
        let silence = progress.last.unwrap_or(begun).elapsed();
        let enough = if progress.missing {
            LONGEST_SILENCE
        } else if progress.waiting {
            LONGEST_WAIT
        } else {
            SETTLED
        };
        if silence >= enough {
            return Ok(expected);
        }
    }
}

/// The objects that must have a pass.
fn subjects(stores: &Stores) -> BTreeSet<Subject> {
    let clusters = stores.openstack_clusters.state();
    let machines = stores.openstack_machines.state();
    let servers = stores.openstack_servers.state();
    let clusters = clusters
        .iter()
        .map(|one| Subject::new("OpenStackCluster", &name_of(&**one)));
    let machines = machines
        .iter()
        .map(|one| Subject::new("OpenStackMachine", &name_of(&**one)));
    let servers = servers
        .iter()
        .map(|one| Subject::new("OpenStackServer", &name_of(&**one)));
    clusters.chain(machines).chain(servers).collect()
}
