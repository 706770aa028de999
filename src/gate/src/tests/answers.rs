//! What each answer of Octavia changes in the state, whatever is decided afterwards.

use std::time::Duration;

use crate::{
    model::{
        call::{InFlight, Operation, Purpose, Write},
        clock::Now,
        effect::Effect,
        event::{Answered, Event},
        metric_event::MetricEvent,
        octavia::{Answer, Failure, ListenersAndPools, Written},
        state::{SettlingReads, State},
        trouble::Trouble,
    },
    tests::{
        events::{after, trouble},
        model::failure,
        pair::{STEP, ago, state},
        tree_reads::tree_of,
        world::machine_name,
    },
};
use capo_core::{
    FailureClass,
    octavia::{Member, MonitorParameters, StatusTree},
};

/// The state after an answer to the call under way.
fn answered(
    purpose: Purpose,
    prepare: impl FnOnce(&mut State, &mut Now),
    answer: Answered,
) -> (State, Vec<Effect>) {
    let (mut state, mut now) = state();
    state.call = Some(InFlight {
        id: 7,
        began: now.stamp(),
        purpose,
        outdated: false,
        sets: None,
    });
    prepare(&mut state, &mut now);
    after((state, now), Event::Answered { id: 7, answer })
}

#[test]
fn the_jitter_is_within_the_share_that_is_set() {
    for (random, factor) in [(0.0, 0.8), (0.25, 0.9), (0.5, 1.0), (1.0, 1.2), (7.0, 1.2)] {
        let (state, _) = answered(
            Purpose::ListenersAndPools,
            |state, now| {
                state.settings.schedule.jitter = 0.2;
                now.random = random;
            },
            Answered::ListenersAndPools(Err(failure(FailureClass::Transient))),
        );
        let found = state.reads.jitter_factor;
        assert!((found - factor).abs() < 1e-9, "{random}: {found}");
    }
}

/// How many failures in a row the state counts after this answer: of the tree, of the list of a port's members, of the
/// listeners and pools. Before the answer each had failed three times.
fn failures(purpose: Purpose, answer: Answered) -> [u32; 3] {
    let (state, _) = answered(
        purpose,
        |state, now| {
            state.trouble = Some(trouble(now));
            state.ports[0].list_trouble = Some(trouble(now));
            state.reads.listeners_and_pools_trouble = Some(trouble(now));
        },
        answer,
    );
    assert!(state.ports[1].list_trouble.is_none());
    [
        &state.trouble,
        &state.ports[0].list_trouble,
        &state.reads.listeners_and_pools_trouble,
    ]
    .map(|trouble| trouble.as_ref().map_or(0, |trouble| trouble.failures))
}

const PARAMETERS: MonitorParameters = MonitorParameters {
    delay: 1,
    timeout: 2,
    max_retries: 3,
    max_retries_down: 4,
};

#[test]
fn each_kind_of_read_has_trouble_of_its_own_which_its_answer_ends() {
    let down = || failure(FailureClass::Transient);
    let absent = || -> Answer<StatusTree> { Err(failure(FailureClass::NotFound)) };
    let members = |answer| failures(Purpose::Members(6443), Answered::Members(answer));
    let listeners_and_pools = |answer| {
        failures(
            Purpose::ListenersAndPools,
            Answered::ListenersAndPools(answer),
        )
    };
    let parameters = |answer| failures(Purpose::MonitorParameters(6443), Answered::Monitor(answer));
    let tree = |answer| failures(Purpose::Tree, Answered::Tree(answer));
    assert_eq!(tree(absent()), [0, 3, 3]);
    assert_eq!(tree(Err(down())), [4, 3, 3]);
    assert_eq!(members(Ok(Vec::new())), [3, 0, 3]);
    assert_eq!(members(Err(down())), [3, 4, 3]);
    assert_eq!(
        listeners_and_pools(Ok(ListenersAndPools::default())),
        [3, 3, 0]
    );
    assert_eq!(listeners_and_pools(Err(down())), [3, 3, 4]);
    assert_eq!(parameters(Ok(PARAMETERS)), [3, 3, 3]);
    assert_eq!(parameters(Err(down())), [4, 3, 3]);
}

