//! Machines that are released by the rules.

use std::time::Duration;

use super::{SECOND, gone, held, member_of, run_with_reads_of_servers, seconds, world};
use crate::{
    model::desired::{Deletion, ObservedCondition, ServerState},
    tests::{
        model::{Fate, ModelMember},
        world::{AtEndpoint, World, address, machine_name},
    },
};
use capo_core::{ConditionStatus, GateOverride, ProvisioningStatus, Reason};

#[test]
fn a_deletion_waits_until_another_is_steadily_online() {
    let mut world = world(1);
    world.add(2, true, Deletion::No);
    world.run(seconds(30));
    world.delete(&machine_name(1));
    world.run(seconds(60));
    assert_eq!(held(&world, 1), Some(Reason::NoOtherMemberServing));
    assert_eq!(world.tally.drains, 0);
    world.model.up.insert(address(2), world.now);
    world.run(seconds(40));
    // The member is ONLINE by now, but not for 45 s yet.
    assert_eq!(world.tally.drains, 0);
    world.run(seconds(80));
    assert!(gone(&world, 1));
    assert_eq!(world.tally.drains, 1);
}

#[test]
fn the_last_serving_member_is_held_for_ever_and_bypass_lets_it_go() {
    let mut world = world(1);
    world.delete(&machine_name(1));
    world.run(seconds(7200));
    assert_eq!(held(&world, 1), Some(Reason::NoOtherMemberServing));
    let until = world.present().wall + jiff::SignedDuration::from_secs(600);
    world.change(&machine_name(1), |want| {
        want.gate_override = GateOverride::Bypass {
            until,
            reason: "I know".to_owned(),
        };
    });
    world.run(seconds(30));
    assert!(gone(&world, 1));
}

#[test]
fn an_expired_bypass_is_none() {
    let mut world = world(1);
    let until = world.present().wall - jiff::SignedDuration::from_secs(1);
    world.change(&machine_name(1), |want| {
        want.gate_override = GateOverride::Bypass {
            until,
            reason: "late".to_owned(),
        };
    });
    world.delete(&machine_name(1));
    world.run(seconds(300));
    assert!(held(&world, 1).is_some());
}

#[test]
fn of_three_deleted_at_once_two_go_one_by_one_and_the_last_is_held() {
    let mut world = world(3);
    for index in 1..=3 {
        world.delete(&machine_name(index));
        world.run(seconds(1));
    }
    world.run(seconds(1800));
    assert!(gone(&world, 1) && gone(&world, 2) && !gone(&world, 3));
    assert_eq!(held(&world, 3), Some(Reason::NoOtherMemberServing));
    assert_eq!(member_of(&world, 3), Some(ProvisioningStatus::Active));
}

#[test]
fn a_release_is_called_off_when_the_other_one_fails_meanwhile() {
    let mut world = world(2);
    world.model.operation = seconds(20);
    world.delete(&machine_name(1));
    while world.tally.drains == 0 {
        world.run(SECOND);
        assert!(world.at() < 1000.0);
    }
    world.model.up.remove(&address(2));
    world.run(seconds(120));
    assert_eq!(world.tally.restores, 1);
    assert!(!gone(&world, 1));
    assert!(
        world
            .model
            .members()
            .any(|member| member.address == address(1) && member.weight == 1)
    );
    assert_eq!(held(&world, 1), Some(Reason::NoOtherMemberServing));
}

#[test]
fn a_restart_in_the_middle_of_a_release_ends_it_properly() {
    for pause in [1, 2, 3, 4, 5, 6, 7, 8] {
        let mut world = world(3);
        world.delete(&machine_name(1));
        world.run(seconds(pause));
        world.restart();
        world.run(seconds(600));
        assert!(gone(&world, 1), "after {pause} s");
        assert_eq!(member_of(&world, 1), None);
        assert_eq!(world.findings.verdict.status, ConditionStatus::True);
    }
}

#[test]
fn a_release_that_had_begun_goes_on_after_a_pause() {
    let mut world = world(3);
    world.model.operation = seconds(20);
    world.delete(&machine_name(2));
    while world.tally.drains == 0 {
        world.run(SECOND);
        assert!(world.at() < 1000.0);
    }
    // The machine is deleted in the same second, and its name comes first.
    let deletion = world.nodes.get(&machine_name(2)).unwrap().want.deletion;
    world.change(&machine_name(1), |want| want.deletion = deletion);
    for paused in [true, false] {
        world.desired.cluster.paused = paused;
        world.set_load_balancer();
        world.run(seconds(5));
    }
    while !gone(&world, 2) {
        world.run(SECOND);
        assert!(!gone(&world, 1) && world.at() < 1000.0);
    }
    world.run(seconds(300));
    assert!(gone(&world, 1));
}

