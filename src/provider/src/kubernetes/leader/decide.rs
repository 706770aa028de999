//! Decides which process may take or keep the lease, by the rules of client-go, so that capo-rs and CAPO can share one
//! Lease.

use std::time::{Duration, Instant};

use jiff::Timestamp;
use k8s_openapi::{api::coordination::v1::LeaseSpec, apimachinery::pkg::apis::meta::v1::MicroTime};

/// The lease as last read, and the time at which this process first read this version. Times of another holder's clock
/// are never compared with ours: a lease has expired when it did not change for its own duration while this process
/// watched it.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct ObservedLease {
    pub(super) spec: LeaseSpec,
    pub(super) since: Instant,
}

/// The decision about the lease.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum LeaseDecision {
    /// Write this spec, which makes this process the holder or keeps it the holder.
    Write(LeaseSpec),
    /// Another process holds the lease.
    Wait,
}

impl ObservedLease {
    /// The knowledge after reading `spec` at `now`.
    pub(super) fn after(previous: Option<Self>, spec: LeaseSpec, now: Instant) -> Self {
        match previous {
            Some(seen) if seen.spec == spec => seen,
            _ => Self { spec, since: now },
        }
    }
}

/// The decision for `identity`. `seen` is `None` when there is no lease. `duration` is this process's setting; a lease
/// with a duration of its own lasts that long.
pub(super) fn decide(
    seen: Option<&ObservedLease>,
    identity: &str,
    duration: Duration,
    now: Instant,
    wall_clock: Timestamp,
) -> LeaseDecision {
    let write = |acquired: MicroTime, transitions: i32| {
        LeaseDecision::Write(LeaseSpec {
            holder_identity: Some(identity.to_owned()),
            lease_duration_seconds: Some(whole_seconds(duration)),
            acquire_time: Some(acquired),
            renew_time: Some(MicroTime(wall_clock)),
            lease_transitions: Some(transitions),
            ..LeaseSpec::default()
        })
    };
    let Some(ObservedLease { spec, since }) = seen else {
        return write(MicroTime(wall_clock), 0);
    };
    let transitions = spec.lease_transitions.unwrap_or(0);
    let holder = spec.holder_identity.as_deref().unwrap_or("");
    if holder == identity {
        let acquired = spec.acquire_time.clone().unwrap_or(MicroTime(wall_clock));
        return write(acquired, transitions);
    }
    let stated = spec
        .lease_duration_seconds
        .and_then(|seconds| u64::try_from(seconds).ok())
        .map_or(duration, Duration::from_secs);
    if !holder.is_empty() && now.duration_since(*since) < stated {
        return LeaseDecision::Wait;
    }
    write(MicroTime(wall_clock), transitions.saturating_add(1))
}

/// The spec that releases the lease, as client-go writes it: it has no holder and a duration of one second.
pub(super) fn released(held: &LeaseSpec, wall_clock: Timestamp) -> LeaseSpec {
    LeaseSpec {
        holder_identity: Some(String::new()),
        lease_duration_seconds: Some(1),
        acquire_time: Some(MicroTime(wall_clock)),
        renew_time: Some(MicroTime(wall_clock)),
        lease_transitions: held.lease_transitions,
        ..LeaseSpec::default()
    }
}

fn whole_seconds(duration: Duration) -> i32 {
    // The duration is rounded up, so that other processes do not assume an earlier end than this one.
    let seconds = duration.as_secs() + u64::from(duration.subsec_nanos() > 0);
    i32::try_from(seconds).unwrap_or(i32::MAX)
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use jiff::Timestamp;
    use k8s_openapi::{
        api::coordination::v1::LeaseSpec, apimachinery::pkg::apis::meta::v1::MicroTime,
    };

    use super::{LeaseDecision, ObservedLease, decide, released, whole_seconds};

    const DURATION: Duration = Duration::from_secs(15);

    fn held_by(holder: &str, transitions: i32) -> LeaseSpec {
        LeaseSpec {
            holder_identity: Some(holder.to_owned()),
            lease_duration_seconds: Some(15),
            lease_transitions: Some(transitions),
            acquire_time: Some(MicroTime(Timestamp::UNIX_EPOCH)),
            renew_time: Some(MicroTime(Timestamp::UNIX_EPOCH)),
            ..LeaseSpec::default()
        }
    }

    fn decide_after(spec: LeaseSpec, passed: Duration) -> LeaseDecision {
        let since = Instant::now();
        let seen = ObservedLease { spec, since };
        decide(
            Some(&seen),
            "me",
            DURATION,
            since + passed,
            Timestamp::now(),
        )
    }

    fn written(decision: LeaseDecision) -> LeaseSpec {
        match decision {
            LeaseDecision::Write(spec) => spec,
            LeaseDecision::Wait => panic!("waits"),
        }
    }

    #[test]
    fn an_absent_lease_is_taken() {
        let spec = written(decide(
            None,
            "me",
            DURATION,
            Instant::now(),
            Timestamp::now(),
        ));
        assert_eq!(spec.holder_identity.as_deref(), Some("me"));
        assert_eq!(spec.lease_transitions, Some(0));
    }

    #[test]
    fn the_lease_of_another_holder_is_taken_only_after_it_expired() {
        let almost = Duration::from_millis(14_999);
        assert_eq!(
            decide_after(held_by("other", 3), almost),
            LeaseDecision::Wait
        );
        let spec = written(decide_after(held_by("other", 3), DURATION));
        assert_eq!(spec.lease_transitions, Some(4));
    }

    #[test]
    fn a_renewal_during_the_wait_restarts_the_wait() {
        let start = Instant::now();
        let seen = ObservedLease::after(None, held_by("other", 0), start);
        let mut renewed = held_by("other", 0);
        renewed.renew_time = Some(MicroTime(Timestamp::now()));
        let later = start + Duration::from_secs(14);
        let seen = ObservedLease::after(Some(seen), renewed.clone(), later);
        assert_eq!(seen.since, later);
        let unchanged = ObservedLease::after(Some(seen), renewed, later + Duration::from_secs(5));
        assert_eq!(unchanged.since, later);
    }

    #[test]
    fn the_duration_in_the_lease_takes_precedence() {
        let mut long = held_by("other", 0);
        long.lease_duration_seconds = Some(60);
        assert_eq!(
            decide_after(long, Duration::from_secs(30)),
            LeaseDecision::Wait
        );
    }

    #[test]
    fn a_released_lease_is_taken_at_once() {
        let free = released(&held_by("other", 7), Timestamp::now());
        let spec = written(decide_after(free, Duration::ZERO));
        assert_eq!(spec.lease_transitions, Some(8));
    }

    #[test]
    fn our_own_lease_is_renewed_and_keeps_its_acquire_time_and_transitions() {
        let spec = written(decide_after(held_by("me", 2), Duration::from_secs(100)));
        assert_eq!(spec.lease_transitions, Some(2));
        assert_eq!(spec.acquire_time, Some(MicroTime(Timestamp::UNIX_EPOCH)));
    }

    #[test]
    fn fractions_of_a_second_are_rounded_up() {
        assert_eq!(whole_seconds(Duration::from_millis(1500)), 2);
        assert_eq!(whole_seconds(Duration::from_secs(15)), 15);
    }
}
