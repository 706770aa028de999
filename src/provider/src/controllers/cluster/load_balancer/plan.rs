//! Decides which load balancer is the cluster's, and what to do about it. The functions are pure.

use std::time::{Duration, Instant};

use capo_core::{ProvisioningStatus, backoff::repair_pause, ids::LoadBalancerId};

/// A load balancer that a lookup has found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FoundLoadBalancer {
    /// Octavia's id.
    pub id: LoadBalancerId,
    /// Its name.
    pub name: String,
    /// Its provisioning status.
    pub provisioning_status: ProvisioningStatus,
}

/// What to do about the load balancer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum LoadBalancerPlan {
    /// There is no load balancer, so one is created.
    Create,
    /// This load balancer is the cluster's. The pass does not manage its listeners, pools and members.
    Use {
        /// Octavia's id.
        id: LoadBalancerId,
    },
    /// The load balancer is being deleted. A new one is created once it is gone.
    Deleting {
        /// Octavia's id.
        id: LoadBalancerId,
    },
    /// The load balancer is in ERROR and may be replaced: it is deleted with everything in it.
    Replace {
        /// Octavia's id.
        id: LoadBalancerId,
        /// Whether the operator requested it. Otherwise it is replaced because nothing is lost by it.
        requested: bool,
    },
    /// The load balancer is in ERROR and may be replaced, but not so soon after the last replacement.
    ReplaceLater {
        /// Octavia's id.
        id: LoadBalancerId,
        /// The time until the load balancer may be replaced.
        pause: Duration,
    },
    /// The load balancer is in ERROR and may still pass on traffic, so an operator has to decide.
    Broken {
        /// Octavia's id.
        id: LoadBalancerId,
    },
    /// Several load balancers have the name.
    Ambiguous {
        /// The ids of these load balancers, sorted.
        ids: Vec<LoadBalancerId>,
    },
}

/// The replacements of the load balancer that this process has made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Replacements {
    /// How many there were.
    pub count: u32,
    /// When the last one was made.
    pub last: Instant,
}

/// The inputs of the decision besides the load balancers themselves.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct LoadBalancerInputs {
    /// The name that the load balancer must have.
    pub name: String,
    /// Whether the control plane was ever initialised.
    pub initialised: bool,
    /// Whether a control-plane Machine has a providerID. Machines that are being deleted count too.
    pub machine_admitted: bool,
    /// The value of the annotation `rebuild-load-balancer`: the id of a load balancer.
    pub rebuild: Option<String>,
    /// The replacements that this process has made.
    pub replaced: Option<Replacements>,
}

/// Decides on the load balancers that were found by id or by name.
pub(crate) fn plan(
    inputs: &LoadBalancerInputs,
    found: &[FoundLoadBalancer],
    now: Instant,
) -> LoadBalancerPlan {
    let ours: Vec<&FoundLoadBalancer> = found
        .iter()
        .filter(|lb| {
            lb.name == inputs.name && lb.provisioning_status != ProvisioningStatus::Deleted
        })
        .collect();
    // A load balancer that is being deleted is not counted, so that another one of the name can be used.
    let staying: Vec<&&FoundLoadBalancer> = ours
        .iter()
        .filter(|lb| lb.provisioning_status != ProvisioningStatus::PendingDelete)
        .collect();
    match (staying.as_slice(), ours.first()) {
        ([], None) => LoadBalancerPlan::Create,
        ([], Some(deleting)) => LoadBalancerPlan::Deleting {
            id: deleting.id.clone(),
        },
        ([one], _) => one_plan(inputs, one, now),
        (several, _) => {
            let mut ids: Vec<LoadBalancerId> = several.iter().map(|lb| lb.id.clone()).collect();
            ids.sort();
            LoadBalancerPlan::Ambiguous { ids }
        }
    }
}

fn one_plan(
    inputs: &LoadBalancerInputs,
    one: &FoundLoadBalancer,
    now: Instant,
) -> LoadBalancerPlan {
    let id = one.id.clone();
    if one.provisioning_status != ProvisioningStatus::Error {
        return LoadBalancerPlan::Use { id };
    }
    if inputs.rebuild.as_deref() == Some(id.as_str()) {
        return LoadBalancerPlan::Replace {
            id,
            requested: true,
        };
    }
    if inputs.initialised || inputs.machine_admitted {
        return LoadBalancerPlan::Broken { id };
    }
    let next = |replaced: Replacements| replaced.last + pause_after(replaced.count);
    match inputs.replaced.map(next) {
        Some(earliest) if now < earliest => LoadBalancerPlan::ReplaceLater {
            id,
            pause: earliest.saturating_duration_since(now),
        },
        _ => LoadBalancerPlan::Replace {
            id,
            requested: false,
        },
    }
}

