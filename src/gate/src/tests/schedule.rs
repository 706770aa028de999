//! When something counts as settling, and when the tree is read next.

use std::time::Duration;

use crate::{
    model::{
        clock::Now,
        decision::GateCause,
        desired::Deletion,
        member::Owner,
        settings::Schedule,
        state::{SettlingReads, State},
        trouble::Trouble,
    },
    plan::schedule,
    tests::pair::{STEP, UNHOOKED, ago, machine, member, state},
};
use capo_core::{FailureClass, ProvisioningStatus};

pub(crate) const SECOND: Duration = Duration::from_secs(1);
pub(crate) const STEADY: Duration = Duration::from_secs(300);

/// The state right after a read that showed everything as it should be.
pub(crate) fn quiet(change: impl FnOnce(&mut State, &Now)) -> (State, Now) {
    let (mut state, now) = state();
    state.reads.tree_tried_at = Some(now.instant);
    state.reads.interval = STEADY;
    state.reads.interval_after = Some(now.instant);
    state.reads.stale_after = STEADY * 3;
    state.reads.waited = Duration::ZERO;
    change(&mut state, &now);
    (state, now)
}

#[test]
fn settled_load_balancers_are_read_at_least_every_sync_period() {
    let schedule = |seconds: u32| Schedule::default().at_least_every(SECOND * seconds);
    let steady = |schedule: Schedule| (schedule.steady, schedule.steady_large);
    assert_eq!(steady(schedule(100)), (SECOND * 100, SECOND * 100));
    assert_eq!(steady(schedule(400)), (STEADY, SECOND * 400));
    assert_eq!(steady(schedule(9_000)), (STEADY, STEADY * 2));
    assert_eq!(schedule(100).first, Schedule::default().first);
}

#[test]
fn something_settles_while_it_is_not_as_it_is_to_be() {
    let unsettled = |change: fn(&mut State, &Now)| schedule::is_unsettled(&quiet(change).0);
    assert!(!unsettled(|_, _| ()));
    let yes: [fn(&mut State, &Now); 13] = [
        |state, now| state.last_write = Some(now.instant + STEP),
        |state, _| state.reads.suspect = true,
        |state, _| state.balancer.provisioning = Some(ProvisioningStatus::PendingUpdate),
        |state, _| state.summary.cause = Some(GateCause::NoneServes),
        |state, _| state.ports[1].monitor = None,
        |state, _| state.ports[1].ambiguous = Some(String::new()),
        |state, _| member(state, 1, 1).provisioning = ProvisioningStatus::Error,
        |state, _| member(state, 1, 1).owner = Owner::NotHandedOver,
        |state, _| member(state, 1, 1).owner = Owner::NameOnly,
        |state, _| machine(state, 1).slots[1].member = None,
        |state, _| machine(state, 1).want.deletion = UNHOOKED,
        |state, _| {
            machine(state, 1).want.deletion = UNHOOKED;
            for slot in &mut machine(state, 1).slots {
                (slot.member, slot.absent_reads) = (None, 2);
            }
            machine(state, 1).slots[1].absent_reads = 1;
        },
        |state, _| {
            machine(state, 1).want.deletion = UNHOOKED;
            machine(state, 1).slots[0].member = None;
            machine(state, 1).slots[0].absent_reads = 2;
        },
    ];
    for (case, change) in yes.into_iter().enumerate() {
        assert!(unsettled(change), "case {case}");
    }
    let no: [fn(&mut State, &Now); 8] = [
        |state, _| state.reads.tree_read_at = None,
        |state, _| {
            state.balancer.provisioning = None;
            state.balancer.not_found = 2;
        },
        |state, _| state.summary.cause = Some(GateCause::Stale),
        // Members that are not ours may have any status.
        |state, _| {
            member(state, 1, 1).owner = Owner::Unrelated;
            member(state, 1, 1).provisioning = ProvisioningStatus::Error;
        },
        |state, _| {
            machine(state, 1).slots[1].member = None;
            machine(state, 1).slots[1].foreign = Some(0);
        },
        |state, _| {
            machine(state, 1).slots[1].member = None;
            machine(state, 1).want.address = None;
        },
        |state, _| {
            machine(state, 1).want.deletion = UNHOOKED;
            for slot in &mut machine(state, 1).slots {
                (slot.member, slot.absent_reads) = (None, 2);
            }
        },
        |state, _| state.last_write = state.reads.tree_read_at.map(|read| read.instant),
    ];
    for (case, change) in no.into_iter().enumerate() {
        assert!(!unsettled(change), "case {case}");
    }
}

