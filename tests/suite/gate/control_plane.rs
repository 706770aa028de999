//! A cluster with control-plane machines, and what tests of the gate look at in it.

use std::net::IpAddr;

use capo_core::{Priority, ProvisioningStatus};
use capo_openstack::load_balancer::{LoadBalancerFilter, Member, MemberUpdate, NewMember, Pool};
use k8s_openapi::api::events::v1::Event;
use kube::{Api, api::ListParams};
use serde_json::{Value, json};

use super::api_server::ApiServer;
use test_support::waiting::until;

use crate::{
    env::{Authority, apply::apply, cluster_api::condition},
    env::{Environment, environment::identity},
    machine::machine_spec,
};

pub(super) use crate::env::cluster_api::is_provisioned;

pub(super) const PRE_TERMINATE: &str =
    "pre-terminate.delete.hook.machine.cluster.x-k8s.io/capo-load-balancer-member";
pub(super) const PRE_DRAIN: &str =
    "pre-drain.delete.hook.machine.cluster.x-k8s.io/capo-load-balancer-member";
/// The hook of KubeadmControlPlane. The machine's etcd member and API server end when it is removed.
pub(super) const CONTROL_PLANE_HOOK: &str =
    "pre-terminate.delete.hook.machine.cluster.x-k8s.io/kcp-cleanup";
/// The annotation with the operator's override of the gate.
pub(super) const OVERRIDE: &str = "infrastructure.cluster.x-k8s.io/load-balancer-gate";
/// Tag of a member that waits for its API server.
pub(super) const JOINING: &str = "capo-rs-joining";

/// Whether the environment variable `CAPO_RS_DEEP` asks for full lengths, as `make deep` does.
pub(super) fn is_deep() -> bool {
    std::env::var_os("CAPO_RS_DEEP").is_some()
}

/// A cluster `c1` with a managed network and load balancer, whose health monitor is quick.
pub(super) async fn cluster(environment: &Environment, range: &str, provider: &str) {
    let spec = json!({
        "identityRef": identity(),
        "managedSubnets": [{"cidr": range}],
        "managedSecurityGroups": {},
        "apiServer": {"managedLoadBalancer": {
            "enabled": true, "provider": provider,
            "monitor": {"delay": 1, "timeout": 1, "maxRetries": 1, "maxRetriesDown": 1}}},
    });
    let object = json!({
        "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta2", "kind": "OpenStackCluster",
        "metadata": {"name": "c1", "namespace": environment.namespace}, "spec": spec,
    });
    environment.cluster_api.create_cluster("c1", object).await;
    environment
        .until_provisioned("OpenStackCluster", "c1")
        .await;
}

/// Creates a control-plane machine.
pub(super) async fn create(environment: &Environment, name: &str) {
    environment
        .cluster_api
        .create_machine("c1", name, true, machine_spec())
        .await;
}

/// Creates control-plane machines one after the other, as a control plane does. A new member is enabled by a write
/// after its machine was admitted. This write is also over.
pub(super) async fn join(environment: &Environment, names: &[&str]) {
    for name in names {
        create(environment, name).await;
        has_joined(environment, name).await;
        until_enabled(environment, name).await;
    }
}

/// Returns when the machine is admitted, has a node and carries our hook.
pub(super) async fn has_joined(environment: &Environment, name: &str) {
    environment
        .until_object("Machine", name, |machine| {
            machine["status"]["nodeRef"].is_object() && is_hooked(machine)
        })
        .await;
}

/// Returns when the machine's member gets traffic, its tag is off, and Octavia has applied that.
pub(super) async fn until_enabled(environment: &Environment, name: &str) {
    until("the member is enabled", async || {
        let found = member(environment, name).await?;
        let is_applied = found.provisioning_status == ProvisioningStatus::Active;
        if found.admin_state_up {
            assert!(!found.tags.iter().any(|tag| tag == JOINING), "{found:?}");
        }
        (found.admin_state_up && is_applied).then_some(())
    })
    .await;
}

