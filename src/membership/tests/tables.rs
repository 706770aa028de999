//! Tables: classes, gaps, precedence, the freshness of an opening.

use std::time::{Duration, Instant};

use super::{
    super::{
        classify::{self, Class},
        desired::{Deletion, OperatorWord, ServerState},
        findings::Gate,
        octavia::{FailureClass, Operating, Provisioning},
        provider::Provider,
        schedule::ladder_gap,
        settings::Schedule,
        state::{LostRun, Member, Owner, Stamp},
    },
    model::Fate,
    world::{Line, World, address, machine_name},
};
use crate::status::Reason;

fn member(status: &str, owner: Owner, lost: &[u64]) -> Member {
    let start = Instant::now();
    let mut run = LostRun::default();
    for after in lost {
        run.saw(true, start + Duration::from_secs(*after));
    }
    Member {
        id: "m".to_owned(),
        name: "n".to_owned(),
        address: Some(address(1)),
        port: 6443,
        provisioning: Provisioning::from(status),
        operating: Operating::Online,
        since: Stamp {
            instant: start,
            wall: jiff::Timestamp::UNIX_EPOCH,
        },
        lost: run,
        online: None,
        detail: None,
        owner,
        ownerless_reads: 0,
    }
}

#[test]
fn classes() {
    let amphora = Provider::Amphora;
    for (status, owner, lost, provider, class) in [
        ("ACTIVE", Owner::Ours, &[][..], amphora, Class::Active),
        ("ERROR", Owner::Ours, &[], amphora, Class::Error),
        (
            "PENDING_CREATE",
            Owner::Ours,
            &[],
            amphora,
            Class::PendingCreate,
        ),
        (
            "PENDING_UPDATE",
            Owner::Ours,
            &[],
            amphora,
            Class::PendingUpdate,
        ),
        (
            "PENDING_DELETE",
            Owner::Ours,
            &[],
            amphora,
            Class::PendingDelete,
        ),
        ("DELETED", Owner::Ours, &[], amphora, Class::Missing),
        ("FROZEN", Owner::Ours, &[], amphora, Class::Unknown),
        ("ACTIVE", Owner::NameOnly, &[], amphora, Class::Foreign),
        ("ACTIVE", Owner::AddressOnly, &[], amphora, Class::Foreign),
        // Three reads and a minute; OVN two.
        (
            "PENDING_CREATE",
            Owner::Ours,
            &[0, 60],
            amphora,
            Class::PendingCreate,
        ),
        (
            "PENDING_CREATE",
            Owner::Ours,
            &[0, 30, 59],
            amphora,
            Class::PendingCreate,
        ),
        (
            "PENDING_CREATE",
            Owner::Ours,
            &[0, 30, 60],
            amphora,
            Class::Orphaned,
        ),
        (
            "PENDING_DELETE",
            Owner::Ours,
            &[0, 30, 60],
            Provider::Unknown,
            Class::Orphaned,
        ),
        (
            "PENDING_UPDATE",
            Owner::Ours,
            &[0, 60, 119],
            Provider::Ovn,
            Class::PendingUpdate,
        ),
        (
            "PENDING_UPDATE",
            Owner::Ours,
            &[0, 60, 120],
            Provider::Ovn,
            Class::Orphaned,
        ),
        // Only PENDING can be lost.
        ("ERROR", Owner::Ours, &[0, 60, 120], amphora, Class::Error),
    ] {
        let found = classify::member(&member(status, owner, lost), provider);
        assert_eq!(found, class, "{status} {owner:?} {lost:?} {provider:?}");
    }
}

#[test]
fn a_break_in_the_row_starts_it_anew() {
    let start = Instant::now();
    let mut run = LostRun::default();
    for (after, lost) in [
        (0, true),
        (30, true),
        (59, false),
        (60, true),
        (90, true),
        (119, true),
    ] {
        run.saw(lost, start + Duration::from_secs(after));
    }
    assert!(!run.spans(Duration::from_secs(60)));
    run.saw(true, start + Duration::from_secs(120));
    assert!(run.spans(Duration::from_secs(60)));
}

