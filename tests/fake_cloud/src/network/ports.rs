//! Ports that are created by users, by routers, by Nova and by Octavia.

use serde_json::{Value, json};

use super::{Kind, Network, copy, neutron_error, standard};
use crate::{
    wire::{Reply, Request, Row, strings, text},
    world::World,
};

const USER_ATTRIBUTES: [&str; 16] = [
    "name",
    "description",
    "admin_state_up",
    "device_id",
    "device_owner",
    "allowed_address_pairs",
    "security_groups",
    "port_security_enabled",
    "binding:vnic_type",
    "binding:profile",
    "binding:host_id",
    "extra_dhcp_opts",
    "qos_policy_id",
    "dns_name",
    "propagate_uplink_status",
    "trusted",
];

impl World {
    pub(crate) fn create_port(&mut self, body: &Row, project: &str) -> Result<Row, Reply> {
        let network = text(body, "network_id").to_owned();
        if self.network.get(Kind::Network, &network).is_none() {
            return Err(Kind::Network.not_found(&network));
        }
        let secured = body
            .get("port_security_enabled")
            .and_then(Value::as_bool)
            .unwrap_or(true);
        for group in strings(body, "security_groups") {
            if self.network.get(Kind::SecurityGroup, &group).is_none() {
                return Err(Kind::SecurityGroup.not_found(&group));
            }
        }
        if !secured && !strings(body, "security_groups").is_empty() {
            return Err(neutron_error(
                409,
                "PortSecurityAndIPRequiredForSecurityGroups",
                "Port security must be enabled and port must have an IP address in order to use security groups.",
            ));
        }
        let fixed = self.fixed_addresses(&network, body.get("fixed_ips"))?;
        let mut row = standard(self.now, &self.new_id(), project, text(body, "name"));
        let groups = if !secured || text(body, "device_owner").starts_with("network:") {
            json!([])
        } else {
            json!([self.default_group(project)])
        };
        let fields = json!({
            "network_id": network, "mac_address": self.network.mac(), "admin_state_up": true, "status": "DOWN",
            "device_id": "", "device_owner": "", "port_security_enabled": secured, "qos_policy_id": null,
            "qos_network_policy_id": null, "security_groups": groups, "binding:vnic_type": "normal",
            "binding:host_id": "", "binding:profile": {}, "binding:vif_type": "unbound", "binding:vif_details": {},
            "allowed_address_pairs": [], "extra_dhcp_opts": [],
        });
        row.extend(fields.as_object().cloned().unwrap_or_default());
        copy(body, &mut row, &USER_ATTRIBUTES);
        row.insert("fixed_ips".into(), json!(fixed));
        if let Some(mac) = body.get("mac_address").filter(|mac| mac.is_string()) {
            row.insert("mac_address".into(), mac.clone());
        }
        fill_pairs(&mut row);
        self.network.table_mut(Kind::Port).put(row.clone());
        Ok(row)
    }

    pub(super) fn update_port(&mut self, body: &Row, id: &str) -> Result<(), Reply> {
        for group in strings(body, "security_groups") {
            if self.network.get(Kind::SecurityGroup, &group).is_none() {
                return Err(Kind::SecurityGroup.not_found(&group));
            }
        }
        let old = self
            .network
            .get(Kind::Port, id)
            .cloned()
            .unwrap_or_default();
        if let Some(wishes) = body.get("fixed_ips") {
            let before: Vec<Value> = old
                .get("fixed_ips")
                .and_then(Value::as_array)
                .cloned()
                .unwrap_or_default();
            self.release_all(&before);
            match self.fixed_addresses(text(&old, "network_id"), Some(wishes)) {
                Ok(fixed) => {
                    self.network.table_mut(Kind::Port).change(id, |row| {
                        row.insert("fixed_ips".into(), json!(fixed));
                    });
                }
                Err(error) => {
                    let retaken =
                        self.fixed_addresses(text(&old, "network_id"), Some(&json!(before)));
                    debug_assert!(retaken.is_ok());
                    return Err(error);
                }
            }
        }
        let now = self.now;
        self.network.table_mut(Kind::Port).change(id, |row| {
            copy(body, row, &USER_ATTRIBUTES);
            fill_pairs(row);
            Network::touch(row, now);
        });
        Ok(())
    }

