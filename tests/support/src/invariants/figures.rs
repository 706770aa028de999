//! The costs of a rollout, from its timeline: machines replaced, holds, requests, calls.

use std::{collections::BTreeMap, fmt, time::Duration};

use super::World;
use crate::timeline::{Entry, Server, What};

/// The step of a deletion at which the hook of capo-rs holds it.
const WAITS_FOR_HOOK: &str = "WaitingForPreTerminateHook";

/// The figures of a stretch of time.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Figures {
    /// The duration of the stretch.
    pub lasted: Duration,
    /// Machines that were deleted while the cluster lived.
    pub replaced: usize,
    /// Every hold, in the order of their ends.
    pub holds: Vec<Hold>,
    /// The number of requests that were answered.
    pub answered: u64,
    /// The duration of the slowest of them.
    pub slowest: Duration,
    /// The number of requests that failed.
    pub failed: u64,
    /// The number of watches that were cut and continued.
    pub watch_cuts: u64,
    /// The number of times that a watch lost its position or an event.
    pub watches_failed: u64,
    /// The manager's calls to Octavia.
    pub octavia_calls: u64,
}

/// A time during which a gate held a machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hold {
    /// The machine.
    pub machine: String,
    /// `admission` or `release`.
    pub gate: &'static str,
    /// The duration of the hold.
    pub lasted: Duration,
    /// The condition's reasons, in order.
    pub reasons: Vec<String>,
    /// The statuses of its members during that time.
    pub members: Vec<String>,
}

/// A hold that has not ended.
#[derive(Debug, Default)]
struct Open {
    since: Duration,
    reasons: Vec<String>,
    members: Vec<String>,
}

type Opens = BTreeMap<(String, &'static str), Open>;

impl fmt::Display for Hold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} {} held {:.1} s ({})",
            self.machine,
            self.gate,
            self.lasted.as_secs_f64(),
            self.reasons.join(" > ")
        )
    }
}

impl Figures {
    /// The figures between two moments.
    pub fn of(entries: &[Entry], from: Duration, until: Duration) -> Self {
        let mut figures = Self {
            lasted: until.saturating_sub(from),
            ..Self::default()
        };
        let mut world = World::default();
        let mut open = Opens::new();
        for entry in entries.iter().take_while(|entry| entry.at <= until) {
            let counts = entry.at >= from;
            match &entry.what {
                What::Server(name, Server::Up) if world.machines.contains_key(name) => {
                    let since = entry.at;
                    let hold = Open {
                        since,
                        ..Open::default()
                    };
                    open.insert((name.clone(), "admission"), hold);
                }
                What::OpenStackMachine(machine) => {
                    let reason = machine.gate.as_ref().map(|gate| gate.reason.as_str());
                    for gate in ["admission", "release"] {
                        let hold = open.get_mut(&(machine.name.clone(), gate));
                        if let (Some(hold), Some(reason)) = (hold, reason) {
                            went(&mut hold.reasons, reason);
                        }
                    }
                    if machine.provisioned {
                        figures.close(&mut open, &machine.name, "admission", entry.at, counts);
                    }
                }
                What::Machine(machine) if machine.deleting => {
                    let waits = machine.hook && machine.step == WAITS_FOR_HOOK;
                    let key = (machine.name.clone(), "release");
                    if waits && !open.contains_key(&key) {
                        let gate = world.infrastructure.get(&machine.name);
                        let reason = gate.and_then(|machine| machine.gate.as_ref());
                        let hold = Open {
                            since: entry.at,
                            reasons: reason.map(|gate| gate.reason.clone()).into_iter().collect(),
                            members: Vec::new(),
                        };
                        open.insert(key, hold);
                    } else if !machine.hook {
                        figures.close(&mut open, &machine.name, "release", entry.at, counts);
                    }
                }
                What::Gone("Machine", _) if counts && !world.cluster.going => {
                    figures.replaced += 1;
                }
                What::Answered(answered) if counts => {
                    figures.answered += u64::from(answered.count);
                    figures.slowest = figures.slowest.max(answered.slowest);
                }
                What::RequestFailed(_) if counts => figures.failed += 1,
                What::WatchCut(_) if counts => figures.watch_cuts += 1,
                What::WatchFailed(_) if counts => figures.watches_failed += 1,
                What::Member(member) => {
                    let holds = open
                        .iter_mut()
                        .filter(|((machine, _), _)| *machine == member.key.machine);
                    for (_, hold) in holds {
                        went(&mut hold.members, &member.provisioning);
                    }
                }
                What::Call(call) if counts && call.ours && call.octavia => {
                    figures.octavia_calls += 1;
                }
                _ => {}
            }
            world.learn(&entry.what);
        }
        figures
    }

    fn close(
        &mut self,
        open: &mut Opens,
        machine: &str,
        gate: &'static str,
        at: Duration,
        counts: bool,
    ) {
        if let Some(hold) = open.remove(&(machine.to_owned(), gate))
            && counts
        {
            self.holds.push(Hold {
                machine: machine.to_owned(),
                gate,
                lasted: at.saturating_sub(hold.since),
                reasons: hold.reasons,
                members: hold.members,
            });
        }
    }

    /// Calls to Octavia for each machine that was replaced.
    pub fn calls_per_machine(&self) -> f64 {
        let (calls, machines) = (self.octavia_calls, self.replaced.max(1));
        f64::from(u32::try_from(calls).unwrap_or(u32::MAX))
            / f64::from(u32::try_from(machines).unwrap_or(u32::MAX))
    }

    /// The longest hold.
    pub fn longest_hold(&self) -> Option<&Hold> {
        self.holds.iter().max_by_key(|hold| hold.lasted)
    }
}

fn went(states: &mut Vec<String>, state: &str) {
    if states.last().is_none_or(|last| last != state) {
        states.push(state.to_owned());
    }
}
