//! Examples by hand. Whole generated objects are converted in the test suite, from the CRDs' schemas.

use serde_json::{Value, json};

use super::*;

const V1BETA1: &str = "infrastructure.cluster.x-k8s.io/v1beta1";
const V1BETA2: &str = "infrastructure.cluster.x-k8s.io/v1beta2";

#[allow(clippy::needless_pass_by_value)]
fn object(kind: &str, version: &str, parts: Value) -> Value {
    let mut object = json!({
        "apiVersion": version, "kind": kind, "metadata": {"name": "c", "namespace": "n"},
    });
    for (key, value) in parts.as_object().unwrap() {
        object[key] = value.clone();
    }
    object
}

/// Both are the same object, in both directions.
fn same(kind: &str, old: Value, new: Value) {
    let old = object(kind, V1BETA1, old);
    let new = object(kind, V1BETA2, new);
    assert_eq!(convert(old.clone(), V1BETA2).unwrap(), new);
    assert_eq!(convert(new, V1BETA1).unwrap(), old);
}

fn annotated(key: &str, content: &Value) -> Value {
    json!({"name": "c", "namespace": "n", "annotations": {(key): content.to_string()}})
}

#[test]
fn a_clusters_spec_is_the_same_in_both_versions() {
    same(
        "OpenStackCluster",
        json!({"spec": {
            "identityRef": {"type": "Secret", "name": "cloud", "cloudName": "openstack"},
            "apiServerLoadBalancer": {"enabled": true, "allowedCIDRs": ["10.0.0.0/8"], "monitor": {"delay": 7}},
            "apiServerFloatingIP": "203.0.113.5", "apiServerFixedIP": "10.6.0.9", "apiServerPort": 443,
            "disableAPIServerFloatingIP": false, "disableExternalNetwork": true,
            "networkMTU": 1400, "disablePortSecurity": true,
            "externalRouterIPs": [{"fixedIP": "203.0.113.9", "subnet": {"filter": {"name": "public"}}}],
            "managedSecurityGroups": {
                "allNodesSecurityGroupRules": [{"name": "a", "direction": "ingress"}],
                "controlPlaneNodesSecurityGroupRules": [], "allowAllInClusterTraffic": false,
            },
            "bastion": {"enabled": true, "spec": {
                "flavor": "m1.tiny", "image": {"filter": {"name": "debian"}},
                "ports": [{"disablePortSecurity": true}, {"nameSuffix": "x"}],
            }},
            "controlPlaneEndpoint": {"host": "203.0.113.5", "port": 443},
            "tags": [],
        }}),
        json!({"spec": {
            "identityRef": {"type": "Secret", "name": "cloud", "cloudName": "openstack"},
            "apiServer": {
                "managedLoadBalancer": {"enabled": true, "allowedCIDRs": ["10.0.0.0/8"], "monitor": {"delay": 7}},
                "floatingIP": "203.0.113.5", "fixedIP": "10.6.0.9", "port": 443, "enableFloatingIP": true,
            },
            "enableExternalNetwork": false,
            "managedNetwork": {"mtu": 1400, "enablePortSecurity": false},
            "managedRouter": {
                "externalIPs": [{"fixedIP": "203.0.113.9", "subnet": {"filter": {"name": "public"}}}],
            },
            "managedSecurityGroups": {
                "clusterNodesSecurityGroupRules": [{"name": "a", "direction": "ingress"}],
                "controlPlaneNodesSecurityGroupRules": [], "allowAllInClusterTraffic": false,
            },
            "bastion": {"enabled": true, "spec": {
                "flavor": {"filter": {"name": "m1.tiny"}}, "image": {"filter": {"name": "debian"}},
                "ports": [{"enablePortSecurity": false}, {"nameSuffix": "x"}],
            }},
            "controlPlaneEndpoint": {"host": "203.0.113.5", "port": 443},
            "tags": [],
        }}),
    );
}

