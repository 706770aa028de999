//! Octavia: load balancers, listeners, pools, monitors, members; locks, orders, reverts and anomalies.

mod applied;
mod balancers;
mod batch;
pub mod change;
mod engine;
mod graph;
mod health;
mod listeners;
mod lists;
mod locks;
mod members;
pub mod model;
mod monitors;
mod plan;
mod pools;
mod render;
mod revert;
mod rules;
pub mod status;

use std::collections::{BTreeMap, BTreeSet, HashMap};

use serde_json::{Value, json};

pub use self::{
    applied::{AppliedListener, AppliedMember, AppliedMonitor, AppliedPool},
    rules::{Hold, OperationRule},
};
use self::{
    engine::Operation,
    model::{Head, LoadBalancer},
    status::{Operating, Provisioning},
};
use crate::{
    wire::{Answer, Reply, Request, Row, Service, given, strings, text},
    world::World,
};

/// Everything Octavia keeps.
#[derive(Debug, Default)]
pub struct Octavia {
    /// Load balancers by id.
    pub(crate) balancers: BTreeMap<String, LoadBalancer>,
    /// Load balancer of a listener, pool or monitor id.
    pub(crate) parents: HashMap<String, String>,
    pub(crate) by_name: HashMap<String, BTreeSet<String>>,
    /// What the data path runs, by load balancer.
    pub(crate) applied: BTreeMap<String, Vec<AppliedListener>>,
    pub(crate) operations: HashMap<u64, Operation>,
    pub(crate) next_operation: u64,
    pub(crate) rules: Vec<OperationRule>,
    pub(crate) holds: Vec<Hold>,
    /// Held members: the status each is held in.
    pub(crate) held: HashMap<String, Provisioning>,
    /// Old states that reads still show, and until when.
    pub(crate) stale: HashMap<String, (std::time::Duration, LoadBalancer)>,
    /// When the OVN provider's queue is free again.
    pub(crate) queue_free: std::time::Duration,
    pub(crate) providers: Vec<String>,
    pub(crate) default_provider: String,
    pub(crate) flavors: BTreeMap<String, Row>,
    pub(crate) heartbeat_due: BTreeSet<String>,
}

/// The shape of errors that controllers raise.
pub(crate) fn octavia_error(status: u16, message: impl Into<String>) -> Reply {
    let message: String = message.into();
    let code = if status >= 500 { "Server" } else { "Client" };
    Reply::json(
        status,
        json!({ "faultcode": code, "faultstring": message, "debuginfo": null }),
    )
}

pub(crate) fn missing(resource: &str, id: &str) -> Reply {
    octavia_error(404, format!("{resource} {id} not found."))
}

pub(crate) fn immutable(resource: &str, id: &str) -> Reply {
    octavia_error(
        409,
        format!("{resource} {id} is immutable and cannot be updated."),
    )
}

pub(crate) fn forbidden() -> Reply {
    octavia_error(403, "Policy does not allow this request to be performed.")
}

fn invalid(message: impl std::fmt::Display) -> Reply {
    octavia_error(400, format!("Validation failure: {message}"))
}

/// The shape of errors that routing raises, before any controller.
fn routing_error(status: u16, title: &str, description: &str) -> Reply {
    Reply::json(
        status,
        json!({ "code": status, "title": title, "description": description }),
    )
}

fn nothing_here() -> Reply {
    routing_error(404, "Not Found", "")
}

/// An integer attribute within bounds, in the words of Octavia's type system.
fn integer(body: &Row, name: &str, low: u64, high: u64) -> Result<Option<u64>, Reply> {
    match body.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(value) => {
            let number = value.as_u64().or_else(|| value.as_str()?.parse().ok());
            match number {
                Some(number) if (low..=high).contains(&number) => Ok(Some(number)),
                Some(number) => {
                    let bound = if number < low {
                        format!("greater or equal to {low}")
                    } else {
                        format!("lower or equal to {high}")
                    };
                    Err(octavia_error(
                        400,
                        format!(
                            "Invalid input for field/attribute {name}. Value: '{number}'. Value should be {bound}"
                        ),
                    ))
                }
                None => Err(octavia_error(
                    400,
                    format!(
                        "Invalid input for field/attribute {name}. Value: '{}'. unable to convert to int",
                        value.as_str().unwrap_or("?")
                    ),
                )),
            }
        }
    }
}

fn mandatory(body: &Row, names: &[&str]) -> Result<(), Reply> {
    match names
        .iter()
        .find(|name| matches!(body.get(**name), None | Some(Value::Null)))
    {
        Some(name) => Err(octavia_error(
            400,
            format!(
                "Invalid input for field/attribute {name}. Value: 'None'. Mandatory field missing."
            ),
        )),
        None => Ok(()),
    }
}

