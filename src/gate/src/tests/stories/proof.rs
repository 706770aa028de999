//! The endpoint proof: the replies through the endpoint without the machine decide.

use crate::{
    model::{
        desired::ObservedCondition,
        machine::Stage,
        octavia::Change,
        proof::{EndpointReply, EndpointResult},
    },
    tests::{
        model::ModelMember,
        world::{AtEndpoint, World, address, machine_name},
    },
};
use capo_core::Reason;

use super::{SECOND, gone, held, member_of, seconds, world};

fn message(world: &World) -> String {
    let finding = world.findings.machines.get(&machine_name(1)).unwrap();
    finding.release.message.clone()
}

fn stage(world: &World) -> Stage {
    let machine = world.state.machines.get(&machine_name(1));
    machine.map(|machine| machine.stage).unwrap()
}

fn run_until(world: &mut World, happened: impl Fn(&World) -> bool) {
    let begun = world.at();
    while !happened(world) {
        world.run(SECOND / 10);
        assert!(world.at() < begun + 600.0, "it does not happen");
    }
}

#[test]
fn a_machine_goes_after_five_answers_without_its_traffic_and_five_without_its_member() {
    let mut world = world(2);
    world.delete(&machine_name(1));
    run_until(&mut world, |world| world.tally.drains == 1);
    assert_eq!(world.tally.requests, 1);
    run_until(&mut world, |world| stage(world) == Stage::Removing);
    assert_eq!(world.tally.requests, 1 + 5);
    run_until(&mut world, |world| gone(world, 1));
    assert_eq!(world.tally.requests, 1 + 5 + 5);
    assert_eq!(world.tally.restores, 0);
}

#[test]
fn a_member_that_is_there_again_during_the_last_requests_is_deleted_again() {
    let mut world = world(2);
    let is_own = |member: &&ModelMember| member.address == address(1);
    let own = world.model.members().find(is_own).cloned();
    world.delete(&machine_name(1));
    run_until(&mut world, |world| stage(world) == Stage::Confirming);
    assert_eq!(member_of(&world, 1), None);
    let pool = world.model.pools.first_mut().unwrap();
    pool.members.push(own.unwrap());
    run_until(&mut world, |world| world.tally.releases == 1);
    assert_eq!(member_of(&world, 1), None);
    let deletions = world.model.writes.iter();
    let deletions = deletions.filter(|change| matches!(change, Change::DeleteMember { .. }));
    assert_eq!(deletions.count(), 2);
}

#[test]
fn a_weight_that_octavia_has_not_applied_is_caught() {
    let mut world = world(2);
    world.set_endpoint(AtEndpoint::Unchanged);
    world.delete(&machine_name(1));
    world.run(seconds(45));
    assert_eq!((world.tally.drains, world.tally.restores), (1, 1));
    assert!(!gone(&world, 1) && member_of(&world, 1).is_some());
    assert_eq!(held(&world, 1), Some(Reason::NoOtherMemberServing));
    let said = message(&world);
    for words in [
        "was put back in service",
        "GET https://192.0.2.1:6443/readyz",
        "10.0.0.1",
    ] {
        assert!(said.contains(words), "{said}");
    }
    world.set_endpoint(AtEndpoint::LoadBalancer);
    world.run(seconds(120));
    assert!(gone(&world, 1));
}

/// HAProxy loads a new configuration a moment after Octavia shows it as ACTIVE.
#[test]
fn a_drain_that_reaches_clients_a_moment_after_it_is_shown_needs_one_attempt() {
    let mut world = world(2);
    world.delete(&machine_name(1));
    run_until(&mut world, |world| world.tally.drains == 1);
    world.set_endpoint(AtEndpoint::Unchanged);
    run_until(&mut world, |world| stage(world) == Stage::Proving);
    world.run(seconds(3));
    assert_eq!(stage(&world), Stage::Proving, "{}", message(&world));
    world.set_endpoint(AtEndpoint::LoadBalancer);
    world.run(seconds(30));
    assert!(gone(&world, 1), "{}", message(&world));
    assert_eq!((world.tally.drains, world.tally.restores), (1, 0));
}

