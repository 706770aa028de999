//! Random histories: machines come and go, Octavia misbehaves, replies get lost, the process dies. The
//! world checks I1, I2, I3, and that nothing is written twice at once, at every turn; here come I8 and
//! what must be true in the end.

use std::{panic::catch_unwind, time::Duration};

use crate::{
    model::desired::{Deletion, ServerState},
    tests::{
        model::Fate,
        world::{Line, Tally, Todo, World, address, machine_name},
    },
};
use capo_core::{ConditionStatus, FailureClass, GateOverride, ProvisioningStatus};

use proptest::{prelude::*, test_runner::FileFailurePersistence};

#[derive(Debug, Clone)]
pub(crate) enum Act {
    Wait(u64),
    Add(u8),
    Boot(u8),
    ApiDown(u8),
    Delete(u8),
    OutOfBand(u8),
    TakeHook(u8),
    ServerDown(u8),
    Bypass(u8),
    Pause,
    Resume,
    Restart,
    Fates(Vec<Fate>),
    Lines(Vec<Line>),
    AllError,
    FailOver,
    OperatorRemoves(u8),
    Routable(bool),
    Latency(u64),
    Lag(u64),
    /// The credentials lead to another project, or to the cluster's own again.
    Elsewhere(bool),
    /// Somebody else's API server answers the manager at the address of a machine, or does so no more.
    Stranger(u8),
    Forget(u8),
    /// Its finalizer is taken away by hand: it is gone, and its member is not.
    Vanish(u8),
}

fn fate() -> impl Strategy<Value = Fate> {
    prop_oneof![
        Just(Fate::Fine),
        Just(Fate::Fails),
        (1_u64..90).prop_map(Fate::Late),
        Just(Fate::Lost),
        (1_u64..400).prop_map(Fate::Hangs),
        Just(Fate::LostPool),
        Just(Fate::FailsAll),
    ]
}

fn line() -> impl Strategy<Value = Line> {
    prop_oneof![
        Just(Line::Down(FailureClass::Transient)),
        Just(Line::Down(FailureClass::Throttled)),
        Just(Line::Down(FailureClass::Auth)),
        Just(Line::Down(FailureClass::Quota)),
        Just(Line::Down(FailureClass::NotFound)),
        Just(Line::ReplyLost),
    ]
}

pub(crate) fn act() -> impl Strategy<Value = Act> {
    let who = 1_u8..6;
    prop_oneof![
        8 => (1_u64..40).prop_map(Act::Wait),
        4 => (40_u64..400).prop_map(Act::Wait),
        4 => who.clone().prop_map(Act::Add),
        4 => who.clone().prop_map(Act::Boot),
        1 => who.clone().prop_map(Act::ApiDown),
        3 => who.clone().prop_map(Act::Delete),
        1 => who.clone().prop_map(Act::OutOfBand),
        1 => who.clone().prop_map(Act::TakeHook),
        1 => who.clone().prop_map(Act::ServerDown),
        1 => who.clone().prop_map(Act::Bypass),
        1 => Just(Act::Pause),
        2 => Just(Act::Resume),
        2 => Just(Act::Restart),
        3 => prop::collection::vec(fate(), 1..4).prop_map(Act::Fates),
        2 => prop::collection::vec(line(), 1..8).prop_map(Act::Lines),
        1 => Just(Act::AllError),
        1 => Just(Act::FailOver),
        1 => who.clone().prop_map(Act::OperatorRemoves),
        1 => any::<bool>().prop_map(Act::Routable),
        1 => (1_u64..3_000).prop_map(Act::Latency),
        1 => (3_000_u64..30_000).prop_map(Act::Latency),
        1 => any::<bool>().prop_map(Act::Elsewhere),
        1 => who.clone().prop_map(Act::Stranger),
        1 => (0_u64..60_000).prop_map(Act::Lag),
        1 => who.clone().prop_map(Act::Forget),
        1 => who.prop_map(Act::Vanish),
    ]
}

