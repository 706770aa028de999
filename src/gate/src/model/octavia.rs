//! What the gate reads from Octavia and writes to it, in types of its own. No HTTP type appears here.

use std::{any::Any, net::IpAddr, time::Duration};

use futures::future::BoxFuture;
use ipnet::IpNet;

use crate::model::{desired::Monitor, part::PartId};
use capo_core::ids::{ListenerId, LoadBalancerId, MemberId, MonitorId, PoolId, SubnetId};
use capo_core::{FailureClass, MonitorType, OperatingStatus, Priority, ProvisioningStatus};

/// The calls that a worker makes. The OpenStack client implements them, and models in tests do.
pub trait Octavia: Send + Sync + 'static {
    /// Whether `other` uses the same cloud with the same rights.
    fn is_same(&self, other: &dyn Octavia) -> bool;
    /// For [`Octavia::is_same`].
    fn as_any(&self) -> &dyn Any;
    /// The status tree of a load balancer: one consistent snapshot.
    fn status_tree(
        &self,
        load_balancer: &LoadBalancerId,
        urgency: Priority,
    ) -> BoxFuture<'static, Answer<Tree>>;
    /// Everything below a load balancer that the tree lacks: unattached pools, ids of default pools and
    /// monitors, ports, allowed CIDRs.
    fn structure(
        &self,
        load_balancer: &LoadBalancerId,
        urgency: Priority,
    ) -> BoxFuture<'static, Answer<Structure>>;
    /// The members of a pool with everything the tree lacks of them.
    fn members(
        &self,
        pool: &PoolId,
        urgency: Priority,
    ) -> BoxFuture<'static, Answer<Vec<MemberDetail>>>;
    /// A health monitor's numbers.
    fn monitor(
        &self,
        monitor: &MonitorId,
        urgency: Priority,
    ) -> BoxFuture<'static, Answer<Monitor>>;
    /// Changes something.
    fn write(&self, change: &Change, urgency: Priority) -> BoxFuture<'static, Answer<Written>>;
}

/// The answer of Octavia, or the failure of the call.
pub type Answer<T> = Result<T, Failure>;

/// A call that failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// What kind of failure.
    pub class: FailureClass,
    /// The pause before the next request, where the service sent one.
    pub retry_after: Option<Duration>,
    /// Stable text for messages.
    pub message: String,
}

/// One snapshot of a load balancer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tree {
    /// The load balancer's provisioning status.
    pub provisioning: ProvisioningStatus,
    /// The load balancer's operating status.
    pub operating: OperatingStatus,
    /// Its listeners.
    pub listeners: Vec<ListenerRead>,
}

/// A listener in the tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListenerRead {
    /// Octavia's id.
    pub id: ListenerId,
    /// Its name.
    pub name: String,
    /// Its provisioning status.
    pub provisioning: ProvisioningStatus,
    /// The pools below it.
    pub pools: Vec<PoolRead>,
}

/// A pool in the tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PoolRead {
    /// Octavia's id.
    pub id: PoolId,
    /// Its name.
    pub name: String,
    /// Its provisioning status.
    pub provisioning: ProvisioningStatus,
    /// Its health monitor.
    pub monitor: Option<MonitorRead>,
    /// Its members.
    pub members: Vec<MemberRead>,
}

/// A health monitor in the tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MonitorRead {
    /// Octavia's id.
    pub id: MonitorId,
    /// How it checks.
    pub monitor_type: MonitorType,
    /// Its provisioning status.
    pub provisioning: ProvisioningStatus,
}

/// A member in the tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemberRead {
    /// Octavia's id.
    pub id: MemberId,
    /// Its name.
    pub name: String,
    /// Its address; `None` if it can't be read as one.
    pub address: Option<IpAddr>,
    /// The port it is served on.
    pub port: u16,
    /// Its provisioning status.
    pub provisioning: ProvisioningStatus,
    /// Its operating status.
    pub operating: OperatingStatus,
}

/// What the tree lacks of a member.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemberDetail {
    /// Octavia's id.
    pub id: MemberId,
    /// 0 drains it.
    pub weight: u16,
    /// False keeps all traffic away.
    pub admin_up: bool,
    /// Its tags.
    pub tags: Vec<String>,
}

