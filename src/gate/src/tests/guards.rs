//! The conditions that the rules depend on, one by one: which machine serves, which one may, what may be removed, what
//! is fresh.

use std::time::Duration;

use crate::{
    decide::{
        freshness::{lists_are_fresh, port_is_listed},
        serving,
    },
    model::{
        clock::Now,
        decision::{GateCause, GateDecision},
        desired::{Deletion, ObservedCondition, ServerState},
        evidence::{Evidence, Lack, Others, Serving, Want},
        machine::Stage,
        part::ConsecutiveReads,
        port::{IndexedPort, Port},
        state::{FRESH, State},
    },
    plan::removal_guard::may_remove,
    tests::{
        pair::{STEP, UNHOOKED, ago, darken, machine, member, state, weigh},
        world::machine_name,
    },
};
use capo_core::{Lookup, OperatingStatus, ProvisioningStatus};

/// Whether the first machine's member of the first port may be removed.
fn removes(is_owned: bool, change: impl FnOnce(&mut State)) -> bool {
    let (mut state, now) = state();
    change(&mut state);
    let owner = state.machines.get(&machine_name(1)).unwrap();
    let victim = &state.ports[0].members[owner.slots[0].member.unwrap()];
    let owner = is_owned.then_some(owner);
    may_remove(&state, owner, &state.ports[0], victim, &now)
}

#[test]
fn a_member_may_be_removed_beside_one_that_may_serve() {
    assert!(removes(true, |_| ()));
    assert!(removes(true, |state| {
        member(state, 2, 0).provisioning = ProvisioningStatus::Error;
    }));
    let alone: [fn(&mut State); 7] = [
        |state| weigh(state, 2, 0, 1, false),
        |state| weigh(state, 2, 0, 0, true),
        |state| member(state, 2, 0).detail = None,
        |state| member(state, 2, 0).provisioning = ProvisioningStatus::PendingCreate,
        |state| member(state, 2, 0).provisioning = ProvisioningStatus::PendingDelete,
        |state| machine(state, 2).want.api_server_pod = ObservedCondition::False,
        |state| machine(state, 2).want.deletion = UNHOOKED,
    ];
    for (case, change) in alone.into_iter().enumerate() {
        for is_owned in [true, false] {
            assert!(!removes(is_owned, change), "case {case}");
        }
    }
}

/// The other machine's member may be disabled, because its details were not read.
fn alone(state: &mut State) {
    member(state, 2, 0).detail = None;
}

#[test]
fn the_last_one_may_go_where_it_serves_no_client_or_its_gate_is_open() {
    let of_no_use: [fn(&mut State); 3] = [
        |state| weigh(state, 1, 0, 1, false),
        |state| weigh(state, 1, 0, 0, true),
        |state| member(state, 1, 0).provisioning = ProvisioningStatus::PendingDelete,
    ];
    for (case, change) in of_no_use.into_iter().enumerate() {
        for is_owned in [true, false] {
            let removed = removes(is_owned, |state| {
                alone(state);
                member(state, 1, 0).provisioning = ProvisioningStatus::Error;
                change(state);
            });
            assert!(removed, "case {case}");
        }
    }
    for is_owned in [true, false] {
        // A member that is ACTIVE counts as serving whatever else is shown, and a member in ERROR may serve as it did
        // before.
        assert!(!removes(is_owned, |state| {
            alone(state);
            weigh(state, 1, 0, 0, false);
        }));
        assert!(!removes(is_owned, |state| {
            alone(state);
            member(state, 1, 0).provisioning = ProvisioningStatus::Error;
        }));
        assert!(removes(is_owned, |state| {
            alone(state);
            state.desired.as_mut().unwrap().cluster.cluster_deleting = true;
        }));
    }
    let since = jiff::Timestamp::UNIX_EPOCH;
    let leaves = |deletion: Deletion, release: GateDecision, stage: Stage| {
        removes(true, |state| {
            alone(state);
            let machine = machine(state, 1);
            machine.want.deletion = deletion;
            machine.gates.release = release;
            machine.stage = stage;
        })
    };
    let (open, held) = (
        GateDecision::Open(GateCause::ClusterDeleting),
        GateDecision::Held(GateCause::Removing),
    );
    assert!(leaves(UNHOOKED, held, Stage::Serving));
    assert!(leaves(Deletion::AtHook { since }, open, Stage::Serving));
    assert!(leaves(Deletion::OutOfBand { since }, open, Stage::Serving));
    assert!(!leaves(Deletion::AtHook { since }, open, Stage::Removing));
    assert!(!leaves(Deletion::AtHook { since }, held, Stage::Serving));
    assert!(!leaves(Deletion::No, open, Stage::Serving));
    let never_admitted = |provisioning: ProvisioningStatus| {
        removes(true, |state| {
            alone(state);
            member(state, 1, 0).provisioning = provisioning;
            let machine = machine(state, 1);
            machine.want.admitted = false;
            machine.was_open = false;
        })
    };
    assert!(never_admitted(ProvisioningStatus::Error));
    assert!(!never_admitted(ProvisioningStatus::Active));
}

