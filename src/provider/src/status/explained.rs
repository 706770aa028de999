//! Every reason explained: what was seen, and what ends it. `capo-rs explain` and `docs/reasons.md` print it.

use capo_core::Reason;

/// A reason in more words than [`Reason::meaning`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Explanation {
    /// What was seen, and what it does to a rollout.
    pub seen: &'static str,
    /// What ends it by itself, and what can be done.
    pub ends: &'static str,
}

/// Explains a reason.
pub fn explanation(reason: Reason) -> Explanation {
    let (seen, ends) = texts(reason);
    Explanation { seen, ends }
}

fn texts(reason: Reason) -> (&'static str, &'static str) {
    gate(reason)
        .or_else(|| object(reason))
        .unwrap_or_else(|| progress(reason))
}

/// Reasons of the load balancer gate.
fn gate(reason: Reason) -> Option<(&'static str, &'static str)> {
    Some(match reason {
        Reason::MemberPending => (
            "Octavia is still working on a member: PENDING_CREATE, PENDING_UPDATE or PENDING_DELETE. A load balancer can \
             read ACTIVE meanwhile, so it is not asked. A new machine does not count as provisioned, and so Cluster API \
             neither adds nor removes another one.",
            "The member turns ACTIVE, within seconds as a rule. After 12 minutes it counts in \
             capo_lb_members_stuck and alerts. A member that is PENDING while its load balancer is ACTIVE is repaired by the \
             manager. While the load balancer is PENDING too, only Octavia's operator can free it (openstack loadbalancer show, \
             then the logs of octavia-worker; a failover or a reset of its status).",
        ),
        Reason::MemberError => (
            "Octavia failed to apply a change of a member. ERROR says nothing about traffic: a member that served goes on \
             serving as a rule. A new machine is held, so nothing else is replaced.",
            "The manager repairs it: the member of a machine that is not admitted yet is deleted and made anew; one of an \
             admitted machine is pushed again, after 1, 2, 5 and then every 10 minutes. If it fails again and again, look at \
             the amphora and at the logs of octavia-worker.",
        ),
        Reason::MemberMissing => (
            "A member that should be in a pool is not there. New machines pass through this state; on a machine that has \
             long been in service somebody removed the member.",
            "The manager creates it as soon as the load balancer takes changes. If the message says that it can't be made, \
             it says why: a quota, or an address that another member has.",
        ),
        Reason::MemberDraining => (
            "The machine is on its way out: its members get weight 0, are deleted, and are looked for twice before they \
             count as gone.",
            "Two reads without the member. A deletion that Octavia fails is repeated.",
        ),
        Reason::MemberUnknown => (
            "A member has a status that this version does not know, or its name or address belongs to another member. \
             Nothing is written to a member that may not be ours.",
            "Rename or delete the member in the way (openstack loadbalancer member list POOL); or update capo-rs if \
             Octavia has a new status.",
        ),
        Reason::LoadBalancerPending => (
            "The load balancer, a listener, a pool or a health monitor is being created or changed. Octavia locks a load \
             balancer as a whole while it works on any part of it.",
            "It turns ACTIVE by itself. If it stays PENDING past 35 minutes only Octavia's operator can free it.",
        ),
        Reason::LoadBalancerError => (
            "The load balancer, or a part of it, is in ERROR, or can't be made as the spec wants it; the message says \
             which. A load balancer that served may go on serving: it is never deleted unasked.",
            "A listener, pool or monitor in ERROR is pushed again by the manager. For the load balancer itself ask the \
             cloud's operator for a failover (openstack loadbalancer failover ID). To have it rebuilt, at the price of an outage, \
             annotate the OpenStackCluster with infrastructure.cluster.x-k8s.io/rebuild-load-balancer=ID.",
        ),
        Reason::NoOtherMemberServing => (
            "The machine that is to go is the last one known to serve a port of the API server. Its deletion waits, and \
             KubeadmControlPlane changes nothing else in this control plane meanwhile. The message names what every other \
             machine lacks.",
            "Another machine serves: its member is ACTIVE and steadily ONLINE, or its API server answers /readyz. Repair what \
             the message names. If you know better: annotate the Machine's OpenStackMachine with \
             infrastructure.cluster.x-k8s.io/load-balancer-gate: bypass until=<RFC 3339> reason=<text>.",
        ),
        Reason::HealthUnavailable => (
            "Nothing tells whether the members serve: the pool has no usable health monitor, and the API servers \
             can't be asked at their own addresses.",
            "Let the manager reach the machines' API port, give the pool a health monitor, or wait until Cluster API finds \
             the machine's API server and node healthy for 90 seconds.",
        ),
        Reason::ServerNotReady => (
            "The machine's server is not ACTIVE yet, or has no address yet, so no member can be made for it.",
            "Nova builds the server. See InstanceReady of the same object if it takes long.",
        ),
        Reason::NotYetObserved => (
            "The manager has not looked at it since it started. What it does not know it does not open.",
            "The first read, within seconds of the start. If it lasts: does the manager run and lead (/readyz, \
             leader_election_master_status), and is the object paused?",
        ),
        Reason::AmbiguousMatch => (
            "Two objects in OpenStack answer to one name, or two Clusters claim one load balancer: a-b/c and a/b-c \
             compute the same name. Nothing is written, because it might hit the wrong one.",
            "Delete or rename the object that is not meant, or recreate one of the Clusters under another name.",
        ),
        Reason::ObservationStale => (
            "The last complete read of the load balancer is older than three times the current interval. The gate is blind, \
             and a blind gate holds.",
            "The next complete read. Look at the conditions for what keeps OpenStack from answering, and at \
             capo_lb_last_observation_timestamp_seconds.",
        ),
        Reason::OpenStackUnavailable => (
            "OpenStack does not answer, answers with 5xx, or not in time. Nothing is concluded from it: what was there is \
             taken to be there.",
            "The manager asks again with growing pauses, 5 minutes at most. Check the endpoint named in the message.",
        ),
        Reason::Throttled => (
            "OpenStack, or a gateway before it, answered 429 or a Retry-After. The manager leaves that service of that cloud \
             alone for as long as it was asked to, 15 minutes at most.",
            "The pause ends. If it comes back: lower --openstack-qps, or ask for a higher limit. Other clouds and services \
             are not affected.",
        ),
        Reason::AuthFailed => (
            "OpenStack refuses the credentials: a wrong or expired password, or an application credential that was \
             deleted.",
            "Put working credentials into the Secret that the message names. It is read again within half a minute; no restart \
             is needed.",
        ),
        Reason::QuotaExceeded => (
            "A quota of the OpenStack project is used up; the message names the resource.",
            "Raise the quota or delete what is not needed. The manager tries again every 30 seconds to 5 minutes.",
        ),
        Reason::OperatorHold => (
            "The annotation infrastructure.cluster.x-k8s.io/load-balancer-gate on the OpenStackCluster or the \
             OpenStackMachine holds every gate it applies to.",
            "Remove the annotation.",
        ),
        Reason::MembersActive => (
            "Load balancer, listeners and pools are ACTIVE, and so is every expected member, in one complete read that \
             began after the last change.",
            "Nothing is waited for.",
        ),
        Reason::OperatorBypass => (
            "The annotation infrastructure.cluster.x-k8s.io/load-balancer-gate opens the gates until the date it \
             names, whatever the members do.",
            "The date passes, or the annotation is removed. Until then a rollout may take the API server down.",
        ),
        Reason::LoadBalancerDisabled => (
            "The cluster has no managed load balancer, so there is no gate.",
            "Nothing is waited for.",
        ),
        _ => return None,
    })
}

