//! Determines when a MachineHealthCheck replaces a Machine that has no Node yet. A machine that waits for its load
//! balancer member has no Node, so the condition warns the operator before that time.

use std::{fmt, sync::Arc};

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta};
use kube::core::{Selector, SelectorExt};
use serde::Deserialize;

use super::capi::{
    Cluster, Machine, PAUSED_ANNOTATION, SeenCondition, condition, has_annotation, lenient,
};
use capo_core::ConditionStatus;

/// Annotation, presence only: no MachineHealthCheck replaces this Machine.
const SKIP_REMEDIATION: &str = "cluster.x-k8s.io/skip-remediation";
/// Cluster API's default for `nodeStartupTimeoutSeconds`.
const DEFAULT_SECONDS: u32 = 600;

/// A MachineHealthCheck, trimmed to the fields that decide when it replaces a Machine without a Node.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
pub struct MachineHealthCheck {
    /// The usual metadata.
    #[serde(default)]
    pub metadata: ObjectMeta,
    /// The desired state.
    #[serde(default, deserialize_with = "lenient")]
    pub spec: MachineHealthCheckSpec,
}

/// The fields of its spec that capo-rs reads.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MachineHealthCheckSpec {
    /// The Cluster whose Machines it checks.
    #[serde(default, deserialize_with = "lenient")]
    pub cluster_name: String,
    /// The labels of those Machines.
    #[serde(default, deserialize_with = "lenient")]
    pub selector: LabelSelector,
    /// The checks.
    #[serde(default, deserialize_with = "lenient")]
    pub checks: Checks,
}

/// The checks of a MachineHealthCheck.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Checks {
    /// How long a Machine may be without a Node; 0 means without limit.
    #[serde(default, deserialize_with = "lenient")]
    pub node_startup_timeout_seconds: Option<u32>,
}

super::capi::resource!(MachineHealthCheck, "machinehealthchecks");

/// The time at which a Machine without a Node is replaced, and the MachineHealthCheck that does it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Deadline {
    check: String,
    seconds: u32,
    counted_from: Timestamp,
}

impl Deadline {
    /// The time at which the Machine counts as unhealthy.
    fn at(&self) -> Timestamp {
        self.after(self.seconds)
    }

    /// The time at which half of the timeout is over. Most machines have a Node by then.
    pub(crate) fn near_at(&self) -> Timestamp {
        self.after(self.seconds / 2)
    }

    /// Whether half of the timeout is over.
    pub(crate) fn is_near(&self, now: Timestamp) -> bool {
        now >= self.near_at()
    }

    fn after(&self, seconds: u32) -> Timestamp {
        self.counted_from
            .saturating_add(SignedDuration::from_secs(seconds.into()))
            .unwrap_or(Timestamp::MAX)
    }
}

/// The text contains no time that passes, so that it stays the same while the deadline applies.
impl fmt::Display for Deadline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "MachineHealthCheck {} replaces this Machine after {} if it has no Node by then \
             (spec.checks.nodeStartupTimeoutSeconds {}): repair what keeps the member from becoming ACTIVE, or set a longer time",
            self.check,
            self.at(),
            self.seconds
        )
    }
}