#[test]
fn a_clusters_status_is_the_same_in_both_versions() {
    same(
        "OpenStackCluster",
        json!({"status": {
            "observedGeneration": 3, "ready": true, "initialization": {"provisioned": true},
            "apiServerLoadBalancer": {"name": "lb", "ip": "", "internalIP": "10.6.0.4"},
            "failureDomains": {"az1": {"controlPlane": true}, "az2": {"attributes": {"a": "b"}}},
            "bastion": {"resolved": {"ports": [
                {"name": "p", "networkID": "n", "disablePortSecurity": false},
            ]}},
            "conditions": [
                {"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"},
                {"type": "NetworkReady", "status": "False", "reason": "NetworkCreateFailed", "message": "no",
                 "severity": "Error", "lastTransitionTime": "2026-01-01T00:00:00Z", "observedGeneration": 2},
            ],
        }}),
        json!({"status": {
            "observedGeneration": 3, "initialization": {"provisioned": true},
            "apiServerManagedLoadBalancer": {"name": "lb", "ip": "", "internalIP": "10.6.0.4"},
            "failureDomains": [
                {"name": "az1", "controlPlane": true}, {"name": "az2", "attributes": {"a": "b"}},
            ],
            "bastion": {"resolved": {"ports": [{"name": "p", "networkID": "n", "enablePortSecurity": true}]}},
            "conditions": [
                {"type": "Ready", "status": "True", "reason": "NoReasonReported", "message": "",
                 "lastTransitionTime": "2026-01-01T00:00:00Z"},
                {"type": "NetworkReady", "status": "False", "reason": "NetworkCreateFailed", "message": "no",
                 "lastTransitionTime": "2026-01-01T00:00:00Z", "observedGeneration": 2},
            ],
        }}),
    );
}

#[test]
fn a_machine_is_the_same_in_both_versions() {
    same(
        "OpenStackMachine",
        json!({
            "spec": {"flavorID": "f-1", "image": {"id": "i"}, "ports": [{"disablePortSecurity": false}]},
            "status": {
                "ready": false, "initialization": {"provisioned": true},
                "resolved": {"flavorID": "f-1", "ports": [
                    {"name": "p", "networkID": "n", "description": "d", "disablePortSecurity": true},
                ]},
                "conditions": [
                    {"type": "APIServerIngressReadyCondition", "status": "Unknown", "reason": "FloatingIPError",
                     "message": "m", "lastTransitionTime": "2026-01-01T00:00:00Z"},
                    {"type": "Ready", "status": "False", "reason": "WaitingForBootstrapData", "severity": "Info",
                     "lastTransitionTime": "2026-01-01T00:00:00Z"},
                ],
            },
        }),
        json!({
            "spec": {"flavor": {"id": "f-1"}, "image": {"id": "i"}, "ports": [{"enablePortSecurity": true}]},
            "status": {
                "initialization": {"provisioned": true},
                "resolved": {"flavorID": "f-1", "ports": [
                    {"name": "p", "networkID": "n", "description": "d", "enablePortSecurity": false},
                ]},
                "conditions": [
                    {"type": "APIServerIngressReady", "status": "Unknown", "reason": "FloatingIPError",
                     "message": "m", "lastTransitionTime": "2026-01-01T00:00:00Z"},
                    {"type": "Ready", "status": "False", "reason": "WaitingForBootstrapData", "message": "",
                     "lastTransitionTime": "2026-01-01T00:00:00Z"},
                ],
            },
        }),
    );
}

#[test]
fn templates_hold_the_same_specs() {
    same(
        "OpenStackClusterTemplate",
        json!({"spec": {"template": {"spec": {"apiServerPort": 6444}}}}),
        json!({"spec": {"template": {"spec": {"apiServer": {"port": 6444}}}}}),
    );
    same(
        "OpenStackMachineTemplate",
        json!({
            "spec": {"template": {"spec": {"flavor": "m1"}}},
            "status": {"capacity": {"cpu": "2"}, "nodeInfo": {"operatingSystem": "linux"}},
        }),
        json!({
            "spec": {"template": {"spec": {"flavor": {"filter": {"name": "m1"}}}}},
            "status": {"capacity": {"cpu": "2"}, "nodeInfo": {"operatingSystem": "linux"}},
        }),
    );
}

