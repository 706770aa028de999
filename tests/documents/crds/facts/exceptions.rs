//! The differences between the schemas of capo-rs and CAPO, with reasons.

/// Paths that only capo-rs has: (file, path or its end, reason).
pub(super) const ADDITIONS: &[(&str, &str, &str)] = &[
    (
        "",
        "status.observedGeneration",
        "kstatus compares it with the object's generation",
    ),
    (
        "openstackclusters",
        "LoadBalancer.activeMembers",
        "members at a glance",
    ),
    (
        "openstackclusters",
        "LoadBalancer.members",
        "what is known of each member",
    ),
    (
        "openstackcluster",
        "oadBalancer.monitor.type",
        "a check that keeps clients away from an API server that is not up",
    ),
    (
        "openstackmachines.",
        "status.activeMembers",
        "members at a glance",
    ),
    (
        "openstackmachines.",
        "status.failureDomain",
        "Cluster API reads the actual zone there",
    ),
    (
        "",
        "pec.managedServerGroup",
        "a server group that is created and deleted with its machines",
    ),
    (
        "openstackclusteridentities",
        "status",
        "whether the Secret can be used; kstatus needs a status to see that an object is new",
    ),
    (
        "openstackclustertemplates",
        "status",
        "kstatus needs a status to see that an object is new",
    ),
    (
        "v1beta1",
        "status.conditions[].observedGeneration",
        "else a v1beta1 client would lose it",
    ),
    (
        "openstackclustertemplates.v1beta1",
        "spec.template.metadata",
        "else a v1beta1 client would lose it",
    ),
];

/// Kinds that have a status in capo-rs and none in CAPO. The status keeps tools that wait for an object to be
/// reconciled from treating a new object as reconciled.
pub(super) const WITH_STATUS: &[&str] =
    &["openstackclusteridentities", "openstackclustertemplates"];

/// Attributes of CAPO that capo-rs leaves out on purpose: (file, path or its end, attribute, reason).
pub(super) const LOOSER: &[(&str, &str, &str, &str)] = &[
    (
        "openstackclusters",
        "LoadBalancer.id",
        "required",
        "not known before the load balancer is created",
    ),
    (
        "openstackclusters",
        "LoadBalancer.id",
        "minLength",
        "CAPO writes an empty one then",
    ),
    (
        "openstackclusters",
        "LoadBalancer.ip",
        "required",
        "there is none without a floating IP",
    ),
    (
        "openstackclusters",
        "LoadBalancer.ip",
        "minLength",
        "CAPO writes an empty one then",
    ),
    (
        "openstackclusters",
        "LoadBalancer.internalIP",
        "required",
        "not known before the load balancer is created",
    ),
    (
        "openstackclusters",
        "LoadBalancer.internalIP",
        "minLength",
        "CAPO writes an empty one then",
    ),
    (
        "openstackclusters",
        "etwork.id",
        "required",
        "not known while the network is being made",
    ),
    (
        "openstackclusters",
        "etwork.id",
        "minLength",
        "CAPO writes an empty one then",
    ),
    (
        "",
        "etwork.name",
        "required",
        "Neutron allows networks without a name",
    ),
    (
        "",
        "etwork.name",
        "minLength",
        "Neutron allows networks without a name",
    ),
    (
        "",
        "subnets[].name",
        "required",
        "Neutron allows subnets without a name",
    ),
    (
        "",
        "subnets[].name",
        "minLength",
        "Neutron allows subnets without a name",
    ),
    (
        "openstackclusters",
        "router.name",
        "required",
        "Neutron allows routers without a name",
    ),
    (
        "openstackclusters",
        "router.name",
        "minLength",
        "Neutron allows routers without a name",
    ),
    (
        "v1beta1",
        "resolved.ports[].description",
        "required",
        "v1beta2 leaves it out when empty",
    ),
];

/// Whether an exception for `end` applies to `path`. An exception for a whole object applies to its fields too.
pub(super) fn covers(file_part: &str, end: &str, file: &str, path: &str) -> bool {
    file.contains(file_part)
        && (path.ends_with(end)
            || path.contains(&format!("{end}."))
            || path.contains(&format!("{end}[")))
}
