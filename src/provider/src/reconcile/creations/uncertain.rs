//! The creations whose result is unknown, as this process knows them and as the annotation records them.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
    time::Duration,
};

use jiff::Timestamp;
use kube::{Resource, ResourceExt};
use parking_lot::Mutex;
use serde_json::{Value, json};

use super::ANNOTATION;
use crate::reconcile::{StepError, StepResult, uncertain_create::UNANSWERED};
use capo_core::{ObjectName, Reason};

/// The entry that stands for every creation. It is recorded where an annotation could not be read.
const EVERY: &str = "*";
/// The time until the next lookup of an object whose creation is uncertain.
const PAUSE: Duration = Duration::from_secs(5);

/// The uncertain creations of every object of a kind that this process has seen. A clone is cheap and shares the data.
#[derive(Debug, Clone, Default)]
pub(crate) struct UncertainCreations(Arc<Mutex<HashMap<ObjectName, Pending>>>);

/// The creations that may still be carried out, each with the time until which that is possible.
type Pending = BTreeMap<String, Timestamp>;

impl UncertainCreations {
    /// Loads what an earlier process recorded, in the first pass of this process over the object.
    pub(crate) fn load(&self, object: &impl Resource, owner: &ObjectName) {
        self.load_at(object, owner, Timestamp::now());
    }

    pub(super) fn load_at(&self, object: &impl Resource, owner: &ObjectName, now: Timestamp) {
        let mut known = self.0.lock();
        if known.contains_key(owner) {
            return;
        }
        let recorded = object.annotations().get(ANNOTATION);
        let pending = recorded.map(|text| read(text, now)).unwrap_or_default();
        known.insert(owner.clone(), pending);
    }

    /// Returns `Ok` if `what` may be created for `owner`, or else a wait that `condition` shows.
    pub(crate) fn check(
        &self,
        condition: &'static str,
        owner: &ObjectName,
        what: &str,
    ) -> StepResult<()> {
        self.check_at(condition, owner, what, Timestamp::now())
    }

    pub(super) fn check_at(
        &self,
        condition: &'static str,
        owner: &ObjectName,
        what: &str,
        now: Timestamp,
    ) -> StepResult<()> {
        let known = self.0.lock();
        let pending = known.get(owner);
        let is_uncertain = |what: &str| {
            let until = pending.and_then(|pending| pending.get(what));
            until.is_some_and(|until| *until > now)
        };
        let message = if is_uncertain(what) {
            format!("The answer to the creation of {what} was lost; waiting for it to appear")
        } else if is_uncertain(EVERY) {
            format!(
                "The annotation {ANNOTATION} can't be read, so {what} may have been requested; waiting for it to appear"
            )
        } else {
            return Ok(());
        };
        let reason = Reason::OpenStackUnavailable;
        Err(StepError::wait(condition, reason, message, PAUSE))
    }

    /// Returns `Ok` if `what`, which several objects share, may be created, or a wait while the creation for any object
    /// is uncertain.
    pub(crate) fn check_for_all(&self, condition: &'static str, what: &str) -> StepResult<()> {
        let owners: Vec<ObjectName> = self.0.lock().keys().cloned().collect();
        let mut owners = owners.iter();
        owners.try_for_each(|owner| self.check(condition, owner, what))
    }

    /// The time until which the creation of `what` for `owner` may still be carried out; `None` if no such creation is
    /// known. The time may be over.
    pub(crate) fn until(&self, owner: &ObjectName, what: &str) -> Option<Timestamp> {
        let known = self.0.lock();
        let pending = known.get(owner)?;
        let times = [what, EVERY].map(|what| pending.get(what).copied());
        times.into_iter().flatten().max()
    }

    pub(super) fn set(&self, owner: &ObjectName, what: &str, until: Timestamp) {
        let mut known = self.0.lock();
        let pending = known.entry(owner.clone()).or_default();
        pending.insert(what.to_owned(), until);
    }

    /// Records that the result is known: `what` exists, or its creation was refused.
    pub(crate) fn end(&self, owner: &ObjectName, what: &str) {
        if let Some(pending) = self.0.lock().get_mut(owner) {
            pending.remove(what);
        }
    }

    /// The value of the annotation with the creations that are uncertain at `now`; `None` if there are none.
    pub(super) fn record(&self, owner: &ObjectName, now: Timestamp) -> Option<String> {
        let mut known = self.0.lock();
        let pending = known.get_mut(owner)?;
        pending.retain(|_, until| *until > now);
        (!pending.is_empty()).then(|| json!(pending).to_string())
    }

    /// Forgets an object that does not exist any more.
    pub(crate) fn forget(&self, owner: &ObjectName) {
        self.0.lock().remove(owner);
    }
}

