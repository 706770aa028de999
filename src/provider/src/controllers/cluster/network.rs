//! External network, network and subnets.

use ipnet::IpNet;

use super::{
    halt::{Halt, Step},
    pick::{Picked, pick},
    shop::Shop,
    wanted::{External, Lookup, ManagedNetwork, NetworkWish},
};
use crate::status::conditions::kind::NETWORK_READY;
use capo_core::Priority;
use capo_core::Reason;
use capo_openstack::{
    Error,
    network::{
        AllocationPool, Network, NetworkFilter, NewNetwork, NewSubnet, Subnet, SubnetFilter,
        SubnetUpdate, Tagged,
    },
};

/// A network with those of its subnets that the cluster uses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NetworkState {
    /// The network.
    pub network: Network,
    /// Its subnets, the one that matters most first.
    pub subnets: Vec<Subnet>,
}

impl NetworkState {
    /// The subnets' ranges.
    pub(crate) fn ranges(&self) -> Vec<IpNet> {
        self.subnets
            .iter()
            .filter_map(|subnet| subnet.cidr)
            .collect()
    }
}

fn trouble(ordinary: Reason, doing: &str, error: &Error) -> Halt {
    Halt::cloud(NETWORK_READY, ordinary, doing, error)
}

/// The external network: the one that is given, or the only one there is.
pub(crate) async fn external(shop: &Shop<'_>, wish: &External) -> Step<Option<Network>> {
    match wish {
        External::Off => Ok(None),
        External::Given(lookup) => {
            let what = "spec.externalNetwork";
            let network = network_by(shop, lookup, Some(true), what).await?;
            if network.external {
                return Ok(Some(network));
            }
            Err(Halt::refused(
                NETWORK_READY,
                Reason::InvalidSpec,
                format!(
                    "OpenStackCluster {}: {what} is network {} ({}), which is not external; a network with \
                     router:external is needed",
                    shop.wanted.object, network.name, network.id
                ),
            ))
        }
        External::Sole => {
            let filter = NetworkFilter {
                external: Some(true),
                ..NetworkFilter::default()
            };
            let found = shop
                .cloud
                .networks(&filter, Priority::Settling)
                .await
                .map_err(|e| {
                    trouble(
                        Reason::OpenStackError,
                        "Looking for the external network",
                        &e,
                    )
                })?;
            let what = format!(
                "OpenStackCluster {}: spec.externalNetwork is not set and \"any external network\"",
                shop.wanted.object
            );
            pick(found, shop.known.external_network.as_deref(), |n| &n.id)
                .at_most_one(NETWORK_READY, &what)
        }
    }
}

/// Network and subnets, made where they are ours.
pub(crate) async fn network(shop: &Shop<'_>) -> Step<NetworkState> {
    match &shop.wanted.network {
        NetworkWish::Managed(wish) => {
            let network = managed_network(shop, wish).await?;
            let subnet = managed_subnet(shop, wish, &network).await?;
            Ok(NetworkState {
                network,
                subnets: vec![subnet],
            })
        }
        NetworkWish::Existing { network, subnets } => {
            existing(
                shop,
                network.as_ref(),
                subnets,
                "spec.network",
                "spec.subnets",
            )
            .await
        }
    }
}

/// The managed network as it is; `None` where there is none.
pub(crate) async fn find_managed(shop: &Shop<'_>) -> Step<Option<Network>> {
    let name = shop.wanted.names.network();
    let filter = NetworkFilter {
        name: Some(name.clone()),
        project_id: Some(shop.project.clone()),
        ..NetworkFilter::default()
    };
    let doing = format!("Looking for network {name}");
    let found = shop
        .cloud
        .networks(&filter, Priority::Settling)
        .await
        .map_err(|e| trouble(Reason::OpenStackError, &doing, &e))?;
    let known = shop.known.network.as_deref();
    if let Some(network) = pick(found, known, |n| &n.id)
        .at_most_one(NETWORK_READY, &format!("Network name \"{name}\""))?
    {
        return Ok(Some(network));
    }
    // Renamed by somebody: ours all the same while it is in our project.
    let Some(id) = known else { return Ok(None) };
    match shop.cloud.network(id, Priority::Settling).await {
        Ok(network) if network.project_id.as_ref() == Some(&shop.project) => Ok(Some(network)),
        Ok(_) => Ok(None),
        Err(error) if error.is_not_found() => Ok(None),
        Err(error) => Err(trouble(Reason::OpenStackError, &doing, &error)),
    }
}

