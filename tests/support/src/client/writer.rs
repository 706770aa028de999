//! Changes the watched object all the time, with increasing numbers, so that a lost event is noticed.

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use http::Request;
use serde_json::json;
use tokio::task::JoinHandle;

use super::{Failure, NAMESPACE, OBJECT, Target};

/// The time between two changes.
const PACE: Duration = Duration::from_secs(1);
/// The pause between two attempts when no API server accepts the change.
const PAUSE: Duration = Duration::from_millis(200);

/// A running writer. It stops when dropped.
///
/// It writes to the API servers themselves and not through the endpoint, because the test of the endpoint must not
/// depend on it.
#[derive(Debug)]
pub struct Writer {
    written: Arc<AtomicU64>,
    work: JoinHandle<()>,
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.work.abort();
    }
}

impl Writer {
    /// Creates the object with the number 0, and starts to change it through the first of the current `servers` that
    /// accepts the change.
    pub async fn start(
        target: &Target,
        servers: impl Fn() -> Vec<SocketAddr> + Send + Sync + 'static,
    ) -> Result<Self, Failure> {
        create(target, &servers).await?;
        let written = Arc::new(AtomicU64::new(0));
        let sink = Arc::clone(&written);
        let target = target.clone();
        let work = tokio::spawn(async move {
            loop {
                tokio::time::sleep(PACE).await;
                let next = sink.load(Ordering::Relaxed) + 1;
                // A repeated number changes nothing, so a write whose answer was lost may be repeated.
                while !write(&target, &servers, next).await {
                    tokio::time::sleep(PAUSE).await;
                }
                sink.store(next, Ordering::Relaxed);
            }
        });
        Ok(Self { written, work })
    }

    /// The last number whose write was confirmed.
    pub fn written(&self) -> u64 {
        self.written.load(Ordering::Relaxed)
    }
}

async fn create(
    target: &Target,
    servers: &(impl Fn() -> Vec<SocketAddr> + Sync),
) -> Result<(), Failure> {
    let object = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": OBJECT, "namespace": NAMESPACE},
        "data": {"sequence": "0"},
    });
    let path = format!("/api/v1/namespaces/{NAMESPACE}/configmaps");
    let mut last = Failure::Connect("no API server yet".to_owned());
    for _ in 0..50 {
        for address in servers() {
            let request = Request::post(&path).header("content-type", "application/json");
            match target
                .at(address)
                .request_json(request, object.to_string())
                .await
            {
                Ok(_) | Err(Failure::Status(409)) => return Ok(()),
                Err(failure) => last = failure,
            }
        }
        tokio::time::sleep(PAUSE).await;
    }
    Err(last)
}

async fn write(
    target: &Target,
    servers: &(impl Fn() -> Vec<SocketAddr> + Sync),
    number: u64,
) -> bool {
    let path = format!("/api/v1/namespaces/{NAMESPACE}/configmaps/{OBJECT}");
    let change = json!({"data": {"sequence": number.to_string()}}).to_string();
    for address in servers() {
        let request = Request::patch(&path).header("content-type", "application/merge-patch+json");
        if target
            .at(address)
            .request_json(request, change.clone())
            .await
            .is_ok()
        {
            return true;
        }
    }
    false
}
