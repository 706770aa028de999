//! The manifests in the documentation of clusters do what the pages say.

use serde_json::{Value, json};
use test_support::env::{
    Environment,
    environment::{identity, is},
};

use super::quick;
use crate::env::apply::documents;

const PAGES: [&str; 5] = [
    "networks",
    "security-groups",
    "load-balancers",
    "without-load-balancer",
    "bastion",
];

/// The manifests of a page.
fn manifests(page: &str) -> Vec<Value> {
    let path = test_support::repository(&format!("docs/{page}.md"));
    let text = std::fs::read_to_string(path).unwrap();
    let blocks = text.split("```yaml\n").skip(1);
    blocks
        .flat_map(|block| documents(block.split("```").next().unwrap()).unwrap())
        .collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_documented_manifest_works() {
    let environment = Environment::in_namespace("documented")
        .cloud(quick())
        .start()
        .await;
    environment.network("my-network").await;
    let mut names = Vec::new();
    for page in PAGES {
        let manifests = manifests(page);
        assert!(!manifests.is_empty(), "{page}");
        for mut manifest in manifests {
            let name = manifest["metadata"]["name"].as_str().unwrap().to_owned();
            manifest["metadata"]["namespace"] = json!(environment.namespace);
            manifest["spec"]["identityRef"] = identity();
            if page == "bastion" {
                // The objects that the manifests expect in the reader's cloud.
                let spec = &mut manifest["spec"]["bastion"]["spec"];
                spec["image"]["filter"]["name"] = json!("cirros");
                spec["sshKeyName"] = json!("");
            }
            environment
                .cluster_api
                .create_cluster(&name, manifest)
                .await;
            names.push(name);
        }
    }
    for name in &names {
        environment
            .until_object("OpenStackCluster", name, |cluster| {
                let wanted = match name.as_str() {
                    // There is no machine here, and only a machine can get the floating IP, so the cluster need not be
                    // Ready.
                    "own-network" | "security-groups" | "without-load-balancer" | "bastion" => {
                        &["NetworkReady", "RouterReady", "SecurityGroupsReady"][..]
                    }
                    _ => &["Ready"][..],
                };
                let has_bastion = name != "bastion" || is(cluster, "BastionReady", "True");
                cluster["status"]["initialization"]["provisioned"] == true
                    && wanted.iter().all(|kind| is(cluster, kind, "True"))
                    && has_bastion
            })
            .await;
    }
    let balanced = environment.get("OpenStackCluster", "load-balancer").await;
    let ranges = &balanced["status"]["apiServerManagedLoadBalancer"]["allowedCIDRs"];
    assert!(ranges.as_array().unwrap().contains(&json!("192.0.2.0/24")));
    for name in &names {
        environment.delete(name).await;
    }
    assert_eq!(
        environment.leftovers("my-network").len(),
        2,
        "network and subnet stay"
    );
}
