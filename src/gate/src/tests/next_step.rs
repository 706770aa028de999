//! When the worker steps next if nothing else happens.

use std::time::Duration;

use crate::{
    model::{
        attempts::Attempts,
        clock::Now,
        proof::{Proof, Round},
        state::{MachineLookup, State},
        trouble::Trouble,
    },
    plan::{requests, schedule},
    tests::{
        pair::{STEP, ago, machine},
        schedule::{SECOND, STEADY, quiet},
        world::machine_name,
    },
};
use capo_core::{FailureClass, GateOverride, Lookup};

/// How long it takes until the worker steps next, if the next read is due after `read`.
fn next_step_at(read: Duration, change: impl FnOnce(&mut State, &Now)) -> Option<Duration> {
    let (state, now) = quiet(change);
    let next_step_at = schedule::next_step_at(&state, Some(now.instant + read), &now);
    next_step_at.map(|next_step_at| next_step_at.saturating_duration_since(now.instant))
}

#[test]
fn the_worker_steps_when_something_is_due() {
    const FAR: Duration = Duration::from_secs(200);
    let cases: [(fn(&mut State, &Now), Duration); 15] = [
        (|_, _| (), FAR),
        (
            |state, now| machine(state, 1).slots[1].attempts = Attempts::inherited(now.instant),
            SECOND * 50,
        ),
        (
            |state, now| state.ports[1].attempts.next = Some(now.instant + SECOND * 5),
            SECOND * 5,
        ),
        (
            |state, now| {
                let lookup = MachineLookup {
                    changed_at: ago(now, SECOND),
                    under_way: false,
                    absent: true,
                };
                state.lookups.insert("m".to_owned(), lookup);
            },
            SECOND * 59,
        ),
        (|state, _| state.reads.health_wanted = true, SECOND),
        (|state, _| state.reads.probes_wanted = true, SECOND),
        (
            |state, now| {
                let mut proof =
                    Proof::new(machine_name(1), Round::Drained, now.instant, vec![true]);
                proof.ports[0].sent = Some(now.instant);
                state.proof = Some(proof);
            },
            requests::GAP,
        ),
        (
            |state, now| {
                let mut proof =
                    Proof::new(machine_name(1), Round::Drained, now.instant, vec![true]);
                proof.ports[0].sent = Some(now.instant);
                proof.ports[0].requests.push(1);
                state.settings.proof_window = SECOND * 9;
                state.proof = Some(proof);
            },
            SECOND * 9,
        ),
        // Once a request was answered, half of the window is allowed for each of the four answers that are needed.
        (
            |state, now| {
                let mut proof =
                    Proof::new(machine_name(1), Round::Drained, now.instant, vec![true]);
                proof.ports[0].sent = Some(now.instant);
                proof.ports[0].requests.push(2);
                proof.ports[0].answers = 1;
                state.settings.proof_window = SECOND * 9;
                state.settings.proof_answers = 4;
                state.proof = Some(proof);
            },
            SECOND * 18,
        ),
        (
            |state, now| state.ports[1].retypes.next = Some(now.instant + SECOND * 7),
            SECOND * 7,
        ),
        (
            |state, now| machine(state, 1).hook_gone_since = Some(ago(now, SECOND)),
            SECOND * 29,
        ),
        (
            |state, now| {
                state.settings.drain_grace = SECOND * 20;
                machine(state, 1).drained_since = Some(now.instant);
            },
            SECOND * 20,
        ),
        (
            |state, now| machine(state, 1).want.gate_override = bypass(now),
            SECOND * 60 + STEP,
        ),
        (
            |state, now| {
                state.desired.as_mut().unwrap().cluster.gate_override = bypass(now);
            },
            SECOND * 60 + STEP,
        ),
        (
            |state, _| state.reads.stale_after = SECOND * 30,
            SECOND * 30 + STEP,
        ),
    ];
    for (case, (change, expected)) in cases.into_iter().enumerate() {
        assert_eq!(next_step_at(FAR, change), Some(expected), "case {case}");
    }
    // The next call waits for the end of a pause.
    let paused = |until: Duration| {
        move |state: &mut State, now: &Now| {
            state.trouble = Some(Trouble {
                class: FailureClass::Transient,
                message: String::new(),
                since: now.stamp(),
                failures: 1,
                until: now.instant + until,
            });
        }
    };
    assert_eq!(next_step_at(FAR, paused(SECOND * 60)), Some(SECOND * 60));
    let (state, now) = quiet(|_, _| ());
    // Moments that have passed cause no step.
    let next = schedule::next_step_at(&state, Some(now.instant), &now);
    assert_eq!(next, Some(now.instant + STEADY * 3 + STEP));
}

fn bypass(now: &Now) -> GateOverride {
    GateOverride::Bypass {
        until: now.wall + jiff::SignedDuration::from_secs(60),
        reason: "r".to_owned(),
    }
}

#[test]
fn without_a_call_to_make_no_read_is_due() {
    let read = SECOND * 3;
    let stale = STEADY * 3 + STEP;
    let cases: [(fn(&mut State, &Now), Option<Duration>); 5] = [
        (|_, _| (), Some(read)),
        (|state, _| state.credentials = false, Some(stale)),
        (
            |state, _| state.desired.as_mut().unwrap().id = Lookup::Unknown,
            Some(stale),
        ),
        (
            |state, _| state.desired.as_mut().unwrap().enabled = false,
            None,
        ),
        (|state, _| state.desired = None, None),
    ];
    for (case, (change, expected)) in cases.into_iter().enumerate() {
        assert_eq!(next_step_at(read, change), expected, "case {case}");
    }
}
