//! The calls to Octavia that a worker makes. Their arguments and answers are types of the OpenStack client; no HTTP
//! type appears here.

use std::{any::Any, time::Duration};

use futures::future::BoxFuture;

use crate::model::part::PartId;
use capo_core::ids::{ListenerId, LoadBalancerId, MemberId, MonitorId, PoolId};
use capo_core::octavia::{
    Listener, ListenerUpdate, Member, MemberUpdate, MonitorParameters, NewHealthMonitor,
    NewListener, NewMember, NewPool, Pool, StatusTree,
};
use capo_core::{FailureClass, Priority};

/// The calls that a worker makes. The OpenStack client implements them, and so do the models of Octavia in tests.
pub trait Octavia: Send + Sync + 'static {
    /// Whether `other` uses the same cloud with the same rights.
    fn is_same(&self, other: &dyn Octavia) -> bool;
    /// For [`Octavia::is_same`].
    fn as_any(&self) -> &dyn Any;
    /// Reads the status tree of a load balancer, which is one consistent snapshot.
    fn status_tree(
        &self,
        load_balancer: &LoadBalancerId,
        priority: Priority,
    ) -> BoxFuture<'static, Answer<StatusTree>>;
    /// Lists what is below a load balancer and the tree does not show: pools that no listener refers to, the ids of
    /// default pools and monitors, ports, allowed CIDRs.
    fn listeners_and_pools(
        &self,
        load_balancer: &LoadBalancerId,
        priority: Priority,
    ) -> BoxFuture<'static, Answer<ListenersAndPools>>;
    /// Lists the members of a pool, with the weight, admin state and tags that the tree does not show.
    fn members(&self, pool: &PoolId, priority: Priority)
    -> BoxFuture<'static, Answer<Vec<Member>>>;
    /// Reads the delay, timeout and retry counts of a health monitor.
    fn monitor(
        &self,
        monitor: &MonitorId,
        priority: Priority,
    ) -> BoxFuture<'static, Answer<MonitorParameters>>;
    /// Makes a change.
    fn write(&self, change: &Change, priority: Priority) -> BoxFuture<'static, Answer<Written>>;
}

/// The answer of Octavia, or the failure of the call.
pub type Answer<T> = Result<T, Failure>;

/// A call that failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// The kind of the failure.
    pub class: FailureClass,
    /// The pause before the next request, where the service sent one.
    pub retry_after: Option<Duration>,
    /// The text for messages. It is the same whenever the same failure occurs again.
    pub message: String,
}

/// The listeners and pools of a load balancer, including pools that no listener refers to.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ListenersAndPools {
    /// Every listener.
    pub listeners: Vec<Listener>,
    /// Every pool.
    pub pools: Vec<Pool>,
}

/// A change of a listener, pool, health monitor or member of a load balancer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// POST a TCP listener.
    CreateListener(NewListener),
    /// PUT a listener. If no field is set, Octavia writes the listener's configuration to the data path again.
    UpdateListener {
        /// Octavia's id.
        id: ListenerId,
        /// Its name, for events.
        name: String,
        /// The fields to set.
        update: ListenerUpdate,
    },
    /// POST a TCP pool below a listener.
    CreatePool(NewPool),
    /// PUT a pool's own name, so that Octavia writes the pool's configuration to the data path again.
    UpdatePool {
        /// Octavia's id.
        id: PoolId,
        /// The pool's name, which is sent unchanged.
        name: String,
    },
    /// POST a health monitor.
    CreateMonitor(NewHealthMonitor),
    /// PUT the delay, timeout and retry counts of a health monitor.
    UpdateMonitor {
        /// Octavia's id.
        id: MonitorId,
        /// Its name, for events.
        name: String,
        /// The delay, timeout and retry counts.
        parameters: MonitorParameters,
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
    /// PUT a member's own name, and the fields that are set in `update`.
    UpdateMember {
        /// The pool.
        pool: PoolId,
        /// Octavia's id.
        id: MemberId,
        /// The fields to set.
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
    /// The member as Octavia answered it. Boxed, because it is large and rare.
    pub member: Option<Box<Member>>,
}
