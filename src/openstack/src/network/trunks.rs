//! Trunks.

use serde::{Deserialize, Serialize};

use crate::{
    Service,
    request::{Call, calls},
    wire::null_as_default,
};
use capo_core::ids::{PortId, TrunkId};

const NEUTRON: Service = Service::Network;

/// A trunk.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Trunk {
    /// Neutron's id.
    pub id: TrunkId,
    /// Its name.
    #[serde(default, deserialize_with = "null_as_default")]
    pub name: String,
    /// Its parent port.
    pub port_id: PortId,
    /// Its sub-ports.
    #[serde(default, deserialize_with = "null_as_default")]
    pub sub_ports: Vec<SubPort>,
    /// Its tags.
    #[serde(default, deserialize_with = "null_as_default")]
    pub tags: Vec<String>,
}

/// A sub-port of a trunk.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SubPort {
    /// The port.
    pub port_id: PortId,
}

/// A trunk to create.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Default)]
pub struct NewTrunk {
    /// Its name.
    pub name: String,
    /// Its parent port.
    pub port_id: PortId,
    /// Its description.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub description: String,
}

calls! {
    /// The trunks of a port.
    fn trunks(port: &PortId) -> Vec<Trunk> =
        list(Call::get(NEUTRON, "trunk_list", ["trunks"]).query("port_id", port.as_str()), "trunks");

    /// Creates a trunk.
    fn create_trunk(new: &NewTrunk) -> Trunk =
        one(Call::post(NEUTRON, "trunk_create", ["trunks"]).json("trunk", new), "trunk");

    /// Removes sub-ports from a trunk. The ports stay.
    fn remove_sub_ports(id: &TrunkId, sub_ports: &[SubPort]) -> () = done(
        Call::put(NEUTRON, "trunk_deletesubports", ["trunks", id.as_str(), "remove_subports"])
            .json("sub_ports", sub_ports)
    );

    /// Deletes a trunk; its parent port stays.
    fn delete_trunk(id: &TrunkId) -> () =
        done(Call::delete(NEUTRON, "trunk_delete", ["trunks", id.as_str()]));
}
