//! The gates, on control-plane machines of a cluster with a load balancer of ours.

use serde_json::{Value, json};

use test_support::env::{
    Environment,
    cluster_api::is_provisioned,
    environment::{identity, status_and_reason},
};

use super::machine_spec;

const HOOK: &str = "pre-terminate.delete.hook.machine.cluster.x-k8s.io/capo-load-balancer-member";

fn is_hooked(machine: &Value) -> bool {
    machine["metadata"]["annotations"][HOOK] == "capo-rs"
}

fn gate(object: &Value) -> (&str, &str) {
    status_and_reason(object, "APIServerLoadBalancerReady")
}

/// A cluster with a managed network and a load balancer, whose health monitor is quick.
fn cluster(namespace: &str) -> Value {
    json!({"apiVersion": "infrastructure.cluster.x-k8s.io/v1beta2", "kind": "OpenStackCluster",
    "metadata": {"name": "c1", "namespace": namespace},
    "spec": {
        "identityRef": identity(),
        "managedSubnets": [{"cidr": "10.6.0.0/24"}],
        "managedSecurityGroups": {},
        "apiServer": {"managedLoadBalancer": {
            "enabled": true,
            "monitor": {"delay": 1, "timeout": 1, "maxRetries": 1, "maxRetriesDown": 1}}},
    }})
}

/// A cluster with a managed network and a load balancer, whose first machine is up.
async fn cluster_with_one_machine(namespace: &str) -> Environment {
    let environment = Environment::in_namespace(namespace).start().await;
    environment
        .cluster_api
        .create_cluster("c1", cluster(namespace))
        .await;
    environment
        .until_provisioned("OpenStackCluster", "c1")
        .await;
    control_plane_machine(&environment, "m0").await;
    environment
        .until_provisioned("OpenStackMachine", "m0")
        .await;
    // The Machine has its node. From here on it is a member of the control plane like any other.
    let joined = |machine: &Value| machine["status"]["nodeRef"].is_object();
    environment.until_object("Machine", "m0", joined).await;
    environment
}

