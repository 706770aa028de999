//! How long tests wait.

use std::{
    fmt::Display,
    time::{Duration, Instant},
};

/// The longest that a test waits for one thing on a busy machine.
pub const PATIENCE: Duration = Duration::from_mins(3);
/// The interval between two checks.
const BETWEEN: Duration = Duration::from_millis(50);

/// The first result of `look`. Fails the test after [`PATIENCE`], with `what` in the message.
pub async fn until<T>(what: &str, mut look: impl AsyncFnMut() -> Option<T>) -> T {
    until_ok(what, async || look().await.ok_or("")).await
}

/// Like [`until`], where `look` returns what it saw instead. The message shows what was seen last.
pub async fn until_ok<T, S: Display>(what: &str, mut look: impl AsyncFnMut() -> Result<T, S>) -> T {
    let begun = Instant::now();
    loop {
        let seen = match look().await {
            Ok(found) => return found,
            Err(seen) => seen,
        };
        assert!(
            begun.elapsed() < PATIENCE,
            "not seen within {PATIENCE:?}: {what} {seen:#}"
        );
        drop(seen);
        tokio::time::sleep(BETWEEN).await;
    }
}
