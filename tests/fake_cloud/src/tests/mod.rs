//! Tests of the cloud: without HTTP and with an explicit time, over HTTP, and through its balancers.

mod anomalies;
mod faults;
mod http;
mod https_monitor;
mod octavia;
mod scale;
mod security_groups;
mod services;
mod traffic;

use std::time::Duration;

use serde_json::{Value, json};

use crate::{
    command::Command,
    identity::Caller,
    settings::{Durations, Options},
    wire::{Body, Request, Service},
    world::{ADMIN_PROJECT, PROJECT, World},
};

/// A cloud without HTTP, whose time the test advances.
struct Pure {
    world: World,
    elapsed: Duration,
    caller: Caller,
}

impl Pure {
    /// A cloud with operations of 1 s, load balancers of 8 s, and 10 ms between transactions.
    fn new() -> Self {
        Self::with(&Options {
            data_path: false,
            ..Options::default()
        })
    }

    fn with(options: &Options) -> Self {
        let range = "203.0.113.0/24".parse().unwrap();
        let wall = "2026-03-01T12:00:00.6Z".parse().unwrap();
        let mut world = World::new(options, range, 7, wall);
        world.durations = Durations {
            step: 0.01,
            ..options.durations
        };
        Self {
            world,
            elapsed: Duration::ZERO,
            caller: Caller {
                project: PROJECT.into(),
                user: "demo".into(),
                credential: "demo".into(),
                roles: vec!["member".into()],
            },
        }
    }

    fn admin(&mut self) {
        self.caller.project = ADMIN_PROJECT.into();
        self.caller.roles = vec!["admin".into()];
    }

    /// Lets `seconds` pass.
    fn pass(&mut self, seconds: f64) {
        self.elapsed += Duration::from_secs_f64(seconds);
        self.world.advance(self.elapsed);
    }

    fn call(&mut self, method: &str, path: &str, body: Value) -> (u16, Value) {
        let (path, query) = path.split_once('?').unwrap_or((path, ""));
        let mut segments: Vec<String> = path
            .split('/')
            .filter(|segment| !segment.is_empty())
            .map(str::to_owned)
            .collect();
        let service = Service::of_prefix(&segments.remove(0)).unwrap();
        let headers = match service {
            Service::Compute => vec![(
                "openstack-api-version".to_owned(),
                "compute 2.53".to_owned(),
            )],
            _ => Vec::new(),
        };
        let request = Request {
            service,
            method: method.to_owned(),
            segments,
            query: url::form_urlencoded::parse(query.as_bytes())
                .into_owned()
                .collect(),
            headers,
            body,
            base: "http://cloud".into(),
            caller: self.caller.clone(),
        };
        let reply = self.world.apply(&request, self.elapsed);
        let body = match reply.body {
            Body::Json(body) => body,
            Body::Text(_, text) => json!(text),
            Body::Empty => Value::Null,
        };
        (reply.status, body)
    }

    fn get(&mut self, path: &str) -> Value {
        let (status, body) = self.call("GET", path, Value::Null);
        assert_eq!(status, 200, "GET {path}: {body}");
        body
    }

    fn lb(&mut self, method: &str, path: &str, body: Value) -> (u16, Value) {
        self.call(method, &format!("/load-balancer/v2/lbaas/{path}"), body)
    }

    fn command(&mut self, command: Value) -> Value {
        let command: Command = serde_json::from_value(command).unwrap();
        self.world.command(command).unwrap()
    }

    /// Creates a network with a subnet; returns their ids.
    fn network(&mut self, cidr: &str) -> (String, String) {
        let (_, network) = self.call(
            "POST",
            "/network/v2.0/networks",
            json!({ "network": { "name": "net" } }),
        );
        let network = id(&network, "network");
        let body = json!({ "subnet": { "name": "sub", "network_id": network, "cidr": cidr, "ip_version": 4 } });
        let (status, subnet) = self.call("POST", "/network/v2.0/subnets", body);
        assert_eq!(status, 201, "{subnet}");
        (network, id(&subnet, "subnet"))
    }

