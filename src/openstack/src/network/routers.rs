//! Routers and their interfaces.

use serde::{Deserialize, Serialize};

use crate::{
    Cloud, Error, Service,
    request::Call,
    wire::{FixedIp, TagFilter, null_as_default, push_some},
};
use capo_core::Priority;
use capo_core::ids::{NetworkId, PortId, ProjectId, RouterId, SubnetId};

const NEUTRON: Service = Service::Network;

/// A router.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Router {
    /// Neutron's id.
    pub id: RouterId,
    /// Its name; not unique.
    #[serde(default, deserialize_with = "null_as_default")]
    pub name: String,
    /// Its description.
    #[serde(default, deserialize_with = "null_as_default")]
    pub description: String,
    /// The project.
    #[serde(default)]
    pub project_id: Option<ProjectId>,
    /// Its external gateway.
    #[serde(default)]
    pub external_gateway_info: Option<ExternalGateway>,
    /// Its tags.
    #[serde(default, deserialize_with = "null_as_default")]
    pub tags: Vec<String>,
}

/// The external gateway of a router.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Default)]
pub struct ExternalGateway {
    /// The external network.
    pub network_id: NetworkId,
    /// The router's addresses on it. Neutron chooses them where none are given.
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "null_as_default"
    )]
    pub external_fixed_ips: Vec<FixedIp>,
}

/// The routers to list: those that match every field which is set.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RouterFilter {
    /// The id.
    pub id: Option<RouterId>,
    /// The exact name.
    pub name: Option<String>,
    /// The exact description.
    pub description: Option<String>,
    /// The project.
    pub project_id: Option<ProjectId>,
    /// By tags.
    pub tags: TagFilter,
}

/// A router to create.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Default)]
pub struct NewRouter {
    /// Its name.
    pub name: String,
    /// Its description.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// Its external gateway.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub external_gateway_info: Option<ExternalGateway>,
}

/// The changes of a router.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Default)]
pub struct RouterUpdate {
    /// Its external gateway.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub external_gateway_info: Option<ExternalGateway>,
}

/// The target of a router interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum RouterInterface<'a> {
    /// A subnet by id: the router takes the subnet's gateway address.
    #[serde(rename = "subnet_id")]
    Subnet(&'a SubnetId),
    /// A port by id.
    #[serde(rename = "port_id")]
    Port(&'a PortId),
}

impl Cloud {
    /// Routers that match.
    pub async fn routers(
        &self,
        filter: &RouterFilter,
        priority: Priority,
    ) -> Result<Vec<Router>, Error> {
        let mut call = Call::get(NEUTRON, "router_list", ["routers"]).at(priority);
        push_some(&mut call.query, "id", filter.id.as_ref());
        push_some(&mut call.query, "name", filter.name.as_ref());
        push_some(&mut call.query, "description", filter.description.as_ref());
        push_some(&mut call.query, "project_id", filter.project_id.as_ref());
        filter.tags.query(&mut call.query);
        self.list(call, "routers").await
    }

    /// One router.
    pub async fn router(&self, id: &RouterId, priority: Priority) -> Result<Router, Error> {
        let call = Call::get(NEUTRON, "router_get", ["routers", id.as_str()]).at(priority);
        self.one(call, "router").await
    }

    /// Creates a router.
    pub async fn create_router(
        &self,
        new: &NewRouter,
        priority: Priority,
    ) -> Result<Router, Error> {
        let call = Call::post(NEUTRON, "router_create", ["routers"])
            .json("router", new)
            .at(priority);
        self.one(call, "router").await
    }

    /// Changes a router.
    pub async fn update_router(
        &self,
        id: &RouterId,
        update: &RouterUpdate,
        priority: Priority,
    ) -> Result<Router, Error> {
        let call = Call::put(NEUTRON, "router_update", ["routers", id.as_str()])
            .json("router", update)
            .at(priority);
        self.one(call, "router").await
    }

    /// Adds an interface to a router. Where it exists already, Neutron answers 409 or 400, depending on its release.
    pub async fn add_router_interface(
        &self,
        router_id: &RouterId,
        interface: RouterInterface<'_>,
        priority: Priority,
    ) -> Result<(), Error> {
        let path = ["routers", router_id.as_str(), "add_router_interface"];
        let call = Call::put(NEUTRON, "router_interface_add", path)
            .body(&interface)
            .at(priority);
        self.done(call).await
    }

    /// Removes an interface from a router.
    pub async fn remove_router_interface(
        &self,
        router_id: &RouterId,
        interface: RouterInterface<'_>,
        priority: Priority,
    ) -> Result<(), Error> {
        let path = ["routers", router_id.as_str(), "remove_router_interface"];
        let call = Call::put(NEUTRON, "router_interface_remove", path)
            .body(&interface)
            .at(priority);
        self.done(call).await
    }

    /// Deletes a router without interfaces.
    pub async fn delete_router(&self, id: &RouterId, priority: Priority) -> Result<(), Error> {
        let call = Call::delete(NEUTRON, "router_delete", ["routers", id.as_str()]).at(priority);
        self.done(call).await
    }
}