async fn control_plane_machine(environment: &Environment, name: &str) {
    environment
        .cluster_api
        .create_machine("c1", name, true, machine_spec())
        .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_machine_is_held_until_octavia_has_provisioned_its_member() {
    let environment = cluster_with_one_machine("held-member").await;
    environment.command(json!({"hold": {"member": "-m1", "status": "PENDING_CREATE"}}));
    control_plane_machine(&environment, "m1").await;
    let held = environment
        .until_object("OpenStackMachine", "m1", |machine| {
            machine["status"]["instanceState"] == "ACTIVE"
                && gate(machine) == ("False", "MemberPending")
        })
        .await;
    assert!(!is_provisioned(&held));
    assert!(
        held["spec"]["providerID"].is_string(),
        "set as soon as the server exists"
    );
    assert_eq!(status_and_reason(&held, "InstanceReady"), ("True", "Ready"));
    assert_eq!(status_and_reason(&held, "Ready"), ("False", "NotReady"));
    assert_eq!(held["status"]["activeMembers"], "0/1");
    // Other machines do not wait while it is held.
    environment
        .cluster_api
        .create_machine("c1", "w1", false, machine_spec())
        .await;
    environment
        .until_provisioned("OpenStackMachine", "w1")
        .await;
    assert!(!is_provisioned(
        &environment.get("OpenStackMachine", "m1").await
    ));
    environment.command(json!({"release": ""}));
    let machine = environment
        .until_provisioned("OpenStackMachine", "m1")
        .await;
    assert_eq!(gate(&machine), ("True", "MembersActive"));
    environment
        .until_object("OpenStackMachine", "m1", |machine| {
            status_and_reason(machine, "Ready") == ("True", "Ready")
        })
        .await;
}

/// The process was the leader when it read the member, and is not when it is about to write.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_machine_is_not_called_provisioned_by_a_process_that_is_not_the_leader() {
    let environment = cluster_with_one_machine("admission-lease").await;
    environment.command(json!({"hold": {"member": "-m1", "status": "PENDING_CREATE"}}));
    control_plane_machine(&environment, "m1").await;
    environment
        .until_object("OpenStackMachine", "m1", |machine| {
            machine["status"]["instanceState"] == "ACTIVE"
                && gate(machine) == ("False", "MemberPending")
        })
        .await;
    environment.lease.revoke();
    environment.command(json!({"release": ""}));
    let open = environment
        .until_object("OpenStackMachine", "m1", |machine| {
            gate(machine) == ("True", "MembersActive")
        })
        .await;
    assert!(!is_provisioned(&open));
    environment
        .lease
        .extend_until(std::time::Instant::now() + std::time::Duration::from_hours(1));
    environment
        .until_provisioned("OpenStackMachine", "m1")
        .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_member_whose_creation_fails_is_repaired_before_its_machine_counts() {
    let environment = cluster_with_one_machine("failed-member").await;
    // The repairs of the member fail too, until the test has seen the failure.
    environment
        .command(json!({"operation": {"operation": "member-create", "name": "-m1", "fail": true}}));
    let early = std::sync::atomic::AtomicBool::new(false);
    control_plane_machine(&environment, "m1").await;
    environment
        .until_object("OpenStackMachine", "m1", |machine| {
            early.fetch_or(
                is_provisioned(machine),
                std::sync::atomic::Ordering::Relaxed,
            );
            gate(machine) == ("False", "MemberError")
        })
        .await;
    assert!(!early.into_inner());
    environment.command(json!({"clear": "operations"}));
    let machine = environment
        .until_provisioned("OpenStackMachine", "m1")
        .await;
    assert_eq!(gate(&machine), ("True", "MembersActive"));
    assert!(environment.cloud.control().duplicates().is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_last_serving_machine_is_held_at_our_hook_until_another_serves() {
    let environment = cluster_with_one_machine("hook-life").await;
    environment.until_object("Machine", "m0", is_hooked).await;
    environment.cluster_api.delete("Machine", "m0").await;
    let held = environment
        .until_object("OpenStackMachine", "m0", |machine| {
            gate(machine) == ("False", "NoOtherMemberServing")
        })
        .await;
    assert!(held["metadata"]["deletionTimestamp"].is_null());
    assert!(is_hooked(&environment.get("Machine", "m0").await));
    // When another machine serves, the hook is removed, then the member, then the server.
    control_plane_machine(&environment, "m1").await;
    environment
        .until_object("Machine", "m0", |machine| !is_hooked(machine))
        .await;
    // A gate that needs a newer read of a server causes one read, and not as many as fit into the wait.
    let looks = environment.calls("server_get");
    assert!(looks <= 40, "servers were looked at {looks} times");
    environment.until_gone("OpenStackMachine", "m0").await;
    environment.until_gone("Machine", "m0").await;
    assert_eq!(environment.leftovers("m0"), Vec::<String>::new());
    environment
        .until_object("OpenStackMachine", "m1", |survivor| {
            status_and_reason(survivor, "InstanceReady") == ("True", "Ready")
                && gate(survivor) == ("True", "MembersActive")
        })
        .await;
    environment.until_object("Machine", "m1", is_hooked).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hook_that_a_user_took_off_is_not_put_back() {
    let environment = cluster_with_one_machine("hook-override").await;
    environment.until_object("Machine", "m0", is_hooked).await;
    environment.cluster_api.delete("Machine", "m0").await;
    environment
        .until_object("OpenStackMachine", "m0", |machine| {
            gate(machine).0 == "False"
        })
        .await;
    environment
        .patch(
            "Machine",
            "m0",
            json!({"metadata": {"annotations": {HOOK: null}}}),
        )
        .await;
    environment.until_gone("Machine", "m0").await;
    assert_eq!(environment.leftovers("m0"), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn wiped_statuses_come_back_at_once_and_change_nothing_in_openstack() {
    let environment = cluster_with_one_machine("wiped").await;
    let is_ready = |object: &Value| status_and_reason(object, "Ready") == ("True", "Ready");
    environment
        .until_object("OpenStackCluster", "c1", is_ready)
        .await;
    environment
        .until_object("OpenStackMachine", "m0", is_ready)
        .await;
    let since = environment.cloud.control().last_call();
    for (kind, name, known) in [
        ("OpenStackServer", "m0", "instanceID"),
        ("OpenStackMachine", "m0", "addresses"),
        ("OpenStackCluster", "c1", "network"),
    ] {
        let before = environment.get(kind, name).await;
        environment.wipe_status(kind, name).await;
        // Nothing else causes a pass within ten minutes, and the test waits for less than that.
        let after = environment.until_object(kind, name, is_ready).await;
        assert_eq!(after["status"][known], before["status"][known], "{kind}");
        assert_eq!(
            after["status"]["initialization"], before["status"]["initialization"],
            "{kind}"
        );
    }
    assert_eq!(environment.writes_since(since), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_object_deleted_alone_waits_for_the_gate() {
    let environment = cluster_with_one_machine("server-alone").await;
    environment
        .cluster_api
        .delete("OpenStackServer", "m0")
        .await;
    environment
        .until_object("OpenStackServer", "m0", |server| {
            status_and_reason(server, "InstanceReady") == ("False", "NoOtherMemberServing")
        })
        .await;
    assert_eq!(environment.calls("server_delete"), 0);
}

/// A machine that the watch does not show any more still exists, so its gate holds its server.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_server_of_a_machine_that_lost_its_label_waits_for_the_gate() {
    const LABEL: &str = "cluster.x-k8s.io/watch-filter";
    let label = |value: Value| json!({"metadata": {"labels": {LABEL: value}}});
    let namespace = "server-unlabelled";
    let environment = Environment::in_namespace(namespace)
        .watch_filter("blue")
        .start()
        .await;
    let mut cluster = cluster(namespace);
    cluster["metadata"]["labels"] = json!({LABEL: "blue"});
    environment.cluster_api.create_cluster("c1", cluster).await;
    environment
        .until_provisioned("OpenStackCluster", "c1")
        .await;
    control_plane_machine(&environment, "m0").await;
    environment
        .patch("OpenStackMachine", "m0", label(json!("blue")))
        .await;
    environment.until_object("Machine", "m0", is_hooked).await;
    environment
        .until_provisioned("OpenStackMachine", "m0")
        .await;
    let first = environment.get("OpenStackServer", "m0").await;

    environment
        .patch("OpenStackMachine", "m0", label(Value::Null))
        .await;
    environment
        .cluster_api
        .delete("OpenStackServer", "m0")
        .await;
    environment
        .until_object("OpenStackServer", "m0", |server| {
            matches!(
                status_and_reason(server, "InstanceReady"),
                ("False", "NoOtherMemberServing" | "NotYetObserved")
            )
        })
        .await;
    assert_eq!(environment.calls("server_delete"), 0);
    // The operator's bypass opens it, which shows that the gate held the machine.
    let until = jiff::Timestamp::now() + jiff::SignedDuration::from_hours(1);
    let bypass = json!({"metadata": {"labels": {LABEL: "blue"},
        "annotations": {"infrastructure.cluster.x-k8s.io/load-balancer-gate": format!("bypass until={until} reason=known")}}});
    environment.patch("OpenStackMachine", "m0", bypass).await;
    // The machine lives on and creates its server again at once.
    environment
        .until_object("OpenStackServer", "m0", |server| {
            server["metadata"]["uid"] != first["metadata"]["uid"]
        })
        .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_goes_at_once_with_everything_that_is_in_it() {
    let environment = cluster_with_one_machine("cluster-end").await;
    environment.command(json!({"hold": {"member": "-m1", "status": "PENDING_CREATE"}}));
    control_plane_machine(&environment, "m1").await;
    environment
        .until_object("OpenStackMachine", "m1", |machine| {
            gate(machine) == ("False", "MemberPending")
        })
        .await;
    environment.until_object("Machine", "m1", is_hooked).await;
    environment.cluster_api.delete("Cluster", "c1").await;
    environment.until_gone("Cluster", "c1").await;
    for text in ["cluster-end-c1", "m0", "m1"] {
        assert_eq!(environment.leftovers(text), Vec::<String>::new(), "{text}");
    }
}
