//! Conversion, admission and storage migration: the listener as a stranger
//! meets it, and behind a real kube-apiserver.

mod admission;
mod bad_input;
mod kubectl;
mod listener;
mod migration;
mod versions;
