//! Which left-over members are removed.

use std::time::{Duration, Instant};

use crate::{
    model::{
        call::Write,
        clock::Now,
        desired::Deletion,
        effect::Effect,
        machine::Stage,
        member::{Member, Owner},
        octavia::Change,
        state::{FRESH, MachineLookup, State},
    },
    plan::{
        prune::{LOOKUP_AGAIN, look_up, prune},
        todo::Todo,
    },
    tests::{
        pair::{STEP, ago, lose, machine, member, state},
        world::machine_name,
    },
};
use capo_core::{ProvisioningStatus, ids::MemberId};

const LEFT_OVER: &str = "left-over";

/// The member that is removed in a state in which a member of the first machine's name is left over at another address.
fn pruned(change: impl FnOnce(&mut State, &Now)) -> Option<MemberId> {
    let (mut state, now) = state();
    let left_over = Member {
        id: LEFT_OVER.into(),
        address: Some([10, 0, 0, 99].into()),
        owner: Owner::NameOnly,
        ownerless_reads: 2,
        ..member(&mut state, 1, 0).clone()
    };
    state.ports[0].members.push(left_over);
    change(&mut state, &now);
    match prune(&state, &now) {
        Some(Todo::Write(Write::Prune { port: 6443, .. }, Change::DeleteMember { id, .. })) => {
            Some(id)
        }
        None => None,
        other => panic!("{other:?}"),
    }
}

fn left_over(state: &mut State) -> &mut Member {
    state.ports[0].members.last_mut().unwrap()
}

#[test]
fn a_member_at_an_address_that_its_machine_no_longer_has_goes_when_another_one_replaces_it() {
    let pending = |state: &mut State| {
        member(state, 1, 0).provisioning = ProvisioningStatus::PendingCreate;
    };
    let cases: [(fn(&mut State, &Now), bool); 9] = [
        (|_, _| (), true),
        (|state, _| left_over(state).ownerless_reads = 1, false),
        (|state, _| machine(state, 1).want.paused = true, false),
        (|state, _| left_over(state).owner = Owner::Unrelated, false),
        (
            |state, _| left_over(state).owner = Owner::AddressOnly,
            false,
        ),
        (|state, _| state.machines.clear(), false),
        (
            |state, _| left_over(state).provisioning = ProvisioningStatus::PendingUpdate,
            false,
        ),
        (
            |state, _| state.ports[0].ambiguous = Some("twice".to_owned()),
            false,
        ),
        (
            |state, _| {
                let pool = state.ports[0].pool.as_mut().unwrap();
                pool.state.provisioning = ProvisioningStatus::PendingUpdate;
            },
            false,
        ),
    ];
    for (case, (change, expected)) in cases.into_iter().enumerate() {
        assert_eq!(pruned(change).is_some(), expected, "case {case}");
    }
    assert_eq!(pruned(|state, _| pending(state)), None);
    let leaving = pruned(|state, _| {
        pending(state);
        machine(state, 1).want.deletion = Deletion::BeforeHook {
            since: jiff::Timestamp::UNIX_EPOCH,
        };
        machine(state, 1).stage = Stage::Draining;
    });
    assert_eq!(leaving, Some(LEFT_OVER.into()));
    let is_orphaned = pruned(|state, now| {
        let provisioning = ProvisioningStatus::PendingUpdate;
        lose(state, now, 1, provisioning.clone());
        let pending_reads = member(state, 1, 1).pending_reads;
        left_over(state).provisioning = provisioning;
        left_over(state).pending_reads = pending_reads;
    });
    assert_eq!(is_orphaned, Some(LEFT_OVER.into()));
}

#[test]
fn the_member_of_a_machine_that_is_gone_goes_after_a_lookup_of_a_moment_ago() {
    let looked_up = |age: Duration, under_way: bool, absent: bool| {
        pruned(|state, now| {
            let lookup = MachineLookup {
                changed_at: ago(now, age),
                under_way,
                absent,
            };
            state.lookups.insert("gone".to_owned(), lookup);
            let name = format!("{}gone", state.ports[0].prefix);
            let member = left_over(state);
            member.name = name;
            member.owner = Owner::NotHandedOver;
        })
        .is_some()
    };
    let oldest = LOOKUP_AGAIN + FRESH;
    assert!(looked_up(Duration::ZERO, false, true));
    assert!(looked_up(oldest, false, true));
    assert!(!looked_up(oldest + STEP, false, true));
    assert!(!looked_up(Duration::ZERO, true, true));
    assert!(!looked_up(Duration::ZERO, false, false));
}

#[test]
fn a_machine_is_looked_up_when_two_reads_showed_its_member_and_again_after_a_while() {
    let looks_up = |change: fn(&mut State, &Now)| {
        let (mut state, now) = state();
        let name = format!("{}gone", state.ports[0].prefix);
        let gone = member(&mut state, 2, 0);
        (gone.name, gone.owner, gone.ownerless_reads) = (name, Owner::NotHandedOver, 2);
        change(&mut state, &now);
        let mut effects = Vec::new();
        look_up(&mut state, &now, &mut effects);
        let expected = Effect::LookUp {
            machine: "gone".to_owned(),
        };
        assert!(
            effects.iter().all(|effect| *effect == expected),
            "{effects:?}"
        );
        effects.len()
    };
    let known = |state: &mut State, changed_at: Instant, under_way: bool| {
        let lookup = MachineLookup {
            changed_at,
            under_way,
            absent: true,
        };
        state.lookups.insert("gone".to_owned(), lookup);
    };
    assert_eq!(looks_up(|_, _| ()), 1);
    assert_eq!(
        looks_up(|state, _| member(state, 2, 0).ownerless_reads = 1),
        0
    );
    assert_eq!(
        looks_up(|state, _| member(state, 2, 0).owner = Owner::Unrelated),
        0
    );
    assert_eq!(
        looks_up(|state, _| state.desired.as_mut().unwrap().cluster.paused = true),
        0
    );
    assert_eq!(
        looks_up(|state, _| state.claimed_by = Some(machine_name(9))),
        0
    );
    assert_eq!(
        looks_up(|state, _| {
            let prefix = state.ports[0].prefix.clone();
            member(state, 2, 0).name = prefix;
        }),
        0
    );
    let again = |age: Duration, under_way: bool| {
        let (mut state, now) = state();
        let name = format!("{}gone", state.ports[0].prefix);
        let gone = member(&mut state, 2, 0);
        (gone.name, gone.owner, gone.ownerless_reads) = (name, Owner::NotHandedOver, 2);
        known(&mut state, ago(&now, age), under_way);
        let mut effects = Vec::new();
        look_up(&mut state, &now, &mut effects);
        effects.len()
    };
    assert_eq!(again(LOOKUP_AGAIN, false), 1);
    assert_eq!(again(LOOKUP_AGAIN.saturating_sub(STEP), false), 0);
    assert_eq!(again(LOOKUP_AGAIN, true), 0);
    // The lookups of members that are gone are forgotten.
    let (mut state, now) = state();
    known(&mut state, now.instant, false);
    look_up(&mut state, &now, &mut Vec::new());
    assert!(state.lookups.is_empty());
}