/// Whether other machines serve both ports.
fn others(change: impl FnOnce(&mut State, &Now)) -> Others {
    let (mut state, now) = state();
    change(&mut state, &now);
    serving::others_serve(&state, &machine_name(1), &now)
}

#[test]
fn others_serve_every_port_or_the_one_that_lacks_is_named() {
    assert_eq!(others(|_, _| ()), Others::Serve);
    let table: [(fn(&mut State, &Now), Others); 10] = [
        (
            |state, _| machine(state, 2).want.deletion = UNHOOKED,
            Others::None(6443, Lack::Leaving),
        ),
        (
            |state, _| machine(state, 2).slots[1].member = None,
            Others::None(8132, Lack::NoMember),
        ),
        (
            |state, _| machine(state, 2).slots[1].has_duplicates = true,
            Others::None(8132, Lack::NoMember),
        ),
        (
            |state, _| machine(state, 2).want.address = None,
            Others::None(6443, Lack::NoMember),
        ),
        (
            |state, _| member(state, 2, 1).provisioning = ProvisioningStatus::PendingUpdate,
            Others::None(8132, Lack::NotActive),
        ),
        (
            |state, _| weigh(state, 2, 1, 1, false),
            Others::None(8132, Lack::AdminDown),
        ),
        (
            |state, _| weigh(state, 2, 1, 0, true),
            Others::None(8132, Lack::Drained),
        ),
        (
            |state, _| machine(state, 2).want.server.state = ServerState::Shutoff,
            Others::None(6443, Lack::Server),
        ),
        (
            |state, _| machine(state, 2).want.server.read_at = None,
            Others::NotYet(6443, Want::Server),
        ),
        (
            |state, now| {
                member(state, 2, 1).online = ConsecutiveReads {
                    first: Some(now.instant),
                    last: Some(now.instant),
                    reads: 2,
                };
            },
            Others::NotYet(8132, Want::OnlineSpan),
        ),
    ];
    for (case, (change, expected)) in table.into_iter().enumerate() {
        assert_eq!(others(change), expected, "case {case}");
    }
}

#[test]
fn a_machine_that_leaves_serves_at_present_and_does_not_go_on_serving() {
    let (mut state, now) = state();
    machine(&mut state, 1).want.deletion = UNHOOKED;
    let name = machine_name(1);
    let machine = state.machines.get(&name).unwrap();
    let port = IndexedPort {
        index: 0,
        port: &state.ports[0],
    };
    let lasting = serving::serves(&state, machine, port, &now);
    assert_eq!(lasting, Serving::No(Lack::Leaving));
    let at_present = serving::serves_at_present(&state, machine, port, &now);
    assert_eq!(at_present, Serving::Yes(Evidence::Online));
}

