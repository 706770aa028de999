//! Everything this manager looks after in four conditions, as OpenShift's ClusterOperator has them. A plain
//! function of the objects: nothing of it is remembered, and nothing reads it to decide anything.

use std::{collections::BTreeSet, fmt::Write as _, time::Duration};

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::{Resource, ResourceExt};

use super::transitions::is_trouble;
use crate::kubernetes::conditions::kind;
use capo_api::v1beta2::{OpenStackCluster, OpenStackMachine};
use capo_core::ConditionStatus;
use capo_core::Reason;

/// Trouble that passes sooner is not reported.
const PATIENCE: Duration = Duration::from_mins(2);
/// Objects that a message names.
const NAMED: usize = 5;

/// One of the four conditions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RolledUp {
    /// `Available`, `Progressing`, `Degraded` or `Upgradeable`.
    pub kind: &'static str,
    /// Its status.
    pub status: ConditionStatus,
    /// Why.
    pub reason: String,
    /// For people.
    pub message: String,
}

/// How one object stands.
#[derive(Debug)]
struct Standing {
    object: String,
    is_cluster: bool,
    /// What is wrong with it for longer than [`PATIENCE`].
    trouble: Option<(String, String)>,
    /// Something about it is being changed.
    changing: bool,
    /// A gate holds it.
    held: bool,
}