/// Octavia answers a PUT at once and shows the new weight at once. New connections are kept away only when its
/// operation has ended.
#[test]
fn no_request_is_made_before_octavia_has_applied_the_drain() {
    for ovn in [false, true] {
        for operation in [2, 5, 15, 40] {
            let mut world = two(ovn);
            world.model.operation = seconds(operation);
            let writes = world.tally.writes;
            world.delete(&machine_name(1));
            run_until(&mut world, |world| world.tally.writes > writes);
            let before = world.tally.requests;
            world.run(seconds(operation - 1));
            assert_eq!(world.tally.requests, before, "{operation} s, {ovn}");
            world.run(seconds(60 + 8 * operation));
            assert!(gone(&world, 1), "{operation} s, {ovn}: {}", message(&world));
            assert_eq!(world.tally.restores, 0, "{operation} s, {ovn}");
        }
    }
}

#[test]
fn what_is_no_api_server_of_the_cluster_at_the_endpoint_holds_and_changes_nothing() {
    let mut world = world(2);
    world.endpoint = AtEndpoint::Stranger;
    world.delete(&machine_name(1));
    world.run(seconds(600));
    assert_eq!(world.tally.drains, 0);
    assert_eq!(held(&world, 1), Some(Reason::NoOtherMemberServing));
    let said = message(&world);
    assert!(said.contains("not issued by the cluster's CA"), "{said}");
    world.set_endpoint(AtEndpoint::LoadBalancer);
    world.run(seconds(60));
    assert!(gone(&world, 1));
}

#[test]
fn a_proof_that_fails_after_the_deletion_brings_the_member_back() {
    let mut world = world(2);
    // The manager can't reach the machine's own address to see that its API server is up.
    world.routable = false;
    world.delete(&machine_name(1));
    run_until(&mut world, |world| member_of(world, 1).is_none());
    world.endpoint = AtEndpoint::Stranger;
    world.run(seconds(30));
    assert!(!gone(&world, 1) && member_of(&world, 1).is_some());
    assert!(world.model.members().all(|member| member.admin_up));
    assert_eq!(held(&world, 1), Some(Reason::NoOtherMemberServing));
    world.set_endpoint(AtEndpoint::LoadBalancer);
    world.run(seconds(180));
    assert!(gone(&world, 1));
}

#[test]
fn where_weights_are_ignored_the_member_is_disabled_for_the_proof() {
    let mut world = two(true);
    world.delete(&machine_name(1));
    world.run(seconds(120));
    assert!(gone(&world, 1));
    let disabled = world.model.writes.iter().any(|change| {
        matches!(change, Change::UpdateMember { update, .. } if update.admin_state_up == Some(false)
            && update.tags.iter().flatten().any(|tag| tag == "capo-rs-leaving"))
    });
    assert!(disabled, "{:?}", world.model.writes);
}

#[test]
fn a_member_that_was_disabled_for_a_proof_that_failed_is_enabled_again() {
    let mut world = two(true);
    world.delete(&machine_name(1));
    run_until(&mut world, |world| {
        world.model.members().any(|member| !member.admin_up)
    });
    world.endpoint = AtEndpoint::Unreachable;
    world.run(seconds(40));
    assert!(!gone(&world, 1));
    assert!(world.model.members().all(|member| member.admin_up));
    let is_marked = |tags: &[String]| tags.iter().any(|tag| tag == "capo-rs-leaving");
    assert!(!world.model.members().any(|member| is_marked(&member.tags)));
}

#[test]
fn an_additional_port_that_answered_before_must_answer_without_the_machine() {
    let mut world = World::new(&[6443, 8132], SECOND);
    world.add_serving(1);
    world.add_serving(2);
    world.run(seconds(600));
    world.delete(&machine_name(1));
    run_until(&mut world, |world| world.tally.drains == 2);
    world.model.dark_port = Some(8132);
    world.run(seconds(60));
    assert!(!gone(&world, 1));
    assert!(
        message(&world).contains("TCP connection to 192.0.2.1:8132"),
        "{}",
        message(&world)
    );
    world.model.dark_port = None;
    world.run(seconds(300));
    assert!(gone(&world, 1));
}