#[test]
fn a_flavor_name_beside_an_id_is_kept_until_the_id_is_edited() {
    let old = object(
        "OpenStackMachineTemplate",
        V1BETA1,
        json!({"spec": {"template": {"spec": {"flavor": "m1", "flavorID": "f-1"}}}}),
    );
    let mut new = convert(old.clone(), V1BETA2).unwrap();
    assert_eq!(
        new["spec"]["template"]["spec"]["flavor"],
        json!({"id": "f-1"})
    );
    assert!(new["metadata"]["annotations"][V1BETA1_FIELDS].is_string());
    assert_eq!(convert(new.clone(), V1BETA1).unwrap(), old);

    new["spec"]["template"]["spec"]["flavor"] = json!({"id": "f-2"});
    let edited = convert(new.clone(), V1BETA1).unwrap();
    assert_eq!(
        edited["spec"]["template"]["spec"],
        json!({"flavorID": "f-2"})
    );
    assert_eq!(edited["metadata"].get("annotations"), None);

    new["spec"]["template"]["spec"]["flavor"] = json!({"filter": {"name": "m2"}});
    let edited = convert(new, V1BETA1).unwrap();
    assert_eq!(edited["spec"]["template"]["spec"], json!({"flavor": "m2"}));
}

#[test]
fn what_only_v1beta2_can_say_survives_a_v1beta1_edit() {
    let new = object(
        "OpenStackClusterTemplate",
        V1BETA2,
        json!({"spec": {"template": {"metadata": {"labels": {"a": "b"}}, "spec": {"apiServer": {}}}}}),
    );
    let mut old = convert(new.clone(), V1BETA1).unwrap();
    assert_eq!(
        old["spec"]["template"],
        json!({"metadata": {"labels": {"a": "b"}}, "spec": {}})
    );
    assert_eq!(convert(old.clone(), V1BETA2).unwrap(), new);

    old["spec"]["template"]["spec"]["apiServerPort"] = json!(443);
    let edited = convert(old, V1BETA2).unwrap();
    assert_eq!(
        edited["spec"]["template"],
        json!({"metadata": {"labels": {"a": "b"}}, "spec": {"apiServer": {"port": 443}}})
    );
}

#[test]
fn an_unset_endpoint_is_absent_in_v1beta2_and_kept_until_it_is_set() {
    let old = object(
        "OpenStackCluster",
        V1BETA1,
        json!({"spec": {"controlPlaneEndpoint": {"host": "", "port": 0}}}),
    );
    let mut new = convert(old.clone(), V1BETA2).unwrap();
    assert_eq!(new["spec"], json!({}));
    assert_eq!(convert(new.clone(), V1BETA1).unwrap(), old);
    new["spec"]["controlPlaneEndpoint"] = json!({"host": "h", "port": 6443});
    let set = convert(new, V1BETA1).unwrap();
    assert_eq!(
        set["spec"]["controlPlaneEndpoint"],
        json!({"host": "h", "port": 6443})
    );
}

#[test]
fn capos_copy_is_read_where_it_still_fits_and_goes() {
    let stash = json!({
        "spec": {"flavor": "m1", "flavorID": "f-1", "sshKeyName": "old"},
        "status": {"ready": false},
    });
    let mut new = object(
        "OpenStackMachine",
        V1BETA2,
        json!({
            "metadata": annotated(CAPO_STASH, &stash),
            "spec": {"flavor": {"id": "f-1"}, "sshKeyName": "new"},
            "status": {"conditions": [{"type": "Ready", "status": "True", "reason": "Ready", "message": "",
                "lastTransitionTime": "2026-01-01T00:00:00Z"}]},
        }),
    );
    let old = convert(new.clone(), V1BETA1).unwrap();
    assert_eq!(
        old["spec"],
        json!({"flavor": "m1", "flavorID": "f-1", "sshKeyName": "new"})
    );
    assert_eq!(old["status"]["ready"], json!(true));
    assert_eq!(old["metadata"], json!({"name": "c", "namespace": "n"}));

    new["spec"]["flavor"] = json!({"id": "f-2"});
    let old = convert(new, V1BETA1).unwrap();
    assert_eq!(old["spec"], json!({"flavorID": "f-2", "sshKeyName": "new"}));

    // CAPO 0.12 and before left copies of v1alpha versions on v1beta1 objects.
    let old = object(
        "OpenStackCluster",
        V1BETA1,
        json!({
            "metadata": annotated(CAPO_STASH, &json!({"spec": {"cloudName": "x", "template": "y"}})),
            "spec": {"apiServerPort": 1},
        }),
    );
    let new = convert(old, V1BETA2).unwrap();
    assert_eq!(new["spec"], json!({"apiServer": {"port": 1}}));
    assert_eq!(new["metadata"], json!({"name": "c", "namespace": "n"}));

    let old = object(
        "OpenStackClusterTemplate",
        V1BETA1,
        json!({
            "metadata": annotated(CAPO_STASH, &json!({"spec": {"template": {"metadata": {"labels": {"a": "b"}}}}})),
            "spec": {"template": {"spec": {}}},
        }),
    );
    let new = convert(old, V1BETA2).unwrap();
    assert_eq!(
        new["spec"]["template"]["metadata"],
        json!({"labels": {"a": "b"}})
    );
}

