//! One value that is read again, by one caller at a time, when it is too old.

use std::{future::Future, time::Duration};

use tokio::{sync::Mutex, time::Instant};

use crate::error::Error;

/// A value and the time of its read. Callers that need it at the same time share one read, and also its failure.
#[derive(Debug)]
pub(crate) struct Aged<T>(Mutex<State<T>>);

#[derive(Debug)]
struct State<T> {
    value: Option<(T, Instant)>,
    failure: Option<(Error, Instant)>,
}

impl<T> Default for Aged<T> {
    fn default() -> Self {
        Self(Mutex::new(State {
            value: None,
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
        if let Some((value, read_at)) = &state.value
            && read_at.elapsed() <= age
        {
            return Ok(value.clone());
        }
        if let Some((error, failed_at)) = &state.failure
            && *failed_at >= requested
        {
            // The read that this caller waited for has failed.
            return Err(error.clone());
        }
        let began = Instant::now();
        match read().await {
            Ok(value) => {
                state.value = Some((value.clone(), began));
                state.failure = None;
                Ok(value)
            }
            Err(error) => {
                state.failure = Some((error.clone(), Instant::now()));
                Err(error)
            }
        }
    }

    /// The same as [`Aged::get`], but a failed read returns the older value if there is one. It is for values that
    /// hardly ever change.
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
                    .value
                    .as_ref()
                    .map(|(old, _)| old.clone())
                    .ok_or(error)
            }
        }
    }
}
