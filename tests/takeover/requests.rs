//! A client that sends requests through a load balancer until it is stopped.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use test_support::client::Target;
use tokio::{io::AsyncReadExt as _, net::TcpStream, task::JoinHandle};

/// The answer of the stand-ins for API servers.
pub(crate) const ANSWER: &[u8; 2] = b"ok";

/// A client that sends requests.
pub(crate) struct RequestingClient {
    stopped: Arc<AtomicBool>,
    task: JoinHandle<RequestResults>,
}

/// What a client saw.
#[derive(Debug, Clone, Default)]
pub(crate) struct RequestResults {
    pub sent: usize,
    pub failed: Vec<String>,
}

impl RequestingClient {
    pub(crate) fn start(requested: Requested) -> Self {
        let stopped = Arc::new(AtomicBool::new(false));
        let stop = stopped.clone();
        let task = tokio::spawn(async move {
            let mut results = RequestResults::default();
            while !stop.load(Ordering::Relaxed) {
                results.sent += 1;
                if let Err(error) = requested.send().await {
                    results.failed.push(error);
                }
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
            results
        });
        Self { stopped, task }
    }

    /// Stops the client and returns what it saw.
    pub(crate) async fn stop(self) -> RequestResults {
        self.stopped.store(true, Ordering::Relaxed);
        self.task.await.unwrap()
    }
}

/// What a client requests.
pub(crate) enum Requested {
    /// A new connection, and the answer on it.
    Connection(String),
    /// An object of a real API server.
    Object(Target),
}

impl Requested {
    async fn send(&self) -> Result<(), String> {
        match self {
            Self::Connection(address) => request(address)
                .await
                .map_err(|error| format!("{address}: {error}")),
            Self::Object(target) => target
                .read()
                .await
                .map(|_| ())
                .map_err(|error| error.to_string()),
        }
    }
}

async fn request(address: &str) -> Result<(), String> {
    let request = async {
        let mut connection = TcpStream::connect(address).await?;
        let mut answer = [0; ANSWER.len()];
        connection.read_exact(&mut answer).await
    };
    match tokio::time::timeout(Duration::from_secs(20), request).await {
        Ok(Ok(_)) => Ok(()),
        Ok(Err(error)) => Err(error.to_string()),
        Err(_) => Err("no answer within 20 s".to_owned()),
    }
}
