//! What is known of the members of a pool.

use std::time::{Duration, Instant};

use crate::model::{attempts::Attempts, clock::Stamp, part::ConsecutiveReads};
use capo_core::{OperatingStatus, ProvisioningStatus, ids::MemberId, octavia};

/// A member as last read.
#[derive(Debug, Clone)]
pub(crate) struct Member {
    pub(crate) id: MemberId,
    pub(crate) name: String,
    pub(crate) address: Option<std::net::IpAddr>,
    pub(crate) port: u16,
    pub(crate) provisioning: ProvisioningStatus,
    pub(crate) operating: OperatingStatus,
    pub(crate) since: Stamp,
    /// Reads in a row that saw it ACTIVE, counted up to two.
    pub(crate) active_reads: u32,
    pub(crate) lost: ConsecutiveReads,
    /// First and last of the unbroken row of reads that saw it ONLINE, and how many.
    pub(crate) online: Option<OnlineRun>,
    /// The unbroken row of reads that saw it down or taken out by its health monitor.
    pub(crate) down: ConsecutiveReads,
    pub(crate) detail: Option<MemberDetail>,
    pub(crate) owner: Owner,
    /// Reads in a row in which its name was of no machine that was handed over.
    pub(crate) ownerless_reads: u32,
    /// The attempts at deleting it as a left-over one.
    pub(crate) prunes: Attempts,
    /// Deletions of it as a left-over one, in a row, that met a locked load balancer.
    pub(crate) failures: u32,
}

impl Member {
    pub(crate) fn admin_up(&self) -> Option<bool> {
        self.detail.as_ref().map(|detail| detail.admin_up)
    }

    pub(crate) fn weight(&self) -> Option<u32> {
        self.detail.as_ref().map(|detail| detail.weight)
    }

    /// It gets no new connections on account of a release: weight 0, or disabled where weights are ignored, and marked by
    /// capo-rs. What an operator has drained has no mark.
    pub(crate) fn is_drained_by_us(&self) -> bool {
        self.detail.as_ref().is_some_and(|detail| {
            (detail.weight == 0 || !detail.admin_up) && detail.tags.iter().any(|tag| tag == LEAVING)
        })
    }

    /// capo-rs created the member disabled, and the member waits for its API server.
    pub(crate) fn is_joining(&self) -> bool {
        self.detail
            .as_ref()
            .is_some_and(|detail| !detail.admin_up && detail.tags.iter().any(|tag| tag == JOINING))
    }
}

/// What the status tree lacks of a member.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct MemberDetail {
    pub(crate) id: MemberId,
    /// 0 drains it.
    pub(crate) weight: u32,
    /// False keeps all traffic away.
    pub(crate) admin_up: bool,
    pub(crate) tags: Vec<String>,
}

impl From<octavia::Member> for MemberDetail {
    fn from(member: octavia::Member) -> Self {
        Self {
            id: member.id,
            weight: member.weight,
            admin_up: member.admin_state_up,
            tags: member.tags,
        }
    }
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct OnlineRun {
    pub(crate) first: Instant,
    pub(crate) last: Instant,
    pub(crate) reads: u32,
}

impl OnlineRun {
    pub(crate) fn span(&self) -> Duration {
        self.last.saturating_duration_since(self.first)
    }
}

/// Whose member it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Owner {
    /// A machine that was handed over: name and address fit.
    Ours,
    /// The name is of a machine that was handed over, at an address that it does not have: left over from before its
    /// address changed.
    NameOnly,
    /// The address is of a machine that was handed over, the name is not ours.
    AddressOnly,
    /// Our kind of name, of a machine that was not handed over; the address may be another machine's by now.
    Gone,
    /// Neither the name nor the address is of a machine of this cluster.
    Stranger,
}

/// A member's class. Never inferred from its load balancer, only from its own row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    /// Expected, and not there.
    Missing,
    /// Being created.
    PendingCreate,
    /// Being changed.
    PendingUpdate,
    /// Being deleted.
    PendingDelete,
    /// ACTIVE.
    Active,
    /// ERROR.
    Error,
    /// PENDING though nothing can be under way any more.
    Orphaned,
    /// Ours by address but not by name, or the reverse.
    Foreign,
    /// A status that this version doesn't know.
    Unknown,
}

/// Octavia tag of a member that gets no new connections on account of the release of its machine.
pub const LEAVING: &str = "capo-rs-leaving";

/// Octavia tag of a member that waits for its API server.
pub const JOINING: &str = "capo-rs-joining";
