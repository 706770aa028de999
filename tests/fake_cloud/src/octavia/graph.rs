//! The parts of a POST of a load balancer: its VIP, and the listeners and pools in the body.

use serde_json::{Value, json};

use super::{
    invalid,
    model::{LoadBalancer, Pool},
    octavia_error,
};
use crate::{
    network::Kind,
    wire::{Reply, Row, given, text},
    world::World,
};

/// The address of a load balancer.
pub(super) struct Vip {
    pub(super) address: String,
    pub(super) port: String,
    pub(super) subnet: String,
    pub(super) network: String,
    pub(super) owned: bool,
}
impl World {
    /// Listeners and pools of the POST.
    pub(super) fn graph(
        &mut self,
        mut lb: LoadBalancer,
        body: &Row,
    ) -> Result<LoadBalancer, Reply> {
        let objects = |name: &str| -> Vec<Row> {
            body.get(name)
                .and_then(Value::as_array)
                .into_iter()
                .flatten()
                .filter_map(|value| value.as_object().cloned())
                .collect()
        };
        let mut pools = objects("pools");
        let mut listeners = objects("listeners");
        for listener in &mut listeners {
            let Some(pool) = listener
                .get("default_pool")
                .and_then(Value::as_object)
                .cloned()
            else {
                continue;
            };
            if given(&pool, "name").is_none() {
                return Err(invalid(
                    "Pools must be named when creating a fully populated loadbalancer.",
                ));
            }
            if pool.len() > 1 {
                pools.push(pool);
            }
        }
        for body in &pools {
            let pool = self.graph_pool(&lb, body)?;
            if lb
                .pools
                .iter()
                .any(|other| other.head.name == pool.head.name)
            {
                return Err(invalid(
                    "Pool names must be unique when creating a fully populated loadbalancer.",
                ));
            }
            lb.pools.push(pool);
        }
        for body in &listeners {
            let mut listener = self.new_listener(&lb, body)?;
            if let Some(name) = body
                .get("default_pool")
                .and_then(|pool| pool.get("name")?.as_str())
            {
                let pool = lb.pools.iter().find(|pool| pool.head.name == name);
                let pool = pool.ok_or_else(|| {
                    invalid(format!(
                        "Pool '{name}' was referenced but no full definition was found."
                    ))
                })?;
                listener.pool = Some(pool.head.id.clone());
            }
            lb.listeners.push(listener);
        }
        Ok(lb)
    }

    fn graph_pool(&mut self, lb: &LoadBalancer, body: &Row) -> Result<Pool, Reply> {
        for attribute in ["protocol", "lb_algorithm"] {
            if given(body, attribute).is_none() {
                return Err(invalid(format!(
                    "Pool definition for '{}' missing required attribute: {attribute}",
                    text(body, "name")
                )));
            }
        }
        let mut pool = self.new_pool(lb, body)?;
        if let Some(monitor) = body.get("healthmonitor").and_then(Value::as_object) {
            pool.monitor = Some(self.new_monitor(lb, monitor)?);
        }
        for member in body
            .get("members")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
        {
            let member = member.as_object().cloned().unwrap_or_default();
            // A new member has NO_MONITOR even if the body has a monitor.
            let member = self.new_member(lb, &member, false)?;
            pool.members.push(member);
        }
        Ok(pool)
    }

    /// The VIP that a body requests. Its port is created if none is given.
    pub(super) fn take_vip(&mut self, body: &Row, id: &str, project: &str) -> Result<Vip, Reply> {
        if let Some(port) = given(body, "vip_port_id") {
            let row = self.network.get(Kind::Port, port);
            let row = row.ok_or_else(|| octavia_error(400, format!("Port {port} not found.")))?;
            let network = text(row, "network_id").to_owned();
            let address = self.port_address(port).unwrap_or_default();
            let subnet = self.first_subnet(&network).unwrap_or_default();
            return Ok(Vip {
                address,
                port: port.to_owned(),
                subnet,
                network,
                owned: false,
            });
        }
        let (network, subnet) = match (given(body, "vip_network_id"), given(body, "vip_subnet_id"))
        {
            (_, Some(subnet)) => {
                let row = self.network.get(Kind::Subnet, subnet);
                let row =
                    row.ok_or_else(|| octavia_error(400, format!("Subnet {subnet} not found.")))?;
                (text(row, "network_id").to_owned(), subnet.to_owned())
            }
            (Some(network), None) => {
                if self.network.get(Kind::Network, network).is_none() {
                    return Err(octavia_error(400, format!("Network {network} not found.")));
                }
                let subnet = self.first_subnet(network);
                let subnet =
                    subnet.ok_or_else(|| invalid("Supplied network does not contain a subnet."))?;
                (network.to_owned(), subnet)
            }
            (None, None) => {
                return Err(octavia_error(
                    400,
                    "Validation failure: VIP must contain one of: vip_port_id, vip_network_id, vip_subnet_id.",
                ));
            }
        };
        let mut fixed = json!({ "subnet_id": subnet });
        if let (Some(address), Some(fixed)) = (given(body, "vip_address"), fixed.as_object_mut()) {
            fixed.insert("ip_address".into(), json!(address));
        }
        let wish = json!({
            "network_id": network, "name": format!("octavia-lb-{id}"), "device_id": format!("lb-{id}"),
            "device_owner": "Octavia", "admin_state_up": false, "fixed_ips": [fixed],
        });
        let port = self
            .create_port(&wish.as_object().cloned().unwrap_or_default(), project)
            .map_err(|reply| match reply.body {
                // Neutron's message is returned in Octavia's form.
                crate::wire::Body::Json(body) => {
                    let words = body
                        .pointer("/NeutronError/message")
                        .and_then(Value::as_str)
                        .unwrap_or_default()
                        .to_owned();
                    octavia_error(reply.status, words)
                }
                _ => octavia_error(500, "Error creating the VIP port."),
            })?;
        let port = text(&port, "id").to_owned();
        let address = self.port_address(&port).unwrap_or_default();
        Ok(Vip {
            address,
            port,
            subnet,
            network,
            owned: true,
        })
    }
}
