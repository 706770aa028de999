//! What the names in a server's spec mean in OpenStack: looked up once, then kept in
//! `status.resolved`, so that a flavor or image that is renamed later changes nothing.

use futures::future::try_join_all;
use kube::{
    Api,
    api::{ApiResource, DynamicObject, GroupVersionKind},
};

use super::{Step, failed, filters, names};
use crate::{
    api::v1alpha1::{OpenStackServerSpec, ResolvedServerSpec},
    api::v1beta2::{
        FixedIp, ImageParam, NetworkParam, PortOpts, ResolvedFixedIp, ResolvedPortSpec,
        SecurityGroupParam, ServerGroupParam, SubnetParam,
    },
    controllers::{Outcome, server::names::merged_tags},
    openstack::{Cloud, Error, ErrorClass, Priority, image::ImageFilter},
    status::Reason,
};

const PRIORITY: Priority = Priority::Settling;

/// What is looked up, and where.
pub(super) struct Resolver<'a> {
    /// The cloud.
    pub cloud: &'a Cloud,
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
        let (image, flavor, server_group) =
            tokio::try_join!(self.image(), self.flavor(), self.server_group())?;
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

    async fn image(&self) -> Step<String> {
        match &self.spec.image {
            ImageParam { id: Some(id), .. } => {
                let found = self.cloud.image(id, PRIORITY).await;
                Ok(named(found, "spec.image.id", "image", id)?.id)
            }
            ImageParam {
                image_ref: Some(reference),
                ..
            } => self.image_object(&reference.name).await,
            ImageParam {
                filter: Some(filter),
                ..
            } => {
                let query = ImageFilter {
                    name: filter.name.clone().filter(|name| !name.is_empty()),
                    tags: filter.tags.clone(),
                };
                let what = match &query.name {
                    Some(name) => format!("image named \"{name}\""),
                    None => format!("image with the tags {}", query.tags.join(", ")),
                };
                let images = self
                    .cloud
                    .images(&query, PRIORITY)
                    .await
                    .map_err(|error| failed(&error, Reason::DependencyFailed))?;
                Ok(filters::only_one(images, "spec.image.filter", &what, |image| &image.id)?.id)
            }
            _ => Err(missing("spec.image", "one of id, filter and imageRef")),
        }
    }

    /// An Image object of the OpenStack Resource Controller in the same namespace.
    async fn image_object(&self, name: &str) -> Step<String> {
        let kind = GroupVersionKind::gvk("openstack.k-orc.cloud", "v1alpha1", "Image");
        let resource = ApiResource::from_gvk_with_plural(&kind, "images");
        let api: Api<DynamicObject> =
            Api::namespaced_with(self.client.clone(), self.namespace, &resource);
        let field = "spec.image.imageRef";
        match api.get_opt(name).await {
            Ok(Some(image)) => ready_image(&image.data).ok_or_else(|| {
                Outcome::wait(
                    Reason::DependencyFailed,
                    format!("{field}: the Image {name} is not Available yet"),
                    std::time::Duration::from_secs(10),
                )
            }),
            Ok(None) => Err(Outcome::failed(
                ErrorClass::NotFound,
                Reason::DependencyNotFound,
                format!(
                    "{field}: there is no Image {name} of openstack.k-orc.cloud in the namespace {}, or that kind is not installed",
                    self.namespace
                ),
            )),
            Err(error) => {
                tracing::debug!(%error, "an Image object could not be read");
                Err(Outcome::failed(
                    ErrorClass::Transient,
                    Reason::DependencyFailed,
                    format!("{field}: the Image {name} could not be read from the Kubernetes API"),
                ))
            }
        }
    }

    async fn flavor(&self) -> Step<String> {
        let filled = |text: &Option<String>| text.clone().filter(|text| !text.is_empty());
        if let Some(id) = filled(&self.spec.flavor_id) {
            let found = self.cloud.flavor(&id, PRIORITY).await;
            return Ok(named(found, "spec.flavorID", "flavor", &id)?.id);
        }
        let Some(name) = filled(&self.spec.flavor) else {
            return Err(missing("spec.flavor", "flavor or flavorID"));
        };
        let mut flavors = self
            .cloud
            .flavors(PRIORITY)
            .await
            .map_err(|error| failed(&error, Reason::DependencyFailed))?;
        flavors.retain(|flavor| flavor.name == name);
        let what = format!("flavor named \"{name}\"");
        Ok(filters::only_one(flavors, "spec.flavor", &what, |flavor| &flavor.id)?.id)
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
        Ok(Some(group.id))
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
            self.security_group(group, field)
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
            security_groups,
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
                Ok(filters::only_one(networks, &field, what, |network| &network.id)?.id)
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
                Some(filters::only_one(subnets, &field, what, |subnet| &subnet.id)?.id)
            }
        };
        Ok(ResolvedFixedIp {
            subnet,
            ip_address: fixed_ip.ip_address.clone(),
        })
    }

    async fn security_group(&self, param: &SecurityGroupParam, field: String) -> Step<String> {
        match param {
            SecurityGroupParam { id: Some(id), .. } => Ok(id.clone()),
            SecurityGroupParam {
                filter: Some(filter),
                ..
            } => {
                let groups = self
                    .cloud
                    .security_groups(&filters::security_groups(filter), PRIORITY)
                    .await
                    .map_err(|error| failed(&error, Reason::DependencyFailed))?;
                let what = "security group that matches the filter";
                Ok(filters::only_one(groups, &field, what, |group| &group.id)?.id)
            }
            _ => Err(missing(&field, "id or filter")),
        }
    }
}

/// An object that was asked for by id; that it does not exist is the spec's fault.
fn named<T>(found: Result<T, Error>, field: &str, what: &str, id: &str) -> Step<T> {
    found.map_err(|error| {
        if error.is_not_found() {
            Outcome::failed(
                ErrorClass::NotFound,
                Reason::DependencyNotFound,
                format!("{field}: there is no {what} with the id {id}"),
            )
        } else {
            failed(&error, Reason::DependencyFailed)
        }
    })
}

fn missing(field: &str, wanted: &str) -> Outcome {
    Outcome::failed(
        ErrorClass::Invalid,
        Reason::InvalidSpec,
        format!("{field}: needs {wanted}"),
    )
}

/// The Glance id of an Image object that is Available.
fn ready_image(data: &serde_json::Value) -> Option<String> {
    let status = data.get("status")?;
    let available = status
        .get("conditions")?
        .as_array()?
        .iter()
        .any(|condition| {
            condition.get("type").and_then(|v| v.as_str()) == Some("Available")
                && condition.get("status").and_then(|v| v.as_str()) == Some("True")
        });
    let id = status.get("id")?.as_str().filter(|id| !id.is_empty())?;
    available.then(|| id.to_owned())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::ready_image;

    #[test]
    fn an_image_object_counts_once_it_is_available() {
        let available = json!([{"type": "Progressing", "status": "False"}, {"type": "Available", "status": "True"}]);
        for (data, expected) in [
            (json!({}), None),
            (json!({"status": {"id": "i"}}), None),
            (
                json!({"status": {"id": "i", "conditions": [{"type": "Available", "status": "False"}]}}),
                None,
            ),
            (json!({"status": {"conditions": available.clone()}}), None),
            (
                json!({"status": {"id": "i", "conditions": available}}),
                Some("i".to_owned()),
            ),
        ] {
            assert_eq!(ready_image(&data), expected, "{data}");
        }
    }
}
