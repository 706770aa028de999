//! Floating IPs.

use serde_json::{Value, json};

use super::{Kind, Network, neutron_error, routers::first_subnet_of, standard};
use crate::{
    wire::{Reply, Row, given, text},
    world::{Effect, World},
};

impl World {
    pub(super) fn create_floating_ip(&mut self, body: &Row, project: &str) -> Result<Row, Reply> {
        let network = text(body, "floating_network_id").to_owned();
        let external = self
            .network
            .get(Kind::Network, &network)
            .ok_or_else(|| Kind::Network.not_found(&network))?
            .get("router:external")
            == Some(&json!(true));
        if !external {
            return Err(neutron_error(
                400,
                "BadRequest",
                format!(
                    "Bad floatingip request: Network {network} is not a valid external network."
                ),
            ));
        }
        let subnet = match given(body, "subnet_id") {
            Some(subnet) => subnet.to_owned(),
            None => self.first_subnet(&network).ok_or_else(|| {
                neutron_error(
                    400,
                    "ExternalIpAddressExhausted",
                    format!("Unable to find any IP address on external network {network}."),
                )
            })?,
        };
        let address = self.take_address(&subnet, given(body, "floating_ip_address"))?;
        let id = self.new_id();
        let mut row = standard(self.now, &id, project, "");
        row.remove("name");
        let fields = json!({
            "floating_ip_address": address.to_string(), "floating_network_id": network, "router_id": null,
            "port_id": null, "fixed_ip_address": null, "status": "DOWN", "qos_policy_id": null,
            "port_forwardings": [], "revision_number": 0, "description": text(body, "description"),
        });
        row.extend(fields.as_object().cloned().unwrap_or_default());
        self.network.table_mut(Kind::FloatingIp).put(row);
        self.floating_subnets.insert(id.clone(), subnet);
        if let Some(port) = given(body, "port_id")
            && let Err(error) = self.associate(&id, port, given(body, "fixed_ip_address"))
        {
            self.delete_floating_ip(&id);
            return Err(error);
        }
        self.network
            .get(Kind::FloatingIp, &id)
            .cloned()
            .ok_or_else(|| Kind::FloatingIp.not_found(&id))
    }

    pub(super) fn update_floating_ip(&mut self, body: &Row, id: &str) -> Result<(), Reply> {
        match body.get("port_id") {
            Some(Value::String(port)) if !port.is_empty() => {
                self.associate(id, port, given(body, "fixed_ip_address"))?;
            }
            // A request without the attribute also removes the floating IP from its port.
            _ => self.dissociate(id),
        }
        self.change_named(Kind::FloatingIp, id, body, &["description"]);
        Ok(())
    }

    fn associate(&mut self, id: &str, port: &str, fixed: Option<&str>) -> Result<(), Reply> {
        let floating = self
            .network
            .get(Kind::FloatingIp, id)
            .cloned()
            .unwrap_or_default();
        let row = self
            .network
            .get(Kind::Port, port)
            .cloned()
            .ok_or_else(|| Kind::Port.not_found(port))?;
        let external = text(&floating, "floating_network_id").to_owned();
        let address = match fixed {
            Some(fixed) => fixed.to_owned(),
            None => self.port_address(port).ok_or_else(|| {
                neutron_error(
                    400,
                    "BadRequest",
                    format!("Bad floatingip request: Cannot add floating IP to port {port} that has no fixed IPv4 addresses."),
                )
            })?,
        };
        let other = self
            .network
            .table(Kind::FloatingIp)
            .find("port_id", port)
            .any(|other| text(other, "id") != id && text(other, "fixed_ip_address") == address);
        if other {
            return Err(neutron_error(
                409,
                "FloatingIPPortAlreadyAssociated",
                format!(
                    "Cannot associate floating IP {} ({id}) with port {port} using fixed IP {address}, as that fixed IP already has a floating IP on external network {external}.",
                    text(&floating, "floating_ip_address")
                ),
            ));
        }
        let subnet = first_subnet_of(&row);
        let router = self.router_between(&subnet, &external).ok_or_else(|| {
            neutron_error(
                404,
                "ExternalGatewayForFloatingIPNotFound",
                format!(
                    "External network {external} is not reachable from subnet {subnet}.  Therefore, cannot associate Port {port} with a Floating IP."
                ),
            )
        })?;
        let before = text(&floating, "port_id").to_owned();
        let now = self.now;
        self.network.table_mut(Kind::FloatingIp).change(id, |row| {
            row.insert("port_id".into(), json!(port));
            row.insert("router_id".into(), json!(router));
            row.insert("fixed_ip_address".into(), json!(address));
            Network::touch(row, now);
        });
        self.after(
            self.durations.agent,
            Effect::FloatingIpSettled(id.to_owned()),
        );
        self.port_addresses_changed(&before);
        self.port_addresses_changed(port);
        Ok(())
    }

    /// Removes a floating IP from its port.
    pub(crate) fn dissociate(&mut self, id: &str) {
        let now = self.now;
        let before = self
            .network
            .get(Kind::FloatingIp, id)
            .map(|row| text(row, "port_id").to_owned())
            .unwrap_or_default();
        self.network.table_mut(Kind::FloatingIp).change(id, |row| {
            for name in ["port_id", "router_id", "fixed_ip_address"] {
                row.insert(name.into(), Value::Null);
            }
            Network::touch(row, now);
        });
        self.after(
            self.durations.agent,
            Effect::FloatingIpSettled(id.to_owned()),
        );
        self.port_addresses_changed(&before);
    }

    /// The status that the L3 agent sets: ACTIVE with a port, DOWN without.
    pub(crate) fn floating_ip_settled(&mut self, id: &str) {
        let now = self.now;
        self.network.table_mut(Kind::FloatingIp).change(id, |row| {
            let status = if text(row, "port_id").is_empty() {
                "DOWN"
            } else {
                "ACTIVE"
            };
            if text(row, "status") != status {
                row.insert("status".into(), json!(status));
                Network::touch(row, now);
            }
        });
    }

    pub(super) fn delete_floating_ip(&mut self, id: &str) {
        let Some(row) = self.network.table_mut(Kind::FloatingIp).remove(id) else {
            return;
        };
        if let Some(subnet) = self.floating_subnets.remove(id) {
            self.release_address(&subnet, text(&row, "floating_ip_address"));
        }
        let port = text(&row, "port_id").to_owned();
        self.port_addresses_changed(&port);
    }

    /// The floating addresses of a port.
    pub(crate) fn floating_addresses(&self, port: &str) -> Vec<String> {
        self.network
            .table(Kind::FloatingIp)
            .find("port_id", port)
            .map(|row| text(row, "floating_ip_address").to_owned())
            .collect()
    }
}
