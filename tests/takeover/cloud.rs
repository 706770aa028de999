//! The objects of a cluster in its cloud, and the changes that a test makes to them by hand.

use std::time::Duration;

use reqwest::Method;
use serde_json::{Value, json};
use test_support::{
    contract::{Access, Raw},
    rollout::machines,
    waiting::{PATIENCE, Wait},
};

use crate::{
    moment::{Moment, Statuses},
    requests::{Requested, RequestingClient},
    tested_cluster::{CHECK, TestedCluster, Version},
};

impl TestedCluster {
    /// Starts a client that sends requests through the load balancer until it is stopped; `None` if no load balancer
    /// has a data path.
    pub(crate) async fn start_client(&self) -> Option<RequestingClient> {
        // The load balancers of these two do not serve at this moment.
        if let Moment::DeletingCluster | Moment::HalfCreatedCluster = Moment::of(self.kind) {
            return None;
        }
        let (_, found) = self.cloud.control().load_balancers(&self.balancer());
        let vip = found.first()?.0.vip_address.clone();
        if !vip.starts_with("127.") {
            return None;
        }
        let requested = match &self.control_plane {
            Some(control_plane) => {
                let endpoint = machines::endpoint(&self.client, &self.name).await?;
                Requested::Object(control_plane.target(endpoint).await)
            }
            None => Requested::Connection(format!("{vip}:6443")),
        };
        Some(RequestingClient::start(requested))
    }

    /// Deletes the rule that lets the API server be reached, as by hand.
    pub(crate) async fn remove_api_rule(&self) -> Value {
        let raw = self.raw().await;
        let (_, groups) = raw.get("network", "security-groups").await;
        let name = format!("k8s-cluster-{0}-{0}-secgroup-controlplane", self.name);
        let groups = groups["security_groups"].as_array().unwrap();
        let group = groups.iter().find(|group| group["name"] == name.as_str());
        let (_, rules) = raw.get("network", "security-group-rules").await;
        let rules = rules["security_group_rules"].as_array().unwrap();
        let of_api = |rule: &&Value| {
            Some(&rule["security_group_id"]) == group.map(|group| &group["id"])
                && rule["port_range_min"] == 6443
        };
        let rule = rules.iter().find(of_api).unwrap().clone();
        let path = format!("security-group-rules/{}", rule["id"].as_str().unwrap());
        let (status, answer) = raw
            .send(Method::DELETE, &raw.address("network", &path), None)
            .await;
        assert!(status < 300, "{path}: {status} {answer}");
        rule
    }

    /// Creates a rule that [`TestedCluster::remove_api_rule`] has deleted.
    pub(crate) async fn restore_rule(&self, rule: Value) {
        let raw = self.raw().await;
        let mut wanted = json!({});
        for field in [
            "security_group_id",
            "direction",
            "ethertype",
            "protocol",
            "port_range_min",
            "port_range_max",
            "remote_ip_prefix",
            "remote_group_id",
            "description",
        ] {
            if !rule[field].is_null() {
                wanted[field] = rule[field].clone();
            }
        }
        let body = json!({"security_group_rule": wanted});
        let url = raw.address("network", "security-group-rules");
        let (status, answer) = raw.send(Method::POST, &url, Some(body)).await;
        assert!(status < 300, "{status} {answer}");
    }

    pub(crate) async fn raw(&self) -> Raw {
        Raw::sign_in(&Access {
            auth_url: self.cloud.auth_url(),
            user: "demo".into(),
            password: "secret".into(),
            project: "demo".into(),
        })
        .await
    }

    /// The writing calls to the cloud after a call, sign-ins left out.
    pub(crate) fn writes_since(&self, mark: u64) -> Vec<String> {
        let calls = self.cloud.control().calls_since(mark);
        calls
            .into_iter()
            .filter(|call| !["GET", "HEAD"].contains(&call.method.as_str()))
            .filter(|call| call.label != "token_create")
            .map(|call| {
                let status = call
                    .status
                    .map_or("no answer".to_owned(), |status| status.to_string());
                let body = call.body.map(|body| body.to_string()).unwrap_or_default();
                format!("{} {} {body} -> {status}", call.method, call.path)
            })
            .collect()
    }

