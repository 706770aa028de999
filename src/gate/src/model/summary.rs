//! What is decided about the cluster, without messages.

use crate::model::decision::GateCause;

/// What is decided about the load balancer as a whole. Unlike the statuses that were read, the passage of time alone can change it.
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a fact of its own, not a step of one state"
)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Summary {
    /// Why the cluster's verdict is not True.
    pub(crate) cause: Option<GateCause>,
    /// What keeps the cluster from being Ready: some causes at once, the others once they have lasted for a while.
    pub(crate) in_ready: Option<GateCause>,
    /// Whether `in_ready` keeps the cluster from being Ready at this moment.
    pub(crate) counts: bool,
    /// How many members have been PENDING for longer than the alert threshold.
    pub(crate) alerted: u32,
    /// How many members have been PENDING for longer than the stuck threshold.
    pub(crate) stuck: u32,
    /// The bypass that is valid now.
    pub(crate) bypassed: bool,
    /// Machines for which one is valid now.
    pub(crate) bypassed_machines: u32,
    /// The control plane was never initialised.
    pub(crate) never_initialised: bool,
    /// Listeners, pools, monitors and load balancer are ACTIVE.
    pub(crate) ready: bool,
    /// Every listener is ACTIVE as of a read after the last write, and its source ranges are known.
    pub(crate) ranges_known: bool,
    /// All of it is as it is wanted, as of a read after the last write.
    pub(crate) settled: bool,
}
