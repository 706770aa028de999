//! What is known of the providers.

use std::time::Duration;

use super::{LbAlgorithm, MonitorType};

/// The profile of a provider, derived from the provider's name on the load balancer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Provider {
    /// `amphora` and its alias `octavia`. A load balancer that shows no provider also has this profile.
    Amphora,
    /// `amphorav2`, which may have a jobboard: another worker resumes what a lost one has begun.
    AmphoraV2,
    /// `ovn`
    Ovn,
    /// Any other provider: the generic rules apply.
    #[default]
    Unknown,
}

impl Provider {
    /// The profile of a provider's name.
    pub fn of(name: &str) -> Self {
        match name {
            "" | "amphora" | "octavia" => Self::Amphora,
            "amphorav2" => Self::AmphoraV2,
            "ovn" => Self::Ovn,
            _ => Self::Unknown,
        }
    }

    /// The profile as metrics show it.
    pub fn label(self) -> &'static str {
        match self {
            Self::Amphora => "amphora",
            Self::AmphoraV2 => "amphorav2",
            Self::Ovn => "ovn",
            Self::Unknown => "other",
        }
    }

    /// The balancing algorithm of new pools.
    pub fn algorithm(self) -> LbAlgorithm {
        match self {
            Self::Ovn => LbAlgorithm::SourceIpPort,
            Self::Amphora | Self::AmphoraV2 | Self::Unknown => LbAlgorithm::RoundRobin,
        }
    }

    /// Whether weight 0 keeps new connections away from a member.
    pub fn drains(self) -> bool {
        self != Self::Ovn
    }

    /// Whether a listener can restrict who connects.
    pub fn supports_allowed_cidrs(self) -> bool {
        self != Self::Ovn
    }

    /// Whether the provider has health monitors of a type. OVN only has monitors that open a connection.
    pub fn supports_monitor_type(self, wanted: &MonitorType) -> bool {
        self != Self::Ovn || *wanted == MonitorType::Tcp
    }

    /// How long a status must be PENDING under an ACTIVE load balancer before the operation counts as lost; `None`
    /// where another worker may resume the operation much later.
    pub fn orphan_span(self) -> Option<Duration> {
        match self {
            Self::Ovn => Some(Duration::from_mins(2)),
            Self::Amphora | Self::Unknown => Some(Duration::from_mins(1)),
            Self::AmphoraV2 => None,
        }
    }

    /// The gap between a write and the first read after it, if it differs from that of the schedule.
    pub fn first_gap(self) -> Option<Duration> {
        (self == Self::Ovn).then_some(Duration::from_millis(500))
    }
}
