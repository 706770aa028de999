//! Subnets of IPv6.

use std::net::IpAddr;

use capo_openstack::network::{FixedIp, Ipv6Mode, NewNetwork, NewPort, NewSubnet};
use ipnet::IpNet;

use super::{CloudUnderTest, Contract, GATE};

const RANGE: &str = "fd00:65::/64";

pub async fn ports_get_addresses_of_ipv6_by_dhcp(under: &impl CloudUnderTest) {
    let contract = Contract::with(under).await;
    let cloud = &contract.cloud;
    let new = NewNetwork {
        name: contract.name.clone(),
        ..NewNetwork::default()
    };
    let network = cloud.create_network(&new, GATE).await.unwrap();
    let name_server = "2001:db8::53";
    let new = NewSubnet {
        ip_version: 6,
        dns_nameservers: vec![name_server.into()],
        ipv6_address_mode: Some(Ipv6Mode::Dhcpv6Stateful),
        ipv6_ra_mode: Some(Ipv6Mode::Dhcpv6Stateful),
        ..contract.subnet_of(&network, RANGE)
    };
    let subnet = cloud.create_subnet(&new, GATE).await.unwrap();
    let range: IpNet = RANGE.parse().unwrap();
    assert_eq!((subnet.ip_version, subnet.cidr), (6, Some(range)));
    assert_eq!(
        subnet.dns_nameservers,
        [name_server.parse::<IpAddr>().unwrap()]
    );
    let path = format!("subnets/{}", subnet.id);
    let (_, shown) = contract.raw.get("network", &path).await;
    for field in ["ipv6_address_mode", "ipv6_ra_mode"] {
        assert_eq!(shown["subnet"][field], "dhcpv6-stateful", "{shown}");
    }

    // A load balancer that is created again asks for the address that it had, which only DHCPv6 can give.
    let wanted: IpAddr = "fd00:65::77".parse().unwrap();
    let given = FixedIp {
        subnet_id: Some(subnet.id.clone()),
        ip_address: Some(wanted),
    };
    for (number, fixed_ips) in [vec![], vec![given]].into_iter().enumerate() {
        let is_given = !fixed_ips.is_empty();
        let new = NewPort {
            name: format!("{}-{number}", contract.name),
            network_id: network.id.clone(),
            fixed_ips,
            ..NewPort::default()
        };
        let port = cloud.create_port(&new, GATE).await.unwrap();
        let address = port.fixed_ips[0].ip_address.unwrap();
        assert!(range.contains(&address), "{address}");
        assert!(!is_given || address == wanted, "{address}");
        cloud.delete_port(&port.id, GATE).await.unwrap();
    }
    contract.delete_network(&network).await;
}
