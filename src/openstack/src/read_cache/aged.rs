//! One value that is read again, by one caller at a time, when it is too old.

use std::{future::Future, time::Duration};

use tokio::{sync::Mutex, time::Instant};

use crate::error::Error;

/// A value and the time of its read. Callers that need it at the same time share one read, and also its failure.
#[derive(Debug)]
pub(crate) struct Aged<T>(Mutex<State<T>>);

#[derive(Debug)]
struct State<T> {
    last_read: Option<Read<T>>,
    failure: Option<FailedRead>,
}

/// A value, and the time at which its read began.
#[derive(Debug)]
struct Read<T> {
    value: T,
    began: Instant,
}

/// The failure of the last read, and the time at which that read ended.
#[derive(Debug)]
struct FailedRead {
    error: Error,
    ended: Instant,
}

impl<T> Default for Aged<T> {
    fn default() -> Self {
        Self(Mutex::new(State {
            last_read: None,
            failure: None,
        }))
    }
}

impl<T: Clone> Aged<T> {
    /// The value if its read began at most `age` ago, or else the result of `read`.
    pub(crate) async fn get<F>(&self, age: Duration, read: impl FnOnce() -> F) -> Result<T, Error>
    where
        F: Future<Output = Result<T, Error>>,
    {
        let requested = Instant::now();
        let mut state = self.0.lock().await;
        if let Some(last) = &state.last_read
            && last.began.elapsed() <= age
        {
            return Ok(last.value.clone());
        }
        if let Some(failure) = &state.failure
            && failure.ended >= requested
        {
            // The read that this caller waited for has failed.
            return Err(failure.error.clone());
        }
        let began = Instant::now();
        match read().await {
            Ok(value) => {
                state.last_read = Some(Read {
                    value: value.clone(),
                    began,
                });
                state.failure = None;
                Ok(value)
            }
            Err(error) => {
                state.failure = Some(FailedRead {
                    error: error.clone(),
                    ended: Instant::now(),
                });
                Err(error)
            }
        }
    }

    /// Returns the value like [`Aged::get`], except that a failed read returns the older value if there is one. It is
    /// for values that hardly ever change.
    pub(crate) async fn get_or_keep<F>(
        &self,
        age: Duration,
        read: impl FnOnce() -> F,
    ) -> Result<T, Error>
    where
        F: Future<Output = Result<T, Error>>,
    {
        match self.get(age, read).await {
            Ok(value) => Ok(value),
            Err(error) => {
                let state = self.0.lock().await;
                state
                    .last_read
                    .as_ref()
                    .map(|last| last.value.clone())
                    .ok_or(error)
            }
        }
    }
}
