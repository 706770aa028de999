//! What a pass read of the bastion.

use std::time::Instant;

use capo_api::v1beta2::BastionStatus;

/// The bastion as this process read it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct SeenBastion {
    /// As the status shows it.
    pub status: BastionStatus,
    /// For which generation of the cluster it was read.
    pub(super) generation: i64,
    /// When it was read.
    pub(super) read_at: Instant,
}
