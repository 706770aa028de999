//! What each reply through the endpoint shows, and to which series of requests it belongs.

use std::{net::IpAddr, time::Duration};

use crate::{
    apply::reply::reply,
    decide::proof,
    model::{
        clock::Now,
        desired::Deletion,
        evidence::{Lack, Others},
        machine::Stage,
        member::Member,
        proof::{EndpointReply, EndpointResult, PortProof, Proof, ProofOutcome, Reach, Round},
        state::State,
    },
    tests::{
        pair::{STEP, ago, machine, member, state},
        world::{address, machine_name},
    },
};
use capo_core::{EndpointAnswer, EndpointFailure, Excerpt};

/// An answer of an API server whose serving certificate names these machines.
fn answer(status: u16, named: &[IpAddr]) -> EndpointResult {
    Ok(EndpointReply::Answer(EndpointAnswer {
        status,
        named: named.to_vec(),
        body: Excerpt::of("body"),
    }))
}

/// The first machine is being released, and a request to each port is under way.
fn asked(round: Round) -> (State, Now) {
    let (mut state, now) = state();
    let mut proof = Proof::new(machine_name(1), round, now.instant, vec![true, true]);
    for (id, port) in (1..).zip(&mut proof.ports) {
        *port = PortProof {
            required: true,
            requests: vec![id],
            last_request: "GET x".to_owned(),
            sent: Some(now.instant),
            answers: 1,
            failures: 1,
            is_contradicted: false,
            reached: false,
            failure: None,
        };
    }
    state.proof = Some(proof);
    state.unreachable_since = Some(now.instant);
    state.answered = false;
    (state, now)
}

/// What is known of the first port after a reply.
fn after(round: Round, result: &EndpointResult) -> (State, PortProof) {
    let (mut state, _) = asked(round);
    reply(&mut state, 1, result);
    let proof = state.proof.clone().unwrap();
    assert_eq!(proof.ports[1].requests, [2], "another port's request");
    assert_eq!((proof.ports[1].answers, proof.ports[1].failures), (1, 1));
    (state, proof.ports[0].clone())
}

#[test]
fn an_answer_of_an_api_server_counts_unless_the_leaving_machine_gave_it() {
    let (own, other) = (address(1), address(2));
    for (round, named, counts) in [
        (Round::Drained, &[][..], true),
        (Round::Drained, &[other], true),
        (Round::Drained, &[own], false),
        (Round::Removed, &[own], false),
        // While the machine is in service, it may answer.
        (Round::InService, &[own], true),
        // A certificate that names several machines does not show which one answered.
        (Round::Drained, &[own, other], true),
    ] {
        let (state, port) = after(round, &answer(200, named));
        // No client fails in any of these cases, so no failure is counted.
        let expected = if counts { 2 } else { 0 };
        assert_eq!(
            (port.answers, port.failures),
            (expected, 0),
            "{round:?} {named:?}"
        );
        assert_eq!(port.requests, []);
        assert!(port.reached && state.answered && state.unreachable_since.is_none());
        assert_eq!(port.failure.is_some(), !counts);
    }
}

#[test]
fn only_the_answer_of_an_api_server_counts() {
    for (status, counts) in [
        (200, true),
        (401, true),
        (403, true),
        (404, false),
        (429, false),
        (500, false),
        (503, false),
    ] {
        let (state, port) = after(Round::Drained, &answer(status, &[]));
        let expected = if counts { (2, 0) } else { (0, 2) };
        assert_eq!((port.answers, port.failures), expected, "{status}");
        assert_eq!(state.answered, counts, "{status}");
        assert!(port.reached && state.unreachable_since.is_none());
    }
    let (state, port) = after(Round::Drained, &Ok(EndpointReply::Connected));
    assert_eq!((port.answers, port.failures), (2, 0));
    // A TCP connection does not show that an API server accepted it.
    assert!(port.reached && !state.answered && state.unreachable_since.is_none());
}

