//! What happens in a random history: machines come and go, Octavia misbehaves, replies get lost, the process dies.

use std::time::Duration;

use proptest::prelude::*;

use crate::{
    model::desired::{Deletion, ObservedCondition, ServerState},
    tests::{
        model::Fate,
        world::{AtEndpoint, Line, Todo, World, address, machine_name},
    },
};
use capo_core::{FailureClass, GateOverride, ProvisioningStatus};

/// The machine that gets the address of machine n after n is gone has the number n plus this.
const REUSED: u8 = 10;

#[derive(Debug, Clone)]
pub(crate) enum Act {
    Wait(u64),
    Add(u8),
    Boot(u8),
    ApiDown(u8),
    Delete(u8),
    OutOfBand(u8),
    TakeHook(u8),
    /// Cluster API drains the Node of a machine that waits for its release, and comes back to the hook after that many
    /// seconds.
    Drain(u8, u64),
    ServerDown(u8),
    Bypass(u8),
    Pause,
    Resume,
    /// A machine is paused if it is not, and resumed if it is.
    PauseMachine(u8),
    Restart,
    Fates(Vec<Fate>),
    Lines(Vec<Line>),
    AllError,
    FailOver,
    OperatorRemoves(u8),
    Routable(bool),
    Latency(u64),
    /// The time in milliseconds for which calls wait for the request budget.
    QueueWait(u64),
    Lag(u64),
    /// The credentials lead to another project (true) or to the cluster's own project again (false).
    Elsewhere(bool),
    /// A stranger's API server starts or stops answering the manager at the address of a machine.
    Stranger(u8),
    Forget(u8),
    /// The finalizer of a machine is taken away by hand: the machine is gone, and its member is not.
    Vanish(u8),
    /// A machine of another name gets the address of a machine that is gone.
    Reuse(u8),
    /// What the manager finds at the endpoint from here on.
    Endpoint(AtEndpoint),
    /// Cluster API reaches the API servers (true) or reaches them no longer (false).
    Connected(bool),
    /// Nova answers (true) or does not (false).
    Nova(bool),
    /// Cluster API has found the API server of a machine unhealthy before the deletion of the machine. The machine
    /// controller keeps this as long as the machine exists, whether or not the API server has recovered.
    Unhealthy(u8),
    /// Octavia's health manager stops or starts again to report the health of a member.
    HealthUnreported(u8),
    /// The data path starts or stops dropping the traffic of a member, whatever Octavia shows.
    Swallow(u8),
}

/// What the manager may find at the endpoint, except for a server that makes a proof lie.
fn at_endpoint() -> impl Strategy<Value = AtEndpoint> {
    prop_oneof![
        4 => Just(AtEndpoint::LoadBalancer),
        1 => Just(AtEndpoint::Unreachable),
        1 => Just(AtEndpoint::Stranger),
        1 => Just(AtEndpoint::EverySecond),
        1 => Just(AtEndpoint::Unchanged),
    ]
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
    let who = 1_u8..5;
    // A fault that stays for the rest of a history leaves little to check.
    let mostly = || prop::bool::weighted(0.7);
    prop_oneof![
        // A release takes some seconds, and what happens meanwhile may call it off.
        6 => (1_u64..8).prop_map(Act::Wait),
        4 => (8_u64..40).prop_map(Act::Wait),
        4 => (40_u64..400).prop_map(Act::Wait),
        6 => who.clone().prop_map(Act::Add),
        6 => who.clone().prop_map(Act::Boot),
        1 => who.clone().prop_map(Act::ApiDown),
        4 => who.clone().prop_map(Act::Delete),
        1 => who.clone().prop_map(Act::OutOfBand),
        1 => who.clone().prop_map(Act::TakeHook),
        1 => (who.clone(), 1_u64..4_000).prop_map(|(index, seconds)| Act::Drain(index, seconds)),
        1 => who.clone().prop_map(Act::ServerDown),
        1 => who.clone().prop_map(Act::Bypass),
        1 => Just(Act::Pause),
        2 => Just(Act::Resume),
        1 => who.clone().prop_map(Act::PauseMachine),
        2 => Just(Act::Restart),
        3 => prop::collection::vec(fate(), 1..4).prop_map(Act::Fates),
        2 => prop::collection::vec(line(), 1..8).prop_map(Act::Lines),
        1 => Just(Act::AllError),
        1 => Just(Act::FailOver),
        1 => who.clone().prop_map(Act::OperatorRemoves),
        1 => mostly().prop_map(Act::Routable),
        1 => (1_u64..3_000).prop_map(Act::Latency),
        1 => (3_000_u64..30_000).prop_map(Act::Latency),
        1 => prop_oneof![Just(0), 1_u64..30_000].prop_map(Act::QueueWait),
        1 => mostly().prop_map(|own| Act::Elsewhere(!own)),
        1 => who.clone().prop_map(Act::Stranger),
        1 => (0_u64..60_000).prop_map(Act::Lag),
        1 => who.clone().prop_map(Act::Forget),
        1 => who.clone().prop_map(Act::Vanish),
        2 => who.clone().prop_map(Act::Reuse),
        2 => at_endpoint().prop_map(Act::Endpoint),
        2 => mostly().prop_map(Act::Connected),
        1 => who.clone().prop_map(Act::Swallow),
        1 => mostly().prop_map(Act::Nova),
        1 => who.clone().prop_map(Act::Unhealthy),
        1 => who.prop_map(Act::HealthUnreported),
    ]
}

