//! Builds the status of a pool after a pass. The functions are pure.

use std::{net::IpAddr, time::Duration};

use jiff::Timestamp;
use serde_json::Value;

use super::{
    observation::Observed,
    plan::{PoolClaimPlan, PoolPlan, Shortage, failed, in_doubt},
    validate::Desired,
};
use crate::{
    controllers::Outcome,
    kubernetes::conditions::{Conditions, kind},
};
use capo_api::{v1alpha1::OpenStackFloatingIPPool, v1beta2::NetworkStatus};
use capo_core::{ConditionState, FailureClass, Reason};

/// The result of one pass, from which the status is built. A field that is `None` leaves its part of the status as it
/// was.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Report {
    /// Whether OpenStack accepts the credentials.
    pub authentication: Option<ConditionState>,
    /// Whether claims are answered.
    pub ready: Option<ConditionState>,
    /// The addresses that are assigned to claims.
    pub claimed: Option<Vec<String>>,
    /// The floating IPs that are free.
    pub available: Option<Vec<String>>,
    /// The floating IPs of the spec that do not exist.
    pub failed: Option<Vec<String>>,
    /// The external network.
    pub network: Option<NetworkStatus>,
}

impl Report {
    /// Moves an address from the free ones to the assigned ones.
    pub(super) fn give(&mut self, ip: IpAddr) {
        let text = ip.to_string();
        if let Some(available) = &mut self.available {
            available.retain(|free| *free != text);
        }
        if let Some(claimed) = &mut self.claimed {
            claimed.push(text);
            claimed.sort();
        }
    }
}

/// The status after a pass.
pub(super) fn status(
    object: &OpenStackFloatingIPPool,
    report: &Report,
    outcome: &Outcome,
    now: Timestamp,
) -> Value {
    let generation = object.metadata.generation.unwrap_or_default();
    let mut status = object.status.clone().unwrap_or_default();
    let mut conditions = Conditions::new(&status.conditions, generation, now);
    for (kind, state, unseen) in [
        (
            kind::OPENSTACK_AUTHENTICATION_SUCCEEDED,
            &report.authentication,
            "OpenStack was not called yet",
        ),
        (
            kind::FLOATING_IP_POOL_READY,
            &report.ready,
            "The floating IPs were not read yet",
        ),
    ] {
        match state {
            Some(state) => conditions.set(kind, state),
            None => conditions.set_if_absent(
                kind,
                &ConditionState::unknown(Reason::NotYetObserved, unseen),
            ),
        }
    }
    conditions.sum_up(&[
        kind::OPENSTACK_AUTHENTICATION_SUCCEEDED,
        kind::FLOATING_IP_POOL_READY,
    ]);
    status.conditions = conditions.into_list();
    if let Some(claimed) = &report.claimed {
        status.claimed_ips.clone_from(claimed);
    }
    if let Some(available) = &report.available {
        status.available_ips.clone_from(available);
    }
    if let Some(failed) = &report.failed {
        status.failed_ips.clone_from(failed);
    }
    if report.network.is_some() {
        status.floating_ip_network.clone_from(&report.network);
    }
    if *outcome == Outcome::Done {
        status.observed_generation = Some(generation);
    }
    serde_json::to_value(&status).unwrap_or_default()
}

fn in_doubt_text(until: Timestamp) -> String {
    format!(
        "The answer to the allocation of a floating IP was lost; until {until:.0} it is looked for and no other one is \
         allocated"
    )
}

/// Says which `IPAddress`es are released later; `None` if there are none.
fn held_text(held: &[String]) -> Option<String> {
    (!held.is_empty()).then(|| {
        format!(
            "The floating IPs of these IPAddresses are still in use, and are deleted once they are on no port and no other \
             IPAddress has them: {}",
            held.join(", ")
        )
    })
}

