//! The script: the creation of clusters and machines.

use jiff::Timestamp;
use kube::{
    Client,
    api::{ListParams, Patch, PatchParams},
};
use serde_json::{Value, json};

use super::{super::Error, CLUSTER_NAME, CONTROL_PLANE, api};

/// The namespace it plays in.
pub(super) struct Script {
    pub client: Client,
    pub namespace: String,
}

impl Script {
    pub(super) fn new(client: Client, namespace: &str) -> Self {
        Self {
            client,
            namespace: namespace.to_owned(),
        }
    }

    /// Reads all objects and carries out the next step of each.
    pub(super) async fn carry_out(&self) -> Result<(), Error> {
        let clusters = self.list("Cluster").await?;
        let machines = self.list("Machine").await?;
        for cluster in &clusters {
            let name = name_of(cluster);
            let own: Vec<&Value> = machines
                .iter()
                .filter(|machine| machine["spec"]["clusterName"] == name)
                .collect();
            let infrastructure = self.get("OpenStackCluster", name).await?;
            if going(cluster) {
                self.delete_cluster(cluster, &own, infrastructure.as_ref())
                    .await?;
            } else if let Some(infrastructure) = &infrastructure {
                self.provision_cluster(cluster, infrastructure).await?;
            }
            for machine in &own {
                if going(machine) {
                    let others = own
                        .iter()
                        .filter(|other| other["metadata"]["uid"] != machine["metadata"]["uid"]);
                    let another = others
                        .filter(|other| !going(other))
                        .any(|other| other["metadata"]["labels"][CONTROL_PLANE].is_string());
                    self.delete_machine(machine, another && !going(cluster))
                        .await?;
                } else {
                    self.provision_machine(cluster, machine).await?;
                }
            }
        }
        Ok(())
    }

    async fn provision_cluster(
        &self,
        cluster: &Value,
        infrastructure: &Value,
    ) -> Result<(), Error> {
        let name = name_of(cluster);
        self.own(infrastructure, cluster, false).await?;
        if infrastructure["status"]["initialization"]["provisioned"] != true {
            return Ok(());
        }
        let endpoint = &infrastructure["spec"]["controlPlaneEndpoint"];
        if cluster["spec"]["controlPlaneEndpoint"].is_null() && !endpoint.is_null() {
            self.patch(
                "Cluster",
                name,
                json!({"spec": {"controlPlaneEndpoint": endpoint}}),
            )
            .await?;
        }
        if cluster["status"]["initialization"]["infrastructureProvisioned"] != true {
            self.patch_status(
                "Cluster",
                name,
                json!({"initialization": {"infrastructureProvisioned": true}}),
            )
            .await?;
        }
        Ok(())
    }

    async fn provision_machine(&self, cluster: &Value, machine: &Value) -> Result<(), Error> {
        let name = name_of(machine);
        let Some(infrastructure) = self.get("OpenStackMachine", name).await? else {
            return Ok(());
        };
        self.own(&infrastructure, machine, true).await?;
        let provider_id = &infrastructure["spec"]["providerID"];
        if infrastructure["status"]["initialization"]["provisioned"] != true
            || provider_id.is_null()
        {
            return Ok(());
        }
        if machine["spec"]["providerID"].is_null() {
            self.patch(
                "Machine",
                name,
                json!({"spec": {"providerID": provider_id}}),
            )
            .await?;
        }
        if machine["status"]["nodeRef"].is_null() {
            let since = Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
            let good = |kind: &str| {
                json!({"type": kind, "status": "True", "reason": "Played", "message": "",
                       "lastTransitionTime": since})
            };
            self.patch_status(
                "Machine",
                name,
                json!({
                    "nodeRef": {"name": name},
                    "initialization": {"infrastructureProvisioned": true, "bootstrapDataSecretCreated": true},
                    "conditions": [good("NodeHealthy"), good("APIServerPodHealthy")],
                }),
            )
            .await?;
            let control_plane = machine["metadata"]["labels"][CONTROL_PLANE].is_string();
            if control_plane
                && cluster["status"]["initialization"]["controlPlaneInitialized"] != true
            {
                self.patch_status(
                    "Cluster",
                    name_of(cluster),
                    json!({
                        "initialization": {"controlPlaneInitialized": true},
                        "conditions": [good("RemoteConnectionProbe"), good("ControlPlaneInitialized")],
                    }),
                )
                .await?;
                self.patch_status(
                    "KubeadmControlPlane",
                    name_of(cluster),
                    json!({"initialization": {"controlPlaneInitialized": true}}),
                )
                .await?;
            }
        }
        Ok(())
    }

    /// Sets label and owner reference, like core does on an object that a Cluster or Machine refers to.
    async fn own(&self, object: &Value, owner: &Value, controller: bool) -> Result<(), Error> {
        if object["metadata"]["ownerReferences"]
            .as_array()
            .is_some_and(|references| !references.is_empty())
        {
            return Ok(());
        }
        let cluster = owner["spec"]["clusterName"]
            .as_str()
            .unwrap_or_else(|| name_of(owner));
        self.patch(
            object["kind"].as_str().unwrap_or_default(),
            name_of(object),
            json!({"metadata": {
                "labels": {CLUSTER_NAME: cluster},
                "ownerReferences": [{
                    "apiVersion": owner["apiVersion"], "kind": owner["kind"], "name": name_of(owner),
                    "uid": owner["metadata"]["uid"], "controller": controller,
                }],
            }}),
        )
        .await
    }

    pub(super) async fn list(&self, kind: &str) -> Result<Vec<Value>, Error> {
        let mut objects = api(&self.client, &self.namespace, kind)
            .list(&ListParams::default())
            .await?
            .items
            .into_iter()
            .map(serde_json::to_value)
            .collect::<Result<Vec<_>, _>>()?;
        for object in &mut objects {
            // Items of a list have neither field.
            object["kind"] = json!(kind);
            object["apiVersion"] = json!("cluster.x-k8s.io/v1beta2");
        }
        Ok(objects)
    }

    pub(super) async fn get(&self, kind: &str, name: &str) -> Result<Option<Value>, Error> {
        let object = api(&self.client, &self.namespace, kind)
            .get_opt(name)
            .await?;
        Ok(object.map(serde_json::to_value).transpose()?)
    }

    pub(super) async fn patch(&self, kind: &str, name: &str, patch: Value) -> Result<(), Error> {
        api(&self.client, &self.namespace, kind)
            .patch(name, &PatchParams::default(), &Patch::Merge(patch))
            .await?;
        Ok(())
    }

    pub(super) async fn patch_status(
        &self,
        kind: &str,
        name: &str,
        status: Value,
    ) -> Result<(), Error> {
        api(&self.client, &self.namespace, kind)
            .patch_status(
                name,
                &PatchParams::default(),
                &Patch::Merge(json!({"status": status})),
            )
            .await?;
        Ok(())
    }
}

pub(super) fn name_of(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap_or_default()
}

pub(super) fn going(object: &Value) -> bool {
    !object["metadata"]["deletionTimestamp"].is_null()
}
