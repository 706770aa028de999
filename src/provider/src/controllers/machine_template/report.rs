//! Builds the status of a template. The functions are pure.

use jiff::Timestamp;
use serde_json::Value;

use super::capacity::Offer;
use crate::{
    kubernetes::conditions::{Conditions, kind},
    reconcile::StepError,
};
use capo_api::v1beta2::OpenStackMachineTemplate;
use capo_core::{ConditionState, Reason};

const NO_CREDENTIALS: &str = "The capacity is unknown: neither spec.template.spec.identityRef nor an owning Cluster names \
    the credentials to look the flavor and the image up with";

/// The result of one pass, from which the status is built.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Report {
    paused: bool,
    /// Whether OpenStack accepts the credentials; `None` if no sign-in was tried.
    authentication: Option<ConditionState>,
    /// The condition Ready; `None` leaves it as it was.
    ready: Option<ConditionState>,
    /// The capacity of a node; `None` leaves it as it was.
    offer: Option<Offer>,
    /// Whether the status counts as that of this generation.
    complete: bool,
}

impl Report {
    /// The report of a pass over a paused template, which reads nothing.
    pub(super) fn paused() -> Self {
        Self {
            paused: true,
            authentication: None,
            ready: None,
            offer: None,
            complete: false,
        }
    }

    /// The report if there are no credentials for the lookup, as for a template of a ClusterClass. The pass is
    /// complete.
    pub(super) fn without_credentials() -> Self {
        Self {
            paused: false,
            authentication: None,
            ready: Some(ConditionState {
                message: NO_CREDENTIALS.to_owned(),
                ..ConditionState::met(Reason::Ready)
            }),
            offer: Some(Offer::default()),
            complete: true,
        }
    }

    /// The report after a successful lookup.
    pub(super) fn of(offer: Offer) -> Self {
        Self {
            paused: false,
            authentication: Some(ConditionState::met(Reason::Ready)),
            ready: Some(ConditionState::met(Reason::Ready)),
            offer: Some(offer),
            complete: true,
        }
    }

    /// The report after a step that failed.
    pub(super) fn failed(error: StepError) -> Self {
        let of_credentials = error.condition == kind::OPENSTACK_AUTHENTICATION_SUCCEEDED;
        let ready = ConditionState {
            reason: if of_credentials {
                Reason::NotReady
            } else {
                error.state.reason
            },
            ..error.state.clone()
        };
        Self {
            paused: false,
            authentication: Some(if of_credentials {
                error.state
            } else {
                ConditionState::met(Reason::Ready)
            }),
            ready: Some(ready),
            offer: None,
            complete: false,
        }
    }
}

/// Builds the status after a pass.
pub(super) fn status(object: &OpenStackMachineTemplate, report: &Report, now: Timestamp) -> Value {
    let generation = object.metadata.generation.unwrap_or_default();
    let mut status = object.status.clone().unwrap_or_default();
    let mut conditions = Conditions::new(&status.conditions, generation, now);
    let paused = if report.paused {
        ConditionState::met(Reason::Paused)
    } else {
        ConditionState::unmet(Reason::NotPaused, "")
    };
    conditions.set(kind::PAUSED, &paused);
    if let Some(verdict) = &report.authentication {
        conditions.set(kind::OPENSTACK_AUTHENTICATION_SUCCEEDED, verdict);
    }
    match &report.ready {
        Some(verdict) => conditions.set(kind::READY, verdict),
        None => conditions.set_if_absent(
            kind::READY,
            &ConditionState::unknown(
                Reason::NotYetObserved,
                "Flavor and image were not looked up yet",
            ),
        ),
    }
    if let Some(offer) = &report.offer {
        status.capacity.clone_from(&offer.capacity);
        status.node_info.clone_from(&offer.node_info);
    }
    if report.complete {
        status.observed_generation = Some(generation);
    }
    status.conditions = conditions.into_list();
    serde_json::to_value(&status).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use capo_core::FailureClass;

    fn template() -> OpenStackMachineTemplate {
        serde_json::from_value(json!({
            "metadata": {"name": "t", "generation": 2},
            "status": {"observedGeneration": 1, "capacity": {"cpu": "2"}},
        }))
        .unwrap()
    }

    fn after(report: &Report) -> (Value, Vec<(String, String, String)>) {
        let status = status(&template(), report, Timestamp::UNIX_EPOCH);
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let conditions = status["conditions"].as_array().unwrap().iter();
        let conditions = conditions
            .map(|c| (text(&c["type"]), text(&c["status"]), text(&c["reason"])))
            .collect();
        (status, conditions)
    }

    fn expected(of: [(&str, &str, &str); 3]) -> Vec<(String, String, String)> {
        of.map(|(a, b, c)| (a.to_owned(), b.to_owned(), c.to_owned()))
            .to_vec()
    }

    #[test]
    fn a_complete_lookup_belongs_to_its_generation() {
        let offer = Offer {
            capacity: [(
                "cpu".to_owned(),
                serde_json::from_value(json!("4")).unwrap(),
            )]
            .into(),
            node_info: None,
        };
        let (status, conditions) = after(&Report::of(offer));
        assert_eq!(status["observedGeneration"], 2);
        assert_eq!(status["capacity"], json!({"cpu": "4"}));
        assert_eq!(
            conditions,
            expected([
                ("Ready", "True", "Ready"),
                ("OpenStackAuthenticationSucceeded", "True", "Ready"),
                ("Paused", "False", "NotPaused"),
            ])
        );
    }

    #[test]
    fn a_failed_one_leaves_what_is_known_and_its_generation() {
        let error = StepError::failed(
            kind::OPENSTACK_AUTHENTICATION_SUCCEEDED,
            FailureClass::Auth,
            Reason::OpenStackAuthenticationFailed,
            "no",
        );
        let (status, conditions) = after(&Report::failed(error));
        assert_eq!(status["observedGeneration"], 1);
        assert_eq!(status["capacity"], json!({"cpu": "2"}));
        assert_eq!(
            conditions,
            expected([
                ("Ready", "False", "NotReady"),
                (
                    "OpenStackAuthenticationSucceeded",
                    "False",
                    "OpenStackAuthenticationFailed"
                ),
                ("Paused", "False", "NotPaused"),
            ])
        );
    }

    #[test]
    fn without_credentials_there_is_nothing_to_wait_for() {
        let (status, conditions) = after(&Report::without_credentials());
        assert_eq!(status["observedGeneration"], 2);
        assert_eq!(status.get("capacity"), None);
        assert_eq!(
            conditions
                .first()
                .map(|(kind, status, _)| (kind.as_str(), status.as_str())),
            Some(("Ready", "True"))
        );
    }

    #[test]
    fn a_paused_one_is_not_looked_at() {
        let (status, conditions) = after(&Report::paused());
        assert_eq!(status["observedGeneration"], 1);
        assert_eq!(status["capacity"], json!({"cpu": "2"}));
        assert!(conditions.contains(&(
            "Paused".to_owned(),
            "True".to_owned(),
            "Paused".to_owned()
        )));
    }
}
