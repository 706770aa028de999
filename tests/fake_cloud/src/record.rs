//! The record of calls: bounded, with counters that can be reset.

use std::{
    collections::{BTreeMap, VecDeque},
    time::Duration,
};

use serde::Serialize;
use serde_json::Value;

use crate::wire::{Request, Service};

/// One call.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Call {
    /// Its number, counted from 1 and never reused.
    pub sequence: u64,
    /// Seconds since the cloud came up.
    pub at: f64,
    /// The service.
    pub service: Service,
    /// The method.
    pub method: String,
    /// The path with its service prefix.
    pub path: String,
    /// The query string's pairs.
    pub query: Vec<(String, String)>,
    /// `<resource>_<verb>`: `server_get`, `loadbalancer_member_create`; `status_tree` for the tree, `version` and
    /// `token_create` for discovery and sign-in.
    pub label: String,
    /// The status of the answer; `None` while the call runs or hangs, or if it was broken off.
    pub status: Option<u16>,
    /// Project id of the token.
    pub project: String,
    /// User name or application credential name.
    pub credential: String,
    /// Seconds until the answer.
    pub duration: Option<f64>,
    /// The id of the fault that affected it.
    pub fault: Option<u64>,
    /// The body of a write.
    pub body: Option<Value>,
    /// `User-Agent`.
    pub agent: String,
}

/// The record.
#[derive(Debug)]
pub struct Record {
    calls: VecDeque<Call>,
    size: usize,
    next: u64,
    counters: BTreeMap<(Service, String), u64>,
}

impl Record {
    /// An empty record of bounded size.
    pub fn new(size: usize) -> Self {
        Self {
            calls: VecDeque::new(),
            size,
            next: 0,
            counters: BTreeMap::new(),
        }
    }

    /// Records that a call has arrived.
    pub fn begin(
        &mut self,
        request: &Request,
        label: &str,
        elapsed: Duration,
        fault: Option<u64>,
    ) -> u64 {
        self.next += 1;
        while self.calls.len() >= self.size.max(1) {
            self.calls.pop_front();
        }
        *self
            .counters
            .entry((request.service, label.to_owned()))
            .or_default() += 1;
        let secret = request.service == Service::Identity;
        self.calls.push_back(Call {
            sequence: self.next,
            at: elapsed.as_secs_f64(),
            service: request.service,
            method: request.method.clone(),
            path: request.path(),
            query: request.query.clone(),
            label: label.to_owned(),
            status: None,
            project: request.caller.project.clone(),
            credential: request.caller.credential.clone(),
            duration: None,
            fault,
            body: (!request.body.is_null() && !secret).then(|| request.body.clone()),
            agent: request.header("user-agent").unwrap_or_default().to_owned(),
        });
        self.next
    }

    /// Records that a call was answered.
    pub fn end(&mut self, sequence: u64, status: u16, elapsed: Duration) {
        let first = self.calls.front().map_or(0, |call| call.sequence);
        let place = sequence
            .checked_sub(first)
            .and_then(|place| usize::try_from(place).ok());
        if let Some(call) = place.and_then(|place| self.calls.get_mut(place)) {
            call.status = Some(status);
            call.duration = Some(elapsed.as_secs_f64() - call.at);
        }
    }

    /// The calls after a sequence number, oldest first.
    pub fn since(&self, sequence: u64) -> Vec<Call> {
        let first = self.calls.partition_point(|call| call.sequence <= sequence);
        self.calls.range(first..).cloned().collect()
    }

    /// The number of the last call.
    pub const fn last(&self) -> u64 {
        self.next
    }

    /// Calls by service and label since the last reset.
    pub const fn counters(&self) -> &BTreeMap<(Service, String), u64> {
        &self.counters
    }

    /// Removes recorded calls and resets counters.
    pub fn reset(&mut self) {
        self.calls.clear();
        self.counters.clear();
    }
}