async fn managed_network(shop: &Shop<'_>, wish: &ManagedNetwork) -> Step<Network> {
    let network = if let Some(network) = find_managed(shop).await? {
        network
    } else {
        let new = NewNetwork {
            name: shop.wanted.names.network(),
            description: String::new(),
            mtu: wish.mtu,
            port_security_enabled: (!wish.port_security).then_some(false),
        };
        let network = shop
            .cloud
            .create_network(&new, Priority::Settling)
            .await
            .map_err(|e| {
                trouble(
                    Reason::NetworkCreateFailed,
                    &format!("Creating network {}", new.name),
                    &e,
                )
            })?;
        shop.created("network", &network.name, &network.id);
        network
    };
    shop.tag(NETWORK_READY, Tagged::Network, &network.id, &network.tags)
        .await?;
    Ok(network)
}

async fn managed_subnet(shop: &Shop<'_>, wish: &ManagedNetwork, network: &Network) -> Step<Subnet> {
    let found: Vec<Subnet> = subnets_of(shop, &network.id)
        .await?
        .into_iter()
        .filter(|subnet| subnet.cidr.map(|range| range.trunc()) == Some(wish.range))
        .collect();
    let what = format!("Subnet {} of network {}", wish.range, network.name);
    let known = shop.known.subnet.as_deref();
    let subnet =
        if let Some(subnet) = pick(found, known, |s| &s.id).at_most_one(NETWORK_READY, &what)? {
            keep_name_servers(shop, wish, subnet).await?
        } else {
            let new = NewSubnet {
                network_id: network.id.clone(),
                name: shop.wanted.names.network(),
                description: shop.wanted.names.description(),
                cidr: wish.range,
                ip_version: if wish.range.addr().is_ipv4() { 4 } else { 6 },
                dns_nameservers: wish.name_servers.iter().map(ToString::to_string).collect(),
                allocation_pools: wish.pools.clone(),
            };
            let doing = format!("Creating subnet {} ({})", new.name, wish.range);
            let subnet = shop
                .cloud
                .create_subnet(&new, Priority::Settling)
                .await
                .map_err(|e| trouble(Reason::SubnetCreateFailed, &doing, &e))?;
            shop.created("subnet", &subnet.name, &subnet.id);
            subnet
        };
    shop.tag(NETWORK_READY, Tagged::Subnet, &subnet.id, &subnet.tags)
        .await?;
    Ok(subnet)
}

/// Name servers are the one thing of a subnet that the spec may change.
async fn keep_name_servers(shop: &Shop<'_>, wish: &ManagedNetwork, subnet: Subnet) -> Step<Subnet> {
    if same_set(&wish.name_servers, &subnet.dns_nameservers) {
        return Ok(subnet);
    }
    let update = SubnetUpdate {
        dns_nameservers: Some(wish.name_servers.iter().map(ToString::to_string).collect()),
    };
    let doing = format!("Setting the name servers of subnet {}", subnet.name);
    shop.cloud
        .update_subnet(&subnet.id, &update, Priority::Settling)
        .await
        .map_err(|e| trouble(Reason::OpenStackError, &doing, &e))
}

fn same_set<T: Ord>(a: &[T], b: &[T]) -> bool {
    let set = |list| std::collections::BTreeSet::<&T>::from_iter(list);
    set(a) == set(b)
}

async fn subnets_of(shop: &Shop<'_>, network: &str) -> Step<Vec<Subnet>> {
    let filter = SubnetFilter {
        network_id: Some(network.to_owned()),
        ..SubnetFilter::default()
    };
    shop.cloud
        .subnets(&filter, Priority::Settling)
        .await
        .map_err(|e| trouble(Reason::OpenStackError, "Listing the network's subnets", &e))
}

