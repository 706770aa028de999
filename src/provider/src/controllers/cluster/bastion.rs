//! The bastion that CAPO made: it stays as it is, with its security group, its rules and its access to the API server.

use std::{net::IpAddr, sync::Arc};

use kube::runtime::reflector::ObjectRef;

use super::{reconcile::Reconcile, report::BASTION_READY, spec};
use capo_api::v1alpha1::OpenStackServer;
use capo_core::{ConditionState, Reason};

/// The `OpenStackServer` of the bastion, by CAPO's name.
fn server(pass: &Reconcile<'_>) -> Option<Arc<OpenStackServer>> {
    let name = format!("{}-bastion", pass.related.cluster_name);
    let key = ObjectRef::new(&name).within(&pass.name.namespace);
    pass.context.stores.openstack_servers.get(&key)
}

/// The addresses from which the bastion reaches the API server; none without a bastion, and `None` while the status
/// does not show those of one that exists.
pub(crate) fn addresses(pass: &Reconcile<'_>) -> Option<Vec<IpAddr>> {
    if !spec::is_bastion_enabled(&pass.object.spec) || server(pass).is_none() {
        return Some(Vec::new());
    }
    let bastion = pass.object.status.as_ref()?.bastion.as_ref()?;
    let addresses = [&bastion.ip, &bastion.floating_ip].into_iter().flatten();
    Some(addresses.filter_map(|text| text.parse().ok()).collect())
}

/// Shows the bastion's condition while one is enabled. A new one is not created by this version.
pub(crate) fn report(pass: &mut Reconcile<'_>) {
    if !spec::is_bastion_enabled(&pass.object.spec) {
        return;
    }
    let state = match server(pass) {
        None => ConditionState::unmet(
            Reason::NotSupported,
            format!(
                "OpenStackCluster {}: spec.bastion is enabled, but this version creates no bastion; set \
                 spec.bastion.enabled to false",
                pass.name
            ),
        ),
        Some(server) if server.status.as_ref().is_some_and(|status| status.ready) => {
            ConditionState::met(Reason::Ready)
        }
        Some(_) => ConditionState::unmet(
            Reason::ServerNotReady,
            format!(
                "OpenStackServer {}-bastion is not ready",
                pass.related.cluster_name
            ),
        ),
    };
    pass.report.set_condition(BASTION_READY, state);
}
