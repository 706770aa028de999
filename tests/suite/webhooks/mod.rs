//! Conversion, admission and storage migration: the listener as a stranger
//! meets it, and behind a real kube-apiserver.

mod admission;
mod bad_input;
pub(crate) use test_support::fixture;
mod kubectl;
mod listener;
mod migration;
mod versions;
