//! What must happen, one story each.

use std::time::Duration;

use super::{
    super::{
        desired::{Deletion, Health, OperatorWord, ServerState},
        findings::{Gate, Tristate},
        octavia::{FailureClass, Provisioning},
        settings::GateMode,
    },
    model::Fate,
    world::{Line, NAME, World, address, machine_name},
};
use crate::status::Reason;

const SECOND: Duration = Duration::from_secs(1);

fn seconds(count: u64) -> Duration {
    SECOND * u32::try_from(count).unwrap_or(u32::MAX)
}

fn world(machines: u8) -> World {
    let mut world = World::new(&[6443], SECOND);
    for index in 1..=machines {
        world.add_serving(index);
    }
    world.run(seconds(400));
    assert_eq!(
        world.findings.verdict.reason,
        Reason::MembersActive,
        "{:?}",
        world.findings.verdict
    );
    world
}

fn held(world: &World, index: u8) -> Option<Reason> {
    let finding = world.findings.machines.get(&machine_name(index))?;
    match &finding.release {
        Gate::Held { reason, .. } => Some(*reason),
        _ => None,
    }
}

fn gone(world: &World, index: u8) -> bool {
    world
        .nodes
        .get(&machine_name(index))
        .is_some_and(|node| node.gone)
}

fn member_of(world: &World, index: u8) -> Option<Provisioning> {
    world
        .model
        .members()
        .find(|member| member.address == address(index))
        .map(|member| member.provisioning.clone())
}

#[test]
fn structure_is_made_once_even_when_replies_are_lost() {
    let mut world = World::new(&[6443, 8132], SECOND);
    for _ in 0..3 {
        world.line.extend([Line::ReplyLost; 7]);
        world.run(seconds(40));
    }
    world.line.clear();
    world.run(seconds(120));
    assert!(world.findings.infrastructure_ready);
    assert_eq!(
        (world.model.listeners.len(), world.model.pools.len()),
        (2, 2)
    );
}

#[test]
fn an_unattached_pool_is_attached_and_a_provider_without_monitors_is_accepted() {
    let mut world = World::new(&[6443], SECOND);
    world.model.monitors = false;
    world.run(seconds(60));
    assert!(world.findings.infrastructure_ready);
    for pool in &mut world.model.pools {
        pool.listener = None;
    }
    world.run(seconds(600));
    assert!(world.findings.infrastructure_ready);
    assert_eq!(world.model.pools.len(), 1);
    assert!(world.model.pools.iter().all(|pool| pool.listener.is_some()));
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
            Some(Gate::Held {
                reason: Reason::MemberPending,
                ..
            })
        ),
        "{admission:?}"
    );
    assert_eq!(
        world.findings.provisioning_status.as_deref(),
        Some("ACTIVE")
    );
    assert_eq!(world.findings.verdict.status, Tristate::False);
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
fn a_failed_create_is_deleted_and_made_anew() {
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
    assert_eq!(member_of(&world, 2), Some(Provisioning::Active));
    assert_eq!(world.tally.repairs, 0);
}

#[test]
fn a_lost_create_is_found_and_made_anew_after_a_minute() {
    let mut world = world(1);
    world.model.fates.push(Fate::Lost);
    world.add(2, false, Deletion::No);
    world.run(seconds(50));
    assert_eq!(member_of(&world, 2), Some(Provisioning::PendingCreate));
    world.run(seconds(60));
    assert_eq!(member_of(&world, 2), Some(Provisioning::Active));
}

#[test]
fn a_lost_pool_is_pushed_again_before_its_members() {
    let mut world = world(1);
    world.model.fates.push(Fate::LostPool);
    world.add(2, false, Deletion::No);
    world.run(seconds(400));
    assert_eq!(member_of(&world, 2), Some(Provisioning::Active));
    assert!(world.findings.infrastructure_ready);
}

#[test]
fn when_every_member_reads_error_they_are_pushed_and_none_is_removed() {
    let mut world = world(3);
    for member in world.model.members_mut() {
        member.provisioning = Provisioning::Error;
    }
    world.run(seconds(1200));
    for index in 1..=3 {
        assert_eq!(member_of(&world, index), Some(Provisioning::Active));
    }
    assert!(world.tally.repairs >= 3);
    let deletes = world
        .model
        .writes
        .iter()
        .filter(|change| matches!(change, super::super::octavia::Change::DeleteMember { .. }));
    assert_eq!(deletes.count(), 0);
}

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
    // ONLINE by now, but not for 45 s.
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
        want.operator = OperatorWord::Bypass {
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
        want.operator = OperatorWord::Bypass {
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
    assert_eq!(member_of(&world, 3), Some(Provisioning::Active));
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
        assert_eq!(world.findings.verdict.status, Tristate::True);
    }
}

