//! The functional core of `src/membership` alone, without tasks, clients and Kubernetes: it builds in seconds, so that
//! a million histories, a whole state space and a thousand mutants are affordable. The files are those of the package.

#![allow(dead_code, reason = "the shell around the core is not here to use it")]

pub mod membership;
#[path = "../../src/names.rs"]
pub mod names;
pub mod status;
