//! Reports the transitions that the workers of the load balancers found, as events on the objects and as lines of the
//! log.

use futures::StreamExt;
use k8s_openapi::api::core::v1::ObjectReference;
use kube::{Resource, runtime::reflector::ObjectRef};
use tokio_util::sync::CancellationToken;

use super::SharedContext;
use crate::{
    status::transitions::{SeenMember, Transition, transitions},
    tracker::{PartChange, TrackerOutput},
};
use capo_core::{GateState, ObjectName};
use capo_gate::Publication;

/// Reports the transitions until `shutdown`.
pub(crate) async fn run(context: &SharedContext, shutdown: CancellationToken) {
    let publications = context.tracker.publications();
    let published = publications.for_each(|output| {
        match output {
            TrackerOutput::Findings(publication) => publish(context, &publication),
            TrackerOutput::Change(change) => publish_change(context, &change),
        }
        std::future::ready(())
    });
    tokio::select! {
        () = published => {}
        () = shutdown.cancelled() => {}
    }
}

fn publish_change(context: &SharedContext, change: &PartChange) {
    let PartChange {
        cluster,
        verb,
        object,
        name,
        result,
        details,
    } = change;
    let of_cluster = ObjectRef::new(&cluster.name).within(&cluster.namespace);
    let Some(found) = context.stores.openstack_clusters.get(&of_cluster) else {
        return;
    };
    let (about, events) = (found.object_ref(&()), &context.events);
    match result {
        Ok(id) => events.changed_named(&about, *verb, *object, name, id, details),
        Err((class, message)) => events.failed(&about, *verb, *object, name, (*class, message)),
    }
}

fn publish(context: &SharedContext, publication: &Publication) {
    let Publication {
        cluster,
        before,
        after,
    } = publication;
    for change in transitions(before.as_deref(), after) {
        log(cluster, &change);
        let event = change.event();
        let about = reference(context, cluster, change.machine());
        if let (Some(event), Some(about)) = (event, about) {
            let events = &context.events;
            if event.warning {
                events.warning(&about, event.reason, event.action, &event.note);
            } else {
                events.normal(&about, event.reason, event.action, &event.note);
            }
        }
    }
}

/// The machine that an event is about, or the cluster where the machine does not exist any more or the member belongs
/// to no machine.
fn reference(
    context: &SharedContext,
    cluster: &ObjectName,
    machine: &str,
) -> Option<ObjectReference> {
    let stores = &context.stores;
    let of_machine = ObjectRef::new(machine).within(&cluster.namespace);
    if let Some(object) = stores.openstack_machines.get(&of_machine) {
        return Some(object.object_ref(&()));
    }
    let of_cluster = ObjectRef::new(&cluster.name).within(&cluster.namespace);
    let object = stores.openstack_clusters.get(&of_cluster)?;
    Some(object.object_ref(&()))
}

/// Writes one line of the log per transition. A read that changes nothing causes no line.
fn log(cluster: &ObjectName, change: &Transition) {
    let machine = ObjectName::new(&cluster.namespace, change.machine());
    match change {
        Transition::Member { port, from, to, .. } => {
            let statuses = |member: &Option<SeenMember>| {
                member.as_ref().map_or_else(
                    || "absent".to_owned(),
                    |member| format!("{} {}", member.provisioning, member.operating),
                )
            };
            let member = to.as_ref().or(from.as_ref()).map(|seen| seen.id.as_str());
            tracing::info!(
                OpenStackCluster = %cluster,
                OpenStackMachine = %machine,
                port,
                member,
                from = statuses(from),
                to = statuses(to),
                "Member changed"
            );
        }
        Transition::Gate { gate, state, .. } => {
            let text = match state.state {
                GateState::Unknown => return,
                GateState::Held => "Holding",
                GateState::Open => "Opening",
                GateState::Bypassed => "Opening because the operator bypasses the gate",
            };
            tracing::info!(
                OpenStackCluster = %cluster,
                OpenStackMachine = %machine,
                gate = gate.as_str(),
                reason = state.reason.as_str(),
                why = state.message,
                "{text}"
            );
        }
    }
}
