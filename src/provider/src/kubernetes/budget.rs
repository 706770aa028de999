//! `--kube-api-qps` and `--kube-api-burst`: how many requests the controllers may send to the Kubernetes API. Without
//! these flags there is no limit, because the API server itself shares its capacity among its clients. The leader lease
//! is renewed outside this budget, because a renewal that waits in a queue may come too late.

use std::{
    num::NonZeroU32,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};

use governor::{DefaultDirectRateLimiter, Quota, RateLimiter, clock::Clock};
use tokio::time::Sleep;
use tower::{Layer, Service};

/// CAPO's default for `--kube-api-qps`, which applies if only the other flag is given.
pub(crate) const QPS: f64 = 20.0;
/// CAPO's default for `--kube-api-burst`, which applies if only the other flag is given.
pub(crate) const BURST: u32 = 30;

/// Lets requests through at a rate. All clients that are made with it share one bucket.
#[derive(Clone)]
pub(crate) struct Budget(Arc<DefaultDirectRateLimiter>);

impl Budget {
    /// `burst` requests at once, and `qps` requests per second in the long run. A watch counts once, when it begins.
    pub(crate) fn new(qps: f64, burst: u32) -> Self {
        let period = Duration::try_from_secs_f64(1.0 / qps)
            .unwrap_or(Duration::from_secs(1))
            .max(Duration::from_nanos(1));
        let burst = NonZeroU32::new(burst).unwrap_or(NonZeroU32::MIN);
        let quota = Quota::with_period(period)
            .unwrap_or(Quota::per_second(NonZeroU32::MIN))
            .allow_burst(burst);
        Self(Arc::new(RateLimiter::direct(quota)))
    }
}

impl<S> Layer<S> for Budget {
    type Service = Budgeted<S>;

    fn layer(&self, inner: S) -> Budgeted<S> {
        Budgeted {
            inner,
            budget: self.clone(),
            permit: Permit::Needed,
        }
    }
}

/// A service that waits for a permit before each request. Requests are sent in the order in which they arrived.
pub(crate) struct Budgeted<S> {
    inner: S,
    budget: Budget,
    permit: Permit,
}

/// The permit for the next request.
enum Permit {
    Needed,
    Pending(Pin<Box<Sleep>>),
    Granted,
}

impl<S> Budgeted<S> {
    fn poll_permit(&mut self, context: &mut Context<'_>) -> Poll<()> {
        loop {
            match &mut self.permit {
                Permit::Granted => return Poll::Ready(()),
                Permit::Pending(pause) => {
                    ready!(pause.as_mut().poll(context));
                    self.permit = Permit::Needed;
                }
                Permit::Needed => {
                    let limiter = &self.budget.0;
                    self.permit = match limiter.check() {
                        Ok(()) => Permit::Granted,
                        Err(not_yet) => {
                            let pause = not_yet.wait_time_from(limiter.clock().now());
                            Permit::Pending(Box::pin(tokio::time::sleep(pause)))
                        }
                    };
                }
            }
        }
    }
}

impl<S: Service<R>, R> Service<R> for Budgeted<S> {
    type Response = S::Response;
    type Error = S::Error;
    type Future = S::Future;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        ready!(self.poll_permit(context));
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: R) -> S::Future {
        self.permit = Permit::Needed;
        self.inner.call(request)
    }
}

#[cfg(test)]
mod tests {
    use std::{convert::Infallible, future::poll_fn, time::Instant};

    use super::*;

    /// A service that answers at once.
    struct Echo;

    impl Service<u32> for Echo {
        type Response = u32;
        type Error = Infallible;
        type Future = std::future::Ready<Result<u32, Infallible>>;

        fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
            Poll::Ready(Ok(()))
        }

        fn call(&mut self, request: u32) -> Self::Future {
            std::future::ready(Ok(request))
        }
    }

    async fn send(service: &mut Budgeted<Echo>, request: u32) -> u32 {
        poll_fn(|context| Service::<u32>::poll_ready(service, context))
            .await
            .unwrap();
        service.call(request).await.unwrap()
    }

    #[tokio::test]
    async fn after_a_burst_requests_keep_the_rate_whichever_client_sends_them() {
        let budget = Budget::new(100.0, 3);
        let (mut one, mut other) = (budget.layer(Echo), budget.layer(Echo));
        let begun = Instant::now();
        for request in 0..8 {
            let service = if request % 2 == 0 {
                &mut one
            } else {
                &mut other
            };
            assert_eq!(send(service, request).await, request);
        }
        // Three requests at once, and five more with gaps of 10 ms. A busy machine can only make this slower.
        assert!(begun.elapsed() >= Duration::from_millis(45));
    }

    #[tokio::test]
    async fn a_permit_is_kept_until_its_request_is_sent() {
        let budget = Budget::new(0.001, 2);
        let mut service = budget.layer(Echo);
        for _ in 0..5 {
            // A service that is polled often without sending a request uses one permit.
            poll_fn(|context| Service::<u32>::poll_ready(&mut service, context))
                .await
                .unwrap();
        }
        assert_eq!(service.call(1).await, Ok(1));
        assert_eq!(send(&mut service, 2).await, 2);
        let third = tokio::time::timeout(Duration::from_millis(50), send(&mut service, 3)).await;
        assert!(third.is_err(), "both are spent");
    }
}
