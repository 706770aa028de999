//! How a release is carried through its stages, and when it is called off.

use std::time::{Duration, Instant};

use crate::{
    decide::{
        evaluation::{Evaluation, Needs},
        stages::carry_release,
    },
    model::{
        clock::Now,
        desired::{Deletion, ObservedCondition},
        evidence::Others,
        machine::{Machine, Stage},
        proof::Reach,
        state::{FRESH, State},
        trouble::Trouble,
    },
    tests::{
        pair::{STEP, ago, machine, member, state, weigh},
        world::machine_name,
    },
};
use capo_core::{FailureClass, ObjectName, Provider, ProvisioningStatus};

/// Evaluations in which the rules decide on the first and on the second machine, or not.
fn ruled(each: [bool; 2]) -> [Evaluation; 2] {
    each.map(|ruled| Evaluation {
        ruled,
        ..Evaluation::default()
    })
}

/// Two machines, of which the first one waits at the hook. Everything was read at this moment.
fn waiting() -> (State, Now) {
    let (mut state, now) = state();
    for port in &mut state.ports {
        port.listed = Some(now.instant);
    }
    let since = now.wall;
    connect(&mut state, ObservedCondition::TrueSince(now.instant));
    let first = machine(&mut state, 1);
    first.want.deletion = Deletion::AtHook { since };
    first.waiting_since = Some(now.stamp());
    first.reach = Some((now.instant, Reach::Ports(vec![true, false])));
    (state, now)
}

/// Sets whether Cluster API reaches the API servers.
fn connect(state: &mut State, connection: ObservedCondition) {
    state.desired.as_mut().unwrap().cluster.remote_connection = connection;
}

/// The result of one turn for the first machine.
struct Turn {
    machine: Machine,
    needs: Needs,
    now: Now,
}

fn turn(change: impl FnOnce(&mut State, &Now)) -> Turn {
    let (mut state, now) = waiting();
    change(&mut state, &now);
    let mut needs = Needs::default();
    carry_release(&mut state, &ruled([true, false]), &now, &mut needs);
    Turn {
        machine: machine(&mut state, 1).clone(),
        needs,
        now,
    }
}

fn no_other_serves(state: &mut State) {
    member(state, 2, 1).provisioning = ProvisioningStatus::Error;
}

fn it_is_unclear_whether_others_serve(state: &mut State) {
    member(state, 2, 1).detail = None;
}

fn outdate(state: &mut State, now: &Now) {
    state.reads.tree_read_at.as_mut().unwrap().instant = ago(now, FRESH + STEP);
}

#[test]
fn the_oldest_deletion_goes_first_and_one_that_has_begun_goes_on() {
    let chosen = |each: [bool; 2], before: Option<u8>, change: fn(&mut State, &Now)| {
        let (mut state, now) = waiting();
        state.releasing = before.map(machine_name);
        for index in [1, 2] {
            machine(&mut state, index).want.deletion = Deletion::AtHook { since: now.wall };
        }
        change(&mut state, &now);
        carry_release(&mut state, &ruled(each), &now, &mut Needs::default());
        let index = |name: &ObjectName| (1..=2).find(|index| *name == machine_name(*index));
        state.releasing.as_ref().and_then(index)
    };
    let second_is_older = |state: &mut State, now: &Now| {
        let since = now.wall.checked_sub(Duration::from_secs(1)).unwrap();
        machine(state, 2).want.deletion = Deletion::AtHook { since };
    };
    assert_eq!(chosen([false; 2], Some(1), |_, _| ()), None);
    assert_eq!(chosen([true; 2], None, |_, _| ()), Some(1));
    assert_eq!(chosen([true; 2], None, second_is_older), Some(2));
    assert_eq!(chosen([true, false], None, second_is_older), Some(1));
    assert_eq!(chosen([true; 2], Some(1), second_is_older), Some(1));
    assert_eq!(chosen([false, true], Some(1), |_, _| ()), Some(2));
    assert_eq!(
        chosen([true; 2], None, |state, now| {
            let since = now.wall.checked_sub(Duration::from_secs(1)).unwrap();
            machine(state, 1).want.deletion = Deletion::AtHook { since };
            machine(state, 2).stage = Stage::Draining;
        }),
        Some(2)
    );
    // A release that has begun goes on, or is called off, although only another machine could be replaced.
    assert_eq!(
        chosen([true; 2], None, |state, _| {
            machine(state, 2).stage = Stage::Draining;
            member(state, 1, 1).provisioning = ProvisioningStatus::Error;
        }),
        Some(2)
    );
}

