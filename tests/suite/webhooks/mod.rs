//! Conversion, admission and storage migration: the listener with any client, and behind a real kube-apiserver.

mod admission;
mod bad_input;
mod kubectl;
mod listener;
mod migration;
mod stop;
mod versions;