/// The pause before the next replacement. Without it, load balancers would be created one after the other in a cloud
/// whose load balancers always end in ERROR.
fn pause_after(replacements: u32) -> Duration {
    match replacements.checked_sub(1) {
        None => Duration::ZERO,
        Some(repair) => repair_pause(repair),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lb(id: &str, name: &str, status: &str) -> FoundLoadBalancer {
        FoundLoadBalancer {
            id: id.into(),
            name: name.to_owned(),
            provisioning_status: status.into(),
        }
    }

    fn inputs() -> LoadBalancerInputs {
        LoadBalancerInputs {
            name: "n".to_owned(),
            ..LoadBalancerInputs::default()
        }
    }

    fn id(text: &str) -> LoadBalancerId {
        text.into()
    }

    #[test]
    fn by_exact_name_and_never_by_guess() {
        let now = Instant::now();
        let cases = [
            (vec![], LoadBalancerPlan::Create),
            (vec![lb("1", "n-other", "ACTIVE")], LoadBalancerPlan::Create),
            (vec![lb("1", "n", "DELETED")], LoadBalancerPlan::Create),
            (
                vec![lb("1", "n", "PENDING_CREATE")],
                LoadBalancerPlan::Use { id: id("1") },
            ),
            (
                vec![lb("1", "n", "PENDING_DELETE")],
                LoadBalancerPlan::Deleting { id: id("1") },
            ),
            (
                vec![lb("1", "n", "PENDING_DELETE"), lb("2", "n", "ACTIVE")],
                LoadBalancerPlan::Use { id: id("2") },
            ),
            (
                vec![lb("2", "n", "ACTIVE"), lb("1", "n", "ERROR")],
                LoadBalancerPlan::Ambiguous {
                    ids: vec![id("1"), id("2")],
                },
            ),
            (
                vec![lb("1", "n", "FANCY_NEW")],
                LoadBalancerPlan::Use { id: id("1") },
            ),
        ];
        for (found, expected) in cases {
            assert_eq!(plan(&inputs(), &found, now), expected, "{found:?}");
        }
    }

    #[test]
    fn one_in_error_goes_only_where_nothing_is_lost_or_the_operator_says_so() {
        let now = Instant::now();
        let found = [lb("1", "n", "ERROR")];
        let fresh = inputs();
        let requested = |inputs: LoadBalancerInputs, rebuild: &str| LoadBalancerInputs {
            rebuild: Some(rebuild.to_owned()),
            ..inputs
        };
        let initialised = LoadBalancerInputs {
            initialised: true,
            ..inputs()
        };
        let admitted = LoadBalancerInputs {
            machine_admitted: true,
            ..inputs()
        };
        let broken = LoadBalancerPlan::Broken { id: id("1") };
        let replace = |requested| LoadBalancerPlan::Replace {
            id: id("1"),
            requested,
        };
        assert_eq!(plan(&fresh, &found, now), replace(false));
        assert_eq!(plan(&initialised, &found, now), broken);
        assert_eq!(plan(&admitted, &found, now), broken);
        assert_eq!(
            plan(&requested(initialised.clone(), "1"), &found, now),
            replace(true)
        );
        // The annotation names another load balancer, so it does not allow replacing this one.
        assert_eq!(plan(&requested(initialised, "2"), &found, now), broken);
        // A healthy load balancer is never replaced.
        let healthy = [lb("1", "n", "ACTIVE")];
        assert_eq!(
            plan(&requested(inputs(), "1"), &healthy, now),
            LoadBalancerPlan::Use { id: id("1") }
        );
    }

    #[test]
    fn replacements_come_ever_slower() {
        let now = Instant::now();
        let found = [lb("1", "n", "ERROR")];
        let after = |count, last| LoadBalancerInputs {
            replaced: Some(Replacements { count, last }),
            ..inputs()
        };
        assert_eq!(
            plan(&after(2, now), &found, now),
            LoadBalancerPlan::ReplaceLater {
                id: id("1"),
                pause: Duration::from_mins(2)
            }
        );
        assert_eq!(
            plan(&after(2, now), &found, now + Duration::from_mins(2)),
            LoadBalancerPlan::Replace {
                id: id("1"),
                requested: false
            }
        );
    }
}
