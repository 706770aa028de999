//! A real KubeadmControlPlane, whose machines run real API servers of a workload cluster.

use std::{net::SocketAddr, path::Path, sync::Arc, time::Duration};

use fake_cloud::FakeCloud;
use kube::Client;
use serde_json::{Value, json};
use test_support::{
    client::{NAMESPACE, OBJECT, Target},
    env::cluster_api::condition,
    rollout::{
        RolloutOptions,
        machines::{self, Machines},
        manifests::control_plane_with_certificates,
        workload_cluster::WorkloadCluster,
    },
    timeline::Timeline,
};

use crate::{
    cluster_class,
    kinds::Kind,
    tested_cluster::{TestedCluster, Version},
};

/// The hook of another program. Until it is removed, its Machine stays in deletion and its API server serves.
const HOOK: &str = "pre-terminate.delete.hook.machine.cluster.x-k8s.io/of-the-test";

/// The workload cluster of a cluster, and the simulation of its machines.
pub(crate) struct ControlPlane {
    options: RolloutOptions,
    workload: Arc<WorkloadCluster>,
    _machines: Machines,
}

impl ControlPlane {
    pub(crate) fn start(
        name: &'static str,
        replicas: u32,
        client: Client,
        cloud: &FakeCloud,
        logs: &Path,
    ) -> Self {
        let workload = Arc::new(WorkloadCluster::start(name, &logs.join(name)).unwrap());
        let of = machines::Cluster {
            timeline: Timeline::start(),
            client,
            name: name.to_owned(),
            workload: workload.clone(),
            more_ports: Vec::new(),
        };
        Self {
            options: RolloutOptions {
                name,
                replicas,
                ..RolloutOptions::default()
            },
            workload,
            _machines: Machines::start(of, cloud.control()),
        }
    }

    /// The documents that are applied for it, with the template of its machines in CAPO's v1beta1.
    pub(crate) fn documents(&self, of_machines: &Value) -> Vec<Value> {
        let name = self.options.name;
        let mut documents = control_plane_with_certificates(&self.options, &self.workload).unwrap();
        documents.push(json!({
            "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta1", "kind": "OpenStackMachineTemplate",
            "metadata": {"name": name, "namespace": name},
            "spec": {"template": {"spec": of_machines}},
        }));
        documents
    }

    /// The documents that are applied for a Cluster from a ClusterClass, in the order in which they are admitted.
    pub(crate) fn of_class(&self, of_cluster: &Value, of_machines: &Value) -> Vec<Value> {
        let name = self.options.name;
        let mut documents = cluster_class::class(name, of_cluster, self.documents(of_machines));
        documents.push(cluster_class::cluster(name, self.options.replicas));
        documents
    }

    /// Waits until every replica is up to date and ready, and no rollout is under way.
    pub(crate) async fn until_complete(&self, cluster: &TestedCluster) -> Result<(), String> {
        let wanted = self.options.replicas;
        let name = cluster.referred("controlPlaneRef").await?;
        cluster
            .until_object("KubeadmControlPlane", &name, Version::V1Beta2, |it| {
                let status = &it["status"];
                let counts = ["replicas", "upToDateReplicas", "readyReplicas"];
                counts.iter().all(|count| status[*count] == wanted)
                    && status["observedGeneration"] == it["metadata"]["generation"]
                    && condition(it, "RollingOut").is_some_and(|(is, ..)| is == "False")
            })
            .await
    }

    /// Begins to replace every machine, and returns when the first replacement has begun.
    pub(crate) async fn roll(&self, cluster: &TestedCluster) -> Result<(), String> {
        // The time must be later than the creation of every machine, and both are in whole seconds.
        tokio::time::sleep(Duration::from_secs(1)).await;
        let now = jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ");
        let name = cluster.referred("controlPlaneRef").await?;
        let rollout = json!({"rollout": {"after": now.to_string()}});
        let (kind, of, change) = match cluster.kind {
            Kind::ClusterClass => {
                let change = json!({"spec": {"topology": {"controlPlane": rollout}}});
                ("Cluster", &cluster.name, change)
            }
            _ => ("KubeadmControlPlane", &name, json!({"spec": rollout})),
        };
        cluster.patch(kind, of, Version::V1Beta2, change).await;
        cluster
            .until_object("KubeadmControlPlane", &name, Version::V1Beta2, |it| {
                condition(it, "RollingOut").is_some_and(|(is, ..)| is == "True")
            })
            .await
    }

    /// Begins a rolling update that stands still when the first new machine serves and the first old one is deleting.
    pub(crate) async fn roll_halfway(&self, cluster: &TestedCluster) -> Result<(), String> {
        let old = cluster.control_plane_machines().await;
        for machine in &old {
            let hook = json!({"metadata": {"annotations": {HOOK: "of-the-test"}}});
            cluster
                .patch("Machine", machine, Version::V1Beta2, hook)
                .await;
        }
        self.roll(cluster).await?;
        cluster
            .some_machine("is deleting", |machine| {
                machine["metadata"]["deletionTimestamp"].is_string()
            })
            .await
    }

    /// Lets the rolling update go on to its end.
    pub(crate) async fn roll_to_the_end(&self, cluster: &TestedCluster) -> Result<(), String> {
        let mut old = Vec::new();
        for machine in cluster.control_plane_machines().await {
            let object = cluster.get("Machine", &machine, Version::V1Beta2).await;
            if object["metadata"]["annotations"][HOOK].is_null() {
                continue;
            }
            let hook = json!({"metadata": {"annotations": {HOOK: null}}});
            cluster
                .patch("Machine", &machine, Version::V1Beta2, hook)
                .await;
            old.push(machine);
        }
        self.until_complete(cluster).await?;
        let left = cluster.control_plane_machines().await;
        if left.iter().any(|machine| old.contains(machine)) {
            return Err(format!(
                "of the old machines {old:?} there are still {left:?}"
            ));
        }
        Ok(())
    }

    /// The requests that a client sends to the endpoint.
    pub(crate) async fn target(&self, endpoint: SocketAddr) -> Target {
        let configuration = json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": OBJECT, "namespace": NAMESPACE},
        });
        let client = self.workload.client(endpoint).unwrap();
        test_support::env::apply::apply(&client, &[configuration])
            .await
            .unwrap();
        Target::new(
            endpoint,
            self.workload.authority.certificate().as_bytes(),
            self.workload.administrator.certificate.as_bytes(),
            self.workload.administrator.key.as_bytes(),
        )
        .unwrap()
    }
}