#[test]
fn broken_annotations_are_dropped() {
    for text in [
        "",
        "{",
        "[]",
        "null",
        "{\"spec.flavor\": 7}",
        "{\"spec.flavor\": {\"id\": [1]}}",
    ] {
        for key in [V1BETA1_FIELDS, CAPO_STASH] {
            let new = object(
                "OpenStackMachine",
                V1BETA2,
                json!({
                    "metadata": {"name": "c", "annotations": {(key): text}},
                    "spec": {"flavor": {"id": "f"}},
                }),
            );
            let old = convert(new, V1BETA1).unwrap();
            assert_eq!(old["spec"], json!({"flavorID": "f"}), "{key}: {text}");
            assert_eq!(old["metadata"], json!({"name": "c"}));
        }
    }
}

#[test]
fn one_type_of_condition_is_there_once() {
    let condition = |kind: &str, status: &str| json!({"type": kind, "status": status});
    let old = object(
        "OpenStackMachine",
        V1BETA1,
        json!({"status": {"conditions": [
            condition("A", "True"), condition("APIServerIngressReadyCondition", "True"),
            condition("A", "False"), condition("APIServerIngressReady", "False"),
        ]}}),
    );
    let new = convert(old, V1BETA2).unwrap();
    let types: Vec<_> = new["status"]["conditions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|condition| {
            (
                condition["type"].as_str().unwrap(),
                condition["status"].as_str().unwrap(),
            )
        })
        .collect();
    assert_eq!(
        types,
        [
            ("A", "True"),
            ("APIServerIngressReadyCondition", "True"),
            ("APIServerIngressReady", "False")
        ]
    );
}

#[test]
fn v1beta1_ready_follows_the_condition_and_before_it_the_contract() {
    let ready = |status: Value| {
        let new = object("OpenStackMachine", V1BETA2, json!({"status": status}));
        convert(new, V1BETA1).unwrap()["status"]["ready"].clone()
    };
    assert_eq!(ready(json!({})), json!(false));
    assert_eq!(
        ready(json!({"initialization": {"provisioned": true}})),
        json!(true)
    );
    let condition = |status: &str| json!([{"type": "Ready", "status": status}]);
    assert_eq!(ready(json!({"conditions": condition("True")})), json!(true));
    assert_eq!(
        ready(json!({"initialization": {"provisioned": true}, "conditions": condition("False")})),
        json!(false)
    );
}

#[test]
fn errors_name_the_field_and_both_types() {
    let cases = [
        (
            "OpenStackCluster",
            json!({"spec": {"bastion": "on"}}),
            "spec.bastion: expected an object, found a string",
        ),
        (
            "OpenStackCluster",
            json!({"spec": {"disableExternalNetwork": "no"}}),
            "spec.disableExternalNetwork: expected a boolean, found a string",
        ),
        (
            "OpenStackCluster",
            json!({"spec": {"bastion": {"spec": {"ports": [{}, 3]}}}}),
            "spec.bastion.spec.ports[1]: expected an object, found a number",
        ),
        (
            "OpenStackCluster",
            json!({"status": {"failureDomains": {"a.b": []}}}),
            "status.failureDomains[\"a.b\"]: expected an object, found a list",
        ),
        (
            "OpenStackMachine",
            json!({"spec": {"flavor": {}}}),
            "spec.flavor: expected a string, found an object",
        ),
        (
            "OpenStackMachine",
            json!({"status": {"conditions": {}}}),
            "status.conditions: expected a list, found an object",
        ),
        (
            "OpenStackMachineTemplate",
            json!({"spec": {"template": {"spec": {"ports": {}}}}}),
            "spec.template.spec.ports: expected a list, found an object",
        ),
        (
            "OpenStackClusterTemplate",
            json!({"spec": []}),
            "spec: expected an object, found a list",
        ),
        (
            "OpenStackServer",
            json!({}),
            "no conversion of kind \"OpenStackServer\"",
        ),
    ];
    for (kind, parts, expected) in cases {
        let error = convert(object(kind, V1BETA1, parts), V1BETA2)
            .unwrap_err()
            .to_string();
        assert!(error.starts_with(expected), "{error}");
    }
    let unknown = convert(
        object(
            "OpenStackMachine",
            "infrastructure.cluster.x-k8s.io/v1alpha7",
            json!({}),
        ),
        V1BETA2,
    );
    assert!(unknown.unwrap_err().to_string().contains("v1alpha7"));
    assert!(convert(json!([]), V1BETA2).is_err());
    assert!(convert(object("OpenStackMachine", V1BETA1, json!({})), "v1").is_err());
}