/// The four conditions.
pub fn roll_up<'a>(
    clusters: impl Iterator<Item = &'a OpenStackCluster>,
    machines: impl Iterator<Item = &'a OpenStackMachine>,
    now: Timestamp,
) -> [RolledUp; 4] {
    let clusters = clusters.map(|object| {
        let status = object.status.as_ref();
        let conditions = status.map_or(&[][..], |status| &status.conditions);
        let observed = status.and_then(|status| status.observed_generation);
        standing("OpenStackCluster", object, conditions, observed, now)
    });
    let machines = machines.map(|object| {
        let status = object.status.as_ref();
        let conditions = status.map_or(&[][..], |status| &status.conditions);
        let observed = status.and_then(|status| status.observed_generation);
        let provisioned = status
            .and_then(|status| status.initialization.as_ref()?.provisioned)
            .unwrap_or_default();
        let standing = standing("OpenStackMachine", object, conditions, observed, now);
        let waits = !provisioned || object.metadata.deletion_timestamp.is_some();
        Standing {
            held: standing.held && waits,
            ..standing
        }
    });
    let all: Vec<Standing> = clusters
        .map(|cluster| Standing {
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

fn standing<K: Resource<DynamicType = ()>>(
    kind: &'static str,
    object: &K,
    conditions: &[Condition],
    observed: Option<i64>,
    now: Timestamp,
) -> Standing {
    let is_true = |kind: &str| {
        conditions
            .iter()
            .any(|condition| condition.type_ == kind && condition.status == "True")
    };
    let paused = is_true(kind::PAUSED);
    let patience = i64::try_from(PATIENCE.as_secs()).unwrap_or(i64::MAX);
    let trouble = conditions
        .iter()
        .filter(|condition| {
            ![kind::READY, kind::PAUSED].contains(&condition.type_.as_str())
                && condition.status != "True"
                && names_trouble(&condition.reason)
                && now.as_second() - condition.last_transition_time.0.as_second() >= patience
        })
        .map(|condition| (condition.reason.clone(), condition.message.clone()))
        .next()
        .filter(|_| !paused);
    let deleting = object.meta().deletion_timestamp.is_some();
    let settled = is_true(kind::READY) && observed == object.meta().generation && !deleting;
    let held = conditions.iter().any(|condition| {
        condition.type_ == kind::API_SERVER_LOAD_BALANCER_READY && condition.status != "True"
    });
    Standing {
        object: format!(
            "{kind} {}/{}",
            object.namespace().unwrap_or_default(),
            object.name_any()
        ),
        is_cluster: kind == "OpenStackCluster",
        changing: trouble.is_none() && !settled && !paused,
        held: held && !paused,
        trouble,
    }
}

/// Whether a condition with this reason is more than a step of an ordinary change.
fn names_trouble(reason: &str) -> bool {
    let known = Reason::ALL.iter().find(|known| known.as_str() == reason);
    known.is_none_or(|reason| {
        is_trouble(*reason)
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

fn available(all: &[Standing]) -> RolledUp {
    let asleep = |standing: &&Standing| {
        let reason = standing.trouble.as_ref().map(|(reason, _)| reason.as_str());
        [
            Reason::OpenStackUnavailable,
            Reason::OpenStackAuthenticationFailed,
            Reason::AuthFailed,
            Reason::IdentityAccessDenied,
        ]
        .iter()
        .any(|known| reason == Some(known.as_str()))
    };
    let clusters: Vec<&Standing> = all.iter().filter(|standing| standing.is_cluster).collect();
    let dark = clusters.iter().copied().filter(asleep).count();
    if dark > 0 && dark == clusters.len() {
        let first = clusters.first().and_then(|cluster| cluster.trouble.clone());
        return rolled(
            "Available",
            ConditionStatus::False,
            "NoCloudAnswers",
            format!(
                "None of {dark} OpenStackClusters reaches its cloud: {}",
                first.map(|(_, message)| message).unwrap_or_default()
            ),
        );
    }
    rolled(
        "Available",
        ConditionStatus::True,
        "AsExpected",
        format!("Looking after {} OpenStackClusters", clusters.len()),
    )
}

fn progressing(all: &[Standing]) -> RolledUp {
    let changing: Vec<&Standing> = all.iter().filter(|standing| standing.changing).collect();
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
        text + &named(changing.iter().map(|standing| standing.object.clone())),
    )
}

fn degraded(all: &[Standing]) -> RolledUp {
    let troubled: Vec<(&str, &(String, String))> = all
        .iter()
        .filter_map(|standing| Some((standing.object.as_str(), standing.trouble.as_ref()?)))
        .collect();
    let reasons: BTreeSet<&str> = troubled
        .iter()
        .map(|(_, (reason, _))| reason.as_str())
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
    let texts = troubled
        .iter()
        .map(|(object, (reason, message))| format!("{object}: {reason}: {message}"));
    rolled("Degraded", ConditionStatus::True, &reason, named(texts))
}

fn upgradeable(all: &[Standing]) -> RolledUp {
    let held: Vec<&Standing> = all.iter().filter(|standing| standing.held).collect();
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
        "Waiting at a gate: ".to_owned()
            + &named(held.iter().map(|standing| standing.object.clone())),
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
mod tests {
    use serde_json::{Value, json};

    use super::*;

    const NOW: &str = "2026-11-21T12:00:00Z";

    fn condition(kind: &str, status: &str, reason: &str, since: &str) -> Value {
        json!({"type": kind, "status": status, "reason": reason, "message": format!("{reason} it is"),
            "lastTransitionTime": format!("2026-11-21T{since}Z")})
    }

    fn cluster(name: &str, conditions: &[Value]) -> OpenStackCluster {
        serde_json::from_value(json!({
            "metadata": {"name": name, "namespace": "n", "generation": 1}, "spec": {"identityRef": {"name": "c", "cloudName": "c"}},
            "status": {"observedGeneration": 1, "conditions": conditions},
        }))
        .unwrap()
    }

    fn machine(name: &str, provisioned: bool, conditions: &[Value]) -> OpenStackMachine {
        serde_json::from_value(json!({
            "metadata": {"name": name, "namespace": "n", "generation": 1},
            "spec": {"image": {"id": "i"}, "flavor": {"id": "f"}},
            "status": {"observedGeneration": 1, "initialization": {"provisioned": provisioned}, "conditions": conditions},
        }))
        .unwrap()
    }

    fn shown(clusters: &[OpenStackCluster], machines: &[OpenStackMachine]) -> Vec<String> {
        roll_up(clusters.iter(), machines.iter(), NOW.parse().unwrap())
            .into_iter()
            .map(|one| format!("{}={} {}", one.kind, one.status.as_str(), one.reason))
            .collect()
    }

    fn ready() -> Value {
        condition("Ready", "True", "Ready", "10:00:00")
    }

    #[test]
    fn all_is_well_with_nothing_and_with_what_is_ready() {
        let well = [
            "Available=True AsExpected",
            "Progressing=False AsExpected",
            "Degraded=False AsExpected",
            "Upgradeable=True AsExpected",
        ];
        assert_eq!(shown(&[], &[]), well);
        let machines = [machine("m", true, &[ready()])];
        assert_eq!(shown(&[cluster("c", &[ready()])], &machines), well);
    }

    #[test]
    fn a_machine_that_waits_at_a_gate_is_progress_and_blocks_upgrades() {
        let waits = [
            condition("Ready", "False", "NotReady", "11:59:50"),
            condition(
                "APIServerLoadBalancerReady",
                "False",
                "MemberPending",
                "11:50:00",
            ),
        ];
        let machines = [machine("m", false, &waits)];
        assert_eq!(
            shown(&[cluster("c", &[ready()])], &machines),
            [
                "Available=True AsExpected",
                "Progressing=True Reconciling",
                "Degraded=False AsExpected",
                "Upgradeable=False GateHeld",
            ]
        );
    }

    #[test]
    fn trouble_counts_when_it_lasts() {
        let bad = |since: &str| {
            [
                condition("Ready", "False", "NotReady", since),
                condition(
                    "OpenStackAuthenticationSucceeded",
                    "False",
                    "AuthFailed",
                    since,
                ),
            ]
        };
        let short = shown(&[cluster("c", &bad("11:59:00"))], &[]);
        assert!(
            short.contains(&"Degraded=False AsExpected".to_owned()),
            "{short:?}"
        );
        let long = shown(&[cluster("c", &bad("11:57:00"))], &[]);
        assert_eq!(long[0], "Available=False NoCloudAnswers");
        assert_eq!(long[2], "Degraded=True AuthFailed");
        // One of two: something still works.
        let half = shown(
            &[cluster("c", &bad("11:57:00")), cluster("d", &[ready()])],
            &[],
        );
        assert_eq!(half[0], "Available=True AsExpected");
        assert_eq!(half[2], "Degraded=True AuthFailed");
    }

    #[test]
    fn what_is_paused_is_left_out_and_long_lists_are_cut() {
        let bad = condition(
            "APIServerLoadBalancerReady",
            "False",
            "MemberError",
            "11:00:00",
        );
        let paused = condition("Paused", "True", "Paused", "11:00:00");
        let quiet = shown(&[cluster("c", &[bad.clone(), paused])], &[]);
        assert_eq!(quiet[2], "Degraded=False AsExpected");
        let many: Vec<OpenStackCluster> = (0..9)
            .map(|number| cluster(&format!("c{number}"), std::slice::from_ref(&bad)))
            .collect();
        let [_, _, degraded, _] = roll_up(many.iter(), [].iter(), NOW.parse().unwrap());
        assert!(
            degraded.message.ends_with("; and 4 more"),
            "{}",
            degraded.message
        );
        assert!(
            degraded
                .message
                .starts_with("OpenStackCluster n/c0: MemberError: MemberError it is")
        );
    }
}
