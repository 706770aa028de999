//! What a read of the status tree changes in the state, apart from members (`member_reads`).

use std::time::Duration;

use crate::{
    apply::read,
    model::{
        clock::{Now, Stamp},
        effect::Effect,
        port::Port,
        state::State,
    },
    tests::{
        pair::{machine, state},
        written::PARAMETERS,
    },
};
use capo_core::{
    OperatingStatus, ProvisioningStatus,
    octavia::{StatusTree, TreeListener, TreeMember, TreeMonitor, TreePool},
};

/// The tree that was read last.
pub(crate) fn tree_of(state: &State) -> StatusTree {
    let listener = |port: &Port| {
        let part = port.listener.as_ref().unwrap();
        TreeListener {
            id: part.id.clone(),
            name: port.name.clone(),
            provisioning_status: part.state.provisioning.clone(),
            pools: port.pool.iter().map(|pool| pool.id.clone()).collect(),
            ..TreeListener::default()
        }
    };
    let pool = |port: &Port| {
        let part = port.pool.as_ref().unwrap();
        let monitor = port.monitor.as_ref().map(|monitor| TreeMonitor {
            id: monitor.id.clone(),
            monitor_type: port.monitor_type.clone(),
            provisioning_status: monitor.state.provisioning.clone(),
            ..TreeMonitor::default()
        });
        let members = port.members.iter().map(|member| TreeMember {
            id: member.id.clone(),
            name: member.name.clone(),
            address: member.address,
            protocol_port: member.port,
            provisioning_status: member.provisioning.clone(),
            operating_status: member.operating.clone(),
        });
        TreePool {
            id: part.id.clone(),
            name: port.name.clone(),
            provisioning_status: part.state.provisioning.clone(),
            health_monitor: monitor,
            members: members.collect(),
            ..TreePool::default()
        }
    };
    StatusTree {
        provisioning_status: ProvisioningStatus::Active,
        operating_status: OperatingStatus::Online,
        listeners: state.ports.iter().map(listener).collect(),
        pools: state.ports.iter().map(pool).collect(),
        ..StatusTree::default()
    }
}

/// Applies another read, some seconds after the last one.
pub(crate) fn read(
    state: &mut State,
    now: &mut Now,
    change: impl FnOnce(&mut StatusTree),
) -> Vec<Effect> {
    now.instant += Duration::from_secs(5);
    let mut tree = tree_of(state);
    change(&mut tree);
    let mut effects = Vec::new();
    read::tree(state, now.stamp(), &tree, &mut effects);
    effects
}

pub(crate) fn pool(tree: &mut StatusTree, port: usize) -> &mut TreePool {
    &mut tree.pools[port]
}

/// Makes another pool of the same name the pool of the listener.
fn set_pool(tree: &mut StatusTree, port: usize, id: &str) {
    tree.listeners[port].pools = vec![id.into()];
    pool(tree, port).id = id.into();
}

/// The state after one more read.
pub(crate) fn after(
    prepare: impl FnOnce(&mut State),
    change: impl FnOnce(&mut StatusTree),
) -> (State, Vec<Effect>) {
    let (mut state, mut now) = state();
    prepare(&mut state);
    state.reads.listeners_and_pools_due = false;
    for port in &mut state.ports {
        (port.members_due, port.monitor_parameters_due) = (false, false);
    }
    let effects = read(&mut state, &mut now, change);
    assert_eq!(state.reads.tree_read_at, Some(now.stamp()));
    (state, effects)
}

#[test]
fn members_that_are_all_gone_at_once_are_believed_gone_in_the_second_read() {
    let (mut state, mut now) = state();
    let without = |tree: &mut StatusTree| {
        for port in 0..2 {
            pool(tree, port).members.clear();
        }
    };
    let absences = |state: &State| {
        let slots = state.machines.values().flat_map(|machine| &machine.slots);
        slots.map(|slot| slot.absent_reads).collect::<Vec<_>>()
    };
    read(&mut state, &mut now, without);
    assert!(state.reads.suspect);
    assert_eq!(absences(&state), [0, 0, 0, 0]);
    read(&mut state, &mut now, without);
    assert!(!state.reads.suspect);
    assert_eq!(absences(&state), [1, 1, 1, 1]);
    // A member that was absent before does not make a read suspect.
    read(&mut state, &mut now, without);
    assert!(!state.reads.suspect);
    assert_eq!(absences(&state), [2, 2, 2, 2]);
}

