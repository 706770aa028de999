//! What is known of the listener, the pool and the monitor of one port.

use std::time::Instant;

use ipnet::IpNet;

use crate::model::{
    attempts::{Attempts, Refusal},
    member::{Member, MemberDetail},
    part::{ConsecutiveReads, Part, PartId, PartKind, PartState},
    trouble::Trouble,
};
use capo_core::{
    MonitorType, ProvisioningStatus,
    ids::{ListenerId, MonitorId, PoolId},
    octavia::MonitorNumbers,
};

/// Listener, pool, monitor and members of one port.
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a fact of its own, not a step of one state"
)]
#[derive(Debug, Clone, Default)]
pub(crate) struct Port {
    pub(crate) number: u16,
    /// Name of listener, pool and monitor.
    pub(crate) name: String,
    /// What names of our members start with.
    pub(crate) prefix: String,
    pub(crate) listener: Option<Part<ListenerId>>,
    pub(crate) pool: Option<Part<PoolId>>,
    pub(crate) monitor: Option<Part<MonitorId>>,
    /// The provider has no such monitor.
    pub(crate) monitor_refused: bool,
    /// How the monitor checks; unknown where none was read.
    pub(crate) monitor_type: MonitorType,
    /// The provider has no monitor of the desired type.
    pub(crate) type_refused: bool,
    /// The deletions of monitors of another type than the desired one.
    pub(crate) retypes: Attempts,
    /// An unattached pool of our name.
    pub(crate) stray_pool: Option<PoolId>,
    /// More than one object answers to our name, or another one sits on our port.
    pub(crate) ambiguous: Option<String>,
    /// Who may connect to its listener, sorted; `None` before it was read.
    pub(crate) cidrs: Option<Vec<IpNet>>,
    pub(crate) numbers: Option<MonitorNumbers>,
    pub(crate) numbers_due: bool,
    /// The list of members was not answered though the tree was.
    pub(crate) list_trouble: Option<Trouble>,
    /// When the last list of members began.
    pub(crate) listed: Option<Instant>,
    pub(crate) members_due: bool,
    pub(crate) members: Vec<Member>,
    /// What the answers to our writes showed of members that the tree does not show yet.
    pub(crate) details_ahead: Vec<MemberDetail>,
    /// A list showed this part, the tree did not.
    pub(crate) unseen: Option<PartKind>,
    /// The unbroken row of reads in which no member was ONLINE though a monitor checks them.
    pub(crate) none_online: ConsecutiveReads,
    /// An attempt at a part of it was refused.
    pub(crate) refusal: Option<Refusal>,
    pub(crate) attempts: Attempts,
    /// Writes of its parts in a row that were not answered, or met a locked load balancer.
    pub(crate) failures: u32,
    /// The part that was pushed last because it was broken.
    pub(crate) pushed: Option<Pushed>,
}

/// A part that got a PUT of its own values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Pushed {
    pub(crate) id: PartId,
    pub(crate) at: Instant,
}

impl Port {
    pub(crate) fn new(balancer: &str, number: u16) -> Self {
        Self::named(format!("{balancer}-{number}"), number)
    }

    /// Nothing of it is known.
    pub(crate) fn named(name: String, number: u16) -> Self {
        Self {
            number,
            prefix: format!("{name}-"),
            name,
            numbers_due: true,
            members_due: true,
            ..Self::default()
        }
    }

    /// Listener, pool and monitor are there and ACTIVE.
    pub(crate) fn is_ready(&self) -> bool {
        let is_active = |kind: PartKind| {
            self.part(kind)
                .is_some_and(|part| part.provisioning == ProvisioningStatus::Active)
        };
        self.ambiguous.is_none()
            && is_active(PartKind::Listener)
            && is_active(PartKind::Pool)
            && (self.monitor_refused && self.monitor.is_none() || is_active(PartKind::Monitor))
    }

    /// The status of a part.
    pub(crate) fn part(&self, kind: PartKind) -> Option<&PartState> {
        match kind {
            PartKind::Listener => self.listener.as_ref().map(|part| &part.state),
            PartKind::Pool => self.pool.as_ref().map(|part| &part.state),
            PartKind::Monitor => self.monitor.as_ref().map(|part| &part.state),
        }
    }

    /// The id of a part.
    pub(crate) fn part_id(&self, kind: PartKind) -> Option<PartId> {
        match kind {
            PartKind::Listener => self
                .listener
                .as_ref()
                .map(|part| PartId::Listener(part.id.clone())),
            PartKind::Pool => self.pool.as_ref().map(|part| PartId::Pool(part.id.clone())),
            PartKind::Monitor => self
                .monitor
                .as_ref()
                .map(|part| PartId::Monitor(part.id.clone())),
        }
    }

    /// Notes that a part was pushed, whatever came of it.
    pub(crate) fn note_push(&mut self, kind: PartKind, now: Instant) {
        self.pushed = self.part_id(kind).map(|id| Pushed { id, at: now });
    }

    /// The statuses of the parts that are there.
    pub(crate) fn parts(&self) -> impl Iterator<Item = &PartState> {
        PartKind::ALL.into_iter().filter_map(|kind| self.part(kind))
    }
}