/// Refuses attributes that the type does not have.
fn only(body: &Row, kind: &str, names: &[&str]) -> Result<(), Reply> {
    match body.keys().find(|key| !names.contains(&key.as_str())) {
        Some(key) => Err(octavia_error(
            400,
            format!("Unknown attribute for argument {kind}_.{kind}: {key}"),
        )),
        None => Ok(()),
    }
}

impl World {
    /// One call to Octavia below `/load-balancer`.
    pub(crate) fn octavia_call(&mut self, request: &Request) -> Answer {
        let segments: Vec<&str> = request.segments.iter().map(String::as_str).collect();
        match segments.as_slice() {
            [] => Ok(self.octavia_versions(request)),
            ["v2" | "v2.0", "lbaas", rest @ ..] => {
                let rest: Vec<&str> = rest
                    .iter()
                    .map(|segment| segment.trim_end_matches(".json"))
                    .collect();
                self.octavia_route(request, &rest)
            }
            ["v2" | "v2.0", "octavia", ..] => Err(forbidden()),
            _ => Err(nothing_here()),
        }
    }

    fn octavia_versions(&self, request: &Request) -> Reply {
        let versions: Vec<Value> = (0..=self.octavia_minor)
            .map(|minor| {
                json!({ "id": format!("v2.{minor}"), "status": if minor == self.octavia_minor { "CURRENT" } else { "SUPPORTED" },
                    "updated": "2016-12-11T00:00:00Z",
                    "links": [{ "href": format!("{}/load-balancer/v2", request.base), "rel": "self" }] })
            })
            .collect();
        Reply::json(200, json!({ "versions": versions }))
    }

    fn octavia_route(&mut self, request: &Request, rest: &[&str]) -> Answer {
        match (request.method.as_str(), rest) {
            ("GET", ["loadbalancers"]) => self.list_balancers(request),
            ("POST", ["loadbalancers"]) => self.create_balancer(request),
            ("GET", ["loadbalancers", id]) => self.show_balancer(request, id),
            ("PUT", ["loadbalancers", id]) => self.update_balancer(request, id),
            ("DELETE", ["loadbalancers", id]) => self.delete_balancer(request, id),
            ("GET", ["loadbalancers", id, "status" | "statuses"]) => self.show_tree(request, id),
            ("GET", ["loadbalancers", id, "stats"]) => self.show_stats(request, id),
            ("PUT", ["loadbalancers", id, "failover"]) => self.failover(request, id),
            ("GET", ["listeners"]) => self.list_listeners(request),
            ("POST", ["listeners"]) => self.create_listener(request),
            ("GET", ["listeners", id]) => self.show_listener(request, id),
            ("PUT", ["listeners", id]) => self.update_listener(request, id),
            ("DELETE", ["listeners", id]) => self.delete_listener(request, id),
            ("GET", ["pools"]) => self.list_pools(request),
            ("POST", ["pools"]) => self.create_pool(request),
            ("GET", ["pools", id]) => self.show_pool(request, id),
            ("PUT", ["pools", id]) => self.update_pool(request, id),
            ("DELETE", ["pools", id]) => self.delete_pool(request, id),
            ("GET", ["healthmonitors"]) => self.list_monitors(request),
            ("POST", ["healthmonitors"]) => self.create_monitor(request),
            ("GET", ["healthmonitors", id]) => self.show_monitor(request, id),
            ("PUT", ["healthmonitors", id]) => self.update_monitor(request, id),
            ("DELETE", ["healthmonitors", id]) => self.delete_monitor(request, id),
            (method, ["pools", pool, "members", tail @ ..]) => {
                // The pool is looked up while routing, hence the other error shape.
                let Some(lb) = self.octavia.parents.get(*pool).cloned() else {
                    return Err(octavia_routing_missing("Pool", pool));
                };
                match (method, tail) {
                    ("GET", []) => self.list_members(request, &lb, pool),
                    ("POST", []) => self.create_member(request, &lb, pool),
                    ("PUT", []) => self.batch_members(request, &lb, pool),
                    ("GET", [id]) => self.show_member(request, &lb, pool, id),
                    ("PUT", [id]) => self.update_member(request, &lb, pool, id),
                    ("DELETE", [id]) => self.delete_member(request, &lb, pool, id),
                    _ => Err(nothing_here()),
                }
            }
            ("GET", ["providers"]) => {
                let list: Vec<Value> = self
                    .octavia
                    .providers
                    .iter()
                    .map(|name| json!({ "name": name, "description": format!("The {name} driver.") }))
                    .collect();
                Ok(Reply::json(200, json!({ "providers": list })))
            }
            ("GET", ["flavors"]) => {
                let fits = |row: &&Row| {
                    request
                        .param("name")
                        .is_none_or(|name| name == text(row, "name"))
                };
                let list: Vec<&Row> = self.octavia.flavors.values().filter(fits).collect();
                Ok(Reply::json(
                    200,
                    json!({ "flavors": list, "flavors_links": [] }),
                ))
            }
            ("GET", ["flavors", id]) => self
                .octavia
                .flavors
                .get(*id)
                .map(|row| Reply::json(200, json!({ "flavor": row })))
                .ok_or_else(|| missing("Flavor", id)),
            ("GET", ["availabilityzones"]) => Ok(Reply::json(
                200,
                json!({ "availability_zones": [], "availability_zones_links": [] }),
            )),
            ("GET", ["quotas", "defaults"]) => {
                Ok(Reply::json(200, json!({ "quota": self.octavia_quota("") })))
            }
            ("GET", ["quotas", project]) => Ok(Reply::json(
                200,
                json!({ "quota": self.octavia_quota(project) }),
            )),
            _ => Err(nothing_here()),
        }
    }

