//! Tests of the rules about objects that are left, the number of calls, the lease and the client; and of the figures.

use base64::Engine as _;
use serde_json::json;

use super::*;
use crate::{
    invariants::{figures::Figures, secrets},
    timeline::Remains,
};

#[test]
fn something_is_left_or_exists_twice() {
    let remains = |left: &[&str], twice: &[&str]| {
        let owned = |texts: &[&str]| texts.iter().map(|&text| text.to_owned()).collect();
        What::Remains(Remains {
            left: owned(left),
            twice: owned(twice),
        })
    };
    assert_eq!(calm().at(290, remains(&[], &[])).rules(), []);
    assert_eq!(
        calm().at(290, remains(&["port a-0"], &[])).rules(),
        [Rule::Leftovers]
    );
    assert_eq!(
        calm().at(290, remains(&[], &["server a"])).rules(),
        [Rule::Twins]
    );
}

#[test]
fn the_password_in_an_output() {
    let log = format!("level=debug body={{\"password\": \"{}\"}}", secrets::CANARY);
    let found = secrets::check([("metrics", "capo_up 1"), ("manager.log", &log)]);
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].rule, Rule::Secrets);
    assert!(found[0].how.starts_with("manager.log holds"));
    let encoded = base64::engine::general_purpose::STANDARD.encode(secrets::CANARY);
    assert_eq!(
        secrets::check([("a Secret's copy", encoded.as_str())]).len(),
        1
    );
}

#[test]
fn no_end_of_it_after_the_mending() {
    let ill = || {
        let What::Cluster(cluster) = cluster() else {
            unreachable!()
        };
        let ill = Cluster {
            gate: Some(gate("False", "MemberPending")),
            ..cluster
        };
        joined()
            .without(|what| {
                matches!(what, What::OpenStackMachine(machine) if machine.name == "b" && machine.provisioned)
            })
            .at(45, What::Cluster(ill))
            .at(55, What::Mended("the hold".to_owned()))
    };
    assert_eq!(ill().rules(), [Rule::Convergence]);
    let late = ill()
        .at(2000, What::OpenStackMachine(infrastructure("b", true)))
        .at(2000, cluster());
    assert_eq!(
        late.rules_of(&Promises {
            served: false,
            ..Promises::default()
        })[0],
        Rule::Convergence
    );
    let in_time = ill()
        .at(62, What::OpenStackMachine(infrastructure("b", true)))
        .at(63, cluster());
    assert_eq!(in_time.rules(), []);
}

#[test]
fn a_hot_loop_of_calls_or_of_status_writes() {
    let mut calls = calm();
    for tenth in 0..61 {
        calls = calls.at(tenth * 3, look());
    }
    assert_eq!(calls.rules(), [Rule::HotLoop]);
    let mut changes = calm();
    for tenth in 0..41 {
        let mut machine = infrastructure("a", true);
        machine.gate = Some(gate("False", &format!("Reason{tenth}")));
        changes = changes.at(tenth * 3, What::OpenStackMachine(machine));
    }
    assert_eq!(changes.rules(), [Rule::HotLoop]);
}

#[test]
fn a_wiped_status_that_does_not_come_back_or_makes_things() {
    let wiped = || {
        calm()
            .at(100, What::Wiped("OpenStackMachine", "a".to_owned()))
            .at(101, What::OpenStackMachine(infrastructure("a", false)))
    };
    let back = What::OpenStackMachine(infrastructure("a", true));
    assert_eq!(wiped().rules(), [Rule::Wiped]);
    assert_eq!(wiped().at(110, back.clone()).rules(), []);
    let makes = call("server_create", "POST", "/compute/servers", json!({}));
    assert_eq!(wiped().at(105, makes).at(110, back).rules(), [Rule::Wiped]);
}

#[test]
fn a_write_without_a_lease() {
    let elects = Promises {
        lease: true,
        ..Promises::default()
    };
    let write = || call("server_create", "POST", "/compute/servers", json!({}));
    assert_eq!(calm().at(100, write()).rules_of(&elects), []);
    let ended = calm().at(50, What::Lease(lease(50, 4)));
    assert_eq!(ended.at(100, write()).rules_of(&elects), [Rule::Lease]);
    let given_up = calm().at(
        50,
        What::Lease(Lease {
            holder: String::new(),
            ..lease(50, 600)
        }),
    );
    assert_eq!(given_up.at(100, write()).rules_of(&elects), [Rule::Lease]);
    let unled = calm().without(|what| matches!(what, What::Lease(_)));
    assert_eq!(unled.at(100, write()).rules_of(&elects), [Rule::Lease]);
}

