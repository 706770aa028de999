//! Creations whose result is unknown, so that OpenStack may still carry them out. Each creation is recorded on the
//! object before its request is sent, so that the next process knows it too. Until the result is certain, the object is
//! looked up and its creation is not repeated.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
    time::Duration,
};

use jiff::Timestamp;
use kube::{
    Api, Resource, ResourceExt,
    api::{Patch, PatchParams},
};
use parking_lot::Mutex;
use serde_json::json;

use super::{StepResult, failed, kubernetes_failed, wait};
use crate::{
    kubernetes::events::{CloudObject, Events, Verb},
    reconcile::uncertain_create::{UNANSWERED, uncertain_for},
};
use capo_api::v1alpha1::OpenStackServer;
use capo_core::{ObjectName, Reason};
use capo_openstack::Error;

/// Annotation: the creations for an object that may still be carried out, each with the time until which that is
/// possible, as JSON.
pub(super) const ANNOTATION: &str = "infrastructure.cluster.x-k8s.io/creations-in-doubt";

/// The uncertain creations of every object that this process has seen. A clone is cheap and shares the data.
#[derive(Debug, Clone, Default)]
pub(super) struct UncertainCreations(Arc<Mutex<HashMap<ObjectName, Pending>>>);

/// The creations that may still be carried out, each with the time until which that is possible.
type Pending = BTreeMap<String, Timestamp>;

impl UncertainCreations {
    /// Loads what an earlier process recorded, in the first pass of this process over the object.
    pub(super) fn load(&self, object: &OpenStackServer, owner: &ObjectName) {
        let mut known = self.0.lock();
        if known.contains_key(owner) {
            return;
        }
        let recorded = object.annotations().get(ANNOTATION);
        let pending = recorded.and_then(|text| serde_json::from_str(text).ok());
        known.insert(owner.clone(), pending.unwrap_or_default());
    }

    /// Returns `Ok` if `what` may be created for `owner`, or else a wait.
    pub(super) fn check(&self, owner: &ObjectName, what: &str) -> StepResult<()> {
        self.check_at(owner, what, Timestamp::now())
    }

    fn check_at(&self, owner: &ObjectName, what: &str, now: Timestamp) -> StepResult<()> {
        let until = self
            .0
            .lock()
            .get(owner)
            .and_then(|it| it.get(what).copied());
        if until.is_some_and(|until| until > now) {
            return Err(wait(
                Reason::OpenStackUnavailable,
                format!("The answer to the creation of {what} was lost; waiting for it to appear"),
                Duration::from_secs(5),
            ));
        }
        Ok(())
    }

    /// Returns `Ok` if `what`, which several objects share, may be created, or a wait while the creation for any object
    /// is uncertain.
    pub(super) fn check_for_all(&self, what: &str) -> StepResult<()> {
        let owners: Vec<ObjectName> = self.0.lock().keys().cloned().collect();
        owners.iter().try_for_each(|owner| self.check(owner, what))
    }

    fn set(&self, owner: &ObjectName, what: &str, until: Timestamp) {
        let mut known = self.0.lock();
        let pending = known.entry(owner.clone()).or_default();
        pending.insert(what.to_owned(), until);
    }

    /// Records that the result is known: `what` exists, or its creation was refused.
    pub(super) fn end(&self, owner: &ObjectName, what: &str) {
        if let Some(pending) = self.0.lock().get_mut(owner) {
            pending.remove(what);
        }
    }

    /// The value of the annotation with the creations that are uncertain at `now`; `None` if there are none.
    fn record(&self, owner: &ObjectName, now: Timestamp) -> Option<String> {
        let mut known = self.0.lock();
        let pending = known.get_mut(owner)?;
        pending.retain(|_, until| *until > now);
        (!pending.is_empty()).then(|| json!(pending).to_string())
    }

    /// Forgets an object that does not exist any more.
    pub(super) fn forget(&self, owner: &ObjectName) {
        self.0.lock().remove(owner);
    }
}

/// The description of an OpenStack object in messages and records.
pub(super) fn described(object: CloudObject, name: &str) -> String {
    format!("{} {name}", object.as_str())
}

/// Records and reports the creations of one pass.
pub(super) struct Creations {
    api: Api<OpenStackServer>,
    owner: ObjectName,
    uncertain: UncertainCreations,
    events: Events,
    object: Mutex<OpenStackServer>,
}

impl Creations {
    /// Creates the recorder for `object`.
    pub(super) fn new(
        api: Api<OpenStackServer>,
        owner: &ObjectName,
        uncertain: &UncertainCreations,
        events: Events,
        object: OpenStackServer,
    ) -> Self {
        Self {
            api,
            owner: owner.clone(),
            uncertain: uncertain.clone(),
            events,
            object: Mutex::new(object),
        }
    }

