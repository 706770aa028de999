//! A Cluster that Cluster API's topology controller makes from a ClusterClass: its OpenStackCluster, its control plane,
//! its workers and their templates, with names and labels that Cluster API chooses.

use serde_json::{Value, json};

use crate::tested_cluster::{CHECK, TestedCluster, Version};

/// The class of the workers, and the name of their group.
const WORKERS: &str = "workers";
/// The version of every machine.
const KUBERNETES: &str = "v1.34.4";
/// The kinds of this provider, as CAPO's users name them.
const PROVIDER: &str = "infrastructure.cluster.x-k8s.io/v1beta1";

/// Makes templates and a ClusterClass of what a Cluster without a ClusterClass has: its KubeadmControlPlane, the
/// template of its machines and the specification of its OpenStackCluster. All have the Cluster's name.
pub(crate) fn class(name: &str, cluster: &Value, of_control_plane: Vec<Value>) -> Vec<Value> {
    let metadata = json!({"name": name, "namespace": name});
    let mut documents = Vec::new();
    for document in of_control_plane {
        if document["kind"] != "KubeadmControlPlane" {
            documents.push(document);
            continue;
        }
        let configuration = &document["spec"]["kubeadmConfigSpec"];
        documents.push(json!({
            "apiVersion": document["apiVersion"], "kind": "KubeadmControlPlaneTemplate", "metadata": metadata,
            "spec": {"template": {"spec": {"kubeadmConfigSpec": configuration}}},
        }));
    }
    let of = |version: &str, kind: &str| json!({"templateRef": {"apiVersion": version, "kind": kind, "name": name}});
    let machines = of(PROVIDER, "OpenStackMachineTemplate");
    let mut control_plane = of(
        "controlplane.cluster.x-k8s.io/v1beta2",
        "KubeadmControlPlaneTemplate",
    );
    control_plane["machineInfrastructure"] = machines.clone();
    let bootstrap = of(
        "bootstrap.cluster.x-k8s.io/v1beta2",
        "KubeadmConfigTemplate",
    );
    documents.extend([
        json!({
            "apiVersion": "bootstrap.cluster.x-k8s.io/v1beta2", "kind": "KubeadmConfigTemplate", "metadata": metadata,
            "spec": {"template": {"spec": {"joinConfiguration": {"nodeRegistration": {"name": "{{ local_hostname }}"}}}}},
        }),
        json!({
            "apiVersion": PROVIDER, "kind": "OpenStackClusterTemplate", "metadata": metadata,
            "spec": {"template": {"spec": cluster}},
        }),
        json!({
            "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "ClusterClass", "metadata": metadata,
            "spec": {
                "infrastructure": of(PROVIDER, "OpenStackClusterTemplate"),
                "controlPlane": control_plane,
                "workers": {"machineDeployments": [
                    {"class": WORKERS, "infrastructure": machines, "bootstrap": bootstrap}]},
            },
        }),
    ]);
    documents
}

/// The Cluster of that class, with this many control-plane machines and one worker.
pub(crate) fn cluster(name: &str, replicas: u32) -> Value {
    // With this annotation KubeadmControlPlane does not read the certificate by port-forward to a Pod, as in the
    // rollouts.
    let annotations =
        json!({"machine.cluster.x-k8s.io/certificates-expiry": "2099-01-01T00:00:00Z"});
    json!({
        "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster",
        "metadata": {"name": name, "namespace": name},
        "spec": {"topology": {
            "classRef": {"name": name}, "version": KUBERNETES,
            "controlPlane": {"replicas": replicas, "metadata": {"annotations": annotations}},
            "workers": workers(1),
        }},
    })
}

fn workers(replicas: usize) -> Value {
    json!({"machineDeployments": [{"class": WORKERS, "name": WORKERS, "replicas": replicas}]})
}

impl TestedCluster {
    /// Applies them until none is refused: a Cluster is admitted once Cluster API has looked at its ClusterClass.
    pub(crate) async fn until_applied(&self, documents: &[Value]) -> Result<(), String> {
        CHECK.ok(async || self.apply(documents).await).await
    }

    /// Gives the Cluster another number of workers.
    pub(crate) async fn scale_workers(&self, replicas: usize) -> Result<(), String> {
        let change = json!({"spec": {"topology": {"workers": workers(replicas)}}});
        self.patch("Cluster", &self.name, Version::V1Beta2, change)
            .await;
        self.until_workers(replicas).await
    }

    /// Waits until its MachineDeployment has this many Machines, all of them ready and none deleting.
    pub(crate) async fn until_workers(&self, replicas: usize) -> Result<(), String> {
        let seen = CHECK.ok(async || {
            let listed = self.list("MachineDeployment", Version::V1Beta2).await;
            let deployments: Vec<&Value> = listed.iter().map(|one| &one.data).collect();
            let machines = self.list("OpenStackMachine", Version::V1Beta1).await;
            let machines = machines.iter().filter(|machine| {
                let labels = machine.metadata.labels.iter().flatten();
                let mut of_workers =
                    labels.filter(|label| label.0 == "topology.cluster.x-k8s.io/deployment-name");
                of_workers.next().is_some()
            });
            let complete = |of: &&Value| {
                of["spec"]["replicas"] == replicas
                    && of["status"]["replicas"] == replicas
                    && of["status"]["readyReplicas"] == replicas
            };
            if deployments.len() == 1
                && deployments.iter().all(complete)
                && machines.count() == replicas
            {
                Ok(())
            } else {
                Err(format!(
                    "there are no {replicas} ready workers: {deployments:#?}"
                ))
            }
        });
        seen.await
    }

    /// The names of its Machines and templates.
    pub(crate) async fn machines_and_templates(&self) -> Vec<String> {
        let mut all = Vec::new();
        for kind in [
            "Machine",
            "OpenStackMachineTemplate",
            "OpenStackClusterTemplate",
        ] {
            for object in self.list(kind, Version::V1Beta1).await {
                all.push(format!(
                    "{kind} {}",
                    object.metadata.name.unwrap_or_default()
                ));
            }
        }
        all
    }

    /// Checks that these are its Machines and templates, so that none was replaced.
    pub(crate) async fn still_present(&self, before: &[String]) -> Result<(), String> {
        let after = self.machines_and_templates().await;
        if after == before {
            return Ok(());
        }
        Err(format!("instead of {before:?} there are {after:?}"))
    }
}
