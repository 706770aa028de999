//! Neutron: networks, subnets, ports, routers, floating IPs, security groups, trunks, tags, extensions.

mod address;
mod extensions;
mod floating_ips;
mod kind;
mod lists;
mod networks;
mod ports;
mod routers;
mod security_groups;
mod security_rules;
mod subnets;
mod table;
mod tags;
mod trunks;

use std::collections::{BTreeMap, HashMap};

use serde_json::{Value, json};

pub use self::{kind::Kind, table::Table};
use crate::{
    clock::Now,
    wire::{Answer, Reply, Request, Row, text},
    world::World,
};

/// The state of Neutron.
#[derive(Debug, Default)]
pub struct Network {
    tables: BTreeMap<Kind, Table>,
    /// Addresses in use, by subnet.
    pub(crate) allocated: HashMap<String, std::collections::BTreeSet<std::net::IpAddr>>,
    /// The external network's id.
    pub(crate) external: String,
    next_mac: u32,
}

impl Network {
    /// The rows of one kind.
    pub fn table(&self, kind: Kind) -> &Table {
        static EMPTY: std::sync::LazyLock<Table> = std::sync::LazyLock::new(Table::default);
        self.tables.get(&kind).unwrap_or(&EMPTY)
    }

    pub(crate) fn table_mut(&mut self, kind: Kind) -> &mut Table {
        self.tables.entry(kind).or_default()
    }

    pub(crate) fn get(&self, kind: Kind, id: &str) -> Option<&Row> {
        self.table(kind).get(id)
    }

    fn mac(&mut self) -> String {
        self.next_mac += 1;
        let [_, high, middle, low] = self.next_mac.to_be_bytes();
        format!("fa:16:3e:{high:02x}:{middle:02x}:{low:02x}")
    }

    /// Marks a row as changed now.
    pub(crate) fn touch(row: &mut Row, now: Now) {
        row.insert("updated_at".into(), json!(now.zulu()));
        let revision = row
            .get("revision_number")
            .and_then(Value::as_u64)
            .unwrap_or(0);
        row.insert("revision_number".into(), json!(revision + 1));
    }
}

/// Neutron's error shape.
pub(crate) fn neutron_error(status: u16, kind: &str, message: impl Into<String>) -> Reply {
    let message: String = message.into();
    Reply::json(
        status,
        json!({ "NeutronError": { "type": kind, "message": message, "detail": "" } }),
    )
}

/// 400 for an invalid value.
pub(crate) fn invalid_input(message: impl std::fmt::Display) -> Reply {
    neutron_error(
        400,
        "InvalidInput",
        format!("Invalid input for operation: {message}."),
    )
}

/// The attributes that every row has.
pub(crate) fn standard(now: Now, id: &str, project: &str, name: &str) -> Row {
    let row = json!({
        "id": id, "name": name, "project_id": project, "tenant_id": project,
        "description": "", "tags": [], "created_at": now.zulu(), "updated_at": now.zulu(), "revision_number": 1,
    });
    row.as_object().cloned().unwrap_or_default()
}

/// Copies the attributes of `from` that `names` lists.
pub(crate) fn copy(from: &Row, into: &mut Row, names: &[&str]) {
    for name in names {
        if let Some(value) = from.get(*name) {
            into.insert((*name).to_owned(), value.clone());
        }
    }
}

