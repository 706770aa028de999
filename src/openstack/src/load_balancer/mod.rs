//! Octavia: load balancers, listeners, pools, health monitors, members, and the status tree.

mod calls;
mod status_tree;
mod types;
mod wire;

use crate::ApiVersion;

pub use capo_core::MonitorType;
pub use status_tree::{ListenerStatus, MemberStatus, MonitorStatus, PoolStatus, StatusTree};
pub use types::{LbAlgorithm, ListenerProtocol, PoolProtocol};
pub use wire::{
    HealthMonitor, HealthMonitorFilter, HealthMonitorUpdate, Listener, ListenerUpdate,
    LoadBalancer, LoadBalancerFilter, LoadBalancerFlavor, Member, MemberUpdate, NewHealthMonitor,
    NewListener, NewLoadBalancer, NewMember, NewPool, Pool, PoolUpdate, Provider,
};

/// The first version of Octavia's API whose listeners have `allowed_cidrs`; an older one refuses a request that names them.
pub const ALLOWED_CIDRS: ApiVersion = ApiVersion::new(2, 12);
