//! Whether calls to one service may be sent: pauses it asked for, and back-off while it does not
//! answer properly. Pure: the moment is an argument.
//!
//! Calls that may not be sent fail at once with the failure that closed the way, so that an outage
//! reads the same in every pass and costs one probe every few seconds, however many ask.

use std::time::Duration;

use capo_core::backoff::Schedule;
use tokio::time::Instant;

/// Failures in a row until calls are held back. Before that, a lone failure is the caller's to retry.
const TOLERATED: u32 = 3;

/// Longest gap between two probes. Back within 10 s of the end of an outage is promised, and callers ask again
/// a little later than they are told.
const LONGEST_GAP: Duration = Duration::from_secs(6);

/// How long to stay away while another caller's probe is under way.
const WHILE_PROBED: Duration = Duration::from_secs(2);

/// The state of the way to one service.
#[derive(Debug, Clone, Default)]
pub(crate) struct Circuit {
    failures: u32,
    /// No call before this moment.
    closed_until: Option<Instant>,
    /// The service asked for it, rather than failed.
    asked: bool,
    /// A single call is out to see whether the service is back.
    probing: bool,
}

/// The answer to a call that wants to be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Admission {
    /// Send it.
    Free,
    /// Send it, and say how it ended: nobody else is let through until then.
    Probe,
    /// Don't, for so long.
    Closed(Duration),
}

/// How a call that was sent ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ending {
    /// The service answered; whatever it said, it works.
    Answered,
    /// It did not answer, or with a 5xx, or unreadably.
    Failed,
    /// It asked for a pause.
    AskedForPause(Duration),
    /// Nobody waited for the answer.
    Abandoned,
}

impl Circuit {
    /// May a call be sent at `now`?
    pub(crate) fn admit(&mut self, now: Instant) -> Admission {
        if let Some(until) = self.closed_until {
            if now < until {
                return Admission::Closed(until - now);
            }
            if self.probing {
                return Admission::Closed(WHILE_PROBED);
            }
            self.probing = true;
            return Admission::Probe;
        }
        Admission::Free
    }

    /// Whether a call would be refused at `now`, without asking to be the probe.
    pub(crate) fn refuses(&self, now: Instant) -> Option<Duration> {
        let until = self.closed_until?;
        if now < until {
            Some(until - now)
        } else if self.probing {
            Some(WHILE_PROBED)
        } else {
            None
        }
    }

    /// Takes note of how a call ended. `probe` is whether it was let through as one.
    pub(crate) fn ended(&mut self, ending: Ending, probe: bool, now: Instant) {
        if probe {
            self.probing = false;
        }
        match ending {
            Ending::Answered => {
                // An answer that was under way when a pause was asked for does not end the pause.
                if probe || !self.asked {
                    *self = Self {
                        probing: self.probing,
                        ..Self::default()
                    };
                }
            }
            Ending::Failed => {
                self.failures = self.failures.saturating_add(1);
                if self.asked && !probe {
                    return;
                }
                self.asked = false;
                if self.failures >= TOLERATED {
                    // Calls that were under way together count, but only the first moves the gap on.
                    let late = self.closed_until.is_some_and(|until| now < until);
                    if !late {
                        self.closed_until = Some(now + gap(self.failures));
                    }
                }
            }
            Ending::AskedForPause(pause) => {
                let until = now + pause;
                self.asked = true;
                self.closed_until = Some(self.closed_until.map_or(until, |old| old.max(until)));
            }
            Ending::Abandoned => {}
        }
    }

    /// The service asked for the pause that is on.
    pub(crate) fn asked(&self) -> bool {
        self.asked
    }
}

/// The gap before the next probe: 1, 2, 4, then 6 s.
fn gap(failures: u32) -> Duration {
    Schedule::doubling(Duration::from_secs(1), LONGEST_GAP)
        .pause(failures.saturating_sub(TOLERATED))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secs(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn a_lone_failure_holds_nobody_back() {
        let now = Instant::now();
        let mut circuit = Circuit::default();
        circuit.ended(Ending::Failed, false, now);
        circuit.ended(Ending::Failed, false, now);
        assert_eq!(circuit.admit(now), Admission::Free);
        circuit.ended(Ending::Answered, false, now);
        circuit.ended(Ending::Failed, false, now);
        assert_eq!(circuit.admit(now), Admission::Free);
    }

    #[test]
    fn two_minutes_of_failure_cost_few_calls_and_end_soon() {
        let start = Instant::now();
        let mut circuit = Circuit::default();
        let mut sent = 0;
        // Forty callers ask ten times a second, whatever they are told.
        for tick in 0..1200_u32 {
            let now = start + Duration::from_millis(100) * tick;
            let admitted: Vec<_> = (0..40)
                .map(|_| circuit.admit(now))
                .take_while(|admission| !matches!(admission, Admission::Closed(_)))
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
        assert_eq!(circuit.admit(back), Admission::Closed(WHILE_PROBED));
        circuit.ended(Ending::Answered, true, back);
        assert_eq!(circuit.admit(back), Admission::Free);
    }

    #[test]
    fn a_pause_outlasts_answers_to_older_calls() {
        let now = Instant::now();
        let mut circuit = Circuit::default();
        circuit.ended(Ending::AskedForPause(secs(30)), false, now);
        circuit.ended(Ending::Answered, false, now + secs(1));
        circuit.ended(Ending::AskedForPause(secs(2)), false, now + secs(1));
        assert_eq!(circuit.admit(now + secs(2)), Admission::Closed(secs(28)));
        assert!(circuit.asked());
        assert_eq!(circuit.admit(now + secs(30)), Admission::Probe);
        circuit.ended(Ending::Abandoned, true, now + secs(30));
        assert_eq!(circuit.admit(now + secs(30)), Admission::Probe);
    }
}