#[test]
fn members_that_no_machine_had_are_not_missed() {
    let (mut state, mut now) = state();
    for port in &mut state.ports {
        port.members.clear();
    }
    for slot in state
        .machines
        .values_mut()
        .flat_map(|machine| &mut machine.slots)
    {
        slot.member = None;
    }
    read(&mut state, &mut now, |tree| {
        let stranger = TreeMember {
            id: "stranger".into(),
            name: "stranger".to_owned(),
            ..TreeMember::default()
        };
        pool(tree, 0).members.push(stranger);
    });
    assert!(!state.reads.suspect);
}

#[test]
fn members_that_go_one_by_one_or_because_we_deleted_them_are_believed_gone_at_once() {
    let without = |tree: &mut StatusTree| {
        for port in 0..2 {
            pool(tree, port).members.clear();
        }
    };
    let deleted = |state: &mut State| {
        let now = std::time::Instant::now();
        machine(state, 1).slots[1].deleted = Some(now);
    };
    assert!(!after(deleted, without).0.reads.suspect);
    let (one, _) = after(|_| (), |tree| drop(pool(tree, 0).members.remove(0)));
    assert!(!one.reads.suspect);
    let missing = one.machines.values().flat_map(|machine| &machine.slots);
    assert_eq!(missing.filter(|slot| slot.absent_reads == 1).count(), 1);
}

#[test]
fn a_part_that_vanished_has_the_structure_read() {
    let (same, _) = after(|_| (), |_| ());
    assert!(!same.reads.listeners_and_pools_due);
    let vanished: [fn(&mut StatusTree); 3] = [
        |tree| drop(tree.listeners.remove(1)),
        |tree| tree.listeners[1].pools.clear(),
        |tree| pool(tree, 1).health_monitor = None,
    ];
    for (case, change) in vanished.into_iter().enumerate() {
        let (state, _) = after(|_| (), change);
        assert!(state.reads.listeners_and_pools_due, "case {case}");
        let port = &state.ports[1];
        assert_eq!(port.listener.is_some(), case != 0);
        assert_eq!(port.pool.is_some(), case == 2);
        assert!(port.monitor.is_none());
    }
}

#[test]
fn what_is_broken_in_the_first_read_of_a_process_counts_as_repaired_once() {
    use ProvisioningStatus::{Active, Error, PendingCreate, PendingUpdate};
    for (balancer, member, is_first, inherits) in [
        (Active, Error, true, true),
        (PendingUpdate, Error, true, true),
        (Active, PendingCreate, true, true),
        (PendingUpdate, PendingCreate, true, false),
        (Active, Active, true, false),
        (Active, Error, false, false),
    ] {
        let (state, _) = after(
            |state| {
                if is_first {
                    state.reads.tree_read_at = None;
                }
            },
            |tree| {
                tree.provisioning_status = balancer.clone();
                pool(tree, 0).members[0].provisioning_status = member.clone();
            },
        );
        let index = state.ports[0]
            .members
            .iter()
            .position(|found| found.provisioning == member);
        let attempts = |state: &State| {
            let machines = state.machines.values();
            machines
                .map(|machine| machine.slots[0].attempts.count)
                .sum::<u32>()
        };
        assert!(index.is_some());
        assert_eq!(
            attempts(&state),
            u32::from(inherits),
            "{balancer:?} {member:?}"
        );
        let second = state
            .machines
            .values()
            .map(|machine| machine.slots[1].attempts.count);
        assert_eq!(second.sum::<u32>(), 0);
    }
}

