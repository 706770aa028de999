//! The calls that a worker makes. What they read and write are the OpenStack client's own types; no HTTP type appears here.

use std::{any::Any, time::Duration};

use futures::future::BoxFuture;

use crate::model::part::PartId;
use capo_core::ids::{ListenerId, LoadBalancerId, MemberId, MonitorId, PoolId};
use capo_core::octavia::{
    Listener, ListenerUpdate, Member, MemberUpdate, MonitorNumbers, NewHealthMonitor, NewListener,
    NewMember, NewPool, Pool, StatusTree,
};
use capo_core::{FailureClass, Priority};

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
        priority: Priority,
    ) -> BoxFuture<'static, Answer<StatusTree>>;
    /// Everything below a load balancer that the tree lacks: unattached pools, ids of default pools and
    /// monitors, ports, allowed CIDRs.
    fn structure(
        &self,
        load_balancer: &LoadBalancerId,
        priority: Priority,
    ) -> BoxFuture<'static, Answer<Structure>>;
    /// The members of a pool with everything the tree lacks of them.
    fn members(&self, pool: &PoolId, priority: Priority)
    -> BoxFuture<'static, Answer<Vec<Member>>>;
    /// A health monitor's numbers.
    fn monitor(
        &self,
        monitor: &MonitorId,
        priority: Priority,
    ) -> BoxFuture<'static, Answer<MonitorNumbers>>;
    /// Changes something.
    fn write(&self, change: &Change, priority: Priority) -> BoxFuture<'static, Answer<Written>>;
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

/// What is below a load balancer, attached or not.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Structure {
    /// Every listener.
    pub listeners: Vec<Listener>,
    /// Every pool.
    pub pools: Vec<Pool>,
}

/// A change inside a load balancer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// POST a TCP listener.
    CreateListener(NewListener),
    /// PUT a listener. Without any field set, Octavia writes its configuration to the data path again.
    UpdateListener {
        /// Octavia's id.
        id: ListenerId,
        /// Its name, for events.
        name: String,
        /// What is set.
        update: ListenerUpdate,
    },
    /// POST a TCP pool below a listener.
    CreatePool(NewPool),
    /// PUT a pool's own name: Octavia writes its configuration to the data path again.
    UpdatePool {
        /// Octavia's id.
        id: PoolId,
        /// Its name, sent as it is.
        name: String,
    },
    /// POST a health monitor.
    CreateMonitor(NewHealthMonitor),
    /// PUT a health monitor's numbers.
    UpdateMonitor {
        /// Octavia's id.
        id: MonitorId,
        /// Its name, for events.
        name: String,
        /// Its numbers.
        numbers: MonitorNumbers,
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
        /// The member.
        new: NewMember,
    },
    /// PUT a member: its own name, and what is set besides.
    UpdateMember {
        /// The pool.
        pool: PoolId,
        /// Octavia's id.
        id: MemberId,
        /// What is set.
        update: MemberUpdate,
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
    /// A member as it is now. Boxed, because it is large and rare.
    pub member: Option<Box<Member>>,
}
