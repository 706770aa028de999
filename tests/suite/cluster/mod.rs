//! The cluster controller against a real kube-apiserver and the fake cloud.

mod adopted;
mod bad_input;
mod brought;
mod life;
mod load_balancer;
mod refused;
mod stage;
