//! Trunks.

use serde::{Deserialize, Serialize};

use crate::{Cloud, Error, Service, request::Call, wire::null_as_default};
use capo_core::Priority;
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

impl Cloud {
    /// The trunks of a port.
    pub async fn trunks(&self, port_id: &PortId, priority: Priority) -> Result<Vec<Trunk>, Error> {
        let call = Call::get(NEUTRON, "trunk_list", ["trunks"])
            .query("port_id", port_id.as_str())
            .at(priority);
        self.list(call, "trunks").await
    }

    /// Creates a trunk.
    pub async fn create_trunk(&self, new: &NewTrunk, priority: Priority) -> Result<Trunk, Error> {
        let call = Call::post(NEUTRON, "trunk_create", ["trunks"])
            .json("trunk", new)
            .at(priority);
        self.one(call, "trunk").await
    }

    /// Removes sub-ports from a trunk. The ports stay.
    pub async fn remove_sub_ports(
        &self,
        trunk_id: &TrunkId,
        sub_ports: &[SubPort],
        priority: Priority,
    ) -> Result<(), Error> {
        let path = ["trunks", trunk_id.as_str(), "remove_subports"];
        let call = Call::put(NEUTRON, "trunk_deletesubports", path)
            .json("sub_ports", sub_ports)
            .at(priority);
        self.done(call).await
    }

    /// Deletes a trunk; its parent port stays.
    pub async fn delete_trunk(&self, id: &TrunkId, priority: Priority) -> Result<(), Error> {
        let call = Call::delete(NEUTRON, "trunk_delete", ["trunks", id.as_str()]).at(priority);
        self.done(call).await
    }
}
