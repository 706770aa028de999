//! An API server for unit tests that has one Lease.

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

/// Keeps one Lease, and refuses writes that are based on an older version of it.
#[derive(Clone, Default)]
pub(crate) struct LeaseServer(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    lease: Option<Value>,
    version: u64,
    reads: u32,
    treatment: Treatment,
    /// The times of renewals, one after each of the next reads; the last one comes first.
    renewals: Vec<String>,
}

/// How requests are treated.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Treatment {
    #[default]
    Answered,
    /// Writes are carried out, and their answers never arrive.
    WritesUnanswered,
    /// Writes fail and are not carried out.
    WritesFail,
    /// Every request fails.
    AllFail,
}

impl LeaseServer {
    pub(crate) fn client(&self) -> Client {
        Client::new(self.clone(), "n")
    }

    pub(crate) fn treats(&self, treatment: Treatment) {
        self.0.lock().treatment = treatment;
    }

    /// Writes the Lease as another client does.
    pub(crate) fn put(&self, lease: Value) {
        self.0.lock().store(lease);
    }

    /// The holder renews the Lease after the first read, at this time.
    pub(crate) fn renews_after_a_read(&self, at: &str) {
        self.0.lock().renewals.push(at.to_owned());
    }

    /// The holder of the Lease; `None` if there is no Lease.
    pub(crate) fn holder(&self) -> Option<String> {
        let state = self.0.lock();
        let holder = &state.lease.as_ref()?["spec"]["holderIdentity"];
        Some(holder.as_str().unwrap_or_default().to_owned())
    }

    /// The number of times that the Lease was read.
    pub(crate) fn reads(&self) -> u32 {
        self.0.lock().reads
    }
}

impl State {
    fn store(&mut self, mut lease: Value) -> Value {
        self.version += 1;
        lease["apiVersion"] = "coordination.k8s.io/v1".into();
        lease["kind"] = "Lease".into();
        lease["metadata"]["resourceVersion"] = self.version.to_string().into();
        self.lease = Some(lease.clone());
        lease
    }

    fn read(&mut self) -> (u16, Value) {
        self.reads += 1;
        let Some(lease) = self.lease.clone() else {
            return failure(404, "NotFound");
        };
        if let Some(renewed) = self.renewals.pop() {
            let mut next = lease.clone();
            next["spec"]["renewTime"] = renewed.into();
            self.store(next);
        }
        (200, lease)
    }

    fn write(&mut self, method: &Method, lease: Value) -> (u16, Value) {
        let based_on = &lease["metadata"]["resourceVersion"];
        match (&self.lease, method) {
            (Some(_), &Method::POST) => failure(409, "AlreadyExists"),
            (None, &Method::PUT) => failure(404, "NotFound"),
            (Some(current), _) if current["metadata"]["resourceVersion"] != *based_on => {
                failure(409, "Conflict")
            }
            _ => (200, self.store(lease)),
        }
    }
}

fn failure(code: u16, reason: &str) -> (u16, Value) {
    let status = json!({"apiVersion": "v1", "kind": "Status", "status": "Failure", "reason": reason, "code": code,
        "message": reason, "details": {"name": super::LEASE_NAME}});
    (code, status)
}

impl tower::Service<Request<Body>> for LeaseServer {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Response<Body>, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let server = self.clone();
        async move {
            let method = request.method().clone();
            let body = request.into_body().collect_bytes().await.unwrap();
            let treatment = server.0.lock().treatment;
            let writes = method != Method::GET;
            let (status, answer) = match treatment {
                Treatment::AllFail => failure(503, "ServiceUnavailable"),
                Treatment::WritesFail if writes => failure(503, "ServiceUnavailable"),
                _ if writes => {
                    let lease = serde_json::from_slice(&body).unwrap();
                    server.0.lock().write(&method, lease)
                }
                _ => server.0.lock().read(),
            };
            if writes && treatment == Treatment::WritesUnanswered {
                std::future::pending::<()>().await;
            }
            let body = Body::from(serde_json::to_vec(&answer).unwrap());
            Ok(Response::builder().status(status).body(body).unwrap())
        }
        .boxed()
    }
}
