//! The OpenStack client: sign-in, catalogue, one request budget per cloud, credential and service,
//! error classes, and thin typed calls. It never decides what should exist.
//!
//! [`Clouds`] hands out a [`Cloud`] per [`CloudProfile`]; everything else hangs off `Cloud`:
//! [`load_balancer`], [`network`], [`compute`], [`image`], [`volume`]. Every call goes through
//! `Cloud::send`, so the budget, the lease token, the pause after a 429, the renewal of tokens and the
//! metrics are in one place.

mod account;
mod budget;
mod calling;
mod catalogue;
mod circuit;
mod classify;
mod cloud;
mod clouds;
mod clouds_yaml;
pub mod compute;
mod discovery;
mod error;
mod error_text;
pub mod image;
mod lease;
pub mod load_balancer;
pub mod network;
mod observer;
mod paging;
mod profile;
mod request;
mod retry_after;
mod service;
mod sign_in;
mod transport;
pub mod volume;
mod wire;

pub use budget::Level;
pub use cloud::Cloud;
pub use clouds::{ClientSettings, Clouds};
pub use error::Error;
pub use lease::LeaseToken;
pub use observer::{CallObserver, CallOutcome, CallRecord, NoObserver, SignInOutcome};
pub use profile::{CloudProfile, Interface, ProfileError};
pub use service::{ApiVersion, Service};
