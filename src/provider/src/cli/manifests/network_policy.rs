//! The ports in the NetworkPolicy.

use serde_json::{Value, json};

use super::{Choices, Extra, ManifestError, edit::edit};

/// Kubernetes and OpenStack behind a gateway are reached at this port, whatever else is chosen.
const HTTPS: u16 = 443;
/// Which rule of `deploy/network-policy.yaml` is for the Kubernetes APIs, and which for OpenStack.
const KUBERNETES_RULE: usize = 1;
const OPENSTACK_RULE: usize = 2;

/// Fills the chosen ports in.
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