impl World {
    /// One call to Neutron below `/network`.
    pub(crate) fn network_call(&mut self, request: &Request) -> Answer {
        let segments: Vec<&str> = request.segments.iter().map(String::as_str).collect();
        let rest = match segments.split_first() {
            None => return Ok(Self::network_versions(request)),
            Some((&"v2.0", rest)) => rest,
            Some(_) => {
                return Err(neutron_error(
                    404,
                    "HTTPNotFound",
                    "The resource could not be found.",
                ));
            }
        };
        let rest: Vec<&str> = rest
            .iter()
            .map(|segment| segment.trim_end_matches(".json"))
            .collect();
        match (request.method.as_str(), rest.as_slice()) {
            ("GET", []) => Ok(Reply::json(
                200,
                json!({ "resources": Kind::ALL.map(|kind| json!({
                "name": kind.singular(), "collection": kind.plural(),
                "links": [{ "rel": "self", "href": format!("{}/network/v2.0/{}", request.base, kind.collection()) }],
            })) }),
            )),
            ("GET", ["extensions"]) => Ok(self.list_extensions()),
            ("GET", ["extensions", alias]) => self.get_extension(alias),
            ("GET", ["availability_zones"]) => Ok(Reply::json(
                200,
                json!({ "availability_zones": [
                { "name": "nova", "resource": "network", "state": "available" },
                { "name": "nova", "resource": "router", "state": "available" },
            ] }),
            )),
            ("GET", ["subnetpools"]) => Ok(Reply::json(200, json!({ "subnetpools": [] }))),
            ("GET", ["address-scopes"]) => Ok(Reply::json(200, json!({ "address_scopes": [] }))),
            ("GET", ["agents"]) => Ok(Reply::json(200, json!({ "agents": [] }))),
            ("GET", ["qos", "policies"]) => Ok(Reply::json(200, json!({ "policies": [] }))),
            ("GET", ["quotas", project]) => Ok(self.show_network_quota(project)),
            ("GET", ["quotas", project, "details.json"]) => Ok(self.show_network_usage(project)),
            (method, [collection, tail @ ..]) => {
                let kind = Kind::of_collection(collection)
                    .filter(|kind| *kind != Kind::Trunk || self.has_extension("trunk"))
                    .ok_or_else(|| {
                        neutron_error(404, "HTTPNotFound", "The resource could not be found.")
                    })?;
                self.network_resource(request, method, kind, tail)
            }
            _ => Err(neutron_error(
                404,
                "HTTPNotFound",
                "The resource could not be found.",
            )),
        }
    }

    fn network_resource(
        &mut self,
        request: &Request,
        method: &str,
        kind: Kind,
        tail: &[&str],
    ) -> Answer {
        match (method, tail) {
            ("GET", []) => self.list_network(request, kind),
            ("POST", []) => self.create_network_row(request, kind),
            (method, [id, rest @ ..]) => {
                let row = self
                    .network
                    .get(kind, id)
                    .filter(|row| Self::may_see(request, row))
                    .cloned()
                    .ok_or_else(|| kind.not_found(id))?;
                match (method, rest) {
                    ("GET", []) => Ok(self.show_network_row(request, kind, &row)),
                    ("PUT", []) => self.update_network_row(request, kind, id),
                    ("DELETE", []) => self.delete_network_row(request, kind, &row),
                    (_, ["tags", tail @ ..]) if self.has_extension("standard-attr-tag") => {
                        self.network_tags(request, kind, id, method, tail)
                    }
                    ("PUT", ["add_router_interface"]) => self.add_router_interface(request, id),
                    ("PUT", ["remove_router_interface"]) => {
                        self.remove_router_interface(request, id)
                    }
                    ("GET", ["get_subports"]) => Ok(Reply::json(
                        200,
                        json!({ "sub_ports": row.get("sub_ports") }),
                    )),
                    ("PUT", ["add_subports"]) => self.add_subports(request, id),
                    ("PUT", ["remove_subports"]) => Ok(self.remove_subports(request, id)),
                    _ => Err(neutron_error(
                        404,
                        "HTTPNotFound",
                        "The resource could not be found.",
                    )),
                }
            }
            _ => Err(neutron_error(
                405,
                "HTTPMethodNotAllowed",
                "The method is not allowed for the requested URL.",
            )),
        }
    }

