//! One worker per load balancer: it reads Octavia, does what [`capo_gate`] decides and publishes the findings.
//!
//! Controllers hand over desired state to the registry and read findings from it. They never wait for a worker.

mod inbox;
pub mod octavia_client;
pub mod prober;
mod registry;
mod worker;

pub use octavia_client::OctaviaClient;
pub use registry::{MachineLookup, Membership};
