//! Tests of every rule with a history that breaks it, and with the correct one from which that history was made.

mod gate;
mod others;

use std::time::Duration;

use serde_json::json;

use super::{Promises, Rule, Violation, check};
use crate::timeline::{
    Answered, ApiServer, Call, Cluster, Entry, Gate, Lease, Machine, Member, MemberKey,
    OpenStackMachine, Sender, Server, Slow, What,
};

const PORT: u16 = 6443;

/// A history under construction. Times are in tenths of a second.
#[derive(Default)]
struct Story {
    entries: Vec<Entry>,
}

impl Story {
    fn at(mut self, tenths: u64, what: What) -> Self {
        self.entries.push(Entry {
            at: Duration::from_millis(tenths * 100),
            what,
        });
        self
    }

    /// The history without the entries that match.
    fn without(mut self, unwanted: impl Fn(&What) -> bool) -> Self {
        self.entries.retain(|entry| !unwanted(&entry.what));
        self
    }

    fn broken(mut self, promises: &Promises) -> Vec<Violation> {
        self.entries.sort_by_key(|entry| entry.at);
        check(&self.entries, promises)
    }

    fn rules(self) -> Vec<Rule> {
        self.rules_of(&Promises::default())
    }

    fn rules_of(self, promises: &Promises) -> Vec<Rule> {
        let mut rules: Vec<Rule> = self
            .broken(promises)
            .into_iter()
            .map(|violation| violation.rule)
            .collect();
        rules.dedup();
        rules
    }
}

fn cluster() -> What {
    What::Cluster(Cluster {
        initialised: true,
        managed: true,
        ports: vec![PORT],
        provisioned: true,
        gate: Some(gate("True", "MembersActive")),
        going: false,
    })
}

fn gate(status: &str, reason: &str) -> Gate {
    Gate {
        status: status.to_owned(),
        reason: reason.to_owned(),
        message: String::new(),
    }
}

fn machine(name: &str) -> Machine {
    Machine {
        name: name.to_owned(),
        hook: true,
        cleanup_hook: true,
        admitted: true,
        node: true,
        ..Machine::default()
    }
}

fn deleting(name: &str) -> Machine {
    Machine {
        deleting: true,
        step: "WaitingForPreTerminateHook".to_owned(),
        ..machine(name)
    }
}

fn unhooked(name: &str) -> What {
    What::Machine(Machine {
        hook: false,
        ..deleting(name)
    })
}

fn infrastructure(name: &str, provisioned: bool) -> OpenStackMachine {
    OpenStackMachine {
        name: name.to_owned(),
        machine: name.to_owned(),
        provisioned,
        addresses: vec![address(name)],
        deleting: false,
        gate: None,
    }
}

/// Machine a has the address 10.0.0.97, machine b 10.0.0.98.
fn address(name: &str) -> String {
    format!("10.0.0.{}", name.as_bytes()[0])
}

fn key(name: &str) -> MemberKey {
    MemberKey {
        port: PORT,
        machine: name.to_owned(),
        id: format!("id-{name}"),
    }
}

fn member(name: &str, status: &str) -> Member {
    Member {
        key: key(name),
        address: address(name),
        provisioning: status.to_owned(),
        operating: "ONLINE".to_owned(),
        enabled: true,
        weight: 1,
        taking: true,
    }
}

fn call(label: &str, method: &str, path: &str, body: serde_json::Value) -> What {
    What::Call(Call {
        label: label.to_owned(),
        method: method.to_owned(),
        path: path.to_owned(),
        status: Some(200),
        took: Duration::from_millis(50),
        body,
        ours: true,
        octavia: true,
    })
}

fn look() -> What {
    call(
        "loadbalancer_status_tree",
        "GET",
        "/lbaas/loadbalancers/lb/status",
        json!(null),
    )
}

fn drain(name: &str) -> What {
    call(
        "loadbalancer_member_update",
        "PUT",
        &format!("/lbaas/pools/p/members/id-{name}"),
        json!({"member": {"weight": 0}}),
    )
}

fn remove(name: &str) -> What {
    call(
        "loadbalancer_member_delete",
        "DELETE",
        &format!("/lbaas/pools/p/members/id-{name}"),
        json!(null),
    )
}

fn answered() -> What {
    What::Answered(Answered {
        count: 20,
        slowest: Duration::from_millis(30),
    })
}

/// Machine a serves, a client sends requests, and a process holds the lease.
fn calm() -> Story {
    let mut story = Story::default()
        .at(0, cluster())
        .at(0, What::Machine(machine("a")))
        .at(0, What::OpenStackMachine(infrastructure("a", true)))
        .at(0, What::Member(member("a", "ACTIVE")))
        .at(0, What::ApiServer("a".to_owned(), ApiServer::Ready))
        .at(0, What::Lease(lease(0, 600)));
    for second in 0..30 {
        story = story.at(second * 10, answered());
    }
    story
}

fn lease(renewed_tenths: u64, lasts_seconds: u64) -> Lease {
    Lease {
        holder: "one".to_owned(),
        renewed: Duration::from_millis(renewed_tenths * 100),
        lasts: Duration::from_secs(lasts_seconds),
    }
}

/// Machine b joins correctly: member ACTIVE at 5.0, read at 6.0, provisioned at 6.2, API server ready at 9.0.
fn joined() -> Story {
    calm()
        .at(
            10,
            What::Machine(Machine {
                admitted: false,
                node: false,
                ..machine("b")
            }),
        )
        .at(11, What::OpenStackMachine(infrastructure("b", false)))
        .at(20, What::Server("b".to_owned(), Server::Up))
        .at(30, What::Member(member("b", "PENDING_CREATE")))
        .at(40, look())
        .at(50, What::Member(member("b", "ACTIVE")))
        .at(60, look())
        .at(62, What::OpenStackMachine(infrastructure("b", true)))
        .at(65, What::Machine(machine("b")))
        .at(90, What::ApiServer("b".to_owned(), ApiServer::Ready))
}

/// The same history, after which machine a is removed correctly.
fn rolled() -> Story {
    joined()
        .at(100, What::Machine(deleting("a")))
        .at(110, drain("a"))
        .at(120, remove("a"))
        .at(121, What::Member(member("a", "PENDING_DELETE")))
        .at(130, What::MemberGone(key("a")))
        .at(150, unhooked("a"))
        .at(151, What::ApiServer("a".to_owned(), ApiServer::Killed))
        .at(200, What::Gone("Machine", "a".to_owned()))
}
