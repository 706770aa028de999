//! Of what users read, the closed set of reasons.

#[path = "../../src/status/reason.rs"]
mod reason;

pub use reason::Reason;
