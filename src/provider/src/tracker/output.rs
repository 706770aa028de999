//! What workers publish to the rest of the process.

use super::part_change::PartChange;
use capo_gate::findings::Publication;

/// What a worker reports, for events and the log.
#[derive(Debug, Clone)]
pub enum TrackerOutput {
    /// What it found.
    Findings(Publication),
    /// What it changed in Octavia besides members.
    Change(PartChange),
}
