//! Subnets.

use std::net::IpAddr;

use ipnet::IpNet;
use serde_json::{Value, json};

use super::{
    Kind,
    address::{pools_without, usable},
    copy, invalid_input, neutron_error, standard,
};
use crate::{
    wire::{Reply, Request, Row, given, text},
    world::World,
};

impl World {
    pub(super) fn create_subnet(
        &mut self,
        request: &Request,
        body: &Row,
        project: &str,
    ) -> Result<Row, Reply> {
        let network = text(body, "network_id");
        let row = self
            .network
            .get(Kind::Network, network)
            .ok_or_else(|| Kind::Network.not_found(network))?;
        if text(row, "project_id") != request.caller.project && !request.caller.is_admin() {
            return Err(Kind::Network.not_found(network));
        }
        self.put_subnet(body, project)
    }

    pub(super) fn put_subnet(&mut self, body: &Row, project: &str) -> Result<Row, Reply> {
        let network = text(body, "network_id").to_owned();
        let cidr = text(body, "cidr");
        let range: IpNet = cidr
            .parse()
            .map_err(|_| invalid_input(format!("{cidr} is not in a CIDR format")))?;
        let range = range.trunc();
        let version = body.get("ip_version").and_then(Value::as_u64).unwrap_or(4);
        if (version == 4) != range.addr().is_ipv4() {
            return Err(invalid_input(format!(
                "cidr '{cidr}' does not match the ip_version '{version}'"
            )));
        }
        let overlaps = self
            .network
            .table(Kind::Subnet)
            .find("network_id", &network)
            .filter_map(|row| text(row, "cidr").parse::<IpNet>().ok())
            .any(|other| other.contains(&range) || range.contains(&other));
        if overlaps {
            return Err(invalid_input(format!(
                "Requested subnet with cidr: {range} for network: {network} overlaps with another subnet"
            )));
        }
        let gateway: Option<IpAddr> =
            match body.get("gateway_ip") {
                Some(Value::Null) => None,
                Some(Value::String(gateway)) => Some(gateway.parse().map_err(|_| {
                    invalid_input(format!("'{gateway}' is not a valid IP address"))
                })?),
                _ => Some(usable(range).0),
            };
        let pools = match body
            .get("allocation_pools")
            .filter(|pools| pools.as_array().is_some_and(|pools| !pools.is_empty()))
        {
            Some(pools) => checked_pools(pools, range)?,
            None => pools_without(range, gateway),
        };
        let mut row = standard(self.now, &self.new_id(), project, text(body, "name"));
        let fields = json!({
            "network_id": network, "ip_version": version, "subnetpool_id": null, "enable_dhcp": true,
            "ipv6_ra_mode": null, "ipv6_address_mode": null, "gateway_ip": gateway.map(|ip| ip.to_string()),
            "cidr": range.to_string(), "allocation_pools": pools, "host_routes": [], "dns_nameservers": [],
            "router:external": false, "service_types": [], "revision_number": 0,
        });
        row.extend(fields.as_object().cloned().unwrap_or_default());
        copy(
            body,
            &mut row,
            &[
                "enable_dhcp",
                "dns_nameservers",
                "host_routes",
                "description",
                "ipv6_ra_mode",
                "ipv6_address_mode",
                "service_types",
            ],
        );
        self.network.table_mut(Kind::Subnet).put(row.clone());
        Ok(row)
    }

    pub(super) fn update_subnet(&mut self, body: &Row, id: &str) -> Result<(), Reply> {
        if body.contains_key("cidr") {
            return Err(neutron_error(
                400,
                "HTTPBadRequest",
                "Cannot update read-only attribute cidr",
            ));
        }
        self.change_named(
            Kind::Subnet,
            id,
            body,
            &[
                "name",
                "description",
                "dns_nameservers",
                "host_routes",
                "enable_dhcp",
                "gateway_ip",
                "allocation_pools",
            ],
        );
        Ok(())
    }

    pub(super) fn delete_subnet(&mut self, id: &str) -> Result<(), Reply> {
        if self
            .network
            .allocated
            .get(id)
            .is_some_and(|taken| !taken.is_empty())
        {
            return Err(neutron_error(
                409,
                "SubnetInUse",
                format!(
                    "Unable to complete operation on subnet {id}: One or more ports have an IP allocation from this subnet."
                ),
            ));
        }
        self.network.table_mut(Kind::Subnet).remove(id);
        self.network.allocated.remove(id);
        Ok(())
    }
}

fn checked_pools(pools: &Value, range: IpNet) -> Result<Value, Reply> {
    for pool in pools.as_array().into_iter().flatten() {
        let ends = pool.as_object().and_then(|pool| {
            let start: IpAddr = given(pool, "start")?.parse().ok()?;
            let end: IpAddr = given(pool, "end")?.parse().ok()?;
            Some((start, end))
        });
        match ends {
            Some((start, end))
                if start <= end && range.contains(&start) && range.contains(&end) => {}
            Some((start, end)) if start <= end => {
                return Err(neutron_error(
                    400,
                    "OutOfBoundsAllocationPool",
                    format!(
                        "The allocation pool {start}-{end} spans beyond the subnet cidr {range}."
                    ),
                ));
            }
            _ => {
                return Err(neutron_error(
                    400,
                    "InvalidAllocationPool",
                    format!("The allocation pool {pool} is not valid."),
                ));
            }
        }
    }
    Ok(pools.clone())
}