    pub(super) fn delete_port_by_user(
        &mut self,
        request: &Request,
        row: &Row,
    ) -> Result<(), Reply> {
        let id = text(row, "id");
        let owner = text(row, "device_owner");
        if owner.starts_with("compute:") && !request.caller.is_admin() {
            return Err(neutron_error(
                403,
                "PolicyNotAuthorized",
                "rule:delete_port is disallowed by policy",
            ));
        }
        if [
            "network:router_interface",
            "network:router_gateway",
            "network:floatingip",
        ]
        .contains(&owner)
        {
            return Err(neutron_error(
                409,
                "ServicePortInUse",
                format!(
                    "Port {id} cannot be deleted directly via the port API: has device owner {owner}."
                ),
            ));
        }
        if let Some(trunk) = self.network.table(Kind::Trunk).find("port_id", id).next() {
            return Err(neutron_error(
                409,
                "PortInUseAsTrunkParent",
                format!(
                    "Port {id} is currently a parent port for trunk {}.",
                    text(trunk, "id")
                ),
            ));
        }
        if owner == "trunk:subport" {
            return Err(neutron_error(
                409,
                "PortInUseAsSubPort",
                format!(
                    "Port {id} is currently a subport for trunk {}.",
                    text(row, "device_id")
                ),
            ));
        }
        self.remove_port(id);
        Ok(())
    }

    /// Deletes a port, whatever owns it. Floating IPs are removed from it first.
    pub(crate) fn remove_port(&mut self, id: &str) {
        let Some(row) = self.network.table_mut(Kind::Port).remove(id) else {
            return;
        };
        let fixed: Vec<Value> = row
            .get("fixed_ips")
            .and_then(Value::as_array)
            .cloned()
            .unwrap_or_default();
        self.release_all(&fixed);
        let floating: Vec<String> = self
            .network
            .table(Kind::FloatingIp)
            .find("port_id", id)
            .map(|row| text(row, "id").to_owned())
            .collect();
        for floating in floating {
            self.dissociate(&floating);
        }
    }

    /// Binds a port to a server, or unbinds it (`server` is empty).
    pub(crate) fn bind_port(&mut self, id: &str, server: &str, up: bool) {
        let now = self.now;
        self.network.table_mut(Kind::Port).change(id, |row| {
            let bound = !server.is_empty();
            row.insert("device_id".into(), json!(server));
            row.insert(
                "device_owner".into(),
                json!(if bound { "compute:nova" } else { "" }),
            );
            row.insert(
                "binding:host_id".into(),
                json!(if bound { "fake-compute1" } else { "" }),
            );
            row.insert(
                "binding:vif_type".into(),
                json!(if bound { "ovs" } else { "unbound" }),
            );
            row.insert("status".into(), json!(if up { "ACTIVE" } else { "DOWN" }));
            Network::touch(row, now);
        });
    }

    /// The first fixed address of a port.
    pub(crate) fn port_address(&self, id: &str) -> Option<String> {
        let port = self.network.get(Kind::Port, id)?;
        let first = port.get("fixed_ips")?.as_array()?.first()?;
        Some(first.get("ip_address")?.as_str()?.to_owned())
    }
}

/// Gives address pairs without a hardware address that of the port.
fn fill_pairs(row: &mut Row) {
    let mac = row.get("mac_address").cloned().unwrap_or_default();
    if let Some(pairs) = row
        .get_mut("allowed_address_pairs")
        .and_then(Value::as_array_mut)
    {
        for pair in pairs.iter_mut().filter_map(Value::as_object_mut) {
            pair.entry("mac_address").or_insert_with(|| mac.clone());
        }
    }
}