#[test]
fn it_begins_on_fresh_reads_while_others_serve() {
    let dirt = |state: &mut State, now: &Now| {
        let machine = machine(state, 1);
        (machine.drained_since, machine.others_unknown_since) =
            (Some(now.instant), Some(now.instant));
        machine.restoring = true;
    };
    let begun = turn(dirt);
    assert_eq!(begun.machine.stage, Stage::Draining);
    assert!(matches!(begun.machine.others, Some(Others::Serve)));
    assert_eq!(
        (
            begun.machine.drained_since,
            begun.machine.others_unknown_since
        ),
        (None, None)
    );
    assert!(!begun.machine.restoring);
    assert!(!begun.needs.tree && !begun.needs.lists);

    let waits: [(fn(&mut State, &Now), (bool, bool)); 6] = [
        (outdate, (true, true)),
        (
            |state, now| {
                state.trouble = Some(Trouble {
                    class: FailureClass::Transient,
                    message: "down".to_owned(),
                    since: now.stamp(),
                    failures: 2,
                    until: now.instant,
                });
            },
            (true, true),
        ),
        (|state, _| state.ports[1].listed = None, (false, true)),
        (
            |state, now| {
                state.ports[1].listed = None;
                outdate(state, now);
            },
            (true, true),
        ),
        (|state, _| no_other_serves(state), (false, false)),
        (
            |state, now| {
                it_is_unclear_whether_others_serve(state);
                outdate(state, now);
            },
            (false, false),
        ),
    ];
    for (case, (change, (tree, lists))) in waits.into_iter().enumerate() {
        let turn = turn(change);
        assert_eq!(turn.machine.stage, Stage::Serving, "case {case}");
        assert_eq!(
            (turn.needs.tree, turn.needs.lists),
            (tree, lists),
            "case {case}"
        );
    }
}

/// A turn while the first machine is being drained. Both members have weight 0 before the change.
fn draining(change: impl FnOnce(&mut State, &Now)) -> Turn {
    turn(|state, now| {
        machine(state, 1).stage = Stage::Draining;
        weigh(state, 1, 0, 0, true);
        weigh(state, 1, 1, 0, true);
        change(state, now);
    })
}

#[test]
fn members_go_when_they_get_no_new_connections() {
    let drained = draining(|_, _| ());
    assert_eq!(drained.machine.stage, Stage::Removing);
    let proven = draining(|state, _| machine(state, 1).required = Some(vec![true, true]));
    assert_eq!(proven.machine.stage, Stage::Proving);
    let pending = |state: &mut State, reads: u32| {
        let member = member(state, 1, 1);
        member.provisioning = ProvisioningStatus::PendingUpdate;
        member.pending_reads.reads = reads;
    };
    let none_left: [&dyn Fn(&mut State); 5] = [
        &|state| weigh(state, 1, 1, 1, false),
        &|state| member(state, 1, 1).provisioning = ProvisioningStatus::Error,
        &|state| pending(state, 3),
        &|state| machine(state, 1).slots[1].member = None,
        &|state| {
            state.provider = Provider::Ovn;
            weigh(state, 1, 0, 1, false);
            weigh(state, 1, 1, 1, false);
        },
    ];
    for (case, change) in none_left.iter().enumerate() {
        let turn = draining(|state, _| change(state));
        assert_eq!(turn.machine.stage, Stage::Removing, "case {case}");
    }
    let some_left: [&dyn Fn(&mut State); 4] = [
        // OVN ignores weights.
        &|state| state.provider = Provider::Ovn,
        &|state| weigh(state, 1, 1, 1, true),
        &|state| member(state, 1, 1).detail = None,
        &|state| pending(state, 2),
    ];
    for (case, change) in some_left.iter().enumerate() {
        let turn = draining(|state, _| change(state));
        assert_eq!(turn.machine.stage, Stage::Draining, "case {case}");
        assert_eq!(turn.machine.drained_since, None, "case {case}");
    }
}

