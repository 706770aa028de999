//! Octavia's objects as they are read and written. Only the fields that capo-rs uses are declared; others are ignored.

mod health_monitor;
mod listener;
mod member;
mod pool;
mod protocol;
mod provider;
mod status;
mod status_tree;

pub use health_monitor::{
    HealthMonitor, HealthMonitorFilter, HealthMonitorUpdate, MonitorParameters, NewHealthMonitor,
};
pub use listener::{Listener, ListenerUpdate, NewListener};
pub use member::{Member, MemberUpdate, NewMember};
pub use pool::{NewPool, Pool, PoolUpdate};
pub use protocol::{LbAlgorithm, ListenerProtocol, PoolProtocol};
pub use provider::Provider;
pub use status::{MemberStatus, MonitorType, OperatingStatus, ProvisioningStatus};
pub use status_tree::{StatusTree, TreeListener, TreeMember, TreeMonitor, TreePool};
