//! Make OpenStack match the objects. A pass is observe, plan, act, report; none ever waits.

mod alone;
mod backoff;
pub mod capi;
pub mod cluster;
mod cluster_identity;
mod cluster_template;
mod context;
mod floating_ip_pool;
mod health;
mod health_check;
pub mod hooks;
pub mod identity;
mod lookup;
pub mod machine;
mod machine_template;
mod news;
mod observer;
mod outcome;
mod pass;
mod queue;
pub mod release_hooks;
mod run;
pub mod server;
mod wakes;
mod watches;

pub use context::{Context, Settings, Stores};
pub use lookup::UncachedMachines;
pub use observer::{Observer, WatchBreak};
pub use outcome::Outcome;
pub use queue::{Depth, Queue};
pub use run::{Parts, run};
