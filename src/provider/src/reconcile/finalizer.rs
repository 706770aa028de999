//! The finalizers of our objects. They are CAPO's.

/// Keeps an `OpenStackCluster` until everything that was created for it is gone.
pub(crate) const OPENSTACK_CLUSTER: &str = "openstackcluster.infrastructure.cluster.x-k8s.io";

/// Keeps an `OpenStackMachine` until its load balancer members and then its server are gone.
pub(crate) const OPENSTACK_MACHINE: &str = "openstackmachine.infrastructure.cluster.x-k8s.io";

/// Keeps an `OpenStackServer` until everything that was created for it is gone.
pub(crate) const OPENSTACK_SERVER: &str = "openstackserver.infrastructure.cluster.x-k8s.io";

/// Keeps an `OpenStackFloatingIPPool` until its addresses are released.
pub(crate) const OPENSTACK_FLOATING_IP_POOL: &str =
    "openstackfloatingippool.infrastructure.cluster.x-k8s.io";
