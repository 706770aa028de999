//! The changes of listeners, pools and health monitors, for events and the log.

use ipnet::IpNet;

use crate::kubernetes::events::{CloudObject, Verb};
use capo_core::{FailureClass, ObjectName};
use capo_gate::{
    PartId,
    octavia::{Answer, Change, Written},
};

/// A change of a listener, a pool or a health monitor that was sent to Octavia.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartChange {
    /// The `OpenStackCluster`.
    pub cluster: ObjectName,
    /// What was done to the object.
    pub verb: Verb,
    /// The kind of the object.
    pub object: CloudObject,
    /// The object's name.
    pub name: String,
    /// Octavia's id, or why Octavia refused the change.
    pub result: Result<String, (FailureClass, String)>,
    /// The values that were set; empty for creations and deletions.
    pub details: String,
}

/// Describes a change that is about to be sent. `None` for a change of a member, because findings report those.
pub(super) fn described(cluster: &ObjectName, change: &Change) -> Option<PartChange> {
    let (verb, object, name, id, details) = match change {
        Change::CreateListener(new) => (Verb::Create, CloudObject::Listener, &new.name, None, None),
        Change::UpdateListener { id, name, update } => {
            let pool = update
                .default_pool_id
                .as_ref()
                .map(|pool| format!("default pool {pool}"));
            let details = pool.or_else(|| update.allowed_cidrs.as_deref().map(ranges));
            (
                Verb::Update,
                CloudObject::Listener,
                name,
                Some(id.as_str()),
                Some(details),
            )
        }
        Change::CreatePool(new) => (Verb::Create, CloudObject::Pool, &new.name, None, None),
        Change::UpdatePool { id, name } => (
            Verb::Update,
            CloudObject::Pool,
            name,
            Some(id.as_str()),
            Some(None),
        ),
        Change::CreateMonitor(new) => {
            let details = Some(Some(format!("type {}", new.monitor_type)));
            (Verb::Create, CloudObject::Monitor, &new.name, None, details)
        }
        Change::UpdateMonitor {
            id,
            name,
            parameters,
        } => {
            let details = format!(
                "delay {}, timeout {}, maxRetries {}, maxRetriesDown {}",
                parameters.delay,
                parameters.timeout,
                parameters.max_retries,
                parameters.max_retries_down
            );
            (
                Verb::Update,
                CloudObject::Monitor,
                name,
                Some(id.as_str()),
                Some(Some(details)),
            )
        }
        Change::DeletePart { id, name } => {
            let object = match id {
                PartId::Listener(_) => CloudObject::Listener,
                PartId::Pool(_) => CloudObject::Pool,
                PartId::Monitor(_) => CloudObject::Monitor,
            };
            (Verb::Delete, object, name, Some(id.as_str()), None)
        }
        Change::CreateMember { .. } | Change::UpdateMember { .. } | Change::DeleteMember { .. } => {
            return None;
        }
    };
    // A PUT without new values makes Octavia apply the object again.
    let details = details.map(|set| set.unwrap_or_else(|| "its own values again".to_owned()));
    Some(PartChange {
        cluster: cluster.clone(),
        verb,
        object,
        name: name.clone(),
        result: Ok(id.unwrap_or_default().to_owned()),
        details: details.unwrap_or_default(),
    })
}

impl PartChange {
    /// Adds Octavia's answer to the change.
    pub(super) fn with_answer(mut self, answer: &Answer<Written>) -> Self {
        match answer {
            Ok(Written { part: Some(id), .. }) => self.result = Ok(id.as_str().to_owned()),
            Ok(Written { part: None, .. }) => {}
            Err(failure) => self.result = Err((failure.class, failure.message.clone())),
        }
        self
    }
}

fn ranges(allowed: &[IpNet]) -> String {
    if allowed.is_empty() {
        return "every address may connect".to_owned();
    }
    let texts: Vec<String> = allowed.iter().map(ToString::to_string).collect();
    format!("allowedCIDRs {}", texts.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use capo_core::octavia::ListenerUpdate;
    use capo_gate::octavia::Failure;

    #[test]
    fn a_change_is_reported_with_what_came_of_it() {
        let cluster = ObjectName::new("n", "c");
        let change = Change::UpdateListener {
            id: "l1".into(),
            name: "lb-6443".to_owned(),
            update: ListenerUpdate {
                default_pool_id: None,
                allowed_cidrs: "10.0.0.0/8".parse().ok().map(|range| vec![range]),
            },
        };
        let sent = described(&cluster, &change).unwrap();
        assert_eq!(sent.details, "allowedCIDRs 10.0.0.0/8");
        let done = sent.clone().with_answer(&Ok(Written::default()));
        assert_eq!(done.result, Ok("l1".to_owned()));
        let failure = Failure {
            class: FailureClass::Quota,
            retry_after: None,
            message: "full".to_owned(),
        };
        let refused = sent.with_answer(&Err(failure));
        assert_eq!(
            refused.result,
            Err((FailureClass::Quota, "full".to_owned()))
        );
        let of_a_member = Change::DeleteMember {
            pool: "p".into(),
            id: "m".into(),
        };
        assert_eq!(described(&cluster, &of_a_member), None);
    }
}
