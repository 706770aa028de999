//! A load balancer that is deleted by others, fails, or has the same name as another one.

use std::net::IpAddr;

use capo_core::Priority;
use capo_openstack::{
    load_balancer::{
        HealthMonitorFilter, LoadBalancer, LoadBalancerFilter, MonitorType, NewLoadBalancer,
    },
    network::{NetworkFilter, NewPort},
};
use fake_cloud::{Command, Options, Provisioning, SetStatus};
use k8s_openapi::api::events::v1::Event;
use kube::{Api, api::ListParams};
use serde_json::{Value, json};

use test_support::{
    env::{Environment, environment::is},
    waiting::PATIENCE,
};

use super::quick;
use crate::env::cluster_api::condition;

const KIND: &str = "APIServerLoadBalancerReady";

async fn balancers(environment: &Environment, cluster: &str) -> Vec<LoadBalancer> {
    let name = format!(
        "k8s-clusterapi-cluster-{}-{cluster}-kubeapi",
        environment.namespace
    );
    let filter = LoadBalancerFilter {
        name: Some(name),
        ..LoadBalancerFilter::default()
    };
    environment
        .openstack()
        .load_balancers(&filter, Priority::Gate)
        .await
        .unwrap()
}

fn id(object: &Value) -> String {
    object["status"]["apiServerManagedLoadBalancer"]["id"]
        .as_str()
        .unwrap_or_default()
        .to_owned()
}

fn endpoint(object: &Value) -> Value {
    object["spec"]["controlPlaneEndpoint"]["host"].clone()
}

