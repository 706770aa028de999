//! A server's ports and their trunks. They are found by name and network, and created if they are missing.

use std::collections::BTreeMap;

use serde_json::json;

use super::{
    CONDITION, Creations, IdsOfOthers, StepResult, ambiguous,
    caches::LastChanges,
    failed, failure,
    plan::{PortPlan, port_plan},
    validate,
};
use crate::{kubernetes::events::CloudObject, reconcile::server_names::with_missing_tags};
use capo_api::v1beta2::ResolvedPortSpec;
use capo_core::ids::{ProjectId, ServerId};
use capo_core::{FailureClass, Priority};
use capo_core::{ObjectName, Reason};
use capo_openstack::{
    Cloud,
    network::{AddressPair, NewPort, NewTrunk, Port, Tagged},
};

const PRIORITY: Priority = Priority::Settling;

/// The extensions of Neutron on which the requests for ports depend.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Extensions {
    /// Whether objects can have tags.
    pub tags: bool,
    /// Whether ports can be parents of trunks.
    pub trunks: bool,
    /// Whether a port has an attribute of its own for trusted virtual functions (extension `port-trusted-vif`).
    pub trusted_vif: bool,
}

impl Extensions {
    /// Asks Neutron for its extensions.
    pub(super) async fn of(cloud: &Cloud) -> StepResult<Self> {
        let known = cloud
            .network_extensions(Priority::Steady)
            .await
            .map_err(|error| failed(&error, Reason::OpenStackError))?;
        let has = |alias: &str| known.iter().any(|extension| extension == alias);
        Ok(Self {
            tags: has("standard-attr-tag"),
            trunks: has("trunk"),
            trusted_vif: has("port-trusted-vif"),
        })
    }
}

/// Everything that a pass over ports needs.
pub(super) struct Ports<'a> {
    /// The cloud.
    pub cloud: &'a Cloud,
    /// The project of the credentials. Ports of other projects are never used.
    pub project: &'a ProjectId,
    /// The name of the `OpenStackServer`.
    pub owner: &'a ObjectName,
    /// The ids of servers and ports that other objects have.
    pub ids_of_others: &'a IdsOfOthers,
    /// When something was last created under the names of the ports.
    pub changes: &'a LastChanges,
    /// The id of the server that the ports are on, if it exists.
    pub server_id: Option<&'a ServerId>,
}

