//! Carries changes of `allowedAddressPairs` that were made after the creation from a machine or its template to the
//! ports of the machine's server. A template's controller writes the template's pairs into an annotation of each
//! machine cloned from it; CAPO uses the same annotation. A machine's controller writes the result into an annotation
//! of its `OpenStackServer`, because the spec of that object never changes. The functions are pure.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use capo_api::{
    v1alpha1::OpenStackServer,
    v1beta2::{AddressPair, OpenStackMachine, PortOpts},
};

/// Annotation of an `OpenStackMachine`: the present pairs of each port in the machine's template. The name is CAPO's.
pub(super) const OF_TEMPLATE: &str = "infrastructure.cluster.x-k8s.io/osmt-allowed-address-pairs";

/// Annotation of an `OpenStackServer`: the pairs that each of its ports should have in place of those in the spec.
pub(super) const OF_MACHINE: &str = "infrastructure.cluster.x-k8s.io/allowed-address-pairs";

/// The address pairs of each port, in the order of the ports.
pub(super) type PortPairs = Vec<Vec<AddressPair>>;

/// Returns the address pairs in the spec of each port.
pub(super) fn of_ports(ports: &[PortOpts]) -> PortPairs {
    let pairs = ports.iter().map(|port| port.allowed_address_pairs.clone());
    pairs.collect()
}

/// Reads the address pairs from an annotation. `None` means that the annotation is absent or can't be parsed; in both
/// cases the controller writes it again.
pub(super) fn from_annotation(metadata: &ObjectMeta, key: &str) -> Option<PortPairs> {
    let text = metadata.annotations.as_ref()?.get(key)?;
    let ports: Vec<Option<Vec<AddressPair>>> = serde_json::from_str(text).ok()?;
    Some(ports.into_iter().map(Option::unwrap_or_default).collect())
}

/// Returns the text of the annotation. A port without pairs is written as `null`, as Go writes an empty list, because
/// CAPO compares the texts.
pub(super) fn text(ports: &PortPairs) -> String {
    let ports: Vec<Option<&Vec<AddressPair>>> = ports
        .iter()
        .map(|pairs| Some(pairs).filter(|pairs| !pairs.is_empty()))
        .collect();
    serde_json::to_string(&ports).unwrap_or_default()
}

/// Returns the annotation that a pass over a template writes to a machine cloned from it. `None` means that the machine
/// has these pairs already, by its annotation or by its spec.
pub(super) fn annotation_for_machine(
    template: &PortPairs,
    machine: &OpenStackMachine,
) -> Option<String> {
    if template.is_empty() {
        return None;
    }
    let current = from_annotation(&machine.metadata, OF_TEMPLATE)
        .unwrap_or_else(|| of_ports(&machine.spec.ports));
    (current != *template).then(|| text(template))
}

/// Returns the pairs that the ports of a machine's server should have. If the machine's own pairs were changed after
/// the server was created, those count; otherwise the present pairs of its template count.
pub(super) fn of_machine(machine: &OpenStackMachine, server: &OpenStackServer) -> PortPairs {
    let of_template = from_annotation(&machine.metadata, OF_TEMPLATE).unwrap_or_default();
    let mut wanted = of_ports(&server.spec.ports);
    for (index, (pairs, own)) in wanted.iter_mut().zip(&machine.spec.ports).enumerate() {
        if own.allowed_address_pairs != *pairs {
            pairs.clone_from(&own.allowed_address_pairs);
        } else if let Some(later) = of_template.get(index) {
            pairs.clone_from(later);
        }
    }
    wanted
}