#[test]
fn two_of_one_name_are_ambiguous_and_one_that_is_listed_twice_is_not() {
    let ambiguous =
        |change: fn(&mut StatusTree)| after(|_| (), change).0.ports[1].ambiguous.clone();
    let another_listener = |tree: &mut StatusTree| {
        let mut another = tree.listeners[1].clone();
        another.id = "another".into();
        tree.listeners.push(another);
    };
    assert!(ambiguous(another_listener).is_some_and(|text| text.contains("listener")));
    let another_pool = |tree: &mut StatusTree| {
        let mut another = pool(tree, 1).clone();
        another.id = "another".into();
        tree.listeners[1].pools.push(another.id.clone());
        tree.pools.push(another);
    };
    assert!(ambiguous(another_pool).is_some_and(|text| text.contains("pool")));
    let same_pool = |tree: &mut StatusTree| {
        let again = pool(tree, 1).id.clone();
        tree.listeners[1].pools.push(again);
    };
    assert_eq!(ambiguous(same_pool), None);
    let other_name = |tree: &mut StatusTree| {
        let mut another = pool(tree, 1).clone();
        another.id = "another".into();
        another.name = "another".to_owned();
        tree.listeners[1].pools.insert(0, another.id.clone());
        tree.pools.insert(0, another);
    };
    assert_eq!(ambiguous(other_name), None);
}

#[test]
fn what_only_the_list_shows_to_be_ambiguous_stays_so_until_the_listener_is_another_one() {
    let listed = |state: &mut State| state.ports[1].ambiguous = Some("listed".to_owned());
    let (kept, _) = after(listed, |_| ());
    assert_eq!(kept.ports[1].ambiguous.as_deref(), Some("listed"));
    let (gone, _) = after(listed, |tree| drop(tree.listeners.remove(1)));
    assert_eq!(gone.ports[1].ambiguous.as_deref(), Some("listed"));
    // It was absent in the read before.
    let (mut state, mut now) = state();
    let whole = tree_of(&state);
    read(&mut state, &mut now, |tree| drop(tree.listeners.remove(1)));
    listed(&mut state);
    let mut effects = Vec::new();
    read::tree(&mut state, now.stamp(), &whole, &mut effects);
    assert_eq!(state.ports[1].ambiguous, None);
}

#[test]
fn another_pool_or_monitor_has_what_the_tree_lacks_read() {
    let due = |state: &State| {
        let ports = state.ports.iter();
        ports
            .map(|port| (port.members_due, port.monitor_parameters_due))
            .collect::<Vec<_>>()
    };
    let (nothing_new, _) = after(
        |state| state.ports[1].monitor_parameters = Some(PARAMETERS),
        |_| (),
    );
    assert_eq!(due(&nothing_new), [(false, false); 2]);
    assert_eq!(nothing_new.ports[1].monitor_parameters, Some(PARAMETERS));
    let (another_pool, _) = after(|_| (), |tree| set_pool(tree, 1, "another"));
    assert_eq!(due(&another_pool), [(false, false), (true, false)]);
    let (another_monitor, _) = after(
        |_| (),
        |tree| pool(tree, 1).health_monitor.as_mut().unwrap().id = "another".into(),
    );
    assert_eq!(due(&another_monitor), [(false, false), (false, true)]);
    assert_eq!(another_monitor.ports[1].monitor_parameters, None);
    let (without, _) = after(|_| (), |tree| pool(tree, 1).health_monitor = None);
    assert_eq!(due(&without), [(false, false), (false, true)]);
    // The delay, timeout and retry counts of a monitor that this process has just created are known.
    let (mut state, mut now) = state();
    let whole = tree_of(&state);
    read(&mut state, &mut now, |tree| {
        pool(tree, 1).health_monitor = None;
    });
    state.ports[1].monitor_parameters_due = false;
    read::tree(&mut state, now.stamp(), &whole, &mut Vec::new());
    assert!(!state.ports[1].monitor_parameters_due);
}

