//! What a pass has read of the bastion.

use std::time::Instant;

use capo_api::v1beta2::BastionStatus;

/// The bastion as this process read it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct SeenBastion {
    /// The bastion as the status shows it.
    pub status: BastionStatus,
    /// The generation of the cluster for which the bastion was read.
    pub(super) generation: i64,
    /// The moment at which the bastion was read.
    pub(super) read_at: Instant,
}
