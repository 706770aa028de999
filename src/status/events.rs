//! Events: the same one is told once, and nobody can make us flood the API server.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use jiff::Timestamp;
use k8s_openapi::{
    api::{core::v1::ObjectReference, events::v1::Event},
    apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta},
};
use kube::{Api, Client, api::PostParams};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::Reason;

/// The same words about the same object are told again after this time at the earliest.
const REPEAT_AFTER: Duration = Duration::from_mins(30);
/// An object may have this many events at once, and one more for every [`REFILL`].
const BURST: u32 = 20;
const REFILL: Duration = Duration::from_secs(30);
/// Objects remembered for the two rules above.
const REMEMBERED: usize = 10_000;
/// Events waiting to be sent. What does not fit is dropped: conditions say it too.
const QUEUE: usize = 256;
/// Who tells.
const CONTROLLER: &str = "capo-rs";
/// The API server refuses longer notes.
const LONGEST_NOTE: usize = 1_000;

/// Hands events to the one task that sends them. Never waits. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Events {
    queue: mpsc::Sender<(ObjectReference, Told)>,
    memory: Arc<Mutex<Memory>>,
}

/// What is told.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Told {
    warning: bool,
    reason: Reason,
    action: &'static str,
    note: String,
}

impl Events {
    /// The recorder, and the task that sends what it is given until `shutdown`. `instance` names this
    /// process in the events.
    pub fn new(
        client: Client,
        instance: String,
        shutdown: CancellationToken,
    ) -> (Self, impl Future<Output = ()> + Send) {
        let (queue, mut waiting) = mpsc::channel::<(ObjectReference, Told)>(QUEUE);
        let send = async move {
            loop {
                let next = tokio::select! {
                    next = waiting.recv() => next,
                    () = shutdown.cancelled() => None,
                };
                let Some((about, told)) = next else { return };
                let namespace = about.namespace.as_deref().unwrap_or("default");
                let events: Api<Event> = Api::namespaced(client.clone(), namespace);
                let event = told.event(about, &instance, Timestamp::now());
                let params = PostParams::default();
                let sending =
                    tokio::time::timeout(Duration::from_secs(10), events.create(&params, &event));
                if let Ok(Err(error)) = sending.await {
                    tracing::debug!(%error, "an event was not taken");
                }
            }
        };
        let memory = Arc::default();
        (Self { queue, memory }, send)
    }

    /// Tells of something that went as it should.
    pub fn normal(
        &self,
        about: &ObjectReference,
        reason: Reason,
        action: &'static str,
        note: &str,
    ) {
        self.tell(about, false, reason, action, note);
    }

    /// Tells of something that is wrong.
    pub fn warning(
        &self,
        about: &ObjectReference,
        reason: Reason,
        action: &'static str,
        note: &str,
    ) {
        self.tell(about, true, reason, action, note);
    }

    fn tell(
        &self,
        about: &ObjectReference,
        warning: bool,
        reason: Reason,
        action: &'static str,
        note: &str,
    ) {
        let end = note.floor_char_boundary(LONGEST_NOTE);
        let told = Told {
            warning,
            reason,
            action,
            note: note.get(..end).unwrap_or_default().to_owned(),
        };
        let key = about.uid.clone().unwrap_or_default();
        let admitted = self
            .memory
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .admit(key, &told, Instant::now());
        if admitted && self.queue.try_send((about.clone(), told)).is_err() {
            tracing::debug!("an event was dropped, too many are waiting");
        }
    }
}

impl Told {
    fn event(self, about: ObjectReference, instance: &str, now: Timestamp) -> Event {
        Event {
            metadata: ObjectMeta {
                namespace: Some(
                    about
                        .namespace
                        .clone()
                        .unwrap_or_else(|| "default".to_owned()),
                ),
                name: Some(format!(
                    "{}.{:x}",
                    about.name.as_deref().unwrap_or("unnamed"),
                    now.as_nanosecond()
                )),
                ..ObjectMeta::default()
            },
            type_: Some(if self.warning { "Warning" } else { "Normal" }.to_owned()),
            reason: Some(self.reason.as_str().to_owned()),
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

/// What was told about which object, and how much more may be.
#[derive(Debug, Default)]
struct Memory(HashMap<String, Allowance>);

#[derive(Debug)]
struct Allowance {
    told: Vec<(Told, Instant)>,
    left: u32,
    refilled: Instant,
}

impl Memory {
    fn admit(&mut self, object: String, event: &Told, now: Instant) -> bool {
        if self.0.len() >= REMEMBERED && !self.0.contains_key(&object) {
            self.0
                .retain(|_, known| now.saturating_duration_since(known.refilled) < REPEAT_AFTER);
            if self.0.len() >= REMEMBERED {
                return false;
            }
        }
        let known = self.0.entry(object).or_insert_with(|| Allowance {
            told: Vec::new(),
            left: BURST,
            refilled: now,
        });
        known
            .told
            .retain(|(_, at)| now.saturating_duration_since(*at) < REPEAT_AFTER);
        if known.told.iter().any(|(told, _)| told == event) {
            return false;
        }
        let rounds = now.saturating_duration_since(known.refilled).as_secs() / REFILL.as_secs();
        if let Ok(rounds) = u32::try_from(rounds)
            && rounds > 0
        {
            known.left = known.left.saturating_add(rounds).min(BURST);
            known.refilled = now;
        }
        if known.left == 0 {
            return false;
        }
        known.left -= 1;
        known.told.push((event.clone(), now));
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(note: &str) -> Told {
        Told {
            warning: true,
            reason: Reason::InvalidSpec,
            action: "Reconcile",
            note: note.to_owned(),
        }
    }

    #[test]
    fn the_same_words_are_told_once_and_again_after_a_while() {
        let (mut memory, start) = (Memory::default(), Instant::now());
        assert!(memory.admit("a".to_owned(), &told("x"), start));
        assert!(!memory.admit("a".to_owned(), &told("x"), start + Duration::from_mins(1)));
        assert!(memory.admit("b".to_owned(), &told("x"), start));
        assert!(memory.admit("a".to_owned(), &told("x"), start + REPEAT_AFTER));
    }

    #[test]
    fn a_chatty_object_is_cut_off_and_recovers() {
        let (mut memory, start) = (Memory::default(), Instant::now());
        let admitted = |memory: &mut Memory, at| {
            (0..100)
                .filter(|n| memory.admit("a".to_owned(), &told(&format!("{at:?}{n}")), at))
                .count()
        };
        assert_eq!(admitted(&mut memory, start), 20);
        assert_eq!(admitted(&mut memory, start + REFILL), 1);
        assert_eq!(admitted(&mut memory, start + REFILL * 200), 20);
    }
}
