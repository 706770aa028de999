//! What the controllers hand over: the load balancer as it should be, and facts about its machines.
//!
//! Everything here is a plain value that a controller derived in its last pass from Kubernetes
//! objects and from reads of its own. Nothing in it is taken from a status that we wrote.

use std::{
    net::IpAddr,
    time::{Duration, Instant},
};

use ipnet::IpNet;
use jiff::Timestamp;

use capo_core::{
    Endpoint, GateOverride, Lookup, MonitorType, ObjectName,
    ids::{LoadBalancerId, SubnetId},
    octavia::MonitorParameters,
};

/// The API server load balancer of one cluster. Its key is the name of the `OpenStackCluster`.
#[derive(Debug, Clone, PartialEq)]
pub struct LoadBalancerSpec {
    /// The generation of the `OpenStackCluster` from which this was derived.
    pub generation: i64,
    /// `managedLoadBalancer.enabled` is not false. A load balancer that was not found is still managed.
    pub enabled: bool,
    /// Octavia's id of the load balancer, as verified by the cluster controller in this process. Absent where it was
    /// not created yet, or vanished and was not recreated yet; unknown before it was looked up.
    pub id: Lookup<LoadBalancerId>,
    /// Its name: `k8s-clusterapi-cluster-<namespace>-<cluster>-kubeapi`. Listener, pool and monitor are
    /// called `<name>-<port>`, members `<name>-<port>-<OpenStackMachine>`.
    pub name: String,
    /// Octavia's provider name as the load balancer shows it; empty where it shows none.
    pub provider: String,
    /// The ports to serve, the endpoint's own port first.
    pub ports: Vec<u16>,
    /// The health monitor of every pool.
    pub monitor: MonitorParameters,
    /// The type of the health monitors. With `None` an existing monitor keeps its type, and a new one has the type TCP.
    /// HTTPS is used only on the endpoint's port, because it is unknown what listens on the other ports.
    pub monitor_type: Option<MonitorType>,
    /// The source ranges that may connect. With `None` the listeners keep their setting, because the provider can't
    /// restrict who connects or the spec sets no ranges.
    pub allowed_cidrs: Option<Vec<IpNet>>,
    /// Tags for listeners, pools and members.
    pub tags: Vec<String>,
    /// Subnet id to give to members, where the provider needs one (members outside the VIP subnet).
    pub member_subnet: Option<SubnetId>,
    /// The facts about the cluster that the load balancer belongs to.
    pub cluster: ClusterFacts,
}

/// Facts about the cluster that the gates depend on.
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a fact of its own, not a step of one state"
)]
#[derive(Debug, Clone, PartialEq)]
pub struct ClusterFacts {
    /// The cluster is paused or being moved by clusterctl, so nothing is written to OpenStack and no hook is changed.
    pub paused: bool,
    /// The Cluster or the control-plane object is being deleted, or was absent in an uncached read.
    pub cluster_deleting: bool,
    /// `controlPlaneInitialized` of the Cluster or of the control-plane object, or a control-plane
    /// Machine with a nodeRef.
    pub initialised: bool,
    /// The operator's annotation on the `OpenStackCluster`.
    pub gate_override: GateOverride,
    /// The Cluster's `RemoteConnectionProbe`: whether Cluster API reaches the API server.
    pub remote_connection: ObservedCondition,
    /// Where clients reach the control plane; `None` until it is known.
    pub endpoint: Option<Endpoint>,
    /// PEM of the cluster's CA, to verify API servers with.
    pub ca_pem: Lookup<String>,
    /// The control plane is a KubeadmControlPlane, whose Machines have the condition `APIServerPodHealthy`.
    pub kubeadm_control_plane: bool,
    /// The `OpenStackMachine`s of its control plane that exist. No member is changed before each of them was handed
    /// over, because a member of one that is not known yet may be the only one that serves.
    pub machines: Vec<ObjectName>,
}

