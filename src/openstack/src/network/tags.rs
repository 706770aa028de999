//! Tags of Neutron objects.

use crate::{Cloud, Error, Service, request::Call};
use capo_core::Priority;

/// Which objects carry tags.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Tagged {
    /// Networks.
    Network,
    /// Subnets.
    Subnet,
    /// Ports.
    Port,
    /// Routers.
    Router,
    /// Floating IPs.
    FloatingIp,
    /// Security groups.
    SecurityGroup,
    /// Trunks.
    Trunk,
}

impl Tagged {
    fn collection(self) -> &'static str {
        match self {
            Self::Network => "networks",
            Self::Subnet => "subnets",
            Self::Port => "ports",
            Self::Router => "routers",
            Self::FloatingIp => "floatingips",
            Self::SecurityGroup => "security-groups",
            Self::Trunk => "trunks",
        }
    }
}

impl Cloud {
    /// Gives an object exactly these tags. Needs the extension `standard-attr-tag`
    /// ([`Cloud::network_extensions`]).
    pub async fn replace_tags(
        &self,
        kind: Tagged,
        id: &str,
        tags: &[String],
        priority: Priority,
    ) -> Result<(), Error> {
        let path = [kind.collection(), id, "tags"];
        let call = Call::put(Service::Network, "attributes_tags_replace_all", path)
            .json("tags", tags)
            .at(priority);
        self.done(call).await
    }
}
