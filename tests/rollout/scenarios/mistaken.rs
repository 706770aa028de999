//! Objects that look like those of the cluster and are not: another project, and another machine's address.

use std::time::Duration;

use serde_json::{Value, json};

use super::{complete, stays_hooked};
use crate::{
    env::{
        apply::{apply, credentials},
        cluster_api::condition,
    },
    invariants::{Promises, secrets},
    rollout::{Rollout, RolloutOptions},
    timeline::What,
};

/// The Secret is replaced by one of another project, and a process that has never seen the cluster's own project must
/// judge a release. It creates nothing there and releases nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn in_another_project_nothing_is_created_and_nothing_released() {
    let (rollout, proof) = complete(RolloutOptions {
        name: "elsewhere",
        ..RolloutOptions::default()
    })
    .await;
    let control = rollout.cloud.control();
    for command in [
        json!({"project": {"id": "other", "name": "other"}}),
        json!({"user": {"name": "other", "password": "secret", "project": "other", "roles": ["member"]}}),
    ] {
        control.run(command).unwrap();
    }
    let own = secrets::clouds_yaml(&rollout.cloud).unwrap();
    let other = rollout
        .cloud
        .clouds_yaml()
        .replace("username: demo", "username: other")
        .replace("project_name: demo", "project_name: other");
    let leaving = rollout.machines().await.remove(0);

    let text = "the Secret leads to another project".to_owned();
    rollout.timeline.note(What::Broken(text.clone()));
    replace_credentials(&rollout, &other).await;
    let since = control.last_call();
    rollout.start_manager(&[]).await;
    rollout.delete("Machine", &leaving).await;
    rollout
        .until_object(
            "OpenStackCluster",
            &rollout.cluster,
            "is held in another project",
            |cluster| {
                condition(cluster, "OpenStackAuthenticationSucceeded").is_some_and(
                    |(is, _, message)| {
                        is == "False" && message.contains("nothing is created, deleted or released")
                    },
                )
            },
        )
        .await;
    stays_hooked(&rollout, &leaving, Duration::from_secs(10)).await;
    let calls = control.calls_since(since);
    let written: Vec<&str> = calls
        .iter()
        .filter(|call| call.method != "GET" && call.label != "token_create")
        .map(|call| call.label.as_str())
        .collect();
    assert_eq!(written, Vec::<&str>::new());

    replace_credentials(&rollout, &own).await;
    rollout.timeline.note(What::Mended(text));
    // The manager reads the Secret once a minute, and at its start.
    rollout.start_manager(&[]).await;
    rollout
        .until_object("Machine", &leaving, "is gone", Value::is_null)
        .await;
    rollout.until_complete().await;
    let figures = proof.end(rollout, &Promises::default()).await;
    assert_eq!(figures.failed, 0);
}

async fn replace_credentials(rollout: &Rollout, clouds_yaml: &str) {
    let secret = credentials(&rollout.namespace, "cloud-config", clouds_yaml);
    apply(&rollout.client, &[secret]).await.unwrap();
}

/// A user removes a machine with all of its objects but not its member, and the next machine gets its address. The
/// member that was left is removed, and the new machine gets its own and is admitted.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_member_that_was_left_at_a_reused_address_goes_and_the_new_machine_is_admitted() {
    let rollout = Rollout::start(RolloutOptions {
        name: "reused",
        ..RolloutOptions::default()
    })
    .await;
    rollout.until_complete().await;
    // The cloud gives the next machine the address of the newest machine as soon as it is free.
    let known = rollout.machines().await;
    let lost = known.last().unwrap().clone();
    let address = rollout.machines.alive()[&lost];
    rollout.kill_manager().await;
    for kind in ["Machine", "OpenStackMachine", "OpenStackServer"] {
        rollout.delete(kind, &lost).await;
        rollout
            .patch(kind, &lost, json!({"metadata": {"finalizers": null}}))
            .await;
        rollout
            .until_object(kind, &lost, "is gone", Value::is_null)
            .await;
    }
    let gone = json!({"set_server": {"server": lost, "status": "GONE"}});
    rollout.cloud.control().run(gone).unwrap();
    rollout.foreign_client().await.delete_port_at(address).await;
    // The requests that this machine was answering fail with it, so the client starts only after that.
    let proof = crate::rollout::proof::Proof::begin(&rollout).await;
    rollout.start_manager(&[]).await;
    let new = rollout.machine_after(&known).await;
    rollout.until_admitted(&new).await;
    rollout.until_complete().await;
    assert_eq!(rollout.machines.alive()[&new], address);
    let left = rollout.cloud.control().leftovers(&lost);
    assert!(left.is_empty(), "{left:?}");
    let promises = Promises {
        excused: vec![lost],
        ..Promises::default()
    };
    let figures = proof.end(rollout, &promises).await;
    assert_eq!(figures.failed, 0);
}
