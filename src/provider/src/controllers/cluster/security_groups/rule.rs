//! Security group rules in a form that can be compared.

use ipnet::IpNet;

use super::{family::Family, protocol::Protocol};
use capo_core::ids::SecurityGroupId;

/// The direction of the traffic.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Direction {
    /// To the machine.
    Ingress,
    /// From the machine.
    Egress,
}

/// The other end of the traffic.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Remote {
    /// Any address.
    Anywhere,
    /// A range of addresses, in canonical form.
    Range(String),
    /// A security group, by id.
    Group(SecurityGroupId),
    /// An address group, by id. The managed rules have none.
    AddressGroup(String),
}

impl Remote {
    /// Parses a range. The whole of IPv4 or IPv6 becomes [`Remote::Anywhere`].
    pub(crate) fn range(text: &str) -> Self {
        match canonical(text) {
            whole if whole == "0.0.0.0/0" || whole == "::/0" => Self::Anywhere,
            range => Self::Range(range),
        }
    }
}

/// The traffic that a rule allows. The description is not compared, as in CAPO.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Rule {
    /// The direction.
    pub direction: Direction,
    /// The family of addresses.
    pub family: Family,
    /// The protocol; `None` means any.
    pub protocol: Option<Protocol>,
    /// The first port, or the ICMP type; `None` means any.
    pub port_min: Option<u32>,
    /// The last port, or the ICMP code; `None` means any.
    pub port_max: Option<u32>,
    /// The other end of the traffic.
    pub remote: Remote,
}

impl Rule {
    /// A rule for all traffic in this direction.
    pub(crate) fn new(direction: Direction, family: Family) -> Self {
        Self {
            direction,
            family,
            protocol: None,
            port_min: None,
            port_max: None,
            remote: Remote::Anywhere,
        }
    }

    /// A rule for incoming traffic to `ports`.
    pub(crate) fn ingress(
        family: Family,
        protocol: Protocol,
        ports: (u16, u16),
        remote: Remote,
    ) -> Self {
        Self {
            protocol: Some(protocol),
            port_min: Some(ports.0.into()),
            port_max: Some(ports.1.into()),
            remote,
            ..Self::new(Direction::Ingress, family)
        }
    }

    /// A rule for all incoming traffic from a group.
    pub(crate) fn all_from(family: Family, group: &SecurityGroupId) -> Self {
        Self {
            remote: Remote::Group(group.clone()),
            ..Self::new(Direction::Ingress, family)
        }
    }
}

/// The range of ports as Neutron stores it, which takes all ports, 1 to 65535, for no range.
pub(crate) fn canonical_ports(min: Option<u32>, max: Option<u32>) -> (Option<u32>, Option<u32>) {
    match (min, max) {
        (Some(1), Some(65_535)) => (None, None),
        range => range,
    }
}

/// The canonical form of a range of addresses, as Neutron stores it. A text that is not a range stays as it is.
pub(crate) fn canonical(range: &str) -> String {
    range.parse::<IpNet>().map_or_else(
        |_| {
            range.parse::<std::net::IpAddr>().map_or_else(
                |_| range.to_owned(),
                |address| IpNet::from(address).to_string(),
            )
        },
        |net| net.trunc().to_string(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_compare_as_neutron_stores_them() {
        assert_eq!(canonical("10.1.2.3/8"), "10.0.0.0/8");
        assert_eq!(canonical("10.1.2.3"), "10.1.2.3/32");
        assert_eq!(canonical("2001:DB8::1/32"), "2001:db8::/32");
    }
}
