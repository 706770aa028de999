//! Which machine a member belongs to, and what lists and absences change.

use std::time::{Duration, Instant};

use crate::{
    apply::{link, lists},
    model::{
        attempts::{Attempts, Refusal},
        call::Operation,
        clock::Stamp,
        effect::Effect,
        member::Owner,
        metric_event::MetricEvent,
        octavia::ListenersAndPools,
        part::PartKind,
        state::State,
    },
    tests::pair::{STEP, ago, machine, member, state},
};
use capo_core::{
    FailureClass, Provider, ProvisioningStatus,
    octavia::{Listener, Member, Pool},
};

fn linked(change: impl FnOnce(&mut State)) -> State {
    let (mut state, _) = state();
    change(&mut state);
    link::link(&mut state);
    state
}

#[test]
fn a_name_decides_before_an_address() {
    let cases: [(fn(&mut State), Owner); 6] = [
        (|_| (), Owner::Ours),
        (
            |state| member(state, 1, 0).address = Some([10, 0, 0, 99].into()),
            Owner::NameOnly,
        ),
        (|state| member(state, 1, 0).port = 1, Owner::NameOnly),
        (
            |state| member(state, 1, 0).name = "by hand".to_owned(),
            Owner::AddressOnly,
        ),
        (
            |state| {
                let found = member(state, 1, 0);
                found.name = "by hand".to_owned();
                found.address = Some([10, 0, 0, 99].into());
            },
            Owner::Unrelated,
        ),
        (
            // A machine that had the address before is gone, and its member still exists.
            |state| member(state, 1, 0).name.push_str("-before"),
            Owner::NotHandedOver,
        ),
    ];
    for (case, (change, owner)) in cases.into_iter().enumerate() {
        let index = machine(&mut state().0, 1).slots[0].member.unwrap();
        let mut state = linked(change);
        let found = &state.ports[0].members[index];
        assert_eq!(found.owner, owner, "case {case}");
        let at_address = matches!(owner, Owner::AddressOnly | Owner::NotHandedOver);
        let slot = &machine(&mut state, 1).slots[0];
        assert_eq!(slot.member.is_some(), owner == Owner::Ours, "case {case}");
        assert_eq!(slot.foreign.is_some(), at_address, "case {case}");
        assert!(!slot.has_duplicates);
    }
    // For a machine without an address, every member of its port with its name is its own, and no other member is.
    let mut nowhere = linked(|state| {
        machine(state, 1).want.address = None;
        member(state, 2, 0).name = "by hand".to_owned();
    });
    let slot = &machine(&mut nowhere, 1).slots[0];
    assert!(slot.member.is_some() && slot.foreign.is_none());
}

#[test]
fn two_members_of_one_machine_are_noticed_and_a_refusal_ends_with_the_member() {
    let mut linked_twice = linked(|state| {
        let mut twin = member(state, 1, 0).clone();
        twin.id = "twin".into();
        state.ports[0].members.push(twin);
    });
    assert!(machine(&mut linked_twice, 1).slots[0].has_duplicates);
    assert!(!machine(&mut linked_twice, 1).slots[1].has_duplicates);
    let refusal = || {
        Some(Refusal {
            class: FailureClass::Quota,
            message: String::new(),
            since: Instant::now(),
        })
    };
    for (was_there, is_there, is_kept) in [
        (false, true, false),
        (true, true, true),
        (false, false, true),
    ] {
        let mut state = linked(|state| {
            if !is_there {
                member(state, 1, 0).name = "gone".to_owned();
            }
            let slot = &mut machine(state, 1).slots[0];
            slot.refusal = refusal();
            slot.was_seen = false;
            slot.member = slot.member.filter(|_| was_there);
        });
        let slot = &machine(&mut state, 1).slots[0];
        assert_eq!(slot.refusal.is_some(), is_kept, "{was_there} {is_there}");
        assert_eq!(slot.was_seen, is_there);
    }
}

#[test]
fn linked_members_are_counted() {
    let (mut state, _) = state();
    assert_eq!(link::count_linked(&state), 4);
    machine(&mut state, 1).slots[1].member = None;
    assert_eq!(link::count_linked(&state), 3);
}