fn fail(environment: &Environment, id: &str) {
    let command = Command::SetStatus(SetStatus {
        object: id.to_owned(),
        kind: None,
        provisioning: Some(Provisioning::Error),
        operating: None,
        free: false,
    });
    environment.cloud.control().command(command).unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_that_vanished_is_created_again_behind_the_same_address() {
    let environment = Environment::in_namespace("balancer-vanished")
        .cloud(quick())
        .start()
        .await;
    environment
        .cluster_api
        .create_cluster("c1", environment.cluster("c1", json!({})))
        .await;
    let first = environment.until_ready("c1").await;
    let addresses = |object: &Value| {
        let status = &object["status"]["apiServerManagedLoadBalancer"];
        ["ip", "internalIP"].map(|field| status[field].clone())
    };
    // The fake cloud gives out the address after the highest one that is in use. With a port above the VIP, a load
    // balancer that asks for no address does not get the VIP's again.
    let user = environment.openstack();
    let network = first["status"]["network"]["id"].as_str().unwrap();
    let new = NewPort {
        name: "above the VIP".to_owned(),
        network_id: network.into(),
        ..NewPort::default()
    };
    let port = user.create_port(&new, Priority::Gate).await.unwrap();
    let vip = addresses(&first)[1].as_str().unwrap().parse::<IpAddr>();
    assert!(port.fixed_ips[0].ip_address > vip.ok(), "{port:?}");
    user.delete_load_balancer(&id(&first).as_str().into(), Priority::Gate)
        .await
        .unwrap();
    environment.nudge("c1");
    let second = environment
        .until_object("OpenStackCluster", "c1", |object| {
            !id(object).is_empty() && id(object) != id(&first) && is(object, KIND, "True")
        })
        .await;
    assert_eq!(endpoint(&second), endpoint(&first));
    assert_eq!(addresses(&second), addresses(&first));
    assert_eq!(addresses(&first)[0], endpoint(&first));
    assert_eq!(balancers(&environment, "c1").await.len(), 1);
    user.delete_port(&port.id, Priority::Gate).await.unwrap();
    environment.delete("c1").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_in_error_is_replaced_while_nothing_can_be_lost_and_otherwise_when_the_operator_says_so()
 {
    let environment = Environment::in_namespace("balancer-error")
        .cloud(quick())
        .start()
        .await;
    environment
        .cluster_api
        .create_cluster("c1", environment.cluster("c1", json!({})))
        .await;
    let first = environment.until_ready("c1").await;
    fail(&environment, &id(&first));
    environment.nudge("c1");
    let second = environment
        .until_object("OpenStackCluster", "c1", |object| {
            id(object) != id(&first) && is(object, KIND, "True")
        })
        .await;
    assert_eq!(endpoint(&second), endpoint(&first));

    let initialised = json!({"initialization": {"controlPlaneInitialized": true}});
    environment.patch_status("Cluster", "c1", initialised).await;
    fail(&environment, &id(&second));
    environment.nudge("c1");
    let held = environment
        .until_object("OpenStackCluster", "c1", |object| {
            condition(object, KIND).is_some_and(|(status, reason, message)| {
                status == "False" && reason == "LoadBalancerError" && message.contains("failover")
            })
        })
        .await;
    assert_eq!(id(&held), id(&second));
    let message = condition(&held, KIND).unwrap().2;
    assert!(message.contains("rebuild-load-balancer"), "{message}");

    let annotations = json!({"infrastructure.cluster.x-k8s.io/rebuild-load-balancer": id(&second)});
    environment
        .patch(
            "OpenStackCluster",
            "c1",
            json!({"metadata": {"annotations": annotations}}),
        )
        .await;
    let third = environment
        .until_object("OpenStackCluster", "c1", |object| {
            !id(object).is_empty() && id(object) != id(&second)
        })
        .await;
    assert_eq!(endpoint(&third), endpoint(&first));
    environment.delete("c1").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_of_one_name_stop_everything_until_one_is_gone() {
    let environment = Environment::in_namespace("balancer-twins")
        .cloud(quick())
        .start()
        .await;
    let user = environment.openstack();
    let networks = user
        .networks(&NetworkFilter::default(), Priority::Gate)
        .await
        .unwrap();
    let new = NewLoadBalancer {
        name: "k8s-clusterapi-cluster-balancer-twins-c1-kubeapi".to_owned(),
        vip_network_id: networks.first().map(|network| network.id.clone()),
        ..NewLoadBalancer::default()
    };
    for _ in 0..2 {
        user.create_load_balancer(&new, Priority::Gate)
            .await
            .unwrap();
    }
    environment
        .cluster_api
        .create_cluster("c1", environment.cluster("c1", json!({})))
        .await;
    let stopped = environment
        .until_object("OpenStackCluster", "c1", |object| {
            condition(object, KIND).is_some_and(|(_, reason, _)| reason == "AmbiguousMatch")
        })
        .await;
    let twins = balancers(&environment, "c1").await;
    assert_eq!(twins.len(), 2);
    let message = condition(&stopped, KIND).unwrap().2;
    assert!(
        twins.iter().all(|twin| message.contains(twin.id.as_str())),
        "{message}"
    );
    assert_ne!(stopped["status"]["initialization"]["provisioned"], true);
    for twin in twins {
        // A load balancer that is being created refuses its deletion.
        let gone = async {
            while user
                .delete_load_balancer(&twin.id, Priority::Gate)
                .await
                .is_err()
            {
                tokio::time::sleep(std::time::Duration::from_millis(100)).await;
            }
        };
        tokio::time::timeout(PATIENCE, gone).await.unwrap();
    }
    environment.until_ready("c1").await;
    environment.delete("c1").await;
}

/// Name and type of every health monitor, in the order of their ports.
async fn monitors(environment: &Environment) -> Vec<(String, MonitorType)> {
    let filter = HealthMonitorFilter::default();
    let openstack = environment.openstack();
    let mut monitors: Vec<_> = openstack
        .health_monitors(&filter, Priority::Gate)
        .await
        .unwrap()
        .into_iter()
        .map(|monitor| (monitor.name, monitor.monitor_type))
        .collect();
    monitors.sort();
    monitors
}

fn monitor_of(kind: &str) -> Value {
    json!({"apiServer": {"managedLoadBalancer": {"monitor": {"type": kind}}}})
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_monitor_of_the_endpoint_checks_by_https_where_the_provider_can() {
    use MonitorType::{Https, Tcp};
    let environment = Environment::in_namespace("balancer-monitor")
        .cloud(quick())
        .start()
        .await;
    let more_ports = json!({"apiServer": {"managedLoadBalancer": {"additionalPorts": [9345]}}});
    environment
        .cluster_api
        .create_cluster("c1", environment.cluster("c1", more_ports))
        .await;
    environment.until_ready("c1").await;
    let mark = environment.cloud.control().last_call();
    for (kind, expected) in [("HTTPS", Https), ("TCP", Tcp)] {
        let patch = json!({"spec": monitor_of(kind)});
        environment.patch("OpenStackCluster", "c1", patch).await;
        environment
            .until_object("OpenStackCluster", "c1", |object| {
                object["status"]["observedGeneration"] == object["metadata"]["generation"]
                    && is(object, "Ready", "True")
            })
            .await;
        let types: Vec<_> = monitors(&environment)
            .await
            .into_iter()
            .map(|(_, kind)| kind)
            .collect();
        assert_eq!(types, [expected, Tcp]);
    }
    let calls = environment.cloud.control().calls_since(mark);
    let bodies: Vec<_> = calls
        .iter()
        .filter(|call| call.label == "loadbalancer_healthmonitor_create")
        .map(|call| call.body.clone().unwrap_or_default()["healthmonitor"]["url_path"].clone())
        .collect();
    assert_eq!(bodies, [json!("/readyz"), Value::Null]);
    environment.delete("c1").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn where_ovn_is_the_clouds_default_events_say_what_it_cannot_do() {
    let options = Options {
        default_provider: "ovn".to_owned(),
        ..quick()
    };
    let environment = Environment::in_namespace("balancer-monitor-ovn")
        .cloud(options)
        .start()
        .await;
    let mut change = monitor_of("HTTPS");
    change["apiServer"]["managedLoadBalancer"]["allowedCIDRs"] = json!(["192.0.2.0/24"]);
    environment
        .cluster_api
        .create_cluster("c1", environment.cluster("c1", change))
        .await;
    let made = environment.until_ready("c1").await;
    let ranges = &made["status"]["apiServerManagedLoadBalancer"]["allowedCIDRs"];
    assert_eq!(*ranges, Value::Null, "every address may connect");
    let kinds: Vec<_> = monitors(&environment)
        .await
        .into_iter()
        .map(|(_, kind)| kind)
        .collect();
    assert_eq!(kinds, [MonitorType::Tcp]);
    environment
        .until_noted("monitor.type HTTPS has no effect")
        .await;
    environment.until_noted("allowedCIDRs has no effect").await;
    environment.delete("c1").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn where_octavia_is_too_old_for_allowed_ranges_listeners_have_none_and_an_event_says_so() {
    let options = Options {
        octavia_minor: 11,
        ..quick()
    };
    let environment = Environment::in_namespace("balancer-old")
        .cloud(options)
        .start()
        .await;
    let change = json!({"apiServer": {"managedLoadBalancer": {"allowedCIDRs": ["192.0.2.0/24"]}}});
    environment
        .cluster_api
        .create_cluster("c1", environment.cluster("c1", change))
        .await;
    let made = environment.until_ready("c1").await;
    let ranges = &made["status"]["apiServerManagedLoadBalancer"]["allowedCIDRs"];
    assert_eq!(*ranges, Value::Null, "every address may connect");
    let text =
        "allowedCIDRs has no effect, because this cloud has Octavia 2.11, and 2.12 is needed";
    environment.until_noted(text).await;
    environment.delete("c1").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_provider_and_a_flavor_that_the_cloud_does_not_have_are_its_defaults() {
    let environment = Environment::in_namespace("balancer-defaults")
        .cloud(quick())
        .start()
        .await;
    // The fake cloud has a flavor "retired", which its operator has disabled.
    for (cluster, flavor) in [("c1", "vanished"), ("c2", "retired")] {
        let balancer = json!({"provider": "vanished", "flavor": flavor});
        let change = json!({"apiServer": {"managedLoadBalancer": balancer}});
        environment
            .cluster_api
            .create_cluster(cluster, environment.cluster(cluster, change))
            .await;
        environment.until_ready(cluster).await;
        let made = balancers(&environment, cluster).await;
        let made = made.first().unwrap();
        assert_eq!(made.provider.as_deref(), Some("amphora"));
        environment
            .until_noted(&format!("flavor is \"{flavor}\""))
            .await;
    }
    let events: Api<Event> = Api::namespaced(environment.admin.clone(), &environment.namespace);
    let list = events.list(&ListParams::default()).await.unwrap();
    for reason in ["Octaviaprovidernotfound", "Octaviaflavornotfound"] {
        let mut items = list.items.iter();
        assert!(items.any(|event| event.reason.as_deref() == Some(reason)));
    }
    environment.delete("c1").await;
    environment.delete("c2").await;
}
