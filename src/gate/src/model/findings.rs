//! What the controllers, the metrics and the command line read back.

use std::{collections::BTreeMap, net::IpAddr, sync::Arc, time::Instant};

use ipnet::IpNet;
use jiff::Timestamp;

use capo_core::{
    ConditionState, GateState, MemberStatus, ObjectName, OperatingStatus, ProvisioningStatus,
    Reason,
    ids::{MemberId, PoolId},
};

/// Everything known of one load balancer, published as a whole after every step. A read that changed nothing only moves
/// the times of observation on ([`Findings::shows_the_same`]).
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a fact of its own, not a step of one state"
)]
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Findings {
    /// Time of the last complete read, for display; `None` before the first one.
    pub observed: Option<Timestamp>,
    /// Seconds to the next planned read. The alert `CapoLBObservationStale` fires once the last read is older than
    /// three times this.
    pub interval_seconds: f64,
    /// Until when a controller may act on a gate that opened on that read.
    pub fresh_until: Option<Instant>,
    /// Octavia's provisioning status of the load balancer, as read; `None` when it was not found.
    pub provisioning_status: Option<ProvisioningStatus>,
    /// Octavia's operating status of the load balancer, as read.
    pub operating_status: Option<OperatingStatus>,
    /// Two reads in a row were answered with 404, so the cluster controller creates a new load balancer.
    pub absent: bool,
    /// The last read showed none of the members that the reads before had shown. Another read has to confirm this
    /// before any decision depends on it.
    pub suspect: bool,
    /// The load balancer and every listener, pool and monitor exist and are ACTIVE. The cluster's `provisioned` depends
    /// on nothing else, because no machine exists before it is set.
    pub infrastructure_ready: bool,
    /// The generation of the `OpenStackCluster` whose load balancer this is, once a read after the last write
    /// has shown that all of it is there, ACTIVE and as this generation wants it.
    pub settled_generation: Option<i64>,
    /// The source ranges from which clients may connect to every port, sorted; empty where all clients may connect.
    /// `None` while they are not known, are being changed, or differ between ports.
    pub allowed_cidrs: Option<Vec<IpNet>>,
    /// The control plane is known to have been initialised, by Kubernetes or by an API server that answered this
    /// process.
    pub initialised: bool,
    /// The provider as metrics name it: `amphora`, `amphorav2`, `ovn` or `other`.
    pub provider: &'static str,
    /// `APIServerLoadBalancerReady` of the `OpenStackCluster`.
    pub verdict: ConditionState,
    /// Whether the cluster is not Ready at this moment on account of its load balancer. Trouble of single members does
    /// not count, though `verdict` shows it.
    pub counts_in_ready: bool,
    /// Every expected and every found member, ordered by machine and port.
    pub members: Vec<MemberFinding>,
    /// Every control-plane machine that was handed over.
    pub machines: BTreeMap<ObjectName, MachineFinding>,
}

impl Findings {
    /// Whether both report the same, apart from the times of observation.
    pub fn shows_the_same(&self, other: &Self) -> bool {
        let as_observed_then = |member: &MemberFinding, then: &MemberFinding| MemberFinding {
            last_observed: then.last_observed,
            ..member.clone()
        };
        let members = self.members.iter().zip(&other.members);
        let moved = Self {
            observed: other.observed,
            interval_seconds: other.interval_seconds,
            fresh_until: other.fresh_until,
            members: members
                .map(|(member, then)| as_observed_then(member, then))
                .collect(),
            ..self.clone()
        };
        self.members.len() == other.members.len() && moved == *other
    }

    /// Whether a controller may act on `gate` at `now`. A gate that opened on the state of members stays open until a
    /// read contradicts it, but a controller acts on it only while that read is fresh, because Kubernetes may have been
    /// unreachable for minutes since then.
    pub fn may_act_on(&self, gate: &Gate, now: Instant) -> bool {
        let is_fresh = self.fresh_until.map(|until| now <= until);
        match gate.reason {
            _ if gate.state != GateState::Open => gate.is_open(),
            Reason::MembersActive | Reason::MachineReleased => is_fresh == Some(true),
            // These rules also apply without a load balancer, where `fresh_until` is `None` and nothing has to be
            // fresh.
            Reason::MachineDoesNotServe | Reason::MachineNeverServed => is_fresh != Some(false),
            _ => true,
        }
    }
}

/// New findings, and the findings that they replace.
#[derive(Debug, Clone)]
pub struct Publication {
    /// The `OpenStackCluster`.
    pub cluster: ObjectName,
    /// What was published before; `None` the first time.
    pub before: Option<Arc<Findings>>,
    /// What is published now.
    pub after: Arc<Findings>,
}

/// One member of one pool: expected, found, or both.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemberFinding {
    /// The name of the `OpenStackMachine`; the member's own name if capo-rs did not create the member.
    pub machine: String,
    /// The pool's port.
    pub port: u16,
    /// Octavia's id; `None` while the member does not exist.
    pub id: Option<MemberId>,
    /// Octavia's id of its pool; `None` while the pool does not exist.
    pub pool_id: Option<PoolId>,
    /// Its address, expected or found.
    pub address: Option<IpAddr>,
    /// Octavia's provisioning status, where the member exists.
    pub provisioning_status: MemberStatus,
    /// Octavia's operating status.
    pub operating_status: OperatingStatus,
    /// Since when it is in that provisioning status.
    pub since: Timestamp,
    /// When it was last read.
    pub last_observed: Timestamp,
    /// What is wrong with it and what is done about it; empty when nothing is.
    pub message: String,
    /// The member has been PENDING for longer than `--member-alert-after`.
    pub stuck: bool,
}

/// The findings about one control-plane machine.
#[derive(Debug, Clone, PartialEq)]
pub struct MachineFinding {
    /// `APIServerLoadBalancerReady` of the `OpenStackMachine`.
    pub verdict: ConditionState,
    /// Whether `initialization.provisioned` may be set.
    pub admission: Gate,
    /// Whether the pre-terminate hook may be removed.
    pub release: Gate,
    /// Whether the server may be deleted, and the finalizer removed after it.
    pub finalizer: Gate,
    /// A gate waits for a newer read of this machine's server, which the controller should read soon and hand over.
    pub needs_server_read: bool,
}

/// One gate of one machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gate {
    /// Whether it holds the machine; [`GateState::Unknown`] where nothing waits for it at the moment, in which case it
    /// was not evaluated.
    pub state: GateState,
    /// The cause of the state.
    pub reason: Reason,
    /// What was observed and, where the gate holds the machine, what opens it.
    pub message: String,
    /// Since when it holds the machine; `None` where it does not.
    pub since: Option<Timestamp>,
}

impl Gate {
    /// A gate that was not evaluated.
    pub const NOT_EVALUATED: Self = Self {
        state: GateState::Unknown,
        reason: Reason::NotYetObserved,
        message: String::new(),
        since: None,
    };

    /// A gate that holds nothing.
    pub fn open(reason: Reason, message: impl Into<String>) -> Self {
        Self {
            state: GateState::Open,
            reason,
            message: message.into(),
            since: None,
        }
    }

    /// A gate that holds the machine.
    pub fn held(reason: Reason, message: impl Into<String>, since: Timestamp) -> Self {
        Self {
            state: GateState::Held,
            since: Some(since),
            ..Self::open(reason, message)
        }
    }

    /// Whether the gate does not hold the machine.
    pub fn is_open(&self) -> bool {
        matches!(self.state, GateState::Open | GateState::Bypassed)
    }

    /// Whether the gate holds the machine.
    pub fn is_held(&self) -> bool {
        self.state == GateState::Held
    }
}