    fn create_network_row(&mut self, request: &Request, kind: Kind) -> Answer {
        // Bulk creation is a list under the plural name.
        if let Some(many) = request
            .body
            .get(kind.plural())
            .and_then(Value::as_array)
            .cloned()
        {
            if kind == Kind::SecurityGroupRule {
                Self::check_security_group_rules(&many)?;
            }
            let mut made = Vec::new();
            for body in many {
                let one = Request {
                    body: json!({ kind.singular(): body }),
                    ..request.clone()
                };
                match self.create_network_row(&one, kind) {
                    Ok(reply) => {
                        if let crate::wire::Body::Json(body) = reply.body {
                            made.extend(body.get(kind.singular()).cloned());
                        }
                    }
                    Err(refused) => {
                        // Either all rows are created or none.
                        for row in made.iter().filter_map(Value::as_object) {
                            let _ = self.delete_network_row(request, kind, row);
                        }
                        return Err(refused);
                    }
                }
            }
            return Ok(Reply::json(201, json!({ kind.plural(): made })));
        }
        let body = request.object(kind.singular());
        if !request
            .body
            .get(kind.singular())
            .is_some_and(Value::is_object)
        {
            return Err(neutron_error(
                400,
                "HTTPBadRequest",
                format!("Unable to find '{}' in request body", kind.singular()),
            ));
        }
        let project = match text(&body, "project_id") {
            "" => match text(&body, "tenant_id") {
                "" => request.caller.project.clone(),
                tenant => tenant.to_owned(),
            },
            project => project.to_owned(),
        };
        if project != request.caller.project && !request.caller.is_admin() {
            return Err(neutron_error(
                403,
                "PolicyNotAuthorized",
                format!("(rule:create_{}) is disallowed by policy", kind.singular()),
            ));
        }
        self.network_quota(kind, &project)?;
        let row = match kind {
            Kind::Network => self.create_network(request, &body, &project),
            Kind::Subnet => self.create_subnet(request, &body, &project),
            Kind::Port => self.create_port(&body, &project),
            Kind::Router => self.create_router(&body, &project),
            Kind::FloatingIp => self.create_floating_ip(&body, &project),
            Kind::SecurityGroup => self.create_security_group(&body, &project),
            Kind::SecurityGroupRule => self.create_security_group_rule(&body, &project),
            Kind::Trunk => self.create_trunk(&body, &project),
        }?;
        Ok(Reply::json(
            201,
            json!({ kind.singular(): self.shown(kind, row) }),
        ))
    }

    fn update_network_row(&mut self, request: &Request, kind: Kind, id: &str) -> Answer {
        let body = request.object(kind.singular());
        match kind {
            Kind::Network => self.update_network(&body, id),
            Kind::Subnet => self.update_subnet(&body, id),
            Kind::Port => self.update_port(&body, id),
            Kind::Router => self.update_router(&body, id),
            Kind::FloatingIp => self.update_floating_ip(&body, id),
            Kind::SecurityGroup | Kind::Trunk => {
                self.change_named(kind, id, &body, &["name", "description", "admin_state_up"]);
                Ok(())
            }
            Kind::SecurityGroupRule => Err(neutron_error(
                405,
                "HTTPMethodNotAllowed",
                "The method is not allowed for the requested URL.",
            )),
        }?;
        let row = self
            .network
            .get(kind, id)
            .cloned()
            .ok_or_else(|| kind.not_found(id))?;
        Ok(Reply::json(
            200,
            json!({ kind.singular(): self.shown(kind, row) }),
        ))
    }

    /// Copies attributes from a body into a row and marks it changed.
    pub(crate) fn change_named(&mut self, kind: Kind, id: &str, body: &Row, names: &[&str]) {
        let now = self.now;
        self.network.table_mut(kind).change(id, |row| {
            copy(body, row, names);
            Network::touch(row, now);
        });
    }

    fn delete_network_row(&mut self, request: &Request, kind: Kind, row: &Row) -> Answer {
        let id = text(row, "id").to_owned();
        if text(row, "project_id") != request.caller.project && !request.caller.is_admin() {
            return Err(kind.not_found(&id));
        }
        match kind {
            Kind::Network => self.delete_network(&id),
            Kind::Subnet => self.delete_subnet(&id),
            Kind::Port => self.delete_port_by_user(request, row),
            Kind::Router => self.delete_router(&id),
            Kind::FloatingIp => {
                self.delete_floating_ip(&id);
                Ok(())
            }
            Kind::SecurityGroup => self.delete_security_group(row),
            Kind::SecurityGroupRule => {
                self.network.table_mut(Kind::SecurityGroupRule).remove(&id);
                Ok(())
            }
            Kind::Trunk => self.delete_trunk(row),
        }?;
        Ok(Reply::empty(204))
    }

    fn network_versions(request: &Request) -> Reply {
        Reply::json(
            200,
            json!({ "versions": [{ "id": "v2.0", "status": "CURRENT",
                "links": [{ "rel": "self", "href": format!("{}/network/v2.0/", request.base) }] }] }),
        )
    }
}
