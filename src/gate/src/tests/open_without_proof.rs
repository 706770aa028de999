//! The cases in which a release needs no proof, threshold by threshold.

use std::time::Duration;

use crate::{
    decide::{
        evaluation::Needs,
        open_without_proof::{does_not_serve, never_initialised},
        release,
    },
    model::{
        clock::{Now, Stamp},
        decision::{GateCause, GateDecision},
        desired::{ObservedCondition, ServerState},
        event::ProbeOutcome,
        evidence::Certainty,
        part::ConsecutiveReads,
        state::State,
    },
    tests::{
        pair::{STEP, ago, machine, member, state, weigh},
        world::{World, machine_name},
    },
};
use capo_core::{Lookup, OperatingStatus, ProvisioningStatus};

/// What the cases without a proof decide about a machine that waits at the hook.
#[derive(Debug, PartialEq, Eq)]
enum Said {
    Open(GateCause),
    /// A newer read is needed to decide.
    ReadFirst,
    /// More time is needed to decide.
    TooEarly,
    Nothing,
}

/// Two machines without a health monitor, read a moment ago. The first one is admitted and waits.
pub(crate) fn world() -> World {
    waiting(false)
}

fn waiting(monitors: bool) -> World {
    let mut world = World::new(&[6443], Duration::from_secs(1));
    world.model.monitors = monitors;
    world.controllers = false;
    world.add_serving(1);
    world.add_serving(2);
    world.run(Duration::from_secs(200));
    world.delete(&machine_name(1));
    world.run(Duration::from_secs(5));
    world
}

fn said(world: &mut World, change: impl FnOnce(&mut State)) -> Said {
    let now = world.present();
    let mut state = world.state.clone();
    if let Some(tree) = &mut state.reads.tree_read_at {
        tree.instant = now.instant;
    }
    change(&mut state);
    let name = machine_name(1);
    let mut needs = Needs::default();
    let machine = state.machines.get(&name).unwrap();
    match release::decision_that_needs_no_proof(&state, machine, &now, &mut needs) {
        Some(GateDecision::Open(cause)) => Said::Open(cause),
        Some(other) => panic!("{other:?}"),
        None if needs.tree => Said::ReadFirst,
        None if needs.health => Said::TooEarly,
        None => Said::Nothing,
    }
}

#[test]
fn a_server_that_is_down_twice_while_the_load_balancer_is_seen() {
    let open = Said::Open(GateCause::ServerDown);
    for (server, span, age, not_found, status, id, expected) in [
        (ServerState::Shutoff, 30, 0, 0, true, true, &open),
        (ServerState::Absent, 45, 60, 0, true, true, &open),
        (ServerState::Shutoff, 29, 0, 0, true, true, &Said::Nothing),
        (ServerState::Active, 99, 0, 0, true, true, &Said::Nothing),
        (ServerState::Other, 30, 0, 0, true, true, &Said::Nothing),
        (ServerState::Shutoff, 30, 61, 0, true, true, &Said::TooEarly),
        (ServerState::Shutoff, 30, 0, 1, true, true, &Said::Nothing),
        (ServerState::Shutoff, 30, 0, 0, false, true, &Said::Nothing),
        (ServerState::Shutoff, 30, 0, 0, true, false, &Said::Nothing),
    ] {
        let mut world = world();
        let read_at = world.now.checked_sub(Duration::from_secs(age));
        let found = said(&mut world, |state| {
            let machine = state.machines.get_mut(&machine_name(1)).unwrap();
            machine.want.server.state = server;
            machine.want.server.down_since =
                read_at.and_then(|read| read.checked_sub(Duration::from_secs(span)));
            machine.want.server.read_at = read_at;
            state.balancer.not_found = not_found;
            if !status {
                state.balancer.provisioning = None;
            }
            if !id {
                state.desired.as_mut().unwrap().id = capo_core::Lookup::Absent;
            }
        });
        assert_eq!(
            found, *expected,
            "{server:?} {span} {age} {not_found} {status} {id}"
        );
    }
}

