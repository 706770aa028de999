//! Conditions by the rules of Cluster API: all conditions exist from the first pass on, a transition time changes only
//! with the status, and Ready summarises the others.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};

use capo_core::Reason;
use capo_core::{ConditionState, ConditionStatus};

/// The longest message in bytes. Cluster API refuses longer ones, and copies messages into its Machine and Cluster.
const LONGEST_MESSAGE: usize = 32_768;

/// The reason that Cluster API gives to a condition without one, which the type of a condition does not allow.
pub(crate) const NO_REASON: &str = "NoReasonReported";

/// The types of the conditions that capo-rs writes.
pub mod kind {
    /// The summary of all the others.
    pub const READY: &str = "Ready";
    /// Reconciling is paused. This condition is the only one whose status True reports a problem.
    pub const PAUSED: &str = "Paused";
    /// OpenStack accepts the credentials.
    pub const OPENSTACK_AUTHENTICATION_SUCCEEDED: &str = "OpenStackAuthenticationSucceeded";
    /// Network and subnets exist.
    pub const NETWORK_READY: &str = "NetworkReady";
    /// The router exists, with gateway and interfaces.
    pub const ROUTER_READY: &str = "RouterReady";
    /// The security groups exist, with their rules.
    pub const SECURITY_GROUPS_READY: &str = "SecurityGroupsReady";
    /// The address of the API server is known.
    pub const API_ENDPOINT_READY: &str = "APIEndpointReady";
    /// The load balancer and every member that should be in it are ACTIVE.
    pub const API_SERVER_LOAD_BALANCER_READY: &str = "APIServerLoadBalancerReady";
    /// The bastion's server runs and has its floating IP. The condition exists only while a bastion is enabled or being
    /// removed.
    pub const BASTION_READY: &str = "BastionReady";
    /// The server is ACTIVE.
    pub const INSTANCE_READY: &str = "InstanceReady";
    /// The machine is reachable through the API endpoint. CAPO has the same type.
    pub const API_SERVER_INGRESS_READY: &str = "APIServerIngressReady";
    /// The server has the floating IP from the pool that the spec names.
    pub const FLOATING_ADDRESS_FROM_POOL_READY: &str = "FloatingAddressFromPoolReady";
    /// The pool gives addresses to claims. The type's unusual name is CAPO's.
    pub const FLOATING_IP_POOL_READY: &str = "OpenstackFloatingIPPoolReadyCondition";
    /// The server's ports are as in the spec. The condition exists only while they are not.
    pub const PORTS_READY: &str = "PortsReady";
}

/// The conditions of one object during a pass. Conditions of other programs are kept unchanged.
#[derive(Debug, Clone, PartialEq)]
pub struct Conditions {
    list: Vec<Condition>,
    generation: i64,
    now: Timestamp,
}

impl Conditions {
    /// Starts from the conditions `existing` of an object at `generation`. Conditions that CAPO wrote without a reason
    /// get one, because the API server refuses a status with a condition that has no reason.
    pub fn new(existing: &[Condition], generation: i64, now: Timestamp) -> Self {
        let mut list = existing.to_vec();
        for condition in &mut list {
            if condition.reason.is_empty() {
                NO_REASON.clone_into(&mut condition.reason);
            }
        }
        Self {
            list,
            generation,
            now,
        }
    }

    /// Writes one condition. The transition time moves only when the status does.
    pub fn set(&mut self, kind: &str, verdict: &ConditionState) {
        let before = self.list.iter().position(|c| c.type_ == kind);
        let status = verdict.status.as_str();
        let since = before
            .and_then(|at| self.list.get(at))
            .filter(|condition| condition.status == status)
            .map_or_else(
                || Time(truncated(self.now)),
                |condition| condition.last_transition_time.clone(),
            );
        let after = Condition {
            type_: kind.to_owned(),
            status: status.to_owned(),
            reason: verdict.reason.as_str().to_owned(),
            message: shortened(&verdict.message),
            last_transition_time: since,
            observed_generation: Some(self.generation),
        };
        match before.and_then(|at| self.list.get_mut(at)) {
            Some(condition) => *condition = after,
            None => self.list.push(after),
        }
    }