/// How long after the last read the next read is due.
fn due(change: impl FnOnce(&mut State, &Now)) -> (Option<Duration>, State) {
    let (mut state, now) = quiet(change);
    let due = schedule::schedule_reads(&mut state, &now);
    (
        due.map(|due| due.saturating_duration_since(now.instant)),
        state,
    )
}

#[test]
fn the_next_read_is_due_after_the_gap_that_fits_what_is_under_way() {
    let cases: [(fn(&mut State, &Now), Duration); 12] = [
        (|_, _| (), STEADY),
        (|state, _| state.large_fleet = true, STEADY * 2),
        (|state, _| state.reads.health_wanted = true, SECOND * 5),
        (
            |state, _| (state.reads.health_wanted, state.reads.health) = (true, 1),
            Duration::from_millis(7_500),
        ),
        (
            |state, _| (state.reads.health_wanted, state.reads.health) = (true, 99),
            SECOND * 15,
        ),
        (|state, _| state.balancer.not_found = 1, SECOND * 2),
        (|state, _| state.reads.jitter_factor = 0.9, STEADY * 9 / 10),
        // The gap has limits, whatever the jitter is.
        (|state, _| state.reads.jitter_factor = 0.1, STEADY / 2),
        (|state, _| state.reads.jitter_factor = 9.0, STEADY * 3 / 2),
        (
            |state, _| state.reads.wanted = true,
            Duration::from_millis(250),
        ),
        (
            |state, _| state.reads.nudged = true,
            Duration::from_millis(250),
        ),
        (
            |state, now| {
                state.trouble = Some(Trouble {
                    class: FailureClass::Transient,
                    message: String::new(),
                    since: now.stamp(),
                    failures: 1,
                    until: now.instant + SECOND * 7,
                });
            },
            SECOND * 7,
        ),
    ];
    for (case, (change, expected)) in cases.into_iter().enumerate() {
        assert_eq!(due(change).0, Some(expected), "case {case}");
    }
    assert_eq!(due(|state, _| state.reads.tree_tried_at = None).0, None);
}

