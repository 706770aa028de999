//! The fake cloud's own data path behaves like a real HAProxy: the same steps have the same results with both.

use std::{
    net::{IpAddr, SocketAddr},
    path::PathBuf,
    time::Duration,
};

use fake_cloud::{Durations, FakeCloud, Options};
use reqwest::Method;
use serde_json::{Value, json};
use test_support::{
    contract::raw::{Access, Raw},
    env::programs,
    waiting::until,
};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    task::JoinHandle,
};

const PORT: u16 = 6443;

/// A load balancer with one listener and one pool.
struct Balanced {
    cloud: FakeCloud,
    client: Raw,
    /// The first three parts of the subnet's addresses.
    net: String,
    id: String,
    listener: String,
    pool: String,
    vip: SocketAddr,
}

impl Balanced {
    async fn start(haproxy: Option<PathBuf>) -> Self {
        let cloud = FakeCloud::start(Options {
            durations: Durations::instant(),
            haproxy,
            ..Options::default()
        })
        .await
        .unwrap();
        let client = Raw::sign_in(&Access {
            auth_url: cloud.auth_url(),
            user: "demo".to_owned(),
            password: "secret".to_owned(),
            project: "demo".to_owned(),
        })
        .await;
        // The subnet is derived from the port, because no two clouds have the same port.
        let port: u16 = cloud.base().rsplit(':').next().unwrap().parse().unwrap();
        let net = format!("127.{}.{}", 64 + (port >> 10), (port >> 2) & 0xff);
        let network = make(&client, "network", "network", json!({"name": "n"})).await;
        let subnet = json!({"name": "s", "network_id": network, "cidr": format!("{net}.0/24"), "ip_version": 4});
        let subnet = make(&client, "network", "subnet", subnet).await;
        let body = json!({"name": "lb", "vip_subnet_id": subnet, "provider": "amphora"});
        let id = make(&client, "load-balancer", "loadbalancer", body).await;
        let shown = until_active(&client, &id).await;
        let vip: IpAddr = serde_json::from_value(shown["vip_address"].clone()).unwrap();
        let body = json!({"protocol": "TCP", "protocol_port": PORT, "loadbalancer_id": id});
        let listener = make(&client, "load-balancer", "listener", body).await;
        until_active(&client, &id).await;
        let body =
            json!({"protocol": "TCP", "lb_algorithm": "ROUND_ROBIN", "listener_id": listener});
        let pool = make(&client, "load-balancer", "pool", body).await;
        until_active(&client, &id).await;
        let vip = SocketAddr::new(vip, PORT);
        Self {
            cloud,
            client,
            net,
            id,
            listener,
            pool,
            vip,
        }
    }

    async fn member(&self, host: u8) -> String {
        let address = format!("{}.{host}", self.net);
        let body = json!({"address": address, "protocol_port": PORT});
        let kind = format!("pools/{}/member", self.pool);
        let id = make(&self.client, "load-balancer", &kind, body).await;
        until_active(&self.client, &self.id).await;
        id
    }

    async fn write(&self, method: Method, path: &str, body: Option<Value>) {
        let url = self.client.address("load-balancer", path);
        let (status, answer) = self.client.send(method, &url, body).await;
        assert!((200..300).contains(&status), "{path}: {status} {answer}");
        until_active(&self.client, &self.id).await;
    }

    /// Waits until six connections in a row are answered by these, in any order. Both data paths follow a change a
    /// little later than Octavia's status.
    async fn until_answered_by(&self, expected: &str) {
        until(&format!("answers are {expected}"), async || {
            let mut answers = Vec::new();
            for _ in 0..6 {
                answers.push(answering_backend(self.vip).await.unwrap_or('-'));
            }
            answers.sort_unstable();
            (answers.iter().collect::<String>() == expected).then_some(())
        })
        .await;
    }

