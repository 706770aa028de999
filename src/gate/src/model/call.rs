//! The calls to Octavia, and what each one is for.

use ipnet::IpNet;

use crate::model::{clock::Stamp, octavia::Change, part::PartKind};
use capo_core::{
    MonitorType, ObjectName,
    ids::{MemberId, MonitorId, PoolId},
    label_enum,
    octavia::MonitorParameters,
};

/// A call to Octavia.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Call {
    /// Read the status tree of the desired load balancer.
    Tree,
    /// Read the status tree and the members of these pools at the same time, because one decision depends on all of
    /// them. If they were read one after the other from a slow Octavia, the first would be out of date when the last
    /// arrives.
    TreeAndMembers {
        /// The port number and the pool of each list.
        pools: Vec<(u16, PoolId)>,
    },
    /// List the load balancer's listeners and pools, including pools that no listener refers to.
    ListenersAndPools,
    /// List the members of a pool.
    Members {
        /// The pool.
        pool: PoolId,
    },
    /// Read the delay, timeout and retry counts of a health monitor.
    Monitor {
        /// The monitor.
        monitor: MonitorId,
    },
    /// Change something. The change is boxed, because it is large and rare.
    Write(Box<Change>),
}

/// The one call under way.
#[derive(Debug, Clone)]
pub(crate) struct InFlight {
    pub(crate) id: u64,
    pub(crate) began: Stamp,
    pub(crate) purpose: Purpose,
    /// The call was made for an earlier desired state, which had another load balancer or other ports.
    pub(crate) outdated: bool,
    pub(crate) sets: Option<Sets>,
}

/// The values that a write sets and that the status tree does not show. They are kept here, because the desired state
/// may have changed by the time the write ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Sets {
    /// A listener's source ranges.
    Cidrs(Option<Vec<IpNet>>),
    /// A new monitor's type and parameters.
    Monitor(MonitorType, MonitorParameters),
    /// A monitor's parameters.
    MonitorParameters(MonitorParameters),
}

impl Sets {
    pub(crate) fn of(call: &Call) -> Option<Self> {
        let Call::Write(change) = call else {
            return None;
        };
        match change.as_ref() {
            Change::CreateListener(new) => Some(Self::Cidrs(new.allowed_cidrs.clone())),
            Change::UpdateListener { update, .. } => {
                Some(Self::Cidrs(update.allowed_cidrs.clone()))
            }
            Change::CreateMonitor(new) => {
                Some(Self::Monitor(new.monitor_type.clone(), new.parameters))
            }
            Change::UpdateMonitor { parameters, .. } => Some(Self::MonitorParameters(*parameters)),
            _ => None,
        }
    }
}

/// What a call is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Purpose {
    Tree,
    TreeAndMembers,
    ListenersAndPools,
    Members(u16),
    MonitorParameters(u16),
    Write(Write),
}

/// What a write is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Write {
    /// Creates a listener, pool or monitor.
    CreatePart { port: u16, part: PartKind },
    /// Attaches a pool to its listener.
    Attach { port: u16 },
    /// Sends a listener, pool or monitor a PUT of its own values, so that Octavia applies them again.
    RepairPart { port: u16, part: PartKind },
    /// Deletes a listener, pool or monitor that stays in ERROR. It is then created again.
    ReplacePart { port: u16, part: PartKind },
    /// Deletes a monitor of another type than the desired one, because Octavia does not change the type. It is then
    /// created again.
    Retype { port: u16 },
    /// Sets the desired delay, timeout and retry counts of a monitor.
    MonitorParameters { port: u16 },
    /// Sets the desired allowed CIDRs of a listener.
    Cidrs { port: u16 },
    /// Writes a member of a machine.
    Member {
        machine: ObjectName,
        port: u16,
        operation: Operation,
    },
    /// Deletes a left-over member: its machine is gone, or has another address.
    Prune { port: u16, member: MemberId },
}

impl Write {
    /// The port of the listener, pool or monitor that is written; `None` for members.
    pub(crate) fn part_of(&self) -> Option<u16> {
        match self {
            Self::CreatePart { port, .. }
            | Self::Attach { port }
            | Self::RepairPart { port, .. }
            | Self::ReplacePart { port, .. }
            | Self::Retype { port }
            | Self::MonitorParameters { port }
            | Self::Cidrs { port } => Some(*port),
            Self::Member { .. } | Self::Prune { .. } => None,
        }
    }
}

label_enum! {
    /// Operations on members, as metrics name them.
    pub enum Operation, all {
        /// POST of a member that was not there.
        Create = "create",
        /// DELETE of a member.
        Delete = "delete",
        /// POST of a member that was deleted to be created again.
        Replace = "replace",
        /// PUT that takes a member out of rotation: weight 0, or `admin_state_up: false` where the provider ignores
        /// weights.
        Drain = "drain",
        /// PUT that undoes a drain.
        Restore = "restore",
        /// PUT of the member's own values, so that Octavia applies them again.
        Repair = "repair",
        /// PUT that enables a member which was created with `admin_state_up: false`.
        Enable = "enable",
    }
}
