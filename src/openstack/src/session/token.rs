//! One credential at one Keystone: its token, which is renewed before it expires, with one sign-in at a time.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use parking_lot::{Mutex, RwLock};
use secrecy::SecretString;
use tokio::{
    sync::{Mutex as AsyncMutex, OwnedMutexGuard},
    time::Instant,
};

use crate::{
    error::Error,
    observer::{CallObserver, CallOutcome, CallRecord, SignInOutcome},
    profile::CloudProfile,
    send::budget::{Budget, Refusal},
    send::circuit::Ending,
    send::classify::classify,
    send::error_text,
    send::retry_after,
    send::transport::{HttpResponse, Transport},
    service::Service,
    session::{
        Session,
        sign_in::{self, TokenAnswer},
    },
};
use capo_core::{FailureClass, Priority, backoff::ExponentialBackoff};

const REQUEST: &str = "token_create";

/// The age at which a catalogue that lacks a service is requested again.
const CATALOGUE_AGE: Duration = Duration::from_mins(1);

pub(crate) struct TokenSource {
    profile: CloudProfile,
    transport: Arc<Transport>,
    budget: Arc<Budget>,
    observer: Arc<dyn CallObserver>,
    session: RwLock<Option<Arc<Session>>>,
    signing_in: Arc<AsyncMutex<Attempts>>,
    refusals: Mutex<BTreeMap<Service, Refusals>>,
}

/// Sign-ins that failed.
#[derive(Default)]
struct Attempts {
    failures: u32,
    last_failure: Option<FailedSignIn>,
}

/// A sign-in that failed, and the time from which the next one may be sent.
struct FailedSignIn {
    error: Error,
    retry_at: Instant,
}

/// The 401 answers of one service to valid tokens.
#[derive(Default)]
struct Refusals {
    in_a_row: u32,
    not_before: Option<Instant>,
}

impl TokenSource {
    pub(crate) fn new(
        profile: CloudProfile,
        transport: Arc<Transport>,
        budget: Arc<Budget>,
        observer: Arc<dyn CallObserver>,
    ) -> Self {
        Self {
            profile,
            transport,
            budget,
            observer,
            session: RwLock::new(None),
            signing_in: Arc::default(),
            refusals: Mutex::default(),
        }
    }

    /// The request budget of the sign-ins.
    pub(crate) fn budget(&self) -> &Budget {
        &self.budget
    }

    /// A valid token. The first caller signs in, and the others wait for the same result. Shortly before it expires the
    /// token is replaced in the background.
    pub(crate) async fn session(self: &Arc<Self>) -> Result<Arc<Session>, Error> {
        if let Some(session) = self.current() {
            if Instant::now() >= session.renew_at
                && let Ok(attempts) = Arc::clone(&self.signing_in).try_lock_owned()
            {
                tokio::spawn(Arc::clone(self).sign_in(attempts));
            }
            return Ok(session);
        }
        let attempts = Arc::clone(&self.signing_in).lock_owned().await;
        if let Some(session) = self.current() {
            return Ok(session);
        }
        // The sign-in is a task of its own, so that it continues for the other callers if this one is cancelled.
        tokio::spawn(Arc::clone(self).sign_in(attempts))
            .await
            .unwrap_or_else(|_| {
                Err(self.error(FailureClass::Transient, "the sign-in was interrupted"))
            })
    }

    /// Records that a service answered 401 to the token of `session`. Returns whether the call may be sent once more
    /// with another token.
    pub(crate) fn refused(&self, session: &Arc<Session>, service: Service) -> bool {
        let superseded = {
            let current = self.current();
            current.is_none_or(|current| !Arc::ptr_eq(&current, session))
        };
        if superseded {
            // There is a newer token already, so the service refused an old one.
            return true;
        }
        let now = Instant::now();
        let mut refusals = self.refusals.lock();
        let refusals = refusals.entry(service).or_default();
        if refusals.not_before.is_some_and(|moment| now < moment) {
            return false;
        }
        // The first refusal causes a sign-in at once. A service that refuses every token causes one sign-in every 2, 4,
        // … 60 s.
        refusals.in_a_row = refusals.in_a_row.saturating_add(1);
        let pause = AFTER_REFUSALS.pause(refusals.in_a_row - 1);
        refusals.not_before = Some(now + pause);
        self.forget(session);
        true
    }

