//! What workers publish to the rest of the process.

use super::part_change::PartChange;
use capo_gate::findings::Publication;

/// What a worker publishes, for events and the log.
#[derive(Debug, Clone)]
pub enum TrackerOutput {
    /// New findings.
    Findings(Publication),
    /// A change that was sent to Octavia, other than one of a member.
    Change(PartChange),
}
