//! How long a condition of Cluster API has been True, as far as this process observed it.

use std::time::Instant;

use jiff::Timestamp;

use super::capi::{SeenCondition, condition::DELETING};
use capo_core::ConditionStatus;
use capo_gate::desired::ObservedCondition;

/// The observation of one condition that is kept between two passes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Track(Option<Good>);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Good {
    since: Instant,
    transition: Option<Timestamp>,
}

impl Track {
    /// Takes the condition at the time `now`. A change between two passes is noticed by the transition time.
    pub(crate) fn observe(
        &mut self,
        condition: Option<&SeenCondition>,
        now: Instant,
    ) -> ObservedCondition {
        let Some(condition) = condition.filter(|condition| condition.is_true()) else {
            self.0 = None;
            // KubeadmControlPlane sets this reason for a Machine that is being deleted, without a check of its Pod.
            let bad = |condition: &SeenCondition| {
                condition.status == ConditionStatus::False && condition.reason != DELETING
            };
            return if condition.is_some_and(bad) {
                ObservedCondition::False
            } else {
                ObservedCondition::Unknown
            };
        };
        let transition = condition.last_transition_time;
        let good = match self.0 {
            Some(good) if good.transition == transition => good,
            _ => Good {
                since: now,
                transition,
            },
        };
        self.0 = Some(good);
        ObservedCondition::TrueSince(good.since)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn condition(status: &str, transition: &str) -> SeenCondition {
        SeenCondition {
            status: status.into(),
            last_transition_time: transition.parse().ok(),
            ..SeenCondition::default()
        }
    }

    #[test]
    fn good_counts_from_where_it_was_first_seen_without_a_break() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let (early, late) = ("2026-11-21T10:00:00Z", "2026-11-21T10:05:00Z");
        let steps = [
            (
                Some(condition("True", early)),
                ObservedCondition::TrueSince(at(0)),
            ),
            (
                Some(condition("True", early)),
                ObservedCondition::TrueSince(at(0)),
            ),
            // The condition became False and True again between two passes.
            (
                Some(condition("True", late)),
                ObservedCondition::TrueSince(at(2)),
            ),
            (Some(condition("Unknown", late)), ObservedCondition::Unknown),
            (
                Some(condition("True", late)),
                ObservedCondition::TrueSince(at(4)),
            ),
            (Some(condition("False", late)), ObservedCondition::False),
            (None, ObservedCondition::Unknown),
            (
                Some(SeenCondition {
                    reason: "Deleting".to_owned(),
                    ..condition("False", late)
                }),
                ObservedCondition::Unknown,
            ),
        ];
        let mut track = Track::default();
        for (second, (seen, expected)) in (0..).zip(steps) {
            assert_eq!(
                track.observe(seen.as_ref(), at(second)),
                expected,
                "{second}"
            );
        }
    }
}
