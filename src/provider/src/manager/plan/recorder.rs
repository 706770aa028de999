//! Records the writes of the passes, and how the passes end.

use std::collections::{BTreeMap, BTreeSet};

use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::{Assessment, KubernetesWrite, ObjectPlan, OpenStackWrite, Plan, PlanRefusal, dry_run};
use crate::{
    controllers::project_match::PROJECT_ANNOTATION,
    kubernetes::conditions::kind,
    reconcile::{Outcome, PassObserver, creations},
    subject::Subject,
};
use capo_core::{ConditionStatus, FailureClass, ObjectName, Reason};
use capo_openstack::{CallObserver, UnsentWrite};

/// Fields of a body that may hold secrets.
const SECRET: [&str; 4] = ["user_data", "personality", "adminPass", "password"];

#[derive(Debug, Default)]
pub(super) struct Recorder(Mutex<Recorded>);

#[derive(Debug, Default)]
struct Recorded {
    objects: BTreeMap<Subject, RecordedObject>,
    /// The time of the last new record.
    last: Option<Instant>,
}

#[derive(Debug, Default)]
struct RecordedObject {
    result: Option<Assessment>,
    openstack: Vec<OpenStackWrite>,
    kubernetes: Vec<KubernetesWrite>,
    updates_status: bool,
    refusals: Vec<PlanRefusal>,
}

/// The progress of the passes.
pub(super) struct Progress {
    /// Whether an object has had no pass yet.
    pub(super) missing: bool,
    /// Whether an object waits.
    pub(super) waiting: bool,
    /// The time of the last new record.
    pub(super) last: Option<Instant>,
}

impl Recorder {
    pub(super) fn kubernetes(&self, write: dry_run::UnsentWrite) {
        let dry_run::UnsentWrite {
            subject,
            verb,
            of_status,
            content,
        } = write;
        if is_record_only(&content) {
            return;
        }
        self.note(subject, |entry| {
            if of_status {
                if let Some(conditions) = content["status"]["conditions"].as_array() {
                    entry.refusals = refusals(conditions);
                }
                return !std::mem::replace(&mut entry.updates_status, true);
            }
            insert(&mut entry.kubernetes, KubernetesWrite { verb, content })
        });
    }

    /// Changes the record of an object; `change` returns whether the record is new.
    fn note(&self, subject: Subject, change: impl FnOnce(&mut RecordedObject) -> bool) {
        let mut recorded = self.0.lock();
        if change(recorded.objects.entry(subject).or_default()) {
            recorded.last = Some(Instant::now());
        }
    }

    pub(super) fn progress(&self, expected: &BTreeSet<Subject>) -> Progress {
        let recorded = self.0.lock();
        let result = |subject| {
            recorded
                .objects
                .get(subject)
                .and_then(|entry| entry.result.as_ref())
        };
        Progress {
            missing: expected.iter().any(|subject| result(subject).is_none()),
            waiting: expected
                .iter()
                .any(|subject| matches!(result(subject), Some(Assessment::Waiting { .. }))),
            last: recorded.last,
        }
    }

    /// The records, including the objects that had no pass.
    pub(super) fn plan(&self, expected: &BTreeSet<Subject>) -> Plan {
        let mut objects = std::mem::take(&mut self.0.lock().objects);
        for subject in expected {
            objects.entry(subject.clone()).or_default();
        }
        let objects = objects.into_iter().map(|(object, entry)| {
            // An object that no controller of capo-rs reconciles, such as a Machine, needs no pass of its own.
            let visited = entry.result.is_some() || !expected.contains(&object);
            ObjectPlan {
                result: match entry.result {
                    Some(result) => result,
                    None if visited => Assessment::Completed,
                    None => Assessment::NotReached,
                },
                object,
                openstack: entry.openstack,
                kubernetes: entry.kubernetes,
                updates_status: entry.updates_status,
                refusals: entry.refusals,
            }
        });
        Plan {
            objects: objects.collect(),
        }
    }
}

/// Appends the items that are not there yet, and returns whether there were any. A pass that fails at a write is
/// repeated, so the same item may come again.
fn insert<T: PartialEq>(list: &mut Vec<T>, item: T) -> bool {
    let new = !list.contains(&item);
    if new {
        list.push(item);
    }
    new
}

impl CallObserver for Recorder {
    fn not_sent(&self, write: &UnsentWrite<'_>) {
        let unknown = || Subject::new("Cloud", &ObjectName::new("", "unknown"));
        let subject = Subject::current().unwrap_or_else(unknown);
        let body = write.body.map(serde_json::from_slice);
        let mut body: Value = body.and_then(Result::ok).unwrap_or(Value::Null);
        redact(&mut body);
        let write = OpenStackWrite {
            service: write.service.name(),
            request: write.request,
            method: write.method,
            path: write.path.clone(),
            body,
        };
        self.note(subject, |entry| insert(&mut entry.openstack, write));
    }
}

