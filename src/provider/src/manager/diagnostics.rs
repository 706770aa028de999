//! `/metrics`: over HTTPS and only to who may read it, or over plain HTTP where the operator says so.
//!
//! The secure form asks Kubernetes who the bearer token belongs to (TokenReview) and whether that user may
//! get `/metrics` (SubjectAccessReview), and remembers the answer for a short time. Whatever can't be
//! asked is refused.

use std::{
    collections::{HashMap, hash_map::RandomState},
    hash::BuildHasher,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use ::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use k8s_openapi::api::{
    authentication::v1::{TokenReview, TokenReviewSpec},
    authorization::v1::{NonResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec},
};
use kube::{Api, Client, api::PostParams};
use tokio::time::timeout;

use super::http::{Answer, text};
use crate::metrics;

/// How long an answer of Kubernetes is believed.
const BELIEVED: Duration = Duration::from_secs(30);
/// How long Kubernetes may take to answer.
const ASKING: Duration = Duration::from_secs(5);
/// Answers that are remembered at once.
const REMEMBERED: usize = 64;
/// Longer tokens are refused unread.
const LONGEST_TOKEN: usize = 16 * 1024;

/// Renders the metrics, with members and budgets once this process leads.
#[derive(Clone)]
pub(super) struct Source {
    pub(super) metrics: metrics::Metrics,
    pub(super) leading: Arc<Mutex<Option<metrics::Leading>>>,
}

impl Source {
    /// Answers a request for `path` from somebody who may read it.
    pub(super) fn answer(&self, method: &Method, path: &str) -> Answer {
        if path != "/metrics" {
            return text(StatusCode::NOT_FOUND, "only /metrics is here\n");
        }
        if method != Method::GET && method != Method::HEAD {
            return text(StatusCode::METHOD_NOT_ALLOWED, "only GET\n");
        }
        let leading = self
            .leading
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        match self.metrics.render(leading.as_ref()) {
            Ok(body) => {
                let mut answer = text(StatusCode::OK, body);
                answer.headers_mut().insert(
                    header::CONTENT_TYPE,
                    HeaderValue::from_static(metrics::CONTENT_TYPE),
                );
                answer
            }
            Err(error) => text(StatusCode::INTERNAL_SERVER_ERROR, error.to_string()),
        }
    }
}

/// Asks Kubernetes who may read.
#[derive(Clone)]
pub(super) struct Readers(Arc<Inner>);

/// When Kubernetes was asked about a token, by the token's hash, and what it answered.
type Remembered = HashMap<u64, (Instant, Result<(), StatusCode>)>;

struct Inner {
    client: Client,
    /// Tokens are remembered by a keyed hash, never themselves.
    hasher: RandomState,
    remembered: Mutex<Remembered>,
}

impl Readers {
    pub(super) fn new(client: Client) -> Self {
        Self(Arc::new(Inner {
            client,
            hasher: RandomState::new(),
            remembered: Mutex::default(),
        }))
    }

    /// Whether the bearer of these headers may get `/metrics`: `Err` is what to answer instead.
    pub(super) async fn may_read(&self, headers: &HeaderMap) -> Result<(), StatusCode> {
        let token = headers
            .get(header::AUTHORIZATION)
            .and_then(|value| value.to_str().ok())
            .and_then(|value| value.strip_prefix("Bearer "))
            .filter(|token| !token.is_empty() && token.len() <= LONGEST_TOKEN)
            .ok_or(StatusCode::UNAUTHORIZED)?;
        let key = self.0.hasher.hash_one(token);
        if let Some((asked, answer)) = self.lock().get(&key)
            && asked.elapsed() < BELIEVED
        {
            return *answer;
        }
        let Ok(Ok(answer)) = timeout(ASKING, self.ask(token)).await else {
            // Not remembered: it says nothing about the token.
            return Err(StatusCode::SERVICE_UNAVAILABLE);
        };
        let mut remembered = self.lock();
        if remembered.len() >= REMEMBERED {
            remembered.retain(|_, (asked, _)| asked.elapsed() < BELIEVED);
        }
        if remembered.len() < REMEMBERED {
            remembered.insert(key, (Instant::now(), answer));
        }
        answer
    }

    async fn ask(&self, token: &str) -> Result<Result<(), StatusCode>, kube::Error> {
        let parameters = PostParams::default();
        let review = TokenReview {
            spec: TokenReviewSpec {
                token: token.to_owned(),
                audiences: None,
            },
            ..TokenReview::default()
        };
        let reviewed = Api::<TokenReview>::all(self.0.client.clone())
            .create(&parameters, &review)
            .await?;
        let Some(user) = reviewed
            .status
            .filter(|status| status.authenticated == Some(true))
            .and_then(|status| status.user)
        else {
            return Ok(Err(StatusCode::UNAUTHORIZED));
        };
        let review = SubjectAccessReview {
            spec: SubjectAccessReviewSpec {
                user: user.username,
                groups: user.groups,
                uid: user.uid,
                extra: user.extra,
                non_resource_attributes: Some(NonResourceAttributes {
                    path: Some("/metrics".to_owned()),
                    verb: Some("get".to_owned()),
                }),
                ..SubjectAccessReviewSpec::default()
            },
            ..SubjectAccessReview::default()
        };
        let reviewed = Api::<SubjectAccessReview>::all(self.0.client.clone())
            .create(&parameters, &review)
            .await?;
        Ok(if reviewed.status.is_some_and(|status| status.allowed) {
            Ok(())
        } else {
            Err(StatusCode::FORBIDDEN)
        })
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Remembered> {
        self.0
            .remembered
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}