#[test]
fn the_grace_time_counts_from_the_first_drained_read() {
    let grace = Duration::from_secs(30);
    let after = |age: Option<Duration>| {
        let mut first: Option<Instant> = None;
        let turn = draining(|state, now| {
            state.settings.drain_grace = grace;
            machine(state, 1).drained_since = age.map(|age| ago(now, age));
            first = Some(machine(state, 1).drained_since.unwrap_or(now.instant));
        });
        assert_eq!(turn.machine.drained_since, first);
        turn.machine.stage
    };
    assert_eq!(after(None), Stage::Draining);
    assert_eq!(after(Some(grace.saturating_sub(STEP))), Stage::Draining);
    assert_eq!(after(Some(grace)), Stage::Removing);
}

/// A turn for a machine whose members were absent in two reads.
fn removed(change: impl FnOnce(&mut State, &Now)) -> Turn {
    turn(|state, now| {
        let machine = machine(state, 1);
        machine.stage = Stage::Removing;
        for slot in &mut machine.slots {
            (slot.member, slot.absent_reads) = (None, 2);
        }
        change(state, now);
    })
}

#[test]
fn it_ends_when_every_member_was_read_absent_twice_and_others_still_serve() {
    let confirming = removed(|_, _| ());
    assert_eq!(confirming.machine.stage, Stage::Confirming);
    assert!(!confirming.needs.tree);
    let confirm = |change: fn(&mut State, &Now)| {
        removed(|state, now| {
            machine(state, 1).stage = Stage::Confirming;
            change(state, now);
        })
    };
    let released = confirm(|_, _| ());
    assert_eq!(released.machine.stage, Stage::Released);
    assert!(!released.needs.tree && !released.needs.lists);
    // The weights of the other machines are read once more.
    let unread = confirm(|state, _| state.ports[1].listed = None);
    assert_eq!(unread.machine.stage, Stage::Confirming);
    assert!(unread.needs.lists);
    // One read of the absence is enough to begin the requests. The other read follows.
    let seen_once = |state: &mut State, _: &Now| machine(state, 1).slots[1].absent_reads = 1;
    assert_eq!(removed(seen_once).machine.stage, Stage::Confirming);
    let unconfirmed = confirm(seen_once);
    assert_eq!(unconfirmed.machine.stage, Stage::Confirming);
    assert!(unconfirmed.needs.tree);
    for change in [
        |state: &mut State, _: &Now| machine(state, 1).slots[1].absent_reads = 0,
        |state: &mut State, _: &Now| machine(state, 1).slots[1].member = Some(0),
    ] {
        let there_again = confirm(change);
        assert_eq!(there_again.machine.stage, Stage::Removing);
        assert!(!there_again.needs.tree && !there_again.needs.lists);
    }
    let unproven = confirm(|state, _| machine(state, 1).required = Some(vec![true, false]));
    assert_eq!(unproven.machine.stage, Stage::Confirming);
    let outdated = removed(outdate);
    assert_eq!(outdated.machine.stage, Stage::Removing);
    assert!(outdated.needs.tree);
    let not_yet: [fn(&mut State); 4] = [
        |state| machine(state, 1).slots[1].absent_reads = 0,
        |state| machine(state, 1).slots[1].member = Some(0),
        it_is_unclear_whether_others_serve,
        // From Draining, only Removing may follow.
        |state| {
            state.settings.drain_grace = STEP;
            machine(state, 1).stage = Stage::Draining;
        },
    ];
    for (case, change) in not_yet.into_iter().enumerate() {
        let turn = removed(|state, _| change(state));
        assert!(turn.machine.stage < Stage::Confirming, "case {case}");
        assert!(!turn.needs.tree, "case {case}");
    }
}

