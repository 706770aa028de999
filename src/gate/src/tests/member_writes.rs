//! Which member is drained or removed, and what keeps each of these writes back.

use crate::{
    model::{
        attempts::{Attempts, Refusal},
        call::{Operation, Write},
        clock::Now,
        decision::{GateCause, GateDecision},
        desired::Deletion,
        evidence::{Lack, Others},
        machine::Stage,
        member::LEAVING,
        octavia::Change,
        state::State,
    },
    plan::{
        members,
        todo::{self, Todo},
    },
    tests::{
        pair::{AFTER_HOOK, AT_HOOK, STEP, UNHOOKED, lose, machine, member, state, weigh},
        world::machine_name,
    },
};
use capo_core::{FailureClass, Provider, ProvisioningStatus, octavia::MemberUpdate};

pub(crate) const NONE: Others = Others::None(6443, Lack::Leaving);

/// The write for the first machine, if any.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Done {
    Nothing,
    /// A newer read comes first.
    Read,
    /// A PUT.
    Put {
        operation: Operation,
        weight: Option<u32>,
        admin_up: Option<bool>,
        tags: Option<Vec<String>>,
    },
    Delete,
    Create {
        operation: Operation,
        admin_up: bool,
        tags: Vec<String>,
    },
}

pub(crate) fn done(todo: Option<Todo>) -> Done {
    match todo {
        None => Done::Nothing,
        Some(Todo::Tree) => Done::Read,
        Some(Todo::ListenersAndPools) => panic!("no part is missing"),
        Some(Todo::Write(write, change)) => {
            let Write::Member {
                machine, operation, ..
            } = write
            else {
                panic!("{write:?}");
            };
            assert_eq!(machine, machine_name(1));
            match change {
                Change::UpdateMember { update, .. } => Done::Put {
                    operation,
                    weight: update.weight,
                    admin_up: update.admin_state_up,
                    tags: update.tags,
                },
                Change::DeleteMember { .. } => Done::Delete,
                Change::CreateMember { new, .. } => Done::Create {
                    operation,
                    admin_up: new.admin_state_up,
                    tags: new.tags,
                },
                other => panic!("{other:?}"),
            }
        }
    }
}

pub(crate) fn refuse(state: &mut State, now: &Now, port: usize, may: bool) {
    let slot = &mut machine(state, 1).slots[port];
    slot.refusal = Some(Refusal {
        class: FailureClass::Quota,
        message: String::new(),
        since: now.instant,
    });
    slot.attempts = Attempts::default();
    if !may {
        slot.attempts.record(now.instant);
    }
}

pub(crate) fn to_all(state: &mut State, change: impl Fn(&mut State, usize)) {
    for port in 0..state.ports.len() {
        change(state, port);
    }
}

/// What is done while the first machine leaves. Its release has `reached` a stage, and another machine serves.
fn removed(reached: Stage, change: impl FnOnce(&mut State, &Now)) -> Done {
    let (mut state, now) = state();
    let leaving = machine(&mut state, 1);
    leaving.want.deletion = AT_HOOK;
    leaving.stage = reached;
    leaving.others = Some(Others::Serve);
    change(&mut state, &now);
    done(members::remove(&state, &now))
}

#[test]
fn a_member_of_amphora_is_drained_by_its_weight_and_of_another_provider_by_its_admin_state() {
    let amphora = removed(Stage::Draining, |_, _| ());
    let expected = Done::Put {
        operation: Operation::Drain,
        weight: Some(0),
        admin_up: None,
        tags: Some(vec!["t".to_owned(), LEAVING.to_owned()]),
    };
    assert_eq!(amphora, expected);
    let ovn = removed(Stage::Draining, |state, _| state.provider = Provider::Ovn);
    let expected = Done::Put {
        operation: Operation::Drain,
        weight: None,
        admin_up: Some(false),
        tags: Some(vec!["t".to_owned(), LEAVING.to_owned()]),
    };
    assert_eq!(ovn, expected);
    // The tag of an earlier release is not set twice.
    let marked = removed(Stage::Draining, |state, _| {
        state.provider = Provider::Ovn;
        let detail = member(state, 1, 0).detail.as_mut().unwrap();
        detail.tags = vec![LEAVING.to_owned()];
    });
    assert!(matches!(marked, Done::Put { tags: Some(tags), .. } if tags == [LEAVING]));
    // The weight that an operator gave the member is kept for the case that the release is called off. A tag of an
    // earlier release goes.
    let weighted = |provider| {
        removed(Stage::Draining, |state, _| {
            state.provider = provider;
            weigh(state, 1, 0, 256, true);
            let detail = member(state, 1, 0).detail.as_mut().unwrap();
            detail.tags.push("capo-rs-weight-7".to_owned());
        })
    };
    for provider in [Provider::Amphora, Provider::Ovn] {
        let tags = ["t", LEAVING, "capo-rs-weight-256"].map(str::to_owned);
        let Done::Put { tags: written, .. } = weighted(provider) else {
            panic!("nothing was written");
        };
        assert_eq!(written, Some(tags.to_vec()), "{provider:?}");
    }
    // Without the list it is unknown which other tags the member has.
    let unread = removed(Stage::Draining, |state, _| {
        to_all(state, |state, port| member(state, 1, port).detail = None);
    });
    assert_eq!(unread, Done::Nothing);
}