#[test]
fn a_server_that_is_down_though_its_member_reads_online() {
    let span = World::new(&[6443], Duration::from_secs(1))
        .state
        .online_span();
    let short = span.saturating_sub(Duration::from_millis(1));
    let open = Said::Open(GateCause::ServerDown);
    for (operating, against, waited, expected) in [
        (OperatingStatus::Online, false, short, &Said::TooEarly),
        (OperatingStatus::Online, false, span, &Said::Nothing),
        (OperatingStatus::Online, true, Duration::ZERO, &open),
        (OperatingStatus::Error, false, short, &Said::TooEarly),
        (OperatingStatus::Error, false, span, &open),
        (OperatingStatus::Error, true, Duration::ZERO, &open),
    ] {
        let mut world = waiting(true);
        let now = world.now;
        let found = said(&mut world, |state| {
            let machine = state.machines.get_mut(&machine_name(1)).unwrap();
            machine.want.server.state = ServerState::Shutoff;
            machine.want.server.down_since = now.checked_sub(Duration::from_secs(30));
            machine.want.server.read_at = Some(now);
            if against {
                machine.want.api_server_pod = ObservedCondition::False;
            }
            let index = machine.slots.first().and_then(|slot| slot.member).unwrap();
            if let Some(since) = &mut machine.waiting_since {
                since.instant = now.checked_sub(waited).unwrap();
            }
            let port = state.ports.first_mut().unwrap();
            port.members[index].operating = operating.clone();
        });
        assert_eq!(found, *expected, "{operating:?} {against} {waited:?}");
    }
}

#[test]
fn a_machine_that_never_was_admitted_and_has_no_member() {
    let case = |admitted: bool, offered: bool, id: bool, read: bool| {
        said(&mut world(), |state| {
            let machine = state.machines.get_mut(&machine_name(1)).unwrap();
            machine.want.admitted = admitted;
            machine.was_open = offered;
            let refused = |since: Stamp| (since.instant, ProbeOutcome::Refused);
            machine.probe.seen = machine.waiting_since.map(refused);
            for slot in &mut machine.slots {
                slot.member = None;
            }
            if !id {
                state.desired.as_mut().unwrap().id = capo_core::Lookup::Absent;
            }
            if !read {
                state.reads.tree_read_at = None;
            }
        })
    };
    let open = Said::Open(GateCause::NeverServed);
    assert_eq!(case(true, false, true, true), Said::Nothing);
    // The gate was open, so Cluster API may have admitted the machine even if this process does not know it yet.
    assert_eq!(case(false, true, true, true), Said::Nothing);
    assert_eq!(case(false, false, true, true), open);
    assert_eq!(case(false, false, true, false), Said::TooEarly);
    assert_eq!(case(false, false, false, false), open);
}

#[test]
fn a_machine_that_never_was_admitted_is_probed_first_where_that_is_possible() {
    let case = |ca: Lookup<String>, probed: Option<(Duration, ProbeOutcome)>| {
        let mut world = world();
        let now = world.now;
        let waited = Duration::from_secs(5);
        said(&mut world, |state| {
            state.desired.as_mut().unwrap().cluster.ca_pem = ca;
            let machine = machine(state, 1);
            (machine.want.admitted, machine.was_open) = (false, false);
            machine.waiting_since.as_mut().unwrap().instant = now.checked_sub(waited).unwrap();
            machine.probe.seen =
                probed.map(|(age, outcome)| (now.checked_sub(age).unwrap(), outcome));
            for slot in &mut machine.slots {
                slot.member = None;
            }
        })
    };
    let open = Said::Open(GateCause::NeverServed);
    let found = || Lookup::Found("pem".to_owned());
    let unanswered = ProbeOutcome::NotReady;
    let (while_waiting, before) = (Duration::from_secs(5), Duration::from_millis(5_001));
    assert_eq!(case(Lookup::Absent, None), open);
    assert_eq!(case(Lookup::Unknown, None), Said::TooEarly);
    assert_eq!(case(found(), None), Said::TooEarly);
    assert_eq!(case(found(), Some((before, unanswered))), Said::TooEarly);
    assert_eq!(case(found(), Some((while_waiting, unanswered))), open);
    let ready = Some((while_waiting, ProbeOutcome::Ready));
    assert_eq!(case(found(), ready), Said::Nothing);
}

#[test]
fn a_machine_that_never_was_admitted_and_whose_failed_member_is_online_serves() {
    for (provisioning, operating, expected) in [
        (
            ProvisioningStatus::Error,
            OperatingStatus::Error,
            Said::Open(GateCause::NeverServed),
        ),
        (
            ProvisioningStatus::Error,
            OperatingStatus::Online,
            Said::Nothing,
        ),
    ] {
        let found = said(&mut waiting(true), |state| {
            let machine = machine(state, 1);
            (machine.want.admitted, machine.was_open) = (false, false);
            let refused = |since: Stamp| (since.instant, ProbeOutcome::Refused);
            machine.probe.seen = machine.waiting_since.map(refused);
            let member = member(state, 1, 0);
            (member.provisioning, member.operating) = (provisioning, operating.clone());
        });
        assert_eq!(found, expected, "{operating:?}");
    }
}