#[test]
fn a_second_deletion_has_failed_when_a_read_after_it_shows_the_error() {
    let is_put_off = |change: fn(&mut State, &Now)| {
        let turn = turn(|state, now| {
            machine(state, 1).stage = Stage::Removing;
            machine(state, 1).slots[1].deletions = 2;
            member(state, 1, 1).provisioning = ProvisioningStatus::Error;
            change(state, now);
        });
        turn.machine.stage == Stage::Serving
    };
    assert!(is_put_off(|_, _| ()));
    assert!(!is_put_off(
        |state, _| machine(state, 1).slots[1].deletions = 1
    ));
    // The ERROR is that of the first deletion.
    let is_unread = |state: &mut State, now: &Now| state.last_write = Some(now.instant + STEP);
    assert!(!is_put_off(is_unread));
}

#[test]
fn without_a_proof_it_is_called_off_when_cluster_api_does_not_reach_the_endpoint_any_more() {
    for stage in [
        Stage::Draining,
        Stage::Removing,
        Stage::Confirming,
        Stage::Released,
    ] {
        let after = |connection, required: Option<Vec<bool>>| {
            let turn = removed(|state, now| {
                connect(state, connection);
                let machine = machine(state, 1);
                (machine.stage, machine.required) = (stage, required);
                machine.proven = Some(now.instant);
            });
            turn.machine.stage
        };
        let lost = [ObservedCondition::False, ObservedCondition::Unknown];
        for connection in lost {
            assert_eq!(after(connection, None), Stage::Serving, "{stage:?}");
            let proven = after(connection, Some(vec![true, false]));
            assert!(proven > Stage::Serving, "{stage:?}");
        }
    }
}

#[test]
fn it_is_called_off_when_no_other_serves_or_that_is_unclear_for_long() {
    let patience = state().0.settings.warn_after;
    for stage in [Stage::Draining, Stage::Removing, Stage::Released] {
        let begun = |unclear: Option<Duration>, change: fn(&mut State, &Now)| {
            turn(|state, now| {
                let machine = machine(state, 1);
                machine.stage = stage;
                machine.drained_since = Some(now.instant);
                machine.waiting_since.as_mut().unwrap().instant = ago(now, patience);
                machine.others_unknown_since = unclear.map(|age| ago(now, age));
                for slot in &mut machine.slots {
                    slot.deleted = Some(now.instant);
                }
                change(state, now);
            })
        };
        let is_off = |turn: &Turn| {
            let machine = &turn.machine;
            let off = machine.stage == Stage::Serving;
            assert_eq!(off, machine.restoring, "{stage:?}");
            assert_eq!(off, machine.drained_since.is_none(), "{stage:?}");
            for slot in &machine.slots {
                assert_eq!(off, slot.deleted.is_none(), "{stage:?}");
            }
            if off {
                assert!(machine.others_unknown_since.is_none(), "{stage:?}");
                let since = machine.waiting_since.unwrap();
                assert_eq!(since, turn.now.stamp(), "the hold did not start over");
            }
            off
        };
        let serves = begun(Some(patience), |_, _| ());
        assert!(!is_off(&serves) && serves.machine.others_unknown_since.is_none());
        assert!(is_off(&begun(None, |state, _| no_other_serves(state))));
        let outdated = |state: &mut State, now: &Now| {
            no_other_serves(state);
            outdate(state, now);
        };
        let blind = begun(None, outdated);
        assert!(!is_off(&blind) && blind.machine.others_unknown_since.is_some());
        assert!(!is_off(&begun(Some(patience), outdated)));
        let unclear = |age| begun(age, |state, _| it_is_unclear_whether_others_serve(state));
        assert!(!is_off(&unclear(None)) && unclear(None).machine.others_unknown_since.is_some());
        assert!(!is_off(&unclear(Some(patience.saturating_sub(STEP)))));
        assert!(is_off(&unclear(Some(patience))));
    }
}
