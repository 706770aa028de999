//! Explains every reason: the observation behind it, and what ends it. `capo-rs explain` and `docs/reasons.md` print
//! the explanations.

use capo_core::Reason;

/// The explanation of a reason, longer than [`Reason::meaning`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Explanation {
    /// The observation, and its effect on a rollout.
    pub seen: &'static str,
    /// What ends the state by itself, and what an operator can do.
    pub ends: &'static str,
}

/// Explains a reason.
pub fn explanation(reason: Reason) -> Explanation {
    let (seen, ends) = texts(reason);
    Explanation { seen, ends }
}

fn texts(reason: Reason) -> (&'static str, &'static str) {
    match reason {
        // The gate of the load balancer.
        Reason::MemberPending => (
            "Octavia is still changing a member: it is PENDING_CREATE, PENDING_UPDATE or PENDING_DELETE. Its load balancer may \
             be ACTIVE at the same time, so the load balancer's status proves nothing. The new machine does not count as \
             provisioned, so Cluster API neither adds nor removes another one.",
            "The member becomes ACTIVE, usually within seconds. After --member-alert-after (12 minutes) the metric \
             capo_lb_members_stuck counts it and an alert fires. The manager repairs a member that is PENDING while its load balancer is ACTIVE. While the \
             load balancer is PENDING too, only Octavia's operator can free it: look at openstack loadbalancer show and the \
             logs of octavia-worker, then use a failover or reset the status.",
        ),
        Reason::MemberError => (
            "Octavia failed to apply a change of a member. ERROR shows nothing about traffic: a member that served \
             usually continues to serve. A new machine is held, so nothing else is replaced.",
            "The manager repairs it at once, then after 1, 2, 5, then every 10 minutes: the member of a machine that is not \
             admitted yet is deleted and created again; for an admitted machine the member's values are written again. If \
             the repair keeps failing, look at the amphora and at the logs of octavia-worker.",
        ),
        Reason::MemberMissing => (
            "A member that should be in a pool does not exist. Every new machine passes through this state; if the machine \
             was in service before, its member was removed by a person or another program.",
            "The manager creates the member as soon as the load balancer accepts changes. If it can't be created, the \
             message names the reason: a quota, or an address that another member has.",
        ),
        Reason::MemberDraining => (
            "A step of the machine's release is under way, or another machine is released first: requests are sent through \
             the endpoint, the machine's members get no new connections, requests must be answered without it, its members \
             are deleted and must be absent in two reads, and the requests are made again.",
            "The steps end by themselves, and if requests fail, the members come back. The manager repeats a deletion that \
             failed in Octavia.",
        ),
        Reason::MemberUnknown => (
            "A member has a status that this version does not know, or another member has its address under another name. \
             The manager does not write to a member that may not be its own.",
            "Delete the other member (openstack loadbalancer member list POOL), or update capo-rs if Octavia has a \
             new status.",
        ),
        Reason::LoadBalancerPending => (
            "The load balancer, a listener, a pool or a health monitor is being created or changed. Octavia locks a load \
             balancer as a whole while it works on any part of it.",
            "It becomes ACTIVE by itself. If it is still PENDING after --member-stuck-after (35 minutes), only Octavia's \
             operator can free it.",
        ),
        Reason::LoadBalancerError => (
            "The load balancer or a part of it is in ERROR, or can't be created as the spec describes it; the message names \
             the part. A load balancer in ERROR may continue to serve: the manager deletes it only on request.",
            "The manager writes the values of a listener, pool or monitor in ERROR again. For the load balancer itself, ask \
             the cloud's operator for a failover (openstack loadbalancer failover ID). To have it rebuilt, which interrupts \
             the API, annotate the OpenStackCluster with infrastructure.cluster.x-k8s.io/rebuild-load-balancer=ID.",
        ),
        Reason::NoOtherMemberServing => (
            "The machine to delete is the last one known to serve a port of the API server, or requests through the endpoint \
             were not answered by an API server of this cluster. Its deletion waits, and KubeadmControlPlane changes nothing \
             else in this control plane in the meantime. The message names what every other machine lacks, or what was \
             requested and what came back.",
            "Another machine serves: its member is ACTIVE and has been ONLINE for long enough, or, if no health monitor shows that, its Node \
             is healthy; and the endpoint answers. Repair what the message names. To delete the machine anyway, annotate its \
             OpenStackMachine with infrastructure.cluster.x-k8s.io/load-balancer-gate: bypass until=<RFC 3339> reason=<text>.",
        ),
        Reason::HealthUnavailable => (
            "It is unknown whether the other machines serve: no health monitor shows it, and Cluster API shows no healthy Node; \
             or the manager does not reach the control-plane endpoint, so that no request can prove it.",
            "Give the pool a health monitor, or repair the Nodes. Allow the manager to reach the endpoint. If it can't, the \
             deletion continues when the other machines have served for 90 seconds without interruption and the Cluster's \
             condition RemoteConnectionProbe is True.",
        ),
        Reason::ServerNotReady => (
            "The machine's server is not ACTIVE yet, or has no address yet, so no member can be created for it.",
            "Nova finishes the server. If that takes long, see the condition InstanceReady of the same object.",
        ),
        Reason::NotYetObserved => (
            "The manager has not read the load balancer since it started, or is reading it again. A gate opens only on what was \
             read after the last change.",
            "The next read ends it, within seconds. If it does not come, check that the manager runs and leads \
             (/readyz, leader_election_master_status), and that the object is not paused.",
        ),
        Reason::AmbiguousMatch => (
            "Two objects in OpenStack have the same name, or two Clusters claim one load balancer: the Clusters a-b/c and \
             a/b-c have the same load balancer name. The manager writes nothing, because it might change the wrong object.",
            "Delete or rename the object that does not belong to the cluster, or create one of the Clusters again under \
             another name.",
        ),
        Reason::ObservationStale => (
            "The last complete read of the load balancer is older than three times the current interval. The gate holds, \
             because the state of the members is unknown.",
            "The next complete read ends it. The conditions say why OpenStack does not answer; the metric \
             capo_lb_last_observation_timestamp_seconds has the time of the last read.",
        ),
        Reason::OpenStackUnavailable => (
            "OpenStack does not answer, answers with 5xx, or answers too late. The manager draws no conclusions from that: \
             objects that existed before still count as existing.",
            "The manager tries again with growing pauses, 5 minutes at most. Check the endpoint named in the message.",
        ),
        Reason::Throttled => (
            "OpenStack, or a gateway in front of it, answered with 429 or Retry-After. The manager sends no requests to that \
             service of that cloud for the time in the answer, 15 minutes at most.",
            "The pause ends by itself. If throttling returns, lower --openstack-qps or ask the cloud's operator for a higher \
             limit. Other clouds and services are not affected.",
        ),
        Reason::AuthFailed => (
            "OpenStack rejects the credentials: a wrong or expired password, or an application credential that was \
             deleted.",
            "Put working credentials into the Secret that the message names. It is read again within half a minute; no restart \
             is needed.",
        ),
        Reason::QuotaExceeded => (
            "A quota of the OpenStack project is used up; the message names the resource.",
            "Raise the quota or delete unused resources. The manager tries again with growing pauses, 5 minutes at most; for a load \
             balancer member 10 minutes.",
        ),
        Reason::OperatorHold => (
            "The annotation infrastructure.cluster.x-k8s.io/load-balancer-gate on the OpenStackCluster or the \
             OpenStackMachine holds every gate it applies to.",
            "Remove the annotation.",
        ),
        Reason::MembersActive => (
            "Load balancer, listeners and pools are ACTIVE, and so is every expected member, in one complete read that \
             began after the last change.",
            "Nothing needs to be done.",
        ),
        Reason::OperatorBypass => (
            "The annotation infrastructure.cluster.x-k8s.io/load-balancer-gate opens the gates until the time in \
             it, regardless of the members.",
            "The time passes, or the annotation is removed. Until then a rollout may make the API server unreachable.",
        ),
        Reason::LoadBalancerDisabled => (
            "The cluster has no managed load balancer, so there is no gate.",
            "Nothing needs to be done.",
        ),
        // A gate is open although not all members are ACTIVE.
        Reason::MachineAdmitted => (
            "The providerID of the Machine is set. Cluster API never removes it, so the machine stays provisioned \
             whatever happens to its members.",
            "Nothing needs to be done.",
        ),
        Reason::MachineReleased => (
            "Other machines serve every API port, and the members of this machine were absent in two reads. The message \
             says whether requests through the endpoint have proved that.",
            "Nothing needs to be done: Cluster API deletes the machine.",
        ),
        Reason::MembersRemoved => (
            "The Machine is deleted without our hook, so its deletion waits for nothing but its own members, and they were \
             absent in two reads.",
            "Nothing needs to be done: Cluster API deletes the machine.",
        ),
        Reason::MachineNeverServed => (
            "Cluster API never admitted the machine, and none of its members serves, so its deletion interrupts no \
             request.",
            "Nothing needs to be done: Cluster API deletes the machine.",
        ),
        Reason::ServerGone => (
            "Nova has no such server any more, or has it SHUTOFF, in reads that span 30 s, while the same project still has \
             the load balancer in which the manager saw its member. Nothing can serve there.",
            "Nothing needs to be done: Cluster API deletes the machine.",
        ),
        Reason::MachineDoesNotServe => (
            "APIServerPodHealthy of the Machine is False (of one that is being deleted: it was False before that), and on every \
             port a health monitor found its member down for long before the member was removed. Its deletion interrupts no \
             client.",
            "Nothing needs to be done: Cluster API deletes the machine.",
        ),
        Reason::ControlPlaneNotInitialized => (
            "No API server of this control plane has ever answered, so no deletion can interrupt it.",
            "The first machine joins. From then on deletions wait for another member that serves.",
        ),
        Reason::ClusterDeleting => (
            "The Cluster or its control-plane object is being deleted or absent, so its API server need not stay \
             available.",
            "Nothing needs to be done.",
        ),
        Reason::LoadBalancerUnusable => (
            "There is no load balancer, or it is in ERROR or PENDING for so long that no member of it can be removed. The \
             Machine is deleted without our hook, so its server is deleted without waiting for that.",
            "Nothing needs to be done for this machine. See LoadBalancerError and LoadBalancerPending for the load balancer.",
        ),
        Reason::GateNotEnforced => (
            "The manager runs with --load-balancer-gate=observe or off, so no gate holds anything.",
            "Run it with --load-balancer-gate=enforce.",
        ),
        // Other conditions that need an action.
        Reason::InstanceStateError => (
            "Nova reports the server in ERROR; the message has Nova's fault.",
            "A server in ERROR does not recover by itself. Read the fault (openstack server show ID), remove its cause, and \
             delete the Machine so that Cluster API creates another one.",
        ),
        Reason::InstanceDeleted | Reason::InstanceNotFound => (
            "The server does not exist in OpenStack any more, although its machine was not deleted.",
            "The manager does not create a second server for a machine that joined a cluster. Delete the Machine so that \
             Cluster API creates another one; a MachineHealthCheck does that automatically.",
        ),
        Reason::InstanceDeleteFailed => (
            "Nova did not delete the server.",
            "The manager tries again. If it keeps failing, look at the server in OpenStack; once the server is deleted, the \
             machine is deleted too.",
        ),
        Reason::InstanceCreateFailed | Reason::PortCreateFailed => (
            "OpenStack refused to create the server or one of its ports; the message has the answer.",
            "The manager tries again with growing pauses. The message says what is wrong with the image, flavor, network or \
             quota.",
        ),
        Reason::NetworkCreateFailed
        | Reason::SubnetCreateFailed
        | Reason::RouterCreateFailed
        | Reason::SecurityGroupCreateFailed => (
            "Neutron refused to create the object; the message has the answer.",
            "The manager tries again with growing pauses. Look for an exhausted quota, a policy, or an address range that is \
             in use.",
        ),
        Reason::APIEndpointConfigFailed => (
            "The control-plane endpoint can't be determined: there is no load balancer, floating IP or address for it.",
            "The message says what is missing in spec.apiServer or spec.controlPlaneEndpoint.",
        ),
        Reason::FloatingIPError => (
            "A floating IP can't be found, created or attached, or the floating IP of the API server can't be moved off a \
             control-plane machine yet.",
            "The manager tries again. The message names the address or the pool; check that it is free and in the right \
             external network. The floating IP of the API server is moved to another control-plane machine as soon as that \
             one serves.",
        ),
        Reason::MaxIPsReached => (
            "An OpenStackFloatingIPPool has given out spec.maxIPs floating IPs, and IPAddressClaims wait for more. Servers with \
             such a claim are not created until then.",
            "A claim is released, spec.maxIPs is raised, or an address is added to spec.preAllocatedFloatingIPs.",
        ),
        Reason::UnableToFindNetwork => (
            "spec.floatingIPNetwork of an OpenStackFloatingIPPool matches no external network, or several; without the field, \
             the project sees none or several.",
            "Name the network by its id. The manager looks again with growing pauses.",
        ),
        Reason::WaitingForIPAMProvider => (
            "The server's IPAddressClaim has no address yet, so the server is not created. The pool's conditions show why.",
            "The pool gives the claim an address; look at the pool that spec.floatingIPPoolRef names.",
        ),
        Reason::OpenStackAuthenticationFailed => (
            "Signing in to OpenStack failed before the credentials were checked, or the Secret lacks something; the message \
             names the Secret and the key.",
            "Correct the Secret. It is read again within half a minute; no restart is needed.",
        ),
        Reason::OpenStackError => (
            "OpenStack rejected a request; the message has the answer and the request's id.",
            "The manager tries again with growing pauses, 5 minutes at most.",
        ),
        Reason::InvalidSpec => (
            "A field of the spec has an impossible value. The message names the field, the value and what is allowed.",
            "Change the field.",
        ),
        Reason::NotSupported => (
            "The spec uses a feature that this version does not support; the message names it and an alternative.",
            "Change the object as the message says.",
        ),
        Reason::DependencyNotFound => (
            "A referenced object does not exist in OpenStack or Kubernetes, or several objects match the reference.",
            "Create the object, or reference it by its id. The manager looks again with growing pauses.",
        ),
        Reason::DependencyFailed => (
            "An object that this one depends on failed or could not be read; the message names it.",
            "Look at the object in the message. The manager tries again by itself.",
        ),
        Reason::InternalError => (
            "The reconciliation of the object ended in a panic of the manager. It ended that pass only: other objects are reconciled as \
             before. The metric controller_runtime_reconcile_panics_total counts it.",
            "The manager tries again with growing pauses. Please report the lines of the manager's log that begin with \
             \"A task panicked\", with the object's spec.",
        ),
        Reason::IdentityAccessDenied => (
            "The OpenStackClusterIdentity that spec.identityRef names does not exist or does not allow this namespace. The \
             message is the same for both, so that it does not reveal which identities exist.",
            "Change the identity's namespaceSelector so that it allows the namespace, or reference another identity.",
        ),
        // Ordinary progress, summaries, and events that report no problem.
        Reason::NotReady | Reason::ReadyUnknown => (
            "Ready summarises the object's other conditions; its message lists those that are not True.",
            "Look up the reasons of the conditions in the message.",
        ),
        Reason::Paused => (
            "spec.paused of the Cluster or the annotation cluster.x-k8s.io/paused is set. The manager changes nothing.",
            "Remove the pause.",
        ),
        Reason::Deleting => (
            "The object is being deleted; the message names the next step.",
            "The deletion ends when everything that the object owns in OpenStack is deleted.",
        ),
        Reason::WaitingForClusterInfrastructure => (
            "Servers are created only after the Cluster's infrastructure is provisioned.",
            "See the OpenStackCluster's conditions.",
        ),
        Reason::WaitingForBootstrapData => (
            "A server is created only after its bootstrap data exists. The first control-plane machine comes first.",
            "The bootstrap provider writes the Secret. See the Machine's bootstrap configuration.",
        ),
        Reason::WaitingForOwner => (
            "Cluster API sets the owner reference after it created the object.",
            "Cluster API sets the owner reference within seconds. If it does not, no Cluster or Machine refers to this object.",
        ),
        Reason::InstanceNotReady => (
            "Nova is still building the server.",
            "The server becomes ACTIVE or ERROR.",
        ),
        Reason::MemberCreated | Reason::MemberActive | Reason::MemberRemoved => (
            "An event: a load balancer member changed as expected.",
            "Nothing needs to be done.",
        ),
        Reason::GateHeld => (
            "An event: a gate began to hold the rollout. The note names the gate (admission, release or finalizer) and what it \
             waits for.",
            "The condition APIServerLoadBalancerReady and capo-rs status CLUSTER show the current state.",
        ),
        Reason::GateOpened => (
            "An event: the gate stopped holding; the note names the evidence.",
            "Nothing needs to be done.",
        ),
        Reason::GateBypassed => (
            "An event: an annotation of the operator keeps a gate open, regardless of the members.",
            "Remove the annotation to restore the gate before the bypass expires.",
        ),
        Reason::Ready | Reason::NotPaused | Reason::Created | Reason::Updated | Reason::Deleted => {
            ("Everything is as expected.", "Nothing needs to be done.")
        }
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
