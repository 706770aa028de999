//! The cluster controller against a real kube-apiserver and the fake cloud.

mod adopted;
mod bad_input;
mod bastion;
pub(crate) mod brought;
mod calls;
mod changed;
mod chosen;
mod deletion;
mod documented;
mod drift;
mod events;
mod killed;
mod life;
mod load_balancer;
mod lost_answers;
mod made_by_capo;
mod old_proof;
mod without_load_balancer;

use fake_cloud::{Durations, Options};
use k8s_openapi::api::events::v1::Event;
use kube::{Api, api::ListParams};
use test_support::{env::Environment, waiting::until};

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

/// Waits for an event with this reason whose note contains `text`.
async fn until_reported(environment: &Environment, reason: &str, text: &str) {
    let events: Api<Event> = Api::namespaced(environment.admin.clone(), &environment.namespace);
    until(&format!("{reason}: {text}"), async || {
        let list = events.list(&ListParams::default()).await.unwrap();
        let mut items = list.items.iter();
        let is_there = items.any(|event| {
            let note = event.note.as_deref().unwrap_or_default();
            event.reason.as_deref() == Some(reason) && note.contains(text)
        });
        is_there.then_some(())
    })
    .await;
}
