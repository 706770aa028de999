//! The state of one pass over an `OpenStackServer`.

use std::sync::Arc;

use kube::{ResourceExt, runtime::reflector::ObjectRef};

use super::{Progress, StepResult, floating_ip::FloatingAddress};
use crate::controllers::{
    Context,
    capi::{CLUSTER_NAME_LABEL, Cluster},
};
use capo_api::v1alpha1::OpenStackServer;
use capo_core::{ConditionState, ObjectName, ids::ServerId};
use capo_openstack::compute::Server;

/// One pass over one `OpenStackServer`.
pub(super) struct Pass<'a> {
    /// The name of the object.
    pub(super) name: ObjectName,
    /// The state that all passes share.
    pub(super) context: &'a Context,
    /// The object as it was last read or written.
    pub(super) object: OpenStackServer,
    /// What is known of the OpenStack objects of the server.
    pub(super) progress: Progress,
    /// The id of the server and the name of the object that has it, if another object has the server that this one
    /// names.
    pub(super) holder: Option<(ServerId, ObjectName)>,
    /// Whether OpenStack accepts the credentials; `None` if no sign-in was tried.
    pub(super) authentication: Option<ConditionState>,
    /// The server as read in this pass.
    pub(super) server: Option<Server>,
    /// Whether Nova has no server with the known id.
    pub(super) lost: bool,
    /// Whether the machine controller waits for what was read.
    pub(super) wakes_machine: bool,
    /// What is known of the floating IP from a pool.
    pub(super) floating: FloatingAddress,
    /// Whether the ports of an existing server are as the spec wants them; `None` if they were not compared.
    pub(super) ports: Option<StepResult<()>>,
}

impl Pass<'_> {
    /// The name of the Cluster that the object belongs to, from its label.
    pub(super) fn cluster_name(&self) -> Option<&str> {
        self.object
            .labels()
            .get(CLUSTER_NAME_LABEL)
            .map(String::as_str)
    }

    /// The Cluster that the object belongs to, from the store.
    pub(super) fn cluster(&self) -> Option<Arc<Cluster>> {
        let key = ObjectRef::new(self.cluster_name()?).within(&self.name.namespace);
        self.context.stores.clusters.get(&key)
    }
}