#[test]
fn a_part_has_its_status_since_the_read_that_first_showed_it() {
    let (mut state, mut now) = state();
    let since = |state: &State| {
        let port = &state.ports[1];
        let pool = port.pool.as_ref().unwrap();
        (pool.state.since, pool.state.pending_reads.reads)
    };
    let (before, _) = since(&state);
    read(&mut state, &mut now, |_| ());
    assert_eq!(since(&state), (before, 0));
    let pending = |tree: &mut StatusTree| {
        pool(tree, 1).provisioning_status = ProvisioningStatus::PendingUpdate;
    };
    read(&mut state, &mut now, pending);
    let changed = now.stamp();
    assert_eq!(since(&state), (changed, 1));
    read(&mut state, &mut now, pending);
    assert_eq!(since(&state), (changed, 2));
    // While the load balancer itself is PENDING, Octavia is still executing the operation.
    read(&mut state, &mut now, |tree| {
        pending(tree);
        tree.provisioning_status = ProvisioningStatus::PendingUpdate;
    });
    assert_eq!(since(&state), (changed, 0));
    read(&mut state, &mut now, pending);
    read(&mut state, &mut now, |tree| {
        pending(tree);
        set_pool(tree, 1, "another");
    });
    assert_eq!(since(&state), (now.stamp(), 1));
}

#[test]
fn the_load_balancer_has_its_status_since_the_read_that_first_showed_it() {
    let (mut state, mut now) = state();
    let before = state.balancer.since;
    state.balancer.not_found = 1;
    read(&mut state, &mut now, |tree| {
        tree.operating_status = OperatingStatus::Degraded;
    });
    assert_eq!(state.balancer.since, before);
    assert_eq!(state.balancer.operating, Some(OperatingStatus::Degraded));
    assert_eq!(state.balancer.not_found, 0);
    read(&mut state, &mut now, |tree| {
        tree.provisioning_status = ProvisioningStatus::Error;
    });
    assert_eq!(state.balancer.since, Some(now.stamp()));
    assert_eq!(state.balancer.provisioning, Some(ProvisioningStatus::Error));
}

#[test]
fn a_load_balancer_is_absent_in_the_second_read_that_does_not_find_it() {
    let (mut state, now) = state();
    let at = |seconds: u64| Stamp {
        instant: now.instant + Duration::from_secs(seconds),
        wall: now.wall,
    };
    let before = state.reads.tree_read_at;
    state.reads.listeners_and_pools_due = false;
    state.watched_since = None;
    read::not_found(&mut state, at(1));
    assert_eq!(
        (state.reads.tree_read_at, state.balancer.not_found),
        (before, 1)
    );
    assert!(state.ports.iter().all(|port| port.members.len() == 2));
    assert!(!state.reads.listeners_and_pools_due && state.watched_since.is_none());
    read::not_found(&mut state, at(2));
    assert!(state.balancer.is_absent() && state.reads.listeners_and_pools_due);
    assert_eq!(state.reads.tree_read_at, Some(at(2)));
    assert_eq!(state.balancer.since, Some(at(2)));
    assert_eq!(state.watched_since, Some(at(2).instant));
    assert!(state.balancer.provisioning.is_none() && state.balancer.operating.is_none());
    for port in &state.ports {
        assert!(port.members.is_empty() && port.listener.is_none());
        assert!(port.name.ends_with(&port.number.to_string()));
    }
    let slots = state.machines.values().flat_map(|machine| &machine.slots);
    assert!(
        slots
            .into_iter()
            .all(|slot| slot.member.is_none() && slot.absent_reads == 2)
    );
    state.reads.listeners_and_pools_due = false;
    state.reads.suspect = true;
    read::not_found(&mut state, at(3));
    assert_eq!(state.reads.tree_read_at, Some(at(3)));
    assert_eq!(state.balancer.since, Some(at(2)));
    assert!(!state.reads.listeners_and_pools_due && !state.reads.suspect);
}
