//! The modules that use the Kubernetes API: the client and its request budget, the leader lease, events, and patches of
//! objects with their conditions.

mod budget;
mod client;
pub mod conditions;
#[cfg(test)]
pub(crate) mod conflict_once;
pub mod events;
pub mod leader;
pub mod patch;
pub mod replaced_versions;
mod request_count;

pub use client::{ConnectError, connect};
pub use request_count::RequestObserver;

pub(crate) use budget::{BURST, Budget, QPS};
pub(crate) use client::{client, config, follow_availability, until_it_answers};
