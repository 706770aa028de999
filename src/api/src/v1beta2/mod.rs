//! v1beta2: the version that is stored and that the controllers work with.
//!
//! Types without a kind of their own are shared with the other versions wherever they look the same
//! on the wire.

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
