//! Creations whose result is unknown, so that OpenStack may still carry them out. Each creation is recorded on the
//! Kubernetes object before its request is sent, so that the next process knows it too. Until the result is certain,
//! the OpenStack object is looked up and its creation is not repeated.

mod uncertain;

use std::{fmt::Debug, sync::Arc};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::ObjectReference;
use kube::{
    Api, Resource, ResourceExt,
    api::{Patch, PatchParams},
};
use parking_lot::Mutex;
use serde::de::DeserializeOwned;
use serde_json::json;

pub(crate) use self::uncertain::UncertainCreations;
use super::{
    StepError, StepResult, name_of,
    uncertain_create::{UNANSWERED, uncertain_for},
};
use crate::kubernetes::{
    events::{CloudObject, Events, Verb},
    replaced_versions::ReplacedVersions,
};
use capo_core::ObjectName;
use capo_openstack::Error;

/// Annotation: the creations for an object that may still be carried out, each with the time until which that is
/// possible, as JSON.
pub(crate) const ANNOTATION: &str = "infrastructure.cluster.x-k8s.io/creations-in-doubt";

/// The description of an OpenStack object in messages and records.
pub(crate) fn described(object: CloudObject, name: &str) -> String {
    format!("{} {name}", object.as_str())
}

/// Records and reports the creations of one pass over a Kubernetes object. A clone is cheap and shares the data.
#[derive(Clone)]
pub(crate) struct Creations<K> {
    api: Api<K>,
    owner: ObjectName,
    uncertain: UncertainCreations,
    events: Events,
    about: ObjectReference,
    recorded: Arc<Mutex<Recorded<K>>>,
}

/// What the Kubernetes object shows.
#[derive(Debug)]
struct Recorded<K> {
    /// The value of the annotation.
    annotation: Option<String>,
    /// The object after each write, until the pass takes over the last one.
    written: Vec<K>,
}

impl<K> Creations<K>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug,
{
    /// Creates the recorder for `object`.
    pub(crate) fn new(
        api: Api<K>,
        object: &K,
        uncertain: &UncertainCreations,
        events: &Events,
    ) -> Self {
        Self {
            api,
            owner: name_of(object),
            uncertain: uncertain.clone(),
            events: events.clone(),
            about: object.object_ref(&()),
            recorded: Arc::new(Mutex::new(Recorded {
                annotation: object.annotations().get(ANNOTATION).cloned(),
                written: Vec::new(),
            })),
        }
    }

    /// Returns `Ok` if the object may be created, or a wait that `condition` shows while an earlier creation of it may
    /// still be carried out.
    pub(crate) fn check(
        &self,
        condition: &'static str,
        object: CloudObject,
        name: &str,
    ) -> StepResult<()> {
        let what = described(object, name);
        self.uncertain.check(condition, &self.owner, &what)
    }

    /// Records that the request to create an object in OpenStack is sent next. Returns an error, which `condition`
    /// shows, if an earlier creation may still be carried out.
    pub(crate) async fn begin(
        &self,
        condition: &'static str,
        object: CloudObject,
        name: &str,
    ) -> StepResult<()> {
        self.check(condition, object, name)?;
        let what = described(object, name);
        let until = Timestamp::now() + UNANSWERED;
        self.uncertain.set(&self.owner, &what, until);
        let recorded = self.record(condition).await;
        if recorded.is_err() {
            self.uncertain.end(&self.owner, &what);
        }
        recorded
    }

    /// Takes the answer to a creation into account. An object that was created or refused is certain, and any other
    /// error leaves it uncertain for a while. The annotation is changed by the next [`Self::record`].
    pub(crate) fn settle<T>(&self, object: CloudObject, name: &str, answer: &Result<T, Error>) {
        let what = described(object, name);
        match answer {
            Err(error) if error.maybe_done() => {
                let until = Timestamp::now() + uncertain_for(error.status());
                self.uncertain.set(&self.owner, &what, until);
            }
            Ok(_) | Err(_) => self.uncertain.end(&self.owner, &what),
        }
    }

    /// Does the same, and publishes an event about the answer.
    pub(crate) fn end<T>(
        &self,
        object: CloudObject,
        name: &str,
        answer: Result<T, Error>,
        id: fn(&T) -> &str,
    ) -> Result<T, Error> {
        self.settle(object, name, &answer);
        let (events, verb) = (&self.events, Verb::Create);
        match &answer {
            Ok(new) => events.changed_named(&self.about, verb, object, name, id(new), ""),
            Err(error) => {
                let why = (error.class(), &*error.to_string());
                events.failed(&self.about, verb, object, name, why);
            }
        }
        answer
    }

    /// Records that a lookup has found the object.
    pub(crate) fn found(&self, object: CloudObject, name: &str) {
        self.uncertain.end(&self.owner, &described(object, name));
    }

    /// Writes the uncertain creations into the object's annotation if the annotation differs.
    pub(crate) async fn record(&self, condition: &'static str) -> StepResult<()> {
        let wanted = self.uncertain.record(&self.owner, Timestamp::now());
        if self.recorded.lock().annotation == wanted {
            return Ok(());
        }
        let patch = Patch::Merge(json!({"metadata": {"annotations": {ANNOTATION: wanted}}}));
        let written = self
            .api
            .patch(&self.owner.name, &PatchParams::default(), &patch)
            .await
            .map_err(|error| StepError::kubernetes(condition, "Recording a creation", &error))?;
        let mut recorded = self.recorded.lock();
        recorded.annotation = wanted;
        recorded.written.push(written);
        Ok(())
    }

    /// Replaces `object` by the object as it was last written, if it was written. The generation stays that of the
    /// object on which the pass is based, because another client may have made a newer one meanwhile.
    pub(crate) fn take_written(&self, object: &mut K, replaced: &ReplacedVersions) {
        let mut all = std::mem::take(&mut self.recorded.lock().written);
        let Some(mut written) = all.pop() else {
            return;
        };
        replaced.add(object);
        for before in &all {
            replaced.add(before);
        }
        written.meta_mut().generation = object.meta().generation;
        *object = written;
    }
}