#[test]
fn evidence_against_voids_online() {
    let mut world = world(2);
    world.change(&machine_name(2), |want| {
        want.api_server_pod = ObservedCondition::False;
    });
    world.delete(&machine_name(1));
    world.run(seconds(300));
    assert!(!gone(&world, 1));
    world.change(&machine_name(2), |want| {
        want.api_server_pod = ObservedCondition::Unknown;
    });
    world.run(seconds(60));
    assert!(gone(&world, 1));
}

/// Two machines serve; nothing listens on 8132, where their members read ERROR.
fn with_a_dark_port() -> World {
    let mut world = World::new(&[6443, 8132], SECOND);
    world.add_serving(1);
    world.add_serving(2);
    world.run(seconds(600));
    world.model.dark_port = Some(8132);
    world.run(seconds(900));
    world
}

#[test]
fn a_dark_port_holds_nothing_but_the_endpoints_port_does() {
    let mut world = with_a_dark_port();
    world.delete(&machine_name(1));
    world.run(seconds(60));
    assert!(gone(&world, 1));
    world.model.dark_port = Some(6443);
    world.add_serving(3);
    world.run(seconds(900));
    world.delete(&machine_name(2));
    world.run(seconds(600));
    assert!(!gone(&world, 2));
}

/// If no member is ONLINE, perhaps none was applied, because the monitor reports nothing about members that failed.
#[test]
fn a_port_is_not_left_to_members_that_failed() {
    let mut world = with_a_dark_port();
    world.model.fates = vec![Fate::Lost; 200];
    for member in world.model.members_mut() {
        if member.address == address(2) && member.port == 8132 {
            member.provisioning = ProvisioningStatus::Error;
        }
    }
    world.run(seconds(600));
    world.delete(&machine_name(1));
    world.run(seconds(600));
    assert_eq!(world.tally.drains, 0);
    assert!(!gone(&world, 1));
    world.model.fates.clear();
    world.model.fail_over();
    world.run(seconds(600));
    assert!(gone(&world, 1));
}

#[test]
fn ovn_is_never_drained() {
    let mut world = World::new(&[6443], Duration::from_secs(1));
    world.desired.provider = "ovn".to_owned();
    world.set_load_balancer();
    world.add_serving(1);
    world.add_serving(2);
    world.run(Duration::from_secs(200));
    world.delete(&machine_name(1));
    world.run(Duration::from_secs(60));
    assert!(
        world
            .nodes
            .get(&machine_name(1))
            .is_some_and(|node| node.gone)
    );
    assert_eq!(world.tally.drains, 0);
    let text = world.findings.verdict.message.clone();
    assert!(text.contains("ovn"), "{text}");
}

#[test]
fn a_drain_lasts_its_grace_time() {
    let mut world = World::new(&[6443], Duration::from_secs(1));
    world.settings.drain_grace = Duration::from_secs(90);
    world.restart();
    world.add_serving(1);
    world.add_serving(2);
    world.run(Duration::from_secs(200));
    world.delete(&machine_name(1));
    world.run(Duration::from_secs(60));
    assert_eq!(world.tally.drains, 1);
    assert!(
        world
            .model
            .members()
            .any(|member| member.address == address(1) && member.weight == 0)
    );
    world.run(Duration::from_secs(60));
    assert!(
        world
            .nodes
            .get(&machine_name(1))
            .is_some_and(|node| node.gone)
    );
}

#[test]
fn the_last_member_of_a_dark_port_stays_though_another_serves_the_endpoint() {
    let mut world = with_a_dark_port();
    // The other machine's member of that port is gone, and can't be created again.
    let other = address(2);
    for pool in &mut world.model.pools {
        pool.members
            .retain(|member| member.address != other || member.port != 8132);
    }
    world.change(&machine_name(2), |want| want.paused = true);
    world.run(seconds(600));
    world.delete(&machine_name(1));
    world.run(seconds(600));
    assert!(!gone(&world, 1));
    let left = world
        .model
        .members()
        .filter(|member| member.address == address(1) && member.port == 8132)
        .count();
    assert_eq!(left, 1);
}

#[test]
fn a_server_is_gone_only_in_the_load_balancer_in_which_its_member_was_seen() {
    for seen in [true, false] {
        let mut world = world(1);
        if !seen {
            // The credentials lead to another project, which has a load balancer of the same name without members.
            world.model = crate::tests::model::Model::new(SECOND);
            world.desired.id = capo_core::Lookup::Found("another".into());
            world.set_load_balancer();
        }
        let begun = world.now;
        world.change(&machine_name(1), |want| {
            want.server.state = ServerState::Absent;
            want.server.read_at = Some(begun);
            want.server.down_since = Some(begun);
        });
        world.fall(address(1));
        world.delete(&machine_name(1));
        world.run(seconds(29));
        assert!(!gone(&world, 1));
        world.run(seconds(300));
        assert_eq!(gone(&world, 1), seen);
    }
}