/// What is below a load balancer, attached or not.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Structure {
    /// Every listener.
    pub listeners: Vec<ListenerDetail>,
    /// Every pool.
    pub pools: Vec<PoolDetail>,
}

/// What the tree lacks of a listener.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListenerDetail {
    /// Octavia's id.
    pub id: ListenerId,
    /// Its name.
    pub name: String,
    /// The port it listens on.
    pub port: u16,
    /// Its default pool.
    pub default_pool: Option<PoolId>,
    /// Who may connect; `None` where the cloud does not show it.
    pub allowed_cidrs: Option<Vec<IpNet>>,
}

/// What the tree lacks of a pool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PoolDetail {
    /// Octavia's id.
    pub id: PoolId,
    /// Its name.
    pub name: String,
    /// Its health monitor.
    pub monitor: Option<MonitorId>,
}

/// A change inside a load balancer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// POST a TCP listener.
    CreateListener {
        /// The load balancer.
        load_balancer: LoadBalancerId,
        /// Its name.
        name: String,
        /// The port to listen on.
        port: u16,
        /// Who may connect; `None` sends nothing.
        allowed_cidrs: Option<Vec<IpNet>>,
        /// Its tags.
        tags: Vec<String>,
    },
    /// PUT a listener: its own name, a default pool, allowed CIDRs.
    UpdateListener {
        /// Octavia's id.
        id: ListenerId,
        /// Its name, sent as it is.
        name: String,
        /// A pool to attach.
        default_pool: Option<PoolId>,
        /// Who may connect from now on.
        allowed_cidrs: Option<Vec<IpNet>>,
    },
    /// POST a TCP pool below a listener.
    CreatePool {
        /// The listener.
        listener: ListenerId,
        /// Its name.
        name: String,
        /// `ROUND_ROBIN` or `SOURCE_IP_PORT`.
        algorithm: &'static str,
        /// Its tags.
        tags: Vec<String>,
    },
    /// PUT a pool's own name: pushes it again.
    UpdatePool {
        /// Octavia's id.
        id: PoolId,
        /// Its name, sent as it is.
        name: String,
    },
    /// POST a health monitor.
    CreateMonitor {
        /// The pool.
        pool: PoolId,
        /// Its name.
        name: String,
        /// How it checks.
        monitor_type: MonitorType,
        /// Its numbers.
        numbers: Monitor,
    },
    /// PUT a health monitor's numbers.
    UpdateMonitor {
        /// Octavia's id.
        id: MonitorId,
        /// Its name, for events.
        name: String,
        /// Its numbers.
        numbers: Monitor,
    },
    /// DELETE a listener, a pool or a health monitor, which is then created again.
    DeletePart {
        /// Octavia's id.
        id: PartId,
        /// Its name, for events.
        name: String,
    },
    /// POST a member.
    CreateMember {
        /// The pool.
        pool: PoolId,
        /// Its name.
        name: String,
        /// Its address.
        address: IpAddr,
        /// The port it is served on.
        port: u16,
        /// Its subnet, where the provider needs one.
        subnet: Option<SubnetId>,
        /// False keeps all traffic away at first.
        admin_up: bool,
        /// Its tags.
        tags: Vec<String>,
    },
    /// PUT a member: its own name, and what is set besides.
    UpdateMember {
        /// The pool.
        pool: PoolId,
        /// Octavia's id.
        id: MemberId,
        /// Its name, sent as it is.
        name: String,
        /// A new weight.
        weight: Option<u16>,
        /// A new admin state.
        admin_up: Option<bool>,
        /// New tags.
        tags: Option<Vec<String>>,
    },
    /// DELETE a member.
    DeleteMember {
        /// The pool.
        pool: PoolId,
        /// Octavia's id.
        id: MemberId,
    },
}

/// Octavia's answer to an accepted change.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Written {
    /// Octavia's id of the listener, pool or health monitor that was created or changed.
    pub part: Option<PartId>,
    /// A member as it is now.
    pub member: Option<MemberDetail>,
}
