//! The columns of `kubectl get`: those of CAPO, and those that show the progress of a rollout.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceColumnDefinition;

/// Whether the object is ready according to its conditions.
pub(super) const CONDITION_READY: &str = r#"status.conditions[?(@.type=="Ready")].status"#;
const CLUSTER_NAME: &str = r"metadata.labels.cluster\.x-k8s\.io/cluster-name";

pub(super) fn cluster_columns(
    ready: &str,
    load_balancer: &str,
) -> Vec<CustomResourceColumnDefinition> {
    vec![
        column("Cluster", CLUSTER_NAME, "The Cluster it belongs to"),
        column("Ready", ready, "Whether it is ready"),
        column(
            "Endpoint",
            "spec.controlPlaneEndpoint.host",
            "Where clients reach the API server",
        ),
        column(
            "Members",
            &format!("{load_balancer}.activeMembers"),
            "Load balancer members that are provisioned, out of those expected",
        ),
        column(
            "Gate",
            r#"status.conditions[?(@.type=="APIServerLoadBalancerReady")].reason"#,
            "State of the load balancer, which holds rollouts unless all its members are active",
        ),
        column(
            "Bastion IP",
            "status.bastion.floatingIP",
            "Floating IP of the bastion",
        ),
        age(),
        wide(column(
            "Load Balancer",
            &format!("{load_balancer}.id"),
            "ID of the load balancer",
        )),
        wide(column(
            "Network",
            "status.network.id",
            "ID of the network of the cluster",
        )),
        wide(column(
            "Reason",
            r#"status.conditions[?(@.type=="Ready")].reason"#,
            "Why it is ready or not",
        )),
    ]
}

pub(super) fn machine_columns(ready: &str) -> Vec<CustomResourceColumnDefinition> {
    vec![
        column("Cluster", CLUSTER_NAME, "The Cluster it belongs to"),
        column(
            "Machine",
            r#"metadata.ownerReferences[?(@.kind=="Machine")].name"#,
            "The Machine it belongs to",
        ),
        column("Ready", ready, "Whether it is ready"),
        column(
            "Members",
            "status.activeMembers",
            "Its load balancer members that are provisioned, out of those expected",
        ),
        column("State", "status.instanceState", "State of the server"),
        column(
            "ProviderID",
            "spec.providerID",
            "The server as Kubernetes names it",
        ),
        age(),
        wide(column(
            "Reason",
            r#"status.conditions[?(@.type=="Ready")].reason"#,
            "Why it is ready or not",
        )),
    ]
}

pub(super) fn server_columns() -> Vec<CustomResourceColumnDefinition> {
    vec![
        column(
            "InstanceState",
            "status.instanceState",
            "State of the server",
        ),
        column("Ready", "status.ready", "Whether the server is active"),
        column("InstanceID", "status.instanceID", "ID of the server"),
        age(),
    ]
}

/// The columns of kinds that are either usable or not.
pub(super) fn ready_columns() -> Vec<CustomResourceColumnDefinition> {
    vec![
        column("Ready", CONDITION_READY, "Whether it can be used"),
        age(),
        wide(column(
            "Reason",
            r#"status.conditions[?(@.type=="Ready")].reason"#,
            "Why it can be used or not",
        )),
    ]
}

fn column(name: &str, path: &str, description: &str) -> CustomResourceColumnDefinition {
    CustomResourceColumnDefinition {
        name: name.into(),
        json_path: format!(".{path}"),
        type_: "string".into(),
        description: Some(description.into()),
        ..Default::default()
    }
}

fn age() -> CustomResourceColumnDefinition {
    CustomResourceColumnDefinition {
        type_: "date".into(),
        ..column("Age", "metadata.creationTimestamp", "Time since creation")
    }
}

fn wide(column: CustomResourceColumnDefinition) -> CustomResourceColumnDefinition {
    CustomResourceColumnDefinition {
        priority: Some(1),
        ..column
    }
}