/// Returns the pool's condition after every claim was answered for which that is possible, and the outcome of the pass.
pub(super) fn readiness(
    observed: &Observed,
    desired: &Desired,
    plan: &PoolPlan,
    now: Timestamp,
) -> (ConditionState, Outcome) {
    let (mut blocked, mut waiting) = (Vec::new(), Vec::new());
    for plan in &plan.claims {
        match plan {
            PoolClaimPlan::Blocked { claim } => blocked.push(claim.as_str()),
            PoolClaimPlan::Waits { claim } => waiting.push(claim.as_str()),
            _ => {}
        }
    }
    let waiting_text = (!waiting.is_empty()).then(|| {
        format!(
            "IPAddresses with the names of these IPAddressClaims are being deleted, or belong to earlier claims of the same \
             names; the claims get an address once those IPAddresses are deleted: {}",
            waiting.join(", ")
        )
    });
    if let Some(Shortage::InDoubt { until }) = plan.shortage {
        let (reason, text) = (Reason::OpenStackUnavailable, in_doubt_text(until));
        let outcome = Outcome::wait(reason, text.clone(), Duration::from_secs(5));
        return (ConditionState::unmet(reason, text), outcome);
    }
    let settled = if let Some(text) = &waiting_text {
        // A watch shows when the IPAddresses are gone.
        Outcome::wait(Reason::Deleting, text.clone(), Duration::from_mins(1))
    } else if let Some(until) = in_doubt(observed, now) {
        // The creation can't happen any more then, so the next pass removes the record.
        Outcome::wait(
            Reason::Ready,
            format!("The record of the last allocation is removed at {until:.0}"),
            until.duration_since(now).unsigned_abs(),
        )
    } else {
        Outcome::Done
    };
    if let Some(Shortage::MaxReached { max, waiting }) = plan.shortage {
        let text = format!(
            "spec.maxIPs is {max}, and that many floating IPs are assigned; IPAddressClaims that wait: {waiting}. Raise \
             spec.maxIPs, add to spec.preAllocatedFloatingIPs, or delete claims that are not needed"
        );
        return (ConditionState::unmet(Reason::MaxIPsReached, text), settled);
    }
    if !desired.problems.is_empty() {
        let text = desired.problems.join(". ");
        let outcome = Outcome::failed(FailureClass::Invalid, Reason::InvalidSpec, text.clone());
        return (ConditionState::unmet(Reason::InvalidSpec, text), outcome);
    }
    if !blocked.is_empty() {
        let text = format!(
            "IPAddresses with the names of these IPAddressClaims belong to other claims or pools, so these claims get no \
             address; delete either the IPAddress or the claim: {}",
            blocked.join(", ")
        );
        let outcome = Outcome::failed(FailureClass::Invalid, Reason::AmbiguousMatch, text.clone());
        return (ConditionState::unmet(Reason::AmbiguousMatch, text), outcome);
    }
    let mut ready = ConditionState::met(Reason::Ready);
    let held_text = held_text(&plan.held);
    let mut remarks: Vec<String> = waiting_text.into_iter().chain(held_text).collect();
    let absent = failed(observed, desired);
    if !absent.is_empty() {
        let list: Vec<String> = absent.iter().map(ToString::to_string).collect();
        remarks.push(format!(
            "spec.preAllocatedFloatingIPs names floating IPs that do not exist: {}",
            list.join(", ")
        ));
    }
    ready.message = remarks.join(". ");
    (ready, settled)
}

