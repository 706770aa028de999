//! Octavia: load balancers, listeners, pools, monitors, members; their locks, the orders of their changes, reverts and
//! anomalies.

mod applied;
mod attributes;
mod balancers;
mod batch;
pub mod change;
mod engine;
mod errors;
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
    attributes::{integer, mandatory, only},
    engine::Operation,
    errors::{
        forbidden, immutable, invalid, missing, nothing_here, octavia_error,
        octavia_routing_missing, routing_error,
    },
    model::{Head, LoadBalancer},
    status::{Operating, Provisioning},
};
use crate::{
    wire::{Answer, Reply, Request, Row, Service, given, strings, text},
    world::World,
};

/// The state of Octavia.
#[derive(Debug, Default)]
pub struct Octavia {
    /// Load balancers by id.
    pub(crate) balancers: BTreeMap<String, LoadBalancer>,
    /// Load balancer of a listener, pool or monitor id.
    pub(crate) parents: HashMap<String, String>,
    pub(crate) by_name: HashMap<String, BTreeSet<String>>,
    /// The configuration of the data paths, by load balancer.
    pub(crate) applied: BTreeMap<String, Vec<AppliedListener>>,
    pub(crate) operations: HashMap<u64, Operation>,
    pub(crate) next_operation: u64,
    pub(crate) rules: Vec<OperationRule>,
    pub(crate) holds: Vec<Hold>,
    /// The status in which each held member is held.
    pub(crate) held: HashMap<String, Provisioning>,
    /// Old states that reads still return, and until when they do.
    pub(crate) stale: HashMap<String, (std::time::Duration, LoadBalancer)>,
    /// The time at which the OVN provider's queue is free again.
    pub(crate) queue_free: std::time::Duration,
    pub(crate) providers: Vec<String>,
    pub(crate) default_provider: String,
    pub(crate) flavors: BTreeMap<String, Row>,
    pub(crate) heartbeat_due: BTreeSet<String>,
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
                // The pool is looked up during routing, so that its error has another form.
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
            // The old spellings are also shown.
            let old = name.replace('_', "");
            let extra = (old != name).then(|| (old, limit.clone()));
            std::iter::once((name.to_owned(), limit)).chain(extra)
        })
        .collect()
    }

    /// Fails if `more` rows of a kind would exceed the project's quota. `name` is the kind in messages.
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

    /// The load balancer as reads return it. If stale reads were requested, it is the old one for a while.
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

    /// The common columns of a new row.
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

    /// The load balancer of the object with the id in the path, or the answer 404.
    pub(crate) fn parent_of(&self, resource: &str, id: &str) -> Result<String, Reply> {
        self.octavia
            .parents
            .get(id)
            .cloned()
            .ok_or_else(|| missing(resource, id))
    }
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
