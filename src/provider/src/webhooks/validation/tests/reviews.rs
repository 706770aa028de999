//! Reviews.

use super::*;

fn admission(version: &str, asked: &str, operation: &str, old: &Value, new: &Value) -> Value {
    let body = json!({"apiVersion": version, "kind": "AdmissionReview", "request": {
        "uid": "u-1", "operation": operation, "name": "c", "namespace": "n",
        "kind": {"group": "infrastructure.cluster.x-k8s.io", "version": "v1beta2", "kind": "OpenStackCluster"},
        "requestKind": {"group": "infrastructure.cluster.x-k8s.io", "version": asked, "kind": "OpenStackCluster"},
        "object": new, "oldObject": old, "dryRun": false, "options": null,
    }});
    let answer = review(Kind::Cluster, body.to_string().as_bytes(), now()).unwrap();
    serde_json::from_slice(&answer.body).unwrap()
}

#[test]
fn a_review_answers_with_a_status_that_names_the_field() {
    let old = full_cluster();
    let new = patched(
        &old,
        &json!({"spec": {"apiServer": {"port": 443, "enableFloatingIP": false}}}),
    );
    for version in ["admission.k8s.io/v1", "admission.k8s.io/v1beta1"] {
        let answer = admission(version, "v1beta2", "UPDATE", &old, &new);
        assert_eq!(answer["apiVersion"], version);
        let response = &answer["response"];
        assert_eq!(
            (response["uid"].as_str(), response["allowed"].as_bool()),
            (Some("u-1"), Some(false))
        );
        assert_eq!(
            (&response["status"]["code"], &response["status"]["reason"]),
            (&json!(422), &json!("Invalid"))
        );
        assert_eq!(
            response["status"]["details"]["causes"][1]["field"],
            "spec.apiServer.port"
        );
        let message = response["status"]["message"].as_str().unwrap();
        assert!(message.starts_with(
            "OpenStackCluster.infrastructure.cluster.x-k8s.io \"c\" is invalid: [spec.apiServer.enableFloatingIP: \
             Forbidden: false: "), "{message}");
    }
    let answer = admission("admission.k8s.io/v1", "v1beta1", "UPDATE", &old, &new);
    let message = answer["response"]["status"]["message"].as_str().unwrap();
    assert!(
        message.contains("spec.disableAPIServerFloatingIP: Forbidden: true"),
        "{message}"
    );
    assert!(
        message.contains("spec.apiServerPort: Forbidden: 443"),
        "{message}"
    );
    assert!(
        message.contains("while disableAPIServerFloatingIP is true"),
        "{message}"
    );

    let same = admission("admission.k8s.io/v1", "v1beta2", "UPDATE", &old, &old);
    assert_eq!(same["response"], json!({"uid": "u-1", "allowed": true}));
    let deleted = admission(
        "admission.k8s.io/v1",
        "v1beta2",
        "DELETE",
        &old,
        &Value::Null,
    );
    assert_eq!(deleted["response"]["allowed"], true);
    let none = admission(
        "admission.k8s.io/v1",
        "v1beta2",
        "CREATE",
        &old,
        &Value::Null,
    );
    assert_eq!(none["response"]["status"]["code"], 400);
}

#[test]
fn a_v1beta1_object_is_judged_like_its_v1beta2_twin() {
    let v1beta1 = |object: &Value| {
        crate::webhooks::conversion::convert(
            object.clone(),
            "infrastructure.cluster.x-k8s.io/v1beta1",
        )
        .unwrap()
    };
    let old = full_cluster();
    let new = patched(&old, &json!({"spec": {"managedNetwork": {"mtu": 9}}}));
    let answer = admission(
        "admission.k8s.io/v1",
        "v1beta1",
        "UPDATE",
        &v1beta1(&old),
        &v1beta1(&new),
    );
    let message = answer["response"]["status"]["message"].as_str().unwrap();
    assert!(
        message.contains("spec.networkMTU: Forbidden: 9"),
        "{message}"
    );
}

#[test]
fn what_is_no_review_is_refused() {
    for body in [
        "",
        "{}",
        "[]",
        "{\"request\":{}}",
        r#"{"apiVersion":"v1","kind":"AdmissionReview","request":{"uid":""}}"#,
    ] {
        assert!(
            review(Kind::Machine, body.as_bytes(), now()).is_err(),
            "{body}"
        );
    }
    let wrong = json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {
        "uid": "u", "operation": "CREATE", "kind": {"group": "", "version": "v1", "kind": "Pod"}, "object": {},
    }});
    let answer = review(Kind::Machine, wrong.to_string().as_bytes(), now()).unwrap();
    assert!(!answer.allowed);
    assert!(
        String::from_utf8(answer.body)
            .unwrap()
            .contains("the webhook configuration has the wrong path")
    );
}

proptest::proptest! {
    #[test]
    fn no_bytes_panic(bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..300)) {
        for kind in Kind::ALL {
            let _ = review(kind, &bytes, now());
        }
    }
}
