//! Real TCP through the balancers. `tests/suite/haproxy.rs` shows what they have in common with a real HAProxy.

use std::{
    net::{IpAddr, SocketAddr},
    time::Duration,
};

use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    task::JoinHandle,
};

use super::http::{Client, cloud};
use crate::{FakeCloud, Options};

/// A separate subnet for each cloud of this test process and of other processes.
fn subnet_of(cloud: &FakeCloud) -> String {
    let port: u16 = cloud.base().rsplit(':').next().unwrap().parse().unwrap();
    format!("127.{}.{}", 64 + (port >> 10), (port >> 2) & 0xff)
}

/// Answers every connection with its name, and then echoes.
async fn backend(address: &str, name: &'static str) -> JoinHandle<()> {
    let listener = TcpListener::bind(address).await.unwrap();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                if stream.write_all(name.as_bytes()).await.is_ok() {
                    let (mut read, mut write) = stream.split();
                    let _ = tokio::io::copy(&mut read, &mut write).await;
                }
            });
        }
    })
}

/// The name of the backend that answers; `None` when the connection ends without an answer.
async fn answering_backend(address: SocketAddr) -> Option<String> {
    let mut stream = TcpStream::connect(address).await.ok()?;
    let mut name = [0_u8; 1];
    let read = tokio::time::timeout(Duration::from_secs(6), stream.read_exact(&mut name)).await;
    read.ok()?.ok()?;
    Some(String::from_utf8_lossy(&name).into_owned())
}

async fn answers(address: SocketAddr, count: usize) -> String {
    let mut all = Vec::new();
    for _ in 0..count {
        all.push(
            answering_backend(address)
                .await
                .unwrap_or_else(|| "-".into()),
        );
    }
    all.sort();
    all.concat()
}

pub(super) struct Balanced {
    cloud: FakeCloud,
    pub(super) client: Client,
    pub(super) net: String,
    lb: String,
    pub(super) pool: String,
    vip: SocketAddr,
}

impl Balanced {
    pub(super) async fn start(provider: &str) -> Self {
        let (cloud, client) = cloud(Options::default()).await;
        let net = subnet_of(&cloud);
        let network = client
            .make("/network/v2.0/networks", "network", json!({ "name": "n" }))
            .await;
        let subnet = json!({ "name": "s", "network_id": network, "cidr": format!("{net}.0/24"), "ip_version": 4 });
        let subnet = client.make("/network/v2.0/subnets", "subnet", subnet).await;
        let lbs = "/load-balancer/v2/lbaas";
        let body = json!({ "name": "lb", "vip_subnet_id": subnet, "provider": provider });
        let lb = client
            .make(&format!("{lbs}/loadbalancers"), "loadbalancer", body)
            .await;
        let path = format!("{lbs}/loadbalancers/{lb}");
        client
            .until_shown(&path, "/loadbalancer/provisioning_status", "ACTIVE")
            .await;
        let body = json!({ "name": "li", "protocol": "TCP", "protocol_port": 6443, "loadbalancer_id": lb });
        let listener = client
            .make(&format!("{lbs}/listeners"), "listener", body)
            .await;
        client
            .until_shown(&path, "/loadbalancer/provisioning_status", "ACTIVE")
            .await;
        let algorithm = if provider == "ovn" {
            "SOURCE_IP_PORT"
        } else {
            "ROUND_ROBIN"
        };
        let body = json!({ "name": "po", "protocol": "TCP", "lb_algorithm": algorithm, "listener_id": listener });
        let pool = client.make(&format!("{lbs}/pools"), "pool", body).await;
        client
            .until_shown(&path, "/loadbalancer/provisioning_status", "ACTIVE")
            .await;
        let (_, shown) = client.call("GET", &path, Value::Null).await;
        let vip: IpAddr = shown["loadbalancer"]["vip_address"]
            .as_str()
            .unwrap()
            .parse()
            .unwrap();
        Self {
            cloud,
            client,
            net,
            lb,
            pool,
            vip: SocketAddr::new(vip, 6443),
        }
    }

    pub(super) fn members(&self) -> String {
        format!("/load-balancer/v2/lbaas/pools/{}/members", self.pool)
    }

