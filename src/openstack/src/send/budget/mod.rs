//! The request budget of one cloud, credential and service. It limits the calls per second and the calls in flight.
//! While calls wait, urgent ones are sent first, and a call that has waited long moves up into the next more urgent
//! class.
//!
//! `governor` is polled without waiting. An ordered queue here decides which call may poll it next, because governor
//! does not order its own waiters. The time is tokio's, so that tests can stop it.

use std::{collections::BTreeMap, num::NonZeroU32, sync::Arc, time::Duration};

use governor::{
    Quota, RateLimiter,
    clock::Clock,
    middleware::StateInformationMiddleware,
    nanos::Nanos,
    state::{InMemoryState, NotKeyed},
};
use parking_lot::Mutex;
use tokio::{sync::Notify, time::Instant};

use crate::send::circuit::{Admission, Circuit, Ending};
use capo_core::Priority;

/// The limits of a budget.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Limits {
    /// Calls a second in the long run.
    pub(crate) per_second: f64,
    /// Calls that may follow each other at once after a quiet time.
    pub(crate) burst: u32,
    /// Calls that may be under way at the same time.
    pub(crate) in_flight: usize,
    /// Longest wait in the queue.
    pub(crate) longest_wait: Duration,
}

/// One budget. All callers of this service of this cloud with this credential share it.
#[derive(Debug)]
pub(crate) struct Budget {
    limits: Limits,
    limiter: RateLimiter<NotKeyed, InMemoryState, TokioClock, StateInformationMiddleware>,
    clock: TokioClock,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    waiting: BTreeMap<Ticket, Arc<Notify>>,
    issued: u64,
    in_flight: usize,
    /// The calls that could be sent at once after the last one, and the time of that call.
    left: Option<(u32, Instant)>,
    circuit: Circuit,
    /// The failure because of which calls are held back; it is returned to refused callers.
    failure: Option<crate::Error>,
}

/// The present state of a budget.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Level {
    /// Calls that wait for it.
    pub waiting: usize,
    /// Calls per second that it allows in the long run.
    pub per_second: f64,
    /// Calls that it allows at once.
    pub tokens: f64,
}

/// A place in the queue: the time at which the call is due, then the order of arrival.
type Ticket = (Instant, u64);

/// How long a call of this class lets more urgent calls that arrive later go first. After this time it has moved up
/// into the next class, so that no class starves.
fn head_start(priority: Priority) -> Duration {
    match priority {
        Priority::Gate => Duration::ZERO,
        Priority::Settling => Duration::from_secs(5),
        Priority::Steady => Duration::from_secs(15),
    }
}

/// Why a call is not let through.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Refusal {
    /// The service is throttling requests, or does not answer.
    #[error("calls are held back for at least {retry_after:?}")]
    HeldBack {
        /// How long calls are held back at least.
        retry_after: Duration,
        /// The failure because of which calls are held back.
        failure: Option<crate::Error>,
        /// Whether the service requested the pause.
        requested: bool,
    },
    /// The call waited in the queue for [`Limits::longest_wait`].
    #[error("the call waited too long for the request budget")]
    TooLongAWait,
}

/// The permission for one call. Dropping it frees its place.
#[derive(Debug)]
pub(crate) struct Permit {
    budget: Arc<Budget>,
    probe: bool,
    ended: bool,
    /// How long it took to get it.
    pub(crate) waited: Duration,
}

impl Budget {
    pub(crate) fn new(limits: Limits) -> Arc<Self> {
        let clock = TokioClock {
            start: Instant::now(),
        };
        let burst = NonZeroU32::new(limits.burst).unwrap_or(NonZeroU32::MIN);
        let period = Duration::try_from_secs_f64(1.0 / limits.per_second)
            .unwrap_or(Duration::from_secs(1))
            .max(Duration::from_micros(1));
        let quota = Quota::with_period(period)
            .unwrap_or(Quota::per_second(NonZeroU32::MIN))
            .allow_burst(burst);
        Arc::new(Self {
            limits,
            limiter: RateLimiter::direct_with_clock(quota, clock).with_middleware(),
            clock,
            state: Mutex::default(),
        })
    }