/// A cluster whose members' health is not reported, and its first machine `m0`, whose API server is up.
pub(super) async fn first_up(namespace: &str, range: &str) -> (Environment, Authority, ApiServer) {
    let environment = Environment::in_namespace(namespace).start().await;
    environment.command(json!({"assumed_health": "silent"}));
    let authority = authority(&environment).await;
    cluster(&environment, range, "amphora").await;
    join(&environment, &["m0"]).await;
    let own = address(&environment, "m0").await;
    let server = ApiServer::listen((own, 6443), &authority, &["kubernetes"], 200).await;
    (environment, authority, server)
}

/// The cluster's authority, as Cluster API keeps it.
async fn authority(environment: &Environment) -> Authority {
    let authority = Authority::new("cluster authority").unwrap();
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret",
        "metadata": {"name": "c1-ca", "namespace": environment.namespace},
        "stringData": {"tls.crt": authority.certificate(), "tls.key": "not needed"},
    });
    apply(&environment.admin, &[secret]).await.unwrap();
    authority
}

pub(super) fn has(object: &Value, annotation: &str) -> bool {
    object["metadata"]["annotations"][annotation].is_string()
}

pub(super) fn is_hooked(machine: &Value) -> bool {
    has(machine, PRE_TERMINATE)
}

/// The status, reason and message of the gate's condition.
pub(super) fn gate(object: &Value) -> (&str, &str, &str) {
    condition(object, "APIServerLoadBalancerReady").unwrap_or_default()
}

/// Returns when the machine's condition has this reason and its message all of these words.
pub(super) async fn until_held(
    environment: &Environment,
    name: &str,
    reason: &str,
    words: &[&str],
) -> Value {
    environment
        .until_object("OpenStackMachine", name, |machine| {
            let (status, shown, message) = gate(machine);
            status != "True" && shown == reason && words.iter().all(|word| message.contains(word))
        })
        .await
}

/// The machine's own address.
pub(super) async fn address(environment: &Environment, name: &str) -> IpAddr {
    let machine = environment
        .until_object("OpenStackMachine", name, |machine| {
            internal(machine).is_some()
        })
        .await;
    internal(&machine).unwrap()
}

fn internal(machine: &Value) -> Option<IpAddr> {
    let addresses = machine["status"]["addresses"].as_array()?;
    let own = addresses
        .iter()
        .find(|address| address["type"] == "InternalIP")?;
    own["address"].as_str()?.parse().ok()
}

/// The endpoint's pool.
pub(super) async fn pool(environment: &Environment) -> Pool {
    let cloud = environment.openstack();
    let filter = LoadBalancerFilter {
        name: Some(balancer_name(environment)),
        ..LoadBalancerFilter::default()
    };
    let found = cloud.load_balancers(&filter, Priority::Gate).await.unwrap();
    let pools = cloud.pools(&found[0].id, Priority::Gate).await.unwrap();
    pools.into_iter().next().unwrap()
}

pub(super) fn balancer_name(environment: &Environment) -> String {
    format!(
        "k8s-clusterapi-cluster-{}-c1-kubeapi",
        environment.namespace
    )
}

/// A machine's member, as its user sees it.
pub(super) async fn member(environment: &Environment, machine: &str) -> Option<Member> {
    let pool = pool(environment).await;
    let members = environment
        .openstack()
        .members(&pool.id, Priority::Gate)
        .await
        .unwrap();
    let name = format!("-6443-{machine}");
    members
        .into_iter()
        .find(|member| member.name.ends_with(&name))
}

/// Makes a member by hand and waits until Octavia has done so.
pub(super) async fn stranger(environment: &Environment, name: &str, address: IpAddr) -> Member {
    let (cloud, pool) = (environment.openstack(), pool(environment).await);
    let new = NewMember {
        name: name.to_owned(),
        address,
        protocol_port: 6443,
        subnet_id: None,
        weight: None,
        admin_state_up: true,
        tags: Vec::new(),
    };
    until("the member is accepted", async || {
        accepted(cloud.create_member(&pool.id, &new, Priority::Gate).await)
    })
    .await
}

/// Writes of members since call number `since`, as `PUT <name or id> <body>`.
pub(super) fn member_writes(environment: &Environment, since: u64) -> Vec<fake_cloud::Call> {
    environment
        .cloud
        .control()
        .calls_since(since)
        .into_iter()
        .filter(|call| {
            call.method != "GET"
                && call.path.contains("/members")
                && call.status.is_some_and(|status| status < 300)
        })
        .collect()
}

