//! Rules about coming operations, and members held in a status.

use serde::{Deserialize, Serialize};

use super::{
    change::{Anomaly, Change, Ending, Stage},
    model::{LoadBalancer, Object},
    status::Provisioning,
};
use crate::faults::glob;

/// The result of the operations that match.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct OperationRule {
    /// The operations that match: `member-create`, `member-*`, `*`.
    pub operation: String,
    /// Part of the name of the object changed (for a batch also of any member in it); empty matches all.
    pub name: String,
    /// Part of the name of the load balancer, or its id; empty matches all.
    pub load_balancer: String,
    /// How many matching operations pass untouched first.
    pub skip: u32,
    /// The number of operations that it applies to; without it, all.
    pub count: Option<u32>,
    /// Seconds of work.
    pub duration: Option<f64>,
    /// Whether the operation fails.
    pub fail: bool,
    /// The stage in which it fails.
    pub stage: Stage,
    /// A deviation from the documented behaviour.
    pub anomaly: Option<Anomaly>,
    /// The anomaly's own time in seconds.
    pub gap: f64,
}

impl OperationRule {
    fn matches(&self, lb: &LoadBalancer, change: &Change) -> bool {
        let operation = if self.operation.is_empty() {
            "*"
        } else {
            &self.operation
        };
        let balancer = self.load_balancer.is_empty()
            || lb.head.name.contains(&self.load_balancer)
            || lb.head.id == self.load_balancer;
        glob(operation, change.name())
            && balancer
            && (self.name.is_empty()
                || names(lb, change)
                    .iter()
                    .any(|name| name.contains(&self.name)))
    }

    /// The end of an operation under this rule.
    pub fn ending(&self) -> Ending {
        match (self.anomaly, self.fail) {
            (Some(anomaly), _) => Ending::Odd(anomaly),
            (None, true) => Ending::Failure(self.stage),
            (None, false) => Ending::Success,
        }
    }
}

fn names(lb: &LoadBalancer, change: &Change) -> Vec<String> {
    let name = |object: &Object| match object {
        Object::LoadBalancer => Some(lb.head.name.clone()),
        Object::Listener(id) => lb.listener(id).map(|listener| listener.head.name.clone()),
        Object::Pool(id) => lb.pool(id).map(|pool| pool.head.name.clone()),
        Object::Monitor(pool) => lb
            .pool(pool)?
            .monitor
            .as_ref()
            .map(|monitor| monitor.head.name.clone()),
        Object::Member(pool, id) => lb
            .pool(pool)?
            .member(id)
            .map(|member| member.head.name.clone()),
    };
    match change {
        Change::MemberBatch {
            pool,
            created,
            updated,
            deleted,
            ..
        } => created
            .iter()
            .chain(updated)
            .chain(deleted)
            .filter_map(|id| name(&Object::Member(pool.clone(), id.clone())))
            .chain(name(&change.object()))
            .collect(),
        _ => name(&change.object()).into_iter().collect(),
    }
}

/// Members that get another status where a flow would write ACTIVE.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Hold {
    /// Part of the member's name, or its id.
    pub member: String,
    /// The status that is shown instead of ACTIVE.
    pub status: Provisioning,
    /// The number of members that it applies to; without it, all.
    #[serde(default)]
    pub count: Option<u32>,
    /// Seconds until a held member turns ACTIVE by itself; without it, only on command.
    #[serde(default)]
    pub release_after: Option<f64>,
    /// Whether members that are ACTIVE now get the status at once.
    #[serde(default)]
    pub now: bool,
}

impl Hold {
    /// Whether the rule applies to this member.
    pub fn matches(&self, id: &str, name: &str) -> bool {
        self.count != Some(0) && (id == self.member || name.contains(&self.member))
    }
}

/// Takes the first rule for an operation. A rule with a count is used that many times.
pub(crate) fn take(
    rules: &mut [OperationRule],
    lb: &LoadBalancer,
    change: &Change,
) -> Option<OperationRule> {
    for rule in rules.iter_mut() {
        if rule.count == Some(0) || !rule.matches(lb, change) {
            continue;
        }
        if rule.skip > 0 {
            rule.skip -= 1;
            continue;
        }
        if let Some(count) = &mut rule.count {
            *count -= 1;
        }
        return Some(rule.clone());
    }
    None
}
