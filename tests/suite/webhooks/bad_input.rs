//! Bad requests, sent to the manager itself and through a real kube-apiserver: the answer says what is wrong, and takes
//! bounded time and memory.

use std::time::{Duration, Instant};

use kube::{
    Api, Client,
    api::{DynamicObject, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};

use crate::env::Installation;
use test_support::{
    waiting::until,
    webhooks::{api, object},
};

/// The longest that any answer may take on a busy machine, without optimisation: what an API server gives a conversion.
const ANSWERS_WITHIN: Duration = Duration::from_secs(30);
/// The most memory that the manager may have grown to after all of this.
const MOST_MEMORY: u64 = 400 << 20;

const V1BETA2: &str = "infrastructure.cluster.x-k8s.io/v1beta2";

fn conversion(objects: &str) -> Vec<u8> {
    format!(
        r#"{{"apiVersion":"apiextensions.k8s.io/v1","kind":"ConversionReview","request":{{"uid":"u","desiredAPIVersion":"{V1BETA2}","objects":[{objects}]}}}}"#
    )
    .into_bytes()
}

fn admission(object: &str) -> Vec<u8> {
    format!(
        r#"{{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{{"uid":"u","operation":"UPDATE","name":"n",
        "kind":{{"group":"infrastructure.cluster.x-k8s.io","version":"v1beta2","kind":"OpenStackCluster"}},
        "object":{object},"oldObject":{object}}}}}"#
    )
    .into_bytes()
}

fn cluster(version: &str, rest: &str) -> String {
    format!(
        r#"{{"apiVersion":"infrastructure.cluster.x-k8s.io/{version}","kind":"OpenStackCluster","metadata":{{"name":"c"}}{rest}}}"#
    )
}

