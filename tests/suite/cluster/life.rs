//! The life of a cluster from its creation to its deletion.

use serde_json::{Value, json};

use test_support::env::{Environment, environment::is};

use super::quick;
use crate::env::cluster_api::condition;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_managed_cluster_is_made_kept_and_taken_down_completely() {
    let environment = Environment::in_namespace("cluster-life")
        .cloud(quick())
        .start()
        .await;
    let infrastructure = environment.cluster("c1", json!({}));
    environment
        .cluster_api
        .create_cluster("c1", infrastructure)
        .await;
    let made = environment.until_ready("c1").await;

    for kind in [
        "OpenStackAuthenticationSucceeded",
        "NetworkReady",
        "RouterReady",
        "SecurityGroupsReady",
        "APIEndpointReady",
        "APIServerLoadBalancerReady",
    ] {
        assert!(
            is(&made, kind, "True"),
            "{kind}: {:?}",
            condition(&made, kind)
        );
    }
    assert!(is(&made, "Paused", "False"));
    assert_eq!(
        made["status"]["observedGeneration"],
        made["metadata"]["generation"]
    );
    let balancer = &made["status"]["apiServerManagedLoadBalancer"];
    assert_eq!(made["spec"]["controlPlaneEndpoint"]["host"], balancer["ip"]);
    assert_eq!(made["spec"]["controlPlaneEndpoint"]["port"], 6443);
    assert_ne!(balancer["ip"], balancer["internalIP"]);
    assert_eq!(
        made["status"]["network"]["name"],
        "k8s-clusterapi-cluster-cluster-life-c1"
    );
    assert_eq!(made["status"]["failureDomains"][0]["controlPlane"], true);
    assert_eq!(environment.cloud.control().duplicates(), []);

    // After the first pass, the events of our own writes are over. The next pass finds everything, changes nothing, and
    // leaves the reads of the load balancer to its worker.
    environment.one_more_pass("c1").await;
    let (sequence, version) = (
        environment.cloud.control().last_call(),
        version(&environment).await,
    );
    environment.one_more_pass("c1").await;
    assert_eq!(environment.writes_since(sequence), Vec::<String>::new());
    let octavia: Vec<String> = environment
        .cloud
        .control()
        .calls_since(sequence)
        .into_iter()
        .filter(|call| call.path.contains("/loadbalancers") && !call.path.ends_with("/status"))
        .map(|call| call.path)
        .collect();
    assert_eq!(octavia, Vec::<String>::new());
    // The version differs because the test has changed an annotation for each pass.
    assert_ne!(version, self::version(&environment).await);

    // Everything in the status can be found out again after it was removed.
    let gone = json!({
        "conditions": null, "network": null, "externalNetwork": null, "router": null, "failureDomains": null,
        "apiServerManagedLoadBalancer": null, "initialization": null, "controlPlaneSecurityGroup": null,
        "workerSecurityGroup": null, "observedGeneration": null,
    });
    environment
        .patch_status("OpenStackCluster", "c1", gone)
        .await;
    environment.one_more_pass("c1").await;
    let again = environment.until_ready("c1").await;
    assert_eq!(environment.writes_since(sequence), Vec::<String>::new());
    for part in [
        "network",
        "externalNetwork",
        "router",
        "controlPlaneSecurityGroup",
        "failureDomains",
    ] {
        assert_eq!(again["status"][part], made["status"][part], "{part}");
    }
    assert_eq!(
        again["status"]["apiServerManagedLoadBalancer"]["ip"],
        balancer["ip"]
    );

    environment.delete("c1").await;
}

async fn version(environment: &Environment) -> Value {
    let object = environment
        .cluster_api
        .get("OpenStackCluster", "c1")
        .await
        .unwrap()
        .unwrap();
    object["metadata"]["resourceVersion"].clone()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_paused_cluster_is_not_touched_until_it_is_unpaused() {
    let environment = Environment::in_namespace("cluster-paused")
        .cloud(quick())
        .start()
        .await;
    let mut infrastructure = environment.cluster("c1", json!({}));
    infrastructure["metadata"]["annotations"] = json!({"cluster.x-k8s.io/paused": ""});
    environment
        .cluster_api
        .create_cluster("c1", infrastructure)
        .await;
    let paused = environment
        .until_object("OpenStackCluster", "c1", |object| {
            is(object, "Paused", "True")
        })
        .await;
    assert!(is(&paused, "Ready", "Unknown"));
    assert_eq!(paused["metadata"]["finalizers"], Value::Null);
    assert_eq!(environment.writes_since(0), Vec::<String>::new());
    environment
        .patch(
            "OpenStackCluster",
            "c1",
            json!({"metadata": {"annotations": {"cluster.x-k8s.io/paused": null}}}),
        )
        .await;
    let made = environment.until_ready("c1").await;
    assert!(is(&made, "Paused", "False"));
    environment.delete("c1").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_load_balancer_the_endpoint_is_a_floating_ip_or_what_the_user_says() {
    let environment = Environment::in_namespace("cluster-endpoints")
        .cloud(quick())
        .start()
        .await;
    let none = json!({"managedLoadBalancer": {"enabled": false}});
    let cases = [
        ("floating", json!({"apiServer": none})),
        (
            "fixed",
            json!({"apiServer": {"enableFloatingIP": false, "fixedIP": "10.6.0.9", "managedLoadBalancer": null}}),
        ),
        (
            "named",
            json!({"controlPlaneEndpoint": {"host": "localhost", "port": 8443}}),
        ),
        (
            "internal",
            json!({"enableExternalNetwork": false, "apiServer": {"enableFloatingIP": false}}),
        ),
    ];
    for (name, change) in &cases {
        let infrastructure = environment.cluster(name, change.clone());
        environment
            .cluster_api
            .create_cluster(name, infrastructure)
            .await;
    }
    for (name, _) in &cases {
        // This cluster is not Ready, because only a machine can get the floating IP.
        let ready = if *name == "floating" { "False" } else { "True" };
        let made = environment
            .until_object("OpenStackCluster", name, |cluster| {
                cluster["status"]["initialization"]["provisioned"] == true
                    && is(cluster, "Ready", ready)
            })
            .await;
        let host = made["spec"]["controlPlaneEndpoint"]["host"]
            .as_str()
            .unwrap()
            .to_owned();
        let balancer = &made["status"]["apiServerManagedLoadBalancer"];
        match *name {
            "fixed" => assert_eq!(host, "10.6.0.9"),
            "named" => {
                assert_eq!(host, "localhost");
                // The owner of the DNS record changes it to the new floating IP.
                let text = "host localhost does not resolve to a floating IP of this project, so a new floating IP";
                environment.until_noted(text).await;
            }
            "internal" => assert_eq!(host, balancer["internalIP"].as_str().unwrap()),
            _ => {
                assert!(balancer.is_null());
                let reason = condition(&made, "APIServerLoadBalancerReady").unwrap().1;
                assert_eq!(reason, "LoadBalancerDisabled");
            }
        }
    }
    for (name, _) in &cases {
        environment.delete(name).await;
    }
}
