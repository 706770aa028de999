//! The state of all objects in the four conditions of OpenShift's ClusterOperator. A pure function computes them from
//! the objects. The result is not stored, and no decision depends on it.

use std::{collections::BTreeSet, fmt::Write as _, time::Duration};

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::Resource;

use crate::kubernetes::conditions::{self, kind};
use crate::reconcile::name_of;
use capo_api::v1beta2::{OpenStackCluster, OpenStackMachine};
use capo_core::ConditionStatus;
use capo_core::Reason;

/// A problem that lasts for a shorter time is not reported.
const PATIENCE: Duration = Duration::from_mins(2);
/// The number of objects that a message lists by name.
const NAMED: usize = 5;

/// One of the four conditions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RolledUp {
    /// `Available`, `Progressing`, `Degraded` or `Upgradeable`.
    pub kind: &'static str,
    /// The status of the condition.
    pub status: ConditionStatus,
    /// The reason of the condition.
    pub reason: String,
    /// The message of the condition.
    pub message: String,
}

/// A problem of an object.
#[derive(Debug, Clone)]
struct ObjectProblem {
    /// The reason of the condition that shows it.
    reason: String,
    /// The message of that condition.
    message: String,
}

/// The state of one object.
#[derive(Debug)]
struct ObjectState {
    object: String,
    is_cluster: bool,
    /// A problem that has lasted for longer than [`PATIENCE`].
    problem: Option<ObjectProblem>,
    /// Whether the object is being changed.
    changing: bool,
    /// Whether a gate holds the object.
    held: bool,
}

/// Computes the four conditions.
pub fn roll_up<'a>(
    clusters: impl Iterator<Item = &'a OpenStackCluster>,
    machines: impl Iterator<Item = &'a OpenStackMachine>,
    now: Timestamp,
) -> [RolledUp; 4] {
    let clusters = clusters.map(|object| {
        let status = object.status.as_ref();
        let conditions = status.map_or(&[][..], |status| &status.conditions);
        let observed = status.and_then(|status| status.observed_generation);
        state("OpenStackCluster", object, conditions, observed, now)
    });
    let machines = machines.map(|object| {
        let status = object.status.as_ref();
        let conditions = status.map_or(&[][..], |status| &status.conditions);
        let observed = status.and_then(|status| status.observed_generation);
        let provisioned = status
            .and_then(|status| status.initialization.as_ref()?.provisioned)
            .unwrap_or_default();
        let state = state("OpenStackMachine", object, conditions, observed, now);
        let waits = !provisioned || object.metadata.deletion_timestamp.is_some();
        ObjectState {
            held: state.held && waits,
            ..state
        }
    });
    let all: Vec<ObjectState> = clusters
        .map(|cluster| ObjectState {
            held: false,
            ..cluster
        })
        .chain(machines)
        .collect();
    [
        available(&all),
        progressing(&all),
        degraded(&all),
        upgradeable(&all),
    ]
}

fn state<K: Resource<DynamicType = ()>>(
    kind: &'static str,
    object: &K,
    conditions: &[Condition],
    observed: Option<i64>,
    now: Timestamp,
) -> ObjectState {
    let is_true = |kind: &str| {
        conditions
            .iter()
            .any(|condition| condition.type_ == kind && conditions::is_true(condition))
    };
    let paused = is_true(kind::PAUSED);
    let patience = i64::try_from(PATIENCE.as_secs()).unwrap_or(i64::MAX);
    let problem = conditions
        .iter()
        .filter(|condition| {
            ![kind::READY, kind::PAUSED].contains(&condition.type_.as_str())
                && !conditions::is_true(condition)
                && is_problem(&condition.reason)
                && now.as_second() - condition.last_transition_time.0.as_second() >= patience
        })
        .map(|condition| ObjectProblem {
            reason: condition.reason.clone(),
            message: condition.message.clone(),
        })
        .next()
        .filter(|_| !paused);
    let deleting = object.meta().deletion_timestamp.is_some();
    let settled = is_true(kind::READY) && observed == object.meta().generation && !deleting;
    let held = conditions.iter().any(|condition| {
        condition.type_ == kind::API_SERVER_LOAD_BALANCER_READY && !conditions::is_true(condition)
    });
    ObjectState {
        object: format!("{kind} {}", name_of(object)),
        is_cluster: kind == "OpenStackCluster",
        changing: problem.is_none() && !settled && !paused,
        held: held && !paused,
        problem,
    }
}

