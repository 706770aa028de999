//! Input that can't work: a condition says what is wrong, there is one event and no storm of calls, and the cluster
//! becomes ready after the input is corrected.

use serde_json::{Value, json};

use test_support::{
    env::{Environment, environment::is},
    waiting::until,
};

use super::quick;
use crate::env::cluster_api::condition;

struct Case {
    name: &'static str,
    change: Value,
    condition: &'static str,
    words: &'static [&'static str],
}

fn identity(secret: &str, cloud: &str) -> Value {
    json!({"identityRef": {"name": secret, "cloudName": cloud}})
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_bad_input_names_object_field_found_and_right_and_heals_when_mended() {
    const SIGNED_IN: &str = "OpenStackAuthenticationSucceeded";
    let environment = Environment::in_namespace("cluster-bad")
        .cloud(quick())
        .start()
        .await;
    let good = environment.cloud.clouds_yaml();
    environment.secret("malformed", "clouds: [", None).await;
    environment
        .secret("bad-pem", &good, Some("no certificate"))
        .await;
    environment
        .secret(
            "bad-password",
            &good.replace("password: secret", "password: wrong"),
            None,
        )
        .await;
    let balancer = |change: Value| json!({"apiServer": {"managedLoadBalancer": change}});
    let cases = [
        Case {
            name: "no-secret",
            change: identity("absent", "demo"),
            condition: SIGNED_IN,
            words: &[
                "OpenStackCluster cluster-bad/no-secret",
                "spec.identityRef.name",
                "absent",
                "clouds.yaml",
            ],
        },
        Case {
            name: "malformed",
            change: identity("malformed", "demo"),
            condition: SIGNED_IN,
            words: &["cluster-bad/malformed", "clouds.yaml"],
        },
        Case {
            name: "unknown-cloud",
            change: identity("cloud-config", "prod"),
            condition: SIGNED_IN,
            words: &["prod", "demo"],
        },
        Case {
            name: "bad-pem",
            change: identity("bad-pem", "demo"),
            condition: SIGNED_IN,
            words: &["cacert"],
        },
        Case {
            name: "bad-password",
            change: identity("bad-password", "demo"),
            condition: SIGNED_IN,
            words: &["bad-password", "demo"],
        },
        Case {
            name: "no-range",
            change: json!({"managedSubnets": [{"cidr": "10.6.0.0/33"}]}),
            condition: "NetworkReady",
            words: &["spec.managedSubnets[0].cidr", "10.6.0.0/33", "10.6.0.0/24"],
        },
        Case {
            name: "port-range",
            change: balancer(json!({"additionalPorts": [70_000]})),
            condition: "APIServerLoadBalancerReady",
            words: &["additionalPorts[0]", "70000", "1 to 65535"],
        },
        Case {
            name: "no-router",
            change: json!({"router": {"filter": {"name": "nowhere"}}}),
            condition: "RouterReady",
            words: &["spec.router.filter", "must match exactly one"],
        },
    ];
    for case in &cases {
        let infrastructure = environment.cluster(case.name, case.change.clone());
        environment
            .cluster_api
            .create_cluster(case.name, infrastructure)
            .await;
    }
    for case in &cases {
        let object = environment
            .until_object("OpenStackCluster", case.name, |object| {
                condition(object, case.condition).is_some_and(|(status, _, _)| status == "False")
            })
            .await;
        let (_, _, message) = condition(&object, case.condition).unwrap();
        for word in case.words {
            assert!(message.contains(word), "{}: {message}", case.name);
        }
        assert_ne!(object["status"]["initialization"]["provisioned"], true);
    }
    // A second round of failures adds no events.
    for case in &cases {
        environment.one_more_pass(case.name).await;
    }
    for case in &cases {
        let warnings = until("a warning", async || {
            let warnings = environment.warnings(case.name).await;
            (!warnings.is_empty()).then_some(warnings)
        })
        .await;
        assert_eq!(warnings.len(), 1, "{}: {warnings:#?}", case.name);
    }
    // Three cases are corrected in their Secrets, which are not watched.
    for secret in ["absent", "malformed", "bad-password"] {
        environment.secret(secret, &good, None).await;
    }
    for name in ["no-secret", "malformed", "bad-password"] {
        environment.until_ready(name).await;
    }
    environment.secret("bad-pem", &good, Some("")).await;
    for case in &cases {
        if case.name == "unknown-cloud" {
            environment
                .patch(
                    "OpenStackCluster",
                    case.name,
                    json!({"spec": {"identityRef": {"cloudName": "demo"}}}),
                )
                .await;
        }
        environment.delete(case.name).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_odd_value_is_reported_and_stops_nothing_else() {
    let environment = Environment::in_namespace("cluster-odd")
        .cloud(quick())
        .start()
        .await;
    let change = json!({"apiServer": {"managedLoadBalancer": {
        "provider": "carrier-pigeon", "flavor": "huge", "allowedCIDRs": ["x", "192.0.2.0/24"]}},
        "managedSecurityGroups": {"clusterNodesSecurityGroupRules": [
            {"name": "ping", "direction": "ingress", "etherType": "IPv6", "protocol": "icmp"}]}});
    environment
        .cluster_api
        .create_cluster("c1", environment.cluster("c1", change))
        .await;
    let cluster = environment.until_ready("c1").await;
    let allowed = cluster["status"]["apiServerManagedLoadBalancer"]["allowedCIDRs"].to_string();
    assert!(
        allowed.contains("192.0.2.0/24") && !allowed.contains("\"x\""),
        "{allowed}"
    );
    for words in [
        ["managedLoadBalancer.provider", "carrier-pigeon"],
        ["managedLoadBalancer.flavor", "huge"],
        ["managedLoadBalancer.allowedCIDRs[0]", "\"x\""],
    ] {
        let has_all = |note: &String| words.iter().all(|word| note.contains(word));
        until(&format!("a warning with {words:?}"), async || {
            let warnings = environment.warnings("c1").await;
            warnings.iter().any(has_all).then_some(())
        })
        .await;
    }
    // Neutron stores the protocol of the rule for IPv6 under another name, which is no difference.
    let mark = environment.cloud.control().last_call();
    environment
        .patch("OpenStackCluster", "c1", json!({"spec": {"apiServer": {"managedLoadBalancer": {"allowedCIDRs": ["192.0.2.0/24"]}}}}))
        .await;
    environment
        .until_object("OpenStackCluster", "c1", |object| {
            object["status"]["observedGeneration"] == object["metadata"]["generation"]
        })
        .await;
    assert_eq!(environment.writes_since(mark), Vec::<String>::new());
    environment.delete("c1").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rule_that_names_no_existing_group_stops_only_itself_and_a_fixed_ip_may_be_a_name() {
    let environment = Environment::in_namespace("cluster-odd-rule")
        .cloud(quick())
        .start()
        .await;
    let rule = |name: &str, port: u16| {
        json!({"name": name, "direction": "ingress", "etherType": "IPv4", "protocol": "tcp",
            "portRangeMin": port, "portRangeMax": port})
    };
    let mut from_bastion = rule("from-a-bastion", 9200);
    from_bastion["remoteManagedGroups"] = json!(["bastion"]);
    let change = json!({
        "apiServer": {"managedLoadBalancer": {"enabled": false}, "enableFloatingIP": false, "fixedIP": "api.internal"},
        "managedSecurityGroups": {"clusterNodesSecurityGroupRules": [from_bastion, rule("metrics", 9100)]},
    });
    environment
        .cluster_api
        .create_cluster("c1", environment.cluster("c1", change))
        .await;
    let cluster = environment
        .until_object("OpenStackCluster", "c1", |object| {
            let odd = condition(object, "SecurityGroupsReady");
            odd.is_some_and(|(status, _, _)| status == "False")
                && is(object, "RouterReady", "True")
                && is(object, "APIEndpointReady", "True")
        })
        .await;
    let (_, reason, message) = condition(&cluster, "SecurityGroupsReady").unwrap();
    assert_eq!(reason, "InvalidSpec");
    assert!(message.contains("remoteManagedGroups"), "{message}");
    assert_eq!(
        cluster["spec"]["controlPlaneEndpoint"]["host"],
        "api.internal"
    );
    let cloud = environment.cloud.control().dump();
    let opened: Vec<i64> = cloud["network"]["security_group_rules"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|rule| rule["port_range_min"].as_i64())
        .collect();
    for (port, times) in [(6443, 1), (9100, 2), (9200, 0)] {
        let found = opened.iter().filter(|opened| **opened == port).count();
        assert_eq!(found, times, "{port}: {opened:?}");
    }
    environment.delete("c1").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cloud_without_load_balancing_is_reported_as_such_and_the_cluster_can_go() {
    let options = fake_cloud::Options {
        hidden_services: vec!["load-balancer".to_owned()],
        ..quick()
    };
    let environment = Environment::in_namespace("cluster-no-octavia")
        .cloud(options)
        .start()
        .await;
    let infrastructure = environment.cluster("c1", json!({}));
    environment
        .cluster_api
        .create_cluster("c1", infrastructure)
        .await;
    let object = environment
        .until_object("OpenStackCluster", "c1", |object| {
            condition(object, "APIServerLoadBalancerReady")
                .is_some_and(|(status, _, _)| status == "False")
        })
        .await;
    let (_, reason, message) = condition(&object, "APIServerLoadBalancerReady").unwrap();
    assert_eq!(reason, "OpenStackUnavailable");
    assert!(message.contains("load-balancer"), "{message}");
    environment.delete("c1").await;
}
