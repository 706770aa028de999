//! The manager's writes to Kubernetes: one of them may be held on its way, and every other one is recorded.

use std::{
    sync::Arc,
    task::{Context, Poll},
};

use futures::{FutureExt as _, future::BoxFuture};
use http::{Method, Request, Response};
use kube::client::{Body, Client};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::oneshot;

use crate::waiting::PATIENCE;

/// A patch that went to the API server.
#[derive(Debug, Clone)]
pub struct Write {
    /// The path of the object, or of its status.
    pub path: String,
    /// The patch.
    pub body: Value,
    /// The status code of the answer.
    pub status: u16,
}

/// The result of a patch that is held.
enum Fate {
    Sent,
    RefusedAsConflict,
}

type Wanted = Box<dyn Fn(&str, &Value) -> bool + Send>;

struct Trap {
    wanted: Wanted,
    arrived: oneshot::Sender<()>,
    fate: oneshot::Receiver<Fate>,
}

/// The patches of the manager.
#[derive(Clone, Default)]
pub struct Writes {
    trap: Arc<Mutex<Option<Trap>>>,
    sent: Arc<Mutex<Vec<Write>>>,
}

/// A patch that does not go to the API server yet.
#[must_use]
pub struct HeldWrite {
    arrived: Option<oneshot::Receiver<()>>,
    fate: oneshot::Sender<Fate>,
}

impl Writes {
    /// Holds the next patch whose path and body are wanted.
    pub fn hold(&self, wanted: impl Fn(&str, &Value) -> bool + Send + 'static) -> HeldWrite {
        let (arrived, has_arrived) = oneshot::channel();
        let (decide, fate) = oneshot::channel();
        *self.trap.lock() = Some(Trap {
            wanted: Box::new(wanted),
            arrived,
            fate,
        });
        HeldWrite {
            arrived: Some(has_arrived),
            fate: decide,
        }
    }

    /// The patches that went to the API server, the first one first.
    pub fn sent(&self) -> Vec<Write> {
        self.sent.lock().clone()
    }

    /// A client whose patches are recorded here.
    pub(super) fn of(&self, client: Client) -> Client {
        let namespace = client.default_namespace().to_owned();
        let through = Through {
            client,
            writes: self.clone(),
        };
        Client::new(through, namespace)
    }

    /// The result of a patch. It is known at once unless the test holds the patch.
    async fn fate(&self, path: &str, body: &Value) -> Fate {
        let trap = self.trap.lock().take_if(|trap| (trap.wanted)(path, body));
        let Some(trap) = trap else {
            return Fate::Sent;
        };
        let _ = trap.arrived.send(());
        // The test may have ended.
        trap.fate.await.unwrap_or(Fate::Sent)
    }
}

impl HeldWrite {
    /// Returns when the manager has sent the patch.
    pub async fn arrived(&mut self) {
        let arrived = self.arrived.take().unwrap();
        tokio::time::timeout(PATIENCE, arrived)
            .await
            .unwrap()
            .unwrap();
    }

    /// Lets the patch go to the API server.
    pub fn send(self) {
        let _ = self.fate.send(Fate::Sent);
    }

    /// Answers the patch as if the object had changed.
    pub fn refuse_as_conflict(self) {
        let _ = self.fate.send(Fate::RefusedAsConflict);
    }
}

#[derive(Clone)]
struct Through {
    client: Client,
    writes: Writes,
}

impl tower::Service<Request<Body>> for Through {
    type Response = Response<Body>;
    type Error = kube::Error;
    type Future = BoxFuture<'static, Result<Response<Body>, kube::Error>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), kube::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let Self { client, writes } = self.clone();
        async move {
            if *request.method() != Method::PATCH {
                return client.send(request).await;
            }
            let (head, body) = request.into_parts();
            let bytes = body.collect_bytes().await?;
            let path = head.uri.path().to_owned();
            let body = serde_json::from_slice(&bytes).unwrap_or_default();
            if matches!(writes.fate(&path, &body).await, Fate::RefusedAsConflict) {
                let conflict = json!({"apiVersion": "v1", "kind": "Status", "status": "Failure",
                    "reason": "Conflict", "code": 409, "message": "the object has been modified"});
                let answer = Response::builder()
                    .status(409)
                    .body(Body::from(conflict.to_string().into_bytes()));
                return Ok(answer.unwrap());
            }
            let answer = client
                .send(Request::from_parts(head, Body::from(bytes)))
                .await?;
            writes.sent.lock().push(Write {
                path,
                body,
                status: answer.status().as_u16(),
            });
            Ok(answer)
        }
        .boxed()
    }
}
