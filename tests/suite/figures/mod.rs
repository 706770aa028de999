//! Figures that are counted, on the manager as a process: calls that OpenStack got, writes that Kubernetes got.

mod calls;
mod outages;
mod quiet;
use test_support::measured_environment;
mod sign_ins;
mod writes;
