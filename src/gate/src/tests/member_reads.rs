//! What a read of the status tree changes in what is known of members.

use std::time::Duration;

use crate::{
    apply::link::link,
    model::{
        effect::Effect,
        member::{MemberDetail, Owner},
        metric_event::MetricEvent,
        part::ConsecutiveReads,
        state::State,
    },
    tests::{
        pair::{machine, member, state, weigh},
        tree_reads::{after, pool, read},
        world::machine_name,
    },
};
use capo_core::{
    MemberStatus, OperatingStatus, ProvisioningStatus,
    octavia::{MonitorParameters, StatusTree, TreeMember},
};

fn transitions(effects: &[Effect]) -> Vec<(MemberStatus, MemberStatus)> {
    let found = effects.iter().filter_map(|effect| match effect {
        Effect::Record(MetricEvent::Transition { from, to, .. }) => Some((*from, *to)),
        _ => None,
    });
    found.collect()
}

#[test]
fn a_member_keeps_what_is_known_of_it_wherever_it_is_in_the_list() {
    let (mut state, mut now) = state();
    let known = |state: &mut State| {
        let found = member(state, 1, 0);
        (found.since, found.active_reads, found.detail.clone())
    };
    let before = known(&mut state);
    let effects = read(&mut state, &mut now, |tree| pool(tree, 0).members.reverse());
    assert_eq!(known(&mut state), before);
    assert_eq!(state.ports[0].members.len(), 2);
    assert_eq!(transitions(&effects), []);
    assert!(!state.ports[0].members_due);
}

#[test]
fn members_that_come_change_and_go_are_recorded() {
    use MemberStatus::{Active, Error, Missing, PendingCreate};
    let (state, effects) = after(
        |_| (),
        |tree| {
            let members = &mut pool(tree, 0).members;
            let mut new = members[0].clone();
            new.id = "new".into();
            new.name = "new".to_owned();
            new.provisioning_status = ProvisioningStatus::PendingCreate;
            members.push(new);
            members[0].provisioning_status = ProvisioningStatus::Error;
            pool(tree, 1).members.remove(1);
        },
    );
    let expected = [(Missing, PendingCreate), (Active, Error), (Active, Missing)];
    assert_eq!(transitions(&effects), expected);
    // Its weight and tags are in the list of members only.
    assert!(state.ports[0].members_due && !state.ports[1].members_due);
    let error = &state.ports[0].members[0];
    assert_eq!(
        (error.since, error.active_reads),
        (state.reads.tree_read_at.unwrap(), 0)
    );
}

#[test]
fn a_new_member_has_the_detail_that_the_answer_to_its_creation_had() {
    let detail = |id: &str| MemberDetail {
        id: id.into(),
        weight: 7,
        admin_up: false,
        tags: Vec::new(),
    };
    let (state, _) = after(
        |state| state.ports[0].details_ahead = vec![detail("other"), detail("new")],
        |tree| {
            let members = &mut pool(tree, 0).members;
            let mut new = members[0].clone();
            new.id = "new".into();
            members.push(new);
        },
    );
    let new = state.ports[0].members.last().unwrap();
    assert_eq!(new.detail, Some(detail("new")));
    assert_eq!(state.ports[0].details_ahead, [detail("other")]);
    let ids: Vec<String> = (1..=10).map(|number| number.to_string()).collect();
    let (state, _) = after(
        |state| state.ports[0].details_ahead = ids.iter().map(|id| detail(id)).collect(),
        |_| (),
    );
    let kept = state.ports[0].details_ahead.iter();
    let kept: Vec<&str> = kept.map(|kept| kept.id.as_str()).collect();
    assert_eq!(kept, ids[2..]);
}

#[test]
fn a_member_whose_name_address_or_port_changed_is_linked_again() {
    let changes: [fn(&mut TreeMember); 3] = [
        |member| member.name = "k8s-clusterapi-cluster-n-c-kubeapi-6443-gone".to_owned(),
        |member| member.address = Some([10, 0, 0, 99].into()),
        |member| member.protocol_port = 1,
    ];
    for (case, change) in changes.into_iter().enumerate() {
        let (mut state, _) = after(|_| (), |tree| change(&mut pool(tree, 0).members[0]));
        let linked = [1, 2].map(|index| machine(&mut state, index).slots[0].member);
        assert_eq!(linked.iter().flatten().count(), 1, "case {case}");
        assert_ne!(state.ports[0].members[0].owner, Owner::Ours, "case {case}");
    }
}

#[test]
fn health_counts_while_the_member_is_active() {
    let online = |change: fn(&mut TreeMember)| {
        let (mut state, mut now) = state();
        member(&mut state, 1, 0).online = ConsecutiveReads {
            first: Some(now.instant),
            last: Some(now.instant),
            reads: 3,
        };
        let index = machine(&mut state, 1).slots[0].member.unwrap();
        read(&mut state, &mut now, |tree| {
            change(&mut pool(tree, 0).members[index]);
        });
        let member = member(&mut state, 1, 0);
        let (run, down) = (member.online, member.down.reads);
        let span = run.last.zip(run.first).map(|(last, first)| last - first);
        (span.map(|span| (run.reads, span)), down)
    };
    let longer = Some((4, Duration::from_secs(5)));
    assert_eq!(online(|_| ()), (longer, 0));
    assert_eq!(
        online(|member| member.provisioning_status = ProvisioningStatus::PendingUpdate),
        (None, 0)
    );
    for status in [OperatingStatus::Error, OperatingStatus::Offline] {
        let (run, down) = online(match status {
            OperatingStatus::Error => |member| member.operating_status = OperatingStatus::Error,
            _ => |member| member.operating_status = OperatingStatus::Offline,
        });
        assert_eq!((run, down), (None, 1), "{status:?}");
    }
    assert_eq!(
        online(|member| member.operating_status = OperatingStatus::Draining),
        (None, 0)
    );
}

