//! Counts of the calls to a cloud.

use fake_cloud::{Call, Control, Service};

/// The calls to Octavia after number `since`. Discovery doesn't count.
pub(crate) fn octavia(cloud: &Control, since: u64) -> Vec<Call> {
    let mut calls = cloud.calls_since(since);
    calls.retain(|call| call.service == Service::LoadBalancer && call.label != "version");
    calls
}

/// The labels of the calls, for messages.
pub(crate) fn labels(calls: &[Call]) -> Vec<(f64, &str, Option<u16>)> {
    calls
        .iter()
        .map(|call| (call.at, call.label.as_str(), call.status))
        .collect()
}

/// Id of the only load balancer whose name contains `text`.
pub(crate) fn load_balancer(cloud: &Control, text: &str) -> String {
    let dump = cloud.dump();
    let found = dump["load_balancers"]
        .as_array()
        .into_iter()
        .flatten()
        .find(|balancer| {
            balancer["name"]
                .as_str()
                .is_some_and(|name| name.contains(text))
        });
    found.unwrap()["id"].as_str().unwrap().to_owned()
}
