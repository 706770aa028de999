//! The objects that an operator applies, and those that must exist before Cluster API reads them.

use serde_json::{Value, json};

use crate::{env::Error, rollout::RolloutOptions, rollout::workload_cluster::WorkloadCluster};

/// The Kubernetes version of every machine.
const VERSION: &str = "v1.34.4";
/// The Secret with the credentials, and the cloud's name in it.
const IDENTITY: (&str, &str) = ("cloud-config", "demo");

/// All objects of one cluster, in the order in which they are applied. The namespace has the cluster's name.
pub(super) fn documents(
    options: &RolloutOptions,
    workload: &WorkloadCluster,
    clouds_yaml: &str,
    subnet: &str,
) -> Result<Vec<Value>, Error> {
    let name = options.name;
    let mut documents = vec![
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}),
        crate::env::apply::credentials(name, IDENTITY.0, clouds_yaml),
    ];
    documents.extend(certificates(name, workload)?);
    documents.extend([
        machine_template(name),
        control_plane(options),
        open_stack_cluster(options, subnet),
        cluster(name),
    ]);
    Ok(documents)
}

/// The KubeadmControlPlane of a cluster, and the certificates that it does not make itself. Its template is not in
/// them.
pub fn control_plane_with_certificates(
    options: &RolloutOptions,
    workload: &WorkloadCluster,
) -> Result<Vec<Value>, Error> {
    let mut documents = certificates(options.name, workload)?.to_vec();
    documents.push(control_plane(options));
    Ok(documents)
}

/// KubeadmControlPlane creates all other Secrets itself; without a key for etcd's authority it treats etcd as external.
pub fn certificates(name: &str, workload: &WorkloadCluster) -> Result<[Value; 3], Error> {
    let secret = |purpose: &str, content: Value| {
        json!({
            "apiVersion": "v1", "kind": "Secret", "type": "cluster.x-k8s.io/secret",
            "metadata": {
                "name": format!("{name}-{purpose}"), "namespace": name,
                "labels": {"cluster.x-k8s.io/cluster-name": name},
            },
            "stringData": content,
        })
    };
    let authority = workload.authority.certificate();
    let client = workload.authority.client("etcd-client", &[])?;
    Ok([
        secret(
            "ca",
            json!({"tls.crt": authority, "tls.key": workload.authority.key()}),
        ),
        secret("etcd", json!({"tls.crt": authority})),
        secret(
            "apiserver-etcd-client",
            json!({"tls.crt": client.certificate, "tls.key": client.key}),
        ),
    ])
}

fn cluster(name: &str) -> Value {
    json!({
        "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster",
        "metadata": {"name": name, "namespace": name},
        "spec": {
            "infrastructureRef": {"apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "OpenStackCluster", "name": name},
            "controlPlaneRef": {"apiGroup": "controlplane.cluster.x-k8s.io", "kind": "KubeadmControlPlane", "name": name},
        },
    })
}

fn control_plane(options: &RolloutOptions) -> Value {
    let name = options.name;
    json!({
        "apiVersion": "controlplane.cluster.x-k8s.io/v1beta2", "kind": "KubeadmControlPlane",
        "metadata": {"name": name, "namespace": name},
        "spec": {
            "version": VERSION,
            "replicas": options.replicas,
            "rollout": {"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": options.max_surge}}},
            "machineTemplate": {
                // Without it KubeadmControlPlane reads the certificate by port-forward to a Pod.
                "metadata": {"annotations": {"machine.cluster.x-k8s.io/certificates-expiry": "2099-01-01T00:00:00Z"}},
                "spec": {"infrastructureRef": {
                    "apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "OpenStackMachineTemplate", "name": name,
                }},
            },
            "kubeadmConfigSpec": {"clusterConfiguration": {"etcd": {"external": {
                "endpoints": ["https://127.0.0.1:2379"],
                "caFile": "/etc/kubernetes/pki/etcd/ca.crt",
                "certFile": "/etc/kubernetes/pki/apiserver-etcd-client.crt",
                "keyFile": "/etc/kubernetes/pki/apiserver-etcd-client.key",
            }}}},
        },
    })
}

fn machine_template(name: &str) -> Value {
    json!({
        "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta2", "kind": "OpenStackMachineTemplate",
        "metadata": {"name": name, "namespace": name},
        "spec": {"template": {"spec": {
            "identityRef": {"name": IDENTITY.0, "cloudName": IDENTITY.1},
            "flavor": {"filter": {"name": "m1.small"}},
            "image": {"filter": {"name": "ubuntu-kube"}},
        }}},
    })
}

fn open_stack_cluster(options: &RolloutOptions, subnet: &str) -> Value {
    let mut load_balancer = json!({
        "provider": options.provider,
        "monitor": options.monitor,
    });
    if !options.more_ports.is_empty() {
        load_balancer["additionalPorts"] = json!(options.more_ports);
    }
    json!({
        "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta2", "kind": "OpenStackCluster",
        "metadata": {"name": options.name, "namespace": options.name},
        "spec": {
            "identityRef": {"name": IDENTITY.0, "cloudName": IDENTITY.1},
            "managedSubnets": [{"cidr": subnet}],
            "managedSecurityGroups": {"allowAllInClusterTraffic": true},
            "apiServer": {"managedLoadBalancer": load_balancer},
        },
    })
}
