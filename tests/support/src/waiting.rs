//! How long tests wait.

use std::{
    fmt::Display,
    time::{Duration, Instant},
};

/// The longest time that a test waits for one thing, on a busy machine or in a real OpenStack.
pub const PATIENCE: Duration = Duration::from_mins(4);

/// How long to wait for one thing, and how often to check for it. [`Wait::default`] is what [`until`] uses.
#[derive(Debug, Clone, Copy)]
pub struct Wait {
    /// The longest time to wait.
    pub at_most: Duration,
    /// The interval between two checks at first. It grows with the time that the wait has taken ([`Waiting`]).
    pub between: Duration,
}

impl Default for Wait {
    fn default() -> Self {
        Self {
            at_most: PATIENCE,
            between: Duration::from_millis(50),
        }
    }
}

impl Wait {
    /// The same with this limit.
    #[must_use]
    pub fn at_most(self, at_most: Duration) -> Self {
        Self { at_most, ..self }
    }

    /// The same with this interval between two checks.
    #[must_use]
    pub fn between(self, between: Duration) -> Self {
        Self { between, ..self }
    }

    /// Starts to wait, in a loop that the caller writes. Such a loop can be part of a task that moves between threads,
    /// and the methods below can't.
    pub fn start(self) -> Waiting {
        Waiting {
            wait: self,
            begun: Instant::now(),
        }
    }

    /// The first result of `look`; the last error if there is no result in time.
    pub async fn ok<T, S>(self, mut look: impl AsyncFnMut() -> Result<T, S>) -> Result<T, S> {
        let waiting = self.start();
        loop {
            match look().await {
                Ok(found) => return Ok(found),
                Err(seen) if waiting.is_over() => return Err(seen),
                Err(_) => waiting.pause().await,
            }
        }
    }

    /// The first result of `look`, if there is one in time.
    pub async fn some<T>(self, mut look: impl AsyncFnMut() -> Option<T>) -> Option<T> {
        self.ok(async || look().await.ok_or(())).await.ok()
    }

    /// Whether `holds` is true in time.
    pub async fn holds(self, mut holds: impl AsyncFnMut() -> bool) -> bool {
        self.some(async || holds().await.then_some(()))
            .await
            .is_some()
    }
}

/// The longest interval to which that between two checks grows.
const SELDOM: Duration = Duration::from_millis(250);

/// A wait that has begun. After a while its checks become rarer, because those of all tests are most of what an API
/// server has to answer, and no test ends more than a twentieth later.
#[derive(Debug)]
pub struct Waiting {
    wait: Wait,
    begun: Instant,
}

impl Waiting {
    /// Returns when it is time for another check: `true` if there is to be one, `false` if the time is up.
    pub async fn again(&self) -> bool {
        if self.is_over() {
            return false;
        }
        self.pause().await;
        true
    }

    fn is_over(&self) -> bool {
        self.begun.elapsed() >= self.wait.at_most
    }

    async fn pause(&self) {
        let grown = (self.begun.elapsed() / 20).min(SELDOM);
        tokio::time::sleep(self.wait.between.max(grown)).await;
    }
}

/// The first result of `look`. Fails the test after [`PATIENCE`], with `what` in the message.
pub async fn until<T>(what: &str, mut look: impl AsyncFnMut() -> Option<T>) -> T {
    until_ok(what, async || look().await.ok_or("")).await
}

/// Returns when `holds` is true. Fails the test after [`PATIENCE`], with `what` in the message.
pub async fn until_true(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    until(what, async || holds().await.then_some(())).await;
}

/// Like [`until`], but `look` returns what it saw if it has no result. The message shows what was seen last.
pub async fn until_ok<T, S: Display>(what: &str, look: impl AsyncFnMut() -> Result<T, S>) -> T {
    match Wait::default().ok(look).await {
        Ok(found) => found,
        Err(seen) => panic!("not seen within {PATIENCE:?}: {what} {seen:#}"),
    }
}
