//! Changes the `allowedAddressPairs` on the ports of an existing server.

use super::{Progress, StepResult, failed};
use crate::controllers::address_pairs;
use capo_api::{v1alpha1::OpenStackServer, v1beta2};
use capo_core::{Priority, Reason};
use capo_openstack::{
    Cloud,
    network::{AddressPair, Port, PortUpdate},
};

/// Sets the address pairs that the ports should have. The present pairs are known from `status.resolved`, so no
/// request is sent while nothing changes. A port without port security gets no pairs, because Neutron refuses them.
pub(super) async fn apply(
    cloud: &Cloud,
    object: &OpenStackServer,
    progress: &mut Progress,
) -> StepResult<()> {
    let Some(resolved) = &mut progress.resolved else {
        return Ok(());
    };
    if resolved.ports.len() != progress.port_ids.len() {
        return Ok(());
    }
    let wanted = address_pairs::of_server(object);
    let ports = resolved.ports.iter_mut().zip(&progress.port_ids);
    for ((port, id), pairs) in ports.zip(wanted) {
        if port.allowed_address_pairs == pairs {
            continue;
        }
        if port.enable_port_security != Some(false) {
            let present = cloud
                .port(id, Priority::Settling)
                .await
                .map_err(|error| failed(&error, Reason::OpenStackError))?;
            if present.port_security_enabled != Some(false) && !has(&present, &pairs) {
                let update = PortUpdate {
                    allowed_address_pairs: Some(pairs.iter().map(sent).collect()),
                    ..PortUpdate::default()
                };
                cloud
                    .update_port(id, &update, Priority::Settling)
                    .await
                    .map_err(|error| failed(&error, Reason::OpenStackError))?;
                tracing::info!(port = %port.name, "Changing the allowed address pairs of a port");
            }
        }
        port.allowed_address_pairs = pairs;
    }
    Ok(())
}

fn sent(pair: &v1beta2::AddressPair) -> AddressPair {
    AddressPair {
        ip_address: pair.ip_address.clone(),
        mac_address: pair.mac_address.clone().filter(|text| !text.is_empty()),
    }
}

/// Whether the port has exactly these pairs. If a pair has no MAC address, Neutron sets that of the port.
fn has(port: &Port, wanted: &[v1beta2::AddressPair]) -> bool {
    let key = |pair: AddressPair| {
        let mac = pair.mac_address.unwrap_or_else(|| port.mac_address.clone());
        (pair.ip_address, mac.to_lowercase())
    };
    let mut present: Vec<_> = port
        .allowed_address_pairs
        .iter()
        .cloned()
        .map(key)
        .collect();
    let mut wanted: Vec<_> = wanted.iter().map(sent).map(key).collect();
    present.sort();
    wanted.sort();
    wanted.dedup();
    present == wanted
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_ports_own_mac_address_is_the_one_of_a_pair_without() {
        let port: Port = serde_json::from_value(
            json!({"id": "p", "network_id": "n", "mac_address": "fa:16:3e:00:00:01",
            "allowed_address_pairs": [
                {"ip_address": "10.0.0.2", "mac_address": "fa:16:3e:00:00:02"},
                {"ip_address": "10.0.0.1", "mac_address": "fa:16:3e:00:00:01"}]}),
        )
        .unwrap();
        let pairs = |json: serde_json::Value| -> Vec<v1beta2::AddressPair> {
            serde_json::from_value(json).unwrap()
        };
        let both = json!([{"ipAddress": "10.0.0.1"}, {"ipAddress": "10.0.0.2", "macAddress": "FA:16:3E:00:00:02"}]);
        assert!(has(&port, &pairs(both)));
        assert!(!has(
            &port,
            &pairs(json!([{"ipAddress": "10.0.0.1"}, {"ipAddress": "10.0.0.2"}]))
        ));
        assert!(!has(&port, &[]));
    }
}