pub(crate) fn play(world: &mut World, act: Act) {
    world.note(format_args!("{act:?}"));
    match act {
        Act::Wait(seconds) => world.run(Duration::from_secs(seconds)),
        Act::Add(index) => {
            if !world.nodes.contains_key(&machine_name(index)) {
                world.add(index, false, Deletion::No);
            }
        }
        Act::Boot(index) => {
            let standing = world.nodes.get(&machine_name(index)).is_some_and(|node| {
                !node.gone && !matches!(node.want.deletion, Deletion::Unhooked { .. })
            });
            if standing {
                world.model.up.entry(address(index)).or_insert(world.now);
            }
        }
        Act::ApiDown(index) => {
            world.fall(address(index));
        }
        Act::Delete(index) => deletion(world, index, |since| Deletion::AtHook { since }),
        Act::OutOfBand(index) => deletion(world, index, |since| Deletion::OutOfBand { since }),
        Act::TakeHook(index) => {
            let name = machine_name(index);
            world.change(&name, |want| {
                if let Deletion::AtHook { since } = want.deletion {
                    want.deletion = Deletion::AfterHook { since };
                }
            });
            let is_after = world
                .nodes
                .get(&name)
                .is_some_and(|node| matches!(node.want.deletion, Deletion::AfterHook { .. }));
            if is_after {
                // The API server runs on until the control plane provider removes its etcd member.
                world.later(Duration::from_mins(2), Todo::Unhook(name));
            }
        }
        Act::ServerDown(index) => {
            world.fall(address(index));
            world.change(&machine_name(index), |want| {
                want.server.state = ServerState::Shutoff;
            });
        }
        Act::Bypass(index) => {
            let until = world.present().wall + jiff::SignedDuration::from_secs(120);
            world.change(&machine_name(index), |want| {
                want.operator = GateOverride::Bypass {
                    until,
                    reason: "r".to_owned(),
                };
            });
        }
        Act::Pause => {
            world.desired.cluster.paused = true;
            world.hand_over_load_balancer();
        }
        Act::Resume => {
            world.desired.cluster.paused = false;
            world.hand_over_load_balancer();
        }
        Act::Restart => world.restart(),
        Act::Fates(fates) => world.model.fates = fates,
        Act::Lines(lines) => world.line = lines.into(),
        Act::AllError => {
            for member in world.model.members_mut() {
                if !member.provisioning.is_pending() {
                    member.provisioning = ProvisioningStatus::Error;
                }
            }
        }
        Act::FailOver => world.model.fail_over(),
        Act::OperatorRemoves(index) => {
            let free = world.model.provisioning == ProvisioningStatus::Active;
            if free {
                for pool in &mut world.model.pools {
                    pool.members
                        .retain(|member| member.address != address(index));
                }
            }
        }
        Act::Routable(routable) => world.routable = routable,
        Act::Latency(milliseconds) => world.latency = Duration::from_millis(milliseconds),
        Act::Elsewhere(elsewhere) => lead(world, elsewhere),
        Act::Stranger(index) => {
            if !world.strangers.remove(&address(index)) {
                world.strangers.insert(address(index));
            }
        }
        Act::Lag(milliseconds) => world.lag = Duration::from_millis(milliseconds),
        Act::Forget(index) => {
            let name = machine_name(index);
            let known = world.nodes.get(&name).is_some_and(|node| node.gone);
            if known {
                // A new machine may take the name later. A cache that is behind tells of the old one's end before.
                world.hand_over(&name);
                world.nodes.remove(&name);
            }
        }
        Act::Vanish(index) => world.turn(Todo::Finish(machine_name(index))),
    }
}

/// The controllers notice where the credentials lead, for the load balancer and for every server.
fn lead(world: &mut World, elsewhere: bool) {
    world.elsewhere = elsewhere;
    world.hand_over_load_balancer();
    let names: Vec<_> = world.nodes.keys().cloned().collect();
    for name in names {
        world.hand_over(&name);
    }
}

