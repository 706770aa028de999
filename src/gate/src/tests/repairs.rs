//! How a broken member is repaired, and whose members are pruned.

use std::time::Duration;

use crate::{
    model::{
        call::{Operation, Write},
        clock::Now,
        desired::{ObservedCondition, ServerState},
        machine::Machine,
        member::Owner,
        octavia::Change,
        part::ConsecutiveReads,
        state::{FRESH, MachineLookup, State},
    },
    plan::{
        prune::{self, LOOKUP_AGAIN},
        repair,
        todo::Todo,
    },
    tests::{
        pair::{STEP, UNHOOKED, ago, lose, machine, member, state, weigh},
        world::machine_name,
    },
};
use capo_core::ProvisioningStatus;

#[derive(Debug, PartialEq, Eq)]
enum Done {
    Nothing,
    /// A newer read comes first.
    Read,
    /// A PUT of its own values.
    Push,
    /// A DELETE, so that the member is created again.
    Delete,
}

/// What is done about the first machine's member of the first port, which is in ERROR.
fn repaired(change: impl FnOnce(&mut State, &Now)) -> Done {
    let (mut state, now) = state();
    member(&mut state, 1, 0).provisioning = ProvisioningStatus::Error;
    let id = member(&mut state, 1, 0).id.clone();
    change(&mut state, &now);
    match repair::repair(&state, &now) {
        None => Done::Nothing,
        Some(Todo::Tree) => Done::Read,
        Some(Todo::ListenersAndPools) => panic!("no part is missing"),
        Some(Todo::Write(write, change)) => {
            let Write::Member {
                machine,
                port: 6443,
                operation,
            } = write
            else {
                panic!("{write:?}");
            };
            assert_eq!(machine, machine_name(1));
            match (operation, change) {
                (Operation::Repair, Change::UpdateMember { id: found, .. }) if found == id => {
                    Done::Push
                }
                (Operation::Delete, Change::DeleteMember { id: found, .. }) if found == id => {
                    Done::Delete
                }
                other => panic!("{other:?}"),
            }
        }
    }
}

#[test]
fn what_is_broken_gets_a_put_on_a_fresh_read_when_its_time_has_come() {
    let table: [(fn(&mut State, &Now), Done); 11] = [
        (|_, _| (), Done::Push),
        (
            |state, _| member(state, 1, 0).provisioning = ProvisioningStatus::Active,
            Done::Nothing,
        ),
        (
            |state, _| member(state, 1, 0).provisioning = ProvisioningStatus::PendingUpdate,
            Done::Nothing,
        ),
        (
            |state, now| lose(state, now, 0, ProvisioningStatus::PendingUpdate),
            Done::Push,
        ),
        (
            |state, now| {
                state.reads.tree_read_at.as_mut().unwrap().instant = ago(now, FRESH + STEP);
            },
            Done::Read,
        ),
        (
            |state, _| machine(state, 1).want.deletion = UNHOOKED,
            Done::Nothing,
        ),
        (
            |state, now| {
                let attempts = &mut machine(state, 1).slots[0].attempts;
                attempts.next = Some(now.instant + STEP);
            },
            Done::Nothing,
        ),
        (
            |state, now| machine(state, 1).slots[0].attempts.next = Some(now.instant),
            Done::Push,
        ),
        // Another member that is being created again comes first, unless its machine leaves.
        (
            |state, now| {
                let slot = &mut machine(state, 2).slots[1];
                (slot.member, slot.deleted) = (None, Some(now.instant));
            },
            Done::Nothing,
        ),
        (
            |state, now| {
                machine(state, 2).want.deletion = UNHOOKED;
                let slot = &mut machine(state, 2).slots[1];
                (slot.member, slot.deleted) = (None, Some(now.instant));
            },
            Done::Push,
        ),
        (
            |state, now| {
                machine(state, 2).slots[0].deleted = Some(now.instant);
                machine(state, 2).slots[1].member = None;
            },
            Done::Push,
        ),
    ];
    for (case, (change, expected)) in table.into_iter().enumerate() {
        assert_eq!(repaired(change), expected, "case {case}");
    }
}

#[test]
fn one_that_is_being_deleted_for_ever_is_deleted_again() {
    assert_eq!(
        repaired(|state, now| lose(state, now, 0, ProvisioningStatus::PendingDelete)),
        Done::Delete
    );
}

/// The second machine's member may be disabled, because its details were not read.
fn alone(state: &mut State) {
    member(state, 2, 0).detail = None;
}

#[test]
fn an_admitted_member_is_recreated_after_a_put_beside_one_that_serves() {
    let tried = |change: fn(&mut State)| {
        repaired(|state, _| {
            machine(state, 1).slots[0].put_tried = true;
            change(state);
        })
    };
    assert_eq!(tried(|_| ()), Done::Delete);
    assert_eq!(
        tried(|state| {
            let machine = machine(state, 1);
            (machine.want.admitted, machine.was_open) = (false, true);
        }),
        Done::Delete
    );
    let not_known_to_serve: [fn(&mut State); 5] = [
        alone,
        |state| machine(state, 1).slots[0].put_tried = false,
        |state| member(state, 2, 0).online.reads = 1,
        |state| machine(state, 2).want.server.state = ServerState::Shutoff,
        |state| machine(state, 2).want.deletion = UNHOOKED,
    ];
    for (case, change) in not_known_to_serve.into_iter().enumerate() {
        assert_eq!(tried(change), Done::Push, "case {case}");
    }
}

