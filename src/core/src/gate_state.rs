//! The state of a gate as metrics and the command line show it.

use serde::Serialize;

use crate::label_enum;

label_enum! {
    /// The state of one gate, or of all gates of a cluster together, as metrics and the command line spell it.
    #[derive(Serialize)]
    pub enum GateState, all {
        /// The gate holds no machine.
        Open = "Open",
        /// The gate holds a machine.
        Held = "Held",
        /// The gate holds no machine, because the operator bypasses it.
        Bypassed = "Bypassed",
        /// The load balancer was not observed yet, or the last observation is too old. Of one gate: it was not
        /// evaluated.
        Unknown = "Unknown",
    }
}
