//! Random histories: machines come and go, Octavia misbehaves, replies get lost, the process dies. The
//! world checks I1, I2, I3, and that nothing is written twice at once, at every turn; here come I8 and
//! what must be true in the end.

use std::time::Duration;

use proptest::prelude::*;

use super::{
    super::{
        desired::{Deletion, OperatorWord, ServerState},
        findings::Tristate,
        octavia::{FailureClass, Provisioning},
    },
    model::Fate,
    world::{Line, Tally, World, address, machine_name},
};

#[derive(Debug, Clone)]
enum Act {
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
    Forget(u8),
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

fn act() -> impl Strategy<Value = Act> {
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
        1 => (1_u64..3000).prop_map(Act::Latency),
        1 => who.prop_map(Act::Forget),
    ]
}

fn play(world: &mut World, act: Act) {
    world.note(format!("{act:?}"));
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
            world.model.up.remove(&address(index));
        }
        Act::Delete(index) => deletion(world, index, |since| Deletion::AtHook { since }),
        Act::OutOfBand(index) => deletion(world, index, |since| Deletion::OutOfBand { since }),
        Act::TakeHook(index) => {
            let name = machine_name(index);
            world.change(&name, |want| {
                if let Deletion::AtHook { since } = want.deletion {
                    want.deletion = Deletion::Unhooked { since };
                }
            });
        }
        Act::ServerDown(index) => {
            world.model.up.remove(&address(index));
            world.change(&machine_name(index), |want| {
                want.server.state = ServerState::Shutoff;
            });
        }
        Act::Bypass(index) => {
            let until = world.present().wall + jiff::SignedDuration::from_secs(120);
            world.change(&machine_name(index), |want| {
                want.operator = OperatorWord::Bypass {
                    until,
                    reason: "r".to_owned(),
                };
            });
        }
        Act::Pause => {
            world.desired.cluster.untouchable = true;
            world.hand_over_load_balancer();
        }
        Act::Resume => {
            world.desired.cluster.untouchable = false;
            world.hand_over_load_balancer();
        }
        Act::Restart => world.restart(),
        Act::Fates(fates) => world.model.fates = fates,
        Act::Lines(lines) => world.line = lines.into(),
        Act::AllError => {
            for member in world.model.members_mut() {
                if !member.provisioning.is_pending() {
                    member.provisioning = Provisioning::Error;
                }
            }
        }
        Act::FailOver => world.model.fail_over(),
        Act::OperatorRemoves(index) => {
            let free = world.model.provisioning == Provisioning::Active;
            if free {
                for pool in &mut world.model.pools {
                    pool.members
                        .retain(|member| member.address != address(index));
                }
            }
        }
        Act::Routable(routable) => world.routable = routable,
        Act::Latency(milliseconds) => world.latency = Duration::from_millis(milliseconds),
        Act::Forget(index) => {
            let name = machine_name(index);
            let known = world.nodes.get(&name).is_some_and(|node| node.gone);
            if known {
                // A new machine may take the name later.
                world.nodes.remove(&name);
            }
        }
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

/// Everything is well again, and time enough passes.
fn recover(world: &mut World) {
    world.note("all is well from here on".to_owned());
    world.line.clear();
    world.model.fates.clear();
    world.model.fail_over();
    world.routable = true;
    world.latency = Duration::from_millis(20);
    world.desired.cluster.untouchable = false;
    world.hand_over_load_balancer();
    let names: Vec<_> = world.nodes.keys().cloned().collect();
    for (index, name) in (0_u8..).zip(names) {
        let standing = world.nodes.get(&name).is_some_and(|node| {
            !node.gone && !matches!(node.want.deletion, Deletion::Unhooked { .. })
        });
        let address = world.nodes.get(&name).and_then(|node| node.want.address);
        if let Some(address) = address.filter(|_| standing) {
            let _ = index;
            world.model.up.entry(address).or_insert(world.now);
            world.change(&name, |want| {
                want.server.state = ServerState::Active;
                want.server.down_reads = 0;
            });
        }
    }
    world.run(Duration::from_secs(3 * 3600));
}

fn check_end(world: &World) {
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
                member.provisioning == Provisioning::Active && member.admin_up && member.weight > 0
            })
            .count();
        if members != world.desired.ports.len() {
            world.fail(&format!("I7: {name} does not serve in the end"));
        }
        if !node.want.admitted {
            world.fail(&format!("I7: {name} was never admitted"));
        }
    }
    for (name, node) in &world.nodes {
        if !node.gone && node.want.deletion != Deletion::No && !staying.is_empty() {
            world.fail(&format!("I7: {name} is still there"));
        }
    }
    for member in world.model.members() {
        let owner = world
            .nodes
            .values()
            .any(|node| !node.gone && node.want.address == Some(member.address));
        if !owner && !staying.is_empty() {
            world.fail(&format!("I4: {} is left over", member.name));
        }
    }
    if !staying.is_empty()
        && staying.len() == world.nodes.values().filter(|node| !node.gone).count()
        && world.findings.verdict.status != Tristate::True
    {
        world.fail(&format!("I7: {:?}", world.findings.verdict));
    }
}

fn history(ports: &[u16], operation: u64, monitors: bool, acts: Vec<Act>) -> Tally {
    let mut world = World::new(ports, Duration::from_millis(operation));
    world.model.monitors = monitors;
    world.add_serving(1);
    world.run(Duration::from_secs(120));
    for act in acts {
        play(&mut world, act);
    }
    recover(&mut world);
    check_end(&world);
    // I8: an operation every second with a read or two each, and no more.
    if world.most_per_minute > 130 {
        world.fail(&format!("I8: {} calls in a minute", world.most_per_minute));
    }
    world.tally
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(), max_shrink_iters: 2_000, ..ProptestConfig::default() })]
    #[test]
    fn invariants_hold_in_every_history(
        ports in prop_oneof![Just(vec![6443_u16]), Just(vec![6443_u16, 8132])],
        operation in 100_u64..8_000,
        monitors in prop::bool::weighted(0.8),
        acts in prop::collection::vec(act(), 1..40),
    ) {
        history(&ports, operation, monitors, acts);
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
    for round in 0..60 {
        let acts = prop::collection::vec(act(), 20..40)
            .new_tree(&mut runner)
            .map(|tree| tree.current())
            .unwrap_or_default();
        let tally = history(&[6443], 1_000, round % 4 != 0, acts);
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