#[test]
fn a_pool_that_is_gone_is_no_trouble_in_a_bundle_and_other_failures_are() {
    for (class, is_trouble) in [
        (FailureClass::NotFound, false),
        (FailureClass::Transient, true),
        (FailureClass::Denied, true),
    ] {
        let list: Answer<Vec<Member>> = Err(failure(class));
        let (state, _) = answered(
            Purpose::TreeAndMembers,
            |_, _| (),
            Answered::TreeAndMembers {
                tree: Err(failure(FailureClass::NotFound)),
                lists: vec![(6443, list)],
            },
        );
        let trouble = state.ports[0].list_trouble.is_some();
        assert_eq!(trouble, is_trouble, "{class:?}");
        assert!(state.trouble.is_none(), "{class:?}");
    }
}

#[test]
fn the_parameters_of_a_monitor_are_read_once_and_one_that_is_gone_is_no_trouble() {
    let due = |state: &mut State, _: &mut Now| {
        state.ports[1].monitor_parameters = None;
        state.ports[1].monitor_parameters_due = true;
    };
    let purpose = || Purpose::MonitorParameters(8132);
    let (read, _) = answered(purpose(), due, Answered::Monitor(Ok(PARAMETERS)));
    assert_eq!(read.ports[1].monitor_parameters, Some(PARAMETERS));
    assert!(!read.ports[1].monitor_parameters_due);
    for (class, is_trouble) in [
        (FailureClass::NotFound, false),
        (FailureClass::Transient, true),
    ] {
        let (state, _) = answered(purpose(), due, Answered::Monitor(Err(failure(class))));
        assert_eq!(state.ports[1].monitor_parameters, None);
        assert!(!state.ports[1].monitor_parameters_due, "{class:?}");
        assert_eq!(state.trouble.is_some(), is_trouble, "{class:?}");
    }
}

#[test]
fn a_call_is_answered_once_and_by_its_own_number() {
    let (mut before, now) = state();
    before.call = Some(InFlight {
        id: 7,
        began: now.stamp(),
        purpose: Purpose::ListenersAndPools,
        outdated: false,
        sets: None,
    });
    let later = now.instant + STEP;
    for (id, began) in [(7, later), (8, now.instant)] {
        let (sent, _) = after((before.clone(), now), Event::Sent { id, at: later });
        assert_eq!(sent.call.unwrap().began.instant, began, "{id}");
    }
    for (id, is_over) in [(7, true), (8, false)] {
        let answer = Answered::ListenersAndPools(Err(failure(FailureClass::Transient)));
        let (state, _) = after((before.clone(), now), Event::Answered { id, answer });
        assert_eq!(state.call.is_none(), is_over, "{id}");
        assert_eq!(
            state.reads.listeners_and_pools_trouble.is_some(),
            is_over,
            "{id}"
        );
    }
}

#[test]
fn a_read_is_recorded_with_its_duration_and_ends_a_request_for_one() {
    for is_found in [true, false] {
        let class = if is_found {
            FailureClass::NotFound
        } else {
            FailureClass::Transient
        };
        let (state, effects) = answered(
            Purpose::Tree,
            |state, now| {
                state.reads.nudged = true;
                now.instant += Duration::from_secs(2);
            },
            Answered::Tree(Err(failure(class))),
        );
        assert!(!state.reads.nudged);
        assert_eq!(state.balancer.not_found, u32::from(is_found));
        let read = MetricEvent::Read(false, Duration::from_secs(2));
        assert!(effects.contains(&Effect::Record(read)));
    }
}

