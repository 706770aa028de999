//! When a member that was drained for a release is put back in service.

use std::time::Duration;

use crate::{
    model::{
        call::Operation,
        clock::Now,
        decision::{GateCause, GateDecision},
        desired::{Deletion, ObservedCondition, ServerState},
        evidence::Others,
        machine::{Machine, Stage},
        member::LEAVING,
        part::ConsecutiveReads,
        proof::Reach,
        state::State,
    },
    plan::members,
    tests::{
        member_writes::{Done, NONE, done, refuse, to_all},
        pair::{AFTER_HOOK, AT_HOOK, STEP, ago, drain, lose, machine, member, state, weigh},
        world::machine_name,
    },
};
use capo_core::{Provider, ProvisioningStatus};

/// What is done about the first machine's member that was drained for a release which was called off.
fn restored(change: impl FnOnce(&mut State, &Now)) -> Done {
    let (mut state, now) = state();
    to_all(&mut state, |state, port| drain(state, 1, port, true));
    let held = machine(&mut state, 1);
    held.want.deletion = AT_HOOK;
    held.waiting_since = Some(now.stamp());
    held.others = Some(Others::Serve);
    held.restoring = true;
    change(&mut state, &now);
    done(members::restore(&state, &now))
}

/// The PUT that restores a member which was drained by its weight.
fn weighted() -> Done {
    back(Some(1), None, Some(vec!["t".to_owned()]))
}

fn back(weight: Option<u32>, admin_up: Option<bool>, tags: Option<Vec<String>>) -> Done {
    Done::Put {
        operation: Operation::Restore,
        weight,
        admin_up,
        tags,
    }
}

#[test]
fn what_was_drained_is_restored_and_nothing_else() {
    assert_eq!(restored(|_, _| ()), weighted());
    let leaving = restored(|state, _| to_all(state, |state, port| drain(state, 1, port, false)));
    assert_eq!(leaving, back(None, Some(true), Some(vec!["t".to_owned()])));
    // The weight from before the release. What another client wrote there, and Octavia would refuse, becomes 1 or 256.
    for (tag, weight) in [("5", 5), ("256", 256), ("0", 1), ("257", 256), ("x", 1)] {
        let had = restored(|state, _| {
            to_all(state, |state, port| {
                let detail = member(state, 1, port).detail.as_mut().unwrap();
                detail.tags.push(format!("capo-rs-weight-{tag}"));
            });
        });
        assert_eq!(had, back(Some(weight), None, Some(vec!["t".to_owned()])));
    }
    let unmark = |state: &mut State, port: usize| {
        let detail = member(state, 1, port).detail.as_mut().unwrap();
        detail.tags.retain(|tag| tag != LEAVING);
    };
    let nothing: [&dyn Fn(&mut State, &Now); 9] = [
        &|state, _| to_all(state, |state, port| weigh(state, 1, port, 1, true)),
        // An operator has drained or disabled the member.
        &|state, _| to_all(state, unmark),
        &|state, _| {
            to_all(state, |state, port| {
                weigh(state, 1, port, 1, false);
                unmark(state, port);
            });
        },
        // An attempt to put it back failed in Octavia a moment ago.
        &|state, now| {
            to_all(state, |state, port| {
                member(state, 1, port).provisioning = ProvisioningStatus::Error;
                machine(state, 1).slots[port].attempts.record(now.instant);
            });
        },
        &|state, _| machine(state, 1).stage = Stage::Draining,
        &|state, _| machine(state, 1).gates.release = GateDecision::Open(GateCause::ServerDown),
        &|state, _| machine(state, 1).waiting_since = None,
        &|state, _| {
            to_all(state, |state, port| {
                member(state, 1, port).provisioning = ProvisioningStatus::PendingUpdate;
            });
        },
        &|state, now| to_all(state, |state, port| refuse(state, now, port, false)),
    ];
    for (case, change) in nothing.into_iter().enumerate() {
        assert_eq!(restored(change), Done::Nothing, "case {case}");
    }
    let again = restored(|state, now| to_all(state, |state, port| refuse(state, now, port, true)));
    assert_eq!(again, weighted());
    let is_orphaned = restored(|state, now| {
        for port in [0, 1] {
            lose(state, now, port, ProvisioningStatus::PendingUpdate);
        }
    });
    assert_eq!(is_orphaned, weighted());
    // The machine stays, so the release was that of an earlier machine of its name.
    let stays = restored(|state, _| {
        machine(state, 1).want.deletion = Deletion::No;
        machine(state, 1).waiting_since = None;
        machine(state, 1).restoring = false;
    });
    assert_eq!(stays, weighted());
    let tried = restored(|state, now| {
        to_all(state, |state, port| {
            member(state, 1, port).provisioning = ProvisioningStatus::Error;
            machine(state, 1).slots[port]
                .attempts
                .allow_at_once(now.instant);
        });
    });
    assert_eq!(tried, weighted());
}