/// The request label of a call: the names that the controllers' metrics use too.
pub fn label(request: &Request) -> String {
    let segments: Vec<&str> = request.segments.iter().map(String::as_str).collect();
    let method = request.method.as_str();
    let verb = |one: bool| match method {
        "GET" | "HEAD" if one => "get",
        "GET" | "HEAD" => "list",
        "POST" => "create",
        "PUT" | "PATCH" => "update",
        "DELETE" => "delete",
        _ => "other",
    };
    let plain = |resource: &str, one: bool| format!("{resource}_{}", verb(one));
    match (request.service, segments.as_slice()) {
        (Service::Identity, ["v3", "auth", "tokens"]) => format!("token_{}", verb(true)),
        (_, [] | [_]) => "version".to_owned(),
        (Service::Identity, ["v3", resource, tail @ ..]) => plain(resource, !tail.is_empty()),
        (Service::LoadBalancer, [_, "lbaas", rest @ ..]) => match rest {
            ["loadbalancers", _, "status" | "statuses"] => "loadbalancer_status_tree".to_owned(),
            ["loadbalancers", _, "failover"] => "loadbalancer_failover".to_owned(),
            ["loadbalancers", tail @ ..] => plain("loadbalancer", !tail.is_empty()),
            ["pools", _, "members"] if method == "PUT" => "loadbalancer_member_batch".to_owned(),
            ["pools", _, "members", tail @ ..] => plain("loadbalancer_member", !tail.is_empty()),
            ["listeners", tail @ ..] => plain("loadbalancer_listener", !tail.is_empty()),
            ["pools", tail @ ..] => plain("loadbalancer_pool", !tail.is_empty()),
            ["healthmonitors", tail @ ..] => plain("loadbalancer_healthmonitor", !tail.is_empty()),
            [other, tail @ ..] => plain(
                &format!("loadbalancer_{}", other.trim_end_matches('s')),
                !tail.is_empty(),
            ),
            [] => "version".to_owned(),
        },
        (Service::Network, [_, rest @ ..]) => match rest {
            ["extensions", ..] => "network_extension_list".to_owned(),
            [_, _, "tags", ..] if method == "PUT" => "attributes_tags_replace_all".to_owned(),
            [_, _, "tags", ..] => plain("attributes_tags", true),
            ["routers" | "trunks", _, action] => (*action).to_owned(),
            [collection, tail @ ..] => {
                let one = match *collection {
                    "floatingips" => "floating_ip".to_owned(),
                    other => other.trim_end_matches('s').replace('-', "_"),
                };
                plain(&one, !tail.is_empty())
            }
            [] => "version".to_owned(),
        },
        (Service::Compute, [_, rest @ ..]) => match rest {
            ["os-availability-zone", ..] => "availability_zone_list".to_owned(),
            ["servers" | "flavors", "detail"] => plain(
                rest.first().map_or("", |name| name.trim_end_matches('s')),
                false,
            ),
            ["servers", _, "os-interface", ..] => plain("server_os_interface", false),
            ["servers", _, "os-volume_attachments", ..] => plain("server_volume", false),
            ["servers", _, "action"] => "server_action".to_owned(),
            ["servers", tail @ ..] => plain("server", !tail.is_empty()),
            ["flavors", tail @ ..] => plain("flavor", !tail.is_empty()),
            ["os-server-groups", tail @ ..] => plain("server_group", !tail.is_empty()),
            [other, tail @ ..] => plain(
                &other.trim_start_matches("os-").replace('-', "_"),
                !tail.is_empty(),
            ),
            [] => "version".to_owned(),
        },
        (Service::Image, [_, _, tail @ ..]) => plain("image", !tail.is_empty()),
        (Service::Volume, rest) => {
            let place = rest.iter().position(|segment| *segment == "volumes");
            let tail = place
                .and_then(|place| rest.get(place + 1..))
                .unwrap_or_default();
            plain("volume", !matches!(tail, [] | ["detail"]))
        }
        _ => "other".to_owned(),
    }
}
