//! Tags of Neutron objects.

use capo_core::ids::{
    FloatingIpId, NetworkId, PortId, RouterId, SecurityGroupId, SubnetId, TrunkId,
};

use crate::{
    Service,
    request::{Call, calls},
};

/// An object that has tags.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Tagged<'a> {
    /// A network.
    Network(&'a NetworkId),
    /// A subnet.
    Subnet(&'a SubnetId),
    /// A port.
    Port(&'a PortId),
    /// A router.
    Router(&'a RouterId),
    /// A floating IP.
    FloatingIp(&'a FloatingIpId),
    /// A security group.
    SecurityGroup(&'a SecurityGroupId),
    /// A trunk.
    Trunk(&'a TrunkId),
}

impl Tagged<'_> {
    fn path(&self) -> [&str; 3] {
        let (collection, id) = match self {
            Self::Network(id) => ("networks", id.as_str()),
            Self::Subnet(id) => ("subnets", id.as_str()),
            Self::Port(id) => ("ports", id.as_str()),
            Self::Router(id) => ("routers", id.as_str()),
            Self::FloatingIp(id) => ("floatingips", id.as_str()),
            Self::SecurityGroup(id) => ("security-groups", id.as_str()),
            Self::Trunk(id) => ("trunks", id.as_str()),
        };
        [collection, id, "tags"]
    }
}

calls! {
    /// Replaces the tags of an object. Needs the extension `standard-attr-tag`
    /// ([`Cloud::network_extensions`](crate::Cloud::network_extensions)).
    fn replace_tags(object: Tagged<'_>, tags: &[String]) -> () = done(
        Call::put(Service::Network, "attributes_tags_replace_all", object.path()).json("tags", tags)
    );
}
