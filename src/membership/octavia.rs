//! What the core reads from Octavia and asks of it, in its own words: no HTTP types in here.

use std::{any::Any, net::IpAddr, time::Duration};

use futures::future::BoxFuture;
use ipnet::IpNet;

use super::desired::Monitor;

/// The calls a membership task makes. Implemented for the OpenStack client, and by models in tests.
pub trait Octavia: Send + Sync + 'static {
    /// Whether `other` asks the same cloud with the same rights.
    fn is_same(&self, other: &dyn Octavia) -> bool;
    /// For [`Octavia::is_same`].
    fn as_any(&self) -> &dyn Any;
    /// The status tree of a load balancer: one consistent snapshot.
    fn status_tree(
        &self,
        load_balancer: &str,
        urgency: Urgency,
    ) -> BoxFuture<'static, Answer<Tree>>;
    /// Everything below a load balancer that the tree lacks: unattached pools, ids of default pools and
    /// monitors, ports, allowed CIDRs.
    fn structure(
        &self,
        load_balancer: &str,
        urgency: Urgency,
    ) -> BoxFuture<'static, Answer<Structure>>;
    /// The members of a pool with everything the tree lacks of them.
    fn members(
        &self,
        pool: &str,
        urgency: Urgency,
    ) -> BoxFuture<'static, Answer<Vec<MemberDetail>>>;
    /// A health monitor's numbers.
    fn monitor(&self, monitor: &str, urgency: Urgency) -> BoxFuture<'static, Answer<Monitor>>;
    /// Changes something.
    fn write(&self, change: &Change, urgency: Urgency) -> BoxFuture<'static, Answer<Written>>;
}

/// An answer or what came instead.
pub type Answer<T> = Result<T, Failure>;

/// Which part of the request budget a call may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Urgency {
    /// A gate waits for it, or it changes something.
    Gate,
    /// Something is settling.
    Settling,
    /// Nothing waits for it.
    Steady,
}

/// What came instead of an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// What kind of failure.
    pub class: FailureClass,
    /// When to ask again, where the other side says so.
    pub retry_after: Option<Duration>,
    /// Stable text for messages.
    pub message: String,
}

/// Kinds of failures that the core answers differently.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FailureClass {
    /// Worth asking again.
    Transient,
    /// Asked to slow down.
    Throttled,
    /// The credentials don't allow it.
    Denied,
    /// The credentials are refused.
    Auth,
    /// A quota is used up.
    Quota,
    /// The load balancer or a pool is locked by another operation.
    Locked,
    /// Something with the same address and port, or the same name or port, is there already.
    Duplicate,
    /// It is not there.
    NotFound,
    /// The request is refused as it stands.
    Invalid,
    /// The provider can't do this.
    NotImplemented,
    /// The cloud has no load balancing service.
    NoService,
    /// This process may not write any more.
    LeaseLost,
}

/// Octavia's provisioning status.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Provisioning {
    /// ACTIVE
    Active,
    /// `PENDING_CREATE`
    PendingCreate,
    /// `PENDING_UPDATE`
    PendingUpdate,
    /// `PENDING_DELETE`
    PendingDelete,
    /// ERROR
    Error,
    /// DELETED
    Deleted,
    /// Anything else, as read.
    Unknown(String),
}

impl Provisioning {
    /// As Octavia writes it.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Active => "ACTIVE",
            Self::PendingCreate => "PENDING_CREATE",
            Self::PendingUpdate => "PENDING_UPDATE",
            Self::PendingDelete => "PENDING_DELETE",
            Self::Error => "ERROR",
            Self::Deleted => "DELETED",
            Self::Unknown(other) => other,
        }
    }

    /// An operation is under way, or was and got lost.
    pub fn is_pending(&self) -> bool {
        matches!(
            self,
            Self::PendingCreate | Self::PendingUpdate | Self::PendingDelete
        )
    }
}

impl From<&str> for Provisioning {
    fn from(text: &str) -> Self {
        match text {
            "ACTIVE" => Self::Active,
            "PENDING_CREATE" => Self::PendingCreate,
            "PENDING_UPDATE" => Self::PendingUpdate,
            "PENDING_DELETE" => Self::PendingDelete,
            "ERROR" => Self::Error,
            "DELETED" => Self::Deleted,
            other => Self::Unknown(other.to_owned()),
        }
    }
}

/// Octavia's operating status.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Operating {
    /// ONLINE
    Online,
    /// OFFLINE
    Offline,
    /// DEGRADED
    Degraded,
    /// ERROR
    Error,
    /// DRAINING
    Draining,
    /// `NO_MONITOR`
    NoMonitor,
    /// Anything else, as read.
    Unknown(String),
}

