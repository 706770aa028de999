//! The bastion's name and addresses, which other parts of the cluster need. The functions are pure.

use std::net::IpAddr;

use capo_api::v1alpha1::OpenStackServer;
use capo_api::v1beta2::{BastionStatus, OpenStackClusterSpec};

/// Whether the spec asks for a bastion. As in CAPO, a bastion is enabled unless `enabled` is `false`.
pub(crate) fn is_enabled(spec: &OpenStackClusterSpec) -> bool {
    let bastion = spec.bastion.as_ref();
    bastion.is_some_and(|bastion| bastion.enabled != Some(false))
}

/// The name of the bastion's `OpenStackServer`, which is the same as CAPO's.
pub(crate) fn server_name(cluster: &str) -> String {
    format!("{cluster}-bastion")
}

/// The addresses of the bastion; the list is empty while no bastion is desired. `None` means that the bastion runs and
/// its addresses were not read yet. `status` is the bastion as it was last read, or as the status shows it.
pub(crate) fn addresses(
    spec: &OpenStackClusterSpec,
    status: Option<&BastionStatus>,
    server: Option<&OpenStackServer>,
) -> Option<Vec<IpAddr>> {
    let Some(bastion) = spec.bastion.as_ref().filter(|_| is_enabled(spec)) else {
        return Some(Vec::new());
    };
    let runs = server
        .and_then(|server| server.status.as_ref())
        .is_some_and(|status| status.ready);
    if runs && status.is_none_or(|status| status.ip.is_none()) {
        return None;
    }
    // The floating IP is included even without a running server, because it stays while the server is replaced.
    let status = status
        .into_iter()
        .flat_map(|status| [&status.ip, &status.floating_ip]);
    let mut addresses: Vec<IpAddr> = status
        .chain([&bastion.floating_ip])
        .flatten()
        .filter_map(|text| text.parse().ok())
        .collect();
    addresses.sort();
    addresses.dedup();
    Some(addresses)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, from_value, json};

    #[test]
    fn addresses_are_unknown_only_while_a_bastion_runs_that_was_not_read() {
        let spec = |bastion: Value| -> OpenStackClusterSpec {
            from_value(json!({"identityRef": {"name": "s", "cloudName": "c"}, "bastion": bastion}))
                .unwrap()
        };
        let server = |ready: bool| -> OpenStackServer {
            from_value(json!({"metadata": {"name": "c-bastion"}, "status": {"ready": ready},
                "spec": {"image": {}, "sshKeyName": "", "ports": [], "identityRef": {"name": "s", "cloudName": "c"}}}))
            .unwrap()
        };
        let shown = |value: Value| -> Option<BastionStatus> { from_value(value).unwrap() };
        let on = || spec(json!({"spec": {}}));
        let read = json!({"ip": "10.6.0.9", "floatingIP": "203.0.113.9"});
        let cases = vec![
            ("none", spec(Value::Null), json!(null), None, Some(vec![])),
            (
                "switched off",
                spec(json!({"enabled": false})),
                read.clone(),
                Some(true),
                Some(vec![]),
            ),
            ("not created yet", on(), json!(null), None, Some(vec![])),
            (
                "being built",
                on(),
                json!({"name": "c-bastion"}),
                Some(false),
                Some(vec![]),
            ),
            (
                "not read yet",
                on(),
                json!({"name": "c-bastion"}),
                Some(true),
                None,
            ),
            (
                "read",
                on(),
                read,
                Some(true),
                Some(vec!["10.6.0.9", "203.0.113.9"]),
            ),
            (
                "being replaced",
                spec(json!({"spec": {}, "floatingIP": "203.0.113.7"})),
                json!({"floatingIP": "203.0.113.7"}),
                None,
                Some(vec!["203.0.113.7"]),
            ),
        ];
        for (name, spec, status, ready, expected) in cases {
            let found = addresses(&spec, shown(status).as_ref(), ready.map(server).as_ref());
            let expected: Option<Vec<IpAddr>> =
                expected.map(|list| list.iter().map(|text| text.parse().unwrap()).collect());
            assert_eq!(found, expected, "{name}");
        }
    }
}