#[test]
fn a_failure_tells_whether_something_was_reached() {
    let excerpt = || Excerpt::of("x");
    let failures = [
        (EndpointFailure::NoAddress(excerpt()), false),
        (EndpointFailure::Refused, false),
        (EndpointFailure::TimedOut(Duration::from_secs(3)), false),
        (EndpointFailure::Unreachable(excerpt()), false),
        (EndpointFailure::NoCaSecret, false),
        (EndpointFailure::UnreadableCa, true),
        (EndpointFailure::Closed, true),
        (EndpointFailure::NotTls, true),
        (EndpointFailure::TlsRefused(excerpt()), true),
        (EndpointFailure::OtherCa, true),
        (EndpointFailure::BadCertificate(excerpt()), true),
        (EndpointFailure::NotHttp, true),
        (
            EndpointFailure::Proxy {
                status: 403,
                body: excerpt(),
            },
            false,
        ),
        (
            EndpointFailure::NoProxy(Box::new(EndpointFailure::Refused)),
            false,
        ),
        (EndpointFailure::UnsupportedProxy(excerpt()), false),
    ];
    for (failure, is_reached) in failures {
        let (state, port) = after(Round::Drained, &Err(failure.clone()));
        assert_eq!((port.answers, port.failures), (0, 2), "{failure:?}");
        assert_eq!(port.reached, is_reached, "{failure:?}");
        assert_eq!(state.unreachable_since.is_none(), is_reached, "{failure:?}");
        assert_eq!(port.failure, Some(format!("GET x: {failure}")));
        assert!(!state.answered);
    }
}

#[test]
fn a_reply_to_no_request_under_way_changes_nothing() {
    let (mut state, _) = asked(Round::Drained);
    let before = format!("{:?}", state.proof);
    reply(&mut state, 3, &answer(200, &[]));
    assert_eq!(format!("{:?}", state.proof), before);
    state.proof = None;
    reply(&mut state, 1, &answer(200, &[]));
    assert!(state.proof.is_none() && !state.answered);
}

/// Requests that are under way together fail together when HAProxy loads a change.
#[test]
fn a_failure_counts_once_for_all_requests_that_are_under_way() {
    let refused = || Err(EndpointFailure::Refused);
    let own = || answer(200, &[address(1)]);
    for (result, counts, failures) in [
        (answer(200, &[]), true, 0),
        (refused(), false, 2),
        (own(), false, 0),
    ] {
        let (mut state, _) = asked(Round::Drained);
        let first = |state: &State| state.proof.as_ref().unwrap().ports[0].clone();
        state.proof.as_mut().unwrap().ports[0].requests = vec![1, 7, 8];
        reply(&mut state, 7, &result);
        let left: &[u64] = if counts { &[1, 8] } else { &[] };
        assert_eq!(first(&state).requests, left, "{result:?}");
        reply(&mut state, 1, &refused());
        let failures = if counts { 1 } else { failures };
        assert_eq!(first(&state).failures, failures, "{result:?}");
        // What was sent before a failure does not count either.
        reply(&mut state, 8, &answer(200, &[]));
        assert_eq!(first(&state).answers, 0, "{result:?}");
    }
}

/// The series of requests that the first machine's stage needs; `None` if it needs none.
fn kept(
    proof: Option<(u8, Round)>,
    others: Others,
    change: impl FnOnce(&mut State, &Now),
) -> Option<(Round, bool, Vec<bool>)> {
    let (mut state, now) = state();
    let began = ago(&now, STEP);
    state.proof =
        proof.map(|(of, round)| Proof::new(machine_name(of), round, began, vec![true, false]));
    machine(&mut state, 1).want.deletion = Deletion::AtHook {
        since: jiff::Timestamp::UNIX_EPOCH,
    };
    change(&mut state, &now);
    proof::update(&mut state, &machine_name(1), others, &now);
    state.proof.map(|proof| {
        assert_eq!(proof.machine, machine_name(1));
        let is_new = proof.began == now.instant;
        let required = proof.ports.iter().map(|port| port.required).collect();
        (proof.round, is_new, required)
    })
}

#[test]
fn a_row_of_requests_is_kept_while_it_is_of_this_machine_and_stage() {
    let at = |stage: Stage| {
        move |state: &mut State, _: &Now| {
            machine(state, 1).stage = stage;
            machine(state, 1).required = Some(vec![true, false]);
        }
    };
    let serve = Others::Serve;
    let required = vec![true, false];
    for (proof, is_new) in [
        (None, true),
        (Some((1, Round::Drained)), false),
        (Some((1, Round::Removed)), true),
        (Some((2, Round::Drained)), true),
        (Some((2, Round::Removed)), true),
    ] {
        let found = kept(proof, serve, at(Stage::Proving));
        assert_eq!(
            found,
            Some((Round::Drained, is_new, required.clone())),
            "{proof:?}"
        );
    }
    let found = kept(None, serve, at(Stage::Confirming));
    assert_eq!(found, Some((Round::Removed, true, required)));
    for stage in [Stage::Draining, Stage::Removing, Stage::Released] {
        assert_eq!(kept(Some((1, Round::Drained)), serve, at(stage)), None);
    }
    // If no proof is required, no requests are made.
    let unproven = |state: &mut State, _: &Now| machine(state, 1).stage = Stage::Proving;
    assert_eq!(kept(None, serve, unproven), None);
}

