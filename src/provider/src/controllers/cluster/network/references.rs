//! Networks and subnets that the user created. The spec refers to them by id or by filter.

use std::time::Duration;

use super::{failed, list_subnets};
use crate::controllers::cluster::{
    desired::{DesiredLoadBalancer, NetworkReference, Reference, SubnetReference},
    observation::NetworkState,
    step_context::StepContext,
};
use crate::kubernetes::conditions::kind::NETWORK_READY;
use crate::reconcile::{StepError, StepResult, matching::resolve};
use capo_core::ids::NetworkId;
use capo_core::{Priority, Reason};
use capo_openstack::{
    Error,
    network::{Network, NetworkFilter, Subnet, SubnetFilter},
};

/// The maximum age of a list of external networks. An external network that was just created may be missing for this
/// long.
const EXTERNAL_AGE: Duration = Duration::from_mins(1);

/// The load balancer's own network. If the spec names no subnets, Octavia chooses one.
pub(crate) async fn find_for_load_balancer(
    context: &StepContext<'_>,
    desired: &DesiredLoadBalancer,
) -> StepResult<NetworkState> {
    let fields = Fields {
        network: "spec.apiServer.managedLoadBalancer.network",
        subnets: "spec.apiServer.managedLoadBalancer.subnets",
    };
    if let Some(reference) = desired
        .network
        .as_ref()
        .filter(|_| desired.subnets.is_empty())
    {
        return Ok(NetworkState {
            network: find_network(context, reference, None, fields.network).await?,
            subnets: Vec::new(),
        });
    }
    find_existing(
        context,
        desired.network.as_ref(),
        &desired.subnets,
        fields,
        None,
    )
    .await
}

/// The fields of the spec that name a network and its subnets, for messages.
#[derive(Debug, Clone, Copy)]
pub(super) struct Fields {
    /// The field that names the network.
    pub network: &'static str,
    /// The field that names the subnets.
    pub subnets: &'static str,
}

/// The existing network and subnets that the spec names. The network itself is not read if `kept` has it from an
/// earlier read and its subnets still exist.
pub(super) async fn find_existing(
    context: &StepContext<'_>,
    network: Option<&NetworkReference>,
    references: &[SubnetReference],
    fields: Fields,
    kept: Option<&NetworkState>,
) -> StepResult<NetworkState> {
    if let Some(kept) = kept.filter(|_| references.is_empty()) {
        let subnets = list_subnets(context, &kept.network.id).await?;
        let is_the_same = subnets.len() == kept.subnets.len();
        let now = |known: &Subnet| subnets.iter().find(|subnet| subnet.id == known.id).cloned();
        let in_order: Vec<Subnet> = kept.subnets.iter().filter_map(now).collect();
        if is_the_same && in_order.len() == kept.subnets.len() {
            return Ok(NetworkState {
                network: kept.network.clone(),
                subnets: in_order,
            });
        }
    }
    let (network_field, subnets_field) = (fields.network, fields.subnets);
    let kept = kept.map(|kept| &kept.network);
    let mut network = match (network, kept) {
        // The references to the subnets are read below, so the network need not be read.
        (Some(_), Some(kept)) if !references.is_empty() => Some(kept.clone()),
        (Some(lookup), _) => Some(find_network(context, lookup, None, network_field).await?),
        (None, kept) => kept.cloned().filter(|_| !references.is_empty()),
    };
    let mut subnets = Vec::new();
    for (at, lookup) in references.iter().enumerate() {
        let field = format!("{subnets_field}[{at}]");
        let within = network.as_ref().map(|n| &n.id);
        let subnet = find_subnet(context, lookup, within, &field).await?;
        match &network {
            None => {
                let id = Reference::Id(subnet.network_id.clone());
                network =
                    Some(find_network(context, &id, None, &format!("{field}'s network")).await?);
            }
            Some(network) if network.id != subnet.network_id => {
                return Err(StepError::refused(
                    NETWORK_READY,
                    Reason::InvalidSpec,
                    format!(
                        "OpenStackCluster {}: {field} is subnet {} of network {}; a subnet of network {} is needed",
                        context.desired.object, subnet.id, subnet.network_id, network.id
                    ),
                ));
            }
            Some(_) => {}
        }
        subnets.push(subnet);
    }
    let Some(network) = network else {
        return Err(StepError::refused(
            NETWORK_READY,
            Reason::InvalidSpec,
            format!(
                "OpenStackCluster {}: none of spec.managedSubnets, {network_field} and {subnets_field} is set; one is needed",
                context.desired.object
            ),
        ));
    };
    if references.is_empty() {
        subnets = list_subnets(context, &network.id).await?;
        subnets.sort_by_key(|subnet| network.subnets.iter().position(|id| *id == subnet.id));
    }
    if subnets.is_empty() {
        return Err(StepError::refused(
            NETWORK_READY,
            Reason::DependencyNotFound,
            format!(
                "OpenStackCluster {}: {network_field} is network {} ({}), which has no subnets; at least one is needed",
                context.desired.object, network.name, network.id
            ),
        ));
    }
    Ok(NetworkState { network, subnets })
}