    /// Waits for the permission for one call.
    pub(crate) async fn acquire(self: &Arc<Self>, priority: Priority) -> Result<Permit, Refusal> {
        let start = Instant::now();
        let place = self.queue(priority);
        tokio::time::timeout(self.limits.longest_wait, async {
            loop {
                match self.attempt(&place, start) {
                    Attempt::Go(permit) => return Ok(permit),
                    Attempt::Refused(refusal) => return Err(refusal),
                    Attempt::WaitForTurn => place.turn.notified().await,
                    Attempt::WaitUntil(moment) => {
                        tokio::select! {
                            () = place.turn.notified() => {}
                            () = tokio::time::sleep_until(moment) => {}
                        }
                    }
                }
            }
        })
        .await
        .unwrap_or(Err(Refusal::TooLongAWait))
    }

    /// The longest time that a call waits here.
    pub(crate) fn longest_wait(&self) -> Duration {
        self.limits.longest_wait
    }

    /// The level of the budget at this moment.
    pub(crate) fn level(&self) -> Level {
        let state = self.state.lock();
        let full = f64::from(self.limits.burst);
        Level {
            waiting: state.waiting.len(),
            per_second: self.limits.per_second,
            tokens: state.left.map_or(full, |(left, since)| {
                let refilled = since.elapsed().as_secs_f64() * self.limits.per_second;
                (f64::from(left) + refilled).min(full)
            }),
        }
    }

    fn queue(self: &Arc<Self>, priority: Priority) -> QueuePlace {
        let turn = Arc::new(Notify::new());
        let mut state = self.state.lock();
        state.issued += 1;
        let ticket = (Instant::now() + head_start(priority), state.issued);
        state.waiting.insert(ticket, Arc::clone(&turn));
        QueuePlace {
            budget: Arc::clone(self),
            ticket,
            turn,
        }
    }

    fn attempt(self: &Arc<Self>, place: &QueuePlace, start: Instant) -> Attempt {
        let mut state = self.state.lock();
        let now = Instant::now();
        if let Some(retry_after) = state.circuit.refuses(now) {
            return Attempt::Refused(Refusal::HeldBack {
                retry_after,
                failure: state.failure.clone(),
                requested: state.circuit.pause_was_requested(),
            });
        }
        let first = state.waiting.keys().next() == Some(&place.ticket);
        if !first || state.in_flight >= self.limits.in_flight {
            return Attempt::WaitForTurn;
        }
        match self.limiter.check() {
            Ok(left) => state.left = Some((left.remaining_burst_capacity(), now)),
            Err(not_until) => {
                return Attempt::WaitUntil(now + not_until.wait_time_from(self.clock.now()));
            }
        }
        let probe = state.circuit.admit(now) == Admission::Probe;
        state.waiting.remove(&place.ticket);
        state.in_flight += 1;
        state.wake_first();
        drop(state);
        Attempt::Go(Permit {
            budget: Arc::clone(self),
            probe,
            ended: false,
            waited: now - start,
        })
    }
}

enum Attempt {
    Go(Permit),
    Refused(Refusal),
    WaitForTurn,
    WaitUntil(Instant),
}

/// A place in the queue, which is given up when this value is dropped.
struct QueuePlace {
    budget: Arc<Budget>,
    ticket: Ticket,
    turn: Arc<Notify>,
}

impl Drop for QueuePlace {
    fn drop(&mut self) {
        let mut state = self.budget.state.lock();
        if state.waiting.remove(&self.ticket).is_some() {
            state.wake_first();
        }
    }
}

impl State {
    fn wake_first(&self) {
        if let Some(turn) = self.waiting.values().next() {
            turn.notify_one();
        }
    }
}

impl Permit {
    /// Ends the call. `failure` is returned to callers while calls are held back.
    pub(crate) fn end(mut self, ending: Ending, failure: Option<crate::Error>) {
        self.conclude(ending, failure);
    }

    fn conclude(&mut self, ending: Ending, failure: Option<crate::Error>) {
        if std::mem::replace(&mut self.ended, true) {
            return;
        }
        let mut state = self.budget.state.lock();
        let now = Instant::now();
        state.in_flight = state.in_flight.saturating_sub(1);
        state.circuit.ended(ending, self.probe, now);
        if failure.is_some() {
            state.failure = failure;
        }
        if state.circuit.refuses(now).is_some() {
            // Calls are held back from now on, so all waiting calls are woken and refused.
            for turn in state.waiting.values() {
                turn.notify_one();
            }
        } else {
            state.wake_first();
        }
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.conclude(Ending::Abandoned, None);
    }
}

/// Governor's clock over tokio's.
#[derive(Debug, Clone, Copy)]
struct TokioClock {
    start: Instant,
}

impl Clock for TokioClock {
    /// Time since the budget was created.
    type Instant = Nanos;

    fn now(&self) -> Nanos {
        self.start.elapsed().into()
    }
}

#[cfg(test)]
mod tests;