#[test]
fn a_control_plane_that_was_never_initialised() {
    let mut world = world();
    world.desired.cluster.ca_pem = Lookup::Absent;
    world.desired.cluster.initialised = false;
    world.set_load_balancer();
    let now = world.present();
    let span = world.state.online_span();
    let case = |change: &dyn Fn(&mut State)| {
        let mut state = world.state.clone();
        state.answered = false;
        state.watched_since = now.instant.checked_sub(span);
        change(&mut state);
        never_initialised(&state, &now)
    };
    assert_eq!(case(&|_| {}), Certainty::Yes);
    let sooner = now
        .instant
        .checked_sub(span.saturating_sub(Duration::from_millis(1)));
    assert_eq!(
        case(&|state| state.watched_since = sooner),
        Certainty::Maybe
    );
    assert_eq!(case(&|state| state.watched_since = None), Certainty::Maybe);
    assert_eq!(case(&|state| state.answered = true), Certainty::No);
    assert_eq!(
        case(&|state| state.desired.as_mut().unwrap().cluster.initialised = true),
        Certainty::No
    );
    assert_eq!(
        case(&|state| {
            let machine = state.machines.get_mut(&machine_name(2)).unwrap();
            machine.want.node = ObservedCondition::TrueSince(now.instant);
        }),
        Certainty::No
    );
    // A CA that can't be read may exist, so nothing is known of the API server.
    assert_eq!(
        case(&|state| state.desired.as_mut().unwrap().cluster.ca_pem = Lookup::Unknown),
        Certainty::Maybe
    );
    // With a CA the API server has to be probed first.
    assert_eq!(
        case(&|state| {
            state.desired.as_mut().unwrap().cluster.ca_pem = Lookup::Found("pem".to_owned());
            for machine in state.machines.values_mut() {
                machine.probe.seen = None;
            }
        }),
        Certainty::Maybe
    );
}

#[test]
fn a_machine_that_is_unhealthy_and_out_of_rotation_on_every_port_does_not_serve() {
    let found = |change: fn(&mut State, &Now)| {
        let (mut state, now) = state();
        let span = state.online_span();
        machine(&mut state, 1).want.api_server_pod = ObservedCondition::False;
        for port in 0..2 {
            member(&mut state, 1, port).down = ConsecutiveReads {
                first: Some(ago(&now, span)),
                last: Some(now.instant),
                reads: 3,
            };
        }
        change(&mut state, &now);
        let dead = state.machines[&machine_name(1)].clone();
        does_not_serve(&state, &dead, &now)
    };
    assert_eq!(found(|_, _| ()), Certainty::Yes);
    let no: [fn(&mut State, &Now); 3] = [
        |state, _| machine(state, 1).want.api_server_pod = ObservedCondition::Unknown,
        |state, _| machine(state, 1).want.server.state = ServerState::Shutoff,
        |state, _| state.ports.clear(),
    ];
    for (case, change) in no.into_iter().enumerate() {
        assert_eq!(found(change), Certainty::No, "case {case}");
    }
    let maybe: [fn(&mut State, &Now); 7] = [
        |state, _| member(state, 1, 1).detail = None,
        |state, now| {
            let soon = ago(now, state.online_span()) + STEP;
            member(state, 1, 1).down.first = Some(soon);
        },
        |state, _| state.ports[1].monitor = None,
        |state, now| {
            machine(state, 1).want.server.read_at = Some(ago(now, Duration::from_secs(61)));
        },
        // Nothing distinguishes these from the work of a release.
        |state, _| machine(state, 1).slots[1].member = None,
        |state, _| weigh(state, 1, 1, 0, true),
        |state, _| weigh(state, 1, 1, 1, false),
    ];
    for (case, change) in maybe.into_iter().enumerate() {
        assert_eq!(found(change), Certainty::Maybe, "case {case}");
    }
    // The gate is open, so the members are deleted, and this does not close it.
    let absent = |state: &mut State, _: &Now| {
        machine(state, 1).slots[1].member = None;
        machine(state, 1).gates.release = GateDecision::Open(GateCause::DoesNotServe);
    };
    assert_eq!(found(absent), Certainty::Yes);
}

#[test]
fn what_an_open_release_rests_on_is_read_again_when_it_is_old() {
    for is_old in [false, true] {
        let mut world = world();
        let now = world.present();
        let mut state = world.state.clone();
        let age = Duration::from_secs(if is_old { 61 } else { 0 });
        state.reads.tree_read_at.as_mut().unwrap().instant = ago(&now, age);
        let server = &mut machine(&mut state, 1).want.server;
        server.state = ServerState::Shutoff;
        server.read_at = Some(now.instant);
        server.down_since = Some(ago(&now, Duration::from_secs(30)));
        let open = GateDecision::Open(GateCause::ServerDown);
        machine(&mut state, 1).gates.release = open;
        let mut needs = Needs::default();
        let waiting = &state.machines[&machine_name(1)];
        let decision = release::decision_that_needs_no_proof(&state, waiting, &now, &mut needs);
        assert_eq!(decision, Some(open));
        assert_eq!((needs.tree, needs.health), (is_old, true));
    }
}