/// Reads the annotation. What can't be read of it counts as uncertain from now on, because a creation that is not
/// known could be repeated. No creation is uncertain for longer than one that was sent now.
fn read(text: &str, now: Timestamp) -> Pending {
    let longest = now + UNANSWERED;
    let Ok(entries) = serde_json::from_str::<BTreeMap<String, Value>>(text) else {
        return [(EVERY.to_owned(), longest)].into();
    };
    let until = |value: Value| {
        let until = serde_json::from_value::<Timestamp>(value);
        until.map_or(longest, |until| until.min(longest))
    };
    let entries = entries.into_iter();
    entries.map(|(what, value)| (what, until(value))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use capo_api::v1beta2::OpenStackCluster;

    const CONDITION: &str = "NetworkReady";

    fn object(annotation: Option<&str>) -> OpenStackCluster {
        let mut object: OpenStackCluster = serde_json::from_value(json!({
            "metadata": {"name": "c1", "namespace": "n"},
            "spec": {"identityRef": {"name": "c", "cloudName": "c"}},
        }))
        .unwrap();
        object.metadata.annotations =
            annotation.map(|text| [(ANNOTATION.to_owned(), text.to_owned())].into());
        object
    }

    /// Whether `what` may be created for the object `n/c1` at this time.
    fn may_create(uncertain: &UncertainCreations, what: &str, now: Timestamp) -> bool {
        let name = ObjectName::new("n", "c1");
        uncertain.check_at(CONDITION, &name, what, now).is_ok()
    }

    #[test]
    fn an_uncertain_creation_is_held_alone_and_for_a_while() {
        let uncertain = UncertainCreations::default();
        let (name, now) = (ObjectName::new("n", "c1"), Timestamp::now());
        assert!(may_create(&uncertain, "network c1", now));
        uncertain.set(&name, "network c1", now + UNANSWERED);
        assert!(!may_create(&uncertain, "network c1", now));
        assert!(may_create(&uncertain, "router c1", now));
        let other = ObjectName::new("n", "c2");
        let of_other = uncertain.check_at(CONDITION, &other, "network c1", now);
        assert!(of_other.is_ok());
        assert!(may_create(&uncertain, "network c1", now + UNANSWERED));
        assert_eq!(uncertain.record(&name, now + UNANSWERED), None);
    }

    #[test]
    fn the_end_of_the_uncertainty_is_the_latest_one_that_is_known() {
        let (name, now) = (ObjectName::new("n", "c1"), Timestamp::now());
        let uncertain = UncertainCreations::default();
        assert_eq!(uncertain.until(&name, "network c1"), None);
        uncertain.load_at(&object(Some("?")), &name, now);
        assert_eq!(uncertain.until(&name, "network c1"), Some(now + UNANSWERED));
        let later = now + UNANSWERED * 2;
        uncertain.set(&name, "network c1", later);
        assert_eq!(uncertain.until(&name, "network c1"), Some(later));
        assert_eq!(uncertain.until(&name, "router c1"), Some(now + UNANSWERED));
    }

    #[test]
    fn the_next_process_knows_what_is_uncertain() {
        let (name, now) = (ObjectName::new("n", "c1"), Timestamp::now());
        let first = UncertainCreations::default();
        first.load(&object(None), &name);
        first.set(&name, "network c1", now + UNANSWERED);
        let recorded = first.record(&name, now);
        let second = UncertainCreations::default();
        second.load(&object(recorded.as_deref()), &name);
        assert!(!may_create(&second, "network c1", now));
        // After the first load, what this process knows takes precedence over the annotation.
        second.end(&name, "network c1");
        second.load(&object(recorded.as_deref()), &name);
        assert!(may_create(&second, "network c1", now));
    }

    #[test]
    fn what_can_not_be_read_of_the_annotation_is_uncertain_from_the_load_on() {
        let now: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        let (soon, over) = (now + Duration::from_secs(129), now + UNANSWERED);
        let name = ObjectName::new("n", "c1");
        let network = "network c1";
        // The annotation, and whether the network may be created at the load, 129 s later and 130 s later.
        let cases = [
            (r#"{"router c1": "2026-01-01T00:01:00Z"}"#, [true; 3]),
            (
                r#"{"network c1": "2026-01-01T00:01:00Z"}"#,
                [false, true, true],
            ),
            (
                r#"{"network c1": "2026-01-01T00:01:00Z", "router c1": "x"}"#,
                [false, true, true],
            ),
            (r#"{"network c1": "soon"}"#, [false, false, true]),
            (r#"{"network c1": null}"#, [false, false, true]),
            (
                r#"{"network c1": {"until": "2026-01-01T00:01:00Z"}}"#,
                [false, false, true],
            ),
            (
                r#"{"network c1": "2999-01-01T00:00:00Z"}"#,
                [false, false, true],
            ),
            ("x", [false, false, true]),
            ("", [false, false, true]),
            (r#"["network c1"]"#, [false, false, true]),
        ];
        for (annotation, expected) in cases {
            let uncertain = UncertainCreations::default();
            uncertain.load_at(&object(Some(annotation)), &name, now);
            let found = [now, soon, over].map(|at| may_create(&uncertain, network, at));
            assert_eq!(found, expected, "{annotation}");
            // The next process, which starts before that time, knows it too.
            let recorded = uncertain.record(&name, now);
            let next = UncertainCreations::default();
            next.load_at(&object(recorded.as_deref()), &name, now);
            let found = [now, soon, over].map(|at| may_create(&next, network, at));
            assert_eq!(found, expected, "{annotation} recorded as {recorded:?}");
        }
    }
}