    /// Records that a service accepted the token.
    pub(crate) fn accepted(&self, service: Service) {
        self.refusals.lock().remove(&service);
    }

    /// Discards a token whose catalogue lacks a service, if the catalogue is old enough to have changed since. Returns
    /// whether the token was discarded.
    pub(crate) fn discard_if_old(&self, session: &Arc<Session>) -> bool {
        let old = session.issued.elapsed() >= CATALOGUE_AGE;
        if old {
            self.forget(session);
        }
        old
    }

    fn forget(&self, session: &Arc<Session>) {
        let mut current = self.session.write();
        if current
            .as_ref()
            .is_some_and(|now| Arc::ptr_eq(now, session))
        {
            *current = None;
        }
    }

    fn current(&self) -> Option<Arc<Session>> {
        self.session
            .read()
            .clone()
            .filter(|session| Instant::now() < session.expires)
    }

    async fn sign_in(
        self: Arc<Self>,
        mut attempts: OwnedMutexGuard<Attempts>,
    ) -> Result<Arc<Session>, Error> {
        if let Some(FailedSignIn { error, retry_at }) = &attempts.last_failure {
            let now = Instant::now();
            if now < *retry_at {
                return Err(error.clone().with_retry_after(Some(*retry_at - now)));
            }
        }
        match self.request_token().await {
            Ok(session) => {
                let session = Arc::new(session);
                *attempts = Attempts::default();
                self.session.write().replace(Arc::clone(&session));
                self.observer.signed_in(
                    &self.profile.name,
                    SignInOutcome::Success,
                    Some(session.expires - session.issued),
                );
                Ok(session)
            }
            Err(error) => {
                attempts.failures = attempts.failures.saturating_add(1);
                let pause = after_failures(error.class())
                    .pause(attempts.failures - 1)
                    .max(error.retry_after().unwrap_or_default());
                attempts.last_failure = Some(FailedSignIn {
                    error: error.clone(),
                    retry_at: Instant::now() + pause,
                });
                let outcome = match error.status() {
                    Some(401 | 403) => SignInOutcome::Unauthorized,
                    Some(404) => SignInOutcome::NotFound,
                    _ => SignInOutcome::Error,
                };
                self.observer.signed_in(&self.profile.name, outcome, None);
                Err(error.with_retry_after(Some(pause)))
            }
        }
    }

    async fn request_token(&self) -> Result<Session, Error> {
        let permit = match self.budget.acquire(Priority::Gate).await {
            Ok(permit) => permit,
            Err(refusal) => return Err(self.not_sent(refusal)),
        };
        let mut url = self.profile.auth_url.clone();
        let path = format!("{}/auth/tokens", url.path().trim_end_matches('/'));
        url.set_path(&path);
        let request = self
            .transport
            .client
            .post(url)
            .json(&sign_in::request_body(&self.profile.credential));
        let sent = Instant::now();
        self.observer.in_flight(Service::Identity, 1);
        let result = self.transport.exchange(request).await;
        self.observer.in_flight(Service::Identity, -1);
        self.observer.call(&CallRecord {
            cloud: &self.profile.name,
            service: Service::Identity,
            request: REQUEST,
            method: "POST",
            outcome: match &result {
                Ok(answer) => CallOutcome::Status(answer.status),
                Err(broken) => broken.outcome(),
            },
            duration: sent.elapsed(),
            limiter_wait: permit.waited,
        });
        let (result, ending) = match result {
            Ok(answer) => self.token_of(&answer, sent),
            Err(broken) => {
                let text = format!("sign-in at {}: {broken}", self.host());
                (
                    Err(self.error(FailureClass::Transient, text)),
                    Ending::Failed,
                )
            }
        };
        let failure = match (&result, ending) {
            (Err(error), Ending::Failed | Ending::PauseRequested(_)) => Some(error.clone()),
            _ => None,
        };
        permit.end(ending, failure);
        result
    }