/// Returns the pairs that the ports of a server should have, from the server's own annotation and spec.
pub(super) fn of_server(server: &OpenStackServer) -> PortPairs {
    let later = from_annotation(&server.metadata, OF_MACHINE).unwrap_or_default();
    let mut wanted = of_ports(&server.spec.ports);
    for (pairs, later) in wanted.iter_mut().zip(later) {
        *pairs = later;
    }
    wanted
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn ports(lists: &[&[&str]]) -> Value {
        let port = |list: &&[&str]| {
            let pairs: Vec<Value> = list.iter().map(|ip| json!({"ipAddress": ip})).collect();
            json!({"allowedAddressPairs": pairs})
        };
        lists.iter().map(port).collect()
    }

    fn machine(lists: &[&[&str]], of_template: Option<&str>) -> OpenStackMachine {
        let mut machine = json!({"metadata": {"name": "m", "annotations": {}},
            "spec": {"image": {"id": "i"}, "flavor": {"id": "f"}, "ports": ports(lists)}});
        if let Some(text) = of_template {
            machine["metadata"]["annotations"][OF_TEMPLATE] = json!(text);
        }
        serde_json::from_value(machine).unwrap()
    }

    fn server(lists: &[&[&str]]) -> OpenStackServer {
        serde_json::from_value(json!({"metadata": {"name": "m"},
            "spec": {"identityRef": {"name": "c", "cloudName": "c"}, "image": {"id": "i"}, "sshKeyName": "",
                "ports": ports(lists)}}))
        .unwrap()
    }

    fn addresses(wanted: &PortPairs) -> Vec<Vec<&str>> {
        wanted
            .iter()
            .map(|pairs| pairs.iter().map(|pair| pair.ip_address.as_str()).collect())
            .collect()
    }

    #[test]
    fn the_machines_own_change_counts_before_the_templates() {
        let made = server(&[&["10.0.0.1"], &["10.0.0.2"], &[]]);
        let before: &[&[&str]] = &[&["10.0.0.1"], &["10.0.0.2"], &[]];
        let changed: &[&[&str]] = &[&["10.0.0.9"], &["10.0.0.2"], &[]];
        let later = r#"[[{"ipAddress":"10.1.0.1"}],null]"#;
        for (machine, expected) in [
            (
                machine(before, None),
                vec![vec!["10.0.0.1"], vec!["10.0.0.2"], vec![]],
            ),
            (
                machine(changed, None),
                vec![vec!["10.0.0.9"], vec!["10.0.0.2"], vec![]],
            ),
            (
                machine(before, Some(later)),
                vec![vec!["10.1.0.1"], vec![], vec![]],
            ),
            (
                machine(changed, Some(later)),
                vec![vec!["10.0.0.9"], vec![], vec![]],
            ),
            (
                machine(before, Some("?")),
                vec![vec!["10.0.0.1"], vec!["10.0.0.2"], vec![]],
            ),
        ] {
            assert_eq!(addresses(&of_machine(&machine, &made)), expected);
        }
    }

    #[test]
    fn a_template_is_noted_where_it_differs_in_the_text_that_capo_writes() {
        let template = of_ports(&machine(&[&["10.1.0.1"], &[]], None).spec.ports);
        let text = r#"[[{"ipAddress":"10.1.0.1"}],null]"#;
        for (machine, expected) in [
            (machine(&[&["10.1.0.1"], &[]], None), None),
            (machine(&[&[], &[]], None), Some(text.to_owned())),
            (machine(&[&[], &[]], Some(text)), None),
            (
                machine(&[&["10.1.0.1"], &[]], Some("[null,null]")),
                Some(text.to_owned()),
            ),
        ] {
            assert_eq!(annotation_for_machine(&template, &machine), expected);
        }
        assert_eq!(
            annotation_for_machine(&Vec::new(), &machine(&[&[]], None)),
            None
        );
    }

    #[test]
    fn a_server_has_its_specs_pairs_until_its_machine_notes_others() {
        let mut server = server(&[&["10.0.0.1"], &["10.0.0.2"]]);
        assert_eq!(addresses(&of_server(&server)), [["10.0.0.1"], ["10.0.0.2"]]);
        let annotations = [(
            OF_MACHINE.to_owned(),
            r#"[[{"ipAddress":"10.1.0.1"}],null]"#.to_owned(),
        )];
        server.metadata.annotations = Some(annotations.into());
        assert_eq!(addresses(&of_server(&server)), [vec!["10.1.0.1"], vec![]]);
    }
}
