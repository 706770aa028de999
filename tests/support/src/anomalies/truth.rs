//! The actual state of the cloud's load balancer, independent of what the manager has read.

use fake_cloud::{Call, Control, Service};
use serde_json::Value;

/// A pool member as it is.
#[derive(Debug, Clone, PartialEq)]
pub struct Member {
    pub name: String,
    pub port: u16,
    pub status: String,
    pub operating: String,
    pub weight: u64,
    pub up: bool,
}

/// The state of the only load balancer of a cloud at one moment.
#[derive(Debug, Clone, Default)]
pub struct Truth {
    pub id: String,
    pub status: String,
    pub listeners: Vec<String>,
    pub pools: Vec<(String, String)>,
    pub members: Vec<Member>,
    /// Names of the members that get connections, by port.
    pub in_data_path: Vec<(u16, String)>,
}

impl Truth {
    /// Reads the only load balancer of a cloud.
    pub fn of(control: &Control) -> Self {
        let dump = control.dump();
        let only = dump["load_balancers"].get(0);
        only.map_or_else(Self::default, Self::of_row)
    }

    /// Reads one load balancer from its row in the cloud's dump.
    pub fn of_row(balancer: &Value) -> Self {
        let each = |value: &Value| value.as_array().cloned().unwrap_or_default();
        let text = |value: &Value, key: &str| value[key].as_str().unwrap_or_default().to_owned();
        let mut truth = Self {
            id: text(balancer, "id"),
            status: text(balancer, "provisioning_status"),
            ..Self::default()
        };
        for listener in each(&balancer["listeners"]) {
            truth.listeners.push(text(&listener, "provisioning_status"));
        }
        let mut names = std::collections::BTreeMap::new();
        for pool in each(&balancer["pools"]) {
            let status = text(&pool, "provisioning_status");
            truth.pools.push((text(&pool, "id"), status));
            for member in each(&pool["members"]) {
                names.insert(text(&member, "id"), text(&member, "name"));
                truth.members.push(Member {
                    name: text(&member, "name"),
                    port: u16::try_from(member["protocol_port"].as_u64().unwrap_or(0)).unwrap_or(0),
                    status: text(&member, "provisioning_status"),
                    operating: text(&member, "operating_status"),
                    weight: member["weight"].as_u64().unwrap_or(0),
                    up: member["admin_state_up"] == true,
                });
            }
        }
        for listener in each(&balancer["applied"]) {
            for member in each(&listener["pool"]["members"]) {
                let serves = member["enabled"] != false && member["weight"] != 0;
                if let Some(name) = names.get(&text(&member, "id")).filter(|_| serves) {
                    let port = u16::try_from(listener["port"].as_u64().unwrap_or(0)).unwrap_or(0);
                    truth.in_data_path.push((port, name.clone()));
                }
            }
        }
        truth
    }

    /// The members of a machine, one per port.
    pub fn of_machine<'a>(&'a self, machine: &str) -> impl Iterator<Item = &'a Member> {
        let end = format!("-{machine}");
        self.members
            .iter()
            .filter(move |member| member.name.ends_with(&end))
    }

    /// Whether a machine has this many members, all of them in this status.
    pub fn all(&self, machine: &str, ports: usize, status: &str) -> bool {
        self.of_machine(machine).count() == ports
            && self
                .of_machine(machine)
                .all(|member| member.status == status)
    }

    /// Whether load balancer, listeners, pools and members are ACTIVE.
    pub fn is_well(&self) -> bool {
        self.status == "ACTIVE"
            && self.listeners.iter().all(|status| status == "ACTIVE")
            && self.pools.iter().all(|(_, status)| status == "ACTIVE")
            && self.members.iter().all(|member| member.status == "ACTIVE")
    }
}

/// The writes of the manager to Octavia since a call, as method and kind, in a readable order.
pub fn writes(control: &Control, since: u64) -> Vec<String> {
    ours(control, since)
        .into_iter()
        .filter(|call| call.service == Service::LoadBalancer && call.method != "GET")
        .map(|call| {
            let words: Vec<&str> = call.label.split('_').collect();
            // The labels have forms such as loadbalancer_create and loadbalancer_member_create.
            let thing = words.iter().rev().nth(1).copied().unwrap_or_default();
            let refused = call.status.is_some_and(|status| status >= 400);
            let answer = if refused { " refused" } else { "" };
            format!("{} {thing}{answer}", call.method)
        })
        .collect()
}

/// The manager's own calls.
pub fn ours(control: &Control, since: u64) -> Vec<Call> {
    let mut calls = control.calls_since(since);
    calls.retain(|call| call.agent.starts_with("capo-rs"));
    calls
}
