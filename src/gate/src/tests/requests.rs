//! Which requests through the endpoint are sent, and which calls that wait for the request budget may still be sent.

use std::time::Instant;

use crate::{
    model::{
        call::{InFlight, Operation, Purpose, Write},
        clock::Now,
        decision::{GateCause, GateDecision},
        desired::{Deletion, ObservedCondition},
        effect::Effect,
        evidence::{Lack, Others},
        machine::Stage,
        member::Owner,
        proof::{EndpointRequest, Proof, Round},
        state::State,
    },
    plan::{requests, withdrawal::is_call_wanted},
    tests::{
        pair::{STEP, UNHOOKED, ago, machine, member, state},
        world::{address, machine_name},
    },
};
use capo_core::{ObjectName, OperatingStatus, ProvisioningStatus, ids::MemberId};

/// The requests that are sent while the first machine is being released.
fn sent(change: impl FnOnce(&mut State, &Now)) -> (Vec<(u64, EndpointRequest)>, State, Now) {
    let (mut state, now) = state();
    state.last_request_id = 6;
    let proof = Proof::new(
        machine_name(1),
        Round::Drained,
        now.instant,
        vec![true, true],
    );
    state.proof = Some(proof);
    change(&mut state, &now);
    let mut effects = Vec::new();
    requests::send(&mut state, &now, &mut effects);
    let sent = effects.into_iter().map(|effect| match effect {
        Effect::Request { id, request } => (id, request),
        other => panic!("{other:?}"),
    });
    (sent.collect(), state, now)
}

#[test]
fn the_first_request_to_each_port_is_sent_alone() {
    let (all, state, now) = sent(|_, _| ());
    let [
        (
            7,
            EndpointRequest::Readyz {
                endpoint,
                addresses,
            },
        ),
        (8, connect),
    ] = &all[..]
    else {
        panic!("{all:?}");
    };
    assert_eq!((endpoint.host.as_str(), endpoint.port), ("192.0.2.1", 6443));
    assert_eq!(addresses[..], [address(1), address(2)]);
    assert_eq!(connect.to_string(), "TCP connection to 192.0.2.1:8132");
    let proof = state.proof.unwrap();
    for (port, (id, request)) in proof.ports.iter().zip(&all) {
        assert_eq!(port.requests, [*id]);
        assert_eq!(port.sent, Some(now.instant));
        assert_eq!(port.last_request, request.to_string());
    }
    assert_eq!(state.last_request_id, 8);
}

#[test]
fn a_request_is_sent_when_it_is_due_and_needed() {
    let first_port = |change: fn(&mut State, &Now)| {
        let (all, ..) = sent(change);
        all.iter()
            .any(|(_, request)| matches!(request, EndpointRequest::Readyz { .. }))
    };
    assert!(first_port(|_, _| ()));
    let not: [fn(&mut State, &Now); 7] = [
        |state, _| state.proof = None,
        |state, _| state.proof.as_mut().unwrap().ports[0].requests.push(1),
        |state, now| {
            let sent = ago(now, requests::GAP.checked_sub(STEP).unwrap());
            state.proof.as_mut().unwrap().ports[0].sent = Some(sent);
        },
        |state, _| state.proof.as_mut().unwrap().ports[0].required = false,
        |state, _| state.proof.as_mut().unwrap().ports[0].failures = 3,
        |state, _| {
            let answers = state.settings.proof_answers;
            state.proof.as_mut().unwrap().ports[0].answers = answers;
        },
        |state, _| state.desired.as_mut().unwrap().cluster.endpoint = None,
    ];
    for (case, change) in not.into_iter().enumerate() {
        assert!(!first_port(change), "case {case}");
    }
    assert!(first_port(|state, now| {
        let sent = ago(now, requests::GAP);
        state.proof.as_mut().unwrap().ports[0].sent = Some(sent);
    }));
}

