//! The reading of bodies within one bound on the memory of all of them.

use std::sync::Arc;

use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The unit of the budget.
const KIB: usize = 1 << 10;

/// The memory for all bodies.
///
/// A body takes its share as it arrives, because a client may announce much and send little. So many bodies can have
/// arrived in part when nothing is left. One of them at a time is then read to its end: memory for the largest body is
/// reserved for that.
pub(super) struct BodyBudget {
    /// KiB that bodies may still take.
    shared: Arc<Semaphore>,
    /// The right to be the body that the reserved memory is for.
    reserve: Arc<Semaphore>,
}

/// What a body takes of the budget, until this is dropped.
#[derive(Default)]
pub(super) struct Share {
    shared: Option<OwnedSemaphorePermit>,
    reserve: Option<OwnedSemaphorePermit>,
}

/// A body that has arrived.
pub(super) struct Received {
    pub(super) bytes: Vec<u8>,
    pub(super) share: Share,
}

/// The reason why a body could not be read.
#[derive(Debug, thiserror::Error)]
pub(super) enum BodyError {
    #[error("the body is larger than {limit} bytes")]
    TooLarge { limit: usize },
    #[error("the body ended early: {0}")]
    EndedEarly(#[from] hyper::Error),
    #[error("too many requests are being answered; try again")]
    NoRoom,
}

impl BodyBudget {
    /// A budget of `bytes` altogether, of which memory for a body of `largest` bytes is reserved.
    pub(super) fn new(bytes: usize, largest: usize) -> Self {
        let shared = bytes.saturating_sub(largest) / KIB;
        Self {
            shared: Arc::new(Semaphore::new(shared)),
            reserve: Arc::new(Semaphore::new(1)),
        }
    }

    /// Reads a body of at most `limit` bytes, and waits while there is no room for it.
    pub(super) async fn read(
        &self,
        mut body: Incoming,
        limit: usize,
    ) -> Result<Received, BodyError> {
        let mut bytes = Vec::new();
        let mut share = Share::default();
        while let Some(frame) = body.frame().await {
            // A frame without data has trailers, which nothing here needs.
            let Ok(data) = frame?.into_data() else {
                continue;
            };
            let size = bytes.len() + data.len();
            if size > limit {
                return Err(BodyError::TooLarge { limit });
            }
            self.extend(&mut share, size).await?;
            bytes.extend_from_slice(&data);
        }
        Ok(Received { bytes, share })
    }

    /// Makes the share that of a body of `bytes`.
    async fn extend(&self, share: &mut Share, bytes: usize) -> Result<(), BodyError> {
        if share.reserve.is_some() {
            return Ok(());
        }
        let held = share
            .shared
            .as_ref()
            .map_or(0, OwnedSemaphorePermit::num_permits);
        let missing = bytes.div_ceil(KIB).saturating_sub(held);
        let missing = u32::try_from(missing).map_err(|_| BodyError::NoRoom)?;
        // The shared memory is tried first, so the reserved memory stays free while there is room.
        tokio::select! {
            biased;
            more = Arc::clone(&self.shared).acquire_many_owned(missing) => {
                let more = more.map_err(|_| BodyError::NoRoom)?;
                match &mut share.shared {
                    Some(held) => held.merge(more),
                    none => *none = Some(more),
                }
            }
            reserve = Arc::clone(&self.reserve).acquire_owned() => {
                share.reserve = Some(reserve.map_err(|_| BodyError::NoRoom)?);
            }
        }
        Ok(())
    }

    /// KiB that are not taken, and the bodies that may be read with the reserved memory.
    #[cfg(test)]
    pub(super) fn free(&self) -> (usize, usize) {
        (
            self.shared.available_permits(),
            self.reserve.available_permits(),
        )
    }
}
