//! The controllers make OpenStack match the Kubernetes objects. A pass observes, validates, plans, acts and reports,
//! and never waits.

mod address_pairs;
pub mod cluster;
mod cluster_identity;
mod cluster_template;
mod context;
mod floating_ip_pool;
pub mod machine;
mod machine_template;
pub(crate) mod project_match;
mod routes;
mod run;
mod secret_rotation;
pub mod server;
mod simple_controllers;

pub(crate) use crate::reconcile::health;
pub use crate::reconcile::{
    ClusterIdentityDefault, Outcome, PassObserver, PassResult, QueueDepth, QueueMetrics, Settings,
    Stores, UncachedMachines, WatchBreak, capi, deletion_hooks, identity,
};
pub use context::Context;
pub use run::{Parts, run};
