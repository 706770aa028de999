//! Members: created, tracked, repaired, enabled, pruned.

use std::time::Duration;

use super::{SECOND, gone, member_of, seconds, world};
use crate::{
    model::{desired::Deletion, event::Event, findings::Gate, member::JOINING, octavia::Change},
    tests::{
        model::{Fate, ModelMember},
        world::{Line, NAME, Todo, World, address, machine_name},
    },
};
use capo_core::{
    ConditionStatus, FailureClass, GateState, ProvisioningStatus, Reason, octavia::NewMember,
};

/// The member that another client adds at the address of a machine.
fn of_another_client(index: u8) -> NewMember {
    NewMember {
        name: "another-client".to_owned(),
        address: address(index),
        protocol_port: 6443,
        subnet_id: None,
        weight: None,
        admin_state_up: true,
        tags: Vec::new(),
    }
}

#[test]
fn a_member_that_stays_pending_under_an_active_load_balancer_holds_its_machine() {
    let mut world = world(1);
    world.model.fates.push(Fate::Late(20));
    let name = world.add(2, false, Deletion::No);
    world.run(seconds(15));
    let finding = world.findings.machines.get(&name).cloned();
    let admission = finding.map(|finding| finding.admission);
    assert!(
        matches!(
            admission,
            Some(Gate {
                state: GateState::Held,
                reason: Reason::MemberPending,
                ..
            })
        ),
        "{admission:?}"
    );
    assert_eq!(
        world.findings.provisioning_status,
        Some(ProvisioningStatus::Active)
    );
    assert_eq!(world.findings.verdict.status, ConditionStatus::False);
    world.run(seconds(20));
    assert!(
        world
            .nodes
            .get(&name)
            .is_some_and(|node| node.want.admitted)
    );
    assert_eq!(world.tally.repairs, 0);
}

#[test]
fn a_member_whose_creation_failed_is_recreated() {
    let mut world = world(1);
    world.model.fates.push(Fate::Fails);
    let name = world.add(2, false, Deletion::No);
    world.run(seconds(60));
    assert!(
        world
            .nodes
            .get(&name)
            .is_some_and(|node| node.want.admitted)
    );
    assert_eq!(member_of(&world, 2), Some(ProvisioningStatus::Active));
    assert_eq!(world.tally.repairs, 0);
}

#[test]
fn a_member_whose_creation_was_lost_is_recreated_after_a_minute() {
    let mut world = world(1);
    world.model.fates.push(Fate::Lost);
    world.add(2, false, Deletion::No);
    world.run(seconds(50));
    assert_eq!(
        member_of(&world, 2),
        Some(ProvisioningStatus::PendingCreate)
    );
    world.run(seconds(60));
    assert_eq!(member_of(&world, 2), Some(ProvisioningStatus::Active));
}

#[test]
fn when_every_member_reads_error_they_get_a_put_and_none_is_removed() {
    let mut world = world(3);
    for member in world.model.members_mut() {
        member.provisioning = ProvisioningStatus::Error;
    }
    world.run(seconds(1200));
    for index in 1..=3 {
        assert_eq!(member_of(&world, index), Some(ProvisioningStatus::Active));
    }
    assert!(world.tally.repairs >= 3);
    let deletes = world
        .model
        .writes
        .iter()
        .filter(|change| matches!(change, Change::DeleteMember { .. }));
    assert_eq!(deletes.count(), 0);
}

#[test]
fn without_a_monitor_a_second_member_joins_admin_down_and_is_let_in_on_evidence() {
    let mut world = World::new(&[6443], SECOND);
    world.model.monitors = false;
    world.add_serving(1);
    world.run(seconds(60));
    assert!(world.model.members().all(|member| member.admin_up));
    world.add(2, false, Deletion::No);
    world.run(seconds(20));
    let joining = world
        .model
        .members()
        .find(|member| member.address == address(2))
        .cloned();
    assert!(
        joining.as_ref().is_some_and(|member| !member.admin_up),
        "{joining:?}"
    );
    assert!(joining.is_some_and(|member| member.tags.iter().any(|tag| tag == "capo-rs-joining")));
    // The machine is admitted all the same, because nothing listens there yet.
    assert!(
        world
            .nodes
            .get(&machine_name(2))
            .is_some_and(|node| node.want.admitted)
    );
    world.model.up.insert(address(2), world.now);
    world.run(seconds(20));
    let joined = world
        .model
        .members()
        .find(|member| member.address == address(2))
        .cloned();
    assert!(
        joined
            .as_ref()
            .is_some_and(|member| member.admin_up && member.tags == ["t"]),
        "{joined:?}"
    );
    assert_eq!(world.tally.joins, 1);
}