/// The outcome of a pass over a pool that is being deleted and still has addresses.
pub(super) fn deleting(left: &[String], plan: &PoolPlan, report: &mut Report) -> Outcome {
    let (message, pause) = if let Some(Shortage::InDoubt { until }) = plan.shortage {
        (in_doubt_text(until), 5)
    } else {
        let claimed: Vec<&str> = left
            .iter()
            .filter(|address| !plan.held.contains(address))
            .map(String::as_str)
            .collect();
        let waits = (!claimed.is_empty()).then(|| {
            format!(
                "The pool is deleted once these IPAddresses are deleted; they exist as long as their IPAddressClaims do: {}",
                claimed.join(", ")
            )
        });
        let texts: Vec<String> = waits.into_iter().chain(held_text(&plan.held)).collect();
        // A watch shows when the addresses are gone. No watch shows when a floating IP is free.
        (texts.join(". "), 60)
    };
    report.ready = Some(ConditionState::unmet(Reason::Deleting, message.clone()));
    let pause = Duration::from_secs(pause);
    Outcome::wait(Reason::Deleting, message, pause)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_was_not_read_stays_as_it_was() {
        let pool: OpenStackFloatingIPPool = serde_json::from_value(json!({
            "metadata": {"name": "p", "generation": 3},
            "status": {"observedGeneration": -1, "claimedIPs": ["203.0.113.7"], "availableIPs": ["203.0.113.8"]},
        }))
        .unwrap();
        let silent = Report {
            authentication: Some(ConditionState::unmet(Reason::AuthFailed, "no")),
            ..Report::default()
        };
        let outcome = Outcome::wait(Reason::AuthFailed, "no", std::time::Duration::from_secs(1));
        let after = status(&pool, &silent, &outcome, Timestamp::UNIX_EPOCH);
        assert_eq!(after["claimedIPs"], json!(["203.0.113.7"]));
        assert_eq!(after["availableIPs"], json!(["203.0.113.8"]));
        assert_eq!(after["observedGeneration"], -1);
        let of = |index: usize| {
            let condition = &after["conditions"][index];
            format!(
                "{}={} {}",
                condition["type"], condition["status"], condition["reason"]
            )
        };
        assert_eq!(of(0), r#""Ready"="False" "NotReady""#);
        assert_eq!(
            of(2),
            r#""OpenstackFloatingIPPoolReadyCondition"="Unknown" "NotYetObserved""#
        );
    }

    #[test]
    fn an_address_that_is_given_out_is_not_free_any_more() {
        let mut report = Report {
            claimed: Some(vec!["203.0.113.9".to_owned()]),
            available: Some(vec!["203.0.113.7".to_owned(), "203.0.113.8".to_owned()]),
            ..Report::default()
        };
        report.give(IpAddr::from([203, 0, 113, 7]));
        assert_eq!(report.claimed.unwrap(), ["203.0.113.7", "203.0.113.9"]);
        assert_eq!(report.available.unwrap(), ["203.0.113.8"]);
    }

    #[test]
    fn a_deletion_names_what_its_addresses_wait_for() {
        let left = ["a", "b"].map(str::to_owned);
        let empty = PoolPlan::of(
            &Observed::default(),
            &Desired::default(),
            Timestamp::UNIX_EPOCH,
        );
        for (held, claimed, used) in [
            (&left[..0], Some("do: a, b"), None),
            (&left[1..], Some("do: a."), Some("has them: b")),
            (&left[..], None, Some("has them: a, b")),
        ] {
            let plan = PoolPlan {
                held: held.to_vec(),
                ..empty.clone()
            };
            let mut report = Report::default();
            deleting(&left, &plan, &mut report);
            let text = report.ready.unwrap().message;
            assert_eq!(
                text.contains("as long as their"),
                claimed.is_some(),
                "{text}"
            );
            assert!(text.contains(claimed.unwrap_or_default()), "{text}");
            assert_eq!(text.contains("still in use"), used.is_some(), "{text}");
            assert!(text.ends_with(used.unwrap_or("b")), "{text}");
        }
    }

    #[test]
    fn the_record_of_an_allocation_is_looked_at_when_it_ends() {
        let observed = Observed {
            creation_until: Some(Timestamp::UNIX_EPOCH + Duration::from_secs(65)),
            ..Observed::default()
        };
        let now = Timestamp::UNIX_EPOCH + Duration::from_secs(5);
        let desired = Desired::default();
        let plan = PoolPlan::of(&observed, &desired, now);
        let (_, outcome) = readiness(&observed, &desired, &plan, now);
        let Outcome::Wait { after, message, .. } = outcome else {
            panic!("{outcome:?}");
        };
        assert_eq!(after, Duration::from_mins(1));
        assert!(message.ends_with("at 1970-01-01T00:01:05Z"), "{message}");
    }

    #[test]
    fn a_pool_is_ready_and_not_done_while_a_claim_waits_for_an_earlier_one_of_its_name() {
        let waits = PoolClaimPlan::Waits {
            claim: "a".to_owned(),
        };
        let plan = PoolPlan {
            claims: vec![waits],
            ..PoolPlan::of(
                &Observed::default(),
                &Desired::default(),
                Timestamp::UNIX_EPOCH,
            )
        };
        let (observed, desired) = (Observed::default(), Desired::default());
        let (ready, outcome) = readiness(&observed, &desired, &plan, Timestamp::UNIX_EPOCH);
        assert_eq!(ready.reason, Reason::Ready);
        assert!(ready.message.ends_with(": a"), "{}", ready.message);
        assert!(matches!(outcome, Outcome::Wait { .. }), "{outcome:?}");
    }
}