    /// An ACTIVE load balancer with a listener and a pool.
    fn balancer(&mut self, provider: &str) -> Balancer {
        let (_, subnet) = self.network("10.6.0.0/24");
        let body = json!({ "loadbalancer": { "name": "lb", "vip_subnet_id": subnet, "provider": provider } });
        let (status, lb) = self.lb("POST", "loadbalancers", body);
        assert_eq!(status, 201, "{lb}");
        let lb = id(&lb, "loadbalancer");
        self.pass(9.0);
        let body = json!({ "listener": { "name": "li", "protocol": "TCP", "protocol_port": 6443, "loadbalancer_id": lb } });
        let (status, listener) = self.lb("POST", "listeners", body);
        assert_eq!(status, 201, "{listener}");
        let listener = id(&listener, "listener");
        self.pass(2.0);
        let algorithm = if provider == "ovn" {
            "SOURCE_IP_PORT"
        } else {
            "ROUND_ROBIN"
        };
        let body = json!({ "pool": { "name": "po", "protocol": "TCP", "lb_algorithm": algorithm, "listener_id": listener } });
        let (status, pool) = self.lb("POST", "pools", body);
        assert_eq!(status, 201, "{pool}");
        let pool = id(&pool, "pool");
        self.pass(2.0);
        Balancer { lb, listener, pool }
    }

    /// POST of a member; returns its id.
    fn member(&mut self, at: &Balancer, name: &str, address: &str) -> String {
        let body = json!({ "member": { "name": name, "address": address, "protocol_port": 6443 } });
        let (status, member) = self.lb("POST", &format!("pools/{}/members", at.pool), body);
        assert_eq!(status, 201, "{member}");
        id(&member, "member")
    }

    /// A member that is ACTIVE.
    fn settled(&mut self, at: &Balancer, name: &str, address: &str) -> String {
        let member = self.member(at, name, address);
        self.pass(2.0);
        member
    }

    /// Statuses of load balancer, listener, pool, then members by name: `A A A m1:A m2:PC`.
    fn statuses(&mut self, at: &Balancer) -> String {
        let tree = self.get(&format!(
            "/load-balancer/v2/lbaas/loadbalancers/{}/status",
            at.lb
        ));
        let lb = &tree["statuses"]["loadbalancer"];
        let listener = &lb["listeners"][0];
        let pool = &listener["pools"][0];
        let mut members: Vec<String> = pool["members"]
            .as_array()
            .unwrap()
            .iter()
            .map(|member| format!("{}:{}", member["name"].as_str().unwrap(), short(member)))
            .collect();
        members.sort();
        format!(
            "{} {} {} {}",
            short(lb),
            short(listener),
            short(pool),
            members.join(" ")
        )
        .trim_end()
        .to_owned()
    }

    /// The statuses during the next `seconds`, after every transaction, without repetitions.
    fn status_history(&mut self, at: &Balancer, seconds: f64) -> Vec<String> {
        let end = self.elapsed + Duration::from_secs_f64(seconds);
        let mut seen = vec![self.statuses(at)];
        while self.elapsed < end {
            self.pass(0.005);
            let statuses = self.statuses(at);
            if seen.last() != Some(&statuses) {
                seen.push(statuses);
            }
        }
        seen
    }
}

struct Balancer {
    lb: String,
    listener: String,
    pool: String,
}

fn id(body: &Value, kind: &str) -> String {
    body[kind]["id"]
        .as_str()
        .unwrap_or_else(|| panic!("no {kind} in {body}"))
        .to_owned()
}

fn short(row: &Value) -> &'static str {
    match row["provisioning_status"].as_str().unwrap() {
        "ACTIVE" => "A",
        "ERROR" => "E",
        "PENDING_CREATE" => "PC",
        "PENDING_UPDATE" => "PU",
        "PENDING_DELETE" => "PD",
        other => panic!("{other}"),
    }
}