/// Reasons of the other conditions that ask for something to be done.
fn object(reason: Reason) -> Option<(&'static str, &'static str)> {
    Some(match reason {
        Reason::InstanceStateError => (
            "Nova put the server into ERROR; the message has Nova's fault.",
            "A server in ERROR does not come back by itself. Read the fault (openstack server show ID), mend its cause, and \
             delete the Machine so that Cluster API makes another.",
        ),
        Reason::InstanceDeleted | Reason::InstanceNotFound => (
            "The server is not in OpenStack any more, though nobody deleted the machine here.",
            "A server that joined a cluster is not made anew under the same machine. Delete the Machine so that Cluster API \
             makes another; a MachineHealthCheck does so by itself.",
        ),
        Reason::InstanceDeleteFailed => (
            "Nova did not delete the server.",
            "It is tried again. If it lasts, look at the server in OpenStack; once it is gone the machine goes too.",
        ),
        Reason::InstanceCreateFailed | Reason::PortCreateFailed => (
            "OpenStack refused to create the server or one of its ports; the message has its answer.",
            "It is tried again with growing pauses. The message says what is wrong with image, flavor, network, or quota.",
        ),
        Reason::NetworkCreateFailed
        | Reason::SubnetCreateFailed
        | Reason::RouterCreateFailed
        | Reason::SecurityGroupCreateFailed => (
            "Neutron refused to create it; the message has its answer.",
            "It is tried again with growing pauses. Look for a quota, a policy, or a range of addresses that is taken.",
        ),
        Reason::APIEndpointConfigFailed => (
            "Where clients reach the API server can't be settled: no load balancer, floating IP or address by which they \
             could.",
            "The message says what is missing in spec.apiServer or spec.controlPlaneEndpoint.",
        ),
        Reason::FloatingIPError => (
            "A floating IP can't be found, created or attached.",
            "It is tried again. The message names the address or the pool; is it free, and in the right external network?",
        ),
        Reason::OpenStackAuthenticationFailed => (
            "Signing in to OpenStack failed before the credentials could be judged, or the Secret does not hold what \
             is needed; the message names the Secret and the key.",
            "Mend the Secret. It is read again within half a minute; no restart is needed.",
        ),
        Reason::OpenStackError => (
            "OpenStack refused a request for a reason of its own; the message has its answer and the request's id.",
            "It is tried again with growing pauses, 5 minutes at most.",
        ),
        Reason::InvalidSpec => (
            "The object asks for something impossible. The message names the field, what was found and what is allowed.",
            "Change the field.",
        ),
        Reason::NotSupported => (
            "The object asks for something that this version does not do; the message names it and the way around.",
            "Change the object as the message says.",
        ),
        Reason::DependencyNotFound => (
            "Something that the object names does not exist in OpenStack or Kubernetes, or more than one thing answers to \
             the name.",
            "Create it, or name it by its id. It is looked for again with growing pauses.",
        ),
        Reason::DependencyFailed => (
            "Something that the object depends on failed or could not be read; the message names it.",
            "Look at what the message names. It is tried again by itself.",
        ),
        Reason::IdentityAccessDenied => (
            "The OpenStackClusterIdentity that spec.identityRef names does not exist or does not admit this namespace. Both \
             give the same answer, so that nobody learns which identities exist.",
            "Let the identity's namespaceSelector admit the namespace, or name another identity.",
        ),
        _ => return None,
    })
}

