//! Machines and servers against a real kube-apiserver and a fake OpenStack.

mod address_pairs;
mod bad_days;
mod calls;
mod floating_ip_pools;
mod gates;
mod images;
mod killed;
mod replay;
mod server_groups;
mod servers;
mod stand_alone;
mod takeover;

use serde_json::{Value, json};

/// The least that a machine needs.
pub(crate) fn machine_spec() -> Value {
    json!({"image": {"filter": {"name": "cirros"}}, "flavor": {"filter": {"name": "m1.small"}}})
}
