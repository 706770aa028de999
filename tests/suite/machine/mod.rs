//! Machines and servers against a real kube-apiserver and a fake OpenStack.

mod address_pairs;
mod bad_days;
mod calls;
mod floating_ip_pools;
mod gates;
mod images;
mod killed;
mod namesakes;
mod replay;
mod server_groups;
mod servers;
mod stand_alone;
mod takeover;

use serde_json::{Value, json};

use crate::env::{Environment, environment::is};

/// The least that a machine needs.
pub(crate) fn machine_spec() -> Value {
    json!({"image": {"filter": {"name": "cirros"}}, "flavor": {"filter": {"name": "m1.small"}}})
}

/// The object as soon as it is Ready.
async fn until_ready(environment: &Environment, kind: &str, name: &str) -> Value {
    let is_ready = |object: &Value| is(object, "Ready", "True");
    environment.until_object(kind, name, is_ready).await
}

/// Deletes an OpenStackServer, and waits until it is gone.
async fn delete_server(environment: &Environment, name: &str) {
    environment
        .cluster_api
        .delete("OpenStackServer", name)
        .await;
    environment.until_gone("OpenStackServer", name).await;
}