impl PassObserver for Recorder {
    fn pass_over(&self, object: &Subject, outcome: &Outcome) {
        let result = match outcome {
            // A pass without the lease has reached a write, which is recorded elsewhere.
            Outcome::Done
            | Outcome::Failed {
                class: FailureClass::NotSent,
                ..
            } => Assessment::Completed,
            Outcome::Wait {
                reason, message, ..
            } => Assessment::Waiting {
                reason: reason.as_str().to_owned(),
                message: message.clone(),
            },
            Outcome::Failed {
                reason, message, ..
            } => Assessment::Failed {
                reason: reason.as_str().to_owned(),
                message: message.clone(),
            },
        };
        self.note(object.clone(), |entry| {
            let new = entry.result.as_ref() != Some(&result);
            entry.result = Some(result);
            new
        });
    }
}

/// The conditions that refuse a part of the spec. Ready repeats other conditions, so it is used only if there is no
/// other.
fn refusals(conditions: &[Value]) -> Vec<PlanRefusal> {
    let reasons = [Reason::NotSupported, Reason::InvalidSpec].map(Reason::as_str);
    let refused = conditions.iter().filter(|condition| {
        let reason = condition["reason"].as_str().unwrap_or_default();
        condition["status"] != ConditionStatus::True.as_str() && reasons.contains(&reason)
    });
    let text =
        |condition: &Value, field: &str| condition[field].as_str().unwrap_or_default().to_owned();
    let mut refusals: Vec<PlanRefusal> = refused
        .map(|condition| PlanRefusal {
            condition: text(condition, "type"),
            reason: text(condition, "reason"),
            message: text(condition, "message"),
        })
        .collect();
    if refusals.len() > 1 {
        refusals.retain(|refusal| refusal.condition != kind::READY);
    }
    refusals
}

fn redact(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            for (key, value) in fields {
                if SECRET.contains(&key.as_str()) {
                    *value = json!("(left out)");
                } else {
                    redact(value);
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(redact),
        _ => {}
    }
}

/// Whether a write only records where the objects of a cluster are, or what may be being created, which changes nothing
/// in the cloud.
fn is_record_only(content: &Value) -> bool {
    let annotations = content["metadata"]["annotations"].as_object();
    content
        .as_object()
        .is_some_and(|content| content.len() == 1)
        && annotations.is_some_and(|annotations| {
            annotations.len() == 1
                && [PROJECT_ANNOTATION, creations::ANNOTATION]
                    .iter()
                    .any(|annotation| annotations.contains_key(*annotation))
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use capo_openstack::Service;

    fn subject(name: &str) -> Subject {
        Subject::new("OpenStackMachine", &ObjectName::new("n", name))
    }

    fn call(body: &'static [u8]) -> UnsentWrite<'static> {
        UnsentWrite {
            service: Service::Compute,
            request: "server_create",
            method: "POST",
            path: "servers".to_owned(),
            body: Some(body),
        }
    }

    #[tokio::test]
    async fn a_repeated_write_is_listed_once_and_shows_no_user_data() {
        let recorder = Recorder::default();
        let create = br#"{"server": {"name": "a", "user_data": "c2VjcmV0"}}"#;
        for _ in 0..2 {
            let record = async { recorder.not_sent(&call(create)) };
            subject("a").scope(record).await;
        }
        let lost = Outcome::failed(FailureClass::NotSent, Reason::OpenStackUnavailable, "x");
        recorder.pass_over(&subject("a"), &lost);
        let plan = recorder.plan(&BTreeSet::new());
        assert_eq!(plan.changes(), (1, 0));
        assert_eq!(plan.unknown(), 0);
        let body = &plan.objects[0].openstack[0].body["server"];
        assert_eq!(*body, json!({"name": "a", "user_data": "(left out)"}));
    }

    #[test]
    fn an_object_that_failed_or_had_no_pass_is_unknown_and_a_status_is_no_change() {
        let recorder = Recorder::default();
        let failed = Outcome::failed(
            FailureClass::Auth,
            Reason::OpenStackAuthenticationFailed,
            "401",
        );
        recorder.pass_over(&subject("a"), &failed);
        recorder.kubernetes(dry_run::UnsentWrite {
            subject: subject("a"),
            verb: "patch",
            of_status: true,
            content: json!({"status": {"conditions": [
                {"type": "Ready", "status": "False", "reason": "NotSupported", "message": "x"},
                {"type": "InstanceReady", "status": "False", "reason": "NotSupported", "message": "x"},
                {"type": "NetworkReady", "status": "False", "reason": "NetworkCreateFailed", "message": "y"},
            ]}}),
        });
        let expected = BTreeSet::from([subject("a"), subject("b")]);
        assert!(recorder.progress(&expected).missing);
        let plan = recorder.plan(&expected);
        assert_eq!((plan.changes(), plan.unknown()), ((0, 0), 2));
        assert!(plan.objects[0].updates_status);
        let refused = &plan.objects[0].refusals;
        assert_eq!(refused.len(), 1);
        assert_eq!(refused[0].condition, "InstanceReady");
    }
}
