//! The cluster controller against a real kube-apiserver and the fake cloud.

mod bad_input;
mod life;
mod load_balancer;
mod stage;
