//! The `OpenStackMachineTemplate`: what a node made from it would have, so that the cluster autoscaler can
//! scale a node group up from nothing. A pass finds out whose credentials to use, looks flavor and image
//! up ([`lookup`]), and writes the status ([`report`]).
//!
//! A flavor or image of that name hardly ever changes, so what was looked up holds for [`HOLDS`].

mod capacity;
mod lookup;
mod report;

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use futures::{FutureExt, future::BoxFuture};
use jiff::Timestamp;
use kube::{ResourceExt, runtime::reflector::ObjectRef};

use super::{
    Context, Outcome,
    alone::{is_to_be_left, unwritten},
    capi::{self, Cluster},
};
use crate::status::patch::write_status;
use capacity::Offer;
use capo_api::v1beta2::{IdentityRef, OpenStackMachineTemplate};
use capo_core::ObjectName;
use report::Report;

/// The controller's name in logs and metrics.
pub(super) const CONTROLLER: &str = "openstackmachinetemplate";

/// How long flavor and image are taken to be as they were.
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
    } else if is_to_be_left(&object.metadata) {
        return Outcome::Done;
    } else {
        looked(object, owner.as_deref(), context).await
    };
    let now = Timestamp::now();
    let api = context.api(&namespace);
    match write_status(&api, object, |fresh| report::status(fresh, &report, now)).await {
        Ok(_) => outcome,
        Err(error) => unwritten(&error),
    }
}

/// What the template offers, from memory or from OpenStack, and how the pass ends by that.
async fn looked(
    object: &OpenStackMachineTemplate,
    owner: Option<&Cluster>,
    context: &Context,
) -> (Report, Outcome) {
    let Some(reference) = identity_of(object, owner, context) else {
        return (Report::without_credentials(), Outcome::Done);
    };
    let name = ObjectName::new(object.namespace().unwrap_or_default(), object.name_any());
    let question = Question {
        uid: object.metadata.uid.clone(),
        generation: object.metadata.generation,
        reference,
    };
    if let Some(offer) = context
        .machine_templates
        .get(&name, &question, Instant::now())
    {
        return (Report::of(offer), Outcome::Done);
    }
    match lookup::offer(object, &name, &question.reference, context).await {
        Ok(offer) => {
            let known = context.machine_templates.clone();
            known.put(name, question, offer.clone(), Instant::now());
            (Report::of(offer), Outcome::Done)
        }
        Err(halt) => {
            let outcome = halt.outcome.clone();
            (Report::halted(halt), outcome)
        }
    }
}

/// Whose credentials to use: the template's own, or those of the cluster that owns it.
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

/// What was asked of OpenStack.
#[derive(Debug, Clone, PartialEq)]
struct Question {
    uid: Option<String>,
    generation: Option<i64>,
    reference: IdentityRef,
}

/// What was looked up for each template. Losing it costs a few calls.
#[derive(Debug, Clone, Default)]
pub(super) struct Memory(Arc<Mutex<HashMap<ObjectName, Answer>>>);

/// What was asked, what came back, and when.
type Answer = (Question, Offer, Instant);

impl Memory {
    fn get(&self, name: &ObjectName, question: &Question, now: Instant) -> Option<Offer> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (asked, offer, at) = known.get(name)?;
        let holds = asked == question && now.saturating_duration_since(*at) < HOLDS;
        holds.then(|| offer.clone())
    }

    fn put(&self, name: ObjectName, question: Question, offer: Offer, now: Instant) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.insert(name, (question, offer, now));
    }

    /// Forgets a template that is gone.
    pub(super) fn forget(&self, name: &ObjectName) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.remove(name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_holds_for_an_hour_and_for_its_own_question() {
        let memory = Memory::default();
        let (name, now) = (ObjectName::new("n", "t"), Instant::now());
        let question = |generation| Question {
            uid: Some("u".to_owned()),
            generation: Some(generation),
            reference: IdentityRef::default(),
        };
        memory.put(name.clone(), question(1), Offer::default(), now);
        let minutes = |minutes| now + Duration::from_mins(minutes);
        assert!(memory.get(&name, &question(1), minutes(59)).is_some());
        assert!(memory.get(&name, &question(1), minutes(60)).is_none());
        assert!(memory.get(&name, &question(2), now).is_none());
        memory.forget(&name);
        assert!(memory.get(&name, &question(1), now).is_none());
    }
}
