//! The sizes in which the pages of lists are requested.

use std::{collections::HashMap, time::Duration};

use parking_lot::Mutex;
use tokio::time::Instant;

/// The number of objects per page that is requested. Services reduce it to their own limit.
pub(super) const PAGE: usize = 1000;

/// How long lists are requested in smaller pages before whole ones are tried again. The objects or the rights of the
/// credentials may have changed by then.
const SMALLER_FOR: Duration = Duration::from_hours(1);

/// The sizes of the pages of those lists whose whole pages were too large, by the name of the call, and when each size
/// was found.
#[derive(Debug, Default)]
pub(crate) struct PageSizes(Mutex<HashMap<&'static str, (usize, Instant)>>);

impl PageSizes {
    /// The size in which the pages of this call are requested.
    pub(super) fn of(&self, request: &'static str) -> usize {
        let sizes = self.0.lock();
        sizes
            .get(request)
            .filter(|(_, found)| found.elapsed() < SMALLER_FOR)
            .map_or(PAGE, |(size, _)| *size)
    }

    /// Requests the pages of this call in this size for a while.
    pub(super) fn keep(&self, request: &'static str, size: usize) {
        self.0.lock().insert(request, (size, Instant::now()));
    }
}
