//! The removal of machines: the hooks, I2, and one at a time.

use std::{collections::BTreeSet, time::Duration};

use super::{Promises, Rule, Violation, World};
use crate::timeline::{Call, Entry, Machine, Member, MemberKey, What};

pub(super) fn check(entries: &[Entry], promises: &Promises) -> Vec<Violation> {
    let mut checker = Checker {
        promises,
        world: World::default(),
        leaving: BTreeSet::new(),
        found: Vec::new(),
    };
    for entry in entries {
        match &entry.what {
            What::Machine(now) => checker.machine(entry.at, now),
            What::Gone("Machine", name) => {
                checker.leaving.remove(name);
            }
            What::Call(call) => checker.call(entry.at, call),
            _ => {}
        }
        checker.world.learn(&entry.what);
    }
    checker.found
}

struct Checker<'a> {
    promises: &'a Promises,
    world: World,
    /// Machines whose members are being taken out and whose hooks are still set.
    leaving: BTreeSet<String>,
    found: Vec<Violation>,
}

impl Checker<'_> {
    fn broken(&mut self, rule: Rule, at: Duration, how: String) {
        self.found.push(Violation { rule, at, how });
    }

    /// Whether the deletion of this machine does not depend on the gate, because the cluster is being deleted or a user
    /// has decided it.
    fn excused(&self, machine: &str) -> bool {
        self.world.cluster.going
            || !self.world.cluster.managed
            || self.promises.excused.iter().any(|name| name == machine)
    }

    /// Whether this change removes the hook of capo-rs, and whether it may.
    fn machine(&mut self, at: Duration, now: &Machine) {
        let name = &now.name;
        let Some(before) = self.world.machines.get(name) else {
            return;
        };
        if !(before.hook && !now.hook && now.deleting) {
            return;
        }
        let admitted = before.admitted;
        self.leaving.remove(name);
        if !admitted || self.excused(name) {
            return;
        }
        for port in self.world.cluster.ports.clone() {
            let own = self
                .world
                .of_port(port)
                .find(|member| member.key.machine == *name);
            if let Some(own) = own {
                let how = format!(
                    "the hook of {name} went while its member on port {port} was {}",
                    own.provisioning
                );
                self.broken(Rule::Release, at, how);
            }
            let served = self.world.of_port(port).any(|member| {
                member.key.machine != *name
                    && member.active()
                    && self.world.answers(&member.key.machine)
            });
            if !served {
                let how = format!("the hook of {name} went while no other served port {port}");
                self.broken(Rule::Release, at, how);
            }
        }
    }

    fn call(&mut self, at: Duration, call: &Call) {
        if !call.ours || call.status.is_none_or(|status| status >= 300) {
            return;
        }
        if call.label == "loadbalancer_delete" {
            let last = self.world.machines.values().any(|machine| machine.admitted);
            if last && !self.excused("load balancer") {
                let how = "the load balancer was deleted under admitted machines".to_owned();
                self.broken(Rule::LastMember, at, how);
            }
            return;
        }
        let Some(change) = Change::of(call) else {
            return;
        };
        let id = call.path.rsplit('/').next().unwrap_or_default();
        let key = self.world.members.keys().find(|key| key.id == id).cloned();
        let Some(key) = key else {
            return;
        };
        match change {
            Change::Brings => {
                self.leaving.remove(&key.machine);
            }
            Change::Takes => self.takes(at, &key),
        }
    }

    /// A member is taken out of service.
    fn takes(&mut self, at: Duration, key: &MemberKey) {
        let machine = self.world.machines.get(&key.machine);
        let Some((deleting, admitted, hooked)) =
            machine.map(|machine| (machine.deleting, machine.admitted, machine.hook))
        else {
            return;
        };
        if self.excused(&key.machine) {
            return;
        }
        if deleting && admitted && hooked {
            self.leaving.insert(key.machine.clone());
            if self.leaving.len() > 1 {
                let names: Vec<&str> = self.leaving.iter().map(String::as_str).collect();
                let how = format!("{} leave at once", names.join(" and "));
                self.broken(Rule::OneAtATime, at, how);
            }
        }
        // The member's Machine is deleted, and no gate holds it any more.
        if deleting && !(admitted && hooked) {
            return;
        }
        let Some(taken) = self.world.members.get(key) else {
            return;
        };
        let stays =
            |member: &&Member| member.key != *key && !self.leaving.contains(&member.key.machine);
        let mut others = self.world.of_port(key.port).filter(stays);
        let alone = if taken.active() {
            !others.any(Member::active)
        } else {
            admitted && taken.may_serve() && !others.any(Member::may_serve)
        };
        drop(others);
        if alone {
            let how = format!(
                "{} lost its {} member on port {}, the last that could serve it",
                key.machine, taken.provisioning, key.port
            );
            self.broken(Rule::LastMember, at, how);
        }
    }
}

/// The effect of a call on a member's service.
enum Change {
    Takes,
    Brings,
}

impl Change {
    fn of(call: &Call) -> Option<Self> {
        match call.label.as_str() {
            "loadbalancer_member_delete" => Some(Self::Takes),
            "loadbalancer_member_update" => {
                let values = &call.body["member"];
                if values["weight"] == 0 || values["admin_state_up"] == false {
                    Some(Self::Takes)
                } else {
                    values["weight"].is_u64().then_some(Self::Brings)
                }
            }
            _ => None,
        }
    }
}
