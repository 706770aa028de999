//! The checks at the end of a test: duplicates, objects that were left behind, and the dump of all objects.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::{Value, json};

use crate::{
    network::Kind,
    octavia::model::LoadBalancer,
    wire::{strings, text},
    world::World,
};

/// Two or more objects under one logical key.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Finding {
    /// Kind: `port`, `loadbalancer`, `member`, ...
    pub kind: String,
    /// The key they share, readable.
    pub key: String,
    /// Their ids.
    pub ids: Vec<String>,
}

/// An object that still exists.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Leftover {
    /// Kind.
    pub kind: String,
    /// Id.
    pub id: String,
    /// Name.
    pub name: String,
}

struct Object {
    kind: &'static str,
    id: String,
    name: String,
    /// The logical key that identifies the object.
    key: String,
    tags: Vec<String>,
}

impl World {
    fn objects(&self) -> Vec<Object> {
        let mut objects = Vec::new();
        for kind in Kind::ALL {
            for row in self.network.table(kind).all() {
                let name = match kind {
                    Kind::FloatingIp => text(row, "description"),
                    _ => text(row, "name"),
                };
                let key = match kind {
                    Kind::Subnet | Kind::Port => format!("{}/{name}", text(row, "network_id")),
                    Kind::FloatingIp => text(row, "floating_ip_address").to_owned(),
                    Kind::SecurityGroupRule => text(row, "id").to_owned(),
                    _ => format!("{}/{name}", text(row, "project_id")),
                };
                objects.push(Object {
                    kind: kind.singular(),
                    id: text(row, "id").to_owned(),
                    name: name.to_owned(),
                    // Ports without a name belong to routers and to Nova.
                    key: if name.is_empty() {
                        text(row, "id").to_owned()
                    } else {
                        key
                    },
                    tags: strings(row, "tags"),
                });
            }
        }
        for server in self.compute.servers.values() {
            objects.push(Object {
                kind: "server",
                id: server.id.clone(),
                name: server.name.clone(),
                key: format!("{}/{}", server.project, server.name),
                tags: server.tags.clone(),
            });
        }
        for row in self.compute.groups.values() {
            objects.push(Object {
                kind: "server_group",
                id: text(row, "id").to_owned(),
                name: text(row, "name").to_owned(),
                key: format!("{}/{}", text(row, "project_id"), text(row, "name")),
                tags: Vec::new(),
            });
        }
        for row in self.volumes.values() {
            objects.push(Object {
                kind: "volume",
                id: text(row, "id").to_owned(),
                name: text(row, "name").to_owned(),
                key: format!(
                    "{}/{}",
                    text(row, "os-vol-tenant-attr:tenant_id"),
                    if text(row, "name").is_empty() {
                        text(row, "id")
                    } else {
                        text(row, "name")
                    }
                ),
                tags: Vec::new(),
            });
        }
        for lb in self.octavia.balancers.values() {
            balancer_objects(lb, &mut objects);
        }
        objects
    }

    /// Objects that share a logical key: name in project, name on network, address and port in a pool, ...
    pub fn duplicates(&self) -> Vec<Finding> {
        let mut groups: BTreeMap<(&'static str, String), Vec<String>> = BTreeMap::new();
        for object in self.objects() {
            groups
                .entry((object.kind, object.key))
                .or_default()
                .push(object.id);
        }
        groups
            .into_iter()
            .filter(|(_, ids)| ids.len() > 1)
            .map(|((kind, key), ids)| Finding {
                kind: kind.to_owned(),
                key,
                ids,
            })
            .collect()
    }

    /// Objects whose name, description or tags contain a text.
    pub fn leftovers(&self, wanted: &str) -> Vec<Leftover> {
        self.objects()
            .into_iter()
            .filter(|object| {
                object.name.contains(wanted) || object.tags.iter().any(|tag| tag.contains(wanted))
            })
            .map(|object| Leftover {
                kind: object.kind.to_owned(),
                id: object.id,
                name: object.name,
            })
            .collect()
    }

    /// All objects.
    pub fn dump(&self) -> Value {
        let network: BTreeMap<String, Value> = Kind::ALL
            .into_iter()
            .map(|kind| {
                (
                    kind.plural(),
                    json!(self.network.table(kind).all().collect::<Vec<_>>()),
                )
            })
            .collect();
        let servers: Vec<Value> = self
            .compute
            .servers
            .values()
            .map(|server| {
                let addresses: Vec<String> = server.ports.iter().filter_map(|port| self.port_address(port)).collect();
                json!({ "id": server.id, "name": server.name, "status": server.status, "task": server.task,
                    "project": server.project, "ports": server.ports, "addresses": addresses, "tags": server.tags,
                    "user_data": server.user_data, "metadata": server.metadata, "fault": server.fault, "zone": server.zone })
            })
            .collect();
        let balancers: Vec<Value> = self
            .octavia
            .balancers
            .values()
            .map(|lb| {
                let mut shown = json!(lb.shown_full());
                if let Some(object) = shown.as_object_mut() {
                    object.insert(
                        "applied".into(),
                        json!(self.octavia.applied.get(&lb.head.id)),
                    );
                    object.insert(
                        "listens_on".into(),
                        json!(self.listen_addresses(&lb.head.id)),
                    );
                }
                shown
            })
            .collect();
        json!({
            "elapsed": self.now.elapsed.as_secs_f64(), "network": network, "servers": servers,
            "server_groups": self.compute.groups.values().collect::<Vec<_>>(),
            "images": self.images.values().collect::<Vec<_>>(), "volumes": self.volumes.values().collect::<Vec<_>>(),
            "load_balancers": balancers, "operations": self.operations(), "held": self.octavia.held,
        })
    }

    /// Octavia's changes under way.
    pub fn operations(&self) -> Value {
        let mut operations: Vec<_> = self.octavia.operations.iter().collect();
        operations.sort_by_key(|(id, _)| **id);
        operations
            .into_iter()
            .map(|(id, operation)| {
                json!({ "id": id, "load_balancer": operation.balancer, "operation": operation.name,
                    "since": operation.since.as_secs_f64(), "worker_killed": operation.dead })
            })
            .collect()
    }
}

fn balancer_objects(lb: &LoadBalancer, objects: &mut Vec<Object>) {
    let mut add = |kind, head: &crate::octavia::model::Head, key: String| {
        objects.push(Object {
            kind,
            id: head.id.clone(),
            name: head.name.clone(),
            key,
            tags: head.tags.clone(),
        });
    };
    add(
        "loadbalancer",
        &lb.head,
        format!("{}/{}", lb.project, lb.head.name),
    );
    for listener in &lb.listeners {
        add(
            "listener",
            &listener.head,
            format!("{}/{}", lb.head.id, listener.head.name),
        );
    }
    for pool in &lb.pools {
        add(
            "pool",
            &pool.head,
            format!("{}/{}", lb.head.id, pool.head.name),
        );
        if let Some(monitor) = &pool.monitor {
            add(
                "healthmonitor",
                &monitor.head,
                format!("{}/{}", lb.head.id, monitor.head.name),
            );
        }
        for member in &pool.members {
            add(
                "member",
                &member.head,
                format!("{}/{}", pool.head.id, member.head.name),
            );
        }
    }
}