#[test]
fn the_time_to_removed_is_recorded_in_the_second_read_without_the_member() {
    let (mut state, now) = state();
    let slot = &mut machine(&mut state, 1).slots[0];
    slot.member = None;
    slot.deleted = Some(ago(&now, Duration::from_secs(3)));
    let recorded = |state: &mut State| {
        let mut effects = Vec::new();
        link::count_absences(state, now.stamp(), &mut effects);
        effects
    };
    let removed = Effect::Record(MetricEvent::TimeToRemoved(
        Provider::Amphora,
        Duration::from_secs(3),
    ));
    assert_eq!(recorded(&mut state), []);
    assert_eq!(recorded(&mut state), [removed]);
    assert_eq!(recorded(&mut state), []);
    assert_eq!(machine(&mut state, 1).slots[0].absent_reads, 3);
    state.reads.suspect = true;
    assert_eq!(recorded(&mut state), []);
    assert_eq!(machine(&mut state, 1).slots[0].absent_reads, 3);
}

/// The first machine's slot after a read in which its member has been ACTIVE for `calm`.
fn active(calm: Duration, change: impl FnOnce(&mut State)) -> (State, Vec<Effect>) {
    let (mut state, now) = state();
    member(&mut state, 1, 0).since = Stamp {
        instant: ago(&now, calm),
        wall: now.wall,
    };
    let slot = &mut machine(&mut state, 1).slots[0];
    slot.absent_reads = 1;
    slot.put_tried = true;
    slot.attempts = Attempts::inherited(now.instant);
    slot.posted = Some((ago(&now, Duration::from_secs(2)), Operation::Create));
    change(&mut state);
    let mut effects = Vec::new();
    link::count_absences(&mut state, now.stamp(), &mut effects);
    (state, effects)
}

#[test]
fn a_member_that_became_active_ends_the_repairs_once_it_has_stayed_so() {
    let (settings, _) = state();
    let calm = settings.settings.warn_after;
    for (calm, made) in [(calm, 0), (calm.checked_sub(STEP).unwrap(), 1)] {
        let (mut state, effects) = active(calm, |_| ());
        let slot = &machine(&mut state, 1).slots[0];
        assert_eq!((slot.absent_reads, slot.put_tried), (0, false));
        assert_eq!(slot.attempts.count, made, "{calm:?}");
        assert!(slot.posted.is_none());
        let became =
            MetricEvent::TimeToActive(Provider::Amphora, Operation::Create, Duration::from_secs(2));
        assert_eq!(effects, [Effect::Record(became)]);
    }
    // A member whose deletion was accepted reads ACTIVE until Octavia begins with it.
    let (mut deleted, _) = active(calm, |state| {
        let slot = &mut machine(state, 1).slots[0];
        slot.deleted = slot.posted.map(|(sent, _)| sent);
    });
    let slot = &machine(&mut deleted, 1).slots[0];
    assert!(slot.put_tried && slot.attempts.count == 1);
    let (mut pending, effects) = active(calm, |state| {
        member(state, 1, 0).provisioning = ProvisioningStatus::PendingUpdate;
    });
    let slot = &machine(&mut pending, 1).slots[0];
    assert!(slot.put_tried && slot.posted.is_some() && slot.absent_reads == 0);
    assert_eq!(effects, []);
}

/// The lists of listeners and pools of a state.
fn listeners_and_pools_of(state: &State) -> ListenersAndPools {
    let pool = |port: &crate::model::port::Port| port.pool.as_ref().unwrap().id.clone();
    let listeners = state.ports.iter().map(|port| Listener {
        id: port.listener.as_ref().unwrap().id.clone(),
        name: port.name.clone(),
        protocol_port: port.number,
        default_pool_id: Some(pool(port)),
        ..Listener::default()
    });
    let pools = state.ports.iter().map(|port| Pool {
        id: pool(port),
        name: port.name.clone(),
        healthmonitor_id: port.monitor.as_ref().map(|monitor| monitor.id.clone()),
        ..Pool::default()
    });
    ListenersAndPools {
        listeners: listeners.collect(),
        pools: pools.collect(),
    }
}

