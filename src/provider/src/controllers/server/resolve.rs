//! What the names in a server's spec mean in OpenStack: looked up once, then kept in
//! `status.resolved`, so that a flavor or image that is renamed later changes nothing.

use futures::future::try_join_all;

use super::{Step, boot::Boot, failed, filters, missing, names};
use crate::controllers::{Outcome, server::names::merged_tags};
use capo_api::{
    v1alpha1::{OpenStackServerSpec, ResolvedServerSpec},
    v1beta2::{
        FixedIp, NetworkParam, PortOpts, ResolvedFixedIp, ResolvedPortSpec, SecurityGroupParam,
        ServerGroupParam, SubnetParam,
    },
};
use capo_core::{FailureClass, Priority, Reason, ids::ProjectId};
use capo_openstack::Cloud;

const PRIORITY: Priority = Priority::Settling;

/// What is looked up, and where.
pub(super) struct Resolver<'a> {
    /// The cloud.
    pub cloud: &'a Cloud,
    /// The project of the credentials.
    pub project: &'a ProjectId,
    /// The management cluster, for images that are Kubernetes objects.
    pub client: &'a kube::Client,
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
    /// Looks everything up.
    pub(super) async fn resolve(&self) -> Step<ResolvedServerSpec> {
        let boot = Boot {
            cloud: self.cloud,
            client: self.client,
            namespace: self.namespace,
            spec: "spec",
            priority: PRIORITY,
        };
        let (image, flavor, server_group) = tokio::try_join!(
            boot.image_id(&self.spec.image),
            self.flavor(&boot),
            self.server_group()
        )?;
        Ok(ResolvedServerSpec {
            server_group_id: server_group,
            image_id: Some(image),
            flavor_id: Some(flavor),
            ports: self.ports().await?,
        })
    }

    /// The ports alone, which is all that a deletion needs to know.
    pub(super) async fn ports(&self) -> Step<Vec<ResolvedPortSpec>> {
        let ports = self.spec.ports.iter().enumerate();
        try_join_all(ports.map(|(index, port)| self.port(index, port))).await
    }

    async fn flavor(&self, boot: &Boot<'_>) -> Step<String> {
        let filled = |text: &'_ Option<String>| text.clone().filter(|text| !text.is_empty());
        if let Some(id) = filled(&self.spec.flavor_id) {
            return Ok(boot.flavor_by_id("flavorID", &id).await?.id.into());
        }
        match filled(&self.spec.flavor) {
            Some(name) => Ok(boot.flavor_by_name("flavor", &name).await?.id.into()),
            None => Err(boot.missing("flavor", "flavor or flavorID")),
        }
    }

    async fn server_group(&self) -> Step<Option<String>> {
        let Some(param) = &self.spec.server_group else {
            return Ok(None);
        };
        let ServerGroupParam { id, filter } = param;
        if let Some(id) = id {
            return Ok(Some(id.clone()));
        }
        let name = filter.as_ref().and_then(|filter| filter.name.clone());
        let Some(name) = name.filter(|name| !name.is_empty()) else {
            return Err(missing("spec.serverGroup", "id or filter.name"));
        };
        let mut groups = self
            .cloud
            .server_groups(PRIORITY)
            .await
            .map_err(|error| failed(&error, Reason::DependencyFailed))?;
        groups.retain(|group| group.name == name);
        let what = format!("server group named \"{name}\"");
        let group = filters::only_one(groups, "spec.serverGroup.filter", &what, |group| &group.id)?;
        Ok(Some(group.id.into()))
    }

    async fn port(&self, index: usize, port: &PortOpts) -> Step<ResolvedPortSpec> {
        let field = format!("spec.ports[{index}]");
        let network_id = self.network(port.network.as_ref(), &field).await?;
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
            name: names::port(self.name, port.name_suffix.as_deref(), index),
            network_id,
            description: Some(
                port.description
                    .clone()
                    .filter(|text| !text.is_empty())
                    .unwrap_or_else(|| names::port_description(self.cluster)),
            ),
            tags: merged_tags(&self.spec.tags, &port.tags),
            trunk: port.trunk.or(self.spec.trunk),
            fixed_ips,
            security_groups: each_once(security_groups.into_iter().flatten()),
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

    async fn network(&self, param: Option<&NetworkParam>, field: &str) -> Step<String> {
        let field = format!("{field}.network");
        match param {
            Some(NetworkParam { id: Some(id), .. }) => Ok(id.clone()),
            Some(NetworkParam {
                filter: Some(filter),
                ..
            }) => {
                let networks = self
                    .cloud
                    .networks(&filters::networks(filter), PRIORITY)
                    .await
                    .map_err(|error| failed(&error, Reason::DependencyFailed))?;
                let what = "network that matches the filter";
                Ok(
                    filters::only_one(networks, &field, what, |network| &network.id)?
                        .id
                        .into(),
                )
            }
            _ => Err(missing(&field, "id or filter")),
        }
    }

    async fn fixed_ip(
        &self,
        fixed_ip: &FixedIp,
        network_id: &str,
        field: String,
    ) -> Step<ResolvedFixedIp> {
        let subnet = match &fixed_ip.subnet {
            None => None,
            Some(SubnetParam { id: Some(id), .. }) => Some(id.clone()),
            Some(SubnetParam { id: None, filter }) => {
                let field = format!("{field}.subnet.filter");
                let Some(filter) = filter else {
                    return Err(missing(&field, "id or filter"));
                };
                let query = filters::subnets(filter, network_id, &field)?;
                let subnets = self
                    .cloud
                    .subnets(&query, PRIORITY)
                    .await
                    .map_err(|error| failed(&error, Reason::DependencyFailed))?;
                let what = "subnet of that network that matches the filter";
                Some(String::from(
                    filters::only_one(subnets, &field, what, |subnet| &subnet.id)?.id,
                ))
            }
        };
        Ok(ResolvedFixedIp {
            subnet,
            ip_address: fixed_ip.ip_address.clone(),
        })
    }

    /// Every group that a reference means. A filter means all groups of the project that match it.
    async fn security_groups(
        &self,
        param: &SecurityGroupParam,
        field: String,
    ) -> Step<Vec<String>> {
        let SecurityGroupParam { id, filter } = param;
        if let Some(id) = id {
            return Ok(vec![id.clone()]);
        }
        let Some(filter) = filter else {
            return Err(missing(&field, "id or filter"));
        };
        let mut query = filters::security_groups(filter);
        // An administrator sees the groups of all projects, and groups can be shared between projects.
        query.project_id = query.project_id.or_else(|| Some(self.project.clone()));
        let groups = self
            .cloud
            .security_groups(&query, PRIORITY)
            .await
            .map_err(|error| failed(&error, Reason::DependencyFailed))?;
        if groups.is_empty() {
            return Err(Outcome::failed(
                FailureClass::NotFound,
                Reason::DependencyNotFound,
                format!("{field}.filter: no security group that matches it found"),
            ));
        }
        Ok(groups.into_iter().map(|group| group.id.into()).collect())
    }
}

/// Neutron refuses a list that names a group twice.
fn each_once(ids: impl Iterator<Item = String>) -> Vec<String> {
    let mut list = Vec::new();
    for id in ids {
        if !list.contains(&id) {
            list.push(id);
        }
    }
    list
}
