//! v1alpha1: kinds that have no later version. They accept what CAPO up to 0.14 stores and what later versions store,
//! because both were called v1alpha1 and nothing converts between them.

mod cluster_identity;
mod floating_ip_pool;
mod server;
mod stored;

pub use cluster_identity::*;
pub use floating_ip_pool::*;
pub use server::*;
