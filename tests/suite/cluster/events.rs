//! Events about what is changed in OpenStack.

use std::collections::BTreeSet;

use k8s_openapi::api::events::v1::Event;
use kube::{Api, api::ListParams};
use serde_json::json;
use test_support::{env::Environment, waiting::until};

use super::quick;

/// What CAPO 0.14 and `kubectl get events` call the changes of a cluster's life.
const OF_CAPO: [&str; 15] = [
    "Successfulcreatenetwork",
    "Successfulcreatesubnet",
    "Successfulcreaterouter",
    "Successfulcreatesecuritygroup",
    "Successfulcreateloadbalancer",
    "Successfulcreatelistener",
    "Successfulcreatepool",
    "Successfulcreatemonitor",
    "Successfulcreatefloatingip",
    "Successfulreplaceallattributetags",
    "Successfuldeleteloadbalancer",
    "Successfuldeletefloatingip",
    "Successfuldeleterouter",
    "Successfuldeletenetwork",
    "Successfuldeletesecuritygroup",
];
/// Changes for which CAPO writes no event.
const FURTHER: [&str; 2] = ["Successfulupdaterouter", "Successfulupdatesecuritygroup"];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_change_in_openstack_has_an_event_with_capos_reason() {
    let environment = Environment::in_namespace("cluster-events")
        .cloud(quick())
        .start()
        .await;
    environment
        .cluster_api
        .create_cluster("c1", environment.cluster("c1", json!({})))
        .await;
    environment.until_ready("c1").await;
    environment.delete("c1").await;
    let events: Api<Event> = Api::namespaced(environment.admin.clone(), &environment.namespace);
    until("all events", async || {
        let list = events.list(&ListParams::default()).await.unwrap();
        let reasons: BTreeSet<String> = list
            .items
            .into_iter()
            .filter_map(|event| event.reason)
            .collect();
        let mut expected = OF_CAPO.iter().chain(&FURTHER);
        expected
            .all(|reason| reasons.contains(*reason))
            .then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_change_has_one_event_also_where_openstack_refuses_it() {
    let environment = Environment::in_namespace("cluster-events-refused")
        .cloud(quick())
        .start()
        .await;
    let events: Api<Event> = Api::namespaced(environment.admin.clone(), &environment.namespace);
    let refused = async |label: &str, reason: &str| {
        let fault = json!({"fault": {"match": {"label": label}, "status": 500}});
        let fault = environment.command(fault)["id"].clone();
        if label == "network_create" {
            environment
                .cluster_api
                .create_cluster("c1", environment.cluster("c1", json!({})))
                .await;
        }
        until(reason, async || {
            let list = events.list(&ListParams::default()).await.unwrap();
            let mut reasons = list.items.iter().filter_map(|event| event.reason.as_ref());
            reasons.any(|found| found == reason).then_some(())
        })
        .await;
        environment.command(json!({"remove_fault": fault}));
    };
    refused("network_create", "Failedcreatenetwork").await;
    refused("loadbalancer_pool_create", "Failedcreatepool").await;
    environment.until_ready("c1").await;
    until("one event for each", async || {
        let list = events.list(&ListParams::default()).await.unwrap();
        let counts = [
            "Successfulcreatenetwork",
            "Successfulcreateloadbalancer",
            "Successfulcreatelistener",
            "Successfulcreatepool",
            "Successfulcreatemonitor",
        ]
        .map(|reason| {
            let items = list.items.iter();
            let found: Vec<_> = items
                .filter(|event| event.reason.as_deref() == Some(reason))
                .collect();
            assert!(found.len() <= 1, "{found:#?}");
            assert!(found.iter().all(|event| event.series.is_none()));
            found.len()
        });
        (counts == [1; 5]).then_some(())
    })
    .await;
    environment.delete("c1").await;
}
