//! Floating IPs from pools, by Cluster API's IPAM contract.

use std::collections::BTreeSet;

use capo_core::Priority;
use capo_openstack::network::{FloatingIpFilter, NetworkFilter, NewFloatingIp};
use kube::api::PostParams;
use serde_json::{Value, json};
use test_support::env::{
    Environment,
    apply::first_manifest,
    cluster_api::{api, condition},
    environment::{identity, status_and_reason},
    garbage,
};

use super::machine_spec;

const POOL: &str = "OpenStackFloatingIPPool";
const READY: &str = "OpenstackFloatingIPPoolReadyCondition";
const FINALIZER: &str = "openstackfloatingippool.infrastructure.cluster.x-k8s.io";
const ADDRESS_FINALIZER: &str =
    "openstackfloatingippool.infrastructure.cluster.x-k8s.io/delete-floating-ip";
/// Annotation with the time until which an allocation of unknown outcome may be carried out.
const RECORD: &str = "infrastructure.cluster.x-k8s.io/creations-in-doubt";
/// The entry of the annotation.
const ALLOCATION: &str = "floating IP of the pool";

fn pool(namespace: &str, spec: &Value) -> Value {
    let mut pool = json!({
        "apiVersion": "infrastructure.cluster.x-k8s.io/v1alpha1", "kind": POOL,
        "metadata": {"name": "pool", "namespace": namespace},
        "spec": {"identityRef": identity(), "reclaimPolicy": "Delete"},
    });
    json_patch::merge(&mut pool["spec"], spec);
    pool
}

fn claim(namespace: &str, name: &str) -> Value {
    json!({
        "apiVersion": "ipam.cluster.x-k8s.io/v1beta2", "kind": "IPAddressClaim",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"poolRef": {"apiGroup": "infrastructure.cluster.x-k8s.io", "kind": POOL, "name": "pool"}},
    })
}

async fn create(environment: &Environment, object: Value) {
    let kind = object["kind"].as_str().unwrap().to_owned();
    api(&environment.admin, &environment.namespace, &kind)
        .create(
            &PostParams::default(),
            &serde_json::from_value(object).unwrap(),
        )
        .await
        .unwrap();
}

async fn address_of(environment: &Environment, claim: &str) -> String {
    let answered = |claim: &Value| claim["status"]["addressRef"]["name"].is_string();
    let found = environment
        .until_object("IPAddressClaim", claim, answered)
        .await;
    let address = found["status"]["addressRef"]["name"].as_str().unwrap();
    let address = environment.get("IPAddress", address).await;
    address["spec"]["address"].as_str().unwrap().to_owned()
}

/// Addresses of the floating IPs that exist.
async fn floating_ips(environment: &Environment) -> BTreeSet<String> {
    let all = FloatingIpFilter::default();
    let found = environment
        .openstack()
        .floating_ips(&all, Priority::Gate)
        .await;
    let found = found.unwrap().into_iter();
    found
        .map(|fip| fip.floating_ip_address.unwrap().to_string())
        .collect()
}

/// Allocates a floating IP as the user would.
async fn bring_along(environment: &Environment, description: &str) -> String {
    let cloud = environment.openstack();
    let networks = cloud
        .networks(&NetworkFilter::default(), Priority::Gate)
        .await;
    let external = networks
        .unwrap()
        .into_iter()
        .find(|network| network.external);
    let new = NewFloatingIp {
        floating_network_id: external.unwrap().id,
        description: description.to_owned(),
        ..NewFloatingIp::default()
    };
    let made = cloud
        .create_floating_ip(&new, Priority::Gate)
        .await
        .unwrap();
    made.floating_ip_address.unwrap().to_string()
}