#[test]
fn open_by_the_list_waits_for_nothing() {
    // The Cluster goes, even with OpenStack gone.
    let mut w = world(1);
    w.line.extend([Line::Down(FailureClass::Transient); 500]);
    w.delete(&machine_name(1));
    w.run(seconds(60));
    assert!(held(&w, 1).is_some());
    w.desired.cluster.going = true;
    w.hand_over_load_balancer();
    w.run(seconds(2));
    assert!(gone(&w, 1));

    // Never initialised, known after the span of (a).
    let mut w = World::new(&[6443], SECOND);
    w.desired.cluster.initialised = false;
    w.hand_over_load_balancer();
    w.add(1, true, Deletion::No);
    w.delete(&machine_name(1));
    w.run(seconds(30));
    assert!(!gone(&w, 1));
    w.run(seconds(60));
    assert!(gone(&w, 1));

    // The same with an API server that answers: initialised, whatever the status says.
    let mut w = World::new(&[6443], SECOND);
    w.desired.cluster.initialised = false;
    w.hand_over_load_balancer();
    w.add_serving(1);
    w.delete(&machine_name(1));
    w.run(seconds(600));
    assert!(!gone(&w, 1));

    // Its server is down.
    let mut w = world(2);
    for index in [1, 2] {
        w.model.up.remove(&address(index));
    }
    w.change(&machine_name(1), |want| {
        want.server.state = ServerState::Shutoff;
        want.server.down_reads = 2;
    });
    w.delete(&machine_name(1));
    w.run(seconds(120));
    assert!(gone(&w, 1));

    // The user takes the hook away.
    let mut w = world(1);
    w.delete(&machine_name(1));
    w.run(seconds(100));
    assert!(!gone(&w, 1));
    w.change(&machine_name(1), |want| {
        if let Deletion::AtHook { since } = want.deletion {
            want.deletion = Deletion::Unhooked { since };
        }
    });
    w.run(seconds(20));
    assert!(gone(&w, 1));
    assert_eq!(member_of(&w, 1), None);
}

#[test]
fn a_machine_that_never_was_admitted_goes_when_it_does_not_serve() {
    let mut world = world(1);
    world.controllers = false;
    world.add(2, false, Deletion::No);
    world.run(seconds(30));
    world.controllers = true;
    world.delete(&machine_name(2));
    world.run(seconds(150));
    assert!(gone(&world, 2));
    assert!(!gone(&world, 1));
}

#[test]
fn paused_means_no_write_and_hold_beats_the_list() {
    let mut world = world(2);
    world.desired.cluster.untouchable = true;
    world.hand_over_load_balancer();
    let writes = world.tally.writes;
    world.delete(&machine_name(1));
    world.add(3, false, Deletion::No);
    for member in world.model.members_mut() {
        member.provisioning = Provisioning::Error;
    }
    world.run(seconds(900));
    assert_eq!(world.tally.writes, writes);
    assert_eq!(held(&world, 1), Some(Reason::Paused));
    world.desired.cluster.untouchable = false;
    world.desired.cluster.operator = OperatorWord::Hold {
        reason: "wait".to_owned(),
    };
    world.hand_over_load_balancer();
    world.change(&machine_name(1), |want| {
        if let Deletion::AtHook { since } = want.deletion {
            want.deletion = Deletion::Unhooked { since };
        }
    });
    world.run(seconds(300));
    assert!(!gone(&world, 1));
    assert!(member_of(&world, 1).is_some());
}

#[test]
fn evidence_b_and_c_count_only_without_a_usable_monitor() {
    // (b): no monitor, the probe answers.
    let mut world = World::new(&[6443], SECOND);
    world.model.monitors = false;
    world.add_serving(1);
    world.add_serving(2);
    world.run(seconds(60));
    world.delete(&machine_name(1));
    world.run(seconds(30));
    assert!(gone(&world, 1));

    // Nothing is routable, no conditions: held, and said so.
    let mut world = World::new(&[6443], SECOND);
    world.model.monitors = false;
    world.routable = false;
    world.add_serving(1);
    world.add_serving(2);
    world.run(seconds(60));
    world.delete(&machine_name(1));
    world.run(seconds(300));
    assert_eq!(held(&world, 1), Some(Reason::HealthUnavailable));

    // (c): for 90 s after the hold began.
    let now = world.now;
    world.desired.cluster.remote_connection_since = Some(now);
    world.hand_over_load_balancer();
    world.change(&machine_name(2), |want| {
        want.api_server_pod = Health::Good(now);
        want.node = Health::Good(now);
    });
    world.run(seconds(80));
    assert!(!gone(&world, 1));
    world.run(seconds(60));
    assert!(gone(&world, 1));
}

#[test]
fn evidence_against_voids_online() {
    let mut world = world(2);
    world.change(&machine_name(2), |want| want.api_server_pod = Health::Bad);
    world.delete(&machine_name(1));
    world.run(seconds(300));
    assert!(!gone(&world, 1));
    world.change(&machine_name(2), |want| {
        want.api_server_pod = Health::Unknown;
    });
    world.run(seconds(60));
    assert!(gone(&world, 1));
}

