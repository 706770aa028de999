//! Deletion hooks of capo-rs on a Machine whose `OpenStackMachine` does not exist any more, so no pass over that
//! object removes them.

use std::sync::Arc;

use kube::{Resource, ResourceExt, runtime::reflector::ObjectRef};

use super::{HookChange, Hooks, apply};
use crate::reconcile::{SharedContext, capi::Machine, names_as_absent};
use capo_api::v1beta2::OpenStackMachine;
use capo_core::{GateMode, ObjectName, Reason};
use capo_gate::findings::Findings;

/// The decision about the hooks of such a Machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum OrphanedHookDecision {
    /// Keep the hooks, because the Machine is not being deleted.
    Keep,
    /// Remove the hooks, because there is no member that they could protect.
    Remove,
    /// Keep the hooks, because the Machine's member is still in the load balancer.
    Hold,
}

/// The inputs of the decision about such hooks.
#[derive(Debug, Clone, Copy)]
struct Observation {
    mode: GateMode,
    deleting: bool,
    /// Whether the Cluster or its control plane is being deleted, or the cluster has no managed load balancer.
    ungated: bool,
    /// Whether the Machine's member is in the load balancer; `None` while that is unknown.
    member: Option<bool>,
}

fn decide(observation: Observation) -> OrphanedHookDecision {
    match observation {
        Observation {
            mode: GateMode::Off,
            ..
        } => OrphanedHookDecision::Remove,
        Observation {
            deleting: false, ..
        } => OrphanedHookDecision::Keep,
        Observation {
            mode: GateMode::Observe,
            ..
        }
        | Observation { ungated: true, .. }
        | Observation {
            member: Some(false),
            ..
        } => OrphanedHookDecision::Remove,
        _ => OrphanedHookDecision::Hold,
    }
}

/// Removes such hooks from the Machines of `cluster` once they protect no member, and publishes an event while they
/// hold a deletion. `ungated` means that the Cluster or its control plane is being deleted, or that the cluster has no
/// managed load balancer.
pub(crate) async fn release_orphaned(
    context: &SharedContext,
    cluster: &ObjectName,
    machines: &[Arc<Machine>],
    ungated: bool,
) {
    for machine in machines {
        let carried = Hooks::on(&machine.metadata);
        let reference = machine.spec.infrastructure_ref.as_ref();
        let Some(name) = reference.map(|reference| reference.name.as_str()) else {
            continue;
        };
        if carried.any()
            && machine.is_on(name)
            && is_absent(context, &cluster.namespace, name).await
        {
            release_or_warn(context, cluster, machine, name, ungated).await;
        }
    }
}

/// The Machine on this `OpenStackMachine`, which does not exist any more, if hooks on the Machine still protect its
/// member.
pub(crate) fn holding_machine(
    context: &SharedContext,
    openstack_machine: &ObjectName,
) -> Option<Arc<Machine>> {
    let is_holding = |machine: &&Arc<Machine>| {
        machine.namespace().unwrap_or_default() == openstack_machine.namespace
            && machine.is_on(&openstack_machine.name)
            && Hooks::on(&machine.metadata).any()
    };
    let machines = context.stores.machines.state();
    (context.tracker.settings().mode == GateMode::Enforce)
        .then(|| machines.iter().find(is_holding).cloned())
        .flatten()
}

async fn is_absent(context: &SharedContext, namespace: &str, name: &str) -> bool {
    let key = ObjectRef::new(name).within(namespace);
    if context.stores.openstack_machines.get(&key).is_some() {
        return false;
    }
    let machines = context.api::<OpenStackMachine>(namespace);
    let read = machines.get_metadata(name).await;
    read.is_err_and(|error| names_as_absent(&error, name))
}

/// Whether the load balancer has a member of the machine; `None` while that is unknown.
fn has_member(findings: &Findings, openstack_machine: &str) -> Option<bool> {
    if findings.observed.is_none() || findings.suspect {
        return None;
    }
    let mut members = findings.members.iter();
    Some(members.any(|member| member.machine == openstack_machine && member.id.is_some()))
}

/// Removes the hooks of a Machine without an `OpenStackMachine`, or publishes a warning that says why its deletion
/// waits.
async fn release_or_warn(
    context: &SharedContext,
    cluster: &ObjectName,
    machine: &Machine,
    openstack_machine: &str,
    ungated: bool,
) {
    let findings = context.tracker.findings(cluster);
    let observation = Observation {
        mode: context.tracker.settings().mode,
        deleting: machine.is_deleting(),
        ungated,
        member: findings.and_then(|findings| has_member(&findings, openstack_machine)),
    };
    match decide(observation) {
        OrphanedHookDecision::Keep => {}
        OrphanedHookDecision::Hold => {
            let note = format!(
                "OpenStackMachine {openstack_machine} does not exist any more, but its member is still in the load \
                 balancer and may be the last one that serves. The deletion waits until the member is removed; to end \
                 the wait, remove the annotations that end in /capo-load-balancer-member"
            );
            context.events.warning(
                &machine.object_ref(&()),
                Reason::NoOtherMemberServing,
                "Gate",
                &note,
            );
        }
        OrphanedHookDecision::Remove => {
            let api = context.api::<Machine>(&cluster.namespace);
            let may = || context.clouds.lease().may_open_gates();
            if let Err(error) = apply(&api, machine, HookChange::Remove, may).await {
                let name = machine.name_any();
                tracing::warn!(machine = name, %error, "Removing the deletion hooks failed");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_member_counts_as_absent_once_a_read_that_is_not_suspect_lacks_it() {
        let unread = Findings::default();
        let read = Findings {
            observed: Some(jiff::Timestamp::UNIX_EPOCH),
            ..Findings::default()
        };
        let suspect = Findings {
            suspect: true,
            ..read.clone()
        };
        for (findings, expected) in [(unread, None), (suspect, None), (read, Some(false))] {
            assert_eq!(has_member(&findings, "m0"), expected, "{findings:?}");
        }
    }

    #[test]
    fn an_orphaned_hook_is_removed_when_it_protects_no_member() {
        let observed = Observation {
            mode: GateMode::Enforce,
            deleting: true,
            ungated: false,
            member: Some(true),
        };
        let cases = [
            (observed, OrphanedHookDecision::Hold),
            (
                Observation {
                    member: None,
                    ..observed
                },
                OrphanedHookDecision::Hold,
            ),
            (
                Observation {
                    member: Some(false),
                    ..observed
                },
                OrphanedHookDecision::Remove,
            ),
            (
                Observation {
                    ungated: true,
                    ..observed
                },
                OrphanedHookDecision::Remove,
            ),
            (
                Observation {
                    deleting: false,
                    ..observed
                },
                OrphanedHookDecision::Keep,
            ),
            (
                Observation {
                    mode: GateMode::Observe,
                    ..observed
                },
                OrphanedHookDecision::Remove,
            ),
            (
                Observation {
                    mode: GateMode::Off,
                    deleting: false,
                    ..observed
                },
                OrphanedHookDecision::Remove,
            ),
        ];
        for (observation, expected) in cases {
            assert_eq!(decide(observation), expected, "{observation:?}");
        }
    }
}
