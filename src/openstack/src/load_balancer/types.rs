//! Load balancers, their flavors and providers.

use std::net::IpAddr;

use serde::{Deserialize, Serialize};

use crate::wire::TagFilter;
use capo_core::ids::{
    ListenerId, LoadBalancerFlavorId, LoadBalancerId, NetworkId, PoolId, PortId, ProjectId,
    SubnetId,
};
use capo_core::wire::{Reference, null_as_default, parsed, yes};
use capo_core::{OperatingStatus, ProvisioningStatus};

/// A load balancer.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct LoadBalancer {
    /// Octavia's id.
    pub id: LoadBalancerId,
    /// Its name; not unique.
    #[serde(default, deserialize_with = "null_as_default")]
    pub name: String,
    /// Its description.
    #[serde(default, deserialize_with = "null_as_default")]
    pub description: String,
    /// The progress of the last change. While it is PENDING, Octavia answers 409 to every write to any part of it.
    pub provisioning_status: ProvisioningStatus,
    /// The state of the data path.
    #[serde(default)]
    pub operating_status: OperatingStatus,
    /// The provider's name. Octavia shows its default where none was given.
    #[serde(default)]
    pub provider: Option<String>,
    /// The virtual address.
    #[serde(default, deserialize_with = "parsed")]
    pub vip_address: Option<IpAddr>,
    /// The Neutron port that has the virtual address.
    #[serde(default)]
    pub vip_port_id: Option<PortId>,
    /// Its network.
    #[serde(default)]
    pub vip_network_id: Option<NetworkId>,
    /// The project.
    #[serde(default)]
    pub project_id: Option<ProjectId>,
    /// Octavia's flavor id.
    #[serde(default)]
    pub flavor_id: Option<LoadBalancerFlavorId>,
    /// Octavia's availability zone.
    #[serde(default)]
    pub availability_zone: Option<String>,
    /// Its tags.
    #[serde(default, deserialize_with = "null_as_default")]
    pub tags: Vec<String>,
    /// Its listeners.
    #[serde(default, deserialize_with = "null_as_default")]
    pub listeners: Vec<Reference<ListenerId>>,
    /// Its pools, including those without a listener.
    #[serde(default, deserialize_with = "null_as_default")]
    pub pools: Vec<Reference<PoolId>>,
    /// The time of the last change in whole seconds, as Octavia sent it. It may be compared for equality only.
    #[serde(default)]
    pub updated_at: Option<String>,
}

/// The load balancers to list: those that match every field which is set.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LoadBalancerFilter {
    /// The exact name.
    pub name: Option<String>,
    /// The project. Without it, a credential with wider rights also lists load balancers of other projects.
    pub project_id: Option<ProjectId>,
    /// The network of the address.
    pub vip_network_id: Option<NetworkId>,
    /// The tags.
    pub tags: TagFilter,
}

/// A load balancer to create. Octavia needs a network or a subnet for its address.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Default)]
pub struct NewLoadBalancer {
    /// Its name.
    pub name: String,
    /// Its description.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// Its address; Octavia chooses one where none is given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vip_address: Option<IpAddr>,
    /// The network of its address.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vip_network_id: Option<NetworkId>,
    /// The subnet of its address.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vip_subnet_id: Option<SubnetId>,
    /// The provider; Octavia uses its default where none is given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provider: Option<String>,
    /// Octavia's flavor id.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub flavor_id: Option<LoadBalancerFlavorId>,
    /// Octavia's availability zone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub availability_zone: Option<String>,
    /// Its tags.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
}

/// A provider that is enabled in this cloud.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Provider {
    /// Its name: `amphora`, `ovn`, …
    pub name: String,
}

/// An Octavia flavor.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct LoadBalancerFlavor {
    /// Octavia's id.
    pub id: LoadBalancerFlavorId,
    /// Its name.
    #[serde(default, deserialize_with = "null_as_default")]
    pub name: String,
    /// Whether it can be used.
    #[serde(default = "yes")]
    pub enabled: bool,
}
