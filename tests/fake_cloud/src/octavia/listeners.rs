//! Listeners.

use serde_json::{Value, json};

use super::{
    change::Change,
    change_head, immutable, integer, invalid, lists, missing,
    model::{Listener, LoadBalancer},
    octavia_error, only,
    status::{Operating, Provisioning},
};
use crate::{
    listing::select,
    wire::{Answer, Reply, Request, Row, given, strings, text},
    world::World,
};

const COLUMNS: [&str; 16] = [
    "id",
    "name",
    "description",
    "provisioning_status",
    "operating_status",
    "admin_state_up",
    "protocol",
    "protocol_port",
    "connection_limit",
    "project_id",
    "tenant_id",
    "default_pool_id",
    "loadbalancer_id",
    "load_balancer_id",
    "created_at",
    "updated_at",
];

const ATTRIBUTES: [&str; 31] = [
    "name",
    "description",
    "admin_state_up",
    "protocol",
    "protocol_port",
    "connection_limit",
    "default_tls_container_ref",
    "sni_container_refs",
    "project_id",
    "tenant_id",
    "default_pool_id",
    "default_pool",
    "l7policies",
    "insert_headers",
    "loadbalancer_id",
    "timeout_client_data",
    "timeout_member_connect",
    "timeout_member_data",
    "timeout_tcp_inspect",
    "tags",
    "client_ca_tls_container_ref",
    "client_authentication",
    "client_crl_container_ref",
    "allowed_cidrs",
    "tls_ciphers",
    "tls_versions",
    "alpn_protocols",
    "hsts_max_age",
    "hsts_include_subdomains",
    "hsts_preload",
    "sni_containers",
];

const PLAIN: [(&str, i64); 5] = [
    ("connection_limit", -1),
    ("timeout_client_data", 50_000),
    ("timeout_member_connect", 5_000),
    ("timeout_member_data", 50_000),
    ("timeout_tcp_inspect", 0),
];

impl World {
    pub(super) fn list_listeners(&self, request: &Request) -> Answer {
        let rows = self.listed_rows(
            request,
            |lb| lb.listeners.iter().collect(),
            |listener| &listener.head.name,
            |lb, listener| listener.shown(lb),
        );
        lists::answer(request, "listeners", "listeners", rows, &COLUMNS)
    }

    pub(super) fn show_listener(&self, request: &Request, id: &str) -> Answer {
        let parent = self.parent_of("Listener", id)?;
        let lb = self.balancer_read(request, &parent)?;
        let listener = lb.listener(id).ok_or_else(|| missing("Listener", id))?;
        let mut row = listener.shown(lb);
        select(&mut row, &request.query);
        Ok(Reply::json(200, json!({ "listener": row })))
    }

    /// A listener's row from a body.
    pub(super) fn new_listener(
        &mut self,
        lb: &LoadBalancer,
        body: &Row,
    ) -> Result<Listener, Reply> {
        Self::demand(body, &["protocol", "protocol_port"])?;
        let port = integer(body, "protocol_port", 1, 65535)?.unwrap_or_default();
        let protocol = text(body, "protocol").to_owned();
        let known = [
            "TCP",
            "UDP",
            "HTTP",
            "HTTPS",
            "TERMINATED_HTTPS",
            "SCTP",
            "PROMETHEUS",
        ];
        if !known.contains(&protocol.as_str()) {
            return Err(octavia_error(
                400,
                format!(
                    "Invalid input for field/attribute protocol. Value: '{protocol}'. Value should be one of: {}",
                    known.join(", ")
                ),
            ));
        }
        let cidrs = strings(body, "allowed_cidrs");
        Self::ovn_refuses(
            lb,
            !cidrs.is_empty(),
            "OVN provider does not support allowed_cidrs option",
        )?;
        check_cidrs(&cidrs, lb)?;
        let mut rest = Row::new();
        for (name, default) in PLAIN {
            rest.insert(
                name.into(),
                body.get(name)
                    .filter(|value| !value.is_null())
                    .cloned()
                    .unwrap_or(json!(default)),
            );
        }
        rest.insert(
            "insert_headers".into(),
            body.get("insert_headers").cloned().unwrap_or(json!({})),
        );
        Ok(Listener {
            head: self.head(body, Operating::Offline),
            protocol,
            port: u16::try_from(port).unwrap_or_default(),
            pool: given(body, "default_pool_id").map(str::to_owned),
            allowed_cidrs: cidrs,
            rest,
        })
    }

    /// Checks the attributes. Ranges of clients exist from version 2.12 on.
    fn check_attributes(&self, body: &Row) -> Result<(), Reply> {
        let has_ranges = self.octavia_minor >= 12;
        let known = ATTRIBUTES.into_iter();
        let known: Vec<&str> = known
            .filter(|name| has_ranges || *name != "allowed_cidrs")
            .collect();
        only(body, "listener", &known)
    }