#[test]
fn a_member_is_found_down_only_while_it_gets_connections_and_a_monitor_checks_it() {
    let down = |change: fn(&mut State)| {
        let (mut state, mut now) = state();
        change(&mut state);
        let index = machine(&mut state, 1).slots[0].member.unwrap();
        let fall = |tree: &mut StatusTree| {
            pool(tree, 0).members[index].operating_status = OperatingStatus::Offline;
        };
        read(&mut state, &mut now, fall);
        member(&mut state, 1, 0).down.reads
    };
    assert_eq!(down(|_| ()), 1);
    let shows_nothing: [fn(&mut State); 4] = [
        |state| weigh(state, 1, 0, 1, false),
        |state| weigh(state, 1, 0, 0, true),
        |state| member(state, 1, 0).detail = None,
        |state| state.ports[0].monitor = None,
    ];
    for (case, change) in shows_nothing.into_iter().enumerate() {
        assert_eq!(down(change), 0, "case {case}");
    }
}

#[test]
fn a_left_over_member_is_counted_from_the_second_read_on() {
    let (mut state, mut now) = state();
    let gone = |state: &State| {
        let mut members = state.ports[0].members.iter();
        let found = members
            .find(|member| member.owner == Owner::NotHandedOver)
            .unwrap();
        found.ownerless_reads
    };
    state.machines.remove(&machine_name(1));
    link(&mut state);
    read(&mut state, &mut now, |_| ());
    assert_eq!(gone(&state), 1);
    // The read shows other members, so the owner of each is determined again.
    read(&mut state, &mut now, |tree| {
        let members = &mut pool(tree, 0).members;
        let mut new = members[0].clone();
        (new.id, new.name) = ("new".into(), "stranger".to_owned());
        members.push(new);
    });
    assert_eq!(gone(&state), 0);
    for reads in [1, 2, 3] {
        read(&mut state, &mut now, |_| ());
        assert_eq!(gone(&state), reads);
    }
    let mut owned = state.ports[0]
        .members
        .iter()
        .filter(|member| member.owner == Owner::Ours);
    assert!(owned.all(|member| member.ownerless_reads == 0));
}

#[test]
fn a_port_is_dark_while_a_monitor_finds_no_member_online() {
    let (mut state, mut now) = state();
    let dark = |state: &State| [0, 1].map(|port| state.ports[port].none_online.reads);
    read(&mut state, &mut now, |_| ());
    assert_eq!(dark(&state), [0, 0]);
    let down = |tree: &mut StatusTree| {
        for member in &mut pool(tree, 1).members {
            member.operating_status = OperatingStatus::Error;
        }
    };
    read(&mut state, &mut now, down);
    assert_eq!(dark(&state), [0, 1]);
    read(&mut state, &mut now, |tree| {
        down(tree);
        pool(tree, 1).members[0].operating_status = OperatingStatus::Online;
    });
    assert_eq!(dark(&state), [0, 0]);
    // No health monitor checks these members.
    read(&mut state, &mut now, |tree| {
        for member in &mut pool(tree, 1).members {
            member.operating_status = OperatingStatus::NoMonitor;
        }
    });
    assert_eq!(dark(&state), [0, 0]);
}

#[test]
fn a_member_that_is_steadily_online_shows_that_the_cluster_was_initialised() {
    let shown = |reads: u32, factor: f64| {
        let (mut state, mut now) = state();
        let span = state.online_span().mul_f64(factor);
        for member in state.ports.iter_mut().flat_map(|port| &mut port.members) {
            member.online = ConsecutiveReads::default();
        }
        let next = now.instant + Duration::from_secs(5);
        member(&mut state, 1, 0).online = ConsecutiveReads {
            first: Some(next.checked_sub(span).unwrap()),
            last: Some(now.instant),
            reads: reads - 1,
        };
        (state.answered, state.watched_since) = (false, None);
        read(&mut state, &mut now, |_| ());
        assert_eq!(state.watched_since, Some(now.instant));
        state.answered
    };
    assert!(shown(2, 1.0));
    assert!(!shown(2, 0.99));
    assert!(!shown(1, 1.0));
}

#[test]
fn a_member_is_online_for_as_long_as_the_slowest_monitor_takes_to_find_it_down() {
    let (mut state, _) = state();
    let desired = state.online_span();
    let monitor = state.desired.as_ref().unwrap().monitor;
    for (delay, expected) in [
        (
            monitor.delay + 50,
            desired + Duration::from_secs(u64::from(monitor.max_retries_down) * 50),
        ),
        (1, desired),
    ] {
        // The desired parameters have not reached the monitor of the second port yet.
        state.ports[1].monitor_parameters = Some(MonitorParameters { delay, ..monitor });
        assert_eq!(state.online_span(), expected);
    }
    state.ports[1].monitor_parameters = None;
    assert_eq!(state.online_span(), desired);
}

#[test]
fn a_pending_member_counts_as_lost_only_under_a_load_balancer_and_a_pool_that_are_active() {
    use ProvisioningStatus::{Active, PendingUpdate};
    for (balancer, above, reads) in [
        (Active, Active, 1),
        (Active, PendingUpdate, 0),
        (PendingUpdate, Active, 0),
    ] {
        let (state, _) = after(
            |_| (),
            |tree| {
                tree.provisioning_status = balancer.clone();
                let pool = pool(tree, 0);
                pool.provisioning_status = above.clone();
                pool.members[0].provisioning_status = PendingUpdate;
            },
        );
        let found = state.ports[0].members[0].pending_reads.reads;
        assert_eq!(found, reads, "{balancer:?} {above:?}");
    }
}
