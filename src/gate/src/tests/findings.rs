//! What the findings report, and when they change.

use std::time::Duration;

use crate::{
    model::{
        desired::{Deletion, ObservedCondition, ServerState},
        event::Event,
        findings::Gate,
        member::Owner,
    },
    report::report,
    tests::{
        model::Fate,
        world::{Line, World, machine_name},
    },
};
use capo_core::{FailureClass, GateState, ProvisioningStatus, Reason};

#[test]
fn a_held_admission_names_what_the_new_machine_lacks() {
    for (has_address, refused, expected) in [
        (true, None, Reason::MemberMissing),
        (false, None, Reason::ServerNotReady),
        (false, Some(FailureClass::Quota), Reason::ServerNotReady),
        (true, Some(FailureClass::Quota), Reason::QuotaExceeded),
    ] {
        let mut world = World::new(&[6443], Duration::from_secs(1));
        world.add_serving(2);
        world.run(Duration::from_secs(200));
        // A read now, so that the next call is the POST.
        world.step(Event::Nudged);
        world.run(Duration::from_secs(2));
        world.line.extend(refused.map(Line::Down));
        let name = world.add(1, false, Deletion::No);
        if !has_address {
            world.change(&name, |want| want.address = None);
        }
        // The time is long enough for a POST to be refused, but not for one to be accepted.
        world.run(Duration::from_millis(if refused.is_some() {
            300
        } else {
            10
        }));
        let finding = world.findings.machines.get(&name).cloned();
        let admission = finding.map(|finding| finding.admission);
        assert!(
            matches!(&admission, Some(Gate {
state: GateState::Held, reason, .. }) if *reason == expected),
            "{has_address} {refused:?}: {admission:?}"
        );
    }
}

#[test]
fn admission_opens_on_a_fresh_read_only() {
    // The member has been ACTIVE for long when the server becomes ACTIVE.
    let mut world = World::new(&[6443], Duration::from_secs(1));
    world.controllers = false;
    world.desired.cluster.initialised = false;
    world.set_load_balancer();
    let name = world.add(1, false, Deletion::No);
    world.change(&name, |want| want.server.state = ServerState::Other);
    world.run(Duration::from_secs(400));
    let trees = world.tally.trees;
    world.latency = Duration::from_millis(500);
    world.change(&name, |want| want.server.state = ServerState::Active);
    let admission = |world: &World| {
        world
            .findings
            .machines
            .get(&name)
            .map(|f| f.admission.clone())
    };
    assert!(
        matches!(
            admission(&world),
            Some(Gate {
                state: GateState::Held,
                reason: Reason::NotYetObserved,
                ..
            })
        ),
        "{:?}",
        admission(&world)
    );
    world.run(Duration::from_secs(2));
    assert!(matches!(
        admission(&world),
        Some(Gate {
            state: GateState::Open,
            ..
        })
    ));
    assert_eq!(world.tally.trees, trees + 1);
    // The gate closes again when the member fails before Cluster API has admitted the machine.
    world.model.fates = vec![Fate::Fails; 9];
    for member in world.model.members_mut() {
        member.provisioning = ProvisioningStatus::Error;
    }
    world.step(Event::Nudged);
    world.run(Duration::from_secs(3));
    assert!(
        matches!(
            admission(&world),
            Some(Gate {
                state: GateState::Held,
                reason: Reason::MemberError,
                ..
            })
        ),
        "{:?}",
        admission(&world)
    );
}

#[test]
fn a_lost_connection_to_the_cluster_is_a_reason_to_look_at_once() {
    let mut world = World::new(&[6443], Duration::from_secs(1));
    world.add_serving(1);
    world.desired.cluster.remote_connection = ObservedCondition::TrueSince(world.now);
    world.set_load_balancer();
    world.run(Duration::from_secs(100));
    let trees = world.tally.trees;
    world.run(Duration::from_secs(20));
    assert_eq!(world.tally.trees, trees, "it has settled");
    world.desired.cluster.remote_connection = ObservedCondition::False;
    world.set_load_balancer();
    world.run(Duration::from_secs(2));
    assert_eq!(world.tally.trees, trees + 1);
    // Handing over the same facts again causes no read.
    world.set_load_balancer();
    world.run(Duration::from_secs(20));
    assert_eq!(world.tally.trees, trees + 1);
}

#[test]
fn trouble_is_reported_by_its_reason_and_forgotten_when_it_ends() {
    for (class, reason) in [
        (FailureClass::Transient, Reason::OpenStackUnavailable),
        (FailureClass::Throttled, Reason::Throttled),
        (FailureClass::Auth, Reason::AuthFailed),
        (FailureClass::Denied, Reason::AuthFailed),
        (FailureClass::NoService, Reason::OpenStackUnavailable),
    ] {
        let mut world = World::new(&[6443], Duration::from_secs(1));
        world.add_serving(1);
        world.run(Duration::from_secs(100));
        world.line.extend([Line::Down(class); 90]);
        world.step(Event::Nudged);
        world.run(Duration::from_secs(25));
        assert_eq!(world.findings.verdict.reason, reason, "{class:?}");
        world.line.clear();
        world.run(Duration::from_secs(200));
        assert_eq!(
            world.findings.verdict.reason,
            Reason::MembersActive,
            "{class:?}"
        );
    }
}

#[test]
fn the_text_of_a_hold_is_stable_while_nothing_changes() {
    let mut world = World::new(&[6443], Duration::from_secs(1));
    world.add_serving(1);
    world.run(Duration::from_secs(200));
    world.delete(&machine_name(1));
    world.run(Duration::from_secs(120));
    let before = world.findings.machines.get(&machine_name(1)).cloned();
    world.run(Duration::from_secs(1200));
    let later = world.findings.machines.get(&machine_name(1)).cloned();
    assert_eq!(
        before.map(|before| (before.verdict, before.release)),
        later.map(|later| (later.verdict, later.release))
    );
    let message = world
        .findings
        .machines
        .get(&machine_name(1))
        .map(|finding| format!("{:?}", finding.release))
        .unwrap_or_default();
    assert!(
        message.contains("KubeadmControlPlane") && message.contains("bypass until="),
        "{message}"
    );
}

#[test]
fn a_generation_settles_once_the_load_balancer_was_seen_as_it_wants_it() {
    let mut world = World::new(&[6443], Duration::from_secs(1));
    world.add_serving(1);
    world.run(Duration::from_secs(200));
    assert_eq!(world.findings.settled_generation, Some(1));
    world.desired.generation = 2;
    world.desired.monitor.delay = 30;
    world.set_load_balancer();
    assert_eq!(world.findings.settled_generation, None);
    world.run(Duration::from_secs(60));
    assert_eq!(world.findings.settled_generation, Some(2));
}

#[test]
fn a_machines_own_member_is_reported_before_another_of_its_name() {
    let mut world = World::new(&[6443], Duration::from_secs(1));
    world.add_serving(1);
    world.run(Duration::from_secs(200));
    let now = world.present();
    let mut state = world.state.clone();
    let port = state.ports.first_mut().unwrap();
    let mut other = port.members.first().unwrap().clone();
    other.id = "0".into();
    other.owner = Owner::NameOnly;
    port.members.insert(0, other);
    for slot in &mut state.machines.get_mut(&machine_name(1)).unwrap().slots {
        slot.member = Some(1);
    }
    let members = report(&state, &now).members;
    let [own, other] = members.as_slice() else {
        panic!("{members:?}");
    };
    assert_eq!(own.machine, other.machine);
    assert_eq!(other.id, Some("0".into()));
}