#[test]
fn the_endpoint_is_asked_for_before_the_drain_where_others_serve_and_it_is_not_known_yet() {
    let first = Some((Round::InService, true, vec![true, true]));
    assert_eq!(kept(None, Others::Serve, |_, _| ()), first);
    let none = Others::None(6443, Lack::Leaving);
    assert_eq!(kept(None, none, |_, _| ()), None);
    let tried =
        |state: &mut State, now: &Now| machine(state, 1).release_attempts.record(now.instant);
    assert_eq!(kept(None, Others::Serve, tried), None);
    let known = |age: Duration| {
        kept(None, Others::Serve, move |state, now| {
            let seen = ago(now, age);
            machine(state, 1).reach = Some((seen, Reach::Ports(vec![true, true])));
        })
    };
    let (settings, _) = state();
    let window = settings.settings.proof_window;
    assert_eq!(known(window), None);
    assert_eq!(known(window + STEP), first);
}

#[test]
fn a_row_ends_with_enough_answers_three_failures_or_its_time() {
    use ProofOutcome::{Answered, Failed, Pending};
    let (state, now) = state();
    let needed = state.settings.proof_answers;
    let window = state.settings.proof_window;
    let outcome = |round, index: usize, answers, failures, age| {
        let mut proof = Proof::new(machine_name(1), round, ago(&now, age), vec![true, true]);
        proof.ports[index].answers = answers;
        proof.ports[index].failures = failures;
        proof::port_outcome(&state, &proof, index, &proof.ports[index].clone(), &now)
    };
    let soon = window.checked_sub(STEP).unwrap();
    assert_eq!(outcome(Round::Drained, 0, needed - 1, 0, soon), Pending);
    assert_eq!(outcome(Round::Drained, 0, needed, 0, soon), Answered);
    assert_eq!(outcome(Round::Drained, 0, needed, 0, window), Answered);
    assert_eq!(outcome(Round::Drained, 0, 0, 0, window), Failed);
    assert_eq!(outcome(Round::Drained, 0, 0, 2, soon), Pending);
    assert_eq!(outcome(Round::Drained, 0, 0, 3, soon), Failed);
    // An endpoint that answers every request, but each of them slowly, gets half as long for every answer that is
    // needed.
    let longest = window / 2 * needed;
    let still = longest.checked_sub(STEP).unwrap();
    assert_eq!(outcome(Round::Drained, 0, 1, 0, still), Pending);
    assert_eq!(outcome(Round::Drained, 0, 1, 0, longest), Failed);
    assert_eq!(outcome(Round::Drained, 0, 0, 1, window), Failed);
    // One answer is enough here, so the time stays the same.
    assert_eq!(outcome(Round::InService, 0, 0, 0, soon), Pending);
    assert_eq!(outcome(Round::InService, 0, 0, 0, window), Failed);
    // One answer shows that the endpoint, or an additional port, is reached.
    assert_eq!(outcome(Round::InService, 0, 1, 0, soon), Answered);
    assert_eq!(outcome(Round::Removed, 1, 1, 0, soon), Answered);
    assert_eq!(outcome(Round::Removed, 1, 0, 0, soon), Pending);
}

/// The number of answers in a proof that end the series of requests without the first machine.
fn enough(round: Round, change: impl FnOnce(&mut State, &mut PortProof)) -> u32 {
    let (mut state, now) = state();
    let mut proof = Proof::new(machine_name(1), round, now.instant, vec![true, true]);
    change(&mut state, &mut proof.ports[0]);
    (0..1_000)
        .find(|answers| {
            proof.ports[0].answers = *answers;
            let port = proof.ports[0].clone();
            proof::port_outcome(&state, &proof, 0, &port, &now) == ProofOutcome::Answered
        })
        .unwrap()
}

