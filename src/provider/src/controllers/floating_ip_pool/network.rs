//! The external network that a pool's floating IPs are allocated from.

use super::{openstack, pass::Pass};
use crate::{
    kubernetes::conditions::kind::FLOATING_IP_POOL_READY,
    reconcile::{
        StepError, StepResult, filters,
        identity::Identity,
        matching::{self, Match},
    },
};
use capo_api::v1beta2::NetworkStatus;
use capo_core::{Priority, Reason};

/// The network that the spec names, or the only external one. It is looked up once for each generation of the pool.
pub(super) async fn resolve(pass: &Pass<'_>, identity: &Identity) -> StepResult<NetworkStatus> {
    let status = pass.object.status.clone().unwrap_or_default();
    if let Some(known) = status.floating_ip_network
        && (status.observed_generation == pass.object.metadata.generation
            // CAPO writes this status field without an observed generation.
            || status.observed_generation.is_none_or(|seen| seen < 1))
    {
        return Ok(known);
    }
    let wanted = pass
        .object
        .spec
        .floating_ip_network
        .clone()
        .unwrap_or_default();
    let mut query = filters::networks(wanted.filter.unwrap_or_default());
    query.id = wanted.id.filter(|id| !id.is_empty()).map(Into::into);
    query.external = Some(true);
    let doing = "Looking for the external network";
    let found = identity
        .cloud
        .networks(&query, Priority::Settling)
        .await
        .map_err(|e| openstack(Reason::UnableToFindNetwork, doing, &e))?;
    let refused = |text: String| {
        Err(StepError::refused(
            FLOATING_IP_POOL_READY,
            Reason::UnableToFindNetwork,
            text,
        ))
    };
    match matching::resolve(found, None, |network| &network.id) {
        Match::One(one) => Ok(NetworkStatus {
            id: one.id.into(),
            name: Some(one.name),
            tags: one.tags,
        }),
        Match::None => refused(
            "spec.floatingIPNetwork matches no external network; one from which this project may allocate floating IPs is \
             needed"
                .to_owned(),
        ),
        Match::Several(ids) => refused(format!(
            "spec.floatingIPNetwork matches {} external networks ({}); name one by its id",
            ids.len(),
            ids.join(", ")
        )),
    }
}