#[test]
fn a_dark_port_holds_nothing_but_the_endpoints_port_does() {
    let mut world = World::new(&[6443, 8132], SECOND);
    world.add_serving(1);
    world.add_serving(2);
    world.run(seconds(600));
    // Nothing listens on 8132: its members read ERROR.
    world.model.dark_port = Some(8132);
    world.run(seconds(900));
    world.delete(&machine_name(1));
    world.run(seconds(60));
    assert!(gone(&world, 1));
    assert!(
        world.findings.verdict.message.contains("8132"),
        "{:?}",
        world.findings.verdict
    );
    world.model.dark_port = Some(6443);
    world.add_serving(3);
    world.run(seconds(900));
    world.delete(&machine_name(2));
    world.run(seconds(600));
    assert!(!gone(&world, 2));
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
    // Admitted all the same: nothing listens yet.
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
fn gate_modes_off_and_observe_never_hold() {
    for mode in [GateMode::Off, GateMode::Observe] {
        let mut world = World::new(&[6443], SECOND);
        world.settings.mode = mode;
        world.restart();
        world
            .model
            .fates
            .extend([Fate::Fine, Fate::Fine, Fate::Fine, Fate::Lost]);
        world.add(1, false, Deletion::No);
        world.run(seconds(30));
        assert!(
            world
                .nodes
                .get(&machine_name(1))
                .is_some_and(|node| node.want.admitted)
        );
        assert_eq!(world.findings.verdict.status, Tristate::False);
        world.delete(&machine_name(1));
        world.run(seconds(2));
        assert!(matches!(
            world
                .nodes
                .get(&machine_name(1))
                .map(|node| node.want.deletion),
            Some(Deletion::Unhooked { .. })
        ));
    }
}

#[test]
fn a_member_whose_machine_is_gone_is_pruned_and_a_stranger_is_left_alone() {
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
    let stranger = super::super::octavia::Change::CreateMember {
        pool,
        name: "somebody".to_owned(),
        address: address(99),
        port: 6443,
        subnet: None,
        admin_up: true,
        tags: Vec::new(),
    };
    let now = world.now;
    assert!(world.model.write(&stranger, now).is_ok());
    world.hand_over(&name);
    world.run(seconds(900));
    assert_eq!(member_of(&world, 2), None);
    assert!(member_of(&world, 99).is_some());
    assert!(
        world
            .findings
            .members
            .iter()
            .any(|member| member.machine == "somebody")
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
    let foreign = super::super::octavia::Change::CreateMember {
        pool,
        name: "somebody".to_owned(),
        address: address(2),
        port: 6443,
        subnet: None,
        admin_up: true,
        tags: Vec::new(),
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
            Some(Gate::Held {
                reason: Reason::MemberUnknown,
                ..
            })
        ),
        "{admission:?}"
    );
}

#[test]
fn a_claimed_load_balancer_is_not_written() {
    use super::super::event::Event;
    let mut world = world(1);
    let writes = world.tally.writes;
    world.step(Event::Claimed(Some(crate::names::ObjectName::new(
        "a", "b",
    ))));
    world.add(2, false, Deletion::No);
    world.run(seconds(100));
    assert_eq!(world.tally.writes, writes);
    assert_eq!(world.findings.verdict.reason, Reason::AmbiguousMatch);
    world.step(Event::Claimed(None));
    world.run(seconds(100));
    assert!(member_of(&world, 2).is_some());
}

#[test]
fn a_vanished_load_balancer_is_told_and_a_new_one_is_filled() {
    let mut world = world(2);
    world.model.absent = true;
    world.run(seconds(400));
    assert!(world.findings.absent);
    assert_eq!(world.findings.verdict.reason, Reason::LoadBalancerError);
    world.delete(&machine_name(1));
    world.run(seconds(100));
    assert!(held(&world, 1).is_some());
    let up = world.model.up.clone();
    world.model = super::model::Model::new(SECOND);
    world.model.up = up;
    world.desired.id = Some("lb-2".to_owned());
    world.hand_over_load_balancer();
    world.run(seconds(400));
    assert!(gone(&world, 1), "{:?}", world.findings.machines);
    assert!(member_of(&world, 2).is_some());
}

#[test]
fn a_load_balancer_that_hangs_for_good_holds_warns_and_lets_an_unhooked_server_go() {
    let mut world = world(2);
    world.model.fates.push(Fate::Hangs(1_000_000));
    world.add(3, false, Deletion::No);
    world.run(seconds(100));
    assert!(!world.findings.counts_in_ready);
    world.run(seconds(100));
    assert!(world.findings.counts_in_ready);
    world.delete(&machine_name(1));
    world.change(&machine_name(1), |want| {
        if let Deletion::AtHook { since } = want.deletion {
            want.deletion = Deletion::Unhooked { since };
        }
    });
    world.run(seconds(300));
    assert!(!gone(&world, 1));
    world.run(seconds(700));
    assert!(gone(&world, 1));
    world.run(seconds(1500));
    let text = &world.findings.verdict.message;
    assert!(text.contains("stuck"), "{text}");
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
