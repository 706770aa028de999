//! What the listener tells the metrics.

use std::time::Duration;

use jiff::Timestamp;

/// Told of every request and every look at the certificate. `()` ignores all of it.
pub trait Observer: Send + Sync + 'static {
    /// A certificate was read and is in use.
    fn certificate_read(&self) {}

    /// A changed certificate could not be used; the one before stays.
    fn certificate_failed(&self) {}

    /// The certificate in use ends then.
    fn certificate_expires(&self, not_after: Timestamp) {
        let _ = not_after;
    }

    /// A request to a known path began.
    fn request_began(&self, path: &'static str) {
        let _ = path;
    }

    /// It was answered with this HTTP status.
    fn request_ended(&self, path: &'static str, code: u16, took: Duration) {
        let _ = (path, code, took);
    }
}

impl Observer for () {}
