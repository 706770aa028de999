//! What is known of the members of a pool.

use crate::model::{attempts::Attempts, clock::Stamp, part::ConsecutiveReads};
use capo_core::{OperatingStatus, Provider, ProvisioningStatus, ids::MemberId, octavia};

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
    /// The unbroken series of reads that showed it PENDING although its load balancer and pool were ACTIVE.
    pub(crate) pending_reads: ConsecutiveReads,
    /// The unbroken series of reads that saw it ACTIVE and ONLINE.
    pub(crate) online: ConsecutiveReads,
    /// The unbroken series of reads that showed it ERROR or OFFLINE. OFFLINE may mean that nothing was reported about
    /// any member, so who uses this checks [`Port::monitor_is_usable`](crate::model::port::Port::monitor_is_usable)
    /// too.
    pub(crate) down: ConsecutiveReads,
    pub(crate) detail: Option<MemberDetail>,
    pub(crate) owner: Owner,
    /// Reads in a row in which its name was that of no machine that was handed over.
    pub(crate) ownerless_reads: u32,
    /// The attempts at deleting it as a left-over one.
    pub(crate) prunes: Attempts,
    /// Deletions of it as a left-over one, in a row, that were not answered or met a locked load balancer.
    pub(crate) failures: u32,
}

impl Member {
    pub(crate) fn admin_up(&self) -> Option<bool> {
        self.detail.as_ref().map(|detail| detail.admin_up)
    }

    pub(crate) fn weight(&self) -> Option<u32> {
        self.detail.as_ref().map(|detail| detail.weight)
    }

    /// Whether the load balancer opens new connections to the member; `None` if its weight and admin state are unknown.
    pub(crate) fn gets_connections(&self, provider: Provider) -> Option<bool> {
        let detail = self.detail.as_ref()?;
        Some(detail.admin_up && (detail.weight > 0 || !provider.drains()))
    }

    /// Whether the member gets no new connections because of a release: weight 0, or disabled where the provider
    /// ignores weights, together with the tag [`LEAVING`]. A member that an operator has drained does not have the tag.
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

/// What a list of members shows of a member and the status tree does not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct MemberDetail {
    pub(crate) id: MemberId,
    /// A member of weight 0 gets no new connections.
    pub(crate) weight: u32,
    /// A member with `admin_state_up: false` gets no traffic.
    pub(crate) admin_up: bool,
    pub(crate) tags: Vec<String>,
}

impl MemberDetail {
    /// The tags that the member has while its machine is being released. They keep its weight, if that is not 1.
    pub(crate) fn tags_of_release(&self) -> Vec<String> {
        let (_, mut tags) = before_release(&self.tags);
        tags.push(LEAVING.to_owned());
        if self.weight > 1 {
            tags.push(format!("{WEIGHT_BEFORE}{}", self.weight));
        }
        tags
    }
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

/// Which machine a member belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Owner {
    /// A machine that was handed over has its name and its address.
    Ours,
    /// A machine that was handed over has its name but another address. The member is left over from before the
    /// machine's address changed.
    NameOnly,
    /// A machine that was handed over has its address, but its name is not one that capo-rs gives.
    AddressOnly,
    /// Its name is one that capo-rs gives, but no machine of that name was handed over. Its address may be another
    /// machine's by now.
    NotHandedOver,
    /// Neither the name nor the address is of a machine of this cluster.
    Unrelated,
}

/// A member's class. It follows from the member's own statuses only, never from those of its load balancer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    /// A member is expected, and there is none.
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
    /// PENDING for so long under an ACTIVE load balancer that no operation can be under way any more.
    Orphaned,
    /// The address is a machine's and the name is not, or the reverse.
    Foreign,
    /// A status that this version of capo-rs does not know.
    Unknown,
}

/// Octavia tag of a member that gets no new connections because its machine is being released.
pub const LEAVING: &str = "capo-rs-leaving";

/// Beginning of the Octavia tag that keeps the weight which a leaving member had, in decimal. A member without it had
/// weight 1.
const WEIGHT_BEFORE: &str = "capo-rs-weight-";

/// The highest weight that Octavia accepts.
const MAX_WEIGHT: u32 = 256;

/// The weight that a leaving member had, and its tags without those of its release.
pub fn before_release(tags: &[String]) -> (u32, Vec<String>) {
    let before = tags
        .iter()
        .find_map(|tag| tag.strip_prefix(WEIGHT_BEFORE))
        .and_then(|weight| weight.parse().ok())
        .map_or(1, |weight: u32| weight.clamp(1, MAX_WEIGHT));
    let kept = tags
        .iter()
        .filter(|tag| *tag != LEAVING && !tag.starts_with(WEIGHT_BEFORE));
    (before, kept.cloned().collect())
}

/// Octavia tag of a member that is disabled until its API server is up.
pub const JOINING: &str = "capo-rs-joining";
