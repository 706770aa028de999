//! Waits for expected events, and checks that others do not happen.

use std::time::{Duration, Instant};

use kube::api::{DynamicObject, ListParams};
use serde_json::Value;

use super::{GATE, Rollout, name_of};
use crate::{
    env::cluster_api::{api, condition},
    timeline::{Entry, What, render::render},
    waiting::Wait,
};

/// A longer time than a whole control plane needs to start or to be replaced on a slow machine.
pub const ROLLOUT_AT_MOST: Duration = Duration::from_mins(8);
/// The label of a control-plane Machine.
const CONTROL_PLANE: &str = "cluster.x-k8s.io/control-plane";
/// The interval between two checks of a condition.
const LOOK: Duration = Duration::from_millis(200);

impl Rollout {
    /// Names of the existing control-plane Machines, oldest first.
    pub async fn machines(&self) -> Vec<String> {
        self.names(|labels| labels.get(CONTROL_PLANE).is_some())
            .await
    }

    /// Names of the existing Machines of workers, oldest first.
    pub async fn workers(&self) -> Vec<String> {
        self.names(|labels| labels.get(CONTROL_PLANE).is_none())
            .await
    }

    /// The names of the Machines whose labels are wanted, oldest first.
    async fn names(&self, wanted: impl Fn(&Value) -> bool) -> Vec<String> {
        let machines = self.list("Machine").await.into_iter();
        machines
            .filter(|machine| wanted(&machine["metadata"]["labels"]))
            .map(|machine| name_of(&machine).to_owned())
            .collect()
    }

    /// The first Machine that is not in `known`, as soon as it exists.
    pub async fn machine_after(&self, known: &[String]) -> String {
        self.until_some("there is a new Machine", async || {
            let machines = self.machines().await;
            machines.into_iter().find(|name| !known.contains(name))
        })
        .await
    }

    /// Returns the object when `wanted` holds for it (`Value::Null` stands for an absent object).
    pub async fn until_object(
        &self,
        kind: &str,
        name: &str,
        what: &str,
        wanted: impl Fn(&Value) -> bool,
    ) -> Value {
        self.until_some(&format!("{kind} {name} {what}"), async || {
            let object = api(&self.client, &self.namespace, kind)
                .get_opt(name)
                .await
                .ok()?;
            let object = object.map_or(Ok(Value::Null), serde_json::to_value).ok()?;
            wanted(&object).then_some(object)
        })
        .await
    }

    /// Returns when the gate's condition of an OpenStackMachine is False for one of these reasons.
    pub async fn until_held(&self, machine: &str, reasons: &str) -> Value {
        let what = format!("is held because of {reasons}");
        self.until_object("OpenStackMachine", machine, &what, |object| {
            held(object, reasons)
        })
        .await
    }

    /// Checks for a while that the machine is held for one of these reasons, and that no control-plane Machine is
    /// created or deleted.
    pub async fn stays_held(&self, machine: &str, reasons: &str, how_long: Duration) {
        self.until_held(machine, reasons).await;
        let machines = self.machines().await;
        let begun = Instant::now();
        while begun.elapsed() < how_long {
            let object = self.get("OpenStackMachine", machine).await;
            assert!(
                object.as_ref().is_some_and(|object| held(object, reasons)),
                "{machine} is not held because of {reasons}: {object:#?}"
            );
            assert_eq!(machines, self.machines().await, "Machines came or went");
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Returns when the gate's condition of an OpenStackMachine has this reason.
    pub async fn until_seen(&self, machine: &str, reason: &str) {
        let what = format!("shows {reason}");
        self.until_object("OpenStackMachine", machine, &what, |object| {
            condition(object, GATE).is_some_and(|(_, shown, _)| shown == reason)
        })
        .await;
    }

    /// Returns when a member of a machine has been in ERROR in Octavia. capo-rs may have repaired it before it could
    /// show that.
    pub async fn until_failed(&self, machine: &str) {
        let what = format!("a member of {machine} was in ERROR");
        let is_failed = |entry: &Entry| match &entry.what {
            What::Member(member) => member.key.machine == machine && member.provisioning == "ERROR",
            _ => false,
        };
        self.until_some(&what, async || {
            self.timeline.entries().iter().any(is_failed).then_some(())
        })
        .await;
    }

    /// Returns when Cluster API has admitted a Machine and found its Node.
    pub async fn until_admitted(&self, machine: &str) {
        self.until_object("Machine", machine, "has a Node", |object| {
            object["status"]["nodeRef"].is_object()
        })
        .await;
    }

    /// Returns when a Machine's deletion has begun.
    pub async fn until_deleting(&self, machine: &str) {
        self.until_object("Machine", machine, "is being deleted", |object| {
            object["metadata"]["deletionTimestamp"].is_string()
        })
        .await;
    }

    /// The object as it is now.
    pub async fn get(&self, kind: &str, name: &str) -> Option<Value> {
        let object = api(&self.client, &self.namespace, kind).get_opt(name).await;
        serde_json::to_value(object.ok()??).ok()
    }

    /// All objects of a kind, oldest first.
    pub async fn list(&self, kind: &str) -> Vec<Value> {
        let list = api(&self.client, &self.namespace, kind)
            .list(&ListParams::default())
            .await
            .unwrap();
        let mut items = list.items;
        items.sort_by_key(|object: &DynamicObject| {
            (
                object.metadata.creation_timestamp.clone(),
                object.metadata.name.clone(),
            )
        });
        items
            .into_iter()
            .map(|object| serde_json::to_value(object).unwrap())
            .collect()
    }

    /// The first result of `look`. If there is none in time, the test fails and prints the whole state.
    pub async fn until_some<T>(&self, what: &str, look: impl AsyncFnMut() -> Option<T>) -> T {
        let wait = Wait::default().at_most(ROLLOUT_AT_MOST).between(LOOK);
        match wait.some(look).await {
            Some(found) => found,
            None => panic!(
                "{}: after {ROLLOUT_AT_MOST:?} it is not so that {what}\n{}",
                self.cluster,
                self.state().await
            ),
        }
    }

    /// The state that explains why the rollout does not continue.
    pub async fn state(&self) -> String {
        let mut lines = vec![format!("logs: {}", self.workload.folder().display())];
        for kind in [
            "Cluster",
            "KubeadmControlPlane",
            "Machine",
            "OpenStackCluster",
            "OpenStackMachine",
        ] {
            for object in self.list(kind).await {
                let deleting = if object["metadata"]["deletionTimestamp"].is_null() {
                    ""
                } else {
                    " (deleting)"
                };
                lines.push(format!("{kind} {}{deleting}", name_of(&object)));
                for one in object["status"]["conditions"]
                    .as_array()
                    .into_iter()
                    .flatten()
                {
                    let part = |key: &str| one[key].as_str().unwrap_or_default().to_owned();
                    lines.push(format!(
                        "  {}={} {} {}",
                        part("type"),
                        part("status"),
                        part("reason"),
                        part("message")
                    ));
                }
            }
        }
        lines.push(format!("alive: {:?}", self.machines.alive()));
        lines.push(render(&self.timeline.entries()));
        lines.join("\n")
    }
}

/// Whether the gate's condition is False for one of these reasons.
fn held(object: &Value, reasons: &str) -> bool {
    condition(object, GATE).is_some_and(|(is, reason, _)| {
        is == "False" && reasons.split(' ').any(|expected| expected == reason)
    })
}