#[test]
fn a_hold_ends_when_the_operator_enables_the_other_member_again() {
    let mut world = world(2);
    let set = |world: &mut World, up: bool| {
        for member in world.model.members_mut() {
            if member.address == address(2) {
                member.admin_up = up;
            }
        }
    };
    set(&mut world, false);
    world.delete(&machine_name(1));
    world.run(seconds(300));
    assert!(message(&world).contains("cp-2: its member is disabled"));
    set(&mut world, true);
    world.run(seconds(300));
    assert!(gone(&world, 1));
}

/// The control of every story in this file: the checks of the world notice if the proof shows more than is true.
#[test]
fn a_proof_that_is_made_to_lie_is_caught() {
    let story = |endpoint| {
        let mut world = World::new(&[6443], SECOND);
        world.model.monitors = false;
        world.add_serving(1);
        world.add_serving(2);
        world.run(seconds(400));
        // No monitor and no condition shows that this API server is down.
        world.fall(address(2));
        world.run(seconds(120));
        world.endpoint = endpoint;
        world.delete(&machine_name(1));
        world.run(seconds(120));
        world
    };
    let honest = story(AtEndpoint::LoadBalancer);
    assert!(!gone(&honest, 1));
    assert!(honest.tally.restores > 0 && member_of(&honest, 1).is_some());
    let lying = std::panic::catch_unwind(|| story(AtEndpoint::Lies));
    let caught = lying.err().and_then(|text| text.downcast::<String>().ok());
    assert!(caught.is_some_and(|text| text.contains("though no other API server was up")));
}

#[test]
fn what_came_back_is_in_the_message_and_no_more_than_200_characters_of_it() {
    use capo_core::{EndpointAnswer, EndpointFailure, Excerpt};
    let long = Excerpt::of(&"<html>nobody home".repeat(100));
    let answer = |status| {
        Ok(EndpointReply::Answer(EndpointAnswer {
            status,
            named: Vec::new(),
            body: long.clone(),
        }))
    };
    let table: [(EndpointResult, &str); 12] = [
        (answer(429), "the answer was 429: <html>"),
        (answer(502), "the answer was 502: <html>"),
        (
            Err(EndpointFailure::OtherCa),
            "not issued by the cluster's CA",
        ),
        (
            Err(EndpointFailure::BadCertificate(long.clone())),
            "certificate is not valid",
        ),
        (Err(EndpointFailure::NotTls), "does not speak TLS"),
        (Err(EndpointFailure::NotHttp), "does not speak HTTP"),
        (Err(EndpointFailure::Closed), "closed without an answer"),
        (Err(EndpointFailure::Refused), "refused"),
        (
            Err(EndpointFailure::TimedOut(SECOND * 3)),
            "no answer within 3 s",
        ),
        (
            Err(EndpointFailure::NoAddress(long.clone())),
            "has no address",
        ),
        (
            Err(EndpointFailure::Unreachable(Excerpt::of(
                "no route to host: only IPv6",
            ))),
            "no route to host",
        ),
        (
            Err(EndpointFailure::Proxy {
                status: 407,
                body: long.clone(),
            }),
            "the proxy answered 407",
        ),
    ];
    for (result, words) in table {
        let mut world = world(2);
        world.replies = Some(result);
        world.delete(&machine_name(1));
        world.run(seconds(60));
        assert!(!gone(&world, 1) && world.tally.drains == 0, "{words}");
        let said = message(&world);
        for part in ["GET https://192.0.2.1:6443/readyz", words, "bypass until="] {
            assert!(said.contains(part), "{part}: {said}");
        }
        assert!(said.matches("nobody home").count() <= 200 / 17, "{said}");
        world.replies = None;
        world.run(seconds(60));
        assert!(gone(&world, 1), "{words}: {}", message(&world));
    }
}

/// Two machines behind a load balancer, of which the first one is to be released.
fn two(ovn: bool) -> World {
    let mut world = World::new(&[6443], SECOND);
    world.model.ovn = ovn;
    if ovn {
        world.desired.provider = "ovn".to_owned();
        world.set_load_balancer();
    }
    world.add_serving(1);
    world.add_serving(2);
    world.run(seconds(400));
    world
}

