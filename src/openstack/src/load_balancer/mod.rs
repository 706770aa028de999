//! Octavia: load balancers, listeners, pools, health monitors, members, and the status tree.

mod calls;
mod types;

use crate::ApiVersion;

pub use capo_core::octavia::{
    HealthMonitor, HealthMonitorFilter, HealthMonitorUpdate, LbAlgorithm, Listener,
    ListenerProtocol, ListenerUpdate, Member, MemberUpdate, MonitorParameters, MonitorType,
    NewHealthMonitor, NewListener, NewMember, NewPool, Pool, PoolProtocol, PoolUpdate, StatusTree,
    TreeListener, TreeMember, TreeMonitor, TreePool,
};
pub use types::{LoadBalancer, LoadBalancerFilter, LoadBalancerFlavor, NewLoadBalancer, Provider};

/// The first version of Octavia's API whose listeners have `allowed_cidrs`; an older one refuses a request that names
/// them.
pub const ALLOWED_CIDRS: ApiVersion = ApiVersion::new(2, 12);
