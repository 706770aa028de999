//! The finalizers of the objects of capo-rs. They are the same as CAPO's.

use k8s_openapi::{NamespaceResourceScope, apimachinery::pkg::apis::meta::v1::ObjectMeta};
use kube::Resource;
use serde::de::DeserializeOwned;

use super::{SharedContext, name_of};
use crate::kubernetes::patch;

/// Keeps an `OpenStackCluster` until everything that was created for it is gone.
pub(crate) const OPENSTACK_CLUSTER: &str = "openstackcluster.infrastructure.cluster.x-k8s.io";

/// Keeps an `OpenStackMachine` until its load balancer members and then its server are gone.
pub(crate) const OPENSTACK_MACHINE: &str = "openstackmachine.infrastructure.cluster.x-k8s.io";

/// Keeps an `OpenStackServer` until everything that was created for it is gone.
pub(crate) const OPENSTACK_SERVER: &str = "openstackserver.infrastructure.cluster.x-k8s.io";

/// Keeps an `OpenStackFloatingIPPool` until its addresses are released.
pub(crate) const OPENSTACK_FLOATING_IP_POOL: &str =
    "openstackfloatingippool.infrastructure.cluster.x-k8s.io";

/// Whether an object has this finalizer.
pub(crate) fn is_on(metadata: &ObjectMeta, finalizer: &str) -> bool {
    metadata.finalizers.iter().flatten().any(|f| f == finalizer)
}

impl SharedContext {
    /// Adds or removes a finalizer. Afterwards `object` is the object as it was written.
    pub(crate) async fn set_finalizer<K>(
        &self,
        object: &mut K,
        finalizer: &str,
        present: bool,
    ) -> Result<(), kube::Error>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
            + Clone
            + DeserializeOwned
            + std::fmt::Debug,
    {
        let api = self.api::<K>(&name_of(object).namespace);
        if let Some(written) = patch::set_finalizer(&api, object, finalizer, present).await? {
            *object = written;
        }
        Ok(())
    }
}
