//! The parts that the families of load balancers and members share: the findings of all load balancers, and the labels
//! of statuses.

use std::sync::Arc;

use capo_core::{MemberStatus, ObjectName, OperatingStatus};
use capo_gate::findings::Findings;

/// The labels of provisioning statuses.
pub(super) fn provisioning_labels() -> [&'static str; MemberStatus::ALL.len()] {
    MemberStatus::ALL.map(MemberStatus::as_str)
}

/// The labels of operating statuses. A status that this version does not know is `Unknown`.
pub(super) fn operating_labels() -> Vec<&'static str> {
    let known = OperatingStatus::WORDS.iter().copied();
    known.chain([OperatingStatus::UNKNOWN_LABEL]).collect()
}

/// The label of an operating status.
pub(super) fn operating(status: &OperatingStatus) -> &'static str {
    let label = status.label();
    let known = OperatingStatus::WORDS.iter().find(|known| **known == label);
    known.copied().unwrap_or(OperatingStatus::UNKNOWN_LABEL)
}

/// The findings of every load balancer.
pub(super) type All<'a> = &'a [(ObjectName, Arc<Findings>)];