pub(crate) fn play(world: &mut World, act: Act) {
    world.note(format_args!("{act:?}"));
    match act {
        Act::Wait(seconds) => world.run(Duration::from_secs(seconds)),
        Act::Add(index) => {
            if world.holder(address(index)).is_none()
                && !world.nodes.contains_key(&machine_name(index))
            {
                world.add(index, false, Deletion::No);
            }
        }
        Act::Boot(index) => {
            let holder = world.holder(address(index));
            if holder
                .is_some_and(|(_, node)| !matches!(node.want.deletion, Deletion::Unhooked { .. }))
            {
                world.boot(address(index));
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
                // The API server goes on running until the control plane provider removes its etcd member.
                world.later(Duration::from_mins(2), Todo::Unhook(name));
            }
        }
        Act::Drain(index, seconds) => {
            let name = machine_name(index);
            world.change(&name, |want| {
                if let Deletion::AtHook { since } = want.deletion {
                    want.deletion = Deletion::BeforeHook { since };
                }
            });
            world.later(Duration::from_secs(seconds), Todo::EndDrain(name));
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
                want.gate_override = GateOverride::Bypass {
                    until,
                    reason: "r".to_owned(),
                };
            });
        }
        Act::Pause => {
            world.desired.cluster.paused = true;
            world.set_load_balancer();
        }
        Act::Resume => {
            world.desired.cluster.paused = false;
            world.set_load_balancer();
        }
        Act::PauseMachine(index) => {
            world.change(&machine_name(index), |want| want.paused = !want.paused);
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
            let is_active = world.model.provisioning == ProvisioningStatus::Active;
            if is_active {
                for pool in &mut world.model.pools {
                    pool.members
                        .retain(|member| member.address != address(index));
                }
            }
        }
        Act::Routable(routable) => world.routable = routable,
        Act::Latency(milliseconds) => world.latency = Duration::from_millis(milliseconds),
        Act::QueueWait(milliseconds) => world.queue_wait = Duration::from_millis(milliseconds),
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
                // A new machine may take the name later. A cache that is behind reports the end of the old machine
                // before that.
                world.set_machine(&name);
                world.nodes.remove(&name);
            }
        }
        Act::Vanish(index) => world.turn(Todo::Finish(machine_name(index))),
        Act::Endpoint(endpoint) => world.set_endpoint(endpoint),
        Act::Nova(answers) => world.nova = answers,
        Act::Unhealthy(index) => world.change(&machine_name(index), |want| {
            if want.deletion != Deletion::No {
                want.api_server_pod = ObservedCondition::False;
            }
        }),
        Act::HealthUnreported(index) => {
            let unreported = &mut world.model.health_unreported;
            if !unreported.remove(&address(index)) {
                unreported.insert(address(index));
            }
        }
        Act::Connected(connected) => {
            world.desired.cluster.remote_connection = if connected {
                ObservedCondition::TrueSince(world.now)
            } else {
                ObservedCondition::False
            };
            world.set_load_balancer();
        }
        Act::Swallow(index) => {
            let swallowed = &mut world.model.never_programmed;
            if !swallowed.remove(&address(index)) {
                swallowed.insert(address(index));
            }
        }
        Act::Reuse(index) => {
            let second = index + REUSED;
            if world.holder(address(index)).is_none()
                && world.nodes.contains_key(&machine_name(index))
                && !world.nodes.contains_key(&machine_name(second))
            {
                world.add_at(second, address(index), false, Deletion::No);
            }
        }
    }
}

/// The controllers notice which project the credentials lead to, for the load balancer and for every server.
pub(crate) fn lead(world: &mut World, elsewhere: bool) {
    world.elsewhere = elsewhere;
    world.set_load_balancer();
    let names: Vec<_> = world.nodes.keys().cloned().collect();
    for name in names {
        world.set_machine(&name);
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