    /// Waits until nothing has been changed in the cloud for this time.
    pub(crate) async fn until_quiet(&self, quiet: Duration) {
        let begun = tokio::time::Instant::now();
        loop {
            let mark = self.cloud.control().last_call();
            tokio::time::sleep(quiet).await;
            if self.writes_since(mark).is_empty() || begun.elapsed() > PATIENCE {
                return;
            }
        }
    }

    /// The present time on the clock of its cloud.
    pub(crate) fn cloud_time(&self) -> Duration {
        self.cloud.control().load_balancers("").0
    }

    /// The name of its network, subnet and router.
    pub(crate) fn managed(&self) -> String {
        format!("k8s-clusterapi-cluster-{0}-{0}", self.name)
    }

    /// The name of its load balancer.
    fn balancer(&self) -> String {
        format!("{}-kubeapi", self.managed())
    }

    /// Waits until the statuses of its load balancer and members are as wanted.
    pub(crate) async fn until_balancer(
        &self,
        what: &str,
        wanted: impl Fn(&Statuses) -> bool,
    ) -> Result<(), String> {
        let wait = Wait::default().between(Duration::from_millis(100));
        wait.ok(async || {
            let (_, found) = self.cloud.control().load_balancers(&self.balancer());
            let mut statuses = Statuses::new();
            for (balancer, _) in &found {
                statuses.push((String::new(), balancer.head.provisioning));
                for member in balancer.pools.iter().flat_map(|pool| &pool.members) {
                    statuses.push((member.head.name.clone(), member.head.provisioning));
                }
            }
            if wanted(&statuses) {
                Ok(())
            } else {
                Err(format!("it is not so that {what}: {statuses:?}"))
            }
        })
        .await
    }

    /// Waits until no object of it is left in Kubernetes and in the cloud.
    pub(crate) async fn is_deleted(&self) -> Result<(), String> {
        let v = Version::V1Beta1;
        self.until_object("Cluster", &self.name, v, Value::is_null)
            .await?;
        let left = self
            .cloud
            .control()
            .leftovers(&format!("{0}-{0}", self.name));
        if left.is_empty() {
            Ok(())
        } else {
            Err(format!("left in the cloud: {left:?}"))
        }
    }

    /// Gives its router another name, as by hand.
    pub(crate) async fn rename_router(&self, from: &str, to: &str) {
        let raw = self.raw().await;
        let (_, routers) = raw.get("network", "routers").await;
        let routers = routers["routers"].as_array().unwrap();
        let router = routers.iter().find(|router| router["name"] == from);
        let path = format!("routers/{}", router.unwrap()["id"].as_str().unwrap());
        let body = json!({"router": {"name": to}});
        let url = raw.address("network", &path);
        let (status, answer) = raw.send(Method::PUT, &url, Some(body)).await;
        assert!(status < 300, "{path}: {status} {answer}");
    }

    /// Checks that the load balancer has a member of the machine in ACTIVE on every port.
    pub(crate) async fn members_of(&self, machine: &str) -> Result<(), String> {
        let balancer = self.balancer();
        let seen = CHECK.ok(async || {
            let (_, found) = self.cloud.control().load_balancers(&balancer);
            let missing: Vec<u16> = self
                .kind
                .ports()
                .iter()
                .copied()
                .filter(|port| {
                    let wanted = format!("{balancer}-{port}-{machine}");
                    !found
                        .iter()
                        .flat_map(|(balancer, _)| &balancer.pools)
                        .any(|pool| {
                            pool.members.iter().any(|member| {
                                member.head.name == wanted
                                    && member.head.provisioning == fake_cloud::Provisioning::Active
                            })
                        })
                })
                .collect();
            if missing.is_empty() {
                Ok(())
            } else {
                Err(format!(
                    "{machine} is no ACTIVE member of ports {missing:?}"
                ))
            }
        });
        seen.await
    }
}
