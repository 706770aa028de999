//! Events. A repeated event increases a count, and the number of writes that one object can cause is bounded.
//!
//! kube's Recorder is not used: it awaits a write per event, has no bound per object, and writes every repetition.

use std::{
    borrow::Cow,
    sync::Arc,
    time::{Duration, Instant},
};

use jiff::Timestamp;
use k8s_openapi::{
    api::{
        core::v1::ObjectReference,
        events::v1::{Event, EventSeries},
    },
    apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta},
};
use kube::{
    Api, Client,
    api::{Patch, PatchParams, PostParams},
};
use parking_lot::Mutex;
use serde_json::json;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use capo_core::{FailureClass, Reason};
use capo_openstack::Error;

mod change;
mod correlator;

use correlator::Correlator;

pub use change::{CloudObject, Verb};

/// The number of events that may wait to be sent. More are dropped, because the conditions have the same content.
const QUEUE: usize = 256;
/// The reporting controller.
const CONTROLLER: &str = "capo-rs";
/// The longest note. The API server refuses longer ones.
const LONGEST_NOTE: usize = 1_000;

/// Queues events for the one task that sends them. It never waits and is cheap to clone.
#[derive(Clone)]
pub struct Events {
    queue: mpsc::Sender<Write>,
    correlator: Arc<Mutex<Correlator>>,
    counter: Arc<Counter>,
}

/// Counts every queued event, with its reason and its type, Normal or Warning.
type Counter = dyn Fn(Reason, &'static str) + Send + Sync;

/// The content of an event.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Content {
    warning: bool,
    /// The reason under which metrics count the event.
    reason: Reason,
    /// The reason that the event shows.
    event_reason: Cow<'static, str>,
    action: &'static str,
    note: String,
}

/// One write of an event.
#[derive(Debug)]
struct Write {
    about: ObjectReference,
    content: Content,
    /// The event's own name.
    name: String,
    /// How often the event has occurred.
    count: i32,
}