    /// Records that the request to create an object in OpenStack is sent next. Returns an error if an earlier creation
    /// may still be carried out.
    pub(super) async fn begin(&self, object: CloudObject, name: &str) -> StepResult<()> {
        let what = described(object, name);
        self.uncertain.check(&self.owner, &what)?;
        let until = Timestamp::now() + UNANSWERED;
        self.uncertain.set(&self.owner, &what, until);
        let recorded = self.record().await;
        if recorded.is_err() {
            self.uncertain.end(&self.owner, &what);
        }
        recorded
    }

    /// Records the answer to a creation and publishes an event about it. `refused` is the reason of an ordinary error.
    pub(super) fn end<T>(
        &self,
        object: CloudObject,
        name: &str,
        answer: Result<T, Error>,
        id: fn(&T) -> &str,
        refused: Reason,
    ) -> StepResult<T> {
        let what = described(object, name);
        let about = self.object.lock().object_ref(&());
        match &answer {
            Ok(created) => {
                self.uncertain.end(&self.owner, &what);
                let (events, verb) = (&self.events, Verb::Create);
                events.changed_named(&about, verb, object, name, id(created), "");
            }
            Err(error) => {
                if error.maybe_done() {
                    let until = Timestamp::now() + uncertain_for(error.status());
                    self.uncertain.set(&self.owner, &what, until);
                } else {
                    self.uncertain.end(&self.owner, &what);
                }
                let why = (error.class(), &*error.to_string());
                self.events.failed(&about, Verb::Create, object, name, why);
            }
        }
        answer.map_err(|error| failed(&error, refused))
    }

    /// Records that a lookup has found the object.
    pub(super) fn found(&self, object: CloudObject, name: &str) {
        self.uncertain.end(&self.owner, &described(object, name));
    }

    /// Writes the uncertain creations into the object's annotation if the annotation differs.
    pub(super) async fn record(&self) -> StepResult<()> {
        let wanted = self.uncertain.record(&self.owner, Timestamp::now());
        if self.object.lock().annotations().get(ANNOTATION) == wanted.as_ref() {
            return Ok(());
        }
        let patch = Patch::Merge(json!({"metadata": {"annotations": {ANNOTATION: wanted}}}));
        let mut written = self
            .api
            .patch(&self.owner.name, &PatchParams::default(), &patch)
            .await
            .map_err(|error| kubernetes_failed("Recording a creation", &error))?;
        let mut object = self.object.lock();
        // The generation stays that of the object on which the pass is based, because another client may have made a
        // newer one meanwhile.
        written.metadata.generation = object.metadata.generation;
        *object = written;
        Ok(())
    }

    /// The object as it was last written.
    pub(super) fn into_object(self) -> OpenStackServer {
        self.object.into_inner()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(annotation: Option<&str>) -> OpenStackServer {
        let mut object: OpenStackServer = serde_json::from_value(json!({
            "metadata": {"name": "m1", "namespace": "n"},
            "spec": {"identityRef": {"name": "c", "cloudName": "c"}, "image": {"id": "i"}, "ports": [], "sshKeyName": ""},
        }))
        .unwrap();
        object.metadata.annotations =
            annotation.map(|text| [(ANNOTATION.to_owned(), text.to_owned())].into());
        object
    }

    #[test]
    fn an_uncertain_creation_is_held_alone_and_for_a_while() {
        let uncertain = UncertainCreations::default();
        let (name, now) = (ObjectName::new("n", "m1"), Timestamp::now());
        assert!(uncertain.check_at(&name, "port m1-0", now).is_ok());
        uncertain.set(&name, "port m1-0", now + UNANSWERED);
        assert!(uncertain.check_at(&name, "port m1-0", now).is_err());
        assert!(uncertain.check_at(&name, "server m1", now).is_ok());
        let other = ObjectName::new("n", "m2");
        assert!(uncertain.check_at(&other, "port m1-0", now).is_ok());
        assert!(
            uncertain
                .check_at(&name, "port m1-0", now + UNANSWERED)
                .is_ok()
        );
        assert_eq!(uncertain.record(&name, now + UNANSWERED), None);
    }

    #[test]
    fn the_next_process_knows_what_is_uncertain() {
        let (name, now) = (ObjectName::new("n", "m1"), Timestamp::now());
        let first = UncertainCreations::default();
        first.load(&object(None), &name);
        first.set(&name, "server m1", now + UNANSWERED);
        let recorded = first.record(&name, now);
        let second = UncertainCreations::default();
        second.load(&object(recorded.as_deref()), &name);
        assert!(second.check_at(&name, "server m1", now).is_err());
        // After the first load, what this process knows takes precedence over the annotation.
        second.end(&name, "server m1");
        second.load(&object(recorded.as_deref()), &name);
        assert!(second.check_at(&name, "server m1", now).is_ok());
        // A record that can't be parsed does not delay any creation.
        let third = UncertainCreations::default();
        third.load(&object(Some("x")), &name);
        assert!(third.check_at(&name, "server m1", now).is_ok());
    }
}