    fn token_of(&self, answer: &HttpResponse, sent: Instant) -> (Result<Session, Error>, Ending) {
        let status = answer.status;
        if (200..300).contains(&status) {
            let session = self.session_of(answer, sent);
            let ending = if session.is_ok() {
                Ending::Answered
            } else {
                Ending::Failed
            };
            return (session, ending);
        }
        let detail = error_text::extract(&answer.body, &self.profile.credential.secrets());
        let requested = answer.header("retry-after").and_then(|header| {
            retry_after::parse(header, answer.header("date"), jiff::Timestamp::now())
        });
        let class = classify(status, &detail, requested.is_some());
        let colon = if detail.is_empty() { "" } else { ": " };
        let host = self.host();
        // Keystone answers 404 for a deleted application credential, user or project, and 403 for a disabled one.
        let (class, text) = match status {
            401 | 403 | 404 => (
                FailureClass::Auth,
                format!("the credential is refused by {host} (HTTP {status}){colon}{detail}"),
            ),
            _ => (
                class,
                format!("sign-in at {host} answers HTTP {status}{colon}{detail}"),
            ),
        };
        let (ending, wait) = match class {
            FailureClass::Throttled => {
                let pause = retry_after::pause(requested, rand::random());
                self.observer
                    .throttled(&self.profile.name, Service::Identity, pause, requested);
                (Ending::PauseRequested(pause), Some(pause))
            }
            FailureClass::Transient => (Ending::Failed, None),
            _ => (Ending::Answered, None),
        };
        let error = self
            .error(class, text)
            .with_status(status)
            .with_retry_after(wait)
            .with_request_id(answer.request_id());
        (Err(error), ending)
    }

    fn session_of(&self, answer: &HttpResponse, sent: Instant) -> Result<Session, Error> {
        let unreadable = |what: &str| {
            let text = format!("sign-in at {}: {what}", self.host());
            self.error(FailureClass::Transient, text)
                .with_request_id(answer.request_id())
        };
        let token = answer
            .header("x-subject-token")
            .filter(|token| !token.is_empty())
            .map(SecretString::from)
            .ok_or_else(|| unreadable("the answer has no X-Subject-Token"))?;
        let parsed: TokenAnswer = serde_json::from_slice(&answer.body)
            .map_err(|_| unreadable("the answer is not a token"))?;
        let project = parsed.token.project.as_ref().ok_or_else(|| {
            self.error(
                FailureClass::Auth,
                "the token is not for a project: the credential must name one",
            )
        })?;
        let life = parsed.token.life();
        Ok(Session {
            token,
            project_id: project.id.clone(),
            issued: sent,
            renew_at: sent + sign_in::renew_after(life),
            // A token that has expired according to its own times is used until a service refuses it.
            expires: sent + life.max(Duration::from_secs(10)),
            catalogue: parsed.token.catalog,
        })
    }

    fn not_sent(&self, refusal: Refusal) -> Error {
        match refusal {
            Refusal::HeldBack {
                retry_after,
                failure,
                ..
            } => {
                self.observer
                    .refused(&self.profile.name, Service::Identity, REQUEST);
                failure
                    .unwrap_or_else(|| {
                        let text = format!("sign-in at {} does not answer", self.host());
                        self.error(FailureClass::Transient, text)
                    })
                    .with_retry_after(Some(retry_after))
            }
            Refusal::TooLongAWait => self.error(
                FailureClass::Throttled,
                "the sign-in waits for our own request budget",
            ),
        }
    }

    fn host(&self) -> &str {
        self.profile.auth_url.host_str().unwrap_or_default()
    }

    fn error(&self, class: FailureClass, message: impl Into<String>) -> Error {
        let message = format!("cloud {}: {}", self.profile.name, message.into());
        Error::new(Service::Identity, REQUEST, class, message)
    }
}

/// Pauses between sign-ins that a service causes by refusing every token.
const AFTER_REFUSALS: ExponentialBackoff =
    ExponentialBackoff::doubling(Duration::from_secs(2), Duration::from_mins(1));

/// Pauses after failed sign-ins.
fn after_failures(class: FailureClass) -> ExponentialBackoff {
    match class {
        // Credentials that were refused usually work again only with a changed Secret, which gets a token source of its
        // own. Some Keystones lock an account after a few failed sign-ins.
        FailureClass::Auth | FailureClass::Denied | FailureClass::Invalid => {
            ExponentialBackoff::doubling(Duration::from_secs(5), Duration::from_mins(2))
        }
        _ => ExponentialBackoff::doubling(Duration::from_secs(1), Duration::from_secs(6)),
    }
}
