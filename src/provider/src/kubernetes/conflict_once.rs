//! An API server for unit tests, in which the object changes before the first patch.

use std::{
    convert::Infallible,
    sync::Arc,
    task::{Context, Poll},
};

use futures::{FutureExt as _, future::BoxFuture};
use http::{Method, Request, Response};
use kube::client::{Body, Client};
use parking_lot::Mutex;
use serde_json::{Value, json};

/// Refuses the first patch with a conflict and accepts every later one.
#[derive(Clone)]
pub(crate) struct ConflictOnce {
    /// The answer to every read.
    read: Value,
    /// The answer to a patch that is accepted.
    written: Value,
    /// Every patch that arrived.
    pub(crate) patches: Arc<Mutex<Vec<Value>>>,
}

impl ConflictOnce {
    pub(crate) fn new(read: Value, written: Value) -> Self {
        Self {
            read,
            written,
            patches: Arc::default(),
        }
    }

    pub(crate) fn client(&self) -> Client {
        Client::new(self.clone(), "n")
    }
}

impl tower::Service<Request<Body>> for ConflictOnce {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Response<Body>, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let server = self.clone();
        async move {
            let is_patch = *request.method() == Method::PATCH;
            let body = request.into_body().collect_bytes().await.unwrap();
            let (status, answer) = if !is_patch {
                (200, server.read)
            } else if server.patches.lock().is_empty() {
                let conflict = json!({"apiVersion": "v1", "kind": "Status", "status": "Failure",
                    "reason": "Conflict", "code": 409, "message": "changed"});
                (409, conflict)
            } else {
                (200, server.written)
            };
            if is_patch {
                let patch = serde_json::from_slice(&body).unwrap();
                server.patches.lock().push(patch);
            }
            let body = Body::from(serde_json::to_vec(&answer).unwrap());
            Ok(Response::builder().status(status).body(body).unwrap())
        }
        .boxed()
    }
}
