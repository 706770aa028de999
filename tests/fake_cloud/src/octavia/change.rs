//! The changes that Octavia carries out, their possible ends, and their steps.

use serde::{Deserialize, Serialize};

use super::{model::Object, status::Provisioning};

/// A change that was accepted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// POST of a load balancer.
    LoadBalancerCreate,
    /// PUT of a load balancer.
    LoadBalancerUpdate,
    /// DELETE of a load balancer.
    LoadBalancerDelete,
    /// Failover.
    Failover,
    /// POST of a listener.
    ListenerCreate(String),
    /// PUT of a listener.
    ListenerUpdate(String),
    /// DELETE of a listener.
    ListenerDelete(String),
    /// POST of a pool.
    PoolCreate(String),
    /// PUT of a pool.
    PoolUpdate(String),
    /// DELETE of a pool.
    PoolDelete(String),
    /// POST of the monitor of a pool.
    MonitorCreate(String),
    /// PUT of the monitor of a pool.
    MonitorUpdate(String),
    /// DELETE of the monitor of a pool.
    MonitorDelete(String),
    /// POST of a member: pool, member.
    MemberCreate(String, String),
    /// PUT of a member.
    MemberUpdate(String, String),
    /// DELETE of a member.
    MemberDelete(String, String),
    /// PUT of the members of a pool.
    MemberBatch {
        /// The pool.
        pool: String,
        /// New rows.
        created: Vec<String>,
        /// Rows named in the request that existed.
        updated: Vec<String>,
        /// Rows that are deleted.
        deleted: Vec<String>,
        /// Rows not named in an additive request: the driver gets them as if they were updated.
        untouched: Vec<String>,
    },
}

impl Change {
    /// The name that rules match: `member-create`, `load-balancer-delete`, ...
    pub const fn name(&self) -> &'static str {
        match self {
            Self::LoadBalancerCreate => "load-balancer-create",
            Self::LoadBalancerUpdate => "load-balancer-update",
            Self::LoadBalancerDelete => "load-balancer-delete",
            Self::Failover => "load-balancer-failover",
            Self::ListenerCreate(_) => "listener-create",
            Self::ListenerUpdate(_) => "listener-update",
            Self::ListenerDelete(_) => "listener-delete",
            Self::PoolCreate(_) => "pool-create",
            Self::PoolUpdate(_) => "pool-update",
            Self::PoolDelete(_) => "pool-delete",
            Self::MonitorCreate(_) => "monitor-create",
            Self::MonitorUpdate(_) => "monitor-update",
            Self::MonitorDelete(_) => "monitor-delete",
            Self::MemberCreate(..) => "member-create",
            Self::MemberUpdate(..) => "member-update",
            Self::MemberDelete(..) => "member-delete",
            Self::MemberBatch { .. } => "member-batch",
        }
    }

    /// The object that the change is about.
    pub fn object(&self) -> Object {
        match self {
            Self::LoadBalancerCreate
            | Self::LoadBalancerUpdate
            | Self::LoadBalancerDelete
            | Self::Failover => Object::LoadBalancer,
            Self::ListenerCreate(id) | Self::ListenerUpdate(id) | Self::ListenerDelete(id) => {
                Object::Listener(id.clone())
            }
            Self::PoolCreate(id) | Self::PoolUpdate(id) | Self::PoolDelete(id) => {
                Object::Pool(id.clone())
            }
            Self::MonitorCreate(pool) | Self::MonitorUpdate(pool) | Self::MonitorDelete(pool) => {
                Object::Monitor(pool.clone())
            }
            Self::MemberCreate(pool, id)
            | Self::MemberUpdate(pool, id)
            | Self::MemberDelete(pool, id) => Object::Member(pool.clone(), id.clone()),
            Self::MemberBatch { pool, .. } => Object::Pool(pool.clone()),
        }
    }

    /// The pool that a change of members or of a monitor locks.
    pub(super) fn pool(&self) -> Option<&str> {
        match self {
            Self::MonitorCreate(pool)
            | Self::MonitorUpdate(pool)
            | Self::MonitorDelete(pool)
            | Self::MemberCreate(pool, _)
            | Self::MemberUpdate(pool, _)
            | Self::MemberDelete(pool, _)
            | Self::MemberBatch { pool, .. } => Some(pool),
            _ => None,
        }
    }
}

/// The stage in which a failing change fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Stage {
    /// Before the push, while a port is plugged. A new member has no interface afterwards.
    Network,
    /// The push to the amphorae. The old configuration stays.
    #[default]
    Push,
    /// After the push, writing the result: the new configuration is in place.
    Database,
}

/// Behaviour of real Octavia that its API does not document. The table in `tests/fake_cloud/README.md` says what is
/// seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Anomaly {
    /// The change fails in Octavia's usual way.
    Failed,
    /// A failing batch unlocks the load balancer group by group, `gap` seconds apart.
    SplitRevert,
    /// The change fails, and the write of ERROR to the member is lost: the member stays PENDING under an ACTIVE load
    /// balancer.
    LostErrorWrite,
    /// The change fails while the database is not reachable: the load balancer turns ACTIVE, and the rest stays
    /// PENDING.
    DatabaseOutage,
    /// No deviation. An additive batch that succeeds marks every member ACTIVE.
    Whitewash,
    /// The change succeeds although the push was lost.
    #[serde(alias = "not-applied")]
    PushSwallowed,
    /// Pools without a listener stay PENDING under an ACTIVE load balancer.
    UnattachedPoolsPending,
    /// The provider reports the statuses of all rows except the changed one.
    PartialReport,
    /// Listeners, pool and load balancer turn ACTIVE half-way.
    EarlyActive,
    /// The worker stops between the load balancer and the listeners.
    ListenersLeftPending,
    /// The listener's certificate can't be read: the listener is in ERROR, and all other rows are ACTIVE.
    CertificateError,
    /// For `gap` seconds reads return the state before the change.
    StaleReads,
    /// The worker stops: all rows stay PENDING for ever, or until another worker continues `gap` seconds later.
    WorkerKilled,
    /// The load balancer, its listeners and the pool turn ACTIVE while the object stays PENDING. `gap` seconds later
    /// (300 without it) another worker finds the job on the jobboard and carries the change out.
    ResumedLater,
    /// A batch pushes the previous values and turns its rows ACTIVE.
    OldValuesPushed,
}

/// How a change ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// It succeeds.
    Success,
    /// It fails in this stage.
    Failure(Stage),
    /// It ends with this anomaly.
    Odd(Anomaly),
}

/// The content of a push.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Push {
    /// The rows as they are.
    Rows,
    /// The rows as they are, after interfaces were plugged for every member.
    Plugged,
    /// The rows as they were when the change was accepted.
    Before,
}

/// One transaction or push.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// Writes a provisioning status.
    Set(Object, Provisioning),
    /// Writes ACTIVE unless the row is in ERROR.
    ActiveUnlessError(Object),
    /// Deletes a row.
    Remove(Object),
    /// Delivers a configuration to the data path.
    Push(Push),
    /// Marks all rows below the load balancer ACTIVE.
    MarkAll,
    /// Leaves a new member without an interface.
    Unplugged(String, String),
}
