//! A proof of requests through the floating IP counts for 15 s. If the hook is to be removed later than that, it stays
//! until there is a new proof.

use std::{collections::BTreeSet, time::Duration};

use serde_json::json;

use super::without_load_balancer::{HOOK, carrier, create, joined, machine, start};
use crate::{
    env::apply::apply,
    gate::writing::{releases, sent},
};

/// After this time the proof of a write that has arrived does not count any more.
const UNTIL_OLD: Duration = Duration::from_secs(16);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_machine_is_not_released_on_a_proof_that_has_grown_old_while_kubernetes_took_no_write() {
    let environment = start("floating-old-proof").await;
    let authority = json!({"apiVersion": "v1", "kind": "Secret",
        "metadata": {"name": "c1-ca", "namespace": environment.namespace}, "stringData": {"tls.crt": "a certificate"}});
    apply(&environment.admin, &[authority]).await.unwrap();
    create(&environment, json!({})).await;
    for name in ["cp-0", "cp-1"] {
        machine(&environment, name).await;
        joined(&environment, name).await;
    }
    let mut held = environment.writes.hold(releases("cp-0"));
    environment.cluster_api.delete("Machine", "cp-0").await;
    held.arrived().await;
    assert_eq!(carrier(&environment), "cp-1-0");

    // As long as Neutron fails, no pass over the cluster decides on the gate again or begins a new proof: the gate
    // stays open while its proof grows old.
    environment.endpoint_requests.forget();
    environment.command(json!({"fault": {"match": {"service": "network"}, "status": 503}}));
    tokio::time::sleep(UNTIL_OLD).await;
    assert_eq!(environment.endpoint_requests.endpoints(), BTreeSet::new());
    held.refuse_as_conflict();
    // The machine's controller tries again every second.
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert_eq!(sent(&environment, releases("cp-0")).len(), 0);
    let held = environment.get("Machine", "cp-0").await;
    assert!(held["metadata"]["annotations"][HOOK].is_string());

    // Once Neutron answers again, new requests go through the floating IP, and the hook is removed after them.
    environment.command(json!({"clear": "faults"}));
    environment.one_more_pass("c1").await;
    environment.until_gone("Machine", "cp-0").await;
    assert_ne!(environment.endpoint_requests.endpoints(), BTreeSet::new());
    assert_eq!(sent(&environment, releases("cp-0")).len(), 1);
    environment.delete("c1").await;
}
