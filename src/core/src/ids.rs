//! The ids of OpenStack objects, one type for each kind, so that two ids can't be swapped.

/// Defines a newtype around the text of an OpenStack id.
macro_rules! ids {
    ($($(#[$meta:meta])* $name:ident,)+) => {$(
        $(#[$meta])*
        #[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
        #[serde(transparent)]
        pub struct $name(String);

        impl $name {
            /// The id `id`, as OpenStack wrote it.
            pub fn new(id: impl Into<String>) -> Self {
                Self(id.into())
            }

            /// The id as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl From<String> for $name {
            fn from(id: String) -> Self {
                Self(id)
            }
        }

        impl From<&str> for $name {
            fn from(id: &str) -> Self {
                Self(id.to_owned())
            }
        }

        impl From<$name> for String {
            fn from(id: $name) -> Self {
                id.0
            }
        }

        impl AsRef<str> for $name {
            fn as_ref(&self) -> &str {
                &self.0
            }
        }

        impl PartialEq<str> for $name {
            fn eq(&self, other: &str) -> bool {
                self.0 == other
            }
        }

        impl PartialEq<&str> for $name {
            fn eq(&self, other: &&str) -> bool {
                self.0 == *other
            }
        }

        impl PartialEq<String> for $name {
            fn eq(&self, other: &String) -> bool {
                self.0 == *other
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(&self.0)
            }
        }
    )+};
}

ids! {
    /// Id of an Octavia load balancer.
    LoadBalancerId,
    /// Id of an Octavia listener.
    ListenerId,
    /// Id of an Octavia pool.
    PoolId,
    /// Id of an Octavia pool member.
    MemberId,
    /// Id of an Octavia flavor.
    LoadBalancerFlavorId,
    /// Id of an Octavia health monitor.
    MonitorId,
    /// Id of a Neutron network.
    NetworkId,
    /// Id of a Neutron subnet.
    SubnetId,
    /// Id of a Neutron router.
    RouterId,
    /// Id of a Neutron port.
    PortId,
    /// Id of a Neutron trunk.
    TrunkId,
    /// Id of a Neutron floating IP.
    FloatingIpId,
    /// Id of a Neutron security group.
    SecurityGroupId,
    /// Id of a Neutron security group rule.
    SecurityGroupRuleId,
    /// Id of a Nova server.
    ServerId,
    /// Id of a Nova server group.
    ServerGroupId,
    /// Id of a Nova flavor.
    FlavorId,
    /// Id of a Glance image.
    ImageId,
    /// Id of a Cinder volume.
    VolumeId,
    /// Id of a Keystone project.
    ProjectId,
}
