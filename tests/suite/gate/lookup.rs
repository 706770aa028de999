//! The gates find the load balancer even if other parts of the cluster's infrastructure can't be read.

use serde_json::json;

use super::control_plane::{cluster, join};
use test_support::env::{Environment, cluster_api::condition};

/// The status of a call that the fault answers.
const FAILED: u16 = 500;

/// A new process knows neither the load balancer nor anything else of the cluster, and a part of the network can't be
/// read.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_a_restart_a_release_does_not_wait_for_network_router_or_security_groups() {
    let mut environment = Environment::in_namespace("lookup-first").start().await;
    cluster(&environment, "10.6.0.0/24", "amphora").await;
    join(&environment, &["m0", "m1", "m2", "m3"]).await;
    for (machine, part, kind) in [
        ("m0", "/networks", "NetworkReady"),
        ("m1", "/routers", "RouterReady"),
        ("m2", "/security-groups", "SecurityGroupsReady"),
    ] {
        environment.stop().await;
        let path = format!("*{part}*");
        let fault = json!({"match": {"service": "network", "path": path}, "status": FAILED});
        environment.command(json!({"fault": fault}));
        let before = environment.cloud.control().last_call();
        environment.cluster_api.delete("Machine", machine).await;
        environment.start().await;
        environment.until_gone("Machine", machine).await;
        environment
            .until_object("OpenStackCluster", "c1", |cluster| {
                condition(cluster, kind)
                    .is_some_and(|(is, _, message)| is != "True" && message.contains("HTTP 500"))
            })
            .await;

        let calls = environment.cloud.control().calls_since(before);
        // The last call may not have been answered yet.
        let of_part: Vec<_> = calls
            .iter()
            .filter(|call| call.path.contains(part))
            .filter_map(|call| call.status)
            .collect();
        assert!(!of_part.is_empty(), "{machine}: the step was not tried");
        assert!(
            of_part.iter().all(|status| *status == FAILED),
            "{machine}: the step did not fail: {of_part:?}"
        );
        let first = |wanted: &dyn Fn(&fake_cloud::Call) -> bool| calls.iter().position(wanted);
        let looked_up = first(&|call| call.label == "loadbalancer_get");
        assert!(
            looked_up.is_some() && looked_up < first(&|call| call.path.contains(part)),
            "{machine}: the load balancer was not looked up before: {calls:#?}"
        );

        environment.command(json!({"clear": "faults"}));
        environment.one_more_pass("c1").await;
        environment
            .until_object("OpenStackCluster", "c1", |cluster| {
                condition(cluster, kind).is_some_and(|(is, ..)| is == "True")
            })
            .await;
    }
}