/// Ordinary progress, sums, and events that tell of nothing wrong.
fn progress(reason: Reason) -> (&'static str, &'static str) {
    match reason {
        Reason::NotReady | Reason::ReadyUnknown => (
            "Ready is the sum of the object's other conditions; its message lists those that are not True.",
            "Look up the reasons of the conditions in the message.",
        ),
        Reason::Paused => (
            "spec.paused of the Cluster or the annotation cluster.x-k8s.io/paused is set. Nothing is touched.",
            "Take the pause off.",
        ),
        Reason::Deleting => (
            "The object is being deleted; the message says what goes next.",
            "It ends when everything it owns in OpenStack is gone.",
        ),
        Reason::WaitingForClusterInfrastructure => (
            "Machines are made only once the Cluster's infrastructure is provisioned.",
            "See the OpenStackCluster's conditions.",
        ),
        Reason::WaitingForBootstrapData => (
            "A server is made only once its boot data is there. The first control-plane machine comes first.",
            "The bootstrap provider writes the Secret. See the Machine's bootstrap configuration.",
        ),
        Reason::WaitingForOwner => (
            "Cluster API sets the owner reference after it created the object.",
            "Within seconds. If it lasts, no Cluster or Machine refers to this object.",
        ),
        Reason::InstanceNotReady => (
            "Nova is still building the server.",
            "The server turns ACTIVE or ERROR.",
        ),
        Reason::MemberCreated | Reason::MemberActive | Reason::MemberRemoved => (
            "An event: the load balancer's members changed as they should.",
            "Nothing is to be done.",
        ),
        Reason::GateHeld => (
            "An event: Cluster API is held from here on. The note names the gate (admission, release or finalizer) and \
             what is waited for.",
            "See the condition APIServerLoadBalancerReady, or capo-rs status CLUSTER, for how it stands now.",
        ),
        Reason::GateOpened => (
            "An event: what was waited for has come; the note names the evidence.",
            "Nothing is to be done.",
        ),
        Reason::GateBypassed => (
            "An event: a gate is open because an annotation of the operator says so, whatever the members do.",
            "Remove the annotation to have the gate back before its date.",
        ),
        Reason::Ready | Reason::NotPaused | Reason::Created | Reason::Deleted => {
            ("All is as it should be.", "Nothing is waited for.")
        }
        _ => ("", ""),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reason_is_explained() {
        for reason in Reason::ALL {
            let Explanation { seen, ends } = explanation(*reason);
            assert!(
                seen.ends_with('.') && ends.ends_with(['.', '?', ')']),
                "{reason}"
            );
        }
    }
}
