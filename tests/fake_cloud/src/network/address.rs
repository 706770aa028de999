//! Addresses of subnets: pools, allocation, release.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::IpNet;
use serde_json::{Value, json};

use super::{Kind, invalid_input, neutron_error};
use crate::{
    wire::{Reply, Row, given, text},
    world::World,
};

/// An address as a number, for ranges.
pub(crate) fn number(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => u128::from(u32::from(address)),
        IpAddr::V6(address) => u128::from(address),
    }
}

fn address(number: u128, like: IpAddr) -> IpAddr {
    match like {
        IpAddr::V4(_) => IpAddr::V4(Ipv4Addr::from(u32::try_from(number).unwrap_or(0))),
        IpAddr::V6(_) => IpAddr::V6(Ipv6Addr::from(number)),
    }
}

/// First and last usable address of a range, without the network's own address and the broadcast address.
pub(crate) fn usable(range: IpNet) -> (IpAddr, IpAddr) {
    let (first, last) = (number(range.network()), number(range.broadcast()));
    let like = range.network();
    if last - first < 3 {
        return (address(first, like), address(last, like));
    }
    let last = if like.is_ipv4() { last - 1 } else { last };
    (address(first + 1, like), address(last, like))
}

/// The allocation pools without the gateway.
pub(crate) fn pools_without(range: IpNet, gateway: Option<IpAddr>) -> Value {
    let (first, last) = usable(range);
    let mut pools = Vec::new();
    match gateway.filter(|gateway| range.contains(gateway)) {
        Some(gateway) => {
            let hole = number(gateway);
            if hole > number(first) {
                pools.push((first, address(hole - 1, first)));
            }
            if hole < number(last) {
                pools.push((address(hole + 1, first), last));
            }
        }
        None => pools.push((first, last)),
    }
    pools
        .into_iter()
        .map(|(start, end)| json!({ "start": start.to_string(), "end": end.to_string() }))
        .collect()
}

impl World {
    /// Takes an address of a subnet: the requested one, or the next free one of its pools.
    pub(crate) fn take_address(
        &mut self,
        subnet: &str,
        wanted: Option<&str>,
    ) -> Result<IpAddr, Reply> {
        let row = self
            .network
            .get(Kind::Subnet, subnet)
            .cloned()
            .ok_or_else(|| Kind::Subnet.not_found(subnet))?;
        let range: IpNet = text(&row, "cidr")
            .parse()
            .map_err(|_| invalid_input("subnet without a CIDR"))?;
        let taken = self.network.allocated.entry(subnet.to_owned()).or_default();
        if let Some(wanted) = wanted {
            let wanted: IpAddr = wanted
                .parse()
                .map_err(|_| invalid_input(format!("'{wanted}' is not a valid IP address")))?;
            if !range.contains(&wanted) {
                return Err(neutron_error(
                    400,
                    "InvalidIpForSubnet",
                    format!("IP address {wanted} is not a valid IP for the specified subnet."),
                ));
            }
            if !taken.insert(wanted) {
                return Err(neutron_error(
                    409,
                    "IpAddressAlreadyAllocated",
                    format!("IP address {wanted} already allocated in subnet {subnet}"),
                ));
            }
            return Ok(wanted);
        }
        for (start, end) in pools(&row) {
            // The search starts after the highest address, so that a released address is not used again at once.
            let highest = taken
                .range(start..=end)
                .next_back()
                .map_or(number(start), |highest| number(*highest) + 1);
            let free = (highest..=number(end))
                .chain(number(start)..highest)
                .map(|candidate| address(candidate, start))
                .find(|candidate| !taken.contains(candidate));
            if let Some(free) = free {
                taken.insert(free);
                return Ok(free);
            }
        }
        Err(neutron_error(
            409,
            "IpAddressGenerationFailure",
            format!(
                "No more IP addresses available on network {}.",
                text(&row, "network_id")
            ),
        ))
    }

    /// Releases an address.
    pub(crate) fn release_address(&mut self, subnet: &str, address: &str) {
        if let (Some(taken), Ok(address)) = (
            self.network.allocated.get_mut(subnet),
            address.parse::<IpAddr>(),
        ) {
            taken.remove(&address);
        }
    }

    /// Allocates the fixed addresses that a port requests, or an address of the network's first IPv4 subnet if it
    /// requests none.
    pub(crate) fn fixed_addresses(
        &mut self,
        network: &str,
        wishes: Option<&Value>,
    ) -> Result<Vec<Value>, Reply> {
        let subnets: Vec<Row> = self
            .network
            .table(Kind::Subnet)
            .find("network_id", network)
            .cloned()
            .collect();
        let wishes: Vec<Row> = match wishes.and_then(Value::as_array) {
            Some(list) => list
                .iter()
                .filter_map(|wish| wish.as_object().cloned())
                .collect(),
            None => match subnets
                .iter()
                .find(|subnet| subnet.get("ip_version") == Some(&json!(4)))
                .or_else(|| subnets.first())
            {
                Some(subnet) => vec![Row::from_iter([(
                    "subnet_id".to_owned(),
                    json!(text(subnet, "id")),
                )])],
                None => Vec::new(),
            },
        };
        let mut granted: Vec<Value> = Vec::new();
        for wish in wishes {
            let wanted = given(&wish, "ip_address");
            let subnet = match given(&wish, "subnet_id") {
                Some(subnet) => subnet.to_owned(),
                None => subnets
                    .iter()
                    .find(|subnet| covers(subnet, wanted))
                    .map(|subnet| text(subnet, "id").to_owned())
                    .ok_or_else(|| {
                        neutron_error(
                            400,
                            "InvalidIpForNetwork",
                            format!(
                                "IP address {} is not a valid IP for any of the subnets on the specified network.",
                                wanted.unwrap_or_default()
                            ),
                        )
                    })?,
            };
            match self.take_address(&subnet, wanted) {
                Ok(address) => {
                    granted.push(json!({ "subnet_id": subnet, "ip_address": address.to_string() }));
                }
                Err(error) => {
                    self.release_all(&granted);
                    return Err(error);
                }
            }
        }
        Ok(granted)
    }

    /// Releases all fixed addresses of a port.
    pub(crate) fn release_all(&mut self, fixed: &[Value]) {
        for ip in fixed {
            if let Some(ip) = ip.as_object() {
                self.release_address(text(ip, "subnet_id"), text(ip, "ip_address"));
            }
        }
    }
}

fn covers(subnet: &Row, wanted: Option<&str>) -> bool {
    let Some(Ok(wanted)) = wanted.map(str::parse::<IpAddr>) else {
        return false;
    };
    text(subnet, "cidr")
        .parse::<IpNet>()
        .is_ok_and(|range| range.contains(&wanted))
}

fn pools(subnet: &Row) -> Vec<(IpAddr, IpAddr)> {
    let parse = |pool: &Value| {
        let pool = pool.as_object()?;
        Some((
            text(pool, "start").parse().ok()?,
            text(pool, "end").parse().ok()?,
        ))
    };
    subnet
        .get("allocation_pools")
        .and_then(Value::as_array)
        .map(|pools| pools.iter().filter_map(parse).collect())
        .unwrap_or_default()
}
