//! The OpenStack client: sign-in, catalogue, one request budget per cloud, credential and service,
//! error classes, and thin typed calls. It never decides what should exist.

mod lease;

pub use lease::LeaseToken;
