//! Make OpenStack match the objects. A pass is observe, plan, act, report; none ever waits.

mod backoff;
pub mod capi;
pub mod cluster;
mod context;
pub mod identity;
mod lookup;
pub mod machine;
mod outcome;
mod pass;
mod run;
pub mod server;
mod wakes;
mod watches;

pub use context::{Context, PassObserver, Settings, Stores};
pub use lookup::UncachedMachines;
pub use outcome::Outcome;
pub use run::{Parts, run};