#[test]
fn a_release_that_has_begun_is_not_undone_when_cluster_api_drains_the_node_once_more() {
    let mut world = world(2);
    world.model.operation = seconds(5);
    world.delete(&machine_name(1));
    while member_of(&world, 1).is_some() {
        world.run(SECOND);
        assert!(world.at() < 1000.0);
    }
    let since = world.present().wall;
    let written = world.model.writes.len();
    world.change(&machine_name(1), |want| {
        want.deletion = Deletion::BeforeHook { since }
    });
    world.run(seconds(60));
    assert_eq!(world.model.writes.len(), written);
    world.change(&machine_name(1), |want| {
        want.deletion = Deletion::AtHook { since }
    });
    world.run(seconds(60));
    assert!(gone(&world, 1));
}

/// The Node was drained once more for hours, and no requests were made through the endpoint during that time.
#[test]
fn requests_are_made_again_when_the_hook_is_reached_for_the_second_time() {
    let mut world = world(2);
    world.delete(&machine_name(1));
    world.controllers = false;
    run_with_reads_of_servers(&mut world, seconds(60));
    assert!(world.findings.machines[&machine_name(1)].release.is_open());
    let since = world.present().wall;
    world.change(&machine_name(1), |want| {
        want.deletion = Deletion::BeforeHook { since }
    });
    run_with_reads_of_servers(&mut world, seconds(7_200));
    // The load balancer has stopped answering, although Octavia still shows everything as ACTIVE and ONLINE.
    world.endpoint = AtEndpoint::Unreachable;
    let requests = world.tally.requests;
    world.change(&machine_name(1), |want| {
        want.deletion = Deletion::AtHook { since }
    });
    assert!(!world.findings.machines[&machine_name(1)].release.is_open());
    run_with_reads_of_servers(&mut world, seconds(30));
    assert!(world.tally.requests > requests);
    assert!(!world.findings.machines[&machine_name(1)].release.is_open());
}

/// The hook can't be removed for a while, or the Node is drained for hours between the two hooks.
#[test]
fn a_member_that_is_there_again_after_the_release_holds_it_and_is_deleted_again() {
    let mut world = world(2);
    let is_own = |member: &&ModelMember| member.address == address(1);
    let own = world.model.members().find(is_own).cloned();
    world.delete(&machine_name(1));
    world.controllers = false;
    let is_open = |world: &World| world.findings.machines[&machine_name(1)].release.is_open();
    run_with_reads_of_servers(&mut world, seconds(60));
    assert!(is_open(&world));
    world.model.pools[0].members.extend(own);
    let mut held = false;
    for _ in 0..120 {
        run_with_reads_of_servers(&mut world, SECOND);
        held |= !is_open(&world);
    }
    assert!(held && is_open(&world));
    assert_eq!(member_of(&world, 1), None);
}

#[test]
fn no_other_release_begins_while_a_machine_is_paused_in_the_middle_of_its_own() {
    let mut world = world(3);
    world.delete(&machine_name(1));
    while world.tally.drains == 0 {
        world.run(SECOND / 10);
        assert!(world.at() < 1000.0);
    }
    world.change(&machine_name(1), |want| want.paused = true);
    world.delete(&machine_name(2));
    world.run(seconds(300));
    assert_eq!(world.tally.drains, 1);
    assert_eq!(held(&world, 1), Some(Reason::Paused));
    assert_eq!(held(&world, 2), Some(Reason::MemberDraining));
    world.change(&machine_name(1), |want| want.paused = false);
    world.run(seconds(300));
    assert!(gone(&world, 1) && gone(&world, 2));
}

#[test]
fn a_member_that_an_earlier_process_drained_is_restored_before_the_hook_when_no_other_one_serves() {
    for fails in [true, false] {
        let mut world = world(2);
        world.delete(&machine_name(1));
        let weight = |world: &World| {
            let mut members = world.model.members();
            let member = members.find(|member| member.address == address(1));
            member.map(|member| member.weight)
        };
        while weight(&world) != Some(0) {
            world.run(seconds(1) / 10);
            assert!(world.at() < 1000.0);
        }
        // Cluster API drains the Node once more, and the process ends.
        let since = world.present().wall;
        world.change(&machine_name(1), |want| {
            want.deletion = Deletion::BeforeHook { since };
        });
        world.restart();
        world.run(seconds(30));
        assert_eq!(weight(&world), Some(0));
        if fails {
            world.fall(address(2));
        }
        world.run(seconds(400));
        assert_eq!(weight(&world), Some(u32::from(fails)));
    }
}

#[test]
fn a_drained_member_does_not_show_that_a_monitor_checks_the_others() {
    let mut world = world(2);
    let now = world.now;
    assert!(world.model.tree(now).is_ok());
    let port = &mut world.state.ports[0];
    for member in &mut port.members {
        member.operating = capo_core::OperatingStatus::Offline;
    }
    port.members[0].operating = capo_core::OperatingStatus::Draining;
    assert!(!port.monitor_is_usable());
}
