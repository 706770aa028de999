//! Counted figures, such as the number of Octavia calls for a release.

use std::time::Duration;

use crate::{
    model::desired::Deletion,
    tests::world::{World, address, machine_name},
};

fn settled(ports: &[u16], operation: Duration, machines: u8) -> World {
    let mut world = World::new(ports, operation);
    for index in 1..=machines {
        world.add_serving(index);
    }
    world.run(Duration::from_secs(600));
    world
}

#[test]
fn a_settled_cluster_costs_one_call_a_pass_for_any_number_of_ports() {
    for ports in [&[6443][..], &[6443, 8132, 9345]] {
        let mut world = settled(ports, Duration::from_secs(1), 3);
        // The count of settled reads begins here, so the next five reads of the tree are not followed by slow reads.
        world.state.reads.steady = 0;
        world.tally = super::world::Tally::default();
        world.run(Duration::from_secs(1500));
        assert_eq!((world.tally.calls, world.tally.trees), (5, 5), "{ports:?}");
    }
}

#[test]
fn adding_a_member_takes_at_most_five_calls_when_octavia_takes_five_seconds() {
    let mut world = settled(&[6443], Duration::from_secs(5), 2);
    world.tally = super::world::Tally::default();
    let name = world.add(3, false, Deletion::No);
    world.run(Duration::from_secs(60));
    assert!(
        world
            .nodes
            .get(&name)
            .is_some_and(|node| node.want.admitted)
    );
    assert!(world.tally.calls <= 5, "{} calls", world.tally.calls);
}

#[test]
fn adding_and_enabling_a_member_takes_at_most_eight_calls_when_octavia_takes_up_to_five_seconds() {
    for seconds in 1..=5 {
        let mut world = settled(&[6443], Duration::from_secs(seconds), 2);
        world.tally = super::world::Tally::default();
        let name = world.add(3, false, Deletion::No);
        let member = |world: &World| {
            let mut members = world.model.members();
            members.find(|member| member.address == address(3)).cloned()
        };
        world.run(Duration::from_secs(60));
        assert!(member(&world).is_some_and(|member| member.applied == (1, false)));
        world.boot(address(3));
        world.run(Duration::from_secs(60));
        let enabled = member(&world);
        assert!(
            enabled
                .as_ref()
                .is_some_and(|member| member.applied == (1, true) && member.tags == ["t"]),
            "{enabled:?}"
        );
        // The last of the calls has shown that everything has settled.
        assert!(!crate::plan::schedule::is_unsettled(&world.state));
        assert_eq!(world.tally.joins, 1);
        let calls = world.tally.calls;
        assert!(
            calls <= 8,
            "{calls} calls with operations of {seconds} s on {name}"
        );
    }
}

#[test]
fn replacing_a_machine_takes_few_calls_beyond_waiting_for_health() {
    for (ports, most) in [(&[6443][..], 12), (&[6443, 8132, 9345], 32)] {
        let mut world = settled(ports, Duration::from_secs(1), 3);
        world.tally = super::world::Tally::default();
        world.add(4, false, Deletion::No);
        world.run(Duration::from_secs(20));
        world.model.up.insert(address(4), world.now);
        world.run(Duration::from_secs(100));
        let before = world.now;
        let name = super::world::machine_name(1);
        world.delete(&name);
        let mut waited = 0;
        while !world.nodes.get(&name).is_some_and(|node| node.gone) {
            world.run(Duration::from_secs(1));
            waited += 1;
            assert!(waited < 120, "not gone after two minutes");
        }
        let took = world.now - before;
        world.run(Duration::from_secs(60));
        // The health of the members was known, so nothing had to be waited for.
        assert!(took <= Duration::from_secs(40), "{took:?}");
        assert!(
            world.tally.calls <= most,
            "{} calls for {ports:?}",
            world.tally.calls
        );
        assert_eq!(world.tally.releases, 1);
        assert_eq!(world.tally.drains, u32::try_from(ports.len()).unwrap_or(0));
    }
}