impl Events {
    /// The recorder, and the task that sends its events until `shutdown`. `instance` names this process in the events;
    /// `counter` is called for each event with its reason and its type, Normal or Warning.
    pub fn new(
        client: Client,
        instance: String,
        counter: impl Fn(Reason, &'static str) + Send + Sync + 'static,
        shutdown: CancellationToken,
    ) -> (Self, impl Future<Output = ()> + Send) {
        let (queue, mut waiting) = mpsc::channel::<Write>(QUEUE);
        let send = async move {
            loop {
                let next = tokio::select! {
                    next = waiting.recv() => next,
                    () = shutdown.cancelled() => None,
                };
                let Some(write) = next else { return };
                let namespace = write.about.namespace.as_deref().unwrap_or("default");
                let events: Api<Event> = Api::namespaced(client.clone(), namespace);
                let sending = write.send(&events, &instance, Timestamp::now());
                let sending = tokio::time::timeout(Duration::from_secs(10), sending);
                if let Ok(Err(error)) = sending.await {
                    tracing::debug!(%error, "An event was not accepted");
                }
            }
        };
        let correlator = Arc::default();
        let counter: Arc<Counter> = Arc::new(counter);
        let events = Self {
            queue,
            correlator,
            counter,
        };
        (events, send)
    }

    /// Publishes an event of type Normal.
    pub fn normal(
        &self,
        about: &ObjectReference,
        reason: Reason,
        action: &'static str,
        note: &str,
    ) {
        self.publish(about, false, (reason, reason.as_str().into()), action, note);
    }

    /// Publishes that an object in OpenStack was changed, with the reason that CAPO's event has.
    pub fn changed(&self, about: &ObjectReference, verb: Verb, object: CloudObject, note: &str) {
        let event_reason = change::reason(verb, object).into();
        self.publish(
            about,
            false,
            (verb.counted(), event_reason),
            verb.as_str(),
            note,
        );
    }

    /// Publishes and logs that an object in OpenStack was changed.
    pub fn changed_named(
        &self,
        about: &ObjectReference,
        verb: Verb,
        object: CloudObject,
        name: &str,
        id: &str,
        change: &str,
    ) {
        let (done, kind) = (verb.done(), object.as_str());
        tracing::info!(resource = kind, name, id, change, "{done} in OpenStack");
        let colon = if change.is_empty() { "" } else { ": " };
        let space = if name.is_empty() { "" } else { " " };
        let note = format!("{done} {kind}{space}{name} with id {id}{colon}{change}");
        self.changed(about, verb, object, &note);
    }

    /// Publishes that OpenStack refused a change, with the reason that CAPO's event has. A change that only waits for
    /// another operation, or that was made already, does not count as a failure.
    pub fn failed(
        &self,
        about: &ObjectReference,
        verb: Verb,
        object: CloudObject,
        name: &str,
        (class, message): (FailureClass, &str),
    ) {
        let Some(event_reason) = change::reason_of_failure(verb, object, class) else {
            return;
        };
        let (doing, kind) = (verb.as_str().to_lowercase(), object.as_str());
        let space = if name.is_empty() { "" } else { " " };
        let note = format!("Failed to {doing} {kind}{space}{name}: {message}");
        let reason = (Reason::OpenStackError, event_reason.into());
        self.publish(about, true, reason, verb.as_str(), &note);
    }

    /// Publishes the outcome of the request that deletes or detaches an object in OpenStack, and returns its error. If
    /// the object was gone before, there is neither a change nor an error.
    pub fn removed(
        &self,
        about: &ObjectReference,
        (verb, object): (Verb, CloudObject),
        name: &str,
        id: &str,
        answer: Result<(), Error>,
    ) -> Result<(), Error> {
        match answer {
            Ok(()) => self.changed_named(about, verb, object, name, id, ""),
            Err(error) if error.is_not_found() => {}
            Err(error) => {
                let why = (error.class(), &*error.to_string());
                self.failed(about, verb, object, name, why);
                return Err(error);
            }
        }
        Ok(())
    }

    /// Publishes an event about a problem.
    pub fn warning(
        &self,
        about: &ObjectReference,
        reason: Reason,
        action: &'static str,
        note: &str,
    ) {
        self.publish(about, true, (reason, reason.as_str().into()), action, note);
    }

    /// Publishes an event about a problem with the reason that CAPO's event has. Metrics count it under `reason`.
    pub fn warning_as(
        &self,
        about: &ObjectReference,
        (reason, event_reason): (Reason, String),
        action: &'static str,
        note: &str,
    ) {
        self.publish(about, true, (reason, event_reason.into()), action, note);
    }

    fn publish(
        &self,
        about: &ObjectReference,
        warning: bool,
        (reason, event_reason): (Reason, Cow<'static, str>),
        action: &'static str,
        note: &str,
    ) {
        let end = note.floor_char_boundary(LONGEST_NOTE);
        let content = Content {
            warning,
            reason,
            event_reason,
            action,
            note: note.get(..end).unwrap_or_default().to_owned(),
        };
        let key = about.uid.clone().unwrap_or_default();
        let name = format!(
            "{}.{:x}",
            about.name.as_deref().unwrap_or("unnamed"),
            Timestamp::now().as_nanosecond()
        );
        let admitted = self
            .correlator
            .lock()
            .admit(key, &content, name, Instant::now());
        let Some((name, count)) = admitted else {
            return;
        };
        let kind = content.kind();
        let write = Write {
            about: about.clone(),
            content,
            name,
            count,
        };
        if self.queue.try_send(write).is_ok() {
            (self.counter)(reason, kind);
        } else {
            tracing::debug!("An event was dropped, because too many are waiting");
        }
    }
}

impl Write {
    /// Creates the event, or increases the count of the existing one.
    async fn send(
        self,
        events: &Api<Event>,
        instance: &str,
        now: Timestamp,
    ) -> Result<(), kube::Error> {
        if self.count > 1 {
            let series = EventSeries {
                count: self.count,
                last_observed_time: MicroTime(now),
            };
            let patch = Patch::Merge(json!({ "series": series }));
            let params = PatchParams::default();
            match events.patch(&self.name, &params, &patch).await {
                Ok(_) => return Ok(()),
                // The API server keeps events for only one hour.
                Err(kube::Error::Api(status)) if status.code == 404 => {}
                Err(error) => return Err(error),
            }
        }
        let event = self.content.event(self.name, self.about, instance, now);
        events.create(&PostParams::default(), &event).await?;
        Ok(())
    }
}

impl Content {
    fn kind(&self) -> &'static str {
        if self.warning { "Warning" } else { "Normal" }
    }

    fn event(self, name: String, about: ObjectReference, instance: &str, now: Timestamp) -> Event {
        Event {
            metadata: ObjectMeta {
                namespace: Some(
                    about
                        .namespace
                        .clone()
                        .unwrap_or_else(|| "default".to_owned()),
                ),
                name: Some(name),
                ..ObjectMeta::default()
            },
            type_: Some(self.kind().to_owned()),
            reason: Some(self.event_reason.into_owned()),
            action: Some(self.action.to_owned()),
            note: Some(self.note),
            event_time: Some(MicroTime(now)),
            reporting_controller: Some(CONTROLLER.to_owned()),
            reporting_instance: Some(instance.to_owned()),
            regarding: Some(about),
            ..Event::default()
        }
    }
}

#[cfg(test)]
mod tests;