impl Operating {
    /// As Octavia writes it.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Online => "ONLINE",
            Self::Offline => "OFFLINE",
            Self::Degraded => "DEGRADED",
            Self::Error => "ERROR",
            Self::Draining => "DRAINING",
            Self::NoMonitor => "NO_MONITOR",
            Self::Unknown(other) => other,
        }
    }
}

impl From<&str> for Operating {
    fn from(text: &str) -> Self {
        match text {
            "ONLINE" => Self::Online,
            "OFFLINE" => Self::Offline,
            "DEGRADED" => Self::Degraded,
            "ERROR" => Self::Error,
            "DRAINING" => Self::Draining,
            "NO_MONITOR" => Self::NoMonitor,
            other => Self::Unknown(other.to_owned()),
        }
    }
}

/// One snapshot of a load balancer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tree {
    /// The load balancer's provisioning status.
    pub provisioning: Provisioning,
    /// The load balancer's operating status.
    pub operating: Operating,
    /// Its listeners.
    pub listeners: Vec<ListenerRead>,
}

/// A listener in the tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListenerRead {
    /// Octavia's id.
    pub id: String,
    /// Its name.
    pub name: String,
    /// Its provisioning status.
    pub provisioning: Provisioning,
    /// The pools below it.
    pub pools: Vec<PoolRead>,
}

/// A pool in the tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PoolRead {
    /// Octavia's id.
    pub id: String,
    /// Its name.
    pub name: String,
    /// Its provisioning status.
    pub provisioning: Provisioning,
    /// Its health monitor.
    pub monitor: Option<MonitorRead>,
    /// Its members.
    pub members: Vec<MemberRead>,
}

/// A health monitor in the tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MonitorRead {
    /// Octavia's id.
    pub id: String,
    /// Its provisioning status.
    pub provisioning: Provisioning,
}

/// A member in the tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemberRead {
    /// Octavia's id.
    pub id: String,
    /// Its name.
    pub name: String,
    /// Its address; `None` if it can't be read as one.
    pub address: Option<IpAddr>,
    /// The port it is served on.
    pub port: u16,
    /// Its provisioning status.
    pub provisioning: Provisioning,
    /// Its operating status.
    pub operating: Operating,
}

/// What the tree lacks of a member.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemberDetail {
    /// Octavia's id.
    pub id: String,
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
    pub id: String,
    /// Its name.
    pub name: String,
    /// The port it listens on.
    pub port: u16,
    /// Its default pool.
    pub default_pool: Option<String>,
    /// Who may connect; `None` where the cloud does not show it.
    pub allowed_cidrs: Option<Vec<IpNet>>,
}

/// What the tree lacks of a pool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PoolDetail {
    /// Octavia's id.
    pub id: String,
    /// Its name.
    pub name: String,
    /// Its health monitor.
    pub monitor: Option<String>,
}

/// A change inside a load balancer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// POST a TCP listener.
    CreateListener {
        /// The load balancer.
        load_balancer: String,
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
        id: String,
        /// Its name, sent as it is.
        name: String,
        /// A pool to attach.
        default_pool: Option<String>,
        /// Who may connect from now on.
        allowed_cidrs: Option<Vec<IpNet>>,
    },
    /// POST a TCP pool below a listener.
    CreatePool {
        /// The listener.
        listener: String,
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
        id: String,
        /// Its name, sent as it is.
        name: String,
    },
    /// POST a TCP health monitor.
    CreateMonitor {
        /// The pool.
        pool: String,
        /// Its name.
        name: String,
        /// Its numbers.
        numbers: Monitor,
    },
    /// PUT a health monitor's numbers.
    UpdateMonitor {
        /// Octavia's id.
        id: String,
        /// Its numbers.
        numbers: Monitor,
    },
    /// POST a member.
    CreateMember {
        /// The pool.
        pool: String,
        /// Its name.
        name: String,
        /// Its address.
        address: IpAddr,
        /// The port it is served on.
        port: u16,
        /// Its subnet, where the provider needs one.
        subnet: Option<String>,
        /// False keeps all traffic away at first.
        admin_up: bool,
        /// Its tags.
        tags: Vec<String>,
    },
    /// PUT a member: its own name, and what is set besides.
    UpdateMember {
        /// The pool.
        pool: String,
        /// Octavia's id.
        id: String,
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
        pool: String,
        /// Octavia's id.
        id: String,
    },
}

/// What an accepted change tells.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Written {
    /// Octavia's id of what was created.
    pub id: Option<String>,
    /// A member as it is now.
    pub member: Option<MemberDetail>,
}