#[test]
fn active_is_published_within_a_second_on_the_median() {
    let mut lags = Vec::new();
    for tenth in 0..100_u64 {
        let operation = Duration::from_millis(1_000 + tenth * 47);
        let mut world = settled(&[6443], operation, 1);
        let name = world.add(2, false, Deletion::No);
        let posted = world.now;
        while !world
            .nodes
            .get(&name)
            .is_some_and(|node| node.want.admitted)
        {
            world.run(Duration::from_millis(10));
            assert!(world.now - posted < Duration::from_secs(60));
        }
        // Cluster API takes two of these seconds in this model.
        lags.push((world.now - posted).saturating_sub(operation + Duration::from_secs(2)));
    }
    lags.sort();
    assert!(
        lags.get(50)
            .is_some_and(|lag| *lag <= Duration::from_secs(1)),
        "{lags:?}"
    );
    assert!(
        lags.get(98)
            .is_some_and(|lag| *lag <= Duration::from_secs(3)),
        "{lags:?}"
    );
}

#[test]
fn an_outage_of_two_minutes_costs_few_calls_and_ends_soon_after() {
    use capo_core::FailureClass;
    for class in [FailureClass::Transient, FailureClass::Throttled] {
        let mut world = settled(&[6443], Duration::from_secs(1), 3);
        world.tally = super::world::Tally::default();
        for _ in 0..1_000 {
            world.line.push_back(super::world::Line::Down(class));
        }
        let name = world.add(4, false, Deletion::No);
        let published = world.published;
        world.run(Duration::from_secs(120));
        assert!(
            world.tally.calls <= 40,
            "{class:?}: {} calls",
            world.tally.calls
        );
        assert!(
            world.published - published <= 6,
            "{class:?}: {}",
            world.published - published
        );
        world.line.clear();
        world.run(Duration::from_secs(10));
        let member = world
            .model
            .members()
            .any(|member| member.name.ends_with(&name.name));
        assert!(member, "{class:?}");
    }
}

/// Octavia calls from the moment at which a release is asked until the hook may go, and how long that takes.
#[test]
fn releasing_one_machine_of_an_idle_cluster_takes_at_most_8_calls_and_8_s() {
    let mut world = settled(&[6443], Duration::from_secs(1), 3);
    world.tally = super::world::Tally::default();
    let name = super::world::machine_name(1);
    let begun = world.now;
    world.delete(&name);
    while world.tally.releases == 0 {
        world.run(Duration::from_millis(10));
        assert!(world.now - begun < Duration::from_secs(60), "not released");
    }
    let took = world.now - begun;
    assert!(world.tally.calls <= 8, "{} calls", world.tally.calls);
    assert!(took <= Duration::from_secs(8), "{took:?}");
}

/// `KubeadmControlPlane` deletes the next machine as soon as the API server of the newcomer is up, which is also when
/// the member of the newcomer is enabled. An operation of Octavia may end just after the read that was to show its end.
#[test]
fn a_release_beside_an_enabling_takes_at_most_five_seconds_and_nine_calls_together() {
    for (operation, latency) in [(1_000, 20), (1_060, 20), (1_060, 80)] {
        for wait in [1_000, 2_000, 3_000] {
            let mut world = settled(&[6443], Duration::from_millis(operation), 3);
            world.latency = Duration::from_millis(latency);
            world.add(4, false, Deletion::No);
            world.run(Duration::from_secs(60));
            world.tally = super::world::Tally::default();
            world.boot(address(4));
            // Its API server is probed once a second.
            world.run(Duration::from_millis(1_000 + wait));
            world.delete(&machine_name(1));
            world.run(Duration::from_secs(5));
            let node = world.nodes.get(&machine_name(1));
            let case = format!("operation {operation} ms, latency {latency} ms, wait {wait} ms");
            assert!(node.is_some_and(|node| node.gone), "{case}");
            world.run(Duration::from_secs(60));
            assert!(
                world.tally.calls <= 9,
                "{case}: {} calls",
                world.tally.calls
            );
        }
    }
}