impl Ports<'_> {
    /// Looks a port up by its name and decides what to do about it.
    async fn plan(&self, wanted: &ResolvedPortSpec) -> StepResult<PortPlan> {
        let oldest = self.changes.oldest_look_up(&self.owner.name);
        let found = self
            .cloud
            .shared_reads()
            .ports_named(&wanted.name, self.project, oldest, PRIORITY)
            .await
            .map_err(|error| failed(&error, Reason::OpenStackError))?;
        Ok(port_plan(found, wanted, self.ids_of_others, self.server_id))
    }

    /// Finds or creates one port with its tags and trunk.
    pub(super) async fn ensure(
        &self,
        wanted: &ResolvedPortSpec,
        extensions: Extensions,
        creations: &Creations,
    ) -> StepResult<Port> {
        let name = &wanted.name;
        let port = match self.plan(wanted).await? {
            PortPlan::Use(port) => {
                creations.found(CloudObject::Port, name);
                *port
            }
            PortPlan::Create => self.create(wanted, extensions, creations).await?,
            PortPlan::HeldByAnother { id, by } => {
                return Err(ambiguous(format!(
                    "the port {id} named {name} belongs to the OpenStackServer {by}"
                )));
            }
            PortPlan::Ambiguous(mut ids) => {
                ids.truncate(5);
                return Err(ambiguous(format!(
                    "spec.ports: more than one port named \"{name}\" found ({}); delete the ones that are not used",
                    ids.join(", ")
                )));
            }
        };
        self.tag(Tagged::Port(&port.id), &port.tags, &wanted.tags, extensions)
            .await?;
        if wanted.trunk == Some(true) {
            self.ensure_trunk(wanted, &port, extensions, creations)
                .await?;
        }
        Ok(port)
    }

    async fn create(
        &self,
        wanted: &ResolvedPortSpec,
        extensions: Extensions,
        creations: &Creations,
    ) -> StepResult<Port> {
        let new = new_port(wanted, extensions)?;
        let (object, name) = (CloudObject::Port, wanted.name.as_str());
        creations.begin(CONDITION, object, name).await?;
        let answer = self.cloud.create_port(&new, Priority::Gate).await;
        self.changes.note(&self.owner.name);
        let refused = Reason::PortCreateFailed;
        creations
            .end(object, name, answer, |port| port.id.as_str())
            .map_err(|error| failed(&error, refused))
    }

    async fn ensure_trunk(
        &self,
        wanted: &ResolvedPortSpec,
        port: &Port,
        extensions: Extensions,
        creations: &Creations,
    ) -> StepResult<()> {
        if !extensions.trunks {
            return Err(failure(
                FailureClass::Invalid,
                Reason::InvalidSpec,
                format!(
                    "the port {} is to have a trunk, but this cloud's network service has no trunks",
                    wanted.name
                ),
            ));
        }
        let trunks = self
            .cloud
            .trunks(&port.id, PRIORITY)
            .await
            .map_err(|error| failed(&error, Reason::OpenStackError))?;
        let (object, name) = (CloudObject::Trunk, wanted.name.as_str());
        let trunk = if let Some(trunk) = trunks.into_iter().next() {
            creations.found(object, name);
            trunk
        } else {
            creations.begin(CONDITION, object, name).await?;
            let new = NewTrunk {
                name: wanted.name.clone(),
                port_id: port.id.clone(),
                description: wanted.description.clone().unwrap_or_default(),
            };
            let answer = self.cloud.create_trunk(&new, Priority::Gate).await;
            let refused = Reason::PortCreateFailed;
            creations
                .end(object, name, answer, |trunk| trunk.id.as_str())
                .map_err(|error| failed(&error, refused))?
        };
        self.tag(
            Tagged::Trunk(&trunk.id),
            &trunk.tags,
            &wanted.tags,
            extensions,
        )
        .await
    }

    /// Adds missing tags to an object; other tags stay.
    async fn tag(
        &self,
        object: Tagged<'_>,
        present: &[String],
        wanted: &[String],
        extensions: Extensions,
    ) -> StepResult<()> {
        let Some(all) = with_missing_tags(present, wanted).filter(|_| extensions.tags) else {
            return Ok(());
        };
        self.cloud
            .replace_tags(object, &all, Priority::Gate)
            .await
            .map_err(|error| failed(&error, Reason::PortCreateFailed))
    }
}