fn never_admitted(machine: &mut Machine) {
    (machine.want.admitted, machine.was_open) = (false, false);
}

#[test]
fn a_member_that_was_never_admitted_is_recreated_as_soon_as_no_client_needs_it() {
    let newcomer = |tried: bool, change: fn(&mut State)| {
        repaired(|state, _| {
            never_admitted(machine(state, 1));
            machine(state, 1).slots[0].put_tried = tried;
            change(state);
        })
    };
    assert_eq!(newcomer(false, |_| ()), Done::Delete);
    // The other member may be disabled, because its details were not read. A newcomer in ERROR is of no use to clients
    // either.
    assert_eq!(newcomer(false, alone), Done::Delete);
    let no_other: [fn(&mut State); 4] = [
        |state| weigh(state, 2, 0, 0, true),
        |state| machine(state, 2).want.api_server_pod = ObservedCondition::False,
        |state| machine(state, 2).slots[0].member = None,
        |state| machine(state, 2).want.deletion = UNHOOKED,
    ];
    // Beside an admitted machine that does not serve, the member gets a PUT of its own values, as often as necessary.
    for (case, change) in no_other.into_iter().enumerate() {
        assert_eq!(newcomer(false, change), Done::Push, "case {case}");
        assert_eq!(newcomer(true, change), Done::Push, "case {case}");
    }
    assert_eq!(
        newcomer(true, |state| {
            weigh(state, 2, 0, 0, true);
            never_admitted(machine(state, 2));
        }),
        Done::Delete
    );
}

/// Whether the third member of the first port is pruned, whose machine is not known.
fn pruned(change: impl FnOnce(&mut State, &Now)) -> Done {
    let (mut state, now) = state();
    let mut gone = member(&mut state, 1, 0).clone();
    gone.id = "orphan".into();
    gone.name = format!("{}cp-3", state.ports[0].prefix);
    gone.owner = Owner::NotHandedOver;
    state.ports[0].members.push(gone);
    let lookup = MachineLookup {
        changed_at: now.instant,
        under_way: false,
        absent: true,
    };
    state.lookups.insert("cp-3".to_owned(), lookup);
    change(&mut state, &now);
    match prune::prune(&state, &now) {
        None => Done::Nothing,
        Some(Todo::Tree) => Done::Read,
        Some(Todo::Write(Write::Prune { port: 6443, member }, Change::DeleteMember { id, .. })) => {
            assert_eq!((member.as_str(), id.as_str()), ("orphan", "orphan"));
            Done::Delete
        }
        Some(other) => panic!("{other:?}"),
    }
}

#[test]
fn a_member_is_pruned_whose_machine_is_confirmed_gone() {
    assert_eq!(pruned(|_, _| ()), Done::Delete);
    let kept: [fn(&mut State, &Now); 13] = [
        |state, _| state.ports[0].pool = None,
        |state, _| state.ports[0].ambiguous = Some("two".to_owned()),
        |state, _| {
            let pool = state.ports[0].pool.as_mut().unwrap();
            pool.state.provisioning = ProvisioningStatus::PendingUpdate;
        },
        |state, _| state.ports[0].members[2].owner = Owner::Unrelated,
        |state, _| state.ports[0].members[2].owner = Owner::AddressOnly,
        |state, _| state.ports[0].members[2].name = "cp-3".to_owned(),
        |state, _| state.ports[0].members[2].provisioning = ProvisioningStatus::PendingUpdate,
        |state, _| state.lookups.clear(),
        |state, _| state.lookups.get_mut("cp-3").unwrap().absent = false,
        |state, _| state.lookups.get_mut("cp-3").unwrap().under_way = true,
        |state, now| {
            let asked = &mut state.lookups.get_mut("cp-3").unwrap().changed_at;
            *asked = ago(now, LOOKUP_AGAIN + FRESH + STEP);
        },
        // No other machine is known to be able to serve.
        |state, _| {
            for index in [1, 2] {
                member(state, index, 0).detail = None;
            }
        },
        |state, _| {
            for index in [1, 2] {
                member(state, index, 0).provisioning = ProvisioningStatus::PendingCreate;
            }
        },
    ];
    for (case, change) in kept.into_iter().enumerate() {
        assert_eq!(pruned(change), Done::Nothing, "case {case}");
    }
    let is_orphaned = |reads: u32, span: Duration| {
        pruned(|state, now| {
            let member = &mut state.ports[0].members[2];
            member.provisioning = ProvisioningStatus::PendingDelete;
            member.pending_reads = ConsecutiveReads {
                first: Some(ago(now, span)),
                last: Some(now.instant),
                reads,
            };
        })
    };
    let span = state().0.orphan_span();
    assert_eq!(is_orphaned(3, span), Done::Delete);
    assert_eq!(is_orphaned(2, span), Done::Nothing);
    assert_eq!(is_orphaned(3, span.saturating_sub(STEP)), Done::Nothing);
    let aged = |age: Duration| {
        pruned(|state, now| state.reads.tree_read_at.as_mut().unwrap().instant = ago(now, age))
    };
    assert_eq!(aged(FRESH), Done::Delete);
    assert_eq!(aged(FRESH + STEP), Done::Read);
    let asked = LOOKUP_AGAIN + FRESH;
    assert_eq!(
        pruned(|state, now| state.lookups.get_mut("cp-3").unwrap().changed_at = ago(now, asked)),
        Done::Delete
    );
}
