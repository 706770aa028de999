//! Random histories. After every act the world checks I1, I2, I3, and that nothing is written twice at once. This file
//! checks I8, I9, and the state after the cluster has recovered (I4 and I7). `tests/rollout/README.md` defines I1 to
//! I4, I7 and I8. I9 is defined here, because it is another rule than I9 of the rollouts.

use std::{panic::catch_unwind, time::Duration};

use crate::{
    model::desired::{Deletion, ObservedCondition, ServerState},
    tests::{
        acts::{Act, act, lead, play},
        cluster::Node,
        world::{AtEndpoint, Line, Tally, World},
    },
};
use capo_core::{ConditionStatus, FailureClass, ProvisioningStatus};

use proptest::{prelude::*, test_runner::FileFailurePersistence};

/// Ends every fault of Octavia and of the endpoint. API servers stay as they are, and so do the routes to their own
/// addresses.
fn mend_octavia(world: &mut World) {
    world.note("Octavia works from here on");
    world.line.clear();
    world.model.fates.clear();
    world.model.fail_over();
    world.latency = Duration::from_millis(20);
    world.queue_wait = Duration::ZERO;
    world.lag = Duration::ZERO;
    world.strangers.clear();
    world.set_endpoint(AtEndpoint::LoadBalancer);
    world.nova = true;
    world.model.never_programmed.clear();
    world.model.health_unreported.clear();
    world.desired.cluster.paused = false;
    world.desired.cluster.remote_connection = ObservedCondition::TrueSince(world.now);
    for node in world.nodes.values_mut() {
        node.want.paused = false;
    }
    lead(world, false);
}

/// I9: while Octavia works, every port leads to an API server, if one runs whose machine was not given up. A release
/// that is tried again interrupts this for seconds.
fn check_that_one_serves(world: &mut World) {
    world.run(Duration::from_mins(40));
    let mut flaw = None;
    for _ in 0..6 {
        flaw = port_without_api_server(world);
        if flaw.is_none() {
            return;
        }
        world.run(Duration::from_secs(30));
    }
    if let Some(flaw) = flaw {
        world.fail(&flaw);
    }
}

fn port_without_api_server(world: &World) -> Option<String> {
    let runs = |(_, node): &(_, &Node)| {
        let address = node.want.address;
        !node.gone
            && !matches!(node.want.deletion, Deletion::Unhooked { .. })
            && node.want.server.state == ServerState::Active
            && address.is_some_and(|address| world.model.up.contains_key(&address))
    };
    let (name, _) = world.nodes.iter().find(runs)?;
    let mut ports = world.desired.ports.iter();
    let port = ports.find(|port| !world.model.serves(**port))?;
    Some(format!("I9: port {port} leads nowhere, and {name} runs"))
}

/// Ends every fault, and lets enough time pass for the cluster to recover.
pub(crate) fn recover(world: &mut World) {
    mend_octavia(world);
    check_that_one_serves(world);
    world.note("all is well from here on");
    world.routable = true;
    let names: Vec<_> = world.nodes.keys().cloned().collect();
    for name in names {
        let standing = world.nodes.get(&name).is_some_and(|node| {
            !node.gone && !matches!(node.want.deletion, Deletion::Unhooked { .. })
        });
        let address = world.nodes.get(&name).and_then(|node| node.want.address);
        if let Some(address) = address.filter(|_| standing) {
            world.boot(address);
            world.change(&name, |want| {
                want.server.state = ServerState::Active;
                want.server.down_since = None;
            });
        }
    }
    // Wait until everything is as it should be, and then as long again, but three hours at most.
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

/// The first thing that is wrong after the recovery.
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
        let is_owned = world
            .owner(member)
            .is_some_and(|(_, node)| !node.gone && node.want.address == Some(member.address));
        if !is_owned {
            return Some(format!("I4: {} is left over", member.name));
        }
    }
    (world.findings.verdict.status != ConditionStatus::True)
        .then(|| format!("I7: {:?}", world.findings.verdict))
}

/// The load balancer and the network in which a history happens.
#[derive(Debug, Clone)]
struct Setting {
    provider: &'static str,
    ports: Vec<u16>,
    /// How many milliseconds Octavia's operations take.
    operation: u64,
    monitors: bool,
    /// The number of machines that serve when the history begins.
    machines: u8,
}

