//! If Octavia does not give the status tree of a load balancer, lists are read instead.

use serde_json::{Value, json};

use super::control_plane::{accepted, cluster, create, gate, is_provisioned, join, until_held};
use capo_core::Priority;
use test_support::{env::Environment, waiting::until};

fn balancer(cluster: &Value) -> &str {
    cluster["status"]["apiServerManagedLoadBalancer"]["id"]
        .as_str()
        .unwrap_or_default()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn where_the_status_tree_is_denied_or_absent_lists_lead_to_the_same_verdicts() {
    for (namespace, status) in [
        ("tree-denied", 403),
        ("tree-absent", 404),
        ("tree-not-implemented", 501),
    ] {
        let environment = Environment::in_namespace(namespace).start().await;
        environment.command(
            json!({"fault": {"match": {"label": "loadbalancer_status_tree"}, "status": status}}),
        );
        cluster(&environment, "10.6.0.0/24", "amphora").await;
        join(&environment, &["m0"]).await;
        // A member that fails holds its machine until it is repaired.
        environment.command(json!({"operation": {"operation": "member-create", "name": "-m1", "fail": true, "count": 1}}));
        let locked = json!({"match": {"label": "loadbalancer_member_delete"}, "status": 409});
        let locked = environment.command(json!({"fault": locked}))["id"].clone();
        create(&environment, "m1").await;
        until_held(&environment, "m1", "MemberError", &["port 6443"]).await;
        environment.command(json!({"remove_fault": locked}));
        environment
            .until_object("OpenStackMachine", "m1", |machine| {
                is_provisioned(machine) && gate(machine).1 == "MembersActive"
            })
            .await;
        // A release ends: the member is removed first, and then the machine.
        environment.cluster_api.delete("Machine", "m0").await;
        environment.until_gone("Machine", "m0").await;
        assert_eq!(
            environment.leftovers("m0"),
            Vec::<String>::new(),
            "{status}"
        );
        let settled = environment
            .until_object("OpenStackCluster", "c1", |cluster| {
                gate(cluster).0 == "True"
            })
            .await;
        // A list that answers 404 does not show that the load balancer is absent.
        let missing = json!({"match": {"label": "loadbalancer_member_list"}, "status": 404});
        let missing = environment.command(json!({"fault": missing}))["id"].clone();
        create(&environment, "m2").await;
        until_held(&environment, "m2", "OpenStackUnavailable", &["404"]).await;
        environment.command(json!({"remove_fault": missing}));
        environment
            .until_provisioned("OpenStackMachine", "m2")
            .await;
        // An absent load balancer is distinguished from an absent tree.
        let old = balancer(&settled).to_owned();
        let cloud = environment.openstack();
        let id = old.as_str().into();
        until("the deletion is accepted", async || {
            accepted(cloud.delete_load_balancer(&id, Priority::Gate).await)
        })
        .await;
        environment
            .until_object("OpenStackCluster", "c1", |cluster| {
                !balancer(cluster).is_empty()
                    && balancer(cluster) != old
                    && gate(cluster).0 == "True"
            })
            .await;
    }
}