/// Sets the operating status of a member from now on.
pub(super) async fn operating(environment: &Environment, machine: &str, status: &str) {
    let member = member(environment, machine).await.unwrap();
    environment.command(
        json!({"set_status": {"object": member.id, "kind": "member", "operating": status}}),
    );
}

/// Returns when the status of the OpenStackCluster shows that capo-rs has read this of a machine's member.
pub(super) async fn until_seen(environment: &Environment, machine: &str, operating: &str) {
    environment
        .until_object("OpenStackCluster", "c1", |cluster| {
            let members = &cluster["status"]["apiServerManagedLoadBalancer"]["members"];
            let mut own = members.as_array().into_iter().flatten();
            own.any(|member| member["machine"] == machine && member["operatingStatus"] == operating)
        })
        .await;
}

/// Sets or removes annotations.
pub(super) async fn annotate(
    environment: &Environment,
    kind: &str,
    name: &str,
    annotations: Value,
) {
    environment
        .patch(
            kind,
            name,
            json!({"metadata": {"annotations": annotations}}),
        )
        .await;
}

/// Warnings about an object, as `reason: note`.
pub(super) async fn warnings(environment: &Environment, kind: &str, name: &str) -> Vec<String> {
    let events: Api<Event> = Api::namespaced(environment.admin.clone(), &environment.namespace);
    let list = events.list(&ListParams::default()).await.unwrap();
    list.items
        .into_iter()
        .filter(|event| event.type_.as_deref() == Some("Warning"))
        .filter(|event| {
            event.regarding.as_ref().is_some_and(|about| {
                about.name.as_deref() == Some(name) && about.kind.as_deref() == Some(kind)
            })
        })
        .map(|event| {
            format!(
                "{}: {}",
                event.reason.unwrap_or_default(),
                event.note.unwrap_or_default()
            )
        })
        .collect()
}

/// Returns when a warning about an object has all of these words.
pub(super) async fn until_warned(
    environment: &Environment,
    kind: &str,
    name: &str,
    words: &[&str],
) {
    let what = format!("a warning about {kind} {name} with {words:?}");
    until(&what, async || {
        let warnings = warnings(environment, kind, name).await;
        let has_all = |warning: &String| words.iter().all(|word| warning.contains(word));
        warnings.iter().any(has_all).then_some(())
    })
    .await;
}

/// Sets the status of KubeadmControlPlane's condition for the machine's API server from now on.
pub(super) async fn pod_health(environment: &Environment, name: &str, status: &str) {
    let machine = environment.get("Machine", name).await;
    let mut conditions = machine["status"]["conditions"].as_array().unwrap().clone();
    for condition in &mut conditions {
        if condition["type"] == "APIServerPodHealthy" {
            condition["status"] = json!(status);
        }
    }
    environment
        .patch_status("Machine", name, json!({"conditions": conditions}))
        .await;
}

/// Changes a machine's member by hand, as soon as Octavia accepts that.
pub(super) async fn update(environment: &Environment, machine: &str, update: MemberUpdate) {
    let (cloud, pool) = (environment.openstack(), pool(environment).await);
    let member = member(environment, machine).await.unwrap();
    until("the update is accepted", async || {
        let updated = cloud.update_member(&pool.id, &member.id, &update, Priority::Gate);
        accepted(updated.await)
    })
    .await;
}

/// The answer of Octavia; `None` while the load balancer is locked by another change.
pub(super) fn accepted<T>(answer: Result<T, capo_openstack::Error>) -> Option<T> {
    match answer {
        Err(error) if error.class().is_conflict() => None,
        answer => Some(answer.unwrap()),
    }
}

/// Another machine joins, and its member waits for its API server, which KubeadmControlPlane finds unhealthy.
pub(super) async fn join_unhealthy(environment: &Environment, name: &str) {
    join(environment, &[name]).await;
    pod_health(environment, name, "False").await;
    let mut tags = member(environment, name).await.unwrap().tags;
    tags.push(JOINING.to_owned());
    let waits = MemberUpdate {
        admin_state_up: Some(false),
        tags: Some(tags),
        ..MemberUpdate::default()
    };
    update(environment, name, waits).await;
}