impl Setting {
    fn amphora(ports: Vec<u16>, operation: u64, monitors: bool) -> Self {
        Self {
            provider: "amphora",
            ports,
            operation,
            monitors,
            machines: 1,
        }
    }
}

fn setting() -> impl Strategy<Value = Setting> {
    (
        prop_oneof![3 => Just("amphora"), 1 => Just("ovn"), 1 => Just("f5")],
        prop_oneof![Just(vec![6443_u16]), Just(vec![6443_u16, 8132])],
        100_u64..8_000,
        prop::bool::weighted(0.8),
        1_u8..=3,
    )
        .prop_map(|(provider, ports, operation, monitors, machines)| Setting {
            provider,
            ports,
            operation,
            monitors,
            machines,
        })
}

/// Runs a history without notes, and once more with notes if it fails.
fn history(setting: &Setting, acts: &[Act]) -> Tally {
    catch_unwind(|| live(setting, acts, false)).unwrap_or_else(|_| live(setting, acts, true))
}

fn live(setting: &Setting, acts: &[Act], noting: bool) -> Tally {
    let mut world = World::new(&setting.ports, Duration::from_millis(setting.operation));
    world.noting = noting;
    world.model.monitors = setting.monitors;
    world.model.ovn = setting.provider == "ovn";
    world.desired.provider = setting.provider.to_owned();
    world.set_load_balancer();
    for index in 1..=setting.machines {
        world.add_serving(index);
    }
    world.run(Duration::from_secs(120));
    for act in acts {
        play(&mut world, act.clone());
    }
    recover(&mut world);
    // I8: at most one operation every second with one or two reads each.
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
        setting in setting(),
        acts in prop::collection::vec(act(), 1..40),
    ) {
        history(&setting, &acts);
    }
}

/// The number of cases; `PROPTEST_CASES` can raise it.
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
    for round in 0..60_u8 {
        let acts = prop::collection::vec(act(), 20..40)
            .new_tree(&mut runner)
            .map(|tree| tree.current())
            .unwrap_or_default();
        let setting = Setting {
            machines: round % 3 + 1,
            ..Setting::amphora(vec![6443], 1_000, round % 4 != 0)
        };
        let tally = history(&setting, &acts);
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

/// A release that has begun is opened without a proof, and is held again while another release has begun. It
/// must not go on.
#[test]
fn a_release_that_needed_no_proof_does_not_go_on_beside_another() {
    let setting = Setting::amphora(vec![6443], 1_851, true);
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
    history(&setting, &acts);
}

/// A drained member gets no clients. The other member, which an operator removed during a pause, is therefore created
/// enabled.
#[test]
fn a_member_beside_a_drained_one_is_created_enabled() {
    let setting = Setting::amphora(vec![6443, 8132], 4_851, true);
    let down = Line::Down(FailureClass::Quota);
    let acts = [
        Act::OutOfBand(1),
        Act::Wait(41),
        Act::Lines(vec![
            down,
            Line::Down(FailureClass::Transient),
            Line::ReplyLost,
            down,
        ]),
        Act::Endpoint(AtEndpoint::EverySecond),
        Act::Add(5),
        Act::Boot(5),
        Act::Wait(147),
        Act::Pause,
        Act::OperatorRemoves(5),
        Act::Wait(159),
        Act::Add(1),
    ];
    history(&setting, &acts);
}

/// The member of a machine that vanished sends clients to the machine that has its address now.
#[test]
fn a_member_that_is_in_the_way_counts_as_in_service() {
    let setting = Setting::amphora(vec![6443], 100, false);
    let acts = [
        Act::Pause,
        Act::Vanish(1),
        Act::Reuse(1),
        Act::Wait(2),
        Act::Boot(1),
        Act::Wait(660),
        Act::Add(2),
    ];
    history(&setting, &acts);
}

/// An operator's bypass let the last API server go. Of the two members that were created disabled, the first one to be
/// enabled belongs to a machine whose API server never starts.
#[test]
fn an_api_server_that_never_starts_keeps_no_other_one_out_of_service() {
    let setting = Setting::amphora(vec![6443], 100, false);
    let acts = [
        Act::Add(2),
        Act::Delete(1),
        Act::Bypass(1),
        Act::Add(5),
        Act::Boot(5),
        Act::Routable(false),
    ];
    history(&setting, &acts);
}
