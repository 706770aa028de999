//! A settled load balancer and its machines, for the tests and benches of several crates.

use crate::model::desired::{
    ClusterFacts, Deletion, DesiredMachine, LoadBalancerSpec, ObservedCondition, ObservedServer,
    ServerState,
};
use capo_core::{GateOverride, Lookup, ObjectName, octavia::MonitorParameters};

/// The facts about an initialised cluster whose control plane is a `KubeadmControlPlane`.
pub fn cluster_facts() -> ClusterFacts {
    ClusterFacts {
        paused: false,
        cluster_deleting: false,
        initialised: true,
        gate_override: GateOverride::None,
        remote_connection: ObservedCondition::Unknown,
        endpoint: None,
        ca_pem: Lookup::Absent,
        kubeadm_control_plane: true,
        machines: Vec::new(),
    }
}

/// The load balancer of such a cluster on port 6443. `id` is Octavia's id of it.
pub fn load_balancer(name: &str, id: &str) -> LoadBalancerSpec {
    LoadBalancerSpec {
        generation: 1,
        enabled: true,
        id: Lookup::Found(id.into()),
        name: name.to_owned(),
        provider: "amphora".to_owned(),
        ports: vec![6443],
        monitor: MonitorParameters::CAPO_DEFAULTS,
        monitor_type: None,
        allowed_cidrs: None,
        tags: Vec::new(),
        member_subnet: None,
        cluster: cluster_facts(),
    }
}

/// A machine of `cluster` that was not admitted and whose server was not read.
pub fn machine(cluster: ObjectName) -> DesiredMachine {
    DesiredMachine {
        cluster,
        uid: None,
        machine: None,
        address: None,
        admitted: false,
        paused: false,
        server: ObservedServer {
            state: ServerState::Other,
            read_at: None,
            down_since: None,
        },
        deletion: Deletion::No,
        gate_override: GateOverride::None,
        api_server_pod: ObservedCondition::Unknown,
        node: ObservedCondition::Unknown,
        has_node: false,
    }
}
