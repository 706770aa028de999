//! The external network that a pool's floating IPs are allocated from.

use super::{Pass, openstack};
use crate::{
    kubernetes::conditions::kind::FLOATING_IP_POOL_READY,
    reconcile::{StepError, StepResult, identity::Identity},
};
use capo_api::v1beta2::{NetworkFilter, NetworkStatus};
use capo_core::{Priority, Reason};
use capo_openstack::network::{self, TagFilter};

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
    let filter = wanted.filter.unwrap_or_default();
    let mut query = query(&filter);
    query.id = wanted.id.filter(|id| !id.is_empty()).map(Into::into);
    query.external = Some(true);
    let found = identity
        .cloud
        .networks(&query, Priority::Settling)
        .await
        .map_err(|e| {
            openstack(
                Reason::UnableToFindNetwork,
                "Looking for the external network",
                &e,
            )
        })?;
    let refused = |text: String| {
        Err(StepError::refused(
            FLOATING_IP_POOL_READY,
            Reason::UnableToFindNetwork,
            text,
        ))
    };
    match found.as_slice() {
        [one] => Ok(NetworkStatus {
            id: one.id.to_string(),
            name: Some(one.name.clone()),
            tags: one.tags.clone(),
        }),
        [] => refused(
            "spec.floatingIPNetwork matches no external network; one from which this project may allocate floating IPs is \
             needed"
                .to_owned(),
        ),
        several => {
            let mut ids: Vec<&str> = several.iter().map(|one| one.id.as_str()).collect();
            ids.sort_unstable();
            refused(format!(
                "spec.floatingIPNetwork matches {} external networks ({}); name one by its id",
                several.len(),
                ids.join(", ")
            ))
        }
    }
}

fn query(filter: &NetworkFilter) -> network::NetworkFilter {
    let filled = |text: &Option<String>| text.clone().filter(|text| !text.is_empty());
    network::NetworkFilter {
        name: filled(&filter.name),
        description: filled(&filter.description),
        project_id: filled(&filter.project_id).map(Into::into),
        tags: TagFilter {
            tags: filter.tags.clone(),
            tags_any: filter.tags_any.clone(),
            not_tags: filter.not_tags.clone(),
            not_tags_any: filter.not_tags_any.clone(),
        },
        ..network::NetworkFilter::default()
    }
}
