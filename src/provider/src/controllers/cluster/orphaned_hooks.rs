//! Hooks of ours that nobody would take off: their Machine's `OpenStackMachine` is gone.

use kube::{
    Resource, ResourceExt,
    api::{Patch, PatchParams},
    runtime::reflector::ObjectRef,
};
use serde_json::json;

use super::reconcile::Reconcile;
use crate::controllers::{capi::Machine, hooks::Hooks, lookup::names_as_absent};
use capo_api::v1beta2::OpenStackMachine;
use capo_core::GateMode;
use capo_core::Reason;

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

/// What the question needs to know.
#[derive(Debug, Clone, Copy)]
struct Question {
    mode: GateMode,
    deleting: bool,
    /// The Cluster or its control plane goes, or has no load balancer of ours.
    ungated: bool,
    /// Whether the Machine's member is in the load balancer; `None` while nobody knows.
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

/// Takes such hooks off once nothing is left that they protect, and says so where they hold.
pub(crate) async fn release_orphans(pass: &Reconcile<'_>, ungated: bool) {
    for machine in &pass.related.machines {
        let carried = Hooks::on(&machine.metadata);
        if !carried.any() {
            continue;
        }
        let reference = machine.spec.infrastructure_ref.as_ref();
        let Some(name) = reference.map(|reference| reference.name.as_str()) else {
            continue;
        };
        if machine.is_on(name) && is_absent(pass, name).await {
            settle(pass, machine, name, carried, ungated).await;
        }
    }
}

async fn is_absent(pass: &Reconcile<'_>, name: &str) -> bool {
    let namespace = &pass.name.namespace;
    let key = ObjectRef::new(name).within(namespace);
    if pass.context.stores.openstack_machines.get(&key).is_some() {
        return false;
    }
    let machines = pass.context.api::<OpenStackMachine>(namespace);
    let asked = machines.get_metadata(name).await;
    asked.is_err_and(|error| names_as_absent(&error, name))
}

async fn settle(
    pass: &Reconcile<'_>,
    machine: &Machine,
    openstack_machine: &str,
    carried: Hooks,
    ungated: bool,
) {
    let findings = pass.context.membership.findings(&pass.name);
    let question = Question {
        mode: pass.context.membership.settings().mode,
        deleting: machine.is_deleting(),
        ungated: ungated || pass.related.going(),
        member: findings
            .filter(|findings| findings.observed.is_some())
            .map(|findings| {
                findings
                    .members
                    .iter()
                    .any(|member| member.machine == openstack_machine && member.id.is_some())
            }),
    };
    let name = machine.name_any();
    match fate(question) {
        Fate::Keep => {}
        Fate::Hold => {
            let note = format!(
                "OpenStackMachine {openstack_machine} is gone, but its member is still in the load balancer and may be the \
                 last one that serves. The deletion waits until the member is removed; to let it go all the same, take the \
                 annotations that end in /capo-load-balancer-member off"
            );
            let events = &pass.context.events;
            events.warning(
                &machine.object_ref(&()),
                Reason::NoOtherMemberServing,
                "Gate",
                &note,
            );
        }
        Fate::Remove => {
            let patch = Patch::Merge(json!({"metadata": {
                "uid": machine.uid(), "annotations": Hooks::default().patch(carried),
            }}));
            let api = pass.context.api::<Machine>(&pass.name.namespace);
            match api.patch(&name, &PatchParams::default(), &patch).await {
                Ok(_) => tracing::info!(
                    machine = name,
                    "took the deletion hooks off: its OpenStackMachine is gone"
                ),
                Err(error) => {
                    tracing::warn!(machine = name, %error, "the deletion hooks can't be taken off");
                }
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
