//! Pools.

use serde_json::{Value, json};

use super::{
    change::Change,
    change_head, integer, invalid, lists, missing,
    model::{LoadBalancer, Pool},
    octavia_error, only,
    status::{Operating, Provisioning},
};
use crate::{
    listing::select,
    wire::{Answer, Reply, Request, Row, given, text},
    world::World,
};

const COLUMNS: [&str; 15] = [
    "id",
    "name",
    "description",
    "provisioning_status",
    "operating_status",
    "admin_state_up",
    "protocol",
    "lb_algorithm",
    "project_id",
    "tenant_id",
    "loadbalancer_id",
    "listener_id",
    "healthmonitor_id",
    "created_at",
    "updated_at",
];

const ATTRIBUTES: [&str; 22] = [
    "name",
    "description",
    "admin_state_up",
    "protocol",
    "lb_algorithm",
    "session_persistence",
    "project_id",
    "tenant_id",
    "loadbalancer_id",
    "listener_id",
    "tags",
    "tls_container_ref",
    "ca_tls_container_ref",
    "crl_container_ref",
    "tls_enabled",
    "tls_ciphers",
    "tls_versions",
    "alpn_protocols",
    "healthmonitor",
    "members",
    "listeners",
    "loadbalancers",
];

impl World {
    pub(super) fn list_pools(&self, request: &Request) -> Answer {
        let rows = self.listed_rows(
            request,
            |lb| lb.pools.iter().collect(),
            |pool| &pool.head.name,
            |lb, pool| pool.shown(lb),
        );
        lists::answer(request, "pools", "pools", rows, &COLUMNS)
    }

    pub(super) fn show_pool(&self, request: &Request, id: &str) -> Answer {
        let parent = self.parent_of("Pool", id)?;
        let lb = self.balancer_read(request, &parent)?;
        let pool = lb.pool(id).ok_or_else(|| missing("Pool", id))?;
        let mut row = pool.shown(lb);
        select(&mut row, &request.query);
        Ok(Reply::json(200, json!({ "pool": row })))
    }

    /// A pool's row from a body.
    pub(super) fn new_pool(&mut self, lb: &LoadBalancer, body: &Row) -> Result<Pool, Reply> {
        Self::demand(body, &["protocol", "lb_algorithm"])?;
        let algorithm = text(body, "lb_algorithm").to_owned();
        let known = [
            "ROUND_ROBIN",
            "LEAST_CONNECTIONS",
            "SOURCE_IP",
            "SOURCE_IP_PORT",
        ];
        if !known.contains(&algorithm.as_str()) {
            return Err(octavia_error(
                400,
                format!(
                    "Invalid input for field/attribute lb_algorithm. Value: '{algorithm}'. Value should be one of: {}",
                    known.join(", ")
                ),
            ));
        }
        Self::ovn_refuses(
            lb,
            !algorithm.starts_with("SOURCE_IP"),
            &format!("OVN provider does not support {algorithm} algorithm"),
        )?;
        if lb.provider != "ovn" && algorithm == "SOURCE_IP_PORT" {
            return Err(octavia_error(
                501,
                format!(
                    "Provider '{}' does not support a requested option: Loadbalancer algorithm SOURCE_IP_PORT is not supported by the amphora provider.",
                    lb.provider
                ),
            ));
        }
        let persistence = body.get("session_persistence").cloned().unwrap_or_default();
        Ok(Pool {
            head: self.head(body, Operating::Offline),
            protocol: text(body, "protocol").to_owned(),
            algorithm,
            persistence,
            monitor: None,
            members: Vec::new(),
        })
    }

