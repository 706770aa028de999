//! Admission and version conversion: pure functions and a small HTTPS server.
//!
//! | part | does |
//! |---|---|
//! | [`conversion`] | v1beta1 ↔ v1beta2 of the four kinds that have both |
//! | [`validation`] | what the schemas can't express: which fields may change, and when |
//! | [`server`] | the HTTPS server that the API server calls |

pub mod conversion;
mod json;
mod review;
pub mod server;
mod size_estimate;
pub mod validation;

pub use review::{ReviewError, ReviewType};
