//! I1: `provisioned` depends on a new read of every member.

use std::{collections::BTreeMap, time::Duration};

use super::{Rule, Violation, World};
use crate::timeline::{Entry, Member, OpenStackMachine, What};

/// A gate opens on a read that is at most 15 s old, and the write takes a while on a busy machine.
const FRESH: Duration = Duration::from_secs(15 + 5);

/// The states of one member with their times; `None` while it does not exist.
type History<'a> = Vec<(Duration, Option<&'a Member>)>;

/// The times at which a status tree was requested and answered.
struct Read {
    begun: Duration,
    ended: Duration,
}

pub(super) fn check(entries: &[Entry]) -> Vec<Violation> {
    let mut histories: BTreeMap<(u16, &str), History<'_>> = BTreeMap::new();
    let mut reads = Vec::new();
    for entry in entries {
        match &entry.what {
            What::Member(member) => histories
                .entry((member.key.port, &member.key.machine))
                .or_default()
                .push((entry.at, Some(member))),
            What::MemberGone(key) => histories
                .entry((key.port, &key.machine))
                .or_default()
                .push((entry.at, None)),
            What::Call(call)
                if call.label == "loadbalancer_status_tree" && call.status == Some(200) =>
            {
                reads.push(Read {
                    begun: entry.at,
                    ended: entry.at + call.took,
                });
            }
            _ => {}
        }
    }
    let mut world = World::default();
    let mut found = Vec::new();
    for entry in entries {
        if let What::OpenStackMachine(now) = &entry.what
            && now.provisioned
            && world.machines.contains_key(&now.name)
            && !world.admitted(&now.name)
            && world.cluster.managed
            && !world
                .infrastructure
                .get(&now.name)
                .is_some_and(|before| before.provisioned)
        {
            for port in &world.cluster.ports {
                let none = Vec::new();
                let history = histories.get(&(*port, &now.name)).unwrap_or(&none);
                if let Some(how) = broken(now, *port, entry.at, history, &reads) {
                    found.push(Violation {
                        rule: Rule::Admission,
                        at: entry.at,
                        how,
                    });
                }
            }
        }
        world.learn(&entry.what);
    }
    found
}

fn broken(
    machine: &OpenStackMachine,
    port: u16,
    at: Duration,
    history: &History<'_>,
    reads: &[Read],
) -> Option<String> {
    let good = |member: &Member| {
        member.provisioning == "ACTIVE" && machine.addresses.contains(&member.address)
    };
    let name = &machine.name;
    let fresh = |read: &&Read| read.ended <= at && at.saturating_sub(read.begun) <= FRESH;
    let mut seen = reads.iter().filter(fresh).peekable();
    if seen.peek().is_none() {
        return Some(format!(
            "{name} was provisioned without a fresh look at its members"
        ));
    }
    if seen.any(|read| during(history, read).any(good)) {
        return None;
    }
    let last = history.iter().rfind(|(since, _)| *since <= at);
    let state = last
        .and_then(|(_, member)| *member)
        .map_or("not there".to_owned(), |member| {
            format!("{} at {}", member.provisioning, member.address)
        });
    Some(format!(
        "{name} was provisioned although its member on port {port} was never read ACTIVE at {}; it is {state}",
        machine.addresses.join(" or ")
    ))
}

/// Every state that the member had during the read.
fn during<'a>(history: &History<'a>, read: &Read) -> impl Iterator<Item = &'a Member> {
    let first = history
        .partition_point(|(since, _)| *since <= read.begun)
        .saturating_sub(1);
    history
        .iter()
        .skip(first)
        .take_while(|(since, _)| *since <= read.ended)
        .filter_map(|(_, member)| *member)
}
