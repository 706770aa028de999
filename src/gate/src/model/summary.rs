//! What is decided about the cluster, without messages.

use crate::model::decision::GateCause;

/// The decisions about the load balancer as a whole. Unlike the statuses that were read, they can change merely because
/// time passes.
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a fact of its own, not a step of one state"
)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Summary {
    /// Why the cluster's verdict is not True.
    pub(crate) cause: Option<GateCause>,
    /// The cause that keeps the cluster from being Ready. Some causes do so at once, the others after they have lasted
    /// for a while.
    pub(crate) in_ready: Option<GateCause>,
    /// Whether `in_ready` keeps the cluster from being Ready at this moment.
    pub(crate) counts: bool,
    /// How many members have been PENDING for longer than the alert threshold.
    pub(crate) alerted: u32,
    /// How many members have been PENDING for longer than the stuck threshold.
    pub(crate) stuck: u32,
    /// An operator's bypass on the cluster is valid now.
    pub(crate) bypassed: bool,
    /// The number of machines for which an operator's bypass is valid now.
    pub(crate) bypassed_machines: u32,
    /// The control plane is known to have been initialised.
    pub(crate) initialised: bool,
    /// The load balancer and its listeners, pools and monitors are ACTIVE.
    pub(crate) ready: bool,
    /// A read after the last write showed every listener as ACTIVE, and the listeners' source ranges are known.
    pub(crate) ranges_known: bool,
    /// A read after the last write showed everything as it is desired.
    pub(crate) settled: bool,
}