#[test]
fn gaps_after_a_write() {
    let schedule = Schedule::default();
    let mut at = Duration::ZERO;
    let mut times = Vec::new();
    for read in 0..20 {
        at += ladder_gap(&schedule, Provider::Amphora, false, read, at);
        times.push(at.as_secs_f64());
    }
    let expected = [1.85, 3.35, 4.85, 6.35, 8.35, 10.35, 12.85, 17.85, 22.85];
    assert_eq!(times.get(..9), Some(&expected[..]));
    for (seconds, gap) in [
        (119, 5),
        (120, 30),
        (899, 30),
        (900, 60),
        (2099, 60),
        (2100, 300),
    ] {
        let elapsed = Duration::from_secs(seconds);
        let found = ladder_gap(&schedule, Provider::Amphora, false, 50, elapsed);
        assert_eq!(found, Duration::from_secs(gap), "after {seconds} s");
    }
    let first = |provider, creating| ladder_gap(&schedule, provider, creating, 0, Duration::ZERO);
    assert_eq!(first(Provider::Ovn, false), Duration::from_millis(500));
    assert_eq!(first(Provider::Amphora, true), Duration::from_secs(10));
    assert_eq!(
        first(Provider::Unknown, false),
        Duration::from_millis(1_850)
    );
}

#[test]
fn providers_by_name() {
    for (name, provider) in [
        ("amphora", Provider::Amphora),
        ("amphorav2", Provider::Amphora),
        ("octavia", Provider::Amphora),
        ("", Provider::Amphora),
        ("ovn", Provider::Ovn),
        ("f5", Provider::Unknown),
    ] {
        assert_eq!(Provider::of(name), provider, "{name}");
    }
}

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
    world.desired.cluster.operator = OperatorWord::Bypass {
        until,
        reason: "b".to_owned(),
    };
}

fn hold(world: &mut World) {
    world.change(&machine_name(1), |want| {
        want.operator = OperatorWord::Hold {
            reason: "h".to_owned(),
        };
    });
}

#[test]
fn precedence() {
    type Change = fn(&mut World);
    let paused: Change = |world| world.desired.cluster.untouchable = true;
    let paused_machine: Change =
        |world| world.change(&machine_name(1), |want| want.untouchable = true);
    let going: Change = |world| world.desired.cluster.going = true;
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
            open(Reason::MembersActive),
        ),
        (
            "going over hold",
            &[going, hold],
            open(Reason::MembersActive),
        ),
        ("going", &[going], open(Reason::MembersActive)),
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

#[test]
fn a_refused_word_is_no_word_and_is_told() {
    let refused = |world: &mut World| {
        world.desired.cluster.operator = OperatorWord::Refused {
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
        member.provisioning = Provisioning::Error;
    }
    world.step(super::super::event::Event::Nudged);
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
        world.step(super::super::event::Event::Nudged);
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
fn a_refused_write_names_its_reason_and_is_not_repeated_at_once() {
    let mut world = World::new(&[6443], Duration::from_secs(1));
    world.add_serving(1);
    world.run(Duration::from_secs(100));
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
fn ovn_is_never_drained() {
    let mut world = World::new(&[6443], Duration::from_secs(1));
    world.desired.provider = "ovn".to_owned();
    world.hand_over_load_balancer();
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
fn an_admitted_member_in_error_is_pushed_with_growing_pauses_then_made_anew_while_another_serves() {
    let mut world = World::new(&[6443], Duration::from_secs(1));
    for index in 1..=2 {
        world.add_serving(index);
    }
    world.run(Duration::from_secs(200));
    // Every push fails for as long as it lasts.
    world.model.fates = vec![Fate::Fails; 2];
    for member in world.model.members_mut() {
        if member.address == address(1) {
            member.provisioning = Provisioning::Error;
        }
    }
    world.run(Duration::from_secs(1500));
    let member = world
        .model
        .members()
        .find(|member| member.address == address(1));
    assert!(member.is_some_and(|member| member.provisioning == Provisioning::Active));
    assert_eq!(world.tally.repairs, 1);
    let deletes = world
        .model
        .writes
        .iter()
        .filter(|change| matches!(change, super::super::octavia::Change::DeleteMember { .. }))
        .count();
    assert!(deletes >= 1);
}
