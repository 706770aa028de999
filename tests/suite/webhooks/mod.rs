//! Conversion, admission and storage migration: whole generated objects, the listener as a stranger
//! meets it, and both behind a real kube-apiserver.

mod admission;
pub(crate) mod fixture;
mod listener;
mod migration;
mod round_trip;
mod schema;
mod versions;
