//! Determines which addresses may connect to the load balancer. The functions are pure.

use std::{collections::BTreeSet, net::IpAddr};

use ipnet::IpNet;

use crate::controllers::cluster::observation::Networking;
use capo_core::Lookup;

/// Returns the ranges of the spec and the cluster's own addresses, sorted. Ranges of another address family than that
/// of `vip` are left out, because Octavia refuses them. If the spec has no restriction, the list is empty, which means
/// that every address may connect. `None` means that the VIP or an address of the cluster itself is unknown; a list
/// without that address would lock the cluster out.
pub(crate) fn ranges(
    allowed: Option<&[IpNet]>,
    networking: &Networking,
    bastion: Option<&[IpAddr]>,
    vip: Option<IpAddr>,
) -> Option<Vec<IpNet>> {
    let Some(allowed) = allowed else {
        return Some(Vec::new());
    };
    let vip = vip?;
    let network = networking.network.found()?;
    let router = match &networking.router {
        Lookup::Unknown => return None,
        Lookup::Absent => None,
        Lookup::Found(router) => router.external_gateway_info.as_ref(),
    };
    let gateways = router
        .iter()
        .flat_map(|gateway| &gateway.external_fixed_ips)
        .filter_map(|ip| ip.ip_address.map(IpNet::from));
    let mut all: BTreeSet<IpNet> = allowed
        .iter()
        .copied()
        .chain(network.ranges())
        .chain(gateways)
        .chain(bastion?.iter().copied().map(IpNet::from))
        .filter(|range| is_same_family(*range, vip))
        .map(|range| range.trunc())
        .collect();
    if all.is_empty() {
        // In Octavia an empty list would allow every address.
        all.insert(vip.into());
    }
    Some(all.into_iter().collect())
}

/// Whether Octavia accepts a range for a load balancer with this VIP. Both must be of one address family.
pub(crate) fn is_same_family(range: IpNet, vip: IpAddr) -> bool {
    range.addr().is_ipv4() == vip.is_ipv4()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::controllers::cluster::observation::NetworkState;
    use capo_openstack::network::Router;
    use serde_json::{from_value, json};

    const VIP: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 6, 0, 5));

    fn networking() -> Networking {
        let router: Router = from_value(
            json!({"id": "r", "external_gateway_info": {"network_id": "e",
            "external_fixed_ips": [{"subnet_id": "s", "ip_address": "203.0.113.4"}]}}),
        )
        .unwrap();
        let network = NetworkState {
            network: from_value(json!({"id": "n"})).unwrap(),
            subnets: vec![
                from_value(
                    json!({"id": "s", "network_id": "n", "cidr": "10.6.0.0/24", "ip_version": 4}),
                )
                .unwrap(),
            ],
        };
        Networking {
            network: Lookup::Found(network),
            router: Lookup::Found(router),
            ..Networking::default()
        }
    }

    #[test]
    fn the_cluster_and_its_bastion_are_never_locked_out() {
        let allowed = ["192.0.2.0/24".parse().unwrap()];
        let bastion: [IpAddr; 2] = ["10.6.0.9".parse().unwrap(), "203.0.113.9".parse().unwrap()];
        let shown = |networking: &Networking, bastion: Option<&[IpAddr]>| {
            let ranges = ranges(Some(&allowed), networking, bastion, Some(VIP))?;
            Some(ranges.iter().map(ToString::to_string).collect::<Vec<_>>())
        };
        let all = [
            "10.6.0.0/24",
            "10.6.0.9/32",
            "192.0.2.0/24",
            "203.0.113.4/32",
            "203.0.113.9/32",
        ];
        assert_eq!(
            shown(&networking(), Some(&bastion)),
            Some(all.map(str::to_owned).to_vec())
        );
        // While one of the addresses is unknown, the list is unknown too.
        assert_eq!(shown(&networking(), None), None);
        for unknown in [
            Networking {
                network: Lookup::Unknown,
                ..networking()
            },
            Networking {
                router: Lookup::Unknown,
                ..networking()
            },
        ] {
            assert_eq!(shown(&unknown, Some(&bastion)), None);
        }
    }

    #[test]
    fn without_a_restriction_every_address_may_connect_whatever_is_unknown() {
        let networking = Networking::default();
        assert_eq!(ranges(None, &networking, None, None), Some(vec![]));
    }

    #[test]
    fn ranges_are_of_the_family_of_the_vip() {
        let allowed: [IpNet; 2] = [
            "192.0.2.0/24".parse().unwrap(),
            "2001:db8:1::/48".parse().unwrap(),
        ];
        let mut networking = networking();
        let shown = |allowed: &[IpNet], networking: &Networking, vip: Option<IpAddr>| {
            let ranges = ranges(Some(allowed), networking, Some(&[]), vip)?;
            Some(ranges.iter().map(ToString::to_string).collect::<Vec<_>>())
        };
        let vip = Some("2001:db8::5".parse().unwrap());
        assert_eq!(
            shown(&allowed, &networking, vip),
            Some(vec!["2001:db8:1::/48".to_owned()])
        );
        // An empty list would allow every address, so a list without any range contains the VIP itself.
        networking.router = Lookup::Absent;
        assert_eq!(
            shown(&allowed[..1], &networking, vip),
            Some(vec!["2001:db8::5/128".to_owned()])
        );
        assert_eq!(
            shown(&allowed[1..], &networking, Some(VIP)),
            Some(vec!["10.6.0.0/24".to_owned()])
        );
        assert_eq!(shown(&allowed, &networking, None), None);
    }
}