/// Builds the request that creates a port.
fn new_port(wanted: &ResolvedPortSpec, extensions: Extensions) -> StepResult<NewPort> {
    let guarded = wanted.enable_port_security != Some(false);
    let mut new = NewPort {
        name: wanted.name.clone(),
        network_id: wanted.network_id.clone().into(),
        description: wanted.description.clone().unwrap_or_default(),
        admin_state_up: wanted.admin_state_up,
        mac_address: wanted.mac_address.clone().filter(|text| !text.is_empty()),
        fixed_ips: validate::fixed_ips(wanted)?,
        security_groups: match (guarded, wanted.security_groups.as_slice()) {
            (false, _) => Some(Vec::new()),
            (true, []) => None,
            (true, groups) => Some(groups.iter().map(|id| id.as_str().into()).collect()),
        },
        // Neutron refuses address pairs on a port without port security.
        allowed_address_pairs: wanted
            .allowed_address_pairs
            .iter()
            .filter(|_| guarded)
            .map(|pair| AddressPair {
                ip_address: pair.ip_address.clone(),
                mac_address: pair.mac_address.clone().filter(|text| !text.is_empty()),
            })
            .collect(),
        host_id: wanted.host_id.clone().filter(|text| !text.is_empty()),
        vnic_type: wanted.vnic_type.clone().filter(|text| !text.is_empty()),
        binding_profile: BTreeMap::new(),
        port_security_enabled: wanted.enable_port_security,
        propagate_uplink_status: wanted.propagate_uplink_status,
        trusted: None,
        value_specs: wanted
            .value_specs
            .iter()
            .map(|spec| (spec.key.clone(), spec.value.clone()))
            .collect(),
    };
    if let Some(profile) = &wanted.profile {
        if profile.ovs_hw_offload == Some(true) {
            new.binding_profile
                .insert("capabilities".to_owned(), json!(["switchdev"]));
        }
        if profile.trusted_vf == Some(true) {
            if extensions.trusted_vif {
                new.trusted = Some(true);
            } else {
                new.binding_profile
                    .insert("trusted".to_owned(), json!(true));
            }
        }
    }
    Ok(new)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn request(port: &Value, trusted_vif: bool) -> Value {
        let mut spec = json!({"name": "m1-0", "networkID": "net", "description": "d"});
        for (key, value) in port.as_object().unwrap() {
            spec[key] = value.clone();
        }
        let wanted: ResolvedPortSpec = serde_json::from_value(spec).unwrap();
        let extensions = Extensions {
            tags: true,
            trunks: true,
            trusted_vif,
        };
        serde_json::to_value(new_port(&wanted, extensions).unwrap()).unwrap()
    }

    #[test]
    fn the_least_port_leaves_everything_to_neutron() {
        assert_eq!(
            request(&json!({}), false),
            json!({"name": "m1-0", "network_id": "net", "description": "d"})
        );
    }

    #[test]
    fn everything_a_port_can_have() {
        let port = json!({
            "adminStateUp": false, "macAddress": "fa:16:3e:00:00:01", "hostID": "h", "vnicType": "direct",
            "enablePortSecurity": true, "propagateUplinkStatus": true, "securityGroups": ["g1", "g2"],
            "fixedIPs": [{"subnet": "s1", "ipAddress": "10.0.0.5"}, {"subnet": "s2"}],
            "allowedAddressPairs": [{"ipAddress": "10.0.0.0/24"}, {"ipAddress": "10.1.0.1", "macAddress": "fa:16:3e:00:00:02"}],
            "profile": {"ovsHWOffload": true, "trustedVF": true},
            "valueSpecs": [{"name": "n", "key": "qos_policy_id", "value": "q"}],
        });
        let mut expected = json!({
            "name": "m1-0", "network_id": "net", "description": "d", "admin_state_up": false,
            "mac_address": "fa:16:3e:00:00:01", "binding:host_id": "h", "binding:vnic_type": "direct",
            "port_security_enabled": true, "propagate_uplink_status": true, "security_groups": ["g1", "g2"],
            "fixed_ips": [{"subnet_id": "s1", "ip_address": "10.0.0.5"}, {"subnet_id": "s2"}],
            "allowed_address_pairs": [{"ip_address": "10.0.0.0/24"},
                {"ip_address": "10.1.0.1", "mac_address": "fa:16:3e:00:00:02"}],
            "binding:profile": {"capabilities": ["switchdev"], "trusted": true}, "qos_policy_id": "q",
        });
        assert_eq!(request(&port, false), expected);
        expected["binding:profile"] = json!({"capabilities": ["switchdev"]});
        expected["trusted"] = json!(true);
        assert_eq!(request(&port, true), expected);
    }

    #[test]
    fn an_unguarded_port_has_neither_groups_nor_address_pairs() {
        let port = request(
            &json!({"enablePortSecurity": false, "securityGroups": ["g"],
                "allowedAddressPairs": [{"ipAddress": "10.0.0.0/24"}]}),
            false,
        );
        assert_eq!(port.get("allowed_address_pairs"), None);
        assert_eq!(port["security_groups"], json!([]));
        assert_eq!(port["port_security_enabled"], json!(false));
    }
}