/// The earliest time at which one of `checks` replaces `machine`, which has no Node.
pub(crate) fn deadline(
    checks: &[Arc<MachineHealthCheck>],
    machine: &Machine,
    cluster: Option<&Cluster>,
) -> Option<Deadline> {
    let skipped = [SKIP_REMEDIATION, PAUSED_ANNOTATION]
        .iter()
        .any(|key| has_annotation(&machine.metadata, key));
    let infrastructure =
        cluster.and_then(|cluster| cluster.condition(condition::INFRASTRUCTURE_READY));
    // While the Cluster's infrastructure is not ready, none of its Machines is checked.
    let checks_apply =
        infrastructure.is_none_or(|condition| condition.status != ConditionStatus::False);
    if skipped || !checks_apply || machine.status.node_ref.is_some() {
        return None;
    }
    let since = |condition: Option<&SeenCondition>| {
        condition
            .filter(|condition| condition.is_true())
            .and_then(|condition| condition.last_transition_time)
    };
    let counted_from = [
        machine
            .metadata
            .creation_timestamp
            .as_ref()
            .map(|time| time.0),
        since(infrastructure),
        since(cluster.and_then(|cluster| cluster.condition(condition::CONTROL_PLANE_INITIALIZED))),
        since(machine.condition(condition::INFRASTRUCTURE_READY)),
    ]
    .into_iter()
    .flatten()
    .max()?;
    let labels = machine.metadata.labels.clone().unwrap_or_default();
    checks
        .iter()
        .filter(|check| {
            check.metadata.namespace == machine.metadata.namespace
                && check.spec.cluster_name == machine.spec.cluster_name
                && Selector::try_from(check.spec.selector.clone())
                    .is_ok_and(|selector| selector.matches(&labels))
        })
        .filter_map(|check| {
            let seconds = check.spec.checks.node_startup_timeout_seconds;
            let seconds = seconds.unwrap_or(DEFAULT_SECONDS);
            (seconds > 0).then(|| Deadline {
                check: check.metadata.name.clone().unwrap_or_default(),
                seconds,
                counted_from,
            })
        })
        .min_by_key(|deadline| deadline.seconds)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn check(spec: &Value) -> Arc<MachineHealthCheck> {
        let value = json!({"metadata": {"name": "mhc", "namespace": "n"}, "spec": spec});
        Arc::new(serde_json::from_value(value).unwrap())
    }

    fn of_control_plane(checks: &Value) -> Arc<MachineHealthCheck> {
        check(&json!({"clusterName": "c1", "checks": checks,
            "selector": {"matchLabels": {"cluster.x-k8s.io/control-plane": ""}}}))
    }

    fn machine(change: impl Fn(&mut Value)) -> Machine {
        let mut value = json!({
            "metadata": {"name": "m", "namespace": "n", "creationTimestamp": "2026-11-21T10:00:00Z",
                "labels": {"cluster.x-k8s.io/control-plane": ""}},
            "spec": {"clusterName": "c1"}, "status": {},
        });
        change(&mut value);
        serde_json::from_value(value).unwrap()
    }

    fn cluster(conditions: &Value) -> Cluster {
        serde_json::from_value(
            json!({"metadata": {"name": "c1"}, "status": {"conditions": conditions}}),
        )
        .unwrap()
    }

    fn at(
        checks: &[Arc<MachineHealthCheck>],
        machine: &Machine,
        cluster: Option<&Cluster>,
    ) -> Option<String> {
        deadline(checks, machine, cluster).map(|deadline| deadline.at().to_string())
    }

    #[test]
    fn the_strictest_check_that_selects_the_machine_applies() {
        let plain = machine(|_| {});
        let default = of_control_plane(&json!({}));
        let strict = of_control_plane(&json!({"nodeStartupTimeoutSeconds": 300}));
        let never = of_control_plane(&json!({"nodeStartupTimeoutSeconds": 0}));
        let odd = check(&json!({"clusterName": "c1", "selector": 4, "checks": "no"}));
        let of_workers = check(
            &json!({"clusterName": "c1", "selector": {"matchExpressions": [
            {"key": "cluster.x-k8s.io/control-plane", "operator": "DoesNotExist"}]}}),
        );
        let of_another = check(&json!({"clusterName": "c2", "selector": {}}));
        let ten = Some("2026-11-21T10:10:00Z".to_owned());
        assert_eq!(at(std::slice::from_ref(&default), &plain, None), ten);
        assert_eq!(
            at(&[default.clone(), strict, never.clone()], &plain, None),
            Some("2026-11-21T10:05:00Z".to_owned())
        );
        for others in [vec![], vec![never], vec![of_workers], vec![of_another]] {
            assert_eq!(at(&others, &plain, None), None, "{others:?}");
        }
        // A field that can't be read is ignored.
        assert_eq!(at(&[odd], &plain, None), ten);
        for change in [
            |m: &mut Value| m["status"]["nodeRef"] = json!({"name": "m"}),
            |m: &mut Value| m["metadata"]["annotations"] = json!({SKIP_REMEDIATION: ""}),
        ] {
            assert_eq!(
                at(std::slice::from_ref(&default), &machine(change), None),
                None
            );
        }
    }

    #[test]
    fn the_time_counts_from_the_last_precondition() {
        let default = [of_control_plane(&json!({}))];
        let condition = |kind: &str, status: &str, time: &str| json!({"type": kind, "status": status, "reason": "X", "message": "", "lastTransitionTime": time});
        let (late, later) = ("2026-11-21T11:00:00Z", "2026-11-21T12:00:00Z");
        let ready = cluster(&json!([
            condition("InfrastructureReady", "True", late),
            condition("ControlPlaneInitialized", "False", later),
        ]));
        let plain = machine(|_| {});
        assert_eq!(
            at(&default, &plain, Some(&ready)).as_deref(),
            Some("2026-11-21T11:10:00Z")
        );
        let up = machine(|m| {
            m["status"]["conditions"] = json!([condition("InfrastructureReady", "True", later)]);
        });
        assert_eq!(
            at(&default, &up, Some(&ready)).as_deref(),
            Some("2026-11-21T12:10:00Z")
        );
        let down = cluster(&json!([condition("InfrastructureReady", "False", late)]));
        assert_eq!(at(&default, &plain, Some(&down)), None);
    }

    #[test]
    fn the_warning_is_shown_from_half_of_the_time_on_with_a_stable_text() {
        let deadline = deadline(&[of_control_plane(&json!({}))], &machine(|_| {}), None).unwrap();
        for (now, near) in [
            ("2026-11-21T10:04:59Z", false),
            ("2026-11-21T10:05:00Z", true),
            ("2026-11-21T11:05:00Z", true),
        ] {
            assert_eq!(deadline.is_near(now.parse().unwrap()), near, "{now}");
        }
        let text = deadline.to_string();
        for word in [
            "MachineHealthCheck mhc",
            "2026-11-21T10:10:00Z",
            "nodeStartupTimeoutSeconds 600",
        ] {
            assert!(text.contains(word), "{text}");
        }
    }
}