    pub(super) fn create_listener(&mut self, request: &Request) -> Answer {
        let body = request.object("listener");
        self.check_attributes(&body)?;
        Self::demand(&body, &["protocol", "protocol_port", "loadbalancer_id"])?;
        let parent = text(&body, "loadbalancer_id").to_owned();
        let lb = self.balancer(request, &parent)?.clone();
        if let Some(pool) = given(&body, "default_pool_id")
            && lb.pool(pool).is_none()
        {
            return Err(missing("Pool", pool));
        }
        self.octavia_quota_left(&lb.project, "listener", "Listener", 1)?;
        let mut listener = self.new_listener(&lb, &body)?;
        let udp = |protocol: &str| protocol == "UDP";
        let twin = lb.listeners.iter().any(|other| {
            other.port == listener.port && udp(&other.protocol) == udp(&listener.protocol)
        });
        if lb.head.provisioning != Provisioning::Active {
            return Err(immutable("Load Balancer", &parent));
        }
        if twin {
            return Err(octavia_error(
                409,
                format!(
                    "Another Listener on this Load Balancer is already using protocol {} and protocol_port {}",
                    listener.protocol, listener.port
                ),
            ));
        }
        listener.head.provisioning = Provisioning::PendingCreate;
        let id = listener.head.id.clone();
        self.lock_below(&parent, &[], None)?;
        let shown = listener.shown(&lb);
        self.octavia.parents.insert(id.clone(), parent.clone());
        if let Some(lb) = self.octavia.balancers.get_mut(&parent) {
            lb.listeners.push(listener);
        }
        self.start_change(&parent, &Change::ListenerCreate(id), lb);
        Ok(Reply::json(201, json!({ "listener": shown })))
    }

    pub(super) fn update_listener(&mut self, request: &Request, id: &str) -> Answer {
        let parent = self.parent_of("Listener", id)?;
        let before = self.balancer(request, &parent)?.clone();
        let body = request.object("listener");
        if let Some(pool) = given(&body, "default_pool_id")
            && before.pool(pool).is_none()
        {
            return Err(missing("Pool", pool));
        }
        for name in ["protocol", "protocol_port", "loadbalancer_id"] {
            if body.contains_key(name) {
                return Err(octavia_error(
                    400,
                    format!("Unknown attribute for argument listener_.listener: {name}"),
                ));
            }
        }
        let cidrs = body
            .get("allowed_cidrs")
            .map(|_| strings(&body, "allowed_cidrs"));
        Self::ovn_refuses(
            &before,
            cidrs.as_ref().is_some_and(|cidrs| !cidrs.is_empty()),
            "OVN provider does not support allowed_cidrs option",
        )?;
        check_cidrs(cidrs.as_deref().unwrap_or_default(), &before)?;
        self.lock_below(&parent, &[id.to_owned()], None)?;
        let now = self.now;
        let lb = self
            .octavia
            .balancers
            .get_mut(&parent)
            .ok_or_else(|| missing("Load Balancer", &parent))?;
        if let Some(listener) = lb.listener_mut(id) {
            change_head(&mut listener.head, &body);
            if let Some(cidrs) = cidrs {
                listener.allowed_cidrs = cidrs;
            }
            if body.contains_key("default_pool_id") {
                listener.pool = given(&body, "default_pool_id").map(str::to_owned);
            }
            for (name, default) in PLAIN {
                match body.get(name) {
                    Some(Value::Null) => {
                        listener.rest.insert(name.into(), json!(default));
                    }
                    Some(value) => {
                        listener.rest.insert(name.into(), value.clone());
                    }
                    None => {}
                }
            }
            listener.head.set(Provisioning::PendingUpdate, now);
        }
        let shown = lb.listener(id).map(|listener| listener.shown(lb));
        self.start_change(&parent, &Change::ListenerUpdate(id.to_owned()), before);
        Ok(Reply::json(200, json!({ "listener": shown })))
    }

    pub(super) fn delete_listener(&mut self, request: &Request, id: &str) -> Answer {
        let parent = self.parent_of("Listener", id)?;
        let before = self.balancer(request, &parent)?.clone();
        self.lock_below(&parent, &[id.to_owned()], None)?;
        let now = self.now;
        if let Some(listener) = self
            .octavia
            .balancers
            .get_mut(&parent)
            .and_then(|lb| lb.listener_mut(id))
        {
            listener.head.set(Provisioning::PendingDelete, now);
        }
        self.start_change(&parent, &Change::ListenerDelete(id.to_owned()), before);
        Ok(Reply::empty(204))
    }
}

fn check_cidrs(cidrs: &[String], lb: &LoadBalancer) -> Result<(), Reply> {
    let is_ipv6 = |text: &str| text.contains(':');
    let vip = lb.vip_address.as_str();
    if let Some(cidr) = cidrs.iter().find(|cidr| is_ipv6(cidr) != is_ipv6(vip)) {
        return Err(octavia_error(
            400,
            format!(
                "Validation failure: CIDR {cidr} IP version incompatible with all VIPs ['{vip}'] IP version."
            ),
        ));
    }
    match cidrs
        .iter()
        .find(|cidr| cidr.parse::<ipnet::IpNet>().is_err())
    {
        Some(cidr) => Err(octavia_error(
            400,
            format!(
                "Invalid input for field/attribute allowed_cidrs. Value: '{cidr}'. Value should be IPv4 or IPv6 CIDR format"
            ),
        )),
        None if cidrs.len() > 1000 => Err(invalid("too many allowed_cidrs")),
        None => Ok(()),
    }
}