/// A load balancer may be far away, so waiting for each answer before the next request would take long.
#[test]
fn once_a_port_answers_four_requests_are_under_way_at_a_time() {
    for (answers, under_way, expected) in [
        (0, 0, 1),
        (0, 1, 0),
        (1, 0, 4),
        (1, 3, 1),
        (1, 4, 0),
        // Two of the five are missing, and one of these is under way.
        (3, 0, 2),
        (3, 1, 1),
        (5, 0, 0),
    ] {
        let (all, state, now) = sent(|state, now| {
            let proof = state.proof.as_mut().unwrap();
            proof.ports[1].required = false;
            let port = &mut proof.ports[0];
            port.answers = answers;
            port.requests = (0..under_way).collect();
            // Nothing waits for a pause once the port answers.
            port.sent = (answers > 0).then_some(now.instant);
        });
        let case = format!("{answers} answered, {under_way} under way");
        let ids: Vec<u64> = all.iter().map(|(id, _)| *id).collect();
        assert_eq!(ids, (7..7 + expected).collect::<Vec<_>>(), "{case}");
        let port = &state.proof.unwrap().ports[0];
        assert_eq!(port.requests, (0..under_way).chain(ids).collect::<Vec<_>>());
        if expected > 0 {
            assert_eq!(port.sent, Some(now.instant), "{case}");
        }
    }
}

/// Whether the call under way is still wanted.
fn wanted(purpose: Purpose, change: impl FnOnce(&mut State)) -> bool {
    let (mut state, now) = state();
    state.call = Some(InFlight {
        id: 1,
        began: now.stamp(),
        purpose,
        outdated: false,
        sets: None,
    });
    change(&mut state);
    is_call_wanted(&state)
}

fn write_of(operation: Operation) -> Purpose {
    Purpose::Write(Write::Member {
        machine: machine_name(1),
        port: 6443,
        operation,
    })
}

/// The first machine is being released.
fn leaves(state: &mut State) {
    machine(state, 1).want.deletion = Deletion::AtHook {
        since: jiff::Timestamp::UNIX_EPOCH,
    };
    machine(state, 1).stage = Stage::Draining;
}

#[test]
fn a_write_that_waits_is_not_sent_once_nothing_may_be_written() {
    assert!(!wanted(Purpose::Tree, |state| state.call = None));
    let stops: [fn(&mut State); 4] = [
        |state| state.call.as_mut().unwrap().outdated = true,
        |state| state.desired.as_mut().unwrap().cluster.paused = true,
        |state| state.claimed_by = Some(ObjectName::new("n", "other")),
        |state| state.credentials = false,
    ];
    for (case, stop) in stops.into_iter().enumerate() {
        // A read changes nothing, so it may still be sent.
        assert!(wanted(Purpose::Tree, stop), "case {case}");
        let attach = Purpose::Write(Write::Attach { port: 6443 });
        assert!(wanted(attach.clone(), |_| ()));
        assert!(!wanted(attach, stop), "case {case}");
        assert!(!wanted(write_of(Operation::Repair), stop), "case {case}");
    }
}

#[test]
fn a_left_over_member_is_deleted_only_while_it_is_one() {
    for (owner, expected) in [
        (Owner::NotHandedOver, true),
        (Owner::NameOnly, true),
        (Owner::Ours, false),
        (Owner::AddressOnly, false),
        (Owner::Unrelated, false),
    ] {
        let prune = |id: MemberId| {
            let purpose = Purpose::Write(Write::Prune {
                port: 8132,
                member: id,
            });
            wanted(purpose, |state| member(state, 1, 1).owner = owner)
        };
        let (mut state, _) = state();
        let id = member(&mut state, 1, 1).id.clone();
        assert_eq!(prune(id), expected, "{owner:?}");
        assert!(!prune("another".into()));
    }
}

/// Neither Cluster API nor a probe shows the first machine's API server as up.
fn is_not_known_to_be_up(state: &mut State) {
    machine(state, 1).want.api_server_pod = ObservedCondition::Unknown;
    machine(state, 1).want.node = ObservedCondition::Unknown;
    machine(state, 1).probe.seen = None;
}