/// The state after the lists were read, while the tree shows less than the lists.
fn listed(unread: fn(&mut State), change: fn(&mut ListenersAndPools)) -> State {
    let (mut state, now) = state();
    let mut lists = listeners_and_pools_of(&state);
    unread(&mut state);
    change(&mut lists);
    state.reads.listeners_and_pools_due = true;
    lists::listeners_and_pools(&mut state, now.stamp(), &lists);
    assert_eq!(state.reads.listeners_and_pools_read_at, Some(now.instant));
    assert!(!state.reads.listeners_and_pools_due);
    state
}

#[test]
fn the_lists_show_what_the_tree_does_not_show_yet() {
    let cases: [(fn(&mut State), Option<PartKind>); 4] = [
        (|_| (), None),
        (
            |state| state.ports[1].listener = None,
            Some(PartKind::Listener),
        ),
        (
            |state| state.ports[1].monitor = None,
            Some(PartKind::Monitor),
        ),
        (
            |state| {
                state.ports[1].pool = None;
                state.ports[1].monitor = None;
            },
            None,
        ),
    ];
    for (case, (unread, unseen)) in cases.into_iter().enumerate() {
        let state = listed(unread, |_| ());
        assert_eq!(state.ports[1].unseen, unseen, "case {case}");
        assert_eq!(state.ports[0].unseen, None, "case {case}");
        // A pool that no listener refers to is not in the tree.
        let is_stray = state.ports[1].pool.is_none();
        assert_eq!(state.ports[1].stray_pool.is_some(), is_stray, "case {case}");
    }
    let without = listed(
        |state| state.ports[1].monitor = None,
        |lists| lists.pools[1].healthmonitor_id = None,
    );
    assert_eq!(without.ports[1].unseen, None);
}

#[test]
fn the_lists_show_what_is_ambiguous() {
    let ambiguous =
        |change: fn(&mut ListenersAndPools)| listed(|_| (), change).ports[1].ambiguous.clone();
    let says = |change: fn(&mut ListenersAndPools), words: &str| {
        let found = ambiguous(change);
        assert!(
            found.as_ref().is_some_and(|text| text.contains(words)),
            "{words}: {found:?}"
        );
    };
    assert_eq!(ambiguous(|_| ()), None);
    says(
        |lists| {
            lists.listeners.push(lists.listeners[1].clone());
        },
        "more than one listener",
    );
    says(
        |lists| {
            lists.pools.push(lists.pools[1].clone());
        },
        "more than one pool",
    );
    says(
        |lists| lists.listeners[1].name = "another".to_owned(),
        "which k8s-clusterapi-cluster-n-c-kubeapi-8132 needs",
    );
    says(
        |lists| {
            lists.listeners[1].default_pool_id = Some("another".into());
        },
        "another default pool",
    );
    says(|lists| drop(lists.pools.remove(1)), "another default pool");
    assert_eq!(
        ambiguous(|lists| lists.listeners[1].default_pool_id = None),
        None
    );
    // A listener of another port, which capo-rs does not manage, makes nothing ambiguous.
    let other = |lists: &mut ListenersAndPools| {
        let mut other = lists.listeners[1].clone();
        (other.name, other.protocol_port) = ("another".to_owned(), 1);
        lists.listeners.push(other);
    };
    assert_eq!(ambiguous(other), None);
    let cleared = listed(
        |state| state.ports[1].ambiguous = Some("old".to_owned()),
        |_| (),
    );
    assert_eq!(cleared.ports[1].ambiguous, None);
}

#[test]
fn a_list_of_members_is_of_one_port_and_of_members_that_are_known() {
    let (mut state, now) = state();
    let listed = |id: &capo_core::ids::MemberId| Member {
        id: id.clone(),
        weight: 9,
        ..Member::default()
    };
    let id = member(&mut state, 1, 1).id.clone();
    for port in &mut state.ports {
        (port.listed, port.members_due) = (None, true);
    }
    let members = vec![listed(&id), listed(&"unknown".into())];
    lists::members(&mut state, 8132, now.stamp(), members);
    assert_eq!(member(&mut state, 1, 1).detail, Some(listed(&id).into()));
    assert_eq!(member(&mut state, 2, 1).weight(), Some(1));
    assert_eq!(state.ports[1].listed, Some(now.instant));
    assert!(!state.ports[1].members_due && state.ports[0].members_due);
    assert_eq!(state.ports[0].listed, None);
    lists::members(&mut state, 1, now.stamp(), Vec::new());
    assert!(state.ports[0].members_due);
}