fn list(object: &Value, field: &str) -> Vec<String> {
    serde_json::from_value(object["status"][field].clone()).unwrap_or_default()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn parallel_claims_get_one_address_each_what_was_brought_along_first_and_the_limit_heals() {
    let environment = Environment::in_namespace("fip-claims").start().await;
    let given = bring_along(&environment, "mine").await;
    let spec = json!({"preAllocatedFloatingIPs": [given, "203.0.113.250"], "maxIPs": 4});
    create(&environment, pool(&environment.namespace, &spec)).await;
    let names = ["a", "b", "c", "d", "e", "f"];
    let all = names.map(|name| create(&environment, claim(&environment.namespace, name)));
    futures::future::join_all(all).await;
    let expected =
        "spec.maxIPs is 4, and that many floating IPs are assigned; IPAddressClaims that wait: 2";
    let short = environment
        .until_object(POOL, "pool", |pool| {
            // A pass may have come before the last claims.
            let all =
                condition(pool, READY).is_some_and(|(_, _, message)| message.starts_with(expected));
            all && list(pool, "claimedIPs").len() == 4
        })
        .await;
    assert_eq!(status_and_reason(&short, READY), ("False", "MaxIPsReached"));
    assert_eq!(status_and_reason(&short, "Ready"), ("False", "NotReady"));
    assert_eq!(list(&short, "failedIPs"), ["203.0.113.250"]);
    assert_eq!(short["metadata"]["finalizers"], json!([FINALIZER]));
    assert_eq!(
        short["metadata"]["annotations"],
        Value::Null,
        "no record is left"
    );
    assert_eq!(environment.calls("floating_ip_create"), 1 + 3);

    environment
        .patch(POOL, "pool", json!({"spec": {"maxIPs": 6}}))
        .await;
    let mut addresses = BTreeSet::new();
    for name in names {
        addresses.insert(address_of(&environment, name).await);
    }
    assert_eq!(addresses.len(), 6);
    assert!(addresses.contains(&given));
    assert_eq!(addresses, floating_ips(&environment).await);
    let settled = environment
        .until_object(POOL, "pool", |pool| {
            status_and_reason(pool, "Ready").0 == "True"
        })
        .await;
    let claimed: BTreeSet<String> = list(&settled, "claimedIPs").into_iter().collect();
    assert_eq!(claimed, addresses);
    let address = environment.get("IPAddress", "a").await;
    assert_eq!(
        address["metadata"]["finalizers"],
        json!([ADDRESS_FINALIZER])
    );
    assert_eq!(
        (
            &address["spec"]["prefix"],
            &address["spec"]["claimRef"]["name"],
            &address["spec"]["poolRef"]["name"]
        ),
        (&json!(32), &json!("a"), &json!("pool"))
    );

    // The pool waits for its addresses, and what was brought along outlives it.
    let _garbage = garbage::collect(&environment.admin, &environment.namespace);
    environment.cluster_api.delete(POOL, "pool").await;
    environment
        .until_object(POOL, "pool", |pool| {
            status_and_reason(pool, READY) == ("False", "Deleting")
        })
        .await;
    for name in names {
        environment.cluster_api.delete("IPAddressClaim", name).await;
    }
    environment.until_gone(POOL, "pool").await;
    assert_eq!(floating_ips(&environment).await, [given].into());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn retained_addresses_are_given_again_and_go_with_the_pool() {
    let environment = Environment::in_namespace("fip-retain").start().await;
    let garbage = garbage::collect(&environment.admin, &environment.namespace);
    let spec =
        json!({"reclaimPolicy": "Retain", "floatingIPNetwork": {"filter": {"name": "public"}}});
    create(&environment, pool(&environment.namespace, &spec)).await;
    create(&environment, claim(&environment.namespace, "first")).await;
    let first = address_of(&environment, "first").await;
    environment
        .cluster_api
        .delete("IPAddressClaim", "first")
        .await;
    let freed = environment
        .until_object(POOL, "pool", |pool| {
            list(pool, "availableIPs") == [first.clone()]
        })
        .await;
    assert_eq!(list(&freed, "claimedIPs"), Vec::<String>::new());
    assert_eq!(freed["status"]["floatingIPNetwork"]["name"], "public");
    // The whole status is written again after a wipe, and nothing changes in OpenStack.
    let since = environment.cloud.control().last_call();
    environment.wipe_status(POOL, "pool").await;
    let back = environment
        .until_object(POOL, "pool", |pool| {
            list(pool, "availableIPs") == [first.clone()]
        })
        .await;
    assert_eq!(
        back["status"]["floatingIPNetwork"],
        freed["status"]["floatingIPNetwork"]
    );
    assert_eq!(environment.writes_since(since), Vec::<String>::new());
    create(&environment, claim(&environment.namespace, "second")).await;
    assert_eq!(address_of(&environment, "second").await, first);
    environment
        .cluster_api
        .delete("IPAddressClaim", "second")
        .await;
    environment.until_gone("IPAddress", "second").await;
    environment.cluster_api.delete(POOL, "pool").await;
    environment.until_gone(POOL, "pool").await;
    assert_eq!(floating_ips(&environment).await, BTreeSet::new());
    garbage.abort();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_allocation_whose_answer_is_lost_is_found_again_and_not_repeated() {
    let mut environment = Environment::in_namespace("fip-lost").start().await;
    environment.command(json!({"fault": {"match": {"label": "floating_ip_create"}, "count": 1, "delay": 3.0, "reset": true,
        "apply": true}}));
    let begun = jiff::Timestamp::now();
    create(&environment, pool(&environment.namespace, &json!({}))).await;
    create(&environment, claim(&environment.namespace, "a")).await;
    let address = address_of(&environment, "a").await;
    assert_eq!(floating_ips(&environment).await, [address.clone()].into());
    // A new process learns of the allocation from the record, and from the description of the floating IP.
    let recorded = environment.get(POOL, "pool").await;
    let annotations = recorded["metadata"]["annotations"].as_object().unwrap();
    let record: Value = serde_json::from_str(annotations[RECORD].as_str().unwrap()).unwrap();
    let until: jiff::Timestamp = record[ALLOCATION].as_str().unwrap().parse().unwrap();
    // The 130 s count from the loss of the answer and not from the request, which can wait for its turn.
    assert!(
        until >= begun + std::time::Duration::from_secs(3 + 130),
        "{until}"
    );
    create(&environment, claim(&environment.namespace, "b")).await;
    environment
        .until_object(POOL, "pool", |pool| {
            status_and_reason(pool, READY) == ("False", "OpenStackUnavailable")
        })
        .await;
    environment.stop().await;
    environment.wipe_status(POOL, "pool").await;
    // The record would expire after two minutes, which the steps may take on a busy machine.
    environment.patch(POOL, "pool", recorded_until("")).await;
    environment.start().await;
    environment
        .until_object(POOL, "pool", |pool| {
            status_and_reason(pool, READY) == ("False", "OpenStackUnavailable")
        })
        .await;
    assert_eq!(environment.calls("floating_ip_create"), 1);
    // The record has expired.
    environment.stop().await;
    environment
        .patch(POOL, "pool", recorded_until("2026-01-01T00:00:00Z"))
        .await;
    environment.start().await;
    assert_ne!(address_of(&environment, "b").await, address);
    assert_eq!(environment.calls("floating_ip_create"), 2);
}

/// The change that records an allocation until this time. A time that can't be read counts as 130 s from the start of
/// the next process on.
fn recorded_until(time: &str) -> Value {
    let record = json!({ALLOCATION: time}).to_string();
    json!({"metadata": {"annotations": {RECORD: record}}})
}

/// The time of the next try grows from half a minute to five, whatever the pass has recorded on the pool.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_allocation_that_is_refused_is_not_repeated_at_once() {
    let environment = Environment::in_namespace("fip-refused").start().await;
    environment.command(
        json!({"fault": {"match": {"label": "floating_ip_create"}, "status": 409,
        "body": "Quota exceeded for resources: ['floatingip']."}}),
    );
    create(&environment, pool(&environment.namespace, &json!({}))).await;
    create(&environment, claim(&environment.namespace, "a")).await;
    let refused = environment
        .until_object(POOL, "pool", |pool| {
            status_and_reason(pool, READY) == ("False", "QuotaExceeded")
        })
        .await;
    assert_eq!(refused["metadata"]["annotations"], Value::Null);
    // The finalizer of the first pass may start one more.
    tokio::time::sleep(std::time::Duration::from_secs(3)).await;
    let begun = environment.calls("floating_ip_create");
    tokio::time::sleep(std::time::Duration::from_secs(5)).await;
    assert_eq!(environment.calls("floating_ip_create"), begun);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pool_of_capo_is_taken_over_without_a_write_to_openstack() {
    let mut environment = Environment::in_namespace("fip-takeover").start().await;
    environment.stop().await;
    let made = "Created by cluster-api-provider-openstack OpenStackFloatingIPPool pool";
    let (held, free) = (
        bring_along(&environment, made).await,
        bring_along(&environment, made).await,
    );
    let namespace = environment.namespace.clone();
    let mut capos = pool(&namespace, &json!({"reclaimPolicy": "Delete"}));
    capos["metadata"]["finalizers"] = json!([FINALIZER]);
    create(&environment, capos).await;
    create(&environment, claim(&namespace, "a")).await;
    let owner = environment.get("IPAddressClaim", "a").await;
    let address = json!({
        "apiVersion": "ipam.cluster.x-k8s.io/v1beta2", "kind": "IPAddress",
        "metadata": {"name": "a", "namespace": namespace, "finalizers": [ADDRESS_FINALIZER], "ownerReferences": [{
            "apiVersion": "ipam.cluster.x-k8s.io/v1beta2", "kind": "IPAddressClaim", "name": "a", "uid": owner["metadata"]["uid"]}]},
        "spec": {"address": held, "prefix": 32, "claimRef": {"name": "a"},
            "poolRef": {"apiGroup": "infrastructure.cluster.x-k8s.io", "kind": POOL, "name": "pool"}},
    });
    create(&environment, address).await;
    environment
        .patch_status("IPAddressClaim", "a", json!({"addressRef": {"name": "a"}}))
        .await;
    // CAPO 0.14 writes such a condition, without a reason and without a message.
    environment
        .patch_status(POOL, "pool", json!({"claimedIPs": [held], "availableIPs": [free],
            "conditions": [{"type": READY, "status": "True", "lastTransitionTime": "2026-11-01T00:00:00Z"}]}))
        .await;
    let since = environment.cloud.control().last_call();
    environment.start().await;
    let taken = environment
        .until_object(POOL, "pool", |pool| {
            status_and_reason(pool, "Ready").0 == "True"
        })
        .await;
    assert_eq!(
        (list(&taken, "claimedIPs"), list(&taken, "availableIPs")),
        (vec![held.clone()], vec![free.clone()])
    );
    assert_eq!(environment.writes_since(since), Vec::<String>::new());
    // An address that CAPO has allocated is released like one of ours.
    let _garbage = garbage::collect(&environment.admin, &environment.namespace);
    environment.cluster_api.delete("IPAddressClaim", "a").await;
    environment.until_gone("IPAddress", "a").await;
    assert_eq!(floating_ips(&environment).await, [free].into());
    environment.cluster_api.delete(POOL, "pool").await;
    environment.until_gone(POOL, "pool").await;
    assert_eq!(floating_ips(&environment).await, BTreeSet::new());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_machine_gets_a_floating_ip_from_its_pool_and_gives_it_back() {
    let environment = Environment::in_namespace("fip-machine").start().await;
    let _garbage = garbage::collect(&environment.admin, &environment.namespace);
    environment
        .cluster_api
        .create_cluster(
            "c1",
            environment.cluster(
                "c1",
                json!({"apiServer": {"managedLoadBalancer": {"enabled": false}, "enableFloatingIP": false,
                    "fixedIP": "10.6.0.10"}}),
            ),
        ).await;
    environment.until_ready("c1").await;
    let mut spec = machine_spec();
    spec["floatingIPPoolRef"] =
        json!({"apiGroup": "infrastructure.cluster.x-k8s.io", "kind": POOL, "name": "pool"});
    environment
        .cluster_api
        .create_machine("c1", "w1", false, spec)
        .await;
    // While the pool does not exist, the condition says so, and no server is created.
    let waiting = environment
        .until_object("OpenStackMachine", "w1", |machine| {
            status_and_reason(machine, "FloatingAddressFromPoolReady")
                == ("False", "WaitingForIPAMProvider")
        })
        .await;
    assert_eq!(
        status_and_reason(&waiting, "InstanceReady").1,
        "WaitingForIPAMProvider"
    );
    assert_eq!(environment.calls("server_create"), 0);
    // An answer that names no IPAddress is waited for too, because the pool gives another one.
    let claim = "w1-floating-ip-address";
    let answer = json!({"addressRef": {"name": "gone"}});
    environment
        .patch_status("IPAddressClaim", claim, answer)
        .await;
    environment
        .until_object("OpenStackMachine", "w1", |machine| {
            let shown = condition(machine, "FloatingAddressFromPoolReady");
            shown.is_some_and(|(_, reason, message)| {
                reason == "WaitingForIPAMProvider" && message.contains("gone, which does not exist")
            })
        })
        .await;
    create(&environment, pool(&environment.namespace, &json!({}))).await;
    let machine = environment
        .until_object("OpenStackMachine", "w1", |machine| {
            machine["status"]["initialization"]["provisioned"] == true
                && status_and_reason(machine, "Ready").0 == "True"
        })
        .await;
    let address = address_of(&environment, "w1-floating-ip-address").await;
    let addresses = machine["status"]["addresses"].as_array().unwrap();
    assert!(
        addresses.contains(&json!({"type": "ExternalIP", "address": address})),
        "{addresses:?}"
    );
    assert_eq!(
        status_and_reason(&machine, "FloatingAddressFromPoolReady"),
        ("True", "Ready")
    );
    let claim = environment
        .get("IPAddressClaim", "w1-floating-ip-address")
        .await;
    assert_eq!(
        claim["metadata"]["labels"]["cluster.x-k8s.io/cluster-name"],
        "c1"
    );
    assert_eq!(
        claim["metadata"]["finalizers"],
        json!(["openstackmachine.infrastructure.cluster.x-k8s.io/ip-claim"])
    );
    let all = FloatingIpFilter::default();
    let found = environment
        .openstack()
        .floating_ips(&all, Priority::Gate)
        .await
        .unwrap();
    let fip = found
        .iter()
        .find(|fip| fip.floating_ip_address.unwrap().to_string() == address);
    let ports =
        environment.get("OpenStackServer", "w1").await["status"]["resources"]["ports"].clone();
    assert_eq!(
        ports[0]["id"],
        fip.unwrap().port_id.as_ref().unwrap().as_str()
    );

    environment.cluster_api.delete("Machine", "w1").await;
    environment.until_gone("Machine", "w1").await;
    environment
        .until_gone("IPAddressClaim", "w1-floating-ip-address")
        .await;
    environment
        .until_gone("IPAddress", "w1-floating-ip-address")
        .await;
    assert!(!floating_ips(&environment).await.contains(&address));
    environment.cluster_api.delete(POOL, "pool").await;
    environment.until_gone(POOL, "pool").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_documented_manifest_works() {
    let environment = Environment::in_namespace("fip-documented").start().await;
    let mut pool = first_manifest("docs/floating-ips.md").unwrap();
    pool["metadata"]["namespace"] = json!(environment.namespace);
    pool["spec"]["identityRef"] = identity();
    create(&environment, pool).await;
    environment
        .until_object(POOL, "workers", |pool| {
            status_and_reason(pool, "Ready").0 == "True"
        })
        .await;
}