#[test]
fn behind_a_health_monitor_a_member_joins_admin_down_too() {
    let mut world = World::new(&[6443], SECOND);
    world.add_serving(1);
    world.run(seconds(200));
    world.add(2, false, Deletion::No);
    world.run(seconds(20));
    let second = |world: &World| {
        let mut members = world.model.members();
        members.find(|member| member.address == address(2)).cloned()
    };
    assert!(second(&world).is_some_and(|member| !member.admin_up && member.tags == ["t", JOINING]));
    world.model.up.insert(address(2), world.now);
    world.run(seconds(20));
    assert!(second(&world).is_some_and(|member| member.admin_up && member.tags == ["t"]));
}

#[test]
fn on_ovn_a_member_joins_admin_down_though_a_monitor_calls_it_online() {
    let mut world = World::new(&[6443], SECOND);
    world.desired.provider = "ovn".to_owned();
    world.model.ovn = true;
    world.set_load_balancer();
    world.add_serving(1);
    world.run(seconds(60));
    world.add(2, false, Deletion::No);
    world.run(seconds(30));
    let second = |world: &World| {
        let mut members = world.model.members();
        members.find(|member| member.address == address(2)).cloned()
    };
    let joining = second(&world);
    assert!(joining.is_some_and(|member| !member.admin_up && member.tags == ["t", JOINING]));
    // Its API server takes 30 s to come up.
    world.model.up.insert(address(2), world.now);
    world.run(seconds(10));
    assert!(second(&world).is_some_and(|member| member.admin_up && member.tags == ["t"]));
    world.run(seconds(100));
    world.delete(&machine_name(1));
    world.run(seconds(30));
    assert!(gone(&world, 1));
}

#[test]
fn a_member_whose_machine_is_gone_is_pruned_and_an_unrelated_one_is_left_alone() {
    let mut world = world(2);
    let name = machine_name(2);
    if let Some(node) = world.nodes.get_mut(&name) {
        node.gone = true;
        node.known = true;
    }
    let pool = world
        .model
        .pools
        .first()
        .map(|pool| pool.id.clone())
        .unwrap_or_default();
    let unrelated = Change::CreateMember {
        pool,
        new: of_another_client(99),
    };
    let now = world.now;
    assert!(world.model.write(&unrelated, now).is_ok());
    world.set_machine(&name);
    world.run(seconds(900));
    assert_eq!(member_of(&world, 2), None);
    assert!(member_of(&world, 99).is_some());
    assert!(
        world
            .findings
            .members
            .iter()
            .any(|member| member.machine == "another-client")
    );
}

#[test]
fn a_foreign_member_with_our_address_or_name_is_reported_and_left_alone() {
    let mut world = world(1);
    let pool = world
        .model
        .pools
        .first()
        .map(|pool| pool.id.clone())
        .unwrap_or_default();
    let foreign = Change::CreateMember {
        pool,
        new: of_another_client(2),
    };
    let now = world.now;
    assert!(world.model.write(&foreign, now).is_ok());
    world.run(seconds(400));
    let writes = world.tally.writes;
    let name = world.add(2, false, Deletion::No);
    world.run(seconds(300));
    assert_eq!(world.tally.writes, writes);
    let admission = world
        .findings
        .machines
        .get(&name)
        .map(|finding| finding.admission.clone());
    assert!(
        matches!(
            admission,
            Some(Gate {
                state: GateState::Held,
                reason: Reason::MemberUnknown,
                ..
            })
        ),
        "{admission:?}"
    );
}

