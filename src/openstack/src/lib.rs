//! The OpenStack client: sign-in, catalogue, one request budget per cloud, credential and service, error classes, and
//! thin typed calls. The client never decides which objects should exist.
//!
//! [`Clouds`] provides one [`Cloud`] per [`CloudProfile`]. The calls are methods of `Cloud`, in [`load_balancer`],
//! [`network`], [`compute`], [`image`] and [`volume`]. Every call goes through `Cloud::send`, so that the budget, the
//! lease token, the pause after a 429, the renewal of tokens and the metrics are handled in one place.

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
mod quota;
mod read_cache;
mod request;
mod send;
mod sent;
mod service;
mod session;
mod settings;
mod shared_reads;
pub mod volume;
mod wire;

pub use cloud::Cloud;
pub use cloud_pool::Clouds;
pub use error::Error;
pub use lease::LeaseToken;
pub use observer::{CallObserver, CallOutcome, CallRecord, NoObserver, SignInOutcome, UnsentWrite};
pub use profile::{CloudProfile, Interface, ProfileError};
pub use quota::{LimitedResource, Quota};
pub use read_cache::Read;
pub use send::budget::Level;
pub use sent::{Withdrawal, when_sent};
pub use service::{ApiVersion, Service};
pub use settings::ClientSettings;
pub use shared_reads::SharedReads;
