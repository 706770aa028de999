//! Looks up the objects that a server's spec names. This is done once, and the ids are kept in `status.resolved`, so
//! that renaming a flavor or image later changes nothing.

use futures::future::try_join_all;

use super::{StepResult, failure, filters, missing, validate};
use crate::reconcile::{
    image_and_flavor::ImageAndFlavor,
    image_objects::ImageObjects,
    server_names::{self, merged_tags},
};
use capo_api::{
    v1alpha1::{OpenStackServerSpec, ResolvedServerSpec},
    v1beta2::{
        FixedIp, NetworkParam, PortOpts, ResolvedFixedIp, ResolvedPortSpec, SecurityGroupParam,
        ServerGroupParam, SubnetParam,
    },
};
use capo_core::{
    FailureClass, Priority, Reason,
    ids::{FlavorId, NetworkId, ProjectId, SecurityGroupId, ServerGroupId},
};
use capo_openstack::{
    Cloud,
    network::{Subnet, SubnetFilter},
};

const PRIORITY: Priority = Priority::Settling;

/// The inputs of the lookup.
pub(super) struct Resolver<'a> {
    /// The cloud.
    pub cloud: &'a Cloud,
    /// The project of the credentials.
    pub project: &'a ProjectId,
    /// The management cluster, for images that are Kubernetes objects.
    pub client: &'a kube::Client,
    /// The index of the servers that wait for one of these Image objects.
    pub images: &'a ImageObjects,
    /// The server's namespace.
    pub namespace: &'a str,
    /// The server's name.
    pub name: &'a str,
    /// The Cluster's name, for descriptions.
    pub cluster: Option<&'a str>,
    /// The server's spec.
    pub spec: &'a OpenStackServerSpec,
}