    /// Listens as a member. Every connection gets this name, and then its own bytes back.
    async fn backend(&self, name: &'static str, host: u8) -> JoinHandle<()> {
        let address = format!("{}.{host}:{PORT}", self.net);
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
}

/// Creates an object, and returns its id.
async fn make(client: &Raw, service: &str, kind: &str, body: Value) -> String {
    let url = client.address(service, &format!("{kind}s"));
    let kind = kind.rsplit('/').next().unwrap();
    let (status, made) = client
        .send(Method::POST, &url, Some(json!({ kind: body })))
        .await;
    assert!(status == 201 || status == 202, "{url}: {status} {made}");
    made[kind]["id"].as_str().unwrap().to_owned()
}

async fn until_active(client: &Raw, id: &str) -> Value {
    until("the load balancer is ACTIVE", async || {
        let path = format!("loadbalancers/{id}");
        let (_, mut body) = client.get("load-balancer", &path).await;
        let shown = body["loadbalancer"].take();
        (shown["provisioning_status"] == "ACTIVE").then_some(shown)
    })
    .await
}

async fn until_operating(client: &Raw, member: &str, status: &str) {
    until(&format!("{member} is {status}"), async || {
        let (_, body) = client.get("load-balancer", member).await;
        (body["member"]["operating_status"] == status).then_some(())
    })
    .await;
}

/// The name of the backend that answers; `None` when the connection ends without an answer.
async fn answering_backend(address: SocketAddr) -> Option<char> {
    let mut stream = TcpStream::connect(address).await.ok()?;
    let mut name = [0_u8; 1];
    let read = tokio::time::timeout(Duration::from_secs(6), stream.read_exact(&mut name)).await;
    read.ok()?.ok()?;
    Some(name[0].into())
}

/// Sends a byte over an established connection, and returns whether it comes back.
async fn echoes(stream: &mut TcpStream) -> bool {
    let mut byte = [0_u8; 1];
    stream.write_all(b"x").await.is_ok()
        && stream.read_exact(&mut byte).await.is_ok()
        && byte == *b"x"
}

async fn check_data_path(haproxy: Option<PathBuf>) {
    let at = Balanced::start(haproxy).await;
    let _a = at.backend("a", 201).await;
    let b = at.backend("b", 202).await;
    let first = at.member(201).await;
    at.until_answered_by("aaaaaa").await;
    let mut held = TcpStream::connect(at.vip).await.unwrap();
    let mut byte = [0_u8; 1];
    held.read_exact(&mut byte).await.unwrap();
    at.member(202).await;
    at.until_answered_by("aaabbb").await;

    // A connection that one member refuses is offered to another member.
    b.abort();
    assert!(b.await.is_err());
    at.until_answered_by("aaaaaa").await;

    // Weight 0 and the removal of a member end no established connection.
    let _b = at.backend("b", 202).await;
    let member = format!("pools/{}/members/{first}", at.pool);
    let weight = json!({"member": {"weight": 0}});
    at.write(Method::PUT, &member, Some(weight)).await;
    at.until_answered_by("bbbbbb").await;
    at.write(Method::DELETE, &member, None).await;
    assert!(echoes(&mut held).await);

    // A member that is disabled gets no connection; without a member nothing answers.
    let second = format!("pools/{}/members", at.pool);
    let (_, members) = at.client.get("load-balancer", &second).await;
    let second = format!("{second}/{}", members["members"][0]["id"].as_str().unwrap());
    let enabled = |is: bool| json!({"member": {"admin_state_up": is}});
    at.write(Method::PUT, &second, Some(enabled(false))).await;
    at.until_answered_by("------").await;
    at.write(Method::PUT, &second, Some(enabled(true))).await;
    at.until_answered_by("bbbbbb").await;

    // Clients outside of the allowed ranges are not served.
    let listener = format!("listeners/{}", at.listener);
    let allowed = |ranges: Value| Some(json!({"listener": {"allowed_cidrs": ranges}}));
    let elsewhere = allowed(json!(["10.0.0.0/8"]));
    at.write(Method::PUT, &listener, elsewhere).await;
    at.until_answered_by("------").await;
    let here = allowed(json!(["10.0.0.0/8", "127.0.0.0/8"]));
    at.write(Method::PUT, &listener, here).await;
    at.until_answered_by("bbbbbb").await;

    // A new member is up until its first check fails. A member whose checks fail gets no connection.
    let monitor = json!({"pool_id": at.pool, "type": "TCP", "delay": 1, "timeout": 1, "max_retries": 2, "max_retries_down": 2});
    make(&at.client, "load-balancer", "healthmonitor", monitor).await;
    until_active(&at.client, &at.id).await;
    let third = at.member(203).await;
    let third = format!("pools/{}/members/{third}", at.pool);
    until_operating(&at.client, &third, "ERROR").await;
    at.until_answered_by("bbbbbb").await;
    let _c = at.backend("c", 203).await;
    at.until_answered_by("bbbccc").await;

    // A member that was disabled is down until enough checks have succeeded.
    at.write(Method::PUT, &third, Some(enabled(false))).await;
    at.until_answered_by("bbbbbb").await;
    at.write(Method::PUT, &third, Some(enabled(true))).await;
    until_operating(&at.client, &third, "ERROR").await;
    assert_eq!(answering_backend(at.vip).await, Some('b'));
    until_operating(&at.client, &third, "ONLINE").await;
    at.until_answered_by("bbbccc").await;

    let commands = json!({"cut_connections": "lb"});
    let mut held = TcpStream::connect(at.vip).await.unwrap();
    held.read_exact(&mut byte).await.unwrap();
    at.cloud.control().run(commands).unwrap();
    until("the connection is cut", async || {
        (!echoes(&mut held).await).then_some(())
    })
    .await;

    let path = format!("loadbalancers/{}?cascade=true", at.id);
    let url = at.client.address("load-balancer", &path);
    assert_eq!(at.client.send(Method::DELETE, &url, None).await.0, 204);
    until("nothing listens", async || {
        TcpStream::connect(at.vip).await.is_err().then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_are_carried_as_by_haproxy() {
    check_data_path(None).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn haproxy_carries_connections() {
    check_data_path(Some(programs::haproxy().unwrap())).await;
}