#[test]
fn five_answers_for_each_other_member_in_rotation_are_enough() {
    let with = |others: u8| {
        move |state: &mut State, _: &mut PortProof| {
            let another = member(state, 2, 0).clone();
            for index in 3..=others + 1 {
                let address = Some(address(index));
                let member = Member {
                    address,
                    ..another.clone()
                };
                state.ports[0].members.push(member);
            }
        }
    };
    for round in [Round::Drained, Round::Removed] {
        for (others, expected) in [(1, 5), (2, 10), (6, 30)] {
            assert_eq!(enough(round, with(others)), expected, "{round:?} {others}");
        }
        // The leaving machine has answered once, so the change has not reached the data path at that time.
        let contradicted = |state: &mut State, port: &mut PortProof| {
            with(2)(state, port);
            port.is_contradicted = true;
        };
        assert_eq!(enough(round, contradicted), 30);
        // A member that gets no connections gives no answers.
        for (weight, enabled) in [(0, true), (1, false)] {
            let drained = |state: &mut State, port: &mut PortProof| {
                with(2)(state, port);
                let detail = state.ports[0].members[2].detail.as_mut().unwrap();
                (detail.weight, detail.admin_up) = (weight, enabled);
            };
            assert_eq!(enough(round, drained), 5, "{weight} {enabled}");
        }
        let alone = |state: &mut State, _: &mut PortProof| state.ports[0].members.truncate(1);
        assert_eq!(enough(round, alone), 5);
    }
    assert_eq!(enough(Round::InService, with(2)), 1);
}

/// What is left of the first machine's proof after one more turn in this stage, with the answers of a proof that began
/// at one age and was complete at another.
fn kept_after(at: Stage, began: Duration, proven: Option<Duration>) -> (Option<bool>, bool) {
    let (mut state, now) = state();
    let needed = state.settings.proof_answers;
    let first = machine(&mut state, 1);
    first.stage = at;
    first.required = Some(vec![true, false]);
    first.proven = proven.map(|age| ago(&now, age));
    let required = vec![true, false];
    let mut proof = Proof::new(machine_name(1), Round::Removed, ago(&now, began), required);
    proof.ports[0].answers = needed;
    state.proof = Some(proof);
    proof::update(&mut state, &machine_name(1), Others::Serve, &now);
    let is_new = state.proof.as_ref().map(|proof| proof.began == now.instant);
    (is_new, machine(&mut state, 1).proven == Some(now.instant))
}

#[test]
fn answers_without_the_members_are_asked_for_again_after_30_s() {
    let soon = proof::PROOF_AGE.checked_sub(STEP).unwrap();
    let old = proof::PROOF_AGE;
    let now = Duration::from_secs(1);
    for (stage, began, proven, expected) in [
        // The answers have just come.
        (Stage::Confirming, now, None, (Some(false), true)),
        (Stage::Confirming, now, Some(old), (Some(false), true)),
        // They came a moment ago, or long ago.
        (Stage::Confirming, old, Some(soon), (Some(false), false)),
        (
            Stage::Confirming,
            old + STEP,
            Some(old),
            (Some(true), false),
        ),
        (Stage::Confirming, old, Some(old), (Some(true), false)),
        // Once the release is open, requests are made only to renew them.
        (Stage::Released, old, Some(soon), (None, false)),
        (Stage::Released, old + STEP, Some(old), (Some(true), false)),
        (Stage::Released, now, Some(old), (None, true)),
    ] {
        let found = kept_after(stage, began, proven);
        assert_eq!(found, expected, "{stage:?} {began:?} {proven:?}");
    }
}

#[test]
fn a_drain_is_contradicted_if_every_request_was_answered_and_some_by_the_leaving_machine() {
    let (_, now) = state();
    for (contradicted, failures, expected) in [
        (vec![false, false], [0, 0], false),
        (vec![false, true], [0, 0], true),
        (vec![true, false], [0, 1], false),
        (vec![true, false], [1, 0], false),
        (vec![false, false], [0, 1], false),
    ] {
        let mut proof = Proof::new(
            machine_name(1),
            Round::Drained,
            now.instant,
            vec![true, true],
        );
        for (index, port) in proof.ports.iter_mut().enumerate() {
            port.is_contradicted = contradicted[index];
            port.failures = failures[index];
        }
        let case = format!("{contradicted:?} {failures:?}");
        assert_eq!(proof::is_contradicted(&proof), expected, "{case}");
    }
}
