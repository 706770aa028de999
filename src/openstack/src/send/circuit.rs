//! Decides whether calls to one service may be sent: it observes the pauses that the service requested, and backs off
//! while the service does not answer properly. It is pure: times are arguments.
//!
//! A call that may not be sent fails at once with the failure because of which calls are held back. An outage therefore
//! has the same text in every reconciliation, and costs one probe every few seconds whatever the number of callers.

use std::time::Duration;

use capo_core::backoff::ExponentialBackoff;
use tokio::time::Instant;

/// The number of failures in a row after which calls are held back. Fewer failures are left to the callers' own
/// retries.
const TOLERATED: u32 = 3;

/// The longest gap between two probes. Calls must succeed again within 10 s after the end of an outage, and callers
/// retry a little later than [`Admission::Refused`] allows.
const LONGEST_GAP: Duration = Duration::from_secs(6);

/// The pause of other callers while a probe is under way.
const WHILE_PROBED: Duration = Duration::from_secs(2);

/// The state of the connection to one service.
#[derive(Debug, Clone, Default)]
pub(crate) struct Circuit {
    failures: u32,
    /// No call is sent before this moment.
    refused_until: Option<Instant>,
    /// Whether the service requested the pause; otherwise calls failed.
    requested: bool,
    /// A single call is under way to find out whether the service answers again.
    probing: bool,
}

/// Whether a call may be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Admission {
    /// The call may be sent.
    Allowed,
    /// The call may be sent as a probe. No other call is admitted until it has ended.
    Probe,
    /// The call may not be sent before this time has passed.
    Refused(Duration),
}

/// How a call that was sent ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ending {
    /// The service answered, which shows that it works, whatever the answer is.
    Answered,
    /// The service did not answer, answered with a 5xx, or its answer was unreadable.
    Failed,
    /// The service requested a pause.
    PauseRequested(Duration),
    /// The caller was cancelled before the answer came, or the answer to a list was too large and the caller requests
    /// less of it. This does not show whether the service works.
    Abandoned,
}

impl Circuit {
    /// Whether a call may be sent at `now`. The first call after a gap becomes the probe.
    pub(crate) fn admit(&mut self, now: Instant) -> Admission {
        if let Some(until) = self.refused_until {
            if now < until {
                return Admission::Refused(until - now);
            }
            if self.probing {
                return Admission::Refused(WHILE_PROBED);
            }
            self.probing = true;
            return Admission::Probe;
        }
        Admission::Allowed
    }

    /// How long a call would be refused at `now`; `None` if it would be admitted. Unlike [`Circuit::admit`], this
    /// starts no probe.
    pub(crate) fn refuses(&self, now: Instant) -> Option<Duration> {
        let until = self.refused_until?;
        if now < until {
            Some(until - now)
        } else if self.probing {
            Some(WHILE_PROBED)
        } else {
            None
        }
    }

    /// Records how a call ended. `probe` is whether the call was a probe.
    pub(crate) fn ended(&mut self, ending: Ending, probe: bool, now: Instant) {
        if probe {
            self.probing = false;
        }
        match ending {
            Ending::Answered => {
                // An answer to a call that was sent before the pause was requested does not end the pause.
                if probe || !self.requested {
                    *self = Self {
                        probing: self.probing,
                        ..Self::default()
                    };
                }
            }
            Ending::Failed => {
                self.failures = self.failures.saturating_add(1);
                if self.requested && !probe {
                    return;
                }
                self.requested = false;
                if self.failures >= TOLERATED {
                    // Of several calls that were under way together, each failure counts, but only the first one sets
                    // the next gap.
                    let late = self.refused_until.is_some_and(|until| now < until);
                    if !late {
                        self.refused_until = Some(now + gap(self.failures));
                    }
                }
            }
            Ending::PauseRequested(pause) => {
                let until = now + pause;
                self.requested = true;
                self.refused_until = Some(self.refused_until.map_or(until, |old| old.max(until)));
            }
            Ending::Abandoned => {}
        }
    }

    /// Whether the service requested the present pause.
    pub(crate) fn pause_was_requested(&self) -> bool {
        self.requested
    }
}

/// The gap before the next probe: 1, 2, 4, then 6 s.
fn gap(failures: u32) -> Duration {
    ExponentialBackoff::doubling(Duration::from_secs(1), LONGEST_GAP)
        .pause(failures.saturating_sub(TOLERATED))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secs(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn a_single_failure_holds_no_call_back() {
        let now = Instant::now();
        let mut circuit = Circuit::default();
        circuit.ended(Ending::Failed, false, now);
        circuit.ended(Ending::Failed, false, now);
        assert_eq!(circuit.admit(now), Admission::Allowed);
        circuit.ended(Ending::Answered, false, now);
        circuit.ended(Ending::Failed, false, now);
        assert_eq!(circuit.admit(now), Admission::Allowed);
    }

    #[test]
    fn two_minutes_of_failure_cost_few_calls_and_end_soon() {
        let start = Instant::now();
        let mut circuit = Circuit::default();
        let mut sent = 0;
        // Forty callers send ten calls per second each, and do not observe the pauses.
        for tick in 0..1200_u32 {
            let now = start + Duration::from_millis(100) * tick;
            let admitted: Vec<_> = (0..40)
                .map(|_| circuit.admit(now))
                .take_while(|admission| !matches!(admission, Admission::Refused(_)))
                .take(8)
                .collect();
            for admission in admitted {
                sent += 1;
                circuit.ended(Ending::Failed, admission == Admission::Probe, now);
            }
        }
        assert!(sent <= 35, "{sent} calls");
        let end = start + secs(120);
        assert!(circuit.refuses(end).is_none_or(|gap| gap <= LONGEST_GAP));
        let back = end + LONGEST_GAP;
        assert_eq!(circuit.admit(back), Admission::Probe);
        assert_eq!(circuit.admit(back), Admission::Refused(WHILE_PROBED));
        circuit.ended(Ending::Answered, true, back);
        assert_eq!(circuit.admit(back), Admission::Allowed);
    }

    #[test]
    fn a_pause_outlasts_answers_to_older_calls() {
        let now = Instant::now();
        let mut circuit = Circuit::default();
        circuit.ended(Ending::PauseRequested(secs(30)), false, now);
        circuit.ended(Ending::Answered, false, now + secs(1));
        circuit.ended(Ending::PauseRequested(secs(2)), false, now + secs(1));
        assert_eq!(circuit.admit(now + secs(2)), Admission::Refused(secs(28)));
        assert!(circuit.pause_was_requested());
        assert_eq!(circuit.admit(now + secs(30)), Admission::Probe);
        circuit.ended(Ending::Abandoned, true, now + secs(30));
        assert_eq!(circuit.admit(now + secs(30)), Admission::Probe);
    }
}