#[test]
fn a_drain_waits_for_a_fresh_read_and_is_not_repeated() {
    let nothing: [fn(&mut State, &Now); 4] = [
        |state, _| to_all(state, |state, port| weigh(state, 1, port, 0, true)),
        |state, _| to_all(state, |state, port| weigh(state, 1, port, 1, false)),
        |state, _| {
            to_all(state, |state, port| {
                member(state, 1, port).provisioning = ProvisioningStatus::Error;
            });
        },
        |state, now| to_all(state, |state, port| refuse(state, now, port, false)),
    ];
    for (case, change) in nothing.into_iter().enumerate() {
        assert_eq!(
            removed(Stage::Draining, change),
            Done::Nothing,
            "case {case}"
        );
    }
    let stale = removed(Stage::Draining, |state, now| {
        state.last_write = Some(now.instant + STEP);
    });
    assert_eq!(stale, Done::Read);
    let again = removed(Stage::Draining, |state, now| {
        to_all(state, |state, port| refuse(state, now, port, true));
    });
    assert!(matches!(again, Done::Put { .. }));
}

#[test]
fn a_member_is_removed_in_its_stage_only_and_never_during_a_proof() {
    for (stage, expected) in [
        (Stage::Serving, Done::Nothing),
        (Stage::Proving, Done::Nothing),
        (Stage::Removing, Done::Delete),
        (Stage::Confirming, Done::Nothing),
    ] {
        assert_eq!(removed(stage, |_, _| ()), expected, "{stage:?}");
    }
    let alone = |state: &mut State, _: &Now| machine(state, 1).others = Some(NONE);
    assert_eq!(removed(Stage::Removing, alone), Done::Nothing);
}

#[test]
fn a_member_that_is_pending_is_removed_only_when_nothing_is_under_way_any_more() {
    let pending = |state: &mut State, _: &Now| {
        to_all(state, |state, port| {
            member(state, 1, port).provisioning = ProvisioningStatus::PendingUpdate;
        });
    };
    assert_eq!(removed(Stage::Removing, pending), Done::Nothing);
    let is_orphaned = removed(Stage::Removing, |state, now| {
        pending(state, now);
        lose(state, now, 0, ProvisioningStatus::PendingUpdate);
    });
    assert_eq!(is_orphaned, Done::Delete);
}

#[test]
fn a_stop_of_either_gate_keeps_every_member() {
    let stop = GateDecision::Held(GateCause::OperatorHold);
    let other = GateDecision::Held(GateCause::Removing);
    for (release, finalizer, expected) in [
        (stop, other, Done::Nothing),
        (other, stop, Done::Nothing),
        (other, other, Done::Delete),
    ] {
        let found = removed(Stage::Removing, |state, _| {
            machine(state, 1).gates.release = release;
            machine(state, 1).gates.finalizer = finalizer;
        });
        assert_eq!(found, expected, "{release:?} {finalizer:?}");
    }
}

#[test]
fn without_a_hook_the_member_goes_at_once_and_after_it_when_others_serve() {
    let leaves = |deletion: Deletion, others: Others, change: fn(&mut State)| {
        removed(Stage::Serving, |state, _| {
            machine(state, 1).want.deletion = deletion;
            machine(state, 1).others = Some(others);
            change(state);
        })
    };
    let nothing = |_: &mut State| ();
    assert_eq!(leaves(UNHOOKED, NONE, nothing), Done::Delete);
    assert_eq!(leaves(AFTER_HOOK, Others::Serve, nothing), Done::Delete);
    assert_eq!(leaves(AFTER_HOOK, NONE, nothing), Done::Nothing);
    let deleted = leaves(AFTER_HOOK, NONE, |state| {
        state.desired.as_mut().unwrap().cluster.cluster_deleting = true;
    });
    assert_eq!(deleted, Done::Delete);
    // A case that needs no proof has opened the gate.
    let open = leaves(AT_HOOK, NONE, |state| {
        machine(state, 1).gates.release = GateDecision::Open(GateCause::ServerDown);
    });
    assert_eq!(open, Done::Delete);
    assert_eq!(leaves(Deletion::No, Others::Serve, nothing), Done::Nothing);
}

#[test]
fn a_removal_is_repeated_at_its_time() {
    for (may, expected) in [(true, Done::Delete), (false, Done::Nothing)] {
        let refused = removed(Stage::Removing, |state, now| {
            to_all(state, |state, port| refuse(state, now, port, may));
        });
        assert_eq!(refused, expected);
        let sent = removed(Stage::Removing, |state, now| {
            for slot in &mut machine(state, 1).slots {
                slot.deleted = Some(now.instant);
                if !may {
                    slot.attempts.record(now.instant);
                }
            }
        });
        assert_eq!(sent, expected);
    }
    // The first attempt does not wait for the time of a repair.
    let first = removed(Stage::Removing, |state, now| {
        for slot in &mut machine(state, 1).slots {
            slot.attempts.record(now.instant);
        }
    });
    assert_eq!(first, Done::Delete);
}

#[test]
fn every_change_of_a_member_sets_its_own_name() {
    let (mut state, _) = state();
    let member = member(&mut state, 1, 0).clone();
    let change = todo::update(&"pool".into(), &member, MemberUpdate::default());
    assert!(
        matches!(&change, Change::UpdateMember { update, .. } if update.name.as_ref() == Some(&member.name)),
        "{change:?}"
    );
}