fn deletion(world: &mut World, index: u8, to: impl FnOnce(jiff::Timestamp) -> Deletion) {
    let since = world.present().wall;
    world.change(&machine_name(index), |want| {
        if want.deletion == Deletion::No {
            want.deletion = to(since);
        }
    });
}

/// Everything is well again, and time enough passes for all to be as it should be.
pub(crate) fn recover(world: &mut World) {
    world.note("all is well from here on");
    world.line.clear();
    world.model.fates.clear();
    world.model.fail_over();
    world.routable = true;
    world.latency = Duration::from_millis(20);
    world.lag = Duration::ZERO;
    world.strangers.clear();
    world.desired.cluster.paused = false;
    lead(world, false);
    let names: Vec<_> = world.nodes.keys().cloned().collect();
    for name in names {
        let standing = world.nodes.get(&name).is_some_and(|node| {
            !node.gone && !matches!(node.want.deletion, Deletion::Unhooked { .. })
        });
        let address = world.nodes.get(&name).and_then(|node| node.want.address);
        if let Some(address) = address.filter(|_| standing) {
            world.model.up.entry(address).or_insert(world.now);
            world.change(&name, |want| {
                want.server.state = ServerState::Active;
                want.server.down_since = None;
            });
        }
    }
    // Until all is as it should be, and once more as long; three hours at most.
    let mut is_well = false;
    for _ in 0..36 {
        world.run(Duration::from_secs(300));
        let was_well = std::mem::replace(&mut is_well, flaw(world).is_none());
        if was_well && is_well {
            return;
        }
    }
    if let Some(flaw) = flaw(world) {
        world.fail(&flaw);
    }
}

/// What is not as it should be in the end.
fn flaw(world: &World) -> Option<String> {
    let staying: Vec<_> = world
        .nodes
        .iter()
        .filter(|(_, node)| !node.gone && node.want.deletion == Deletion::No)
        .collect();
    for (name, node) in &staying {
        let members = world
            .model
            .members()
            .filter(|member| Some(member.address) == node.want.address)
            .filter(|member| {
                member.provisioning == ProvisioningStatus::Active
                    && member.admin_up
                    && member.weight > 0
            })
            .count();
        if members != world.desired.ports.len() {
            return Some(format!("I7: {name} does not serve in the end"));
        }
        if !node.want.admitted {
            return Some(format!("I7: {name} was never admitted"));
        }
    }
    if staying.is_empty() {
        return None;
    }
    for (name, node) in &world.nodes {
        if !node.gone && node.want.deletion != Deletion::No {
            return Some(format!("I7: {name} is still there"));
        }
    }
    for member in world.model.members() {
        let owner = world
            .nodes
            .values()
            .any(|node| !node.gone && node.want.address == Some(member.address));
        if !owner {
            return Some(format!("I4: {} is left over", member.name));
        }
    }
    (world.findings.verdict.status != ConditionStatus::True)
        .then(|| format!("I7: {:?}", world.findings.verdict))
}

/// Where a history takes place.
#[derive(Debug, Clone)]
struct Stage {
    provider: &'static str,
    ports: Vec<u16>,
    /// How many milliseconds Octavia's operations take.
    operation: u64,
    monitors: bool,
}

fn stage() -> impl Strategy<Value = Stage> {
    (
        prop_oneof![3 => Just("amphora"), 1 => Just("ovn"), 1 => Just("f5")],
        prop_oneof![Just(vec![6443_u16]), Just(vec![6443_u16, 8132])],
        100_u64..8_000,
        prop::bool::weighted(0.8),
    )
        .prop_map(|(provider, ports, operation, monitors)| Stage {
            provider,
            ports,
            operation,
            monitors,
        })
}

