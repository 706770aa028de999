//! One worker per load balancer: it reads Octavia, asks [`capo_gate`] what to do, does it and publishes the findings.
//!
//! Controllers hand over what they want and read what was found; they never wait for a worker.

mod inbox;
pub mod octavia_client;
pub mod prober;
mod registry;
mod wakes;
mod worker;

pub use octavia_client::OctaviaClient;
pub use registry::{MachineLookup, Membership};
