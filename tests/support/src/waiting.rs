//! How long tests wait.

use std::time::{Duration, Instant};

/// The longest that a test waits for one thing on a busy machine.
pub const PATIENCE: Duration = Duration::from_mins(3);
/// The interval between two checks.
const BETWEEN: Duration = Duration::from_millis(50);

/// The first result of `look`. Fails the test after [`PATIENCE`], with `what` in the message.
pub async fn until<T>(what: &str, mut look: impl AsyncFnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(found) = look().await {
            return found;
        }
        assert!(
            begun.elapsed() < PATIENCE,
            "not seen within {PATIENCE:?}: {what}"
        );
        tokio::time::sleep(BETWEEN).await;
    }
}
