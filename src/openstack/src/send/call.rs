//! The path of every call: token, budget, lease, request, and the meaning of the answer.

use std::sync::Arc;

use reqwest::{Method, header::HeaderValue};
use secrecy::ExposeSecret;
use tokio::time::Instant;
use url::Url;

use crate::{
    cloud::Cloud,
    error::Error,
    observer::{CallOutcome, CallRecord, UnsentWrite},
    request::Call,
    send::budget::{Permit, Refusal},
    send::circuit::Ending,
    send::classify::classify,
    send::error_text,
    send::retry_after,
    send::transport::HttpResponse,
    sent::{self, Withdrawal},
    service::Service,
    session::Session,
    session::discovery,
};
use capo_core::FailureClass;

impl Cloud {
    /// Sends a call to the address that `url` finds in the catalogue, and sends it once more with a new token after a
    /// 401.
    pub(crate) async fn send_to<T>(
        &self,
        call: &Call,
        url: impl Fn(&Session) -> Result<Url, Error> + Send,
        read: impl Fn(&[u8]) -> Result<T, serde_json::Error> + Send,
    ) -> Result<T, Error> {
        let mut again = false;
        loop {
            let (session, address) = self.located(&url).await?;
            let permit = self.permit(call).await?;
            if Instant::now() >= session.expires {
                // The token expired while the call waited for the budget.
                drop(permit);
                continue;
            }
            if call.mutates() {
                self.may_be_sent(call)?;
                self.is_in_time(call)?;
            }
            let attempt = self.attempt(call, &session, address, permit, &read);
            if let Ok(value) = attempt.await? {
                return Ok(value);
            }
            let name = &self.0.profile.name;
            if again || !self.0.token_source.refused(&session, call.service) {
                let text = format!(
                    "{} refuses the token of cloud {name} (HTTP 401)",
                    call.service
                );
                return Err(Self::failure(call, FailureClass::Auth, text).with_status(401));
            }
            again = true;
            self.0.observer.reauthenticated(name, call.service);
        }
    }

    /// Refuses a change while this process does not hold the lease, a change that was withdrawn, and every change in a
    /// dry run, which reports it.
    fn may_be_sent(&self, call: &Call) -> Result<(), Error> {
        let lease = &self.0.lease;
        let text = if lease.is_dry_run() {
            self.0.observer.not_sent(&UnsentWrite {
                service: call.service,
                request: call.request,
                method: call.method_name(),
                path: call.path.join("/"),
                body: call.body.as_ref().and_then(|body| body.as_deref().ok()),
            });
            "not sent: this is a dry run"
        } else if Withdrawal::is_withdrawn() {
            "not sent: it was taken back while it waited for the request budget"
        } else if lease.holds_at(std::time::Instant::now()) {
            return Ok(());
        } else {
            "not sent: this process does not hold the leader lease"
        };
        Err(Self::failure(call, FailureClass::NotSent, text))
    }

    /// Refuses a change that was asked for too long ago. The record of a creation ends some time after the creation was
    /// asked for, and OpenStack could still carry out a request that is sent late when its record has ended.
    fn is_in_time(&self, call: &Call) -> Result<(), Error> {
        let limit = self.0.budgets.of(call.service).longest_wait();
        if call.made.elapsed() <= limit {
            return Ok(());
        }
        let text = format!(
            "not sent within {} s, because a token or a version of {} came late",
            limit.as_secs(),
            call.service
        );
        Err(Self::failure(call, FailureClass::Transient, text))
    }

    /// A token and the address from its catalogue. A catalogue that lacks the service is requested once more if it is
    /// old.
    async fn located(
        &self,
        url: &(impl Fn(&Session) -> Result<Url, Error> + Send),
    ) -> Result<(Arc<Session>, Url), Error> {
        let session = self.0.token_source.session().await?;
        match url(&session) {
            Err(error)
                if error.class() == FailureClass::NoService
                    && self.0.token_source.discard_if_old(&session) =>
            {
                let session = self.0.token_source.session().await?;
                let url = url(&session)?;
                Ok((session, url))
            }
            Err(error) => Err(error),
            Ok(url) => Ok((session, url)),
        }
    }