    /// Writes a condition only if it does not exist yet, so that all conditions exist from the first pass on.
    pub fn set_if_absent(&mut self, kind: &str, verdict: &ConditionState) {
        if self.get(kind).is_none() {
            self.set(kind, verdict);
        }
    }

    /// Removes a condition that does not apply any more.
    pub fn remove(&mut self, kind: &str) {
        self.list.retain(|condition| condition.type_ != kind);
    }

    /// The condition of this type.
    pub fn get(&self, kind: &str) -> Option<&Condition> {
        self.list.iter().find(|condition| condition.type_ == kind)
    }

    /// Whether the condition of this type is True.
    pub fn is_true(&self, kind: &str) -> bool {
        self.get(kind).is_some_and(is_true)
    }

    /// Sets Ready to the summary of the conditions in `counted`: `NotReady` if one is False, else `ReadyUnknown` if one
    /// is Unknown or missing, else `Ready`. Other conditions do not change it.
    pub fn sum_up(&mut self, counted: &[&str]) {
        self.sum_up_with(counted, None);
    }

    /// Sets Ready to the summary of the conditions in `counted` and of `failure`, the failure of a step that has no
    /// condition of its own.
    pub fn sum_up_with(&mut self, counted: &[&str], failure: Option<&ConditionState>) {
        let verdict = sum(&self.list, counted, failure);
        self.set(kind::READY, &verdict);
    }

    /// The list for the status: Ready first, Paused last, the other conditions in their order.
    pub fn into_list(self) -> Vec<Condition> {
        let mut list = self.list;
        list.sort_by_key(|condition| match condition.type_.as_str() {
            kind::READY => 0,
            kind::PAUSED => 2,
            _ => 1,
        });
        list
    }
}

/// The status of a condition.
pub fn status_of(condition: &Condition) -> ConditionStatus {
    ConditionStatus::from(condition.status.as_str())
}

/// Whether the status of a condition is True.
pub fn is_true(condition: &Condition) -> bool {
    status_of(condition) == ConditionStatus::True
}

/// The condition Ready, by Cluster API's rules for summaries.
fn sum(list: &[Condition], counted: &[&str], failure: Option<&ConditionState>) -> ConditionState {
    let mut bad = Vec::new();
    let mut unknown = Vec::new();
    for kind in counted {
        match list.iter().find(|condition| condition.type_ == *kind) {
            None => unknown.push(format!("* {kind}: Condition {kind} not yet reported")),
            Some(condition) => {
                let line = line(kind, condition);
                match status_of(condition) {
                    ConditionStatus::True => {}
                    ConditionStatus::False => bad.push(line),
                    ConditionStatus::Unknown => unknown.push(line),
                }
            }
        }
    }
    if let Some(failure) = failure {
        let line = format!("* Reconciling failed: {}", failure.message);
        match failure.status {
            ConditionStatus::True => {}
            ConditionStatus::False => bad.push(line),
            ConditionStatus::Unknown => unknown.push(line),
        }
    }
    let (status, reason) = match (bad.is_empty(), unknown.is_empty()) {
        (false, _) => (ConditionStatus::False, Reason::NotReady),
        (true, false) => (ConditionStatus::Unknown, Reason::ReadyUnknown),
        (true, true) => (ConditionStatus::True, Reason::Ready),
    };
    bad.append(&mut unknown);
    ConditionState {
        status,
        reason,
        message: bad.join("\n"),
    }
}

fn line(kind: &str, condition: &Condition) -> String {
    if condition.message.is_empty() {
        format!("* {kind}: {}", condition.reason)
    } else {
        format!("* {kind}: {}", condition.message)
    }
}

/// Cuts a time to whole seconds. The API server stores times of conditions in whole seconds, so a finer time would
/// differ from the stored one.
fn truncated(time: Timestamp) -> Timestamp {
    Timestamp::from_second(time.as_second()).unwrap_or(time)
}

