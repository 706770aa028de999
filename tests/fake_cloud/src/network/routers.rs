//! Routers, their gateways and interfaces.

use serde_json::{Value, json};

use super::{Kind, Network, copy, neutron_error, standard};
use crate::{
    wire::{Answer, Reply, Request, Row, given, text},
    world::{Effect, World},
};

fn bad_router(message: impl std::fmt::Display) -> Reply {
    neutron_error(400, "BadRequest", format!("Bad router request: {message}."))
}

impl World {
    pub(super) fn create_router(&mut self, body: &Row, project: &str) -> Result<Row, Reply> {
        let id = self.new_id();
        let mut row = standard(self.now, &id, project, text(body, "name"));
        let fields = json!({
            "admin_state_up": true, "status": "ACTIVE", "external_gateway_info": null, "availability_zones": [],
            "availability_zone_hints": [], "routes": [], "flavor_id": null,
        });
        row.extend(fields.as_object().cloned().unwrap_or_default());
        copy(
            body,
            &mut row,
            &[
                "admin_state_up",
                "description",
                "availability_zone_hints",
                "ha",
                "distributed",
            ],
        );
        self.network.table_mut(Kind::Router).put(row);
        if let Some(info) = body
            .get("external_gateway_info")
            .and_then(Value::as_object)
            .filter(|info| !info.is_empty())
            && let Err(error) = self.set_gateway(&id, info)
        {
            self.network.table_mut(Kind::Router).remove(&id);
            return Err(error);
        }
        self.network
            .get(Kind::Router, &id)
            .cloned()
            .ok_or_else(|| Kind::Router.not_found(&id))
    }

    pub(super) fn update_router(&mut self, body: &Row, id: &str) -> Result<(), Reply> {
        match body.get("external_gateway_info") {
            Some(Value::Object(info)) if !info.is_empty() => self.set_gateway(id, info)?,
            Some(_) => self.clear_gateway(id)?,
            None => {}
        }
        self.change_named(
            Kind::Router,
            id,
            body,
            &[
                "name",
                "description",
                "admin_state_up",
                "routes",
                "ha",
                "distributed",
            ],
        );
        Ok(())
    }

    fn set_gateway(&mut self, id: &str, info: &Row) -> Result<(), Reply> {
        let network = text(info, "network_id").to_owned();
        let external = self
            .network
            .get(Kind::Network, &network)
            .ok_or_else(|| Kind::Network.not_found(&network))?
            .get("router:external")
            == Some(&json!(true));
        if !external {
            return Err(bad_router(format!(
                "Network {network} is not an external network"
            )));
        }
        self.drop_gateway_port(id);
        let wishes = info
            .get("external_fixed_ips")
            .filter(|ips| ips.as_array().is_some_and(|ips| !ips.is_empty()));
        let mut port = json!({
            "network_id": network, "device_id": id, "device_owner": "network:router_gateway",
            "port_security_enabled": false,
        });
        if let (Some(wishes), Some(port)) = (wishes, port.as_object_mut()) {
            port.insert("fixed_ips".into(), wishes.clone());
        }
        let port = self.create_port(&port.as_object().cloned().unwrap_or_default(), "")?;
        let snat = info
            .get("enable_snat")
            .and_then(Value::as_bool)
            .unwrap_or(true);
        let now = self.now;
        self.network.table_mut(Kind::Router).change(id, |row| {
            row.insert(
                "external_gateway_info".into(),
                json!({ "network_id": network, "external_fixed_ips": port.get("fixed_ips"), "enable_snat": snat }),
            );
            Network::touch(row, now);
        });
        Ok(())
    }

    fn clear_gateway(&mut self, id: &str) -> Result<(), Reply> {
        if self
            .network
            .table(Kind::FloatingIp)
            .all()
            .any(|floating| text(floating, "router_id") == id)
        {
            let network = self
                .network
                .get(Kind::Router, id)
                .and_then(|row| {
                    row.get("external_gateway_info")?
                        .get("network_id")?
                        .as_str()
                        .map(str::to_owned)
                })
                .unwrap_or_default();
            return Err(neutron_error(
                409,
                "RouterExternalGatewayInUseByFloatingIp",
                format!(
                    "Gateway cannot be updated for router {id}, since a gateway to external network {network} is required by one or more floating IPs."
                ),
            ));
        }
        self.drop_gateway_port(id);
        self.network.table_mut(Kind::Router).change(id, |row| {
            row.insert("external_gateway_info".into(), Value::Null);
        });
        Ok(())
    }

    fn router_ports(&self, id: &str, owner: &str) -> Vec<Row> {
        self.network
            .table(Kind::Port)
            .find("device_id", id)
            .filter(|port| text(port, "device_owner") == owner)
            .cloned()
            .collect()
    }

    fn drop_gateway_port(&mut self, id: &str) {
        for port in self.router_ports(id, "network:router_gateway") {
            self.remove_port(text(&port, "id"));
        }
    }

    pub(super) fn delete_router(&mut self, id: &str) -> Result<(), Reply> {
        let ports: Vec<String> = self
            .router_ports(id, "network:router_interface")
            .iter()
            .map(|port| text(port, "id").to_owned())
            .collect();
        if !ports.is_empty() {
            return Err(neutron_error(
                409,
                "RouterInUse",
                format!("Router {id} has ports still attached: {}", ports.join(", ")),
            ));
        }
        self.drop_gateway_port(id);
        self.network.table_mut(Kind::Router).remove(id);
        Ok(())
    }