#[test]
fn while_something_settles_reads_have_growing_gaps() {
    let settling = |change: fn(&mut State, &Now)| {
        due(move |state, now| {
            state.balancer.provisioning = Some(ProvisioningStatus::PendingUpdate);
            change(state, now);
        })
    };
    let (first, state) = settling(|_, _| ());
    assert_eq!(first, Some(Duration::from_millis(1_050)));
    // The jitter does not move the first read, which is made right after the shortest operation.
    for change in [
        |state: &mut State, _: &Now| state.reads.jitter_factor = 0.8,
        |state: &mut State, _: &Now| state.reads.jitter_factor = 1.2,
    ] {
        assert_eq!(settling(change).0, first);
    }
    assert_eq!(state.reads.settling.map(|settling| settling.reads), Some(0));
    let second = |state: &mut State, now: &Now| {
        state.reads.settling = Some(SettlingReads {
            start: ago(now, SECOND * 10),
            reads: 1,
            is_enabling: false,
        });
    };
    assert_eq!(settling(second).0, Some(Duration::from_millis(1_650)));
    // No admission waits until an enabling is applied, so its second read is late unless a machine waits for its
    // release.
    for (reads, waits, gap) in [
        (0, false, Duration::from_millis(1_050)),
        (1, false, SECOND * 5),
        (1, true, Duration::from_millis(1_650)),
    ] {
        let (patient, _) = due(|state, now| {
            machine(state, 2).waiting_since = waits.then(|| now.stamp());
            state.balancer.provisioning = Some(ProvisioningStatus::PendingUpdate);
            state.reads.settling = Some(SettlingReads {
                reads,
                is_enabling: true,
                ..SettlingReads::from(now.instant)
            });
        });
        assert_eq!(patient, Some(gap), "{reads} {waits}");
    }
    // What a gate waits for is read within two seconds, but not in a hot loop.
    let wanted = |state: &mut State, now: &Now| {
        state.reads.settling = Some(SettlingReads {
            start: ago(now, SECOND * 100),
            reads: 20,
            is_enabling: false,
        });
        state.reads.wanted = true;
    };
    assert_eq!(settling(wanted).0, Some(SECOND * 2));
    // A member is missing and Octavia has applied all writes, so there is nothing to wait for.
    let applied = |state: &mut State, now: &Now| {
        machine(state, 1).slots[1].member = None;
        wanted(state, now);
    };
    assert_eq!(due(applied).0, Some(Duration::from_millis(250)));
    let (unapplied, _) = due(|state, now| {
        applied(state, now);
        state.last_write = Some(now.instant + STEP);
    });
    assert_eq!(unapplied, Some(SECOND * 2));
    let implausible = |state: &mut State, _: &Now| state.reads.suspect = true;
    assert_eq!(settling(implausible).0, Some(SECOND * 2));
    // The time of the next read counts from the write, whenever the last read was.
    let written = |state: &mut State, now: &Now| {
        state.reads.tree_tried_at = Some(ago(now, SECOND * 10));
        state.reads.settling = Some(SettlingReads::from(now.instant));
    };
    assert_eq!(settling(written).0, Some(Duration::from_millis(1_050)));
    let (_, settled) = due(second);
    assert!(settled.reads.settling.is_none());
}

#[test]
fn where_answers_take_longer_than_the_gap_other_calls_come_before_the_next_read() {
    let slow = |waited: Duration| {
        due(move |state, _| {
            state.reads.wanted = true;
            state.reads.waited = waited;
        })
    };
    assert_eq!(
        slow(Duration::from_millis(249)).0,
        Some(Duration::from_millis(250))
    );
    assert_eq!(
        slow(Duration::from_millis(250)).0,
        Some(Duration::from_millis(750))
    );
    assert_eq!(slow(SECOND * 12).0, Some(Duration::from_millis(12_500)));
}

#[test]
fn a_read_is_stale_after_three_of_the_widest_gaps_since_it() {
    let (_, steady) = due(|_, _| ());
    assert_eq!(
        (steady.reads.interval, steady.reads.stale_after),
        (STEADY, STEADY * 3)
    );
    // When a gate asks for reads, the last read does not become stale earlier.
    let (_, narrow) = due(|state, _| state.reads.health_wanted = true);
    assert_eq!(
        (narrow.reads.interval, narrow.reads.stale_after),
        (STEADY, STEADY * 3)
    );
    let (_, next) = due(|state, now| {
        state.reads.health_wanted = true;
        state.reads.interval_after = Some(ago(now, SECOND));
    });
    assert_eq!(
        (next.reads.interval, next.reads.stale_after),
        (SECOND * 5, SECOND * 15)
    );
    let (_, wider) = due(|state, _| state.large_fleet = true);
    assert_eq!(wider.reads.stale_after, STEADY * 6);
    let (_, slow) = due(|state, now| {
        state.reads.interval_after = Some(ago(now, SECOND));
        state.reads.waited = STEADY * 2;
    });
    assert_eq!(slow.reads.stale_after, STEADY * 6);
}

#[test]
fn a_deletion_before_the_hook_settles_nothing() {
    let (state, _) = quiet(|state, _| {
        machine(state, 1).want.deletion = Deletion::BeforeHook {
            since: jiff::Timestamp::UNIX_EPOCH,
        };
    });
    assert!(!schedule::is_unsettled(&state));
}