fn shortened(message: &str) -> String {
    if message.len() <= LONGEST_MESSAGE {
        return message.to_owned();
    }
    let end = message.floor_char_boundary(LONGEST_MESSAGE - 4);
    format!("{} …", message.get(..end).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn network(
        verdict: &ConditionState,
        existing: &[Condition],
        generation: i64,
        now: i64,
    ) -> Condition {
        let mut conditions = Conditions::new(existing, generation, at(now));
        conditions.set(kind::NETWORK_READY, verdict);
        conditions.get(kind::NETWORK_READY).unwrap().clone()
    }

    #[test]
    fn a_condition_that_capo_wrote_without_a_reason_gets_one() {
        let now = Timestamp::UNIX_EPOCH;
        let of_capo = Condition {
            type_: "InstanceReady".to_owned(),
            status: "True".to_owned(),
            reason: String::new(),
            message: String::new(),
            last_transition_time: Time(now),
            observed_generation: None,
        };
        let mut conditions = Conditions::new(&[of_capo], 1, now);
        conditions.set(kind::PAUSED, &ConditionState::met(Reason::Paused));
        let list = conditions.into_list();
        let reasons: Vec<&str> = list.iter().map(|it| it.reason.as_str()).collect();
        assert_eq!(reasons, [NO_REASON, "Paused"]);
    }

    #[test]
    fn the_transition_time_moves_only_with_the_status() {
        let first = network(
            &ConditionState::unmet(Reason::NetworkCreateFailed, "a"),
            &[],
            1,
            100,
        );
        assert_eq!(first.last_transition_time.0, at(100));
        let again = network(
            &ConditionState::unmet(Reason::OpenStackError, "b"),
            std::slice::from_ref(&first),
            2,
            200,
        );
        assert_eq!(again.last_transition_time.0, at(100));
        assert_eq!(
            (again.message.as_str(), again.observed_generation),
            ("b", Some(2))
        );
        let good = network(&ConditionState::met(Reason::Ready), &[again], 2, 300);
        assert_eq!(good.last_transition_time.0, at(300));
    }

    #[test]
    fn ready_is_the_sum() {
        let mut conditions = Conditions::new(&[], 1, at(1));
        let counted = [kind::NETWORK_READY, kind::ROUTER_READY];
        conditions.set(kind::NETWORK_READY, &ConditionState::met(Reason::Ready));
        conditions.sum_up(&counted);
        let ready = conditions.get(kind::READY).unwrap();
        assert_eq!(
            (ready.status.as_str(), ready.reason.as_str()),
            ("Unknown", "ReadyUnknown")
        );

        conditions.set(
            kind::ROUTER_READY,
            &ConditionState::unmet(Reason::OpenStackError, "no quota"),
        );
        conditions.sum_up(&counted);
        let ready = conditions.get(kind::READY).unwrap();
        assert_eq!(
            (ready.status.as_str(), ready.reason.as_str()),
            ("False", "NotReady")
        );
        assert_eq!(ready.message, "* RouterReady: no quota");

        conditions.set(kind::ROUTER_READY, &ConditionState::met(Reason::Ready));
        conditions.set(
            kind::API_ENDPOINT_READY,
            &ConditionState::unmet(Reason::NotReady, "not counted"),
        );
        conditions.sum_up(&counted);
        assert!(conditions.is_true(kind::READY));
    }

    #[test]
    fn conditions_of_others_stay_and_ready_comes_first() {
        let foreign = Condition {
            type_: "OfAnotherController".to_owned(),
            status: "False".to_owned(),
            reason: "Theirs".to_owned(),
            message: String::new(),
            last_transition_time: Time(at(5)),
            observed_generation: None,
        };
        let mut conditions = Conditions::new(std::slice::from_ref(&foreign), 1, at(9));
        conditions.set(kind::PAUSED, &ConditionState::unmet(Reason::NotPaused, ""));
        conditions.set(kind::NETWORK_READY, &ConditionState::met(Reason::Ready));
        conditions.sum_up(&[kind::NETWORK_READY]);
        let list = conditions.into_list();
        let types: Vec<&str> = list.iter().map(|c| c.type_.as_str()).collect();
        assert_eq!(
            types,
            ["Ready", "OfAnotherController", "NetworkReady", "Paused"]
        );
        assert!(list.contains(&foreign));
    }

    #[test]
    fn long_messages_are_cut_between_characters() {
        let text = "ä".repeat(LONGEST_MESSAGE);
        let condition = network(
            &ConditionState::unmet(Reason::OpenStackError, text),
            &[],
            1,
            1,
        );
        assert!(condition.message.len() <= LONGEST_MESSAGE);
        assert!(condition.message.ends_with('…'));
    }
}