#[test]
fn a_write_of_a_member_that_waits_is_sent_only_while_its_machine_needs_it() {
    use Operation::{Create, Delete, Drain, Enable, Repair, Replace, Restore};
    let all = |change: fn(&mut State)| {
        let wanted = |operation: &Operation| {
            wanted(write_of(*operation), |state| {
                machine(state, 1).want.api_server_pod =
                    ObservedCondition::TrueSince(Instant::now());
                change(state);
            })
        };
        let operations = Operation::ALL.into_iter();
        operations.filter(wanted).collect::<Vec<_>>()
    };
    let stays = [Create, Replace, Restore, Repair, Enable];
    assert_eq!(all(|_| ()), stays);
    // A newcomer is enabled only while there is a reason to enable it.
    let disabled = [Create, Replace, Restore, Repair];
    assert_eq!(all(is_not_known_to_be_up), disabled);
    let and_no_other_one_serves = |state: &mut State| {
        is_not_known_to_be_up(state);
        member(state, 2, 0).operating = OperatingStatus::Error;
    };
    assert_eq!(all(and_no_other_one_serves), stays);
    let and_no_other_one_serves_another_port = |state: &mut State| {
        is_not_known_to_be_up(state);
        member(state, 2, 1).operating = OperatingStatus::Error;
    };
    assert_eq!(all(and_no_other_one_serves_another_port), disabled);
    // A member that is to be replaced is deleted first.
    let broken = |state: &mut State| {
        member(state, 1, 0).provisioning = ProvisioningStatus::Error;
        machine(state, 1).restoring = true;
    };
    let replaced = [Create, Delete, Replace, Restore, Repair, Enable];
    assert_eq!(all(broken), replaced);
    let of_another_port = |state: &mut State| {
        member(state, 1, 1).provisioning = ProvisioningStatus::Error;
    };
    assert_eq!(all(of_another_port), stays);
    assert_eq!(all(leaves), [Delete, Drain, Restore, Repair]);
    assert_eq!(
        all(|state| drop(state.machines.remove(&machine_name(1)))),
        []
    );
    assert_eq!(all(|state| machine(state, 1).want.paused = true), []);
    let stop = |state: &mut State| {
        leaves(state);
        machine(state, 1).gates.finalizer = GateDecision::Held(GateCause::OperatorHold);
    };
    assert_eq!(all(stop), [Restore, Repair]);
    let paused = |state: &mut State| {
        leaves(state);
        machine(state, 1).gates.release = GateDecision::Held(GateCause::Paused);
    };
    assert_eq!(all(paused), [Restore, Repair]);
    let held = |state: &mut State| {
        leaves(state);
        machine(state, 1).gates.release = GateDecision::Held(GateCause::Removing);
    };
    assert_eq!(all(held), [Delete, Drain, Restore, Repair]);
    let called_off = |state: &mut State| machine(state, 1).restoring = true;
    assert_eq!(all(called_off), [Create, Replace, Restore, Repair, Enable]);
    assert_eq!(
        all(|state| machine(state, 1).want.deletion = UNHOOKED),
        [Delete, Drain, Restore, Repair]
    );
    // The machine has the last API server, so its member comes back.
    let last = |state: &mut State| {
        machine(state, 1).want.deletion = Deletion::AfterHook {
            since: jiff::Timestamp::UNIX_EPOCH,
        };
        machine(state, 1).others = Some(Others::None(6443, Lack::Leaving));
    };
    let needed = [Create, Replace, Drain, Restore, Repair, Enable];
    assert_eq!(all(last), needed);
}

#[test]
fn a_row_that_is_over_sends_nothing_more() {
    let (none, ..) = sent(|state, now| {
        let window = state.settings.proof_window;
        state.proof.as_mut().unwrap().began = ago(now, window);
    });
    assert_eq!(none, []);
    let (all, ..) = sent(|state, now| {
        let window = state.settings.proof_window;
        state.proof.as_mut().unwrap().began = ago(now, window) + STEP;
    });
    assert_eq!(all.len(), 2);
}