#[test]
fn a_monitor_of_an_additional_port_counts_where_it_finds_one_that_is_up() {
    let none_is_up = |state: &mut State, now: &Now, port| {
        darken(state, now, port, 2, state.online_span());
    };
    assert_eq!(
        others(|state, now| none_is_up(state, now, 1)),
        Others::Serve
    );
    assert_eq!(
        others(|state, now| {
            none_is_up(state, now, 1);
            weigh(state, 2, 1, 1, false);
        }),
        Others::None(8132, Lack::AdminDown)
    );
    assert_eq!(
        others(|state, now| {
            none_is_up(state, now, 1);
            member(state, 1, 1).operating = OperatingStatus::Online;
        }),
        Others::None(8132, Lack::NotOnline)
    );
    assert_eq!(
        others(|state, now| none_is_up(state, now, 0)),
        Others::None(6443, Lack::NotOnline)
    );
}

#[test]
fn whom_to_ask_has_an_address_and_a_certificate_to_expect() {
    let can = |change: fn(&mut State)| {
        let (mut state, _) = state();
        change(&mut state);
        let machine = state.machines.get(&machine_name(1)).unwrap();
        serving::may_be_probed(&state, machine)
    };
    assert!(can(|_| ()));
    let unread = |state: &mut State| {
        state.desired.as_mut().unwrap().cluster.ca_pem = Lookup::Unknown;
    };
    assert!(can(unread));
    assert!(!can(|state| machine(state, 1).want.address = None));
    assert!(!can(|state| state
        .desired
        .as_mut()
        .unwrap()
        .cluster
        .ca_pem = Lookup::Absent));
}

#[test]
fn lists_are_fresh_that_began_a_moment_ago_and_after_the_last_write() {
    let listed = |change: fn(&mut State, &Now)| {
        let (mut state, now) = state();
        for port in &mut state.ports {
            port.listed = Some(now.instant);
        }
        state.last_write = Some(now.instant);
        change(&mut state, &now);
        let is_listed = |port: &Port| port_is_listed(&state, port, &now);
        (is_listed(&state.ports[1]), lists_are_fresh(&state, &now))
    };
    let (fresh, outdated) = ((true, true), (false, false));
    assert_eq!(listed(|_, _| ()), fresh);
    assert_eq!(listed(|state, _| state.ports[1].listed = None), outdated);
    assert_eq!(
        listed(|state, _| {
            state.ports[1].listed = None;
            state.ports[1].pool = None;
        }),
        fresh
    );
    assert_eq!(
        listed(|state, now| state.ports[1].listed = Some(ago(now, STEP))),
        outdated
    );
    for (age, expected) in [(FRESH, fresh), (FRESH + STEP, outdated)] {
        let (mut state, now) = state();
        state.last_write = None;
        for port in &mut state.ports {
            port.listed = Some(ago(&now, age));
        }
        let is_listed = port_is_listed(&state, &state.ports[1], &now);
        assert_eq!((is_listed, lists_are_fresh(&state, &now)), expected);
    }
}

#[test]
fn a_server_is_read_again_well_before_its_read_is_too_old_to_decide_on() {
    let read = |age: Option<Duration>| {
        let (mut state, now) = state();
        machine(&mut state, 1).want.server.read_at = age.map(|age| ago(&now, age));
        let machine = state.machines.get(&machine_name(1)).unwrap();
        let wants = serving::needs_server_read(machine, &now);
        (wants, serving::server_is_recent(machine, &now))
    };
    let (due, recent) = (Duration::from_secs(40), Duration::from_mins(1));
    assert_eq!(read(None), (true, false));
    assert_eq!(read(Some(due)), (false, true));
    assert_eq!(read(Some(due + STEP)), (true, true));
    assert_eq!(read(Some(recent)), (true, true));
    assert_eq!(read(Some(recent + STEP)), (true, false));
}