/// Whether a condition with this reason reports a problem, and not a step of an ordinary change.
fn is_problem(reason: &str) -> bool {
    Reason::parse(reason).is_none_or(|reason| {
        !reason.is_step_of_change()
            && !matches!(
                reason,
                Reason::Deleting
                    | Reason::InstanceNotReady
                    | Reason::WaitingForOwner
                    | Reason::WaitingForBootstrapData
                    | Reason::WaitingForClusterInfrastructure
                    | Reason::NotPaused
            )
    })
}

fn available(all: &[ObjectState]) -> RolledUp {
    let unreachable = |state: &&ObjectState| {
        let reason = state
            .problem
            .as_ref()
            .map(|problem| problem.reason.as_str());
        [
            Reason::OpenStackUnavailable,
            Reason::OpenStackAuthenticationFailed,
            Reason::AuthFailed,
            Reason::IdentityAccessDenied,
        ]
        .iter()
        .any(|known| reason == Some(known.as_str()))
    };
    let clusters: Vec<&ObjectState> = all.iter().filter(|state| state.is_cluster).collect();
    let without_cloud = clusters.iter().copied().filter(unreachable).count();
    if without_cloud > 0 && without_cloud == clusters.len() {
        let first = clusters.first().and_then(|cluster| cluster.problem.clone());
        return rolled(
            "Available",
            ConditionStatus::False,
            "NoCloudAnswers",
            format!(
                "No OpenStackCluster reaches its cloud ({without_cloud} of {without_cloud}): {}",
                first.map(|problem| problem.message).unwrap_or_default()
            ),
        );
    }
    rolled(
        "Available",
        ConditionStatus::True,
        "AsExpected",
        format!("Reconciling {} OpenStackClusters", clusters.len()),
    )
}

fn progressing(all: &[ObjectState]) -> RolledUp {
    let changing: Vec<&ObjectState> = all.iter().filter(|state| state.changing).collect();
    if changing.is_empty() {
        return rolled(
            "Progressing",
            ConditionStatus::False,
            "AsExpected",
            "Nothing is being changed".to_owned(),
        );
    }
    let text = format!(
        "{} of {} objects are being changed: ",
        changing.len(),
        all.len()
    );
    rolled(
        "Progressing",
        ConditionStatus::True,
        "Reconciling",
        text + &named(changing.iter().map(|state| state.object.clone())),
    )
}

fn degraded(all: &[ObjectState]) -> RolledUp {
    let problems: Vec<(&str, &ObjectProblem)> = all
        .iter()
        .filter_map(|state| Some((state.object.as_str(), state.problem.as_ref()?)))
        .collect();
    let reasons: BTreeSet<&str> = problems
        .iter()
        .map(|(_, problem)| problem.reason.as_str())
        .collect();
    let mut each = reasons.iter();
    let reason = match (each.next(), each.next()) {
        (None, _) => {
            return rolled(
                "Degraded",
                ConditionStatus::False,
                "AsExpected",
                "Nothing is wrong".to_owned(),
            );
        }
        (Some(only), None) => (*only).to_owned(),
        _ => "MultipleReasons".to_owned(),
    };
    let texts = problems
        .iter()
        .map(|(object, problem)| format!("{object}: {}: {}", problem.reason, problem.message));
    rolled("Degraded", ConditionStatus::True, &reason, named(texts))
}

fn upgradeable(all: &[ObjectState]) -> RolledUp {
    let held: Vec<&ObjectState> = all.iter().filter(|state| state.held).collect();
    if held.is_empty() {
        return rolled(
            "Upgradeable",
            ConditionStatus::True,
            "AsExpected",
            "No machine waits at a gate".to_owned(),
        );
    }
    rolled(
        "Upgradeable",
        ConditionStatus::False,
        Reason::GateHeld.as_str(),
        "Waiting at a gate: ".to_owned() + &named(held.iter().map(|state| state.object.clone())),
    )
}

fn named(texts: impl ExactSizeIterator<Item = String>) -> String {
    let more = texts.len().saturating_sub(NAMED);
    let mut text = texts.take(NAMED).collect::<Vec<_>>().join("; ");
    if more > 0 {
        let _ = write!(text, "; and {more} more");
    }
    text
}

fn rolled(kind: &'static str, status: ConditionStatus, reason: &str, message: String) -> RolledUp {
    RolledUp {
        kind,
        status,
        reason: reason.to_owned(),
        message,
    }
}

#[cfg(test)]
mod tests;
