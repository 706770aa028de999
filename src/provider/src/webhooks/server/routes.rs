//! The handling of one request: its path, its body, the wait for its turn, its response.

#[cfg(test)]
mod tests;

use std::{sync::Arc, time::Instant};

use bytes::Bytes;
use http::{HeaderValue, Method, Request, StatusCode, header};
use http_body_util::Full;
use hyper::body::{Body, Incoming};
use jiff::Timestamp;
use tokio::sync::Semaphore;

use super::{
    Limits, WebhookObserver,
    body::{BodyBudget, BodyError, Received},
};
use crate::{
    http::{Response, text},
    webhooks::{
        conversion,
        validation::{self, Kind},
    },
};

/// The path of conversion, the same as CAPO's.
const CONVERT: &str = "/convert";

/// Bodies up to this size are processed on the same thread, because handing them to another thread takes longer.
const SMALL: usize = 128 << 10;

/// The status with which a request is counted whose client left before the answer. HTTP has none for it; nginx logs
/// this one.
const CLIENT_LEFT: u16 = 499;

pub(super) struct Routes {
    limits: Limits,
    observer: Arc<dyn WebhookObserver>,
    bodies: BodyBudget,
    /// The turn of the one large review that is processed at a time. A large review may take most of the memory that
    /// the process may use. Small reviews need no turn, because each of them keeps a thread of the runtime busy.
    turn: Arc<Semaphore>,
}

/// A request that has begun. Its end is counted when this is dropped, because neither a client that leaves nor a panic
/// lets the handling come to its end.
struct Counted {
    observer: Arc<dyn WebhookObserver>,
    path: &'static str,
    began: Instant,
    code: Option<StatusCode>,
}

impl Counted {
    fn begin(observer: Arc<dyn WebhookObserver>, path: &'static str) -> Self {
        observer.request_began(path);
        Self {
            observer,
            path,
            began: Instant::now(),
            code: None,
        }
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        let code = match self.code {
            Some(code) => code.as_u16(),
            None if std::thread::panicking() => StatusCode::INTERNAL_SERVER_ERROR.as_u16(),
            None => CLIENT_LEFT,
        };
        self.observer
            .request_ended(self.path, code, self.began.elapsed());
    }
}

/// A known path.
#[derive(Debug, Clone, Copy)]
struct Route {
    path: &'static str,
    review: ReviewKind,
}

#[derive(Debug, Clone, Copy)]
enum ReviewKind {
    Conversion,
    Admission(Kind),
}

impl Route {
    fn of(path: &str) -> Option<Self> {
        if path == CONVERT {
            return Some(Self {
                path: CONVERT,
                review: ReviewKind::Conversion,
            });
        }
        Kind::ALL.into_iter().find_map(|kind| {
            let path = kind.paths().iter().find(|known| **known == path)?;
            Some(Self {
                path,
                review: ReviewKind::Admission(kind),
            })
        })
    }
}

/// The error of a request that is answered with another status than 200.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
struct HttpError {
    status: StatusCode,
    message: String,
}

impl HttpError {
    fn new(status: StatusCode, message: impl Into<String>) -> Self {
        Self {
            status,
            message: message.into(),
        }
    }
}

impl From<BodyError> for HttpError {
    fn from(error: BodyError) -> Self {
        let status = match error {
            BodyError::TooLarge { .. } => StatusCode::PAYLOAD_TOO_LARGE,
            BodyError::EndedEarly(_) => StatusCode::BAD_REQUEST,
            BodyError::NoRoom => StatusCode::SERVICE_UNAVAILABLE,
        };
        Self::new(status, error.to_string())
    }
}

impl Routes {
    pub(super) fn new(limits: Limits, observer: Arc<dyn WebhookObserver>) -> Self {
        let largest = limits.conversion_bytes.max(limits.admission_bytes);
        Self {
            limits,
            observer,
            bodies: BodyBudget::new(limits.bytes_in_flight, largest),
            turn: Arc::new(Semaphore::new(1)),
        }
    }

    /// The response to a request with any content.
    pub(super) async fn respond(&self, request: Request<Incoming>) -> Response {
        let Some(route) = Route::of(request.uri().path()) else {
            return text(StatusCode::NOT_FOUND, "there is nothing at this path\n");
        };
        let mut counted = Counted::begin(Arc::clone(&self.observer), route.path);
        let result = if request.method() == Method::POST {
            let time = match route.review {
                ReviewKind::Conversion => self.limits.conversion_time,
                ReviewKind::Admission(_) => self.limits.admission_time,
            };
            tokio::time::timeout(time, self.review(route, request))
                .await
                .unwrap_or_else(|_| {
                    Err(HttpError::new(
                        StatusCode::SERVICE_UNAVAILABLE,
                        "answering took too long; try again",
                    ))
                })
        } else {
            Err(HttpError::new(
                StatusCode::METHOD_NOT_ALLOWED,
                "expected POST",
            ))
        };
        let response = match result {
            Ok(body) => json(body),
            Err(HttpError { status, message }) => {
                tracing::warn!(
                    path = route.path,
                    code = status.as_u16(),
                    message,
                    "Refused a webhook request"
                );
                refusal(status, &message)
            }
        };
        counted.code = Some(response.status());
        response
    }

    async fn review(&self, route: Route, request: Request<Incoming>) -> Result<Vec<u8>, HttpError> {
        let limit = match route.review {
            ReviewKind::Conversion => self.limits.conversion_bytes,
            ReviewKind::Admission(_) => self.limits.admission_bytes,
        };
        let body = request.into_body();
        if body.size_hint().lower() > limit as u64 {
            return Err(BodyError::TooLarge { limit }.into());
        }
        let read = tokio::time::timeout(self.limits.body, self.bodies.read(body, limit));
        let Received { bytes, share } = read.await.map_err(|_| {
            HttpError::new(
                StatusCode::REQUEST_TIMEOUT,
                "the body took too long to arrive",
            )
        })??;
        if bytes.len() <= SMALL {
            return review(route.review, &bytes);
        }
        let turn = Arc::clone(&self.turn)
            .acquire_owned()
            .await
            .map_err(|_| BodyError::NoRoom)?;
        tokio::task::spawn_blocking(move || {
            // A review goes on when its client has left, so its memory and its turn are released here.
            let _held = (share, turn);
            review(route.review, &bytes)
        })
        .await
        .unwrap_or_else(|_| {
            Err(HttpError::new(
                StatusCode::INTERNAL_SERVER_ERROR,
                "the review was not finished",
            ))
        })
    }
}

fn review(kind: ReviewKind, body: &[u8]) -> Result<Vec<u8>, HttpError> {
    let malformed = |error: String| HttpError::new(StatusCode::BAD_REQUEST, error);
    match kind {
        ReviewKind::Conversion => {
            conversion::review(body).map_err(|error| malformed(error.to_string()))
        }
        ReviewKind::Admission(kind) => validation::review(kind, body, Timestamp::now())
            .map(|answer| answer.body)
            .map_err(|error| malformed(error.to_string())),
    }
}

fn json(body: Vec<u8>) -> Response {
    let mut response = Response::new(Full::new(Bytes::from(body)));
    response.headers_mut().insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static("application/json"),
    );
    response
}

fn refusal(status: StatusCode, message: &str) -> Response {
    let mut response = text(status, format!("{message}\n"));
    // The rest of a refused body is not read.
    response
        .headers_mut()
        .insert(header::CONNECTION, HeaderValue::from_static("close"));
    response
}
