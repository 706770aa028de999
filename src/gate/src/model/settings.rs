//! The settings of the workers and of the gates that an operator can change.

use std::time::Duration;

use capo_core::GateMode;

/// The settings of the workers. The defaults are the documented ones.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    /// `--load-balancer-gate`
    pub mode: GateMode,
    /// `--member-warn-after`: once its load balancer has not been settled for this long, a cluster is not Ready.
    pub warn_after: Duration,
    /// `--member-alert-after`: the time after which a PENDING member is reported. Condition, metric and alerting rule
    /// use the same number.
    pub alert_after: Duration,
    /// `--member-stuck-after`: once a member has been PENDING for this long, it is called stuck.
    pub stuck_after: Duration,
    /// `--member-orphan-after`: how long a member stays PENDING under an ACTIVE load balancer before it is repaired.
    /// `None` means the provider's default.
    pub orphan_after: Option<Duration>,
    /// How long a drained member keeps its connections before it is removed.
    pub drain_grace: Duration,
    /// How many requests in a row must be answered through the endpoint before a machine may go.
    pub proof_answers: u32,
    /// The time within which one of these requests must be answered. Once one was answered, the limit is half of this
    /// time for every answer that is needed, if that is longer.
    pub proof_window: Duration,
    /// The gaps between reads.
    pub schedule: Schedule,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            mode: GateMode::Enforce,
            warn_after: Duration::from_mins(2),
            alert_after: Duration::from_mins(12),
            stuck_after: Duration::from_mins(35),
            orphan_after: None,
            drain_grace: Duration::ZERO,
            proof_answers: 5,
            proof_window: Duration::from_secs(10),
            schedule: Schedule::default(),
        }
    }
}

/// The gaps between two reads of a load balancer.
#[derive(Debug, Clone, PartialEq)]
pub struct Schedule {
    /// The first gaps after an accepted write.
    pub first: Vec<Duration>,
    /// The gap after those, until two minutes have passed.
    pub settling: Duration,
    /// The gap from two to fifteen minutes.
    pub slow: Duration,
    /// The gap from fifteen to thirty-five minutes.
    pub slower: Duration,
    /// The gap from then on.
    pub given_up: Duration,
    /// The first gap while a load balancer is being created.
    pub creating: Duration,
    /// The first gap while waiting for health, which grows to `health_at_most`.
    pub health: Duration,
    /// The widest gap while waiting for health.
    pub health_at_most: Duration,
    /// The gap of a settled load balancer.
    pub steady: Duration,
    /// The gap of a settled load balancer where there are more than [`Schedule::LARGE_FLEET`].
    pub steady_large: Duration,
    /// The jitter: every gap is stretched or shortened by up to this share of it.
    pub jitter: f64,
}

impl Schedule {
    /// The number of load balancers above which the steady gap is [`Schedule::steady_large`].
    pub const LARGE_FLEET: usize = 500;

    /// The same schedule, except that settled load balancers are read at least every `period`.
    #[must_use]
    pub fn at_least_every(self, period: Duration) -> Self {
        Self {
            steady: self.steady.min(period),
            steady_large: self.steady_large.min(period),
            ..self
        }
    }
}

impl Default for Schedule {
    fn default() -> Self {
        Self {
            // An operation takes at least a second, so the first read should come right after that. The fourth read
            // should not come before an operation of five seconds has ended, however much jitter shortens the gaps.
            first: [1_050, 1_650, 1_650, 1_650, 2_000, 2_000, 2_500]
                .map(Duration::from_millis)
                .to_vec(),
            settling: Duration::from_secs(5),
            slow: Duration::from_secs(30),
            slower: Duration::from_mins(1),
            given_up: Duration::from_mins(5),
            creating: Duration::from_secs(10),
            health: Duration::from_secs(5),
            health_at_most: Duration::from_secs(15),
            steady: Duration::from_mins(5),
            steady_large: Duration::from_mins(10),
            jitter: 0.2,
        }
    }
}

/// How long before a repair the worker begins to read whether another machine serves.
pub(crate) const EVIDENCE_BEFORE_REPAIR: std::time::Duration = std::time::Duration::from_secs(10);
