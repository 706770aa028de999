//! The OpenStack client: sign-in, catalogue, one request budget per cloud, credential and service,
//! error classes, and thin typed calls. It never decides what should exist.
//!
//! [`Clouds`] hands out a [`Cloud`] per [`CloudProfile`]; everything else hangs off `Cloud`:
//! [`load_balancer`], [`network`], [`compute`], [`image`], [`volume`]. Every call goes through
//! `Cloud::send`, so the budget, the lease token, the pause after a 429, the renewal of tokens and the
//! metrics are in one place.

mod cloud;
mod cloud_pool;
pub mod compute;
mod error;
pub mod image;
mod lease;
pub mod load_balancer;
pub mod network;
mod observer;
mod profile;
mod request;
mod send;
mod sent;
mod service;
mod session;
mod settings;
mod shared_reads;
pub mod volume;
mod wire;

pub use cloud::{Cloud, SentAt};
pub use cloud_pool::Clouds;
pub use error::Error;
pub use lease::LeaseToken;
pub use observer::{CallObserver, CallOutcome, CallRecord, NoObserver, SignInOutcome};
pub use profile::{CloudProfile, Interface, ProfileError};
pub use send::budget::Level;
pub use sent::when_sent;
pub use service::{ApiVersion, Service};
pub use settings::ClientSettings;
pub use shared_reads::{Read, SharedReads};