    async fn permit(&self, call: &Call) -> Result<Permit, Error> {
        let budget = self.0.budgets.of(call.service);
        budget
            .acquire(call.priority)
            .await
            .map_err(|refusal| match refusal {
                Refusal::HeldBack {
                    retry_after,
                    failure,
                    requested,
                } => {
                    let name = &self.0.profile.name;
                    self.0.observer.refused(name, call.service, call.request);
                    let class = if requested {
                        FailureClass::Throttled
                    } else {
                        FailureClass::Transient
                    };
                    failure
                        .unwrap_or_else(|| {
                            Self::failure(call, class, format!("{} is held back", call.service))
                        })
                        .of_request(call.service, call.request)
                        .with_retry_after(Some(retry_after))
                        .with_request_id(None)
                        .with_maybe_done(false)
                        .with_too_large(false)
                }
                Refusal::TooLongAWait => {
                    let text = format!("waits for our own request budget of {}", call.service);
                    Self::failure(call, FailureClass::Throttled, text)
                }
            })
    }

    /// Sends one request, and returns its result or the failure. The end of the request is reported to the budget.
    async fn attempt<T>(
        &self,
        call: &Call,
        session: &Session,
        url: Url,
        permit: Permit,
        read: &(impl Fn(&[u8]) -> Result<T, serde_json::Error> + Send),
    ) -> Result<Result<T, Unauthorized>, Error> {
        let sent = Instant::now();
        sent::note(sent);
        self.0.observer.in_flight(call.service, 1);
        let in_flight = InFlight(self, call.service);
        let result = self.exchange(call, session, url).await;
        drop(in_flight);
        let mut outcome = match &result {
            Ok(answer) => CallOutcome::Status(answer.status),
            Err((broken, _)) => *broken,
        };
        let (ending, concluded) = match result {
            // The caller requests less, and only the answer to that shows whether the service works.
            Err((_, error)) if call.smaller_follows && error.is_too_large() => {
                (Ending::Abandoned, Err(error))
            }
            Err((_, error)) => (Ending::Failed, Err(error)),
            Ok(answer) if answer.status == 401 => (Ending::Answered, Ok(Err(Unauthorized))),
            // Octavia, Nova and Glance answer a request for their versions with 300 Multiple Choices.
            Ok(answer) if matches!(answer.status, 200..=300) => {
                self.0.token_source.accepted(call.service);
                if let Ok(value) = read(&answer.body) {
                    (Ending::Answered, Ok(Ok(value)))
                } else {
                    outcome = CallOutcome::Unreadable;
                    (Ending::Failed, Err(Self::unreadable(call, &answer)))
                }
            }
            Ok(answer) => {
                self.0.token_source.accepted(call.service);
                let (ending, error) = self.refused(call, session, &answer);
                (ending, Err(error))
            }
        };
        let duration = sent.elapsed();
        self.0.observer.call(&CallRecord {
            cloud: &self.0.profile.name,
            service: call.service,
            request: call.request,
            method: call.method_name(),
            outcome,
            duration,
            limiter_wait: permit.waited,
        });
        tracing::debug!(
            cloud = self.0.profile.name,
            request = call.request,
            ?outcome,
            ?duration,
            "called OpenStack"
        );
        let failure = match (&concluded, ending) {
            (Err(error), Ending::Failed | Ending::PauseRequested(_)) => Some(error.clone()),
            _ => None,
        };
        permit.end(ending, failure);
        concluded
    }

    /// Sends the request. For a read, up to three redirects to the same host are followed.
    async fn exchange(
        &self,
        call: &Call,
        session: &Session,
        mut url: Url,
    ) -> Result<HttpResponse, (CallOutcome, Error)> {
        let mut token = HeaderValue::from_str(session.token.expose_secret()).map_err(|_| {
            let error = Self::failure(call, FailureClass::Transient, "the token can't be sent");
            (CallOutcome::Unreadable, error)
        })?;
        token.set_sensitive(true);
        for _ in 0..4 {
            let mut request = self
                .0
                .transport
                .client
                .request(call.method.clone(), url.clone())
                .header("X-Auth-Token", token.clone())
                .header("Accept", "application/json");
            if let Some(version) = call.version {
                request = request
                    .header("OpenStack-API-Version", format!("compute {version}"))
                    .header("X-OpenStack-Nova-API-Version", version.to_string());
            }
            if let Some(body) = &call.body {
                let body = body.clone().map_err(|unserializable| {
                    let text = unserializable.to_string();
                    let error = Self::failure(call, FailureClass::Invalid, text);
                    (CallOutcome::Unreadable, error)
                })?;
                request = request
                    .header("Content-Type", "application/json")
                    .body(body);
            }
            let answer = self.0.transport.exchange(request).await.map_err(|broken| {
                let error = Self::failure(
                    call,
                    FailureClass::Transient,
                    format!("{}: {broken}", call.service),
                )
                .with_maybe_done(call.mutates() && broken.maybe_sent())
                .with_too_large(broken.is_too_large());
                (broken.outcome(), error)
            })?;
            let redirected = matches!(answer.status, 301 | 302 | 307 | 308);
            let next = answer
                .header("location")
                .and_then(|location| url.join(location).ok());
            match next {
                Some(next)
                    if redirected
                        && call.method == Method::GET
                        && next.origin() == url.origin() =>
                {
                    url = next;
                }
                _ => return Ok(answer),
            }
        }
        let text = format!("{} redirects in a loop", call.service);
        let error = Self::failure(call, FailureClass::Invalid, text);
        Err((CallOutcome::Unreadable, error))
    }