#[test]
fn an_address_that_is_known_late_is_shown_without_another_read() {
    let mut world = world(1);
    let name = machine_name(1);
    let reason = |world: &World| {
        let finding = world.findings.machines.get(&machine_name(1));
        finding.map(|finding| finding.verdict.reason)
    };
    for (known, expected) in [
        (None, Reason::ServerNotReady),
        (Some(address(1)), Reason::MembersActive),
    ] {
        world.change(&name, |want| want.address = known);
        assert_eq!(reason(&world), Some(expected));
    }
}

#[test]
fn names_of_members_are_as_capo_makes_them() {
    let world = world(1);
    let names: Vec<String> = world
        .model
        .members()
        .map(|member| member.name.clone())
        .collect();
    assert_eq!(names, [format!("{NAME}-6443-cp-1")]);
}

#[test]
fn an_admitted_member_in_error_gets_puts_with_growing_pauses_then_recreated_while_another_serves() {
    let mut world = World::new(&[6443], Duration::from_secs(1));
    for index in 1..=2 {
        world.add_serving(index);
    }
    world.run(Duration::from_secs(200));
    // Every repair fails while the fault lasts.
    world.model.fates = vec![Fate::Fails; 2];
    for member in world.model.members_mut() {
        if member.address == address(1) {
            member.provisioning = ProvisioningStatus::Error;
        }
    }
    world.run(Duration::from_secs(1500));
    let member = world
        .model
        .members()
        .find(|member| member.address == address(1));
    assert!(member.is_some_and(|member| member.provisioning == ProvisioningStatus::Active));
    assert_eq!(world.tally.repairs, 1);
    let deletes = world
        .model
        .writes
        .iter()
        .filter(|change| matches!(change, Change::DeleteMember { .. }))
        .count();
    assert!(deletes >= 1);
}

#[test]
fn a_refused_write_names_its_reason_and_is_not_repeated_at_once() {
    let mut world = World::new(&[6443], Duration::from_secs(1));
    world.add_serving(1);
    world.run(Duration::from_secs(100));
    // A read now, so that the next call is the POST.
    world.step(Event::Nudged);
    world.run(Duration::from_secs(2));
    let writes = world.tally.writes;
    world.line.push_back(Line::Down(FailureClass::Quota));
    let name = world.add(2, false, Deletion::No);
    world.run(Duration::from_secs(30));
    assert_eq!(world.tally.writes, writes + 1);
    assert_eq!(world.findings.verdict.reason, Reason::QuotaExceeded);
    world.run(Duration::from_secs(60));
    assert!(
        world
            .nodes
            .get(&name)
            .is_some_and(|node| node.want.admitted)
    );
}

#[test]
fn the_last_member_of_a_port_stays_though_its_machine_is_gone() {
    let mut world = world(1);
    let name = machine_name(1);
    if let Some(node) = world.nodes.get_mut(&name) {
        node.gone = true;
    }
    world.set_machine(&name);
    world.run(seconds(900));
    assert_eq!(member_of(&world, 1), Some(ProvisioningStatus::Active));
    // Another machine serves, so this one may be deleted.
    world.add_serving(2);
    world.run(seconds(900));
    assert_eq!(member_of(&world, 1), None);
    assert_eq!(member_of(&world, 2), Some(ProvisioningStatus::Active));
}

#[test]
fn the_last_enabled_member_stays_while_the_one_beside_it_is_disabled() {
    let mut world = World::new(&[6443], SECOND);
    world.model.monitors = false;
    world.add_serving(1);
    world.run(seconds(60));
    world.add(2, false, Deletion::No);
    world.run(seconds(2));
    // Its machine is gone. The call that enables the other member is lost, and so are the lists that would show it.
    world.line.push_back(Line::Down(FailureClass::Transient));
    world.latency = Duration::from_millis(1_500);
    world.turn(Todo::Finish(machine_name(1)));
    world.run(seconds(600));
    assert_eq!(member_of(&world, 1), None);
    let is_enabled = |member: &ModelMember| member.address == address(2) && member.admin_up;
    assert!(world.model.members().any(is_enabled));
    let writes = &world.model.writes;
    let enabled = writes.iter().position(|change| {
        matches!(
            change,
            Change::UpdateMember { update, .. } if update.admin_state_up == Some(true)
        )
    });
    let removed = writes
        .iter()
        .position(|change| matches!(change, Change::DeleteMember { .. }));
    assert!(enabled.is_some() && enabled < removed, "{writes:?}");
}
