//! The parts that the families of load balancers and members share: the findings of all load balancers, and the labels
//! of statuses.

use std::sync::Arc;

use capo_core::{MemberStatus, ObjectName, OperatingStatus};
use capo_gate::findings::Findings;

/// Labels of provisioning statuses.
pub(super) const PROVISIONING: [&str; 8] = {
    let mut labels = [""; 8];
    let mut index = 0;
    while index < labels.len() {
        labels[index] = MemberStatus::ALL[index].as_str();
        index += 1;
    }
    labels
};
/// Labels of operating statuses. A status that this version does not know is `Unknown`.
pub(super) const OPERATING: [&str; 7] = {
    let mut labels = [OperatingStatus::UNKNOWN_LABEL; 7];
    let mut index = 0;
    while index < OperatingStatus::WORDS.len() {
        labels[index] = OperatingStatus::WORDS[index];
        index += 1;
    }
    labels
};
/// The label of an operating status.
pub(super) fn operating(status: &OperatingStatus) -> &'static str {
    let label = status.label();
    let known = OPERATING.iter().find(|known| **known == label);
    known.copied().unwrap_or(OperatingStatus::UNKNOWN_LABEL)
}

/// The findings of every load balancer.
pub(super) type All<'a> = &'a [(ObjectName, Arc<Findings>)];
