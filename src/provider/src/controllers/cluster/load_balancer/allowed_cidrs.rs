//! Who may connect to the load balancer. Plain data.

use std::collections::BTreeSet;

use ipnet::IpNet;

use crate::controllers::cluster::memory::NetworkingState;

/// The ranges of the spec, and those of the cluster itself, IPv4 and in order. Without any in the spec
/// everybody may connect, which is an empty list.
pub(crate) fn ranges(wished: &[IpNet], networking: &NetworkingState) -> Vec<IpNet> {
    if wished.is_empty() {
        return Vec::new();
    }
    let gateways = networking
        .router
        .iter()
        .filter_map(|router| router.external_gateway_info.as_ref())
        .flat_map(|gateway| &gateway.external_fixed_ips)
        .filter_map(|ip| ip.ip_address.map(IpNet::from));
    let all: BTreeSet<IpNet> = wished
        .iter()
        .copied()
        .chain(networking.network.ranges())
        .chain(gateways)
        .filter(|range| range.addr().is_ipv4())
        .map(|range| range.trunc())
        .collect();
    all.into_iter().collect()
}
