//! Time in the services: an argument of every call, which they never read from a clock.

use std::time::Duration;

use jiff::Timestamp;

/// One moment, on two clocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Now {
    /// The time since the start of the cloud, on which timers run.
    pub elapsed: Duration,
    /// The wall clock, for the timestamps that the APIs show.
    pub wall: Timestamp,
}

impl Now {
    /// The moment at which a cloud starts, at this wall time.
    pub const fn beginning(wall: Timestamp) -> Self {
        Self {
            elapsed: Duration::ZERO,
            wall,
        }
    }

    /// The same clocks, moved to `elapsed`.
    #[must_use]
    pub fn at(self, elapsed: Duration) -> Self {
        let forward = elapsed.saturating_sub(self.elapsed);
        let back = self.elapsed.saturating_sub(elapsed);
        let wall = if back.is_zero() {
            self.wall.checked_add(forward)
        } else {
            self.wall.checked_sub(back)
        };
        Self {
            elapsed,
            wall: wall.unwrap_or(self.wall),
        }
    }

    /// Whole seconds in UTC without a zone, as Octavia and Cinder write it.
    pub fn without_zone(self) -> String {
        self.wall.strftime("%Y-%m-%dT%H:%M:%S").to_string()
    }

    /// Whole seconds with `Z`, as Nova, Neutron and Glance write it.
    pub fn zulu(self) -> String {
        self.wall.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
    }

    /// Microseconds with `Z`, as Keystone writes it.
    pub fn zulu_micro(self) -> String {
        self.wall.strftime("%Y-%m-%dT%H:%M:%S%.6fZ").to_string()
    }
}
