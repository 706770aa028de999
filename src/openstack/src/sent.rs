//! Withdraws changes that still wait for the request budget, and records when the requests of a call were sent. A
//! caller that judges the age of an answer needs this time, because a call may wait for the request budget much longer
//! than for its answer.

use std::{
    cell::Cell,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use tokio::time::Instant;

tokio::task_local! {
    static FIRST: Cell<Option<Instant>>;
    static WITHDRAWAL: Withdrawal;
}

/// Withdraws a change that still waits for the request budget, so that it is not sent. A clone is cheap.
#[derive(Debug, Clone, Default)]
pub struct Withdrawal(Arc<AtomicBool>);

impl Withdrawal {
    /// Withdraws the change.
    pub fn withdraw(&self) {
        self.0.store(true, Ordering::SeqCst);
    }

    /// Makes `calls`, but sends none of their changes once the change was withdrawn.
    pub async fn scope<T>(&self, calls: impl Future<Output = T>) -> T {
        WITHDRAWAL.scope(self.clone(), calls).await
    }

    /// Whether the change that is about to be sent was withdrawn.
    pub fn is_withdrawn() -> bool {
        let is_withdrawn = WITHDRAWAL.try_with(|withdrawal| withdrawal.0.load(Ordering::SeqCst));
        is_withdrawn.unwrap_or(false)
    }
}

/// The result of `calls`, and the time at which its first request was sent; `None` if none was sent.
pub async fn when_sent<T>(calls: impl Future<Output = T>) -> (T, Option<Instant>) {
    let calls = async {
        let result = calls.await;
        (result, FIRST.with(Cell::get))
    };
    FIRST.scope(Cell::new(None), calls).await
}

/// Records that a request is being sent now.
pub(crate) fn note(now: Instant) {
    // Outside of `when_sent` the time is not recorded.
    let _ = FIRST.try_with(|first| {
        if first.get().is_none() {
            first.set(Some(now));
        }
    });
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_first_request_counts_and_not_the_wait_before_it() {
        note(Instant::now());
        let begun = Instant::now();
        let (value, sent) = when_sent(async {
            tokio::time::sleep(Duration::from_secs(40)).await;
            note(Instant::now());
            tokio::time::sleep(Duration::from_secs(5)).await;
            note(Instant::now());
            7
        })
        .await;
        assert_eq!(value, 7);
        assert_eq!(sent, Some(begun + Duration::from_secs(40)));
        assert_eq!(when_sent(std::future::ready(())).await.1, None);
    }
}
