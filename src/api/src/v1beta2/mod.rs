//! v1beta2: the version that is stored and that the controllers work with.
//!
//! Types that are not kinds are shared with the other versions where their JSON is the same.

mod cluster;
mod compute;
mod identity;
mod load_balancer;
mod machine;
mod network;
mod ports;
mod security_groups;
mod templates;
mod volumes;

pub use cluster::*;
pub use compute::*;
pub use identity::*;
pub use load_balancer::*;
pub use machine::*;
pub use network::*;
pub use ports::*;
pub use security_groups::*;
pub use templates::*;
pub use volumes::*;
