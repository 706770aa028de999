//! Whether credentials lead to the project that a cluster's objects are in.

use super::{desired::DesiredNetwork, network, reconcile::Reconcile, step_context::StepContext};
use crate::kubernetes::conditions::kind::OPENSTACK_AUTHENTICATION_SUCCEEDED;
use crate::reconcile::{StepError, StepResult};
use capo_core::{FailureClass, Priority, Reason};

/// Stops the pass where a control-plane Machine is admitted, and neither the load balancer nor the managed network nor the
/// server of any such Machine exists in the project of the credentials. A Secret that was replaced by one of another
/// project must not have a second network and load balancer created there, and what is read there says
/// nothing about this cluster. The result counts until the credentials change.
pub(crate) async fn verify(
    pass: &Reconcile<'_>,
    context: &StepContext<'_>,
    load_balancer_found: bool,
) -> StepResult<()> {
    if load_balancer_found
        || pass.seen.is_verified(context.cloud)
        || !pass.related.machine_admitted()
    {
        return Ok(());
    }
    if matches!(context.desired.network, DesiredNetwork::Managed(_))
        && network::find_managed(context).await?.is_some()
    {
        return Ok(());
    }
    for id in pass.related.admitted_servers() {
        match context.cloud.server(&id, Priority::Settling).await {
            Ok(server) if server.project_id.as_ref() == Some(&context.project) => return Ok(()),
            Ok(_) => {}
            Err(error) if error.is_not_found() => {}
            Err(error) => {
                let doing =
                    "Looking for the control plane's servers in the project of the credentials";
                return Err(StepError::cloud(
                    OPENSTACK_AUTHENTICATION_SUCCEEDED,
                    Reason::OpenStackError,
                    doing,
                    &error,
                ));
            }
        }
    }
    Err(StepError::failed(
        OPENSTACK_AUTHENTICATION_SUCCEEDED,
        FailureClass::Conflict,
        Reason::OpenStackAuthenticationFailed,
        format!(
            "OpenStackCluster {}: spec.identityRef leads to project {}, in which neither load balancer {} nor the managed \
             network nor a server of the control plane exists; nothing is created, deleted or released until the credentials \
             of the cluster's own project are back",
            context.desired.object,
            context.project,
            context.desired.names.load_balancer()
        ),
    ))
}
