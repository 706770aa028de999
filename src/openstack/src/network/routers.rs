//! Routers and their interfaces.

use serde::{Deserialize, Serialize};

use crate::{
    Service,
    request::{Call, calls},
    wire::{FixedIp, TagFilter, null_as_default},
};
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
    /// Conditions on its tags.
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

calls! {
    /// Routers that match.
    fn routers(filter: &RouterFilter) -> Vec<Router> = list(
        Call::get(NEUTRON, "router_list", ["routers"])
            .each("id", &filter.id)
            .each("name", &filter.name)
            .each("description", &filter.description)
            .each("project_id", &filter.project_id)
            .tags(&filter.tags),
        "routers"
    );

    /// One router.
    fn router(id: &RouterId) -> Router =
        one(Call::get(NEUTRON, "router_get", ["routers", id.as_str()]), "router");

    /// Creates a router.
    fn create_router(new: &NewRouter) -> Router =
        one(Call::post(NEUTRON, "router_create", ["routers"]).json("router", new), "router");

    /// Changes a router.
    fn update_router(id: &RouterId, update: &RouterUpdate) -> Router = one(
        Call::put(NEUTRON, "router_update", ["routers", id.as_str()]).json("router", update),
        "router"
    );

    /// Adds an interface to a router. If the interface exists already, Neutron answers 409 or 400, depending on its
    /// release.
    fn add_router_interface(id: &RouterId, interface: RouterInterface<'_>) -> () = done(
        Call::put(NEUTRON, "router_interface_add", ["routers", id.as_str(), "add_router_interface"])
            .body(&interface)
    );

    /// Removes an interface from a router.
    fn remove_router_interface(id: &RouterId, interface: RouterInterface<'_>) -> () = done(
        Call::put(
            NEUTRON,
            "router_interface_remove",
            ["routers", id.as_str(), "remove_router_interface"]
        )
        .body(&interface)
    );

    /// Deletes a router without interfaces.
    fn delete_router(id: &RouterId) -> () =
        done(Call::delete(NEUTRON, "router_delete", ["routers", id.as_str()]));
}
