//! Conversions of arbitrary input, which must not panic.

use super::*;

/// Arbitrary JSON, in which the names that conversions read are far more frequent than by chance.
fn any_json() -> impl proptest::strategy::Strategy<Value = Value> {
    use proptest::prelude::*;
    let names = proptest::sample::select(vec![
        "apiVersion",
        "kind",
        "metadata",
        "annotations",
        "spec",
        "status",
        "template",
        "bastion",
        "ports",
        "flavor",
        "flavorID",
        "id",
        "filter",
        "name",
        "apiServer",
        "managedLoadBalancer",
        "managedNetwork",
        "managedRouter",
        "externalIPs",
        "controlPlaneEndpoint",
        "host",
        "port",
        "conditions",
        "type",
        "reason",
        "failureDomains",
        "resolved",
        "enablePortSecurity",
        "disablePortSecurity",
        "managedSecurityGroups",
        "externalRouterIPs",
        "disableExternalNetwork",
        V1BETA1_FIELDS,
        V1BETA2_FIELDS,
        CAPO_STASH,
    ]);
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        "\\PC{0,12}".prop_map(Value::from),
        proptest::sample::select(vec![
            "",
            "Ready",
            "True",
            "{}",
            "{\"spec.flavor\":{}}",
            "{\"spec.apiServer\":[]}"
        ])
        .prop_map(Value::from),
    ];
    leaf.prop_recursive(7, 96, 8, move |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            proptest::collection::vec((names.clone(), inner), 0..8).prop_map(|entries| {
                Value::Object(
                    entries
                        .into_iter()
                        .map(|(k, v)| (k.to_owned(), v))
                        .collect(),
                )
            }),
        ]
    })
}

proptest::proptest! {
    #[test]
    fn no_json_panics(
        mut value in any_json(),
        kind in proptest::sample::select(vec![
            "OpenStackCluster", "OpenStackClusterTemplate", "OpenStackMachine", "OpenStackMachineTemplate",
        ]),
        up in proptest::bool::ANY,
    ) {
        let (from, to) = if up { (V1BETA1, V1BETA2) } else { (V1BETA2, V1BETA1) };
        let _ = convert(value.clone(), to);
        if let Value::Object(object) = &mut value {
            object.insert("apiVersion".to_owned(), Value::from(from));
            object.insert("kind".to_owned(), Value::from(kind));
        }
        if let Ok(there) = convert(value, to) {
            let _ = convert(there, from);
        }
    }

    #[test]
    fn no_bytes_panic(bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..300)) {
        let _ = review(&bytes);
    }
}
