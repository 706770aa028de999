//! What is inside a load balancer: which listeners, pools, monitors and members exist, which should,
//! what state they are in, when to look again, and whether the gates are open.
//!
//! One task per load balancer makes every change in it (Octavia locks a whole load balancer per
//! operation). Controllers hand it what they want ([`desired`]) and read what it found
//! ([`findings`]); they never wait for it.

mod absorb;
pub mod classify;
pub mod desired;
pub mod effect;
pub mod event;
pub mod findings;
pub mod gate;
mod ground;
mod judge;
mod links;
mod list;
mod machines;
mod members;
mod mend;
mod observe;
mod observer;
pub mod octavia;
mod parts;
mod plan;
mod release;
mod report;
mod schedule;
pub mod serves;
mod settings;
pub mod state;
mod step;
mod structure;
#[cfg(test)]
mod tests;
mod verdict;
mod words;
mod written;

pub use findings::Publication;
pub use observer::{Decision, GateName, Observer, Operation, OperationOutcome, Unobserved};
pub use parts::JOINING;
pub use report::report;
pub use settings::{Schedule, Settings};
pub use step::step;
