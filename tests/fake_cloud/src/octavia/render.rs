//! The form of rows on the wire.

use serde_json::{Value, json};

use super::model::{Head, Listener, LoadBalancer, Member, Monitor, Pool};
use crate::wire::Row;

fn row(value: Value) -> Row {
    match value {
        Value::Object(row) => row,
        _ => Row::new(),
    }
}

fn head(head: &Head, project: &str) -> Row {
    row(json!({
        "id": head.id, "name": head.name, "provisioning_status": head.provisioning.text(),
        "operating_status": head.operating.text(), "admin_state_up": head.enabled, "tags": head.tags,
        "created_at": head.created, "updated_at": head.updated, "project_id": project, "tenant_id": project,
    }))
}

fn ids<'a>(heads: impl Iterator<Item = &'a Head>) -> Value {
    heads.map(|head| json!({ "id": head.id })).collect()
}

impl LoadBalancer {
    /// The load balancer with its children as ids.
    pub fn shown(&self) -> Row {
        let mut shown = head(&self.head, &self.project);
        shown.extend(row(json!({
            "description": self.head.description, "vip_address": self.vip_address, "vip_port_id": self.vip_port,
            "vip_subnet_id": self.vip_subnet, "vip_network_id": self.vip_network, "vip_sg_ids": [],
            "additional_vips": [], "provider": self.provider, "flavor_id": self.flavor,
            "vip_qos_policy_id": null, "availability_zone": self.zone, "vip_vnic_type": "normal",
            "listeners": ids(self.listeners.iter().map(|listener| &listener.head)),
            "pools": ids(self.pools.iter().map(|pool| &pool.head)),
        })));
        shown
    }

    /// The load balancer with all its children, as POST answers.
    pub fn shown_full(&self) -> Row {
        let mut shown = self.shown();
        let listeners: Vec<Row> = self
            .listeners
            .iter()
            .map(|listener| listener.shown(self))
            .collect();
        let pools: Vec<Row> = self
            .pools
            .iter()
            .map(|pool| {
                let mut shown = pool.shown(self);
                let members: Vec<Row> = pool
                    .members
                    .iter()
                    .map(|member| member.shown(&self.project))
                    .collect();
                shown.insert("members".into(), json!(members));
                if let Some(monitor) = &pool.monitor {
                    shown.insert(
                        "healthmonitor".into(),
                        json!(monitor.shown(&self.project, &pool.head.id)),
                    );
                }
                shown
            })
            .collect();
        shown.insert("listeners".into(), json!(listeners));
        shown.insert("pools".into(), json!(pools));
        shown
    }

    /// The status tree: listeners, their default pools, monitors and members. Pools without a listener are absent.
    pub fn tree(&self) -> Value {
        let statuses = |head: &Head| {
            json!({ "id": head.id, "name": head.name, "provisioning_status": head.provisioning.text(),
                "operating_status": head.operating.text() })
        };
        let pool_tree = |pool: &Pool| {
            let mut tree = row(statuses(&pool.head));
            if let Some(monitor) = &pool.monitor {
                let mut shown = row(statuses(&monitor.head));
                shown.insert("type".into(), json!(monitor.kind));
                tree.insert("health_monitor".into(), json!(shown));
            }
            let members: Vec<Row> = pool
                .members
                .iter()
                .map(|member| {
                    let mut shown = row(statuses(&member.head));
                    shown.insert("address".into(), json!(member.address));
                    shown.insert("protocol_port".into(), json!(member.port));
                    shown
                })
                .collect();
            tree.insert("members".into(), json!(members));
            tree
        };
        let mut tree = row(statuses(&self.head));
        let listeners: Vec<Row> = self
            .listeners
            .iter()
            .map(|listener| {
                let mut shown = row(statuses(&listener.head));
                let pools: Vec<Row> = listener
                    .pool
                    .iter()
                    .filter_map(|id| self.pool(id))
                    .map(pool_tree)
                    .collect();
                shown.insert("pools".into(), json!(pools));
                shown
            })
            .collect();
        tree.insert("listeners".into(), json!(listeners));
        json!({ "statuses": { "loadbalancer": tree } })
    }
}

impl Listener {
    /// The listener.
    pub fn shown(&self, lb: &LoadBalancer) -> Row {
        let mut shown = head(&self.head, &lb.project);
        let cidrs = if self.allowed_cidrs.is_empty() {
            Value::Null
        } else {
            json!(self.allowed_cidrs)
        };
        shown.extend(row(json!({
            "description": self.head.description, "protocol": self.protocol, "protocol_port": self.port,
            "default_pool_id": self.pool, "allowed_cidrs": cidrs, "loadbalancers": [{ "id": lb.head.id }],
            "l7policies": [], "sni_container_refs": [], "default_tls_container_ref": null,
            "client_ca_tls_container_ref": null, "client_authentication": "NONE", "client_crl_container_ref": null,
            "tls_ciphers": null, "tls_versions": null, "alpn_protocols": null, "hsts_max_age": null,
            "hsts_include_subdomains": false, "hsts_preload": false,
        })));
        shown.extend(self.rest.clone());
        shown
    }
}

impl Pool {
    /// The pool with members and monitor as ids.
    pub fn shown(&self, lb: &LoadBalancer) -> Row {
        let mut shown = head(&self.head, &lb.project);
        let listeners: Vec<Value> = lb
            .listeners_of(&self.head.id)
            .iter()
            .map(|id| json!({ "id": id }))
            .collect();
        shown.extend(row(json!({
            "description": self.head.description, "protocol": self.protocol, "lb_algorithm": self.algorithm,
            "session_persistence": self.persistence, "loadbalancers": [{ "id": lb.head.id }], "listeners": listeners,
            "healthmonitor_id": self.monitor.as_ref().map(|monitor| monitor.head.id.clone()),
            "members": ids(self.members.iter().map(|member| &member.head)), "tls_container_ref": null,
            "ca_tls_container_ref": null, "crl_container_ref": null, "tls_enabled": false, "tls_ciphers": null,
            "tls_versions": null, "alpn_protocols": null,
        })));
        shown
    }
}

impl Monitor {
    /// The monitor.
    pub fn shown(&self, project: &str, pool: &str) -> Row {
        let mut shown = head(&self.head, project);
        shown.extend(row(json!({
            "type": self.kind, "delay": self.delay, "timeout": self.timeout, "max_retries": self.max_retries,
            "max_retries_down": self.max_retries_down, "pools": [{ "id": pool }], "http_method": null, "url_path": null,
            "expected_codes": null, "http_version": null, "domain_name": null,
        })));
        shown.extend(self.rest.clone());
        shown
    }
}

impl Member {
    /// The member.
    pub fn shown(&self, project: &str) -> Row {
        let mut shown = head(&self.head, project);
        shown.extend(row(json!({
            "address": self.address, "protocol_port": self.port, "weight": self.weight, "backup": self.backup,
            "subnet_id": self.subnet, "monitor_address": self.monitor_address, "monitor_port": self.monitor_port,
            "vnic_type": "normal",
        })));
        shown
    }
}