    pub(super) fn add_router_interface(&mut self, request: &Request, id: &str) -> Answer {
        let body = request.body.as_object().cloned().unwrap_or_default();
        let project = self
            .network
            .get(Kind::Router, id)
            .map(|row| text(row, "project_id").to_owned())
            .unwrap_or_default();
        let (port, subnet) = match (given(&body, "subnet_id"), given(&body, "port_id")) {
            (Some(subnet), None) => {
                let row = self
                    .network
                    .get(Kind::Subnet, subnet)
                    .cloned()
                    .ok_or_else(|| Kind::Subnet.not_found(subnet))?;
                if self.interface_on(id, subnet).is_some() {
                    return Err(bad_router(format!(
                        "Router already has a port on subnet {subnet}"
                    )));
                }
                let Some(gateway) = given(&row, "gateway_ip") else {
                    return Err(bad_router(
                        "Subnet for router interface must have a gateway IP",
                    ));
                };
                let wish = json!({
                    "network_id": text(&row, "network_id"), "device_id": id, "device_owner": "network:router_interface",
                    "port_security_enabled": false, "fixed_ips": [{ "subnet_id": subnet, "ip_address": gateway }],
                });
                let port =
                    self.create_port(&wish.as_object().cloned().unwrap_or_default(), &project)?;
                (port, subnet.to_owned())
            }
            (None, Some(port)) => {
                let row = self
                    .network
                    .get(Kind::Port, port)
                    .cloned()
                    .ok_or_else(|| Kind::Port.not_found(port))?;
                if !text(&row, "device_id").is_empty() {
                    return Err(neutron_error(
                        409,
                        "PortInUse",
                        format!(
                            "Unable to complete operation on port {port} for network {}. Port already has an attached device {}.",
                            text(&row, "network_id"),
                            text(&row, "device_id")
                        ),
                    ));
                }
                self.network.table_mut(Kind::Port).change(port, |row| {
                    row.insert("device_id".into(), json!(id));
                    row.insert("device_owner".into(), json!("network:router_interface"));
                    row.insert("security_groups".into(), json!([]));
                });
                let subnet = first_subnet_of(&row);
                (row, subnet)
            }
            _ => return Err(bad_router("Either subnet_id or port_id must be specified")),
        };
        let port_id = text(&port, "id").to_owned();
        self.after(self.durations.agent, Effect::PortUp(port_id.clone()));
        Ok(Reply::json(
            200,
            json!({ "id": id, "project_id": project, "tenant_id": project, "port_id": port_id,
                "network_id": text(&port, "network_id"), "subnet_id": subnet, "subnet_ids": [subnet] }),
        ))
    }

    fn interface_on(&self, router: &str, subnet: &str) -> Option<Row> {
        self.router_ports(router, "network:router_interface")
            .into_iter()
            .find(|port| first_subnet_of(port) == subnet)
    }

    pub(super) fn remove_router_interface(&mut self, request: &Request, id: &str) -> Answer {
        let body = request.body.as_object().cloned().unwrap_or_default();
        let port = match (given(&body, "subnet_id"), given(&body, "port_id")) {
            (Some(subnet), _) => {
                if self.network.get(Kind::Subnet, subnet).is_none() {
                    return Err(Kind::Subnet.not_found(subnet));
                }
                self.interface_on(id, subnet).ok_or_else(|| {
                    neutron_error(
                        404,
                        "RouterInterfaceNotFoundForSubnet",
                        format!("Router {id} has no interface on subnet {subnet}"),
                    )
                })?
            }
            (None, Some(port)) => self
                .network
                .get(Kind::Port, port)
                .filter(|row| text(row, "device_id") == id)
                .cloned()
                .ok_or_else(|| {
                    neutron_error(
                        404,
                        "RouterInterfaceNotFound",
                        format!("Router {id} does not have an interface with id {port}"),
                    )
                })?,
            _ => return Err(bad_router("Either subnet_id or port_id must be specified")),
        };
        let subnet = first_subnet_of(&port);
        let needed = self.network.table(Kind::FloatingIp).all().any(|floating| {
            text(floating, "router_id") == id
                && self
                    .network
                    .get(Kind::Port, text(floating, "port_id"))
                    .is_some_and(|port| first_subnet_of(port) == subnet)
        });
        if needed {
            return Err(neutron_error(
                409,
                "RouterInterfaceInUseByFloatingIP",
                format!(
                    "Router interface for subnet {subnet} on router {id} cannot be deleted, as it is required by one or more floating IPs."
                ),
            ));
        }
        self.remove_port(text(&port, "id"));
        Ok(Reply::json(
            200,
            json!({ "id": id, "tenant_id": text(&port, "project_id"), "port_id": text(&port, "id"),
                "network_id": text(&port, "network_id"), "subnet_id": subnet, "subnet_ids": [subnet] }),
        ))
    }

    /// The router with an interface on a subnet and a gateway to a network.
    pub(super) fn router_between(&self, subnet: &str, external: &str) -> Option<String> {
        let network = text(self.network.get(Kind::Subnet, subnet)?, "network_id").to_owned();
        self.network
            .table(Kind::Port)
            .find("network_id", &network)
            .filter(|port| {
                text(port, "device_owner") == "network:router_interface"
                    && first_subnet_of(port) == subnet
            })
            .map(|port| text(port, "device_id").to_owned())
            .find(|router| {
                self.network
                    .get(Kind::Router, router)
                    .and_then(|row| {
                        row.get("external_gateway_info")?
                            .get("network_id")?
                            .as_str()
                            .map(str::to_owned)
                    })
                    .is_some_and(|network| network == external)
            })
    }
}

/// The subnet of a port's first address.
pub(super) fn first_subnet_of(port: &Row) -> String {
    port.get("fixed_ips")
        .and_then(|ips| {
            ips.as_array()?
                .first()?
                .get("subnet_id")?
                .as_str()
                .map(str::to_owned)
        })
        .unwrap_or_default()
}