    pub(super) fn create_pool(&mut self, request: &Request) -> Answer {
        let body = request.object("pool");
        only(&body, "pool", &ATTRIBUTES)?;
        let listener = given(&body, "listener_id").map(str::to_owned);
        let parent = match (given(&body, "loadbalancer_id"), &listener) {
            (Some(lb), _) => lb.to_owned(),
            (None, Some(listener)) => self.parent_of("Listener", listener)?,
            (None, None) => {
                return Err(invalid(
                    "Must provide at least one of: loadbalancer_id, listener_id",
                ));
            }
        };
        let lb = self.balancer(request, &parent)?.clone();
        if body.contains_key("members") || body.contains_key("healthmonitor") {
            return Err(octavia_error(
                500,
                "'members' is an invalid keyword argument for Pool",
            ));
        }
        self.octavia_quota_left(&lb.project, "pool", "Pool", 1)?;
        let pool = self.new_pool(&lb, &body)?;
        if let Some(listener) = &listener {
            let row = lb
                .listener(listener)
                .ok_or_else(|| missing("Listener", listener))?;
            if row.pool.is_some() {
                return Err(octavia_error(
                    409,
                    "This listener already has a default pool",
                ));
            }
        }
        let locked: Vec<String> = listener.iter().cloned().collect();
        self.lock_below(&parent, &locked, None)?;
        let id = pool.head.id.clone();
        self.octavia.parents.insert(id.clone(), parent.clone());
        let mut shown = None;
        if let Some(lb) = self.octavia.balancers.get_mut(&parent) {
            lb.pools.push(pool);
            if let Some(listener) = listener.and_then(|listener| lb.listener_mut(&listener)) {
                listener.pool = Some(id.clone());
            }
            shown = lb.pool(&id).map(|pool| pool.shown(lb));
        }
        self.start_change(&parent, &Change::PoolCreate(id), lb);
        Ok(Reply::json(201, json!({ "pool": shown })))
    }

    pub(super) fn update_pool(&mut self, request: &Request, id: &str) -> Answer {
        let parent = self.parent_of("Pool", id)?;
        let before = self.balancer(request, &parent)?.clone();
        let body = request.object("pool");
        // The pool's own status is not checked, so a PUT can repair a pool that is stuck.
        self.lock_below(&parent, &before.listeners_of(id), None)?;
        let now = self.now;
        let lb = self
            .octavia
            .balancers
            .get_mut(&parent)
            .ok_or_else(|| missing("Load Balancer", &parent))?;
        if let Some(pool) = lb.pool_mut(id) {
            change_head(&mut pool.head, &body);
            if let Some(algorithm) = given(&body, "lb_algorithm") {
                algorithm.clone_into(&mut pool.algorithm);
            }
            if let Some(persistence) = body.get("session_persistence") {
                pool.persistence = persistence.clone();
            }
            pool.head.set(Provisioning::PendingUpdate, now);
        }
        let shown = lb.pool(id).map(|pool| pool.shown(lb));
        self.start_change(&parent, &Change::PoolUpdate(id.to_owned()), before);
        Ok(Reply::json(200, json!({ "pool": shown })))
    }

    pub(super) fn delete_pool(&mut self, request: &Request, id: &str) -> Answer {
        let parent = self.parent_of("Pool", id)?;
        let before = self.balancer(request, &parent)?.clone();
        self.lock_below(&parent, &before.listeners_of(id), None)?;
        let now = self.now;
        if let Some(pool) = self
            .octavia
            .balancers
            .get_mut(&parent)
            .and_then(|lb| lb.pool_mut(id))
        {
            pool.head.set(Provisioning::PendingDelete, now);
        }
        self.start_change(&parent, &Change::PoolDelete(id.to_owned()), before);
        Ok(Reply::empty(204))
    }

    /// A port number attribute.
    pub(super) fn port_number(body: &Row, name: &str) -> Result<Option<u16>, Reply> {
        Ok(integer(body, name, 1, 65535)?.and_then(|port| u16::try_from(port).ok()))
    }

    /// An address attribute, in canonical form.
    pub(super) fn address(body: &Row, name: &str) -> Result<Option<String>, Reply> {
        match body.get(name) {
            Some(Value::String(address)) => match address.parse::<std::net::IpAddr>() {
                Ok(address) => Ok(Some(address.to_string())),
                Err(_) => Err(octavia_error(
                    400,
                    format!(
                        "Invalid input for field/attribute {name}. Value: '{address}'. Value should be IPv4 or IPv6 format"
                    ),
                )),
            },
            _ => Ok(None),
        }
    }
}