    fn octavia_quota(&self, project: &str) -> Row {
        [
            "load_balancer",
            "listener",
            "pool",
            "health_monitor",
            "member",
            "l7policy",
            "l7rule",
        ]
        .into_iter()
        .flat_map(|name| {
            let limit = self.limits.quota(Service::LoadBalancer, project, name);
            let limit = limit.map_or(json!(-1), |limit| json!(limit));
            // The old spellings are shown beside the new ones.
            let old = name.replace('_', "");
            let extra = (old != name).then(|| (old, limit.clone()));
            std::iter::once((name.to_owned(), limit)).chain(extra)
        })
        .collect()
    }

    /// Fails when `more` rows of a kind would pass the project's quota. `name` is the kind in messages.
    pub(crate) fn octavia_quota_left(
        &self,
        project: &str,
        kind: &str,
        name: &str,
        more: usize,
    ) -> Result<(), Reply> {
        let Some(limit) = self.limits.quota(Service::LoadBalancer, project, kind) else {
            return Ok(());
        };
        let mine = self
            .octavia
            .balancers
            .values()
            .filter(|lb| lb.project == project);
        let used: usize = mine
            .map(|lb| match kind {
                "load_balancer" => 1,
                "listener" => lb.listeners.len(),
                "pool" => lb.pools.len(),
                "health_monitor" => lb
                    .pools
                    .iter()
                    .filter(|pool| pool.monitor.is_some())
                    .count(),
                _ => lb.pools.iter().map(|pool| pool.members.len()).sum(),
            })
            .sum();
        if used + more <= limit {
            return Ok(());
        }
        Err(octavia_error(
            403,
            format!("Quota has been met for resources: {name}"),
        ))
    }

    /// The load balancer, if the caller may act on it.
    pub(crate) fn balancer(&self, request: &Request, id: &str) -> Result<&LoadBalancer, Reply> {
        let lb = self
            .octavia
            .balancers
            .get(id)
            .ok_or_else(|| missing("Load Balancer", id))?;
        if lb.project == request.caller.project || request.caller.is_admin() {
            Ok(lb)
        } else {
            Err(forbidden())
        }
    }

    /// The load balancer as reads show it: for a while the old one, where stale reads were asked for.
    pub(crate) fn balancer_read(
        &self,
        request: &Request,
        id: &str,
    ) -> Result<&LoadBalancer, Reply> {
        let lb = self.balancer(request, id)?;
        match self.octavia.stale.get(id) {
            Some((until, old)) if *until > self.now.elapsed => Ok(old),
            _ => Ok(lb),
        }
    }

    /// A new row's head.
    pub(crate) fn head(&mut self, body: &Row, operating: Operating) -> Head {
        Head {
            id: self.new_id(),
            name: text(body, "name").to_owned(),
            description: text(body, "description").to_owned(),
            provisioning: Provisioning::PendingCreate,
            operating,
            enabled: body
                .get("admin_state_up")
                .and_then(Value::as_bool)
                .unwrap_or(true),
            tags: strings(body, "tags"),
            created: self.now.without_zone(),
            updated: None,
            changed: self.now.elapsed,
        }
    }

    /// The id in the path is none that exists.
    pub(crate) fn parent_of(&self, resource: &str, id: &str) -> Result<String, Reply> {
        self.octavia
            .parents
            .get(id)
            .cloned()
            .ok_or_else(|| missing(resource, id))
    }
}

fn octavia_routing_missing(resource: &str, id: &str) -> Reply {
    routing_error(404, "Bad Request", &format!("{resource} {id} not found."))
}

/// Changes the columns that every kind shares.
fn change_head(head: &mut Head, body: &Row) {
    if body.contains_key("name") {
        given(body, "name")
            .unwrap_or_default()
            .clone_into(&mut head.name);
    }
    if body.contains_key("description") {
        given(body, "description")
            .unwrap_or_default()
            .clone_into(&mut head.description);
    }
    if let Some(enabled) = body.get("admin_state_up").and_then(Value::as_bool) {
        head.enabled = enabled;
    }
    if body.contains_key("tags") {
        head.tags = strings(body, "tags");
    }
}
