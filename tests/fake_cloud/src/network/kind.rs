//! The kinds of Neutron resources: their names on the wire, in errors and in quotas.

use crate::wire::Reply;

use super::neutron_error;

/// A kind of Neutron resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    /// A network.
    Network,
    /// A subnet.
    Subnet,
    /// A port.
    Port,
    /// A router.
    Router,
    /// A floating IP.
    FloatingIp,
    /// A security group.
    SecurityGroup,
    /// A rule of a security group.
    SecurityGroupRule,
    /// A trunk.
    Trunk,
}

impl Kind {
    /// Every kind.
    pub const ALL: [Self; 8] = [
        Self::Network,
        Self::Subnet,
        Self::Port,
        Self::Router,
        Self::FloatingIp,
        Self::SecurityGroup,
        Self::SecurityGroupRule,
        Self::Trunk,
    ];

    /// The path segment.
    pub const fn collection(self) -> &'static str {
        match self {
            Self::Network => "networks",
            Self::Subnet => "subnets",
            Self::Port => "ports",
            Self::Router => "routers",
            Self::FloatingIp => "floatingips",
            Self::SecurityGroup => "security-groups",
            Self::SecurityGroupRule => "security-group-rules",
            Self::Trunk => "trunks",
        }
    }

    /// The key of a list in a body.
    pub fn plural(self) -> String {
        self.collection().replace('-', "_")
    }

    /// The key of one resource in a body, which is also its name in quotas.
    pub const fn singular(self) -> &'static str {
        match self {
            Self::Network => "network",
            Self::Subnet => "subnet",
            Self::Port => "port",
            Self::Router => "router",
            Self::FloatingIp => "floatingip",
            Self::SecurityGroup => "security_group",
            Self::SecurityGroupRule => "security_group_rule",
            Self::Trunk => "trunk",
        }
    }

    /// The kind behind a path segment.
    pub fn of_collection(segment: &str) -> Option<Self> {
        let segment = segment.replace('_', "-");
        Self::ALL
            .into_iter()
            .find(|kind| kind.collection() == segment)
    }

    /// 404 for an id of this kind.
    pub fn not_found(self, id: &str) -> Reply {
        let (kind, message) = match self {
            Self::Network => (
                "NetworkNotFound",
                format!("Network {id} could not be found."),
            ),
            Self::Subnet => ("SubnetNotFound", format!("Subnet {id} could not be found.")),
            Self::Port => ("PortNotFound", format!("Port {id} could not be found.")),
            Self::Router => ("RouterNotFound", format!("Router {id} could not be found")),
            Self::FloatingIp => (
                "FloatingIPNotFound",
                format!("Floating IP {id} could not be found"),
            ),
            Self::SecurityGroup => (
                "SecurityGroupNotFound",
                format!("Security group {id} does not exist"),
            ),
            Self::SecurityGroupRule => (
                "SecurityGroupRuleNotFound",
                format!("Security group rule {id} does not exist"),
            ),
            Self::Trunk => ("TrunkNotFound", format!("Trunk {id} could not be found.")),
        };
        neutron_error(404, kind, message)
    }

    /// Attributes by which a list of this kind can be filtered besides those in its rows.
    pub const fn filters(self) -> &'static [&'static str] {
        match self {
            Self::Port => &["fixed_ips", "ip_allocation", "binding:host_id"],
            _ => &[],
        }
    }
}
