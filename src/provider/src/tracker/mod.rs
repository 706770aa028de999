//! One worker per load balancer, which reads Octavia, carries out the decisions of [`capo_gate`] and publishes the
//! findings.
//!
//! Controllers pass desired state to the registry and read findings from it. They never wait for a worker.

mod clusters;
mod failure;
mod inbox;
mod machine_lookup;
pub mod octavia_client;
mod output;
mod part_change;
pub mod prober;
mod published;
mod registry;
mod status_lists;
mod worker;

pub use machine_lookup::{LookupError, MachineLookup};
pub use octavia_client::OctaviaClient;
pub use output::TrackerOutput;
pub use part_change::PartChange;
pub use registry::Tracker;
