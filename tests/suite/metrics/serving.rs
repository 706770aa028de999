//! What any client that reaches the port of the metrics gets.

use std::path::Path;

use serde_json::json;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

use test_support::waiting::{PATIENCE, until_ok};

use crate::env::{
    Authority, Kubernetes, Manager, apply::apply, manager::get, prometheus::promtool,
};

/// A manager that serves metrics and does nothing else: no Kubernetes is needed for that.
struct Serving {
    manager: Manager,
    folder: tempfile::TempDir,
}

fn serving(arguments: &[&str]) -> Serving {
    let folder = tempfile::tempdir().unwrap();
    let kubeconfig = folder.path().join("kubeconfig");
    let nowhere = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "c",
        "clusters": [{"name": "c", "cluster": {"server": "https://127.0.0.1:1"}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}], "users": [{"name": "u", "user": {}}],
    });
    std::fs::write(&kubeconfig, nowhere.to_string()).unwrap();
    let certificates = format!("--webhook-cert-dir={}", folder.path().display());
    let mut all = vec![certificates.as_str(), "--webhook-port=0"];
    all.extend(arguments);
    let manager = Manager::start(folder.path(), &kubeconfig, &all).unwrap();
    Serving { manager, folder }
}

impl Serving {
    fn address(&self) -> String {
        self.manager
            .metrics_url()
            .split('/')
            .next()
            .unwrap()
            .to_owned()
    }

    async fn until_listening(&self) {
        until_ok("the manager listens", async || {
            let connected = TcpStream::connect(self.address()).await;
            connected.map_err(|_| self.manager.process.last_lines(10))
        })
        .await;
    }

    /// The status of the answer to a client without a token, over TLS with this authority; an error if the certificate
    /// is not trusted.
    async fn status(&self, authority: Option<&Authority>) -> Result<u16, reqwest::Error> {
        let client = authority.map_or_else(unchecked_client, Authority::https_client);
        let url = format!("https://{}/metrics", self.address());
        let answer = client.get(url).send().await?;
        Ok(answer.status().as_u16())
    }

    fn write(&self, certificate: &str, key: &str) {
        std::fs::write(self.folder.path().join("tls.crt"), certificate).unwrap();
        std::fs::write(self.folder.path().join("tls.key"), key).unwrap();
    }

    async fn until_trusted(&self, authority: &Authority) {
        until_ok("the certificate is trusted", async || {
            let status = self.status(Some(authority)).await;
            status.map_err(|_| self.manager.process.last_lines(10))
        })
        .await;
    }
}

