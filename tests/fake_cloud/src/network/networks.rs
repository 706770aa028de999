//! Networks.

use serde_json::{Value, json};

use super::{Kind, copy, neutron_error, standard};
use crate::{
    wire::{Reply, Request, Row, text},
    world::World,
};

impl World {
    pub(super) fn create_network(
        &mut self,
        request: &Request,
        body: &Row,
        project: &str,
    ) -> Result<Row, Reply> {
        let admin_only = ["router:external", "shared"]
            .into_iter()
            .any(|name| body.get(name) == Some(&json!(true)));
        if admin_only && !request.caller.is_admin() {
            return Err(neutron_error(
                403,
                "PolicyNotAuthorized",
                "(rule:create_network and (rule:create_network:shared)) is disallowed by policy",
            ));
        }
        let mut row = standard(self.now, &self.new_id(), project, text(body, "name"));
        let defaults = json!({
            "admin_state_up": true, "mtu": 1450, "status": "ACTIVE", "shared": false, "port_security_enabled": true,
            "qos_policy_id": null, "router:external": false, "is_default": false, "availability_zone_hints": [],
            "availability_zones": [], "ipv4_address_scope": null, "ipv6_address_scope": null,
        });
        row.extend(defaults.as_object().cloned().unwrap_or_default());
        copy(
            body,
            &mut row,
            &[
                "admin_state_up",
                "mtu",
                "shared",
                "port_security_enabled",
                "qos_policy_id",
                "router:external",
                "availability_zone_hints",
                "description",
                "dns_domain",
            ],
        );
        self.network.table_mut(Kind::Network).put(row.clone());
        Ok(row)
    }

    pub(super) fn update_network(&mut self, body: &Row, id: &str) -> Result<(), Reply> {
        if let Some(mtu) = body.get("mtu").filter(|mtu| !mtu.is_u64()) {
            return Err(super::invalid_input(format!(
                "Invalid input for mtu. Reason: '{mtu}' is not an integer"
            )));
        }
        self.change_named(
            Kind::Network,
            id,
            body,
            &[
                "name",
                "description",
                "admin_state_up",
                "mtu",
                "shared",
                "port_security_enabled",
                "qos_policy_id",
                "router:external",
            ],
        );
        Ok(())
    }

    pub(super) fn delete_network(&mut self, id: &str) -> Result<(), Reply> {
        let ports: Vec<String> = self
            .network
            .table(Kind::Port)
            .find("network_id", id)
            .filter(|port| text(port, "device_owner") != "network:dhcp")
            .map(|port| text(port, "id").to_owned())
            .collect();
        if !ports.is_empty() {
            return Err(neutron_error(
                409,
                "NetworkInUse",
                format!(
                    "Unable to complete operation on network {id}. There are one or more ports still in use on the network, id for these ports is: {}.",
                    ports.join(",")
                ),
            ));
        }
        let subnets: Vec<String> = self
            .network
            .table(Kind::Subnet)
            .find("network_id", id)
            .map(|subnet| text(subnet, "id").to_owned())
            .collect();
        for subnet in subnets {
            self.network.table_mut(Kind::Subnet).remove(&subnet);
            self.network.allocated.remove(&subnet);
        }
        self.network.table_mut(Kind::Network).remove(id);
        Ok(())
    }

    /// The networks and the subnet that exist from the start.
    pub(crate) fn seed_network(&mut self, floating: ipnet::Ipv4Net, project: &str) {
        let id = self.new_id();
        let mut row = standard(self.now, &id, project, "public");
        let fields = json!({
            "admin_state_up": true, "mtu": 1500, "status": "ACTIVE", "shared": false, "port_security_enabled": true,
            "qos_policy_id": null, "router:external": true, "is_default": false, "availability_zone_hints": [],
            "availability_zones": [], "ipv4_address_scope": null, "ipv6_address_scope": null,
        });
        row.extend(fields.as_object().cloned().unwrap_or_default());
        self.network.table_mut(Kind::Network).put(row);
        let body = json!({
            "network_id": id, "name": "public-subnet", "cidr": floating.to_string(), "ip_version": 4, "enable_dhcp": false,
        });
        let body: Row = body.as_object().cloned().unwrap_or_default();
        let seeded = self.put_subnet(&body, project);
        debug_assert!(seeded.is_ok());
        self.network.external = id;
    }

    /// The default subnet of a network: its first by id.
    pub(crate) fn first_subnet(&self, network: &str) -> Option<String> {
        let rows: Vec<&Row> = self
            .network
            .table(Kind::Subnet)
            .find("network_id", network)
            .collect();
        rows.iter()
            .find(|row| row.get("ip_version") == Some(&Value::from(4)))
            .or_else(|| rows.first())
            .map(|row| text(row, "id").to_owned())
    }
}
