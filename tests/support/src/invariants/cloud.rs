//! I3, I4, I7, I8, I9 and I10: the objects in the cloud, and the number of calls.

use std::{collections::BTreeMap, time::Duration};

use super::{Promises, Rule, Violation, World};
use crate::timeline::{Call, Cluster, Entry, OpenStackMachine, Server, What};

const MINUTE: Duration = Duration::from_mins(1);

pub(super) fn check(entries: &[Entry], promises: &Promises) -> Vec<Violation> {
    let mut found = remains(entries);
    found.extend(convergence(entries, promises));
    found.extend(hot_loops(entries, promises));
    found.extend(wiped(entries, promises));
    if promises.lease {
        found.extend(leases(entries));
    }
    found
}

fn remains(entries: &[Entry]) -> Vec<Violation> {
    let mut found = Vec::new();
    for entry in entries {
        let What::Remains(remains) = &entry.what else {
            continue;
        };
        for (rule, objects) in [
            (Rule::Leftovers, &remains.left),
            (Rule::Twins, &remains.twice),
        ] {
            found.extend(objects.iter().map(|object| Violation {
                rule,
                at: entry.at,
                how: object.clone(),
            }));
        }
    }
    found
}

/// After the last fault has ended: the cluster's condition is True and every machine that was held is provisioned.
fn convergence(entries: &[Entry], promises: &Promises) -> Vec<Violation> {
    let mended = entries
        .iter()
        .rposition(|entry| matches!(entry.what, What::Mended(_)));
    let Some((before, after)) = mended.and_then(|mended| entries.split_at_checked(mended)) else {
        return Vec::new();
    };
    let at = after.first().map_or(Duration::ZERO, |entry| entry.at);
    let mut world = World::default();
    let mut up = Vec::new();
    for entry in before {
        world.learn(&entry.what);
        if let What::Server(name, Server::Up) = &entry.what {
            up.push(name.as_str());
        }
    }
    if world.cluster.going {
        return Vec::new();
    }
    let in_time = |what: &dyn Fn(&What) -> bool| {
        after
            .iter()
            .take_while(|entry| entry.at <= at + promises.settles_within)
            .any(|entry| what(&entry.what))
    };
    let broken = |how: String| Violation {
        rule: Rule::Convergence,
        at,
        how,
    };
    let limit = promises.settles_within.as_secs();
    let mut found = Vec::new();
    let well = |cluster: &Cluster| {
        let gate = cluster.gate.as_ref();
        gate.is_some_and(|gate| gate.status == "True")
    };
    if !well(&world.cluster)
        && !in_time(&|what| matches!(what, What::Cluster(cluster) if well(cluster)))
    {
        found.push(broken(format!("the cluster was not well within {limit} s")));
    }
    for held in world.infrastructure.values() {
        let goes = world
            .machines
            .get(&held.name)
            .is_none_or(|machine| machine.deleting);
        if held.provisioned || goes || !up.contains(&held.name.as_str()) {
            continue;
        }
        let open = |what: &What| matches!(what, What::OpenStackMachine(now) if now.name == held.name && now.provisioned);
        if !in_time(&open) {
            let name = &held.name;
            found.push(broken(format!(
                "{name} was not provisioned within {limit} s"
            )));
        }
    }
    found
}

/// The first minute, for each counted subject, with more than the allowed number.
fn hot_loops(entries: &[Entry], promises: &Promises) -> Vec<Violation> {
    let mut counted: BTreeMap<String, Vec<Duration>> = BTreeMap::new();
    for entry in entries {
        let key = match &entry.what {
            What::Call(call) if call.ours && call.octavia => "Octavia".to_owned(),
            What::OpenStackMachine(machine) => machine.name.clone(),
            What::Cluster(_) => "the cluster".to_owned(),
            _ => continue,
        };
        counted.entry(key).or_default().push(entry.at);
    }
    let mut found = Vec::new();
    for (subject, times) in counted {
        let (limit, what) = if subject == "Octavia" {
            (promises.calls_a_minute, "calls to")
        } else {
            (promises.changes_a_minute, "changes of")
        };
        let full = times.windows(limit + 1).find(|window| {
            matches!((window.first(), window.last()), (Some(first), Some(last)) if last.saturating_sub(*first) < MINUTE)
        });
        if let Some(at) = full.and_then(|window| window.first()) {
            found.push(Violation {
                rule: Rule::HotLoop,
                at: *at,
                how: format!("more than {limit} {what} {subject} within a minute"),
            });
        }
    }
    found
}

/// A status that was removed is written again in time, and no object is created or deleted in the meantime. A PUT
/// repairs and changes nothing else.
fn wiped(entries: &[Entry], promises: &Promises) -> Vec<Violation> {
    let mut found = Vec::new();
    for (place, entry) in entries.iter().enumerate() {
        let What::Wiped(kind, name) = &entry.what else {
            continue;
        };
        let provisioned = |what: &What| match what {
            What::Cluster(Cluster { provisioned, .. }) if *kind == "OpenStackCluster" => {
                Some(*provisioned)
            }
            What::OpenStackMachine(OpenStackMachine {
                name: other,
                provisioned,
                ..
            }) if *kind == "OpenStackMachine" && other == name => Some(*provisioned),
            _ => None,
        };
        let mut empty = false;
        let mut back = None;
        for later in entries.iter().skip(place) {
            match provisioned(&later.what) {
                Some(false) => empty = true,
                Some(true) if empty => {
                    back = Some(later.at);
                    break;
                }
                _ => {}
            }
        }
        let limit = promises.settles_within;
        let until = back.unwrap_or(entry.at + limit);
        if until.saturating_sub(entry.at) > limit || back.is_none() {
            found.push(Violation {
                rule: Rule::Wiped,
                at: entry.at,
                how: format!(
                    "{kind} {name} was not provisioned again within {} s",
                    limit.as_secs()
                ),
            });
        }
        let makes = |call: &Call| {
            call.ours && call.writes() && call.method != "PUT" && call.method != "PATCH"
        };
        for later in entries.iter().skip(place) {
            if later.at > until {
                break;
            }
            if let What::Call(call) = &later.what
                && makes(call)
            {
                found.push(Violation {
                    rule: Rule::Wiped,
                    at: later.at,
                    how: format!("{} {} after the status was wiped", call.method, call.path),
                });
            }
        }
    }
    found
}

/// Every write happens while a process holds the lease.
fn leases(entries: &[Entry]) -> Vec<Violation> {
    let mut world = World::default();
    let mut found = Vec::new();
    for entry in entries {
        world.learn(&entry.what);
        let What::Call(call) = &entry.what else {
            continue;
        };
        if !call.ours || !call.writes() {
            continue;
        }
        let held = world.lease.as_ref().is_some_and(|lease| {
            !lease.holder.is_empty() && entry.at <= lease.renewed + lease.lasts
        });
        if !held {
            found.push(Violation {
                rule: Rule::Lease,
                at: entry.at,
                how: format!("{} {} without a lease", call.method, call.path),
            });
        }
    }
    found
}