/// An HTTPS client that takes any certificate.
fn unchecked_client() -> reqwest::Client {
    let client = reqwest::Client::builder().danger_accept_invalid_certs(true);
    client.build().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_certificate_is_our_own_until_there_is_one_and_the_last_good_one_ever_after() {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let mut serving = serving(&["--insecure-diagnostics=false"]);
    serving.until_listening().await;
    let (first, second) = (
        Authority::new("first").unwrap(),
        Authority::new("second").unwrap(),
    );
    assert_eq!(serving.status(None).await.unwrap(), 401);
    assert!(serving.status(Some(&first)).await.is_err());

    let pair = first.server(&["127.0.0.1"]).unwrap();
    serving.write(&pair.certificate, &pair.key);
    serving.until_trusted(&first).await;

    // The certificate files are replaced by half of a pair and then by other text. The manager logs each of them once,
    // and the first pair stays in use.
    serving.write("no certificate at all", &pair.key);
    serving
        .manager
        .until_logged("holds no certificate")
        .await
        .unwrap();
    assert_eq!(serving.status(Some(&first)).await.unwrap(), 401);
    let log = std::fs::read_to_string(serving.manager.process.log()).unwrap();
    assert!(
        log.contains("the previous one stays in use") && log.contains("tls.crt"),
        "{log}"
    );

    let pair = second.server(&["127.0.0.1"]).unwrap();
    serving.write(&pair.certificate, &pair.key);
    serving.until_trusted(&second).await;
    assert!(serving.status(Some(&first)).await.is_err());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn endless_and_huge_requests_are_cut() {
    let serving = serving(&[]);
    serving.until_listening().await;
    let connect = async || TcpStream::connect(serving.address()).await.unwrap();
    let answer = async |stream: &mut TcpStream| {
        let mut answer = Vec::new();
        let read = tokio::time::timeout(PATIENCE, stream.read_to_end(&mut answer)).await;
        assert!(read.is_ok(), "the connection stays open");
        String::from_utf8_lossy(&answer).into_owned()
    };

    // A client sends a head without an end, as fast as it is read.
    let mut stream = connect().await;
    let mut sent = 0_usize;
    stream
        .write_all(b"GET /metrics HTTP/1.1\r\nhost: x\r\n")
        .await
        .unwrap();
    while sent < 16 << 20
        && stream
            .write_all(format!("x-{sent}: {}\r\n", "a".repeat(1_000)).as_bytes())
            .await
            .is_ok()
    {
        sent += 1_000;
    }
    assert!(sent < 8 << 20, "{sent} bytes of a head were taken");

    // A client sends a body without an end. The answer comes without the body being read, and the connection closes.
    let mut stream = connect().await;
    stream
        .write_all(b"POST /metrics HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n")
        .await
        .unwrap();
    let chunk = format!("10000\r\n{}\r\n", "b".repeat(0x10000));
    let mut sent = 0_usize;
    while sent < 64 << 20 && stream.write_all(chunk.as_bytes()).await.is_ok() {
        sent += chunk.len();
    }
    assert!(sent < 32 << 20, "{sent} bytes of a body were taken");

    // A client sends an incomplete head and then nothing.
    let mut stream = connect().await;
    stream.write_all(b"GET /metrics HT").await.unwrap();
    answer(&mut stream).await;

    // After all of this the manager serves its metrics as before.
    let text = serving.manager.metrics().await;
    assert!(text.contains("capo_build_info"));
    assert_eq!(
        get(&serving.manager.metrics_url().replace("/metrics", "/debug"))
            .await
            .unwrap()
            .0,
        404
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_whose_token_can_not_be_reviewed_is_refused() {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let serving = serving(&["--insecure-diagnostics=false"]);
    serving.until_listening().await;
    let client = unchecked_client();
    let status_for = async |token: String| {
        let url = format!("https://{}/metrics", serving.address());
        client
            .get(url)
            .bearer_auth(token)
            .send()
            .await
            .unwrap()
            .status()
            .as_u16()
    };
    // Kubernetes does not answer here.
    assert_eq!(status_for("a-token".to_owned()).await, 503);
    assert_eq!(status_for("x".repeat(20_000)).await, 401);
}

/// A manager that does not lead shows no members and no budgets, and promtool finds nothing to say.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_scrape_of_one_that_does_not_lead_is_clean() {
    let serving = serving(&["--leader-elect"]);
    serving.until_listening().await;
    let text = serving.manager.metrics().await;
    assert!(!text.contains("capo_lb_members") && !text.contains("capo_gate_state"));
    let output = promtool(Path::new("."), &["check", "metrics"], &text).unwrap();
    assert!(
        output.status.success(),
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
}

/// The shipped reader role is enough, and Prometheus with the shipped scrape configuration gets through.
pub(super) async fn reader(kubernetes: &Kubernetes) -> String {
    let admin = kubernetes.admin().await.unwrap();
    let objects = [
        json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "prometheus", "namespace": "default"}}),
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": "prometheus"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "capo-metrics-reader"},
            "subjects": [{"kind": "ServiceAccount", "name": "prometheus", "namespace": "default"}],
        }),
    ];
    apply(&admin, &objects).await.unwrap();
    kubernetes.token("default", "prometheus").await.unwrap()
}
