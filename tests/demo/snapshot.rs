//! The state at a moment, made from the timeline: Octavia's rows on one side, the gate on the other.

use std::{collections::BTreeMap, time::Duration};

use crate::{
    invariants::World,
    timeline::{Entry, Member, Server, What},
};

/// The whole state at a moment.
#[derive(Debug, Clone, Default)]
pub(crate) struct Snapshot {
    /// Control-plane machines in the order in which they were created.
    pub machines: Vec<Row>,
    /// What the client has seen, as soon as it sends requests.
    pub client: Option<Client>,
}

/// A control-plane machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Row {
    /// The machine's name.
    pub machine: String,
    /// Its server.
    pub server: &'static str,
    /// The two statuses of its member for each port.
    pub members: String,
    /// Whether Cluster API may continue.
    pub gate: &'static str,
    /// How long it has been held.
    pub held: Option<Duration>,
    /// The condition's reason.
    pub reason: String,
    /// The condition's message.
    pub message: String,
}

/// The client's side.
#[derive(Debug, Clone, Default)]
pub(crate) struct Client {
    /// Requests answered.
    pub answered: u64,
    /// Requests failed.
    pub failed: u64,
    /// The longest time for which a gate has been shut since the client began to send requests, and the gate's machine.
    pub longest: Option<(Duration, String)>,
}

/// The snapshot at `now`.
pub(crate) fn of(entries: &[Entry], now: Duration) -> Snapshot {
    let mut world = World::default();
    let mut servers: BTreeMap<&str, &'static str> = BTreeMap::new();
    let mut order: Vec<&str> = Vec::new();
    let mut held: BTreeMap<String, Duration> = BTreeMap::new();
    let mut client: Option<Client> = None;
    for entry in entries {
        match &entry.what {
            What::Machine(machine) => {
                if !order.contains(&machine.name.as_str()) {
                    order.push(&machine.name);
                }
                let waits = machine.hook && machine.step == "WaitingForPreTerminateHook";
                if machine.deleting && waits {
                    held.entry(machine.name.clone()).or_insert(entry.at);
                } else if machine.deleting && !machine.hook {
                    release(&mut held, &machine.name, entry.at, &mut client);
                }
            }
            What::Server(name, state) => {
                let text = match state {
                    Server::Up => "ACTIVE",
                    Server::Down => "DELETING",
                    Server::Gone => "-",
                };
                servers.insert(name, text);
                if *state == Server::Up {
                    held.insert(name.clone(), entry.at);
                }
            }
            What::OpenStackMachine(machine) => {
                let deleting = world
                    .machines
                    .get(&machine.name)
                    .is_some_and(|machine| machine.deleting);
                if machine.provisioned && !deleting {
                    release(&mut held, &machine.name, entry.at, &mut client);
                }
            }
            What::Answered(answered) => {
                client.get_or_insert_default().answered += u64::from(answered.count);
            }
            What::RequestFailed(_) => client.get_or_insert_default().failed += 1,
            _ => {}
        }
        world.learn(&entry.what);
    }
    let shown = order.into_iter().filter_map(|name| {
        let machine = world.machines.get(name)?;
        let infrastructure = world.infrastructure.get(name);
        let gate = infrastructure.and_then(|machine| machine.gate.as_ref());
        let provisioned = infrastructure.is_some_and(|machine| machine.provisioned);
        Some(Row {
            machine: name.to_owned(),
            server: servers.get(name).copied().unwrap_or("BUILD"),
            members: members(&world, name),
            gate: match (machine.deleting, machine.hook, provisioned) {
                (true, true, _) if held.contains_key(name) => "held",
                (true, _, _) => "leaving",
                (false, _, true) => "open",
                (false, _, false) => "held",
            },
            held: held.get(name).map(|since| now.saturating_sub(*since)),
            reason: gate.map_or("-", |gate| gate.reason.as_str()).to_owned(),
            message: gate.map_or("", |gate| gate.message.as_str()).to_owned(),
        })
    });
    Snapshot {
        machines: shown.collect(),
        client,
    }
}

fn release(
    held: &mut BTreeMap<String, Duration>,
    machine: &str,
    at: Duration,
    client: &mut Option<Client>,
) {
    if let (Some(since), Some(client)) = (held.remove(machine), client) {
        let lasted = at.saturating_sub(since);
        if client
            .longest
            .as_ref()
            .is_none_or(|(longest, _)| *longest < lasted)
        {
            client.longest = Some((lasted, machine.to_owned()));
        }
    }
}

fn members(world: &World, machine: &str) -> String {
    let own = world
        .members
        .values()
        .filter(|member| member.key.machine == machine);
    let shown: Vec<String> = own
        .map(|member: &Member| {
            let weight = if member.weight == 0 { " weight 0" } else { "" };
            format!("{}:{}{weight}", member.key.port, member.provisioning)
        })
        .collect();
    if shown.is_empty() {
        "-".to_owned()
    } else {
        shown.join(" ")
    }
}