/// One control-plane machine. Its key is the name of its `OpenStackMachine`.
#[derive(Debug, Clone, PartialEq)]
pub struct DesiredMachine {
    /// The `OpenStackCluster` it belongs to.
    pub cluster: ObjectName,
    /// The uid of the `OpenStackMachine`. An `OpenStackMachine` of the same name with another uid is another machine.
    pub uid: Option<String>,
    /// Name of the owning Machine, for messages; `None` when it is gone.
    pub machine: Option<String>,
    /// The address its API server listens on, once its port has one.
    pub address: Option<IpAddr>,
    /// `Machine.spec.providerID` is set: Cluster API has admitted the machine. This can't be taken back.
    pub admitted: bool,
    /// The machine itself is paused or being moved by clusterctl, whether or not its cluster is. Nothing is written for
    /// it.
    pub paused: bool,
    /// Its server in the last read.
    pub server: ObservedServer,
    /// How far its deletion is.
    pub deletion: Deletion,
    /// The operator's annotation on the `OpenStackMachine`.
    pub gate_override: GateOverride,
    /// `APIServerPodHealthy` of the Machine.
    pub api_server_pod: ObservedCondition,
    /// `NodeHealthy` of the Machine.
    pub node: ObservedCondition,
    /// The Machine has a nodeRef.
    pub has_node: bool,
}

/// A server as last read from Nova.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ObservedServer {
    /// The state of the server in that read.
    pub state: ServerState,
    /// When the read began, on this process's clock; `None` when it was never read.
    pub read_at: Option<Instant>,
    /// When the first of the consecutive reads that found it absent or SHUTOFF began; `None` while it is neither.
    pub down_since: Option<Instant>,
}

impl ObservedServer {
    /// The age from which a newer read is needed. It leaves the next read enough time to arrive before the last one is
    /// too old for a gate.
    const DUE: Duration = Duration::from_secs(40);

    /// The least time between the first and the last of the reads that show a server as gone, because a single such
    /// read may be an error of Nova.
    pub const DOWN_FOR: Duration = Duration::from_secs(30);

    /// Whether at least two reads that are [`Self::DOWN_FOR`] apart found the server absent or SHUTOFF, and none in
    /// between found anything else.
    pub fn is_down_for_good(&self) -> bool {
        self.down_since
            .zip(self.read_at)
            .is_some_and(|(first, last)| last.saturating_duration_since(first) >= Self::DOWN_FOR)
    }

    /// Whether a newer read is needed.
    pub fn is_due(&self, now: Instant) -> bool {
        self.read_at
            .is_none_or(|read| now.saturating_duration_since(read) > Self::DUE)
    }
}

/// The states of a server that the gates distinguish.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ServerState {
    /// ACTIVE.
    Active,
    /// SHUTOFF.
    Shutoff,
    /// Not found.
    Absent,
    /// Anything else, or not read yet.
    Other,
}

/// The status of a Kubernetes condition, as this process saw it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ObservedCondition {
    /// True since this moment, as far as this process saw.
    TrueSince(Instant),
    /// False.
    False,
    /// Unknown or absent.
    Unknown,
}

impl ObservedCondition {
    /// Since when it is True.
    pub(crate) fn true_since(self) -> Option<Instant> {
        match self {
            Self::TrueSince(since) => Some(since),
            Self::False | Self::Unknown => None,
        }
    }
}

/// How far the deletion of a control-plane machine is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Deletion {
    /// Neither Machine nor `OpenStackMachine` is being deleted.
    No,
    /// The Machine is deleting and carries our hook, but has not reached it yet.
    BeforeHook {
        /// The Machine's deletion timestamp.
        since: Timestamp,
    },
    /// The Machine waits for our hook (reason `WaitingForPreTerminateHook`): the release gate decides.
    AtHook {
        /// The Machine's deletion timestamp.
        since: Timestamp,
    },
    /// The Machine is deleting and our hook is gone, but nothing has deleted its `OpenStackMachine` yet: its API server
    /// may run for hours, while the control plane provider, another hook or a drain holds the Machine.
    AfterHook {
        /// The Machine's deletion timestamp.
        since: Timestamp,
    },
    /// The Machine is deleting without our hook, and so is its `OpenStackMachine` or its server's object. No release is
    /// evaluated: the member is removed, and then the server.
    Unhooked {
        /// The Machine's deletion timestamp.
        since: Timestamp,
    },
    /// The `OpenStackMachine` is deleting though its Machine is not, is absent, or still carries our hook without
    /// having reached it. The finalizer gate is evaluated.
    OutOfBand {
        /// The `OpenStackMachine`'s deletion timestamp.
        since: Timestamp,
    },
}

impl Deletion {
    /// The deletion timestamp that queues releases, oldest first.
    pub fn since(self) -> Option<Timestamp> {
        match self {
            Self::No => None,
            Self::BeforeHook { since }
            | Self::AtHook { since }
            | Self::AfterHook { since }
            | Self::Unhooked { since }
            | Self::OutOfBand { since } => Some(since),
        }
    }
}
