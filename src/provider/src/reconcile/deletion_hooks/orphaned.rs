//! Hooks of ours that no pass over a machine takes off any more: their Machine's `OpenStackMachine` is gone.

use std::sync::Arc;

use kube::{Resource, ResourceExt, runtime::reflector::ObjectRef};

use super::{HookChange, Hooks, apply};
use crate::reconcile::{SharedContext, capi::Machine, names_as_absent};
use capo_api::v1beta2::OpenStackMachine;
use capo_core::{GateMode, ObjectName, Reason};

/// What becomes of such a hook.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    /// The Machine stays.
    Keep,
    /// Nothing is left that the hook could protect.
    Remove,
    /// The Machine's member is still in the load balancer.
    Hold,
}

/// What decides about such a hook.
#[derive(Debug, Clone, Copy)]
struct Question {
    mode: GateMode,
    deleting: bool,
    /// The Cluster or its control plane is being deleted, or has no load balancer of ours.
    ungated: bool,
    /// Whether the Machine's member is in the load balancer; `None` while that is unknown.
    member: Option<bool>,
}

fn fate(question: Question) -> Fate {
    match question {
        Question {
            mode: GateMode::Off,
            ..
        } => Fate::Remove,
        Question {
            deleting: false, ..
        } => Fate::Keep,
        Question {
            mode: GateMode::Observe,
            ..
        }
        | Question { ungated: true, .. }
        | Question {
            member: Some(false),
            ..
        } => Fate::Remove,
        _ => Fate::Hold,
    }
}

/// Takes such hooks off the Machines of `cluster` once nothing is left that they protect, and publishes an
/// event where they hold. `ungated` means that the Cluster or its control plane is being deleted, or has no
/// load balancer of ours.
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
            settle(context, cluster, machine, name, ungated).await;
        }
    }
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

async fn settle(
    context: &SharedContext,
    cluster: &ObjectName,
    machine: &Machine,
    openstack_machine: &str,
    ungated: bool,
) {
    let findings = context.membership.findings(cluster);
    let question = Question {
        mode: context.membership.settings().mode,
        deleting: machine.is_deleting(),
        ungated,
        member: findings
            .filter(|findings| findings.observed.is_some())
            .map(|findings| {
                findings
                    .members
                    .iter()
                    .any(|member| member.machine == openstack_machine && member.id.is_some())
            }),
    };
    match fate(question) {
        Fate::Keep => {}
        Fate::Hold => {
            let note = format!(
                "OpenStackMachine {openstack_machine} is gone, but its member is still in the load balancer and may be the \
                 last one that serves. The deletion waits until the member is removed; to let it go all the same, take the \
                 annotations that end in /capo-load-balancer-member off"
            );
            context.events.warning(
                &machine.object_ref(&()),
                Reason::NoOtherMemberServing,
                "Gate",
                &note,
            );
        }
        Fate::Remove => {
            let api = context.api::<Machine>(&cluster.namespace);
            if let Err(error) = apply(&api, machine, HookChange::Remove).await {
                let name = machine.name_any();
                tracing::warn!(machine = name, %error, "The deletion hooks can't be taken off");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hook_without_its_machine_goes_when_it_protects_nothing() {
        let asked = Question {
            mode: GateMode::Enforce,
            deleting: true,
            ungated: false,
            member: Some(true),
        };
        let cases = [
            (asked, Fate::Hold),
            (
                Question {
                    member: None,
                    ..asked
                },
                Fate::Hold,
            ),
            (
                Question {
                    member: Some(false),
                    ..asked
                },
                Fate::Remove,
            ),
            (
                Question {
                    ungated: true,
                    ..asked
                },
                Fate::Remove,
            ),
            (
                Question {
                    deleting: false,
                    ..asked
                },
                Fate::Keep,
            ),
            (
                Question {
                    mode: GateMode::Observe,
                    ..asked
                },
                Fate::Remove,
            ),
            (
                Question {
                    mode: GateMode::Off,
                    deleting: false,
                    ..asked
                },
                Fate::Remove,
            ),
        ];
        for (question, expected) in cases {
            assert_eq!(fate(question), expected, "{question:?}");
        }
    }
}
