//! The cluster controller against a real kube-apiserver and the fake cloud.

mod adopted;
mod bad_input;
mod bastion;
pub(crate) mod brought;
mod calls;
mod chosen;
mod deletion;
mod documented;
mod drift;
mod events;
mod killed;
mod life;
mod load_balancer;
mod made_by_capo;
mod without_load_balancer;

use fake_cloud::{Durations, Options};

/// A cloud in which a load balancer takes its steps one after the other, as quickly as tests can follow.
fn quick() -> Options {
    Options {
        durations: Durations {
            load_balancer_create: 0.5,
            load_balancer_delete: 0.3,
            operation: 0.1,
            agent: 0.1,
            ..Durations::default()
        },
        data_path: false,
        ..Options::default()
    }
}
