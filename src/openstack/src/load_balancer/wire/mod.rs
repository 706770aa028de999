//! Octavia's objects as they are read and written. Only the fields that capo-rs uses are declared; others are ignored.

mod health_monitor;
mod listener;
mod load_balancer;
mod member;
mod pool;

pub use health_monitor::{
    HealthMonitor, HealthMonitorFilter, HealthMonitorUpdate, NewHealthMonitor,
};
pub use listener::{Listener, ListenerUpdate, NewListener};
pub use load_balancer::{
    LoadBalancer, LoadBalancerFilter, LoadBalancerFlavor, NewLoadBalancer, Provider,
};
pub use member::{Member, MemberUpdate, NewMember};
pub use pool::{NewPool, Pool, PoolUpdate};
