//! What counts if no monitor shows the health of members, and if the manager does not reach the endpoint. And what the
//! gates report when they only observe.

use std::time::Duration;

use crate::{
    model::{
        desired::{Deletion, DesiredMachine, ObservedCondition},
        findings::MachineFinding,
    },
    tests::world::{AtEndpoint, World, machine_name},
};
use capo_core::{GateMode, GateState, Reason};

fn seconds(count: u64) -> Duration {
    Duration::from_secs(count)
}

/// Two machines of which nothing but Cluster API's conditions shows the health.
fn unseen() -> World {
    let mut world = World::new(&[6443], seconds(1));
    world.model.monitors = false;
    world.routable = false;
    world.add_serving(1);
    world.add_serving(2);
    world.run(seconds(60));
    world
}

fn connect(world: &mut World, connected: bool) {
    world.desired.cluster.remote_connection = if connected {
        ObservedCondition::TrueSince(world.now)
    } else {
        ObservedCondition::False
    };
    world.set_load_balancer();
}

fn change(world: &mut World, change: impl FnOnce(&mut DesiredMachine)) {
    world.change(&machine_name(2), change);
}

fn finding(world: &World, index: u8) -> &MachineFinding {
    world.findings.machines.get(&machine_name(index)).unwrap()
}

fn gone(world: &World) -> bool {
    world.nodes.get(&machine_name(1)).unwrap().gone
}

fn held(world: &World) -> (Reason, String) {
    let release = finding(world, 1).release.clone();
    assert!(release.is_held(), "{release:?}");
    (release.reason, release.message)
}

#[test]
fn without_a_monitor_nothing_that_cluster_api_says_may_speak_against_the_other_one() {
    let (good, bad) = (true, false);
    // The columns: a Node, NodeHealthy, APIServerPodHealthy (`None`: Unknown), released.
    for (has_node, node, pod, released) in [
        (true, Some(good), Some(good), true),
        (true, None, None, true),
        (true, Some(bad), Some(good), false),
        (true, Some(good), Some(bad), false),
        (false, None, Some(good), false),
    ] {
        let mut world = unseen();
        let now = world.now;
        change(&mut world, |want| {
            want.api_server_pod = ObservedCondition::TrueSince(now);
        });
        world.run(seconds(30));
        let health = |said: Option<bool>| match said {
            Some(true) => ObservedCondition::TrueSince(now),
            Some(false) => ObservedCondition::False,
            None => ObservedCondition::Unknown,
        };
        change(&mut world, |want| {
            want.has_node = has_node;
            want.node = health(node);
            want.api_server_pod = health(pod);
        });
        world.delete(&machine_name(1));
        world.run(seconds(200));
        let case = (has_node, node, pod);
        assert_eq!(gone(&world), released, "{case:?}");
        if !released {
            let expected = if pod == Some(bad) {
                Reason::NoOtherMemberServing
            } else {
                Reason::HealthUnavailable
            };
            assert_eq!(held(&world).0, expected, "{case:?}");
        }
    }
}

#[test]
fn without_a_way_to_the_endpoint_the_others_must_serve_for_ninety_seconds_without_a_break() {
    let mut world = unseen();
    let now = world.now;
    change(&mut world, |want| {
        want.api_server_pod = ObservedCondition::TrueSince(now);
    });
    world.endpoint = AtEndpoint::Unreachable;
    world.run(seconds(100));
    world.delete(&machine_name(1));
    world.run(seconds(200));
    // Cluster API does not reach the API servers either.
    let (reason, message) = held(&world);
    assert_eq!(reason, Reason::HealthUnavailable);
    for words in [
        "Neither the manager nor Cluster API",
        "GET https://192.0.2.1:6443/readyz: no answer within 3 s",
    ] {
        assert!(message.contains(words), "{message}");
    }
    assert_eq!(world.tally.drains, 0);
    world.restart();
    connect(&mut world, true);
    world.run(seconds(60));
    let (reason, message) = held(&world);
    assert_eq!(reason, Reason::HealthUnavailable);
    assert!(message.contains("No proof is possible"), "{message}");
    // An interruption, however short, starts the time again.
    change(&mut world, |want| {
        want.api_server_pod = ObservedCondition::False;
    });
    world.run(seconds(2));
    change(&mut world, |want| {
        want.api_server_pod = ObservedCondition::TrueSince(now);
    });
    world.run(seconds(80));
    assert!(!gone(&world));
    assert_eq!(world.tally.drains, 0);
    world.run(seconds(60));
    assert!(gone(&world));
}

#[test]
fn observing_tells_a_release_that_would_be_held_and_lets_it_go() {
    let mut world = World::new(&[6443], seconds(1));
    world.settings.mode = GateMode::Observe;
    world.restart();
    world.controllers = false;
    world.add_serving(1);
    world.run(seconds(60));
    let since = world.present().wall;
    world.change(&machine_name(1), |want| {
        want.deletion = Deletion::Unhooked { since };
    });
    let release = &finding(&world, 1).release;
    assert_eq!(release.state, GateState::Open);
    assert_eq!(release.reason, Reason::NoOtherMemberServing);
    for words in ["only observes", "It is the only member of port 6443"] {
        assert!(release.message.contains(words), "{release:?}");
    }
    // The member is removed first and then the server, as without any gate.
    world.run(seconds(30));
    assert!(finding(&world, 1).finalizer.is_open());
    assert_eq!(world.model.members().count(), 0);
}

#[test]
fn a_hold_in_the_condition_says_that_it_freezes_the_control_plane_and_names_the_way_out() {
    for kubeadm in [true, false] {
        let mut world = World::new(&[6443], seconds(1));
        world.desired.cluster.kubeadm_control_plane = kubeadm;
        world.set_load_balancer();
        world.add_serving(1);
        world.run(seconds(60));
        world.delete(&machine_name(1));
        world.run(seconds(60));
        let said = finding(&world, 1).verdict.message.clone();
        assert!(
            said.contains("bypass until=<RFC 3339> reason=<text>"),
            "{said}"
        );
        assert_eq!(
            said.contains("KubeadmControlPlane changes nothing else"),
            kubeadm,
            "{said}"
        );
    }
}
