//! One value that is read again when it is too old, by one caller at a time.

use std::{future::Future, time::Duration};

use tokio::{sync::Mutex, time::Instant};

use crate::error::Error;

/// A value and when it was read. Callers that want it at the same time share one read, and its failure too.
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
    /// The value if its read began at most `age` ago, else what `read` returns.
    pub(crate) async fn get<F>(&self, age: Duration, read: impl FnOnce() -> F) -> Result<T, Error>
    where
        F: Future<Output = Result<T, Error>>,
    {
        let asked = Instant::now();
        let mut state = self.0.lock().await;
        if let Some((value, read_at)) = &state.value
            && read_at.elapsed() <= age
        {
            return Ok(value.clone());
        }
        if let Some((error, failed_at)) = &state.failure
            && *failed_at >= asked
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

    /// As [`Aged::get`], but where the read fails and there is an older value, that one: for what hardly ever changes.
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
