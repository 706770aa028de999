//! What is inside a load balancer: which listeners, pools, monitors and members exist, which should,
//! what state they are in, when to look again, and whether the gates are open.
//!
//! One task per load balancer makes every change in it (Octavia locks a whole load balancer per
//! operation). Controllers hand it what they want ([`desired`]) and read what it found
//! ([`findings`]); they never wait for it.

pub mod desired;
pub mod findings;
mod mail;
mod observer;
pub mod octavia;
mod registry;
mod settings;
mod wakes;

pub use observer::{Decision, GateName, Observer, Operation, OperationOutcome, Unobserved};
pub use registry::{MachineLookup, Membership};
pub use settings::{GateMode, Schedule, Settings};