#[test]
fn an_unanswered_write_of_the_load_balancer_before_counts_as_a_write() {
    let write = || {
        Purpose::Write(Write::Member {
            machine: machine_name(1),
            port: 6443,
            operation: Operation::Create,
        })
    };
    for (class, is_unsettling) in [
        (None, true),
        (Some(FailureClass::Transient), true),
        (Some(FailureClass::Quota), false),
    ] {
        let answer = class.map_or(Ok(Written::default()), |class| Err(failure(class)));
        for outdated in [true, false] {
            let (state, _) = answered(
                write(),
                |state, _| {
                    state.last_write = None;
                    state.reads.listeners_and_pools_due = false;
                    state.call.as_mut().unwrap().outdated = outdated;
                },
                Answered::Written(answer.clone()),
            );
            assert_eq!(state.last_write.is_some(), is_unsettling, "{class:?}");
            assert_eq!(
                state.reads.listeners_and_pools_due,
                is_unsettling && outdated,
                "{class:?}"
            );
        }
    }
}

/// The pause in seconds after one more failure, where `failures` of the class `before` came earlier, and the message
/// shown.
fn one_more(failures: u32, before: FailureClass, class: FailureClass) -> (u64, String) {
    let mut found = None;
    let (state, _) = answered(
        Purpose::Tree,
        |state, now| {
            state.reads.jitter_factor = 1.0;
            now.random = 0.5;
            state.trouble = Some(Trouble {
                class: before,
                message: "the first".to_owned(),
                failures,
                ..trouble(now)
            });
            found = Some(now.instant);
        },
        Answered::Tree(Err(Failure {
            message: "the last".to_owned(),
            ..failure(class)
        })),
    );
    let trouble = state.trouble.unwrap();
    ((trouble.until - found.unwrap()).as_secs(), trouble.message)
}

#[test]
fn the_message_of_trouble_stays_while_failures_of_one_class_go_on() {
    use FailureClass::{Auth, Transient};
    let cases = [
        (1, Auth, Auth, "the last"),
        (2, Auth, Auth, "the first"),
        (3, Auth, Auth, "the first"),
        (3, Auth, Transient, "the last"),
    ];
    for (failures, before, class, expected) in cases {
        let (_, message) = one_more(failures, before, class);
        assert_eq!(message, expected, "{failures} {before:?} {class:?}");
    }
}

#[test]
fn pauses_while_openstack_does_not_answer_stay_short_for_the_first_forty_failures() {
    use FailureClass::Transient;
    for (failures, seconds) in [(0, 1), (1, 2), (9, 8), (39, 8), (40, 30), (41, 30)] {
        let (pause, _) = one_more(failures, Transient, Transient);
        assert_eq!(pause, seconds, "after {failures}");
    }
}

#[test]
fn the_lists_are_read_again_while_two_of_one_name_are_ambiguous() {
    let is_due = |reads: usize, ambiguous: Option<&str>| {
        let (known, _) = state();
        let (state, _) = answered(
            Purpose::Tree,
            |state, now| {
                let start = now.instant;
                state.reads.settling = Some(SettlingReads {
                    start,
                    reads,
                    is_enabling: false,
                });
                state.ports[1].ambiguous = ambiguous.map(str::to_owned);
            },
            Answered::Tree(Ok(tree_of(&known))),
        );
        state.reads.listeners_and_pools_due
    };
    assert!(is_due(5, Some("two")) && is_due(11, Some("two")));
    assert!(!is_due(4, Some("two")) && !is_due(5, None));
}

#[test]
fn the_lists_of_members_are_read_again_in_a_load_balancer_that_does_not_settle_for_long() {
    let is_due = |since: u64, listed: u64| {
        let (known, _) = state();
        let (state, _) = answered(
            Purpose::Tree,
            |state, now| {
                let before = |seconds| ago(now, Duration::from_secs(seconds));
                state.reads.settling = Some(SettlingReads::from(before(since)));
                for port in &mut state.ports {
                    port.listed = Some(now.instant);
                    port.members_due = false;
                }
                state.ports[0].listed = Some(before(listed));
            },
            Answered::Tree(Ok(tree_of(&known))),
        );
        assert!(!state.ports[1].members_due);
        state.ports[0].members_due
    };
    // It is due from --member-warn-after on, every 90 s.
    assert!(is_due(120, 90));
    assert!(!is_due(119, 90) && !is_due(120, 89));
}