/// A network and subnets of the user's. `network_field` and `subnets_field` are for messages.
pub(crate) async fn existing(
    shop: &Shop<'_>,
    network: Option<&Lookup<NetworkFilter>>,
    wishes: &[Lookup<SubnetFilter>],
    network_field: &str,
    subnets_field: &str,
) -> Step<NetworkState> {
    let mut network = match network {
        Some(lookup) => Some(network_by(shop, lookup, None, network_field).await?),
        None => None,
    };
    let mut subnets = Vec::new();
    for (at, lookup) in wishes.iter().enumerate() {
        let field = format!("{subnets_field}[{at}]");
        let within = network.as_ref().map(|n| n.id.as_str());
        let subnet = subnet_by(shop, lookup, within, &field).await?;
        match &network {
            None => {
                let id = Lookup::Id(subnet.network_id.clone());
                network = Some(network_by(shop, &id, None, &format!("{field}'s network")).await?);
            }
            Some(network) if network.id != subnet.network_id => {
                return Err(Halt::refused(
                    NETWORK_READY,
                    Reason::InvalidSpec,
                    format!(
                        "OpenStackCluster {}: {field} is subnet {} of network {}; a subnet of network {} is needed",
                        shop.wanted.object, subnet.id, subnet.network_id, network.id
                    ),
                ));
            }
            Some(_) => {}
        }
        subnets.push(subnet);
    }
    let Some(network) = network else {
        return Err(Halt::refused(
            NETWORK_READY,
            Reason::InvalidSpec,
            format!(
                "OpenStackCluster {}: none of spec.managedSubnets, {network_field} and {subnets_field} is set; one is needed",
                shop.wanted.object
            ),
        ));
    };
    if wishes.is_empty() {
        subnets = subnets_of(shop, &network.id).await?;
        subnets.sort_by_key(|subnet| network.subnets.iter().position(|id| *id == subnet.id));
    }
    if subnets.is_empty() {
        return Err(Halt::refused(
            NETWORK_READY,
            Reason::DependencyNotFound,
            format!(
                "OpenStackCluster {}: {network_field} is network {} ({}), which has no subnets; at least one is needed",
                shop.wanted.object, network.name, network.id
            ),
        ));
    }
    Ok(NetworkState { network, subnets })
}

async fn network_by(
    shop: &Shop<'_>,
    lookup: &Lookup<NetworkFilter>,
    external: Option<bool>,
    field: &str,
) -> Step<Network> {
    let doing = format!("Looking for {field}");
    let object = &shop.wanted.object;
    match lookup {
        Lookup::Id(id) => match shop.cloud.network(id, Priority::Settling).await {
            Ok(network) => Ok(network),
            Err(error) if error.is_not_found() => Err(not_there(object, field, "network", id)),
            Err(error) => Err(trouble(Reason::OpenStackError, &doing, &error)),
        },
        Lookup::Filter(filter) => {
            let filter = NetworkFilter {
                external: external.or(filter.external),
                ..filter.clone()
            };
            let found = shop
                .cloud
                .networks(&filter, Priority::Settling)
                .await
                .map_err(|e| trouble(Reason::OpenStackError, &doing, &e))?;
            let what = format!("OpenStackCluster {object}: {field}.filter");
            pick(found, None, |n: &Network| &n.id).exactly_one(NETWORK_READY, &what)
        }
    }
}

/// A subnet of the user's, within a network where that is known.
pub(crate) async fn subnet_by(
    shop: &Shop<'_>,
    lookup: &Lookup<SubnetFilter>,
    network: Option<&str>,
    field: &str,
) -> Step<Subnet> {
    let doing = format!("Looking for {field}");
    let object = &shop.wanted.object;
    match lookup {
        Lookup::Id(id) => match shop.cloud.subnet(id, Priority::Settling).await {
            Ok(subnet) => Ok(subnet),
            Err(error) if error.is_not_found() => Err(not_there(object, field, "subnet", id)),
            Err(error) => Err(trouble(Reason::OpenStackError, &doing, &error)),
        },
        Lookup::Filter(filter) => {
            let filter = SubnetFilter {
                network_id: network.map(ToOwned::to_owned).or(filter.network_id.clone()),
                ..filter.clone()
            };
            let found = shop
                .cloud
                .subnets(&filter, Priority::Settling)
                .await
                .map_err(|e| trouble(Reason::OpenStackError, &doing, &e))?;
            let what = format!("OpenStackCluster {object}: {field}.filter");
            let picked: Picked<Subnet> = pick(found, None, |s| &s.id);
            picked.exactly_one(NETWORK_READY, &what)
        }
    }
}

fn not_there(object: &str, field: &str, kind: &str, id: &str) -> Halt {
    Halt::refused(
        NETWORK_READY,
        Reason::DependencyNotFound,
        format!(
            "OpenStackCluster {object}: {field}.id is {id}, but there is no {kind} with this id; the id of an existing one is needed"
        ),
    )
}

/// A pool as Neutron takes it.
pub(crate) fn pool(start: String, end: String) -> AllocationPool {
    AllocationPool { start, end }
}
