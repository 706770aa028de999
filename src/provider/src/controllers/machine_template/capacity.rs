//! The capacity of a node made from a template, derived from its flavor and its image. The functions are pure.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

use capo_api::v1beta2::{NodeInfo, OpenStackMachineSpec};
use capo_openstack::{compute::Flavor, image::Image};

/// The capacity and properties of a node.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Offer {
    pub(super) capacity: BTreeMap<String, Quantity>,
    pub(super) node_info: Option<NodeInfo>,
}

/// Derives what a machine of this spec offers with this flavor and image. The storage is that of the root volume, or
/// else that of the flavor's disk.
pub(super) fn offer(spec: &OpenStackMachineSpec, flavor: &Flavor, image: &Image) -> Offer {
    let storage = spec
        .root_volume
        .as_ref()
        .and_then(|volume| u64::try_from(volume.size_gib).ok())
        .unwrap_or(flavor.disk);
    let capacity = [
        ("cpu", u64::from(flavor.vcpus), ""),
        ("memory", flavor.ram, "Mi"),
        ("ephemeral-storage", flavor.ephemeral, "Gi"),
        ("storage", storage, "Gi"),
    ];
    Offer {
        // As in CAPO, a resource with the amount 0 is left out.
        capacity: capacity
            .into_iter()
            .filter(|(_, amount, _)| *amount > 0)
            .map(|(resource, amount, unit)| {
                (resource.to_owned(), Quantity(format!("{amount}{unit}")))
            })
            .collect(),
        node_info: image
            .os_type
            .clone()
            .filter(|system| !system.is_empty())
            .map(|system| NodeInfo {
                operating_system: Some(system),
            }),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn offered(spec: Value, image: Value) -> Value {
        let flavor = json!({"id": "f", "name": "m1", "vcpus": 4, "ram": 8192, "disk": 40,
            "OS-FLV-EXT-DATA:ephemeral": 10});
        let offer = offer(
            &serde_json::from_value(spec).unwrap(),
            &serde_json::from_value(flavor).unwrap(),
            &serde_json::from_value(image).unwrap(),
        );
        json!({"capacity": offer.capacity, "nodeInfo": offer.node_info})
    }

    #[test]
    fn flavor_and_image_show_what_a_node_has() {
        assert_eq!(
            offered(json!({}), json!({"id": "i", "os_type": "linux"})),
            json!({
                "capacity": {"cpu": "4", "memory": "8192Mi", "ephemeral-storage": "10Gi", "storage": "40Gi"},
                "nodeInfo": {"operatingSystem": "linux"},
            })
        );
    }

    #[test]
    fn a_resource_of_which_there_is_none_is_left_out() {
        let flavor = json!({"id": "f", "name": "m1", "vcpus": 4, "ram": 8192, "disk": 0});
        let offer = offer(
            &serde_json::from_value(json!({})).unwrap(),
            &serde_json::from_value(flavor).unwrap(),
            &serde_json::from_value(json!({"id": "i"})).unwrap(),
        );
        let resources: Vec<&String> = offer.capacity.keys().collect();
        assert_eq!(resources, ["cpu", "memory"]);
    }

    #[test]
    fn a_root_volume_is_the_storage_and_an_image_without_a_system_shows_none() {
        let offered = offered(json!({"rootVolume": {"sizeGiB": 100}}), json!({"id": "i"}));
        assert_eq!(offered["capacity"]["storage"], "100Gi");
        assert_eq!(offered["nodeInfo"], Value::Null);
    }
}