#[test]
fn what_an_earlier_process_drained_is_restored_if_it_is_needed() {
    let inherited = |change: fn(&mut State, &Now)| {
        restored(|state, now| {
            machine(state, 1).restoring = false;
            state.releasing = Some(machine_name(1));
            change(state, now);
        })
    };
    assert_eq!(inherited(|_, _| ()), Done::Nothing);
    let needed: [fn(&mut State, &Now); 4] = [
        |state, _| state.releasing = None,
        |state, _| machine(state, 1).others = Some(NONE),
        |state, now| {
            machine(state, 1).reach = Some((now.instant, Reach::Unreachable(String::new())));
        },
        |state, now| machine(state, 1).reach = Some((now.instant, Reach::Wrong(String::new()))),
    ];
    for (case, change) in needed.into_iter().enumerate() {
        assert_eq!(inherited(change), weighted(), "case {case}");
    }
    let answered = inherited(|state, now| {
        machine(state, 1).reach = Some((now.instant, Reach::Ports(vec![true, true])));
    });
    assert_eq!(answered, Done::Nothing);
    // The last API server gets its traffic back, although no gate holds its machine.
    let last = |change: fn(&mut Machine)| {
        inherited(|state, _| {
            state.releasing = None;
            machine(state, 1).waiting_since = None;
            machine(state, 1).want.deletion = AFTER_HOOK;
            machine(state, 1).others = Some(NONE);
        });
        restored(|state, _| {
            let after = machine(state, 1);
            after.waiting_since = None;
            after.restoring = false;
            after.want.deletion = AFTER_HOOK;
            after.others = Some(NONE);
            change(after);
        })
    };
    assert_eq!(last(|_| ()), weighted());
    let not: [fn(&mut Machine); 3] = [
        |machine| machine.others = Some(Others::Serve),
        |machine| machine.want.server.state = ServerState::Shutoff,
        |machine| machine.want.api_server_pod = ObservedCondition::False,
    ];
    for change in not {
        assert_eq!(last(change), Done::Nothing);
    }
}

#[test]
fn a_drain_that_the_data_path_has_not_applied_is_undone_when_no_worker_can_resume_it() {
    let long = Duration::from_mins(12);
    let almost = long.checked_sub(STEP).unwrap();
    let (none, serve) = (Some(NONE), Some(Others::Serve));
    for (answered_itself, others, span, reads, expected) in [
        (true, serve, long, 3, weighted()),
        (true, serve, almost, 9, Done::Nothing),
        (true, None, almost, 9, Done::Nothing),
        // Nothing else serves, or clients may have failed, so it comes back at once.
        (true, none, Duration::ZERO, 3, weighted()),
        (false, serve, Duration::ZERO, 3, weighted()),
        (false, serve, almost, 2, Done::Nothing),
    ] {
        let found = restored(|state, now| {
            state.provider = Provider::AmphoraV2;
            machine(state, 1).answered_itself = answered_itself;
            machine(state, 1).others = others;
            to_all(state, |state, port| {
                let member = member(state, 1, port);
                member.provisioning = ProvisioningStatus::PendingUpdate;
                member.pending_reads = ConsecutiveReads {
                    first: Some(ago(now, span)),
                    last: Some(now.instant),
                    reads,
                };
            });
        });
        assert_eq!(
            found, expected,
            "{answered_itself} {others:?} {span:?} {reads}"
        );
    }
}

/// Cluster API drains the Node of the machine once more.
#[test]
fn what_was_drained_for_a_release_that_was_called_off_is_restored_before_the_hook_too() {
    for (restoring, expected) in [(true, weighted()), (false, Done::Nothing)] {
        let found = restored(|state, now| {
            machine(state, 1).want.deletion = Deletion::BeforeHook { since: now.wall };
            machine(state, 1).waiting_since = None;
            machine(state, 1).restoring = restoring;
        });
        assert_eq!(found, expected, "{restoring}");
    }
}
