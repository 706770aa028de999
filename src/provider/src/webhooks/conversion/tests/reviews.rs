//! Errors, and the reviews that carry them.

use super::*;

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
        "OpenStackCluster n/c: spec: expected an object, found a number; the object: expected an object, found a number"
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
    assert!(
        message.contains("MiB of memory, allowed are 32"),
        "{message}"
    );
}
