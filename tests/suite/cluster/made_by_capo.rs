//! The objects that CAPO leaves in OpenStack, created by plain calls.

use reqwest::Method;
use serde_json::{Value, json};

use crate::contract::Raw;
use test_support::waiting::until_true;

/// A user of the cloud who creates things as CAPO does.
pub(super) struct Capo {
    pub raw: Raw,
}

impl Capo {
    pub(super) async fn make(&self, service: &str, path: &str, kind: &str, body: Value) -> Value {
        let url = self.raw.address(service, path);
        let (status, answer) = self
            .raw
            .send(Method::POST, &url, Some(json!({kind: body})))
            .await;
        assert!(status < 300, "{path}: {status} {answer}");
        answer[kind].clone()
    }

    pub(super) async fn put(&self, service: &str, path: &str, body: Value) {
        let url = self.raw.address(service, path);
        let (status, answer) = self.raw.send(Method::PUT, &url, Some(body)).await;
        assert!(status < 300, "{path}: {status} {answer}");
    }

    pub(super) async fn balancer_is_active(&self, id: &str) {
        until_true("the load balancer is ACTIVE", async || {
            let path = format!("loadbalancers/{id}");
            let (_, found) = self.raw.get("load-balancer", &path).await;
            found["loadbalancer"]["provisioning_status"] == "ACTIVE"
        })
        .await;
    }

    pub(super) async fn listed(&self, service: &str, path: &str, kind: &str, name: &str) -> Value {
        let (_, all) = self.raw.get(service, path).await;
        let all = all[kind].as_array().unwrap();
        all.iter().find(|one| one["name"] == name).unwrap().clone()
    }

    /// A group with the rules that CAPO gives it where not all traffic is allowed in the cluster.
    pub(super) async fn security_groups(&self, base: &str, tag: &str) -> (Value, Value) {
        let mut ids = Vec::new();
        for role in ["controlplane", "worker"] {
            let name = format!("k8s-cluster-{base}-secgroup-{role}");
            let body = json!({"name": name, "description": "Cluster API managed group"});
            let group = self
                .make("network", "security-groups", "security_group", body)
                .await;
            self.tag("security-groups", &group["id"], tag).await;
            ids.push(group["id"].clone());
        }
        let (control_plane, worker) = (ids[0].clone(), ids[1].clone());
        let tcp = |group: &Value, ports: (u16, u16), from: Value| {
            let mut rule = json!({"security_group_id": group, "direction": "ingress", "ethertype": "IPv4",
                "protocol": "tcp", "port_range_min": ports.0, "port_range_max": ports.1});
            for (key, value) in from.as_object().unwrap() {
                rule[key] = value.clone();
            }
            rule
        };
        let from = |group: &Value| json!({"remote_group_id": group});
        let mut rules = vec![
            tcp(&control_plane, (6443, 6443), json!({})),
            tcp(&control_plane, (2379, 2380), from(&control_plane)),
            tcp(&control_plane, (10250, 10250), from(&control_plane)),
            tcp(&control_plane, (10250, 10250), from(&worker)),
            tcp(&worker, (10250, 10250), from(&worker)),
            tcp(&worker, (10250, 10250), from(&control_plane)),
        ];
        for protocol in ["tcp", "udp"] {
            for source in [
                json!({"remote_ip_prefix": "10.6.0.0/24"}),
                from(&worker),
                from(&control_plane),
            ] {
                let mut rule = tcp(&worker, (30000, 32767), source);
                rule["protocol"] = json!(protocol);
                rules.push(rule);
            }
        }
        for rule in rules {
            self.make(
                "network",
                "security-group-rules",
                "security_group_rule",
                rule,
            )
            .await;
        }
        (control_plane, worker)
    }

    pub(super) async fn tag(&self, collection: &str, id: &Value, tag: &str) {
        let path = format!("{collection}/{}/tags", id.as_str().unwrap());
        self.put("network", &path, json!({"tags": [tag]})).await;
    }
}

/// What CAPO leaves behind of a bastion.
pub(super) struct Bastion {
    pub group: Value,
    pub port: Value,
    pub server: Value,
    pub floating: Value,
}

impl Bastion {
    pub(super) fn address(&self) -> &Value {
        &self.port["fixed_ips"][0]["ip_address"]
    }

    pub(super) fn floating_address(&self) -> &Value {
        &self.floating["floating_ip_address"]
    }

    pub(super) fn status(&self) -> Value {
        json!({"id": self.server["id"], "name": "c1-bastion", "state": "ACTIVE", "ip": self.address(),
            "floatingIP": self.floating_address()})
    }
}

pub(super) fn bastion_machine() -> Value {
    json!({"identityRef": {"type": "Secret", "name": "cloud-config", "cloudName": "demo"},
        "flavor": {"filter": {"name": "m1.small"}}, "image": {"filter": {"name": "cirros"}}})
}

impl Capo {
    /// Creates a bastion with its group, from which every node accepts SSH.
    pub(super) async fn bastion(
        &self,
        base: &str,
        network: &Value,
        external: &Value,
        nodes: [&Value; 2],
    ) -> Bastion {
        let tag = format!("of-{base}");
        let name = format!("k8s-cluster-{base}-secgroup-bastion");
        let body = json!({"name": name, "description": "Cluster API managed group"});
        let group = self
            .make("network", "security-groups", "security_group", body)
            .await;
        self.tag("security-groups", &group["id"], &tag).await;
        let group = group["id"].clone();
        let ssh = |into: &Value, from: Value| {
            json!({"security_group_id": into, "direction": "ingress", "ethertype": "IPv4", "protocol": "tcp",
                "port_range_min": 22, "port_range_max": 22, "remote_group_id": from})
        };
        let mut rules = vec![ssh(&group, Value::Null)];
        rules.extend(nodes.map(|node| ssh(node, group.clone())));
        for rule in rules {
            self.make(
                "network",
                "security-group-rules",
                "security_group_rule",
                rule,
            )
            .await;
        }
        let port = json!({"name": "c1-bastion-0", "network_id": network, "security_groups": [group],
            "description": "Created by cluster-api-provider-openstack cluster c1"});
        let port = self.make("network", "ports", "port", port).await;
        self.tag("ports", &port["id"], &tag).await;
        let flavor = self
            .listed("compute", "flavors/detail", "flavors", "m1.small")
            .await;
        let image = self.listed("image", "images", "images", "cirros").await;
        let server = json!({"name": "c1-bastion", "flavorRef": flavor["id"], "imageRef": image["id"],
            "networks": [{"port": port["id"]}]});
        let server = self.make("compute", "servers", "server", server).await;
        let path = format!("servers/{}", server["id"].as_str().unwrap());
        until_true("the bastion is ACTIVE", async || {
            self.raw.get("compute", &path).await.1["server"]["status"] == "ACTIVE"
        })
        .await;
        let floating = json!({"floating_network_id": external, "port_id": port["id"],
            "description": format!("Created by cluster-api-provider-openstack cluster {base}")});
        let floating = self
            .make("network", "floatingips", "floatingip", floating)
            .await;
        self.tag("floatingips", &floating["id"], &tag).await;
        Bastion {
            group,
            port,
            server,
            floating,
        }
    }
}