/// OVN shows a member as ACTIVE and ONLINE that it has never programmed.
#[test]
fn a_member_that_ovn_calls_active_and_never_programmed_replaces_no_machine() {
    let mut world = two(true);
    world.model.never_programmed.insert(address(2));
    world.delete(&machine_name(1));
    world.run(seconds(600));
    assert!(!gone(&world, 1) && member_of(&world, 1).is_some());
    assert_eq!(held(&world, 1), Some(Reason::NoOtherMemberServing));
    world.model.never_programmed.clear();
    world.run(seconds(700));
    assert!(gone(&world, 1));
}

/// Some series of requests fail as a whole, because each of their requests reaches the member that is not programmed.
#[test]
fn an_endpoint_that_answers_now_and_then_is_not_one_that_is_out_of_reach() {
    let mut world = two(true);
    world.desired.cluster.remote_connection = ObservedCondition::TrueSince(world.now);
    world.set_load_balancer();
    world.model.never_programmed.insert(address(2));
    world.delete(&machine_name(1));
    for _ in 0..12 {
        world.run(seconds(3_600));
        assert!(!gone(&world, 1) && member_of(&world, 1).is_some());
    }
}

/// This happens during a failover of the amphora, for example.
#[test]
fn an_endpoint_that_is_out_of_reach_for_a_moment_still_has_to_answer() {
    let mut world = two(false);
    world.desired.cluster.remote_connection = ObservedCondition::TrueSince(world.now);
    world.set_load_balancer();
    world.endpoint = AtEndpoint::Stranger;
    world.delete(&machine_name(1));
    world.run(seconds(200));
    world.endpoint = AtEndpoint::Unreachable;
    world.run(seconds(60));
    assert_eq!(world.tally.drains, 0);
    assert_eq!(held(&world, 1), Some(Reason::HealthUnavailable));
    world.set_endpoint(AtEndpoint::LoadBalancer);
    world.run(seconds(60));
    assert!(gone(&world, 1));
}

/// Octavia's health manager is down, so the last statuses stay.
#[test]
fn a_member_that_was_online_only_in_an_old_read_replaces_no_machine() {
    let mut world = two(false);
    world.model.health_unreported.insert(address(2));
    world.fall(address(2));
    world.run(seconds(120));
    world.delete(&machine_name(1));
    world.run(seconds(600));
    assert!(!gone(&world, 1));
    assert!(world.tally.restores > 0 && member_of(&world, 1).is_some());
}

/// A health monitor needs 35 s to find an API server down.
#[test]
fn a_member_that_dies_a_moment_before_the_release_replaces_no_machine() {
    let mut world = two(false);
    world.model.health_unreported.insert(address(2));
    world.delete(&machine_name(1));
    run_until(&mut world, |world| world.tally.drains == 1);
    world.fall(address(2));
    world.run(seconds(20));
    assert_eq!(world.tally.restores, 1);
    world.model.health_unreported.clear();
    world.run(seconds(600));
    assert!(!gone(&world, 1) && member_of(&world, 1).is_some());
}

/// A leaving member is shown as DRAINING. This shows nothing about a health monitor that finds every other member
/// OFFLINE.
#[test]
fn a_half_dead_health_manager_does_not_make_a_release_begin_again_and_again() {
    let mut world = two(false);
    world.model.silent = true;
    world.run(seconds(600));
    world.delete(&machine_name(1));
    world.run(seconds(600));
    assert!(gone(&world, 1));
    assert_eq!((world.tally.drains, world.tally.restores), (1, 0));
}

#[test]
fn an_endpoint_that_answers_half_of_the_requests_holds_and_ends_when_it_answers_all() {
    let mut world = two(false);
    world.endpoint = AtEndpoint::EverySecond;
    world.delete(&machine_name(1));
    world.run(seconds(600));
    assert!(!gone(&world, 1) && member_of(&world, 1).is_some());
    assert!(world.tally.restores <= 5, "{}", world.tally.restores);
    let said = message(&world);
    for part in [
        "GET https://192.0.2.1:6443/readyz",
        "no answer within 3 s",
        "bypass until=",
    ] {
        assert!(said.contains(part), "{part}: {said}");
    }
    world.set_endpoint(AtEndpoint::LoadBalancer);
    world.run(seconds(700));
    assert!(gone(&world, 1));
}