/// Goes through a history quickly; once more, and with notes, if it fails.
fn history(stage: &Stage, acts: &[Act]) -> Tally {
    catch_unwind(|| live(stage, acts, false)).unwrap_or_else(|_| live(stage, acts, true))
}

fn live(stage: &Stage, acts: &[Act], noting: bool) -> Tally {
    let mut world = World::new(&stage.ports, Duration::from_millis(stage.operation));
    world.noting = noting;
    world.model.monitors = stage.monitors;
    world.model.ovn = stage.provider == "ovn";
    world.desired.provider = stage.provider.to_owned();
    world.hand_over_load_balancer();
    world.add_serving(1);
    world.run(Duration::from_secs(120));
    for act in acts {
        play(&mut world, act.clone());
    }
    recover(&mut world);
    // I8: an operation every second with a read or two each, and no more.
    if world.most_per_minute > 130 {
        world.fail(&format!("I8: {} calls in a minute", world.most_per_minute));
    }
    world.tally
}

/// Tests run in the folder of their package.
const REGRESSIONS: &str = "../../tests/regressions/gate.txt";

proptest! {
    #![proptest_config(ProptestConfig {
        cases: cases(),
        max_shrink_iters: 2_000,
        failure_persistence: Some(Box::new(FileFailurePersistence::Direct(REGRESSIONS))),
        ..ProptestConfig::default()
    })]
    #[test]
    fn invariants_hold_in_every_history(
        stage in stage(),
        acts in prop::collection::vec(act(), 1..40),
    ) {
        history(&stage, &acts);
    }
}

/// `PROPTEST_CASES` asks for more.
fn cases() -> u32 {
    std::env::var("PROPTEST_CASES")
        .ok()
        .and_then(|cases| cases.parse().ok())
        .unwrap_or(60)
}

#[test]
fn histories_reach_what_they_are_to_check() {
    use proptest::{
        strategy::{Strategy, ValueTree},
        test_runner::{Config, RngAlgorithm, TestRng, TestRunner},
    };
    let rng = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    let mut runner = TestRunner::new_with_rng(Config::default(), rng);
    let mut sum = Tally::default();
    for round in 0..120 {
        let acts = prop::collection::vec(act(), 20..40)
            .new_tree(&mut runner)
            .map(|tree| tree.current())
            .unwrap_or_default();
        let stage = Stage {
            provider: "amphora",
            ports: vec![6443],
            operation: 1_000,
            monitors: round % 4 != 0,
        };
        let tally = history(&stage, &acts);
        sum.holds += tally.holds;
        sum.releases += tally.releases;
        sum.admissions += tally.admissions;
        sum.repairs += tally.repairs;
        sum.restores += tally.restores;
        sum.drains += tally.drains;
        sum.prunes += tally.prunes;
        sum.joins += tally.joins;
        sum.refusals += tally.refusals;
    }
    let reached = [
        sum.holds,
        sum.releases,
        sum.admissions,
        sum.repairs,
        sum.restores,
        sum.drains,
        sum.prunes,
        sum.joins,
        sum.refusals,
    ];
    assert!(reached.iter().all(|count| *count > 0), "{sum:?}");
}

/// A release that had begun was opened by the list, and went on when it was held again while another one had begun.
#[test]
fn a_release_that_the_list_opened_does_not_go_on_beside_another() {
    let stage = Stage {
        provider: "amphora",
        ports: vec![6443],
        operation: 1_851,
        monitors: true,
    };
    let down = Line::Down(FailureClass::Transient);
    let acts = [
        Act::ServerDown(1),
        Act::Add(5),
        Act::Boot(1),
        Act::OutOfBand(1),
        Act::Wait(1),
        Act::Lines(vec![down, down, Line::ReplyLost]),
        Act::Restart,
        Act::Wait(18),
        Act::Boot(5),
        Act::Delete(5),
        Act::Wait(66),
        Act::Add(2),
    ];
    history(&stage, &acts);
}
