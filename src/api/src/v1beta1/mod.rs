//! v1beta1: the version that every released CAPO stores. Served, and converted from and to v1beta2.

mod cluster;
mod machine;
mod shared;
mod templates;

pub use cluster::*;
pub use machine::*;
pub use shared::*;
pub use templates::*;

pub use super::v1beta2::{
    AdditionalBlockDevice, AddressPair, AllocationPool, ApiEndpoint, ApiServerLoadBalancer,
    BindingProfile, BlockDeviceStorage, BlockDeviceType, BlockDeviceVolume, ExternalRouterIp,
    FixedIp, IdentityRef, IdentityRefType, ImageFilter, ImageParam, Initialization,
    LoadBalancerMemberStatus, LoadBalancerMonitor, LoadBalancerStatus, MachineResources,
    ManagedSecurityGroupName, ManagedServerGroup, NetworkFilter, NetworkParam, NetworkStatus,
    NetworkStatusWithSubnets, NodeAddress, NodeInfo, OpenStackClusterTemplateStatus, PortStatus,
    ResolvedFixedIp, ResourceReference, RootVolume, RouterFilter, RouterParam, RouterStatus,
    RuleDirection, RuleEtherType, SchedulerHint, SchedulerHintType, SchedulerHintValue,
    SecurityGroupFilter, SecurityGroupParam, SecurityGroupRuleSpec, SecurityGroupStatus,
    ServerGroupFilter, ServerGroupParam, ServerGroupPolicy, ServerMetadata, SubnetFilter,
    SubnetParam, SubnetSpec, SubnetStatus, TemplateMetadata, TypedLocalObjectReference, ValueSpec,
    VolumeAvailabilityZone, VolumeAvailabilityZoneSource,
};
