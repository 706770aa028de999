//! The state of a gate as metrics and the command line show it.

use serde::Serialize;

/// The state of one gate, or of all gates of a cluster together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum GateState {
    /// The gate holds no machine.
    Open,
    /// The gate holds a machine.
    Held,
    /// The gate holds no machine, because the operator bypasses it.
    Bypassed,
    /// The load balancer was not observed yet, or the last observation is too old.
    Unknown,
}

impl GateState {
    /// Every state.
    pub const ALL: [Self; 4] = [Self::Open, Self::Held, Self::Bypassed, Self::Unknown];

    /// The state as metrics and the command line spell it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Open => "Open",
            Self::Held => "Held",
            Self::Bypassed => "Bypassed",
            Self::Unknown => "Unknown",
        }
    }
}
