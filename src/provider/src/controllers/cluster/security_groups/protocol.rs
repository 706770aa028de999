//! The protocols of security group rules, compared in the same way as in Neutron.

use std::fmt;

use super::family::Family;

/// A protocol. Neutron treats a name and its number as the same protocol, so a known name is stored as its number.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Protocol {
    /// The number that IANA assigned.
    Number(u8),
    /// A name that is not in Neutron's list.
    Other(String),
}

const ICMP: u8 = 1;
const IPV6_ICMP: u8 = 58;

/// Neutron's names of protocols. The first name of a number is the one that is sent.
const NAMES: [(u8, &str); 24] = [
    (51, "ah"),
    (33, "dccp"),
    (8, "egp"),
    (50, "esp"),
    (47, "gre"),
    (ICMP, "icmp"),
    (2, "igmp"),
    (4, "ipip"),
    (41, "ipv6-encap"),
    (44, "ipv6-frag"),
    (IPV6_ICMP, "ipv6-icmp"),
    (IPV6_ICMP, "icmpv6"),
    (59, "ipv6-nonxt"),
    (60, "ipv6-opts"),
    (43, "ipv6-route"),
    (89, "ospf"),
    (113, "pgm"),
    (46, "rsvp"),
    (132, "sctp"),
    (6, "tcp"),
    (17, "udp"),
    (136, "udplite"),
    (112, "vrrp"),
    (0, "hopopt"),
];

impl Protocol {
    /// TCP.
    pub(crate) const TCP: Self = Self::Number(6);
    /// UDP.
    pub(crate) const UDP: Self = Self::Number(17);

    /// Parses a name or a number. `None` means any protocol. In a rule for IPv6, ICMP means ICMPv6.
    pub(crate) fn parse(text: Option<&str>, family: Family) -> Option<Self> {
        let text = text?.trim().to_ascii_lowercase();
        if text.is_empty() || text == "any" {
            return None;
        }
        let named = NAMES.iter().find(|(_, name)| *name == text);
        let number = text.parse().ok().or(named.map(|(number, _)| *number));
        Some(match (number, family) {
            (Some(ICMP), Family::V6) => Self::Number(IPV6_ICMP),
            (Some(number), _) => Self::Number(number),
            (None, _) => Self::Other(text),
        })
    }
}

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => match NAMES.iter().find(|(known, _)| known == number) {
                Some((_, name)) => f.write_str(name),
                None => number.fmt(f),
            },
            Self::Other(name) => f.write_str(name),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_numbers_of_one_protocol_are_equal() {
        let cases = [
            (Some("TCP"), Family::V4, Some("tcp")),
            (Some("6"), Family::V4, Some("tcp")),
            (Some("icmp"), Family::V4, Some("icmp")),
            (Some("icmp"), Family::V6, Some("ipv6-icmp")),
            (Some("1"), Family::V6, Some("ipv6-icmp")),
            (Some("icmpv6"), Family::V6, Some("ipv6-icmp")),
            (Some("58"), Family::V6, Some("ipv6-icmp")),
            (Some("99"), Family::V4, Some("99")),
            (Some("carrier-pigeon"), Family::V4, Some("carrier-pigeon")),
            (Some("any"), Family::V4, None),
            (Some(""), Family::V4, None),
            (None, Family::V6, None),
        ];
        for (text, family, shown) in cases {
            let parsed = Protocol::parse(text, family).map(|protocol| protocol.to_string());
            assert_eq!(parsed.as_deref(), shown, "{text:?} {family:?}");
        }
    }
}