/// Lists external networks. The clusters of a cloud share one list, because external networks belong to no cluster and
/// hardly ever change.
pub(super) async fn list_external_networks(
    context: &StepContext<'_>,
    filter: &NetworkFilter,
) -> Result<Vec<Network>, Error> {
    let shared = context.cloud.shared_reads();
    shared
        .networks(filter, EXTERNAL_AGE, Priority::Settling)
        .await
}

/// The existing network to which the spec refers.
pub(super) async fn find_network(
    context: &StepContext<'_>,
    lookup: &NetworkReference,
    external: Option<bool>,
    field: &str,
) -> StepResult<Network> {
    let doing = format!("Looking for {field}");
    let object = &context.desired.object;
    match lookup {
        Reference::Id(id) => match context.cloud.network(id, Priority::Settling).await {
            Ok(network) => Ok(network),
            Err(error) if error.is_not_found() => {
                Err(not_there(object, field, "network", id.as_str()))
            }
            Err(error) => Err(failed(Reason::OpenStackError, &doing, &error)),
        },
        Reference::Filter(filter) => {
            let filter = NetworkFilter {
                external: external.or(filter.external),
                ..filter.clone()
            };
            let found = if external == Some(true) {
                list_external_networks(context, &filter).await
            } else {
                context.cloud.networks(&filter, Priority::Settling).await
            };
            let found = found.map_err(|e| failed(Reason::OpenStackError, &doing, &e))?;
            let what = format!("OpenStackCluster {object}: {field}.filter");
            resolve(found, None, |n: &Network| &n.id).exactly_one(NETWORK_READY, &what)
        }
    }
}

/// The existing subnet to which the spec refers, in this network if it is known.
pub(crate) async fn find_subnet(
    context: &StepContext<'_>,
    lookup: &SubnetReference,
    network: Option<&NetworkId>,
    field: &str,
) -> StepResult<Subnet> {
    let doing = format!("Looking for {field}");
    let object = &context.desired.object;
    match lookup {
        Reference::Id(id) => match context.cloud.subnet(id, Priority::Settling).await {
            Ok(subnet) => Ok(subnet),
            Err(error) if error.is_not_found() => {
                Err(not_there(object, field, "subnet", id.as_str()))
            }
            Err(error) => Err(failed(Reason::OpenStackError, &doing, &error)),
        },
        Reference::Filter(filter) => {
            let filter = SubnetFilter {
                network_id: network.cloned().or(filter.network_id.clone()),
                ..filter.clone()
            };
            let found = context
                .cloud
                .subnets(&filter, Priority::Settling)
                .await
                .map_err(|e| failed(Reason::OpenStackError, &doing, &e))?;
            let what = format!("OpenStackCluster {object}: {field}.filter");
            resolve(found, None, |s: &Subnet| &s.id).exactly_one(NETWORK_READY, &what)
        }
    }
}

fn not_there(object: &str, field: &str, kind: &str, id: &str) -> StepError {
    StepError::refused(
        NETWORK_READY,
        Reason::DependencyNotFound,
        format!(
            "OpenStackCluster {object}: {field}.id is {id}, but there is no {kind} with this id; the id of an existing one is needed"
        ),
    )
}
