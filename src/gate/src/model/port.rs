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
    MonitorType, OperatingStatus, ProvisioningStatus,
    ids::{ListenerId, MonitorId, PoolId},
    octavia::MonitorParameters,
};

/// A port of a load balancer with its index, which is also the index of a machine's slot for it.
#[derive(Clone, Copy)]
pub(crate) struct IndexedPort<'a> {
    pub(crate) index: usize,
    pub(crate) port: &'a Port,
}

/// Listener, pool, monitor and members of one port.
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a fact of its own, not a step of one state"
)]
#[derive(Debug, Clone, Default)]
pub(crate) struct Port {
    pub(crate) number: u16,
    /// Name of the listener, the pool and the monitor.
    pub(crate) name: String,
    /// What the names of members begin with that capo-rs creates on this port.
    pub(crate) prefix: String,
    pub(crate) listener: Option<Part<ListenerId>>,
    pub(crate) pool: Option<Part<PoolId>>,
    pub(crate) monitor: Option<Part<MonitorId>>,
    /// The provider has refused a monitor that connects by TCP, so the port is left without one.
    pub(crate) monitor_refused: bool,
    /// How the monitor checks; unknown where none was read.
    pub(crate) monitor_type: MonitorType,
    /// The provider has refused a monitor of the desired type.
    pub(crate) type_refused: bool,
    /// The deletions of monitors of another type than the desired one.
    pub(crate) retypes: Attempts,
    /// A pool that has our name and to which no listener refers.
    pub(crate) stray_pool: Option<PoolId>,
    /// Why the port is ambiguous: several objects have our name, or another object uses our port.
    pub(crate) ambiguous: Option<String>,
    /// The source ranges from which clients may connect to the listener, sorted; `None` before they were read.
    pub(crate) cidrs: Option<Vec<IpNet>>,
    /// The parameters of the monitor; `None` before they were read.
    pub(crate) monitor_parameters: Option<MonitorParameters>,
    pub(crate) monitor_parameters_due: bool,
    /// The last list of members failed although the tree was answered.
    pub(crate) list_trouble: Option<Trouble>,
    /// When the last successful list of members began.
    pub(crate) listed: Option<Instant>,
    pub(crate) members_due: bool,
    pub(crate) members: Vec<Member>,
    /// What the answers to our writes showed of members that are not yet in the tree.
    pub(crate) details_ahead: Vec<MemberDetail>,
    /// A part that a list has shown and the tree has not.
    pub(crate) unseen: Option<PartKind>,
    /// The consecutive reads in which no member was ONLINE although a health monitor checks them.
    pub(crate) none_online: ConsecutiveReads,
    /// The last refused write of one of the port's parts.
    pub(crate) refusal: Option<Refusal>,
    pub(crate) attempts: Attempts,
    /// Writes of its parts in a row that were not answered, or met a locked load balancer.
    pub(crate) failures: u32,
    /// The part that last got a PUT of its own values because it was broken.
    pub(crate) last_put: Option<LastPut>,
}

/// A part that got a PUT of its own values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LastPut {
    pub(crate) id: PartId,
    pub(crate) at: Instant,
}

impl Port {
    pub(crate) fn new(balancer: &str, number: u16) -> Self {
        Self::named(format!("{balancer}-{number}"), number)
    }

    /// A port of which nothing is known yet.
    pub(crate) fn named(name: String, number: u16) -> Self {
        Self {
            number,
            prefix: format!("{name}-"),
            name,
            monitor_parameters_due: true,
            members_due: true,
            ..Self::default()
        }
    }

    /// Whether the listener, the pool and the monitor exist and are ACTIVE.
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

    /// Whether a health monitor reports the health of the port's members.
    pub(crate) fn monitor_is_usable(&self) -> bool {
        self.monitor.is_some()
            && self.members.iter().any(|member| {
                // DRAINING follows from the weight, and is shown whether or not a monitor checks the member.
                member.admin_up().unwrap_or(true)
                    && !matches!(
                        member.operating,
                        OperatingStatus::Offline
                            | OperatingStatus::NoMonitor
                            | OperatingStatus::Draining
                    )
            })
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

    /// Notes that a part got a PUT of its own values, whatever the outcome.
    pub(crate) fn note_repair_put(&mut self, kind: PartKind, now: Instant) {
        self.last_put = self.part_id(kind).map(|id| LastPut { id, at: now });
    }

    /// The statuses of the parts that exist.
    pub(crate) fn parts(&self) -> impl Iterator<Item = &PartState> {
        PartKind::ALL.into_iter().filter_map(|kind| self.part(kind))
    }
}
