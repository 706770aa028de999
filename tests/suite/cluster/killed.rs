//! A manager that is killed after each single call to OpenStack, while it creates a cluster and while it deletes one.

use std::{collections::BTreeSet, time::Duration};

use futures::future::join_all;
use serde_json::{Value, json};
use test_support::{
    env::{
        Environment,
        environment::{is, quick_cloud},
    },
    waiting::PATIENCE,
};

/// How many clusters there are at the same time, each in a cloud of its own.
const AT_ONCE: u64 = 4;
/// A creation takes more calls than this, a deletion too.
const LEAST_CALLS: u64 = 10;

/// A phase of a cluster's life.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Phase {
    Creation,
    Deletion,
}

/// A phase of a cluster's life, and the label of a call in it.
type KindOfCall = (Phase, String);

/// A call that is carried out and never answered.
struct Kill<'a> {
    environment: &'a Environment,
    fault: u64,
    mark: u64,
}

impl<'a> Kill<'a> {
    /// The next call that `chosen`, a part of a fault, selects.
    fn at(environment: &'a Environment, chosen: &Value) -> Self {
        let mut fault = json!({"count": 1, "hang": true, "apply": true});
        json_patch::merge(&mut fault, chosen);
        Self {
            environment,
            mark: environment.cloud.control().last_call(),
            fault: environment.command(json!({ "fault": fault }))["id"]
                .as_u64()
                .unwrap(),
        }
    }

    /// The label of the call, if it is reached.
    fn reached(&self) -> Option<String> {
        let mut calls = self
            .environment
            .cloud
            .control()
            .calls_since(self.mark)
            .into_iter();
        let reached = calls.find(|call| call.fault == Some(self.fault));
        reached.map(|call| call.label)
    }

    /// Waits until the call is reached, or until the cluster is as wanted without it. The label of the call that was
    /// reached.
    async fn reached_before(
        self,
        cluster: &str,
        wanted: impl Fn(&Value) -> bool,
    ) -> Option<String> {
        let waits = async {
            loop {
                let reached = self.reached();
                if reached.is_some() {
                    return reached;
                }
                if wanted(&self.environment.get("OpenStackCluster", cluster).await) {
                    return self.reached();
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        let reached = tokio::time::timeout(PATIENCE, waits).await.unwrap();
        if reached.is_none() {
            // A call that reaches the fault at this moment removes it, so an error is expected.
            let remove = json!({"remove_fault": self.fault});
            let _ = self.environment.cloud.control().run(remove);
        }
        reached
    }
}

/// The same that [`Environment::until_ready`] waits for.
fn is_ready(cluster: &Value) -> bool {
    cluster["status"]["initialization"]["provisioned"] == true
        && is(cluster, "Ready", "True")
        && cluster["status"]["observedGeneration"] == cluster["metadata"]["generation"]
}

async fn create(environment: &Environment, name: &str) {
    environment
        .cluster_api
        .create_cluster(name, environment.cluster(name, json!({})))
        .await;
}

/// Ends the manager in an ordinary way and starts it again, so that it has to sign in.
async fn restart(environment: &mut Environment) {
    environment.stop().await;
    environment.start().await;
}

/// Creates and deletes one cluster without a kill. Returns the kinds of its calls.
async fn undisturbed(environment: &Environment) -> BTreeSet<KindOfCall> {
    let begun = environment.cloud.control().last_call();
    create(environment, "undisturbed").await;
    environment.until_ready("undisturbed").await;
    let created = environment.cloud.control().last_call();
    environment.delete("undisturbed").await;
    let calls = environment.cloud.control().calls_since(begun).into_iter();
    calls
        .map(|call| {
            let phase = if call.sequence <= created {
                Phase::Creation
            } else {
                Phase::Deletion
            };
            (phase, call.label)
        })
        .collect()
}

/// Creates and deletes one cluster with a kill after a call of each phase, which `chosen` selects. Returns the kinds of
/// the calls that were reached; there are none where neither phase has such a call.
async fn killed(environment: &mut Environment, name: &str, chosen: &Value) -> BTreeSet<KindOfCall> {
    let kill = Kill::at(environment, chosen);
    create(environment, name).await;
    let in_creation = kill.reached_before(name, is_ready).await;
    if in_creation.is_some() {
        environment.kill().await;
        environment.start().await;
    }
    environment.until_ready(name).await;
    assert_eq!(
        environment.cloud.control().duplicates(),
        [],
        "{name} {chosen}"
    );

    let kill = Kill::at(environment, chosen);
    environment.cluster_api.delete("Cluster", name).await;
    let in_deletion = kill.reached_before(name, Value::is_null).await;
    if in_deletion.is_some() {
        environment.kill().await;
        environment.start().await;
    }
    environment.until_gone("OpenStackCluster", name).await;
    let left = environment.leftovers(&format!("{}-{name}", environment.namespace));
    assert_eq!(left, Vec::<String>::new(), "{name} {chosen}");
    let reached = [
        (Phase::Creation, in_creation),
        (Phase::Deletion, in_deletion),
    ];
    reached
        .into_iter()
        .filter_map(|(phase, label)| Some((phase, label?)))
        .collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_is_created_and_deleted_whichever_call_the_manager_is_killed_after() {
    let groups = (0..AT_ONCE).map(async |group| {
        let mut environment = Environment::in_namespace(&format!("killed-{group}"))
            .cloud(quick_cloud())
            .start()
            .await;
        let kinds = undisturbed(&environment).await;
        restart(&mut environment).await;
        let mut hit = BTreeSet::new();
        let mut skipped = group;
        loop {
            let chosen = json!({"skip": skipped});
            let reached = killed(&mut environment, &format!("c{skipped}"), &chosen).await;
            if reached.is_empty() {
                break;
            }
            hit.extend(reached);
            skipped += AT_ONCE;
        }
        assert!(skipped > LEAST_CALLS, "{skipped}");
        (environment, kinds, hit)
    });
    let mut groups = join_all(groups).await;
    // Reads at intervals do not happen in every life.
    let kinds = groups.iter().map(|(_, kinds, _)| kinds.clone());
    let kinds = kinds.reduce(|one, other| &one & &other).unwrap();
    let hits = groups.iter().flat_map(|(_, _, hit)| hit.clone());
    let hit: BTreeSet<KindOfCall> = hits.collect();
    // The order of calls differs from life to life, so that counting them may miss a kind.
    let (environment, ..) = &mut groups[0];
    for (number, missed) in kinds.difference(&hit).enumerate() {
        restart(environment).await;
        let chosen = json!({"match": {"label": missed.1}});
        let reached = killed(environment, &format!("l{number}"), &chosen).await;
        assert!(reached.contains(missed), "{missed:?}: {reached:?}");
    }
}
