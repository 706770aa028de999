//! Neutron: networks, subnets, ports, routers, floating IPs, security groups, trunks, tags.

mod floating_ips;
mod networks;
mod ports;
mod project_networking;
mod routers;
mod security_groups;
mod tags;
mod trunks;

pub use super::wire::{FixedIp, TagFilter};
pub use floating_ips::{FloatingIp, FloatingIpFilter, NewFloatingIp};
pub use networks::{
    AllocationPool, Ipv6Mode, Network, NetworkFilter, NewNetwork, NewSubnet, Subnet, SubnetFilter,
    SubnetUpdate,
};
pub use ports::{AddressPair, NewPort, Port, PortFilter, PortStatus, PortUpdate};
pub use project_networking::{ProjectNetworking, ROUTER_INTERFACE_OWNERS};
pub use routers::{
    ExternalGateway, NewRouter, Router, RouterFilter, RouterInterface, RouterUpdate,
};
pub use security_groups::{
    Direction, EtherType, NewSecurityGroup, NewSecurityGroupRule, SecurityGroup,
    SecurityGroupFilter, SecurityGroupRule,
};
pub use tags::Tagged;
pub use trunks::{NewTrunk, SubPort, Trunk};