/// Bodies and their right answers: the status, and a text that the answer must contain.
fn bodies() -> Vec<(&'static str, Vec<u8>, u16, &'static str)> {
    let deep = |open: &str, count: usize| open.repeat(count);
    let closed = format!("{}0{}", "[".repeat(5_000), "]".repeat(5_000));
    let huge_text = "x".repeat(4 << 20);
    vec![
        ("nothing", Vec::new(), 400, "EOF"),
        ("half", b"{\"kind\":".to_vec(), 400, "EOF"),
        ("no text", b"\xff\xfe\x00".to_vec(), 400, ""),
        ("brackets", deep("[", 200_000).into_bytes(), 400, ""),
        (
            "objects in objects",
            deep("{\"a\":", 200_000).into_bytes(),
            400,
            "",
        ),
        (
            "null for an object",
            conversion("null"),
            200,
            "the object: expected an object, found null",
        ),
        (
            "a list for an object",
            conversion("[]"),
            200,
            "expected an object, found a list",
        ),
        (
            "a list for the spec",
            conversion(&cluster("v1beta1", r#","spec":[]"#)),
            200,
            "OpenStackCluster /c: spec: expected an object, found a list",
        ),
        (
            "a number for a boolean",
            conversion(&cluster(
                "v1beta1",
                r#","spec":{"disableExternalNetwork":7}"#,
            )),
            200,
            "spec.disableExternalNetwork: expected a boolean, found a number",
        ),
        (
            "nulls everywhere",
            conversion(&cluster(
                "v1beta1",
                r#","spec":{"bastion":null,"managedSecurityGroups":null,"disableExternalNetwork":null,"controlPlaneEndpoint":null},"status":{"conditions":null,"failureDomains":null,"bastion":null}"#,
            )),
            200,
            "Success",
        ),
        (
            "a key twice",
            conversion(&cluster(
                "v1beta1",
                r#","spec":{"apiServerPort":1,"apiServerPort":2,"networkMTU":1,"networkMTU":1400}"#,
            )),
            200,
            r#""apiServer":{"port":2}"#,
        ),
        (
            "unknown words",
            conversion(&cluster(
                "v1beta1",
                r#","spec":{"identityRef":{"type":"Vault"}},"status":{"conditions":[{"type":"Ready","status":"Perhaps"}]}"#,
            )),
            200,
            "Success",
        ),
        (
            "half a surrogate and a zero",
            conversion(&cluster(
                "v1beta1",
                r#","spec":{"tags":["\ud800","\u0000","ü"]}"#,
            )),
            200,
            r"\ud800",
        ),
        (
            "a number beyond all numbers",
            conversion(&cluster("v1beta1", r#","spec":{"apiServerPort":1e999}"#)),
            200,
            "1e999",
        ),
        (
            "a deep value that no reader looks at",
            conversion(&cluster(
                "v1beta1",
                &format!(r#","spec":{{"later":{closed}}}"#),
            )),
            200,
            "Success",
        ),
        (
            "five hundred conditions of one type",
            conversion(&cluster(
                "v1beta1",
                &format!(
                    r#","status":{{"conditions":[{}]}}"#,
                    vec![r#"{"type":"Ready","status":"True"}"#; 500].join(",")
                ),
            )),
            200,
            "Success",
        ),
        (
            "more values than any object needs",
            conversion(&format!("[{}0]", "{},".repeat(400_000))),
            200,
            "MiB of memory, allowed are 32",
        ),
        (
            "a megabyte of the same key",
            conversion(&cluster(
                "v1beta1",
                &format!(
                    r#","spec":{{{}"b":1}}"#,
                    r#""networkMTU":1,"#.repeat(100_000)
                ),
            )),
            200,
            "Success",
        ),
        (
            "a long text",
            conversion(&cluster(
                "v1beta1",
                &format!(r#","spec":{{"sshKeyName":"{huge_text}"}}"#),
            )),
            200,
            "Success",
        ),
        (
            "an admission of nothing",
            admission("null"),
            200,
            "the request has no object",
        ),
        (
            "an admission of a deep object",
            admission(&cluster("v1beta2", &format!(r#","spec":{closed}"#))),
            200,
            "recursion limit",
        ),
        (
            "an admission of something else",
            admission(&cluster("v1beta7", "")),
            200,
            "no conversion of kind",
        ),
    ]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bad_input_gets_a_clear_answer_in_bounded_time_and_memory() {
    let (kubernetes, installation) = Installation::in_new_cluster().await.unwrap();
    let logs = kubernetes.folder();
    let manager = installation.ready_manager(logs, &[]).await.unwrap();

    let url = format!("https://127.0.0.1:{}", installation.webhook_port);
    let client = kubernetes.authority().https_client();
    for (what, body, status, said) in bodies() {
        let path = if what.starts_with("an admission") {
            "/validate-infrastructure-cluster-x-k8s-io-v1beta2-openstackcluster"
        } else {
            "/convert"
        };
        let begun = Instant::now();
        let answer = client
            .post(format!("{url}{path}"))
            .body(body)
            .send()
            .await
            .unwrap();
        assert_eq!(answer.status().as_u16(), status, "{what}");
        let text = answer.text().await.unwrap();
        assert!(
            text.contains(said),
            "{what}: {said:?} is not in {text:.2000}"
        );
        assert!(
            begun.elapsed() < ANSWERS_WITHIN,
            "{what}: {:?}",
            begun.elapsed()
        );
    }

    let admin = kubernetes.admin().await.unwrap();
    objects_at_size_limits(&admin).await;
    what_the_api_server_refuses(&admin).await;
    let memory = manager.process.resident_bytes().unwrap();
    println!("resident memory after bad input: {} KiB", memory / 1024);
    assert!(memory < MOST_MEMORY, "{} MiB", memory >> 20);
}

/// The answer to a request that is repeated where the API server cut the webhook off: it does so after 10 s, which a
/// program without optimisation may need for a large object while the machine is busy.
async fn in_time<T>(mut request: impl AsyncFnMut() -> Result<T, kube::Error>) -> T {
    until("the webhook answers in time", async || {
        match request().await {
            Ok(answer) => Some(answer),
            Err(error) if error.to_string().contains("deadline exceeded") => None,
            Err(error) => panic!("{error}"),
        }
    })
    .await
}

/// Writes an object as large as the API server accepts, in both versions. The API server itself refuses a larger one.
/// It ends a conversion after 30 s and an admission after 10 s.
async fn objects_at_size_limits(client: &Client) {
    let old = api(client, "OpenStackCluster", "v1beta1", "default");
    let new = api(client, "OpenStackCluster", "v1beta2", "default");
    let large = |rules: usize| {
        let rules: Vec<Value> = (0..rules)
            .map(|number| {
                json!({"name": format!("rule-{number}"), "direction": "ingress", "protocol": "tcp",
                    "portRangeMin": 1, "portRangeMax": 2, "description": "x".repeat(200)})
            })
            .collect();
        object(
            "OpenStackCluster",
            "v1beta1",
            "large",
            json!({"spec": {"identityRef": {"name": "cloud", "cloudName": "openstack"}, "apiServerPort": 443,
                "managedSecurityGroups": {"allNodesSecurityGroupRules": rules}}}),
        )
    };
    let accepted = large(2_500);
    in_time(async || old.create(&PostParams::default(), &accepted).await).await;
    let seen = in_time(async || new.get("large").await).await;
    let rules = &seen.data["spec"]["managedSecurityGroups"]["clusterNodesSecurityGroupRules"];
    assert_eq!(rules.as_array().unwrap().len(), 2_500);
    let port = json!({"spec": {"controlPlaneEndpoint": {"host": "203.0.113.5", "port": 443}}});
    let port = Patch::Merge(port);
    in_time(async || new.patch("large", &PatchParams::default(), &port).await).await;
    let seen = in_time(async || old.get("large").await).await;
    assert_eq!(
        seen.data["spec"]["controlPlaneEndpoint"]["host"],
        "203.0.113.5"
    );

    let mut too_large = large(12_000);
    too_large.metadata.name = Some("too-large".to_owned());
    let refused = old
        .create(&PostParams::default(), &too_large)
        .await
        .unwrap_err();
    let text = refused.to_string();
    assert!(
        text.contains("too large") || text.contains("limit"),
        "{text:.500}"
    );
}

/// The API server refuses wrong types and unknown enum values before it calls the manager.
async fn what_the_api_server_refuses(client: &Client) {
    for version in ["v1beta1", "v1beta2"] {
        let clusters: Api<DynamicObject> = api(client, "OpenStackCluster", version, "default");
        for (spec, said) in [
            (json!(7), "spec: Invalid value"),
            (
                json!({"identityRef": null}),
                "spec.identityRef: Required value",
            ),
            (
                json!({"identityRef": {"type": "Vault", "name": "a", "cloudName": "b"}}),
                "Unsupported value: \"Vault\"",
            ),
            (
                json!({"identityRef": [], "tags": {}}),
                "spec.tags: Invalid value",
            ),
        ] {
            let cluster = object("OpenStackCluster", version, "bad", json!({"spec": spec}));
            let refused = clusters
                .create(&PostParams::default(), &cluster)
                .await
                .unwrap_err();
            assert!(refused.to_string().contains(said), "{version}: {refused}");
        }
    }
}