#[test]
fn a_client_whose_requests_or_watches_fail_or_that_sends_none() {
    let failed = calm()
        .at(50, What::RequestFailed("connection refused".to_owned()))
        .at(51, What::RequestFailed("connection refused".to_owned()));
    let broken = failed.broken(&Promises::default());
    assert_eq!(broken.len(), 1);
    assert_eq!(broken[0].rule, Rule::Requests);
    assert_eq!(broken[0].how, "2 failed: connection refused");
    let lost = calm().at(50, What::WatchFailed("after event 3 came 5".to_owned()));
    assert_eq!(lost.rules(), [Rule::Watches]);
    let cut = calm().at(50, What::WatchCut("connection reset".to_owned()));
    assert_eq!(cut.rules(), []);
    let silent = calm().without(|what| *what == answered());
    assert_eq!(silent.rules(), [Rule::RequestsSent]);
    let pause = calm().at(500, answered());
    assert_eq!(pause.rules(), [Rule::RequestsSent]);
    let not_served = Promises {
        served: false,
        ..Promises::default()
    };
    let failed = calm().at(50, What::RequestFailed("connection refused".to_owned()));
    assert_eq!(failed.rules_of(&not_served), []);
}

/// A request that was sent at the tenth of a second `at` and answered `took` tenths later.
fn slow(story: Story, sender: Sender, at: u64, took: u64) -> Story {
    let took = Duration::from_millis(took * 100);
    story.at(at, What::Slow(Slow { sender, took }))
}

#[test]
fn a_request_that_is_slow_through_the_load_balancer_alone() {
    // A member is enabled before its API server is up.
    let stall = || {
        let first = slow(calm(), Sender::Client, 50, 31);
        slow(first, Sender::Client, 60, 21)
    };
    let broken = stall().broken(&Promises::default());
    assert_eq!(broken.len(), 1, "{broken:?}");
    assert_eq!(
        broken[0].to_string(),
        "prompt at 5.00 s: 2 took up to 3.1 s while the API servers themselves answered in time"
    );
    // The control was slow before or after the request, or for a much shorter time.
    for (at, took) in [(17, 30), (82, 30), (60, 10)] {
        let story = slow(stall(), Sender::Control, at, took);
        let broken = story.broken(&Promises::default());
        assert_eq!(broken.len(), 1, "{at} {took}: {broken:?}");
        assert_eq!(broken[0].rule, Rule::Prompt);
    }
    let twice = slow(stall(), Sender::Client, 200, 31);
    assert_eq!(twice.broken(&Promises::default()).len(), 2);
    let crashes = Promises {
        prompt: false,
        ..Promises::default()
    };
    assert_eq!(stall().rules_of(&crashes), []);
}

#[test]
fn a_request_that_is_slow_on_a_busy_machine() {
    for (at, took) in [(20, 31), (50, 16), (80, 16)] {
        let story = slow(calm(), Sender::Client, 50, 31);
        let story = slow(story, Sender::Control, at, took);
        assert_eq!(story.rules(), [], "{at} {took}");
    }
}

#[test]
fn figures_of_a_rollout() {
    let mut story = rolled().at(111, What::RequestFailed("connection refused".to_owned()));
    story.entries.sort_by_key(|entry| entry.at);
    let figures = Figures::of(
        &story.entries,
        Duration::from_secs(1),
        Duration::from_secs(25),
    );
    assert_eq!((figures.replaced, figures.failed), (1, 1));
    assert_eq!(figures.answered, 25 * 20);
    assert_eq!(figures.slowest, Duration::from_millis(30));
    assert_eq!(figures.octavia_calls, 4);
    let holds: Vec<String> = figures.holds.iter().map(ToString::to_string).collect();
    assert_eq!(
        holds,
        ["b admission held 4.2 s ()", "a release held 5.0 s ()"]
    );
    assert_eq!(figures.longest_hold().unwrap().machine, "a");
}