impl Resolver<'_> {
    /// Looks up everything that the spec names.
    pub(super) async fn resolve(&self) -> StepResult<ResolvedServerSpec> {
        let named = ImageAndFlavor {
            cloud: self.cloud,
            client: self.client,
            namespace: self.namespace,
            spec: "spec",
            priority: PRIORITY,
            waiter: Some((self.images, self.name)),
        };
        let (image, flavor, server_group) = tokio::try_join!(
            named.image_id(&self.spec.image),
            self.flavor(&named),
            self.server_group()
        )?;
        Ok(ResolvedServerSpec {
            server_group_id: server_group.map(Into::into),
            image_id: Some(image.into()),
            flavor_id: Some(flavor.into()),
            ports: self.ports().await?,
        })
    }

    /// Looks up only the ports, because a deletion needs no other ids.
    pub(super) async fn ports(&self) -> StepResult<Vec<ResolvedPortSpec>> {
        let ports = self.spec.ports.iter().enumerate();
        try_join_all(ports.map(|(index, port)| self.port(index, port))).await
    }

    async fn flavor(&self, named: &ImageAndFlavor<'_>) -> StepResult<FlavorId> {
        let filled = |text: &'_ Option<String>| text.clone().filter(|text| !text.is_empty());
        if let Some(id) = filled(&self.spec.flavor_id) {
            return Ok(named.flavor_by_id("flavorID", &id.into()).await?.id);
        }
        match filled(&self.spec.flavor) {
            Some(name) => Ok(named.flavor_by_name("flavor", &name).await?.id),
            None => Err(named.missing("flavor", "flavor or flavorID")),
        }
    }

    async fn server_group(&self) -> StepResult<Option<ServerGroupId>> {
        let Some(param) = validate::server_group(self.spec)? else {
            return Ok(None);
        };
        let ServerGroupParam { id, filter } = param;
        if let Some(id) = id {
            return Ok(Some(id.as_str().into()));
        }
        let name = filter.as_ref().and_then(|filter| filter.name.clone());
        let Some(name) = name.filter(|name| !name.is_empty()) else {
            return Err(missing("spec.serverGroup", "id or filter.name"));
        };
        let shared = self.cloud.shared_reads();
        let (shared, name) = (&shared, &name);
        let groups = filters::looked_up(|age| async move {
            let all = shared.server_groups(age, PRIORITY).await?;
            let named = all.iter().filter(|group| group.name == *name);
            Ok(named.cloned().collect())
        })
        .await?;
        let what = format!("server group named \"{name}\"");
        let group = filters::only_one(groups, "spec.serverGroup.filter", &what, |group| {
            group.id.as_str()
        })?;
        Ok(Some(group.id))
    }

    async fn port(&self, index: usize, port: &PortOpts) -> StepResult<ResolvedPortSpec> {
        let field = format!("spec.ports[{index}]");
        let network_id = match &port.network {
            Some(network) => self.network(network, &field).await?,
            None => self.network_of_subnets(&port.fixed_ips, &field).await?,
        };
        let fixed_ips = try_join_all(port.fixed_ips.iter().enumerate().map(|(at, fixed_ip)| {
            let field = format!("{field}.fixedIPs[{at}]");
            self.fixed_ip(fixed_ip, &network_id, field)
        }))
        .await?;
        let groups = if port.enable_port_security == Some(false) {
            &[][..]
        } else if port.security_groups.is_empty() {
            &self.spec.security_groups[..]
        } else {
            &port.security_groups[..]
        };
        let security_groups = try_join_all(groups.iter().enumerate().map(|(at, group)| {
            let field = format!("{field}.securityGroups[{at}]");
            self.security_groups(group, field)
        }))
        .await?;
        Ok(ResolvedPortSpec {
            name: server_names::port(self.name, port.name_suffix.as_deref(), index),
            network_id: network_id.into(),
            description: Some(
                port.description
                    .clone()
                    .filter(|text| !text.is_empty())
                    .unwrap_or_else(|| {
                        server_names::port_description(self.cluster.unwrap_or_default())
                    }),
            ),
            tags: merged_tags(&self.spec.tags, &port.tags),
            trunk: port.trunk.or(self.spec.trunk),
            fixed_ips,
            security_groups: each_once(security_groups.into_iter().flatten().map(Into::into)),
            admin_state_up: port.admin_state_up,
            mac_address: port.mac_address.clone(),
            allowed_address_pairs: port.allowed_address_pairs.clone(),
            host_id: port.host_id.clone(),
            vnic_type: port.vnic_type.clone(),
            profile: port.profile.clone(),
            enable_port_security: port.enable_port_security,
            propagate_uplink_status: port.propagate_uplink_status,
            value_specs: port.value_specs.clone(),
        })
    }

    async fn network(&self, param: &NetworkParam, field: &str) -> StepResult<NetworkId> {
        let field = format!("{field}.network");
        if let Some(id) = &param.id {
            return Ok(id.as_str().into());
        }
        let Some(filter) = &param.filter else {
            return Err(missing(&field, "id or filter"));
        };
        let (shared, query) = (self.cloud.shared_reads(), filters::networks(filter.clone()));
        let networks = filters::looked_up(|age| shared.networks(&query, age, PRIORITY)).await?;
        let what = "network that matches the filter";
        let network = filters::only_one(networks, &field, what, |network| network.id.as_str())?;
        Ok(network.id)
    }

    /// The network of a port that names none: the network of the first subnet in its fixed IPs.
    async fn network_of_subnets(
        &self,
        fixed_ips: &[FixedIp],
        field: &str,
    ) -> StepResult<NetworkId> {
        let mut subnets = fixed_ips.iter().enumerate();
        let named = subnets.find_map(|(index, fixed_ip)| Some((index, fixed_ip.subnet.as_ref()?)));
        let Some((index, subnet)) = named else {
            let wanted = "id or filter, or a subnet in fixedIPs";
            return Err(missing(&format!("{field}.network"), wanted));
        };
        let field = format!("{field}.fixedIPs[{index}].subnet");
        Ok(self.subnet(subnet, None, &field).await?.network_id)
    }

    /// The only subnet that matches a reference, in this network if it is known.
    async fn subnet(
        &self,
        param: &SubnetParam,
        network_id: Option<&NetworkId>,
        field: &str,
    ) -> StepResult<Subnet> {
        let (query, field, what) = match param {
            SubnetParam { id: Some(id), .. } => (
                SubnetFilter {
                    id: Some(id.as_str().into()),
                    ..SubnetFilter::default()
                },
                format!("{field}.id"),
                "subnet of this id",
            ),
            SubnetParam {
                filter: Some(filter),
                ..
            } => {
                let field = format!("{field}.filter");
                let gateway_ip = filters::parsed(
                    filter.gateway_ip.as_ref(),
                    &format!("{field}.gatewayIP"),
                    "an IP address",
                )?;
                let cidr = filters::parsed(
                    filter.cidr.as_ref(),
                    &format!("{field}.cidr"),
                    "a range such as 10.0.0.0/24",
                )?;
                let query = SubnetFilter {
                    network_id: network_id.cloned(),
                    ..filters::subnets(filter.clone(), gateway_ip, cidr)
                };
                let what = match network_id {
                    Some(_) => "subnet of that network that matches the filter",
                    None => "subnet that matches the filter",
                };
                (query, field, what)
            }
            SubnetParam { .. } => return Err(missing(field, "id or filter")),
        };
        let shared = self.cloud.shared_reads();
        let subnets = filters::looked_up(|age| shared.subnets(&query, age, PRIORITY)).await?;
        filters::only_one(subnets, &field, what, |subnet| subnet.id.as_str())
    }

    async fn fixed_ip(
        &self,
        fixed_ip: &FixedIp,
        network_id: &NetworkId,
        field: String,
    ) -> StepResult<ResolvedFixedIp> {
        let subnet = match &fixed_ip.subnet {
            None => None,
            // The id need not be looked up, because Neutron refuses a subnet that does not exist or is in another
            // network.
            Some(SubnetParam { id: Some(id), .. }) => Some(id.clone()),
            Some(subnet) => {
                let field = format!("{field}.subnet");
                let found = self.subnet(subnet, Some(network_id), &field).await?;
                Some(found.id.into())
            }
        };
        Ok(ResolvedFixedIp {
            subnet,
            ip_address: fixed_ip.ip_address.clone(),
        })
    }

    /// Every security group that matches a reference. A filter stands for all groups of the project that match it.
    async fn security_groups(
        &self,
        param: &SecurityGroupParam,
        field: String,
    ) -> StepResult<Vec<SecurityGroupId>> {
        let SecurityGroupParam { id, filter } = param;
        if let Some(id) = id {
            return Ok(vec![id.as_str().into()]);
        }
        let Some(filter) = filter else {
            return Err(missing(&field, "id or filter"));
        };
        let mut query = filters::security_groups(filter.clone());
        // The lookup is restricted to the project, because an administrator sees the groups of all projects, and
        // projects can share groups.
        query.project_id = query.project_id.or_else(|| Some(self.project.clone()));
        let shared = self.cloud.shared_reads();
        let groups =
            filters::looked_up(|age| shared.security_groups(&query, age, PRIORITY)).await?;
        if groups.is_empty() {
            return Err(failure(
                FailureClass::NotFound,
                Reason::DependencyNotFound,
                format!("{field}.filter: no security group that matches it found"),
            ));
        }
        Ok(groups.into_iter().map(|group| group.id).collect())
    }
}

/// Returns each id only once, because Neutron refuses a list that contains a group twice.
fn each_once(ids: impl Iterator<Item = String>) -> Vec<String> {
    let mut list = Vec::new();
    for id in ids {
        if !list.contains(&id) {
            list.push(id);
        }
    }
    list
}