fn reviewed(version: &str, objects: &Value) -> Value {
    let body = json!({"apiVersion": version, "kind": "ConversionReview", "request": {
        "uid": "u-1", "desiredAPIVersion": V1BETA2, "objects": objects,
    }});
    serde_json::from_slice(&review(body.to_string().as_bytes()).unwrap()).unwrap()
}

#[test]
fn a_review_answers_in_its_own_version() {
    for version in ["apiextensions.k8s.io/v1", "apiextensions.k8s.io/v1beta1"] {
        let objects = json!([
            object(
                "OpenStackCluster",
                V1BETA1,
                json!({"spec": {"networkMTU": 1}})
            ),
            object(
                "OpenStackCluster",
                V1BETA2,
                json!({"spec": {"tags": ["ü\u{0}\u{1f600}"]}})
            ),
        ]);
        assert_eq!(
            reviewed(version, &objects),
            json!({"apiVersion": version, "kind": "ConversionReview", "response": {
                "uid": "u-1", "result": {"status": "Success"},
                "convertedObjects": [
                    object("OpenStackCluster", V1BETA2, json!({"spec": {"managedNetwork": {"mtu": 1}}})),
                    objects[1],
                ],
            }})
        );
    }
}

#[test]
fn a_review_names_every_object_that_fails() {
    let good = object("OpenStackCluster", V1BETA1, json!({}));
    let bad = object("OpenStackCluster", V1BETA1, json!({"spec": 7}));
    let answer = reviewed("apiextensions.k8s.io/v1", &json!([good, bad, 3]));
    let response = &answer["response"];
    assert_eq!(response["convertedObjects"], json!([]));
    assert_eq!(response["result"]["status"], "Failure");
    let message = response["result"]["message"].as_str().unwrap();
    assert_eq!(
        message,
        "OpenStackCluster n/c: spec: expected an object, found a number; an object: expected an object, found a number"
    );
    let many: Vec<_> = std::iter::repeat_n(bad, 500).collect();
    let answer = reviewed("apiextensions.k8s.io/v1", &json!(many));
    let message = answer["response"]["result"]["message"].as_str().unwrap();
    assert!(
        message.len() < 1000 && message.ends_with("and 495 more"),
        "{message}"
    );
}

#[test]
fn what_is_no_review_is_refused() {
    let deep = format!("{{\"a\":{}", "[".repeat(100_000));
    let heavy = format!(
        r#"{{"apiVersion":"apiextensions.k8s.io/v1","kind":"ConversionReview","request":
        {{"uid":"u","desiredAPIVersion":"{V1BETA2}","objects":[[{}0]]}}}}"#,
        "{},".repeat(400_000)
    );
    for body in [
        "",
        "{",
        "[]",
        "null",
        "7",
        "{}",
        deep.as_str(),
        "{\"request\":null}",
        r#"{"apiVersion":"apiextensions.k8s.io/v1","kind":"ConversionReview"}"#,
        r#"{"apiVersion":"apiextensions.k8s.io/v1","kind":"AdmissionReview","request":null}"#,
        r#"{"apiVersion":"apiextensions.k8s.io/v2","kind":"ConversionReview","request":{"uid":"","desiredAPIVersion":""}}"#,
        r#"{"apiVersion":"apiextensions.k8s.io/v1","kind":"ConversionReview","request":{"uid":7}}"#,
    ] {
        assert!(
            review(body.as_bytes()).is_err(),
            "{}",
            body.get(..80).unwrap_or(body)
        );
    }
    assert!(review(b"\xff\xfe{}").is_err());
    let answer: Value = serde_json::from_slice(&review(heavy.as_bytes()).unwrap()).unwrap();
    let message = answer["response"]["result"]["message"].as_str().unwrap();
    assert!(message.contains("values, allowed are"), "{message}");
}

/// Any JSON at all, with the names that are looked at far more often than by chance.
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
