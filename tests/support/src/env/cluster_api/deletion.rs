//! The deletion of machines and clusters.

use jiff::Timestamp;
use kube::api::DeleteParams;
use serde_json::{Value, json};

use super::{
    super::Error,
    CONTROL_PLANE_HOOK, api,
    script::{Script, going, name_of},
};

const PRE_DRAIN_PREFIX: &str = "pre-drain.delete.hook.machine.cluster.x-k8s.io";
const HOOK_PREFIX: &str = "pre-terminate.delete.hook.machine.cluster.x-k8s.io";

impl Script {
    /// Order of Cluster API's core: pre-drain hooks where there is a node to drain and `another` control-plane
    /// machine stays, pre-terminate hooks, infrastructure, the Machine itself. The control plane drops its own
    /// hook when no other is left, or at once before Kubernetes 1.31.
    pub(super) async fn delete_machine(&self, machine: &Value, another: bool) -> Result<(), Error> {
        let name = name_of(machine);
        let hooks_of = |prefix: &str| -> Vec<&str> {
            let annotations = machine["metadata"]["annotations"].as_object();
            let keys = annotations.into_iter().flatten();
            keys.map(|(key, _)| key.as_str())
                .filter(|key| key.starts_with(prefix))
                .collect()
        };
        let hooks = hooks_of(HOOK_PREFIX);
        // A deletion that has reached the pre-terminate hooks does not return to an earlier step.
        let drained = machine["status"]["deletion"]["waitForPreTerminateHookStartTime"].is_string();
        if another
            && !drained
            && machine["status"]["nodeRef"].is_object()
            && !hooks_of(PRE_DRAIN_PREFIX).is_empty()
        {
            return self.deleting(machine, "WaitingForPreDrainHook").await;
        }
        let waits = machine["status"]["conditions"]
            .as_array()
            .into_iter()
            .flatten()
            .any(|condition| condition["reason"] == "WaitingForPreTerminateHook");
        let alone = hooks == [CONTROL_PLANE_HOOK];
        let hasty = waits && is_before_1_31(machine) && hooks.contains(&CONTROL_PLANE_HOOK);
        if alone || hasty {
            return self.drop_annotation(name, CONTROL_PLANE_HOOK).await;
        }
        if !hooks.is_empty() {
            return self.deleting(machine, "WaitingForPreTerminateHook").await;
        }
        match self.get("OpenStackMachine", name).await? {
            Some(infrastructure) => {
                self.deleting(machine, "WaitingForInfrastructureDeletion")
                    .await?;
                self.start_deleting("OpenStackMachine", &infrastructure)
                    .await
            }
            None => self.drop_finalizers("Machine", machine).await,
        }
    }

    pub(super) async fn delete_cluster(
        &self,
        cluster: &Value,
        machines: &[&Value],
        infrastructure: Option<&Value>,
    ) -> Result<(), Error> {
        for machine in machines {
            self.start_deleting("Machine", machine).await?;
        }
        if !machines.is_empty() {
            return Ok(());
        }
        let name = name_of(cluster);
        if let Some(control_plane) = self.get("KubeadmControlPlane", name).await? {
            self.start_deleting("KubeadmControlPlane", &control_plane)
                .await?;
        }
        match infrastructure {
            Some(infrastructure) => {
                self.start_deleting("OpenStackCluster", infrastructure)
                    .await
            }
            None => self.drop_finalizers("Cluster", cluster).await,
        }
    }

    /// Writes the step of the deletion. From its begin KubeadmControlPlane reports the Machine's API server as
    /// unhealthy, without a check.
    async fn deleting(&self, machine: &Value, reason: &str) -> Result<(), Error> {
        let shown = machine["status"]["conditions"]
            .as_array()
            .into_iter()
            .flatten()
            .find(|condition| condition["type"] == "Deleting");
        if shown.is_some_and(|condition| condition["reason"] == reason) {
            return Ok(());
        }
        let now = Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
        let mut conditions: Vec<Value> = machine["status"]["conditions"]
            .as_array()
            .into_iter()
            .flatten()
            .filter(|condition| condition["type"] != "Deleting")
            .cloned()
            .collect();
        for condition in &mut conditions {
            if condition["type"] == "APIServerPodHealthy" && condition["reason"] != "Deleting" {
                if condition["status"] != "False" {
                    condition["status"] = json!("False");
                    condition["lastTransitionTime"] = json!(now);
                }
                condition["reason"] = json!("Deleting");
            }
        }
        conditions.push(
            json!({"type": "Deleting", "status": "True", "reason": reason, "message": "",
                   "lastTransitionTime": now}),
        );
        let mut status = json!({"conditions": conditions});
        if reason == "WaitingForPreTerminateHook" {
            status["deletion"] = json!({"waitForPreTerminateHookStartTime": now});
        }
        self.patch_status("Machine", name_of(machine), status).await
    }

    async fn start_deleting(&self, kind: &str, object: &Value) -> Result<(), Error> {
        if going(object) {
            return Ok(());
        }
        api(&self.client, &self.namespace, kind)
            .delete(name_of(object), &DeleteParams::default())
            .await?;
        Ok(())
    }

    async fn drop_finalizers(&self, kind: &str, object: &Value) -> Result<(), Error> {
        self.patch(
            kind,
            name_of(object),
            json!({"metadata": {"finalizers": null}}),
        )
        .await
    }

    async fn drop_annotation(&self, machine: &str, annotation: &str) -> Result<(), Error> {
        self.patch(
            "Machine",
            machine,
            json!({"metadata": {"annotations": {annotation: null}}}),
        )
        .await
    }
}

fn is_before_1_31(machine: &Value) -> bool {
    let version = machine["spec"]["version"].as_str().unwrap_or_default();
    let minor = version
        .strip_prefix("v1.")
        .and_then(|rest| rest.split('.').next());
    minor
        .and_then(|minor| minor.parse::<u32>().ok())
        .is_some_and(|minor| minor < 31)
}
