//! The service catalogue.

use serde_json::{Value, json};

use crate::world::World;

impl World {
    /// The catalogue for a project: every service in every region with its three interfaces.
    pub(super) fn catalogue(&self, base: &str, project: &str) -> Value {
        let version = |versioned: &str, bare: &str| {
            if self.versioned_catalogue {
                versioned.to_owned()
            } else {
                bare.to_owned()
            }
        };
        let services = [
            ("identity", "keystone", "/identity/v3".to_owned()),
            ("compute", "nova", "/compute/v2.1".to_owned()),
            ("network", "neutron", version("/network/v2.0", "/network")),
            ("image", "glance", version("/image/v2", "/image")),
            (
                "load-balancer",
                "octavia",
                version("/load-balancer/v2", "/load-balancer"),
            ),
            ("block-storage", "cinder", format!("/volume/v3/{project}")),
            ("volumev3", "cinderv3", format!("/volume/v3/{project}")),
        ];
        services
            .into_iter()
            .filter(|(kind, _, _)| !self.hidden_services.iter().any(|hidden| hidden == kind))
            .map(|(kind, name, path)| {
                let endpoints: Vec<Value> = self
                    .regions
                    .iter()
                    .flat_map(|region| {
                        let url = format!("{base}{path}");
                        ["public", "internal", "admin"].map(|interface| {
                            json!({
                                "id": format!("endpoint-{name}-{region}-{interface}"), "interface": interface,
                                "region": region, "region_id": region, "url": url,
                            })
                        })
                    })
                    .collect();
                json!({ "id": format!("service-{name}"), "type": kind, "name": name, "endpoints": endpoints })
            })
            .collect()
    }
}
