//! Turns what the load balancers' workers found new into events on the objects and lines in the log.

use futures::StreamExt;
use k8s_openapi::api::core::v1::ObjectReference;
use kube::{Resource, runtime::reflector::ObjectRef};
use tokio_util::sync::CancellationToken;

use super::SharedContext;
use crate::status::transitions::{GateDecision, SeenMember, Transition, transitions};
use capo_core::ObjectName;
use capo_gate::Publication;

/// Publishes until `shutdown`.
pub(crate) async fn run(context: &SharedContext, shutdown: CancellationToken) {
    let publications = context.membership.publications();
    let published = publications.for_each(|publication| {
        publish(context, &publication);
        std::future::ready(())
    });
    tokio::select! {
        () = published => {}
        () = shutdown.cancelled() => {}
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

/// The machine, or the cluster where the machine is gone or never was one.
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

/// A line per transition and per decision; nothing per read.
fn log(cluster: &ObjectName, change: &Transition) {
    let machine = ObjectName::new(&cluster.namespace, change.machine());
    match change {
        Transition::Member { port, from, to, .. } => {
            let shown = |sight: &Option<SeenMember>| {
                sight.as_ref().map_or_else(
                    || "absent".to_owned(),
                    |sight| format!("{} {}", sight.provisioning, sight.operating),
                )
            };
            let member = to.as_ref().or(from.as_ref()).map(|sight| sight.id.as_str());
            tracing::info!(
                OpenStackCluster = %cluster,
                OpenStackMachine = %machine,
                port,
                member,
                from = shown(from),
                to = shown(to),
                "Member changed"
            );
        }
        Transition::Gate { gate, decision, .. } => {
            let gate = gate.as_str();
            let (word, reason, message) = match decision {
                GateDecision::Held(reason, message) => ("Holding", Some(*reason), message),
                GateDecision::Opened(reason, message) => ("Opening", Some(*reason), message),
                GateDecision::Bypassed(message) => (
                    "Opening because the operator bypasses the gate",
                    None,
                    message,
                ),
            };
            let reason = reason.map_or("OperatorBypass", capo_core::Reason::as_str);
            tracing::info!(
                OpenStackCluster = %cluster,
                OpenStackMachine = %machine,
                gate,
                reason,
                why = message,
                "{word}"
            );
        }
    }
}
