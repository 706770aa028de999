//! The controller of `OpenStackMachineTemplate`. It reports the capacity of a node made from the template, so that the
//! cluster autoscaler can scale a node group up from zero. A pass determines whose credentials to use, looks up flavor
//! and image ([`flavor`]), and writes the status ([`report`]).
//!
//! A flavor or image of a name hardly ever changes, so the result of a lookup is used for [`HOLDS`].

mod address_pairs;
mod capacity;
mod flavor;
mod report;

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use futures::{FutureExt, future::BoxFuture};
use jiff::Timestamp;
use kube::{ResourceExt, runtime::reflector::ObjectRef};

use super::{
    Context, Outcome,
    capi::{self, Cluster},
};
use crate::kubernetes::patch::write_status;
use crate::reconcile::{is_left_alone, name_of};
use capacity::Offer;
use capo_api::v1beta2::{IdentityRef, OpenStackMachineTemplate};
use report::Report;

/// The controller's name in logs and metrics.
pub(super) const CONTROLLER: &str = "openstackmachinetemplate";

/// How long the result of a lookup of flavor and image is used.
const HOLDS: Duration = Duration::from_hours(1);

/// One pass over an `OpenStackMachineTemplate`.
pub(super) fn pass(
    object: Arc<OpenStackMachineTemplate>,
    context: Arc<Context>,
) -> BoxFuture<'static, Outcome> {
    async move { Box::pin(one_pass(&object, &context)).await }.boxed()
}

async fn one_pass(object: &OpenStackMachineTemplate, context: &Context) -> Outcome {
    let namespace = object.namespace().unwrap_or_default();
    let owner = capi::owner(&object.metadata, "Cluster").and_then(|owner| {
        let key = ObjectRef::<Cluster>::new(&owner.name).within(&namespace);
        context.stores.clusters.get(&key)
    });
    let paused = owner.as_ref().is_some_and(|cluster| cluster.spec.paused)
        || capi::has_annotation(&object.metadata, capi::PAUSED_ANNOTATION);
    let (report, outcome) = if paused {
        (Report::paused(), Outcome::Done)
    } else if is_left_alone(&object.metadata) {
        return Outcome::Done;
    } else {
        match address_pairs::note(object, context).await {
            Ok(()) => look_up(object, owner.as_deref(), context).await,
            Err(error) => {
                let outcome = error.outcome.clone();
                (Report::failed(error), outcome)
            }
        }
    };
    let now = Timestamp::now();
    let api = context.api(&namespace);
    match write_status(&context.replaced, &api, object, |fresh| {
        report::status(fresh, &report, now)
    })
    .await
    {
        Ok(_) => outcome,
        Err(error) => Outcome::status_not_written(&error),
    }
}

/// Determines what the template offers, from memory or from OpenStack, and the outcome of the pass.
async fn look_up(
    object: &OpenStackMachineTemplate,
    owner: Option<&Cluster>,
    context: &Context,
) -> (Report, Outcome) {
    let Some(reference) = identity_of(object, owner, context) else {
        return (Report::without_credentials(), Outcome::Done);
    };
    let (name, uid) = (name_of(object), object.metadata.uid.as_deref());
    let now = Instant::now();
    let inputs = Inputs {
        generation: object.metadata.generation,
        reference,
    };
    let cache = &context.machine_templates;
    let known = cache.get(&name, uid);
    if let Some(offer) = known.and_then(|known| known.offer(&inputs, now)) {
        return (Report::of(offer), Outcome::Done);
    }
    match flavor::offer(object, &name, &inputs.reference, context).await {
        Ok(offer) => {
            let found = LookedUp {
                inputs,
                offer: offer.clone(),
                at: Instant::now(),
            };
            cache.put(&name, uid, found);
            (Report::of(offer), Outcome::Done)
        }
        Err(error) => {
            let outcome = error.outcome.clone();
            (Report::failed(error), outcome)
        }
    }
}

/// The credentials to use: the template's own, or those of the cluster that owns it.
fn identity_of(
    object: &OpenStackMachineTemplate,
    owner: Option<&Cluster>,
    context: &Context,
) -> Option<IdentityRef> {
    let own = object.spec.template.spec.identity_ref.clone();
    own.or_else(|| {
        let name = &owner?.spec.infrastructure_ref.as_ref()?.name;
        let key = ObjectRef::new(name).within(&object.namespace()?);
        let cluster = context.stores.openstack_clusters.get(&key)?;
        Some(cluster.spec.identity_ref.clone())
    })
}

/// The inputs of the lookup besides the template's UID. If they change, the lookup is repeated.
#[derive(Debug, Clone, PartialEq)]
struct Inputs {
    generation: Option<i64>,
    reference: IdentityRef,
}

/// The result of the lookup for a template.
#[derive(Debug, Clone)]
pub(super) struct LookedUp {
    inputs: Inputs,
    offer: Offer,
    at: Instant,
}

impl LookedUp {
    /// The offer, if it is still valid for these inputs.
    fn offer(self, inputs: &Inputs, now: Instant) -> Option<Offer> {
        let holds = self.inputs == *inputs && now.saturating_duration_since(self.at) < HOLDS;
        holds.then_some(self.offer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_holds_for_an_hour_and_for_its_own_inputs() {
        let now = Instant::now();
        let inputs = |generation| Inputs {
            generation: Some(generation),
            reference: IdentityRef::default(),
        };
        let known = LookedUp {
            inputs: inputs(1),
            offer: Offer::default(),
            at: now,
        };
        let minutes = |minutes| now + Duration::from_mins(minutes);
        let offer = |inputs, now| known.clone().offer(&inputs, now);
        assert!(offer(inputs(1), minutes(59)).is_some());
        assert!(offer(inputs(1), minutes(60)).is_none());
        assert!(offer(inputs(2), now).is_none());
    }
}