    /// The failure that an error answer means to the caller, and how the budget counts it.
    fn refused(&self, call: &Call, session: &Session, answer: &HttpResponse) -> (Ending, Error) {
        let status = answer.status;
        let detail = error_text::extract(&answer.body, &[session.token.expose_secret()]);
        let requested = answer.header("retry-after").and_then(|header| {
            retry_after::parse(header, answer.header("date"), jiff::Timestamp::now())
        });
        let class = classify(status, &detail, requested.is_some());
        let service = call.service;
        let text = match (class, detail.as_str()) {
            (FailureClass::Throttled, _) => {
                format!("{service} is throttling requests (HTTP {status})")
            }
            (_, _) if (300..400).contains(&status) => {
                format!(
                    "{service} redirects to another place (HTTP {status}), which is not followed"
                )
            }
            (_, "") => format!("{service} answers HTTP {status}"),
            (_, detail) => format!("{service} answers HTTP {status}: {detail}"),
        };
        let error = Self::failure(call, class, text)
            .with_status(status)
            .with_request_id(answer.request_id());
        match class {
            FailureClass::Throttled => {
                let pause = retry_after::pause(requested, rand::random());
                let name = &self.0.profile.name;
                self.0.observer.throttled(name, service, pause, requested);
                // A proxy may answer 503 while the service goes on. 429 and 413 come from a service that refuses the
                // request.
                let error = error
                    .with_retry_after(Some(pause))
                    .with_maybe_done(call.mutates() && status == 503);
                (Ending::PauseRequested(pause), error)
            }
            FailureClass::Transient => (Ending::Failed, error.with_maybe_done(call.mutates())),
            _ => (Ending::Answered, error),
        }
    }

    fn unreadable(call: &Call, answer: &HttpResponse) -> Error {
        let text = format!("the answer of {} can't be read", call.service);
        Self::failure(call, FailureClass::Transient, text)
            .with_status(answer.status)
            .with_request_id(answer.request_id())
            .with_maybe_done(call.mutates())
    }

    pub(crate) fn address(&self, call: &Call, session: &Session) -> Result<Url, Error> {
        let endpoint = self.endpoint(call, session)?;
        let base = discovery::base(call.service, &endpoint, &session.project_id);
        let mut url = discovery::address(&base, &call.path).ok_or_else(|| {
            let text = format!(
                "\"{}\" is not an id: it is empty, \".\" or \"..\"",
                call.path.last().map_or("", String::as_str)
            );
            Self::failure(call, FailureClass::NotFound, text)
        })?;
        if !call.query.is_empty() {
            url.query_pairs_mut().extend_pairs(&call.query);
        }
        Ok(url)
    }

    pub(crate) fn endpoint(&self, call: &Call, session: &Session) -> Result<Url, Error> {
        let profile = &self.0.profile;
        session
            .catalogue
            .endpoint(call.service, profile.region.as_deref(), profile.interface)
            .map_err(|missing| Self::failure(call, FailureClass::NoService, missing.to_string()))
    }

    fn failure(call: &Call, class: FailureClass, message: impl Into<String>) -> Error {
        Error::new(call.service, call.request, class, message)
    }
}

/// The service answered 401 to a token that was valid when the request was sent.
struct Unauthorized;

/// Counts a request as in flight until this value is dropped.
struct InFlight<'a>(&'a Cloud, Service);

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        self.0.0.observer.in_flight(self.1, -1);
    }
}