    async fn settle(&self) {
        let path = format!("/load-balancer/v2/lbaas/loadbalancers/{}", self.lb);
        self.client
            .until_shown(&path, "/loadbalancer/provisioning_status", "ACTIVE")
            .await;
        // A separate task carries out the push.
        let served = tokio::time::timeout(Duration::from_secs(5), async {
            while !self
                .cloud
                .control()
                .data_paths()
                .get(&self.lb)
                .is_some_and(|path| path.listening.contains(&self.vip))
            {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        });
        served.await.unwrap();
        tokio::time::sleep(Duration::from_millis(30)).await;
    }

    pub(super) async fn member(&self, name: &str, host: u8) -> String {
        let body = json!({ "name": name, "address": format!("{}.{host}", self.net), "protocol_port": 6443 });
        let id = self.client.make(&self.members(), "member", body).await;
        self.settle().await;
        id
    }

    async fn backend(&self, name: &'static str, host: u8) -> JoinHandle<()> {
        backend(&format!("{}.{host}:6443", self.net), name).await
    }
}

#[tokio::test]
async fn ovn_does_not_redispatch_and_knows_no_weights() {
    let at = Balanced::start("ovn").await;
    let _a = at.backend("a", 201).await;
    at.member("a", 201).await;
    let gone = at.member("b", 202).await;
    let seen = answers(at.vip, 10).await;
    assert_eq!(
        (seen.matches('a').count(), seen.matches('-').count()),
        (5, 5),
        "{seen}"
    );
    at.client
        .call(
            "PUT",
            &format!("{}/{gone}", at.members()),
            json!({ "member": { "weight": 0 } }),
        )
        .await;
    at.settle().await;
    assert_eq!(
        answers(at.vip, 10).await.matches('-').count(),
        5,
        "weight 0 does not drain"
    );
}

#[tokio::test]
async fn a_failed_push_leaves_the_old_configuration_running() {
    let at = Balanced::start("amphora").await;
    let _a = at.backend("a", 201).await;
    let _b = at.backend("b", 202).await;
    at.member("a", 201).await;
    let control = at.cloud.control();
    control
        .run(json!({ "operation": { "operation": "member-create", "fail": true, "count": 1 } }))
        .unwrap();
    let failed = at.member("b", 202).await;
    let (_, shown) = at
        .client
        .call("GET", &format!("{}/{failed}", at.members()), Value::Null)
        .await;
    assert_eq!(shown["member"]["provisioning_status"], "ERROR");
    assert_eq!(answers(at.vip, 4).await, "aaaa");
    control
        .run(json!({ "hold": { "member": "c", "status": "PENDING_CREATE" } }))
        .unwrap();
    let _c = at.backend("c", 203).await;
    at.member("c", 203).await;
    assert_eq!(
        answers(at.vip, 6).await,
        "aabbcc",
        "held in PENDING_CREATE, but pushed; and the failed one came along"
    );
}

#[tokio::test]
async fn a_floating_ip_listens_too_and_monitors_really_check() {
    let at = Balanced::start("amphora").await;
    let client = &at.client;
    let a = at.backend("a", 201).await;
    let first = at.member("a", 201).await;
    at.member("b", 202).await;
    let (_, networks) = client
        .call(
            "GET",
            "/network/v2.0/networks?router:external=True",
            Value::Null,
        )
        .await;
    let external = networks["networks"][0]["id"].clone();
    let (_, shown) = client
        .call(
            "GET",
            &format!("/load-balancer/v2/lbaas/loadbalancers/{}", at.lb),
            Value::Null,
        )
        .await;
    let gateway = json!({ "name": "r", "external_gateway_info": { "network_id": external } });
    let router = client
        .make("/network/v2.0/routers", "router", gateway)
        .await;
    let interface = json!({ "subnet_id": shown["loadbalancer"]["vip_subnet_id"] });
    client
        .call(
            "PUT",
            &format!("/network/v2.0/routers/{router}/add_router_interface"),
            interface,
        )
        .await;
    let body = json!({ "floatingip": { "floating_network_id": external, "port_id": shown["loadbalancer"]["vip_port_id"] } });
    let (status, floating) = client.call("POST", "/network/v2.0/floatingips", body).await;
    assert_eq!(status, 201, "{floating}");
    let floating: IpAddr = floating["floatingip"]["floating_ip_address"]
        .as_str()
        .unwrap()
        .parse()
        .unwrap();
    let floating = SocketAddr::new(floating, 6443);
    for _ in 0..100 {
        if at.cloud.control().data_paths()[&at.lb]
            .listening
            .contains(&floating)
        {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(answering_backend(floating).await.as_deref(), Some("a"));
    let monitor = json!({ "name": "hm", "pool_id": at.pool, "type": "TCP", "delay": 1, "timeout": 1, "max_retries": 1, "max_retries_down": 1 });
    client
        .make(
            "/load-balancer/v2/lbaas/healthmonitors",
            "healthmonitor",
            monitor,
        )
        .await;
    let path = format!("{}?name=b", at.members());
    client
        .until_shown(&path, "/members/0/operating_status", "ERROR")
        .await;
    client
        .until_shown(
            &format!("{}/{first}", at.members()),
            "/member/operating_status",
            "ONLINE",
        )
        .await;
    a.abort();
    client
        .until_shown(
            &format!("{}/{first}", at.members()),
            "/member/operating_status",
            "ERROR",
        )
        .await;
    assert_eq!(answering_backend(at.vip).await, None, "no backend is up");
    let _b = at.backend("b", 202).await;
    client
        .until_shown(&path, "/members/0/operating_status", "ONLINE")
        .await;
    assert_eq!(answering_backend(at.vip).await.as_deref(), Some("b"));
}
