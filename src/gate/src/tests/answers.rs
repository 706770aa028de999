//! What the gates answer, and in which order the words count.

use std::time::Duration;

use crate::{
    model::{
        desired::{Deletion, ServerState},
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
use capo_core::{FailureClass, GateOverride, ProvisioningStatus, Reason};

/// The release gate of the machine that leaves, as soon as everything that holds is known.
fn release(change: impl Fn(&mut World)) -> Option<(bool, Option<Reason>)> {
    let mut world = World::new(&[6443], Duration::from_secs(1));
    world.controllers = false;
    world.add_serving(1);
    world.run(Duration::from_secs(200));
    change(&mut world);
    world.hand_over_load_balancer();
    world.delete(&machine_name(1));
    world.run(Duration::from_secs(1));
    let finding = world.findings.machines.get(&machine_name(1))?;
    Some(match &finding.release {
        Gate::Held { reason, .. } | Gate::Open { reason, .. } => {
            (finding.release.is_open(), Some(*reason))
        }
        Gate::Bypassed { .. } => (true, Some(Reason::OperatorBypass)),
        Gate::NotAsked => (false, None),
    })
}

fn bypass(world: &mut World) {
    let until = world.present().wall + jiff::SignedDuration::from_secs(3600);
    world.desired.cluster.operator = GateOverride::Bypass {
        until,
        reason: "b".to_owned(),
    };
}

fn hold(world: &mut World) {
    world.change(&machine_name(1), |want| {
        want.operator = GateOverride::Hold {
            reason: "h".to_owned(),
        };
    });
}

#[test]
fn precedence() {
    type Change = fn(&mut World);
    let paused: Change = |world| world.desired.cluster.paused = true;
    let paused_machine: Change = |world| world.change(&machine_name(1), |want| want.paused = true);
    let going: Change = |world| world.desired.cluster.cluster_deleting = true;
    let disabled: Change = |world| world.desired.enabled = false;
    let held = |reason| Some((false, Some(reason)));
    let open = |reason| Some((true, Some(reason)));
    let table: [(&str, &[Change], Option<(bool, Option<Reason>)>); 12] = [
        ("nothing", &[], held(Reason::NoOtherMemberServing)),
        (
            "paused over all",
            &[paused, going, bypass, hold, disabled],
            held(Reason::Paused),
        ),
        (
            "machine paused over all",
            &[paused_machine, going, bypass],
            held(Reason::Paused),
        ),
        (
            "going over bypass",
            &[going, bypass],
            open(Reason::ClusterDeleting),
        ),
        (
            "going over hold",
            &[going, hold],
            open(Reason::ClusterDeleting),
        ),
        ("going", &[going], open(Reason::ClusterDeleting)),
        (
            "bypass over hold",
            &[bypass, hold],
            open(Reason::OperatorBypass),
        ),
        ("bypass", &[bypass], open(Reason::OperatorBypass)),
        (
            "hold over disabled",
            &[hold, disabled],
            held(Reason::OperatorHold),
        ),
        ("hold", &[hold], held(Reason::OperatorHold)),
        ("disabled", &[disabled], open(Reason::LoadBalancerDisabled)),
        (
            "disabled over the rules",
            &[disabled],
            open(Reason::LoadBalancerDisabled),
        ),
    ];
    for (name, changes, expected) in table {
        let found = release(|world| {
            for change in changes {
                change(world);
            }
        });
        assert_eq!(found, expected, "{name}");
    }
}

/// The admission gate of a new machine whose member is ACTIVE.
fn admission(change: impl Fn(&mut World)) -> Option<(bool, Option<Reason>)> {
    let mut world = World::new(&[6443], Duration::from_secs(1));
    world.controllers = false;
    world.add_serving(2);
    world.add(1, false, Deletion::No);
    world.run(Duration::from_secs(200));
    change(&mut world);
    world.hand_over_load_balancer();
    world.hand_over(&machine_name(1));
    world.run(Duration::from_secs(1));
    let finding = world.findings.machines.get(&machine_name(1))?;
    Some(match &finding.admission {
        Gate::Held { reason, .. } | Gate::Open { reason, .. } => {
            (finding.admission.is_open(), Some(*reason))
        }
        Gate::Bypassed { .. } => (true, Some(Reason::OperatorBypass)),
        Gate::NotAsked => (false, None),
    })
}

#[test]
fn admission_asks_in_this_order() {
    type Change = fn(&mut World);
    let paused: Change = |world| world.desired.cluster.paused = true;
    let paused_machine: Change = |world| world.change(&machine_name(1), |want| want.paused = true);
    let no_server: Change = |world| {
        world.change(&machine_name(1), |want| {
            want.server.state = ServerState::Other;
        });
    };
    let admitted: Change = |world| world.change(&machine_name(1), |want| want.admitted = true);
    let disabled: Change = |world| world.desired.enabled = false;
    let no_member: Change = |world| {
        world.change(&machine_name(1), |want| {
            want.address = Some(super::world::address(9));
        });
    };
    let held = |reason| Some((false, Some(reason)));
    let open = |reason| Some((true, Some(reason)));
    let table: [(&str, &[Change], Option<(bool, Option<Reason>)>); 12] = [
        ("nothing", &[], open(Reason::MembersActive)),
        ("paused", &[paused], held(Reason::Paused)),
        ("machine paused", &[paused_machine], held(Reason::Paused)),
        (
            "admitted over paused",
            &[admitted, paused, no_server],
            open(Reason::MachineAdmitted),
        ),
        (
            "paused over all else",
            &[paused, no_server, bypass, hold, disabled],
            held(Reason::Paused),
        ),
        ("no server", &[no_server], held(Reason::ServerNotReady)),
        (
            "no server over bypass",
            &[no_server, bypass],
            held(Reason::ServerNotReady),
        ),
        (
            "bypass over hold",
            &[bypass, hold, no_member],
            open(Reason::OperatorBypass),
        ),
        (
            "hold over disabled",
            &[hold, disabled],
            held(Reason::OperatorHold),
        ),
        ("disabled", &[disabled], open(Reason::LoadBalancerDisabled)),
        ("another address", &[no_member], held(Reason::MemberMissing)),
        (
            "two claim it",
            &[|world| {
                world.step(Event::Claimed(Some(machine_name(7))));
            }],
            held(Reason::AmbiguousMatch),
        ),
    ];
    for (name, changes, expected) in table {
        let found = admission(|world| {
            for change in changes {
                change(world);
            }
        });
        assert_eq!(found, expected, "{name}");
    }
}

#[test]
fn what_a_new_machine_lacks_is_told() {
    for (has_address, refused, expected) in [
        (true, None, Reason::MemberMissing),
        (false, None, Reason::ServerNotReady),
        (false, Some(FailureClass::Quota), Reason::ServerNotReady),
        (true, Some(FailureClass::Quota), Reason::QuotaExceeded),
    ] {
        let mut world = World::new(&[6443], Duration::from_secs(1));
        world.add_serving(2);
        world.run(Duration::from_secs(200));
        // A fresh read, so that the next call is the POST.
        world.step(Event::Nudged);
        world.run(Duration::from_secs(2));
        world.line.extend(refused.map(Line::Down));
        let name = world.add(1, false, Deletion::No);
        if !has_address {
            world.change(&name, |want| want.address = None);
        }
        // Long enough for a POST to be refused, not for one to be accepted.
        world.run(Duration::from_millis(if refused.is_some() {
            300
        } else {
            10
        }));
        let finding = world.findings.machines.get(&name).cloned();
        let admission = finding.map(|finding| finding.admission);
        assert!(
            matches!(&admission, Some(Gate::Held { reason, .. }) if *reason == expected),
            "{has_address} {refused:?}: {admission:?}"
        );
    }
}

#[test]
fn a_refused_word_is_no_word_and_is_told() {
    let refused = |world: &mut World| {
        world.desired.cluster.operator = GateOverride::Refused {
            message: "`until` is missing".to_owned(),
        };
    };
    assert_eq!(
        release(refused),
        Some((false, Some(Reason::NoOtherMemberServing)))
    );
    let mut world = World::new(&[6443], Duration::from_secs(1));
    refused(&mut world);
    world.hand_over_load_balancer();
    world.run(Duration::from_secs(60));
    assert!(
        world
            .findings
            .verdict
            .message
            .contains("`until` is missing")
    );
}

#[test]
fn admission_opens_on_a_fresh_read_only() {
    // The member is ACTIVE for long when the server turns ACTIVE at last.
    let mut world = World::new(&[6443], Duration::from_secs(1));
    world.controllers = false;
    world.desired.cluster.initialised = false;
    world.hand_over_load_balancer();
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
            Some(Gate::Held {
                reason: Reason::NotYetObserved,
                ..
            })
        ),
        "{:?}",
        admission(&world)
    );
    world.run(Duration::from_secs(2));
    assert!(matches!(admission(&world), Some(Gate::Open { .. })));
    assert_eq!(world.tally.trees, trees + 1);
    // It closes again when the member fails before Cluster API has admitted the machine.
    world.model.fates = vec![Fate::Fails; 9];
    for member in world.model.members_mut() {
        member.provisioning = ProvisioningStatus::Error;
    }
    world.step(Event::Nudged);
    world.run(Duration::from_secs(3));
    assert!(
        matches!(
            admission(&world),
            Some(Gate::Held {
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
    world.desired.cluster.remote_connection_since = Some(world.now);
    world.hand_over_load_balancer();
    world.run(Duration::from_secs(100));
    let trees = world.tally.trees;
    world.run(Duration::from_secs(20));
    assert_eq!(world.tally.trees, trees, "it has settled");
    world.desired.cluster.remote_connection_since = None;
    world.hand_over_load_balancer();
    world.run(Duration::from_secs(2));
    assert_eq!(world.tally.trees, trees + 1);
    // Told again and again, it stays at that.
    world.hand_over_load_balancer();
    world.run(Duration::from_secs(20));
    assert_eq!(world.tally.trees, trees + 1);
}

#[test]
fn trouble_is_told_by_its_reason_and_forgotten_when_it_ends() {
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
fn a_hold_is_stable_in_words_while_nothing_changes() {
    let mut world = World::new(&[6443], Duration::from_secs(1));
    world.add_serving(1);
    world.run(Duration::from_secs(200));
    world.delete(&machine_name(1));
    world.run(Duration::from_secs(120));
    let told = world.findings.machines.get(&machine_name(1)).cloned();
    world.run(Duration::from_secs(1200));
    let later = world.findings.machines.get(&machine_name(1)).cloned();
    assert_eq!(
        told.map(|told| (told.verdict, told.release)),
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
    world.hand_over_load_balancer();
    assert_eq!(world.findings.settled_generation, None);
    world.run(Duration::from_secs(60));
    assert_eq!(world.findings.settled_generation, Some(2));
}

#[test]
fn a_machines_own_member_is_told_before_another_of_its_name() {
    let mut world = World::new(&[6443], Duration::from_secs(1));
    world.add_serving(1);
    world.run(Duration::from_secs(200));
    let now = world.present();
    let mut state = world.state.clone();
    let port = state.ports.first_mut().unwrap();
    let mut other = port.members.first().unwrap().clone();
    other.id = "0".to_owned();
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
    assert_eq!(other.id.as_deref(), Some("0"));
}
