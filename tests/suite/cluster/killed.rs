//! A manager that is killed after each single call to OpenStack, while it creates a cluster and while it deletes one.

use std::time::Duration;

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

/// The next call after `skipped` ones is carried out and never answered.
struct Kill<'a> {
    stage: &'a Environment,
    fault: u64,
    mark: u64,
}

impl<'a> Kill<'a> {
    fn after(stage: &'a Environment, skipped: u64) -> Self {
        let fault = json!({"fault": {"skip": skipped, "count": 1, "hang": true, "apply": true}});
        Self {
            stage,
            mark: stage.cloud.control().last_call(),
            fault: stage.command(fault)["id"].as_u64().unwrap(),
        }
    }

    fn is_reached(&self) -> bool {
        let calls = self.stage.cloud.control().calls_since(self.mark);
        calls.iter().any(|call| call.fault == Some(self.fault))
    }

    /// Waits until the call is reached, or until the cluster is as wanted without it. True where it was reached.
    async fn reached_before(self, cluster: &str, wanted: impl Fn(&Value) -> bool) -> bool {
        let waits = async {
            loop {
                if self.is_reached() {
                    return true;
                }
                if wanted(&self.stage.get("OpenStackCluster", cluster).await) {
                    return self.is_reached();
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        let is_reached = tokio::time::timeout(PATIENCE, waits).await.unwrap();
        if !is_reached {
            // A call that reaches it at this moment takes it away.
            let remove = json!({"remove_fault": self.fault});
            let _ = self.stage.cloud.control().run(remove);
        }
        is_reached
    }
}

fn is_ready(cluster: &Value) -> bool {
    is(cluster, "Ready", "True")
}

/// Creates and deletes one cluster with a kill after `skipped` calls of each. False where neither takes so many.
async fn killed(stage: &mut Environment, skipped: u64) -> bool {
    let name = format!("c{skipped}");
    let infrastructure = stage.cluster(&name, json!({}));
    let kill = Kill::after(stage, skipped);
    stage
        .cluster_api
        .create_cluster(&name, infrastructure)
        .await
        .unwrap();
    let in_creation = kill.reached_before(&name, is_ready).await;
    if in_creation {
        stage.kill().await;
        stage.start().await;
    }
    stage.until_ready(&name).await;
    assert_eq!(stage.cloud.control().duplicates(), [], "{skipped} calls");

    let kill = Kill::after(stage, skipped);
    stage.cluster_api.delete("Cluster", &name).await.unwrap();
    let in_deletion = kill.reached_before(&name, Value::is_null).await;
    if in_deletion {
        stage.kill().await;
        stage.start().await;
    }
    stage.until("OpenStackCluster", &name, Value::is_null).await;
    let left = stage.leftovers(&format!("{}-{name}", stage.namespace));
    assert_eq!(left, Vec::<String>::new(), "{skipped} calls");
    in_creation || in_deletion
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_is_created_and_deleted_whichever_call_the_manager_is_killed_after() {
    let groups = (0..AT_ONCE).map(async |group| {
        let mut stage = Environment::in_namespace(&format!("killed-{group}"))
            .cloud(quick_cloud())
            .start()
            .await;
        let mut skipped = group;
        while killed(&mut stage, skipped).await {
            skipped += AT_ONCE;
        }
        assert!(skipped > LEAST_CALLS, "{skipped}");
    });
    join_all(groups).await;
}
