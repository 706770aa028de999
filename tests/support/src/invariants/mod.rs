//! The rules that every rollout must satisfy, checked over its timeline. `I1` and so on are the project's invariants.
//!
//! A rule uses only the recorded entries, so that a timeline written by hand is as good as a real one. The tests check
//! each rule with a history that breaks it.

mod admission;
mod client;
mod cloud;
pub mod figures;
mod release;
pub mod secrets;
#[cfg(test)]
mod tests;

use std::{collections::BTreeMap, fmt, time::Duration};

use crate::timeline::{
    ApiServer, Cluster, Entry, Lease, Machine, Member, MemberKey, OpenStackMachine, What,
};

/// The promises of a run. The default is an ordinary rollout.
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a promise of its own, not a step of one state"
)]
#[derive(Debug, Clone)]
pub struct Promises {
    /// Whether the gate holds machines (`--load-balancer-gate=enforce`).
    pub gate: bool,
    /// Whether another member could serve at every moment, so that no request may fail.
    pub served: bool,
    /// Whether no request may be slow unless the machine is, because no API server dies while its member takes
    /// connections.
    pub prompt: bool,
    /// Whether the manager elects a leader, and the lease was recorded.
    pub lease: bool,
    /// How soon after the end of the last fault the cluster must have recovered (I7).
    pub settles_within: Duration,
    /// The most Octavia calls in any minute (I8).
    pub calls_a_minute: usize,
    /// The most changes of one object's status in any minute (I8).
    pub changes_a_minute: usize,
    /// Machines whose deletion did not depend on the gate: it was bypassed, the hook was removed by a user, or the
    /// server was deleted.
    pub excused: Vec<String>,
}

impl Promises {
    /// The promises for this number of ports, each of which has a member of its own to write and to read.
    pub fn of_ports(ports: usize) -> Self {
        let promises = Self::default();
        Self {
            calls_a_minute: promises.calls_a_minute + 20 * ports.saturating_sub(1),
            ..promises
        }
    }
}

impl Default for Promises {
    fn default() -> Self {
        Self {
            gate: true,
            served: true,
            prompt: true,
            lease: false,
            // The time between two reads of a member that was pending for long, and the delay of a busy machine.
            settles_within: Duration::from_secs(75),
            // Reads right after a write are about 2 s apart; a rollout writes a few times a minute.
            calls_a_minute: 60,
            changes_a_minute: 40,
            excused: Vec::new(),
        }
    }
}

/// The rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rule {
    /// I1: no machine is provisioned before each of its members was read ACTIVE at its address.
    Admission,
    /// I2: the last member of a port that serves or may serve is not removed.
    LastMember,
    /// A hook is removed only when another machine serves and the machine's own member does not exist any more.
    Release,
    /// No two machines are removed at the same time.
    OneAtATime,
    /// I3: one object under each logical key.
    Twins,
    /// I4: no object of a deleted cluster is left.
    Leftovers,
    /// I5: no secret in any output.
    Secrets,
    /// I7: the cluster recovers soon after the end of a fault.
    Convergence,
    /// I8: calls and status writes are bounded, whatever happens.
    HotLoop,
    /// I9: a status that was removed is written again, and nothing changes in the cloud.
    Wiped,
    /// I10: only the process that holds the lease writes to OpenStack.
    Lease,
    /// No request fails.
    Requests,
    /// No request is slow because of a member.
    Prompt,
    /// Watches continue where they were cut, without a gap.
    Watches,
    /// The client sent requests all the time.
    RequestsSent,
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Admission => "I1 admission",
            Self::LastMember => "I2 last member",
            Self::Release => "release",
            Self::OneAtATime => "one at a time",
            Self::Twins => "I3 twins",
            Self::Leftovers => "I4 leftovers",
            Self::Secrets => "I5 secrets",
            Self::Convergence => "I7 convergence",
            Self::HotLoop => "I8 hot loop",
            Self::Wiped => "I9 wiped status",
            Self::Lease => "I10 lease",
            Self::Requests => "requests",
            Self::Prompt => "prompt",
            Self::Watches => "watches",
            Self::RequestsSent => "requests are sent all the time",
        })
    }
}

/// A broken rule, with the time and the details.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// The rule.
    pub rule: Rule,
    /// The time of the violation.
    pub at: Duration,
    /// The details of the violation.
    pub how: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let at = self.at.as_secs_f64();
        write!(f, "{} at {at:.2} s: {}", self.rule, self.how)
    }
}

/// All violations, in the order of time. `entries` are in that order too.
pub fn check(entries: &[Entry], promises: &Promises) -> Vec<Violation> {
    let mut found = Vec::new();
    if promises.gate {
        found.extend(admission::check(entries));
        found.extend(release::check(entries, promises));
    }
    found.extend(cloud::check(entries, promises));
    if promises.served {
        found.extend(client::check(entries));
    }
    if promises.served && promises.prompt {
        found.extend(client::prompt(entries));
    }
    found.sort_by_key(|violation| (violation.at, violation.rule));
    found
}

/// The state after the entries up to a moment.
#[derive(Debug, Default)]
pub struct World {
    /// The cluster.
    pub cluster: Cluster,
    /// Control-plane Machines by name.
    pub machines: BTreeMap<String, Machine>,
    /// Their OpenStackMachines by name.
    pub infrastructure: BTreeMap<String, OpenStackMachine>,
    /// Members.
    pub members: BTreeMap<MemberKey, Member>,
    /// API servers by machine; empty if no API servers are played.
    pub api_servers: BTreeMap<String, ApiServer>,
    /// The lease.
    pub lease: Option<Lease>,
}

impl World {
    /// Applies an entry.
    pub fn learn(&mut self, what: &What) {
        match what {
            What::Cluster(cluster) => self.cluster = cluster.clone(),
            What::Machine(machine) => {
                self.machines.insert(machine.name.clone(), machine.clone());
            }
            What::OpenStackMachine(machine) => {
                self.infrastructure
                    .insert(machine.name.clone(), machine.clone());
            }
            What::Gone("Machine", name) => {
                self.machines.remove(name);
            }
            What::Gone("OpenStackMachine", name) => {
                self.infrastructure.remove(name);
            }
            What::Member(member) => {
                self.members.insert(member.key.clone(), member.clone());
            }
            What::MemberGone(key) => {
                self.members.remove(key);
            }
            What::ApiServer(machine, state) => {
                self.api_servers.insert(machine.clone(), *state);
            }
            What::Lease(lease) => self.lease = Some(lease.clone()),
            _ => {}
        }
    }

    /// Members of a port.
    pub fn of_port(&self, port: u16) -> impl Iterator<Item = &Member> {
        self.members
            .values()
            .filter(move |member| member.key.port == port)
    }

    /// Whether the machine's API server answers. It counts as answering if no API servers are played.
    pub fn answers(&self, machine: &str) -> bool {
        self.api_servers.is_empty() || self.api_servers.get(machine) == Some(&ApiServer::Ready)
    }

    /// Whether Cluster API has admitted this machine.
    pub fn admitted(&self, machine: &str) -> bool {
        self.machines
            .get(machine)
            .is_some_and(|machine| machine.admitted)
    }
}
