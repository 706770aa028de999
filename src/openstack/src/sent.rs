//! When the requests of a call were sent. A caller that judges by the age of an answer needs this moment, because a call
//! may wait for the request budget much longer than for its answer.

use std::cell::Cell;

use tokio::time::Instant;

tokio::task_local! {
    static FIRST: Cell<Option<Instant>>;
}

/// The result of `calls`, and when the first request of them was sent; `None` where none was sent.
pub async fn when_sent<T>(calls: impl Future<Output = T>) -> (T, Option<Instant>) {
    let calls = async {
        let result = calls.await;
        (result, FIRST.with(Cell::get))
    };
    FIRST.scope(Cell::new(None), calls).await
}

/// Notes that a request is being sent now.
pub(crate) fn note(now: Instant) {
    // Outside of `when_sent` the moment has no reader.
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
