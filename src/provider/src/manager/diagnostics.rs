//! `/metrics`: over HTTPS for users who may read it, or over plain HTTP for all clients with `--insecure-diagnostics`.
//!
//! Over HTTPS, Kubernetes reviews which user the bearer token belongs to (TokenReview) and whether that user may get
//! `/metrics` (SubjectAccessReview). The result is cached for a short time. A request without a successful review is
//! refused.

use std::{
    collections::{HashMap, hash_map::RandomState},
    hash::BuildHasher,
    sync::Arc,
    time::{Duration, Instant},
};

use http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use k8s_openapi::api::{
    authentication::v1::{TokenReview, TokenReviewSpec},
    authorization::v1::{NonResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec},
};
use kube::{Api, Client, api::PostParams};
use parking_lot::Mutex;
use tokio::time::timeout;

use crate::{
    http::{Response, text},
    metrics,
};

/// How long a review stays valid.
const VALID: Duration = Duration::from_secs(30);
/// How long a review may take.
const REVIEW: Duration = Duration::from_secs(5);
/// Reviews that are cached at a time.
const CACHED: usize = 64;
/// The longest token that is accepted, in bytes. Longer tokens are refused without a review.
const LONGEST_TOKEN: usize = 16 * 1024;

/// Renders the metrics, with members and budgets once this process leads.
#[derive(Clone)]
pub(super) struct Source {
    pub(super) metrics: metrics::Metrics,
    pub(super) leading: Arc<Mutex<Option<metrics::Leading>>>,
}

impl Source {
    /// The response to a request for `path` from a user who may read it.
    pub(super) fn respond(&self, method: &Method, path: &str) -> Response {
        if path != "/metrics" {
            return text(StatusCode::NOT_FOUND, "only /metrics is served here\n");
        }
        if method != Method::GET && method != Method::HEAD {
            return text(StatusCode::METHOD_NOT_ALLOWED, "only GET is allowed\n");
        }
        let leading = self.leading.lock().clone();
        match self.metrics.render(leading.as_ref()) {
            Ok(body) => {
                let mut response = text(StatusCode::OK, body);
                response.headers_mut().insert(
                    header::CONTENT_TYPE,
                    HeaderValue::from_static(metrics::CONTENT_TYPE),
                );
                response
            }
            Err(error) => text(StatusCode::INTERNAL_SERVER_ERROR, error.to_string()),
        }
    }
}

/// Lets Kubernetes review which clients may read.
#[derive(Clone)]
pub(super) struct Readers(Arc<Inner>);

/// The time and the result of each review, by the token's hash.
type Cache = HashMap<u64, (Instant, Result<(), StatusCode>)>;

struct Inner {
    client: Client,
    /// The key of the hash. Only hashes of tokens are kept, and no tokens.
    hasher: RandomState,
    cache: Mutex<Cache>,
}

impl Readers {
    pub(super) fn new(client: Client) -> Self {
        Self(Arc::new(Inner {
            client,
            hasher: RandomState::new(),
            cache: Mutex::default(),
        }))
    }

    /// Whether the bearer of these headers may get `/metrics`. `Err` has the status of the response.
    pub(super) async fn may_read(&self, headers: &HeaderMap) -> Result<(), StatusCode> {
        let token = headers
            .get(header::AUTHORIZATION)
            .and_then(|value| value.to_str().ok())
            .and_then(|value| value.strip_prefix("Bearer "))
            .filter(|token| !token.is_empty() && token.len() <= LONGEST_TOKEN)
            .ok_or(StatusCode::UNAUTHORIZED)?;
        let key = self.0.hasher.hash_one(token);
        if let Some((reviewed, result)) = self.0.cache.lock().get(&key)
            && reviewed.elapsed() < VALID
        {
            return *result;
        }
        let Ok(Ok(result)) = timeout(REVIEW, self.review(token)).await else {
            // A failed review is not cached, because it shows nothing about the token.
            return Err(StatusCode::SERVICE_UNAVAILABLE);
        };
        remember(&mut self.0.cache.lock(), key, result, Instant::now());
        result
    }

    async fn review(&self, token: &str) -> Result<Result<(), StatusCode>, kube::Error> {
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
}

/// Adds the result of a review. In a full cache it takes the place of the oldest refusal. An accepted token takes the
/// place of the oldest accepted one if there is no refusal, and a refused token never does, so that clients with
/// made-up tokens can't make every request of the others need a review.
fn remember(cache: &mut Cache, key: u64, result: Result<(), StatusCode>, now: Instant) {
    if cache.len() >= CACHED && !cache.contains_key(&key) {
        cache.retain(|_, (reviewed, _)| now.saturating_duration_since(*reviewed) < VALID);
    }
    if cache.len() >= CACHED && !cache.contains_key(&key) {
        let oldest = cache
            .iter()
            .filter(|(_, (_, cached))| cached.is_err() || result.is_ok())
            .min_by_key(|(_, (reviewed, cached))| (cached.is_ok(), *reviewed))
            .map(|(key, _)| *key);
        let Some(oldest) = oldest else { return };
        cache.remove(&oldest);
    }
    cache.insert(key, (now, result));
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use http::StatusCode;

    use super::{CACHED, Cache, remember};

    #[test]
    fn refused_tokens_keep_no_accepted_one_out_of_the_cache() {
        let (mut cache, start) = (Cache::new(), Instant::now());
        let at = |key: u64| start + Duration::from_millis(key);
        let refusal = Err(StatusCode::UNAUTHORIZED);
        remember(&mut cache, 0, Ok(()), at(0));
        for key in 1..200 {
            remember(&mut cache, key, refusal, at(key));
        }
        remember(&mut cache, 200, Ok(()), at(200));
        assert_eq!(cache.len(), CACHED);
        for accepted in [0, 200] {
            assert_eq!(cache.get(&accepted), Some(&(at(accepted), Ok(()))));
        }
        // The newest refusals are known.
        assert!(cache.contains_key(&199) && !cache.contains_key(&1));
        // Where accepted tokens fill the cache, the oldest of them gives way to a new one, and a refusal is not kept.
        for key in 201..300 {
            remember(&mut cache, key, Ok(()), at(key));
        }
        remember(&mut cache, 300, refusal, at(300));
        assert_eq!(cache.len(), CACHED);
        assert!(cache.contains_key(&299) && !cache.contains_key(&0) && !cache.contains_key(&300));
    }
}
