//! The objects that kubeadm and the kubelet write into the workload cluster.

use k8s_openapi::api::core::v1::{ConfigMap, Node, Pod};
use kube::{
    Api, Client,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};

use crate::env::Error;

const COMPONENTS: [&str; 3] = [
    "kube-apiserver",
    "kube-controller-manager",
    "kube-scheduler",
];
const CONTROL_PLANE: &str = "node-role.kubernetes.io/control-plane";

/// The steps that are carried out through the endpoint for a machine.
pub(super) enum Deed {
    /// The machine joins.
    Join {
        /// The provider ID of its server.
        provider_id: String,
    },
    /// It joins as a worker.
    JoinAsWorker {
        /// The provider ID of its server.
        provider_id: String,
    },
    /// The Node of a worker is not ready any more.
    Fail,
    /// The kubelet reports that the API server is not ready.
    ReportCrash,
    /// The machine's Pods are deleted, as the garbage collector does with those of a Node that does not exist any more.
    RemovePods,
}

impl Deed {
    /// Carries the step out. A repeated step changes nothing.
    pub(super) async fn carry_out(&self, client: &Client, machine: &str) -> Result<(), Error> {
        match self {
            Self::Join { provider_id } => register(client, machine, provider_id).await,
            Self::JoinAsWorker { provider_id } => {
                let spec = json!({"providerID": provider_id});
                register_node(client, machine, json!({}), spec).await
            }
            Self::Fail => set_ready(client, machine, false).await,
            Self::ReportCrash => report(client, &format!("kube-apiserver-{machine}"), false).await,
            Self::RemovePods => remove_pods(client, machine).await,
        }
    }
}

async fn register_node(
    client: &Client,
    name: &str,
    labels: Value,
    spec: Value,
) -> Result<(), Error> {
    let nodes: Api<Node> = Api::all(client.clone());
    let node = json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "spec": spec,
    });
    let kubelet = PatchParams::apply("kubelet").force();
    nodes.patch(name, &kubelet, &Patch::Apply(node)).await?;
    set_ready(client, name, true).await
}

async fn set_ready(client: &Client, name: &str, ready: bool) -> Result<(), Error> {
    let nodes: Api<Node> = Api::all(client.clone());
    let node = json!({
        "apiVersion": "v1", "kind": "Node",
        "status": {"nodeInfo": node_info(), "conditions": node_conditions(ready)},
    });
    let kubelet = PatchParams::apply("kubelet").force();
    nodes
        .patch_status(name, &kubelet, &Patch::Apply(node))
        .await?;
    Ok(())
}

async fn register(client: &Client, name: &str, provider_id: &str) -> Result<(), Error> {
    let spec = json!({
        "providerID": provider_id,
        "taints": [{"key": CONTROL_PLANE, "effect": "NoSchedule"}],
    });
    register_node(client, name, json!({CONTROL_PLANE: ""}), spec).await?;
    let kubelet = PatchParams::apply("kubelet").force();
    let pods: Api<Pod> = Api::namespaced(client.clone(), "kube-system");
    for component in COMPONENTS {
        let pod = format!("{component}-{name}");
        pods.patch(
            &pod,
            &kubelet,
            &Patch::Apply(json!({
                "apiVersion": "v1", "kind": "Pod",
                "metadata": {
                    "name": pod,
                    "labels": {"tier": "control-plane", "component": component},
                    // A drain ignores this Pod.
                    "annotations": {"kubernetes.io/config.mirror": name},
                },
                "spec": {
                    "nodeName": name,
                    "containers": [{"name": component, "image": component}],
                },
            })),
        )
        .await?;
        report(client, &pod, true).await?;
    }
    let config_maps: Api<ConfigMap> = Api::namespaced(client.clone(), "kube-system");
    let configuration: ConfigMap = serde_json::from_value(json!({
        "metadata": {"name": "kubeadm-config"},
        "data": {"ClusterConfiguration": ""},
    }))?;
    match config_maps
        .create(&PostParams::default(), &configuration)
        .await
    {
        // Cluster API has already created it with its own content.
        Err(kube::Error::Api(status)) if status.is_already_exists() => Ok(()),
        other => Ok(other.map(|_| ())?),
    }
}

async fn report(client: &Client, pod: &str, ready: bool) -> Result<(), Error> {
    let pods: Api<Pod> = Api::namespaced(client.clone(), "kube-system");
    let condition = condition("Ready", ready);
    pods.patch_status(
        pod,
        &PatchParams::apply("kubelet").force(),
        &Patch::Apply(json!({
            "apiVersion": "v1", "kind": "Pod",
            "status": {"phase": "Running", "conditions": [condition]},
        })),
    )
    .await?;
    Ok(())
}

async fn remove_pods(client: &Client, name: &str) -> Result<(), Error> {
    let pods: Api<Pod> = Api::namespaced(client.clone(), "kube-system");
    let of_machine = ListParams::default().fields(&format!("spec.nodeName={name}"));
    // No kubelet runs that would confirm the end of the Pod.
    let at_once = DeleteParams::default().grace_period(0);
    pods.delete_collection(&at_once, &of_machine).await?;
    Ok(())
}

fn condition(kind: &str, status: bool) -> Value {
    json!({"type": kind, "status": if status { "True" } else { "False" }})
}

fn node_conditions(ready: bool) -> Value {
    json!([
        condition("Ready", ready),
        condition("MemoryPressure", false),
        condition("DiskPressure", false),
        condition("PIDPressure", false),
    ])
}

fn node_info() -> Value {
    json!({
        "architecture": "amd64", "bootID": "", "containerRuntimeVersion": "", "kernelVersion": "", "kubeProxyVersion": "",
        "kubeletVersion": "v1.34.4", "machineID": "", "operatingSystem": "linux", "osImage": "", "systemUUID": "",
    })
}
