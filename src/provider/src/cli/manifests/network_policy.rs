//! The ports in the NetworkPolicy.

use serde_json::{Value, json};

use super::{Choices, Extra, ManifestError, edit::edit};

/// The port of Kubernetes and OpenStack behind a gateway. It is always allowed, whatever else is chosen.
const HTTPS: u16 = 443;
/// The rules of `deploy/network-policy.yaml` for the Kubernetes APIs and for OpenStack, by their positions in the list.
const KUBERNETES_RULE: usize = 1;
const OPENSTACK_RULE: usize = 2;

/// Sets the chosen ports.
pub(super) fn fill_in(documents: &mut [String], choices: &Choices) -> Result<(), ManifestError> {
    for (flag, rule, ports) in [
        (
            "--kubernetes-port",
            KUBERNETES_RULE,
            &choices.kubernetes_port,
        ),
        ("--openstack-port", OPENSTACK_RULE, &choices.openstack_port),
    ] {
        if ports.is_empty() {
            continue;
        }
        if !choices.with.contains(&Extra::NetworkPolicy) {
            return Err(ManifestError::Contradiction(format!(
                "{flag} is a port in the NetworkPolicy, which is printed with --with=networkpolicy only"
            )));
        }
        let mut listed: Vec<u16> = ports.clone();
        if rule == KUBERNETES_RULE && !listed.contains(&HTTPS) {
            listed.insert(0, HTTPS);
        }
        let listed: Vec<Value> = listed.iter().map(|port| json!({"port": port})).collect();
        edit(
            documents,
            "NetworkPolicy",
            "capo-controller-manager",
            |policy| policy["spec"]["egress"][rule]["ports"] = Value::from(listed),
        )?;
    }
    Ok(())
}
