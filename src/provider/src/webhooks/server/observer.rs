//! The trait by which the server reports to the metrics.

use std::time::Duration;

use super::CertificateObserver;

/// Receives an event for every request and for every use of the certificate. `()` ignores all of them.
pub trait WebhookObserver: CertificateObserver {
    /// A request to a known path began.
    fn request_began(&self, path: &'static str) {
        let _ = path;
    }

    /// The request was answered with this HTTP status.
    fn request_ended(&self, path: &'static str, code: u16, took: Duration) {
        let _ = (path, code, took);
    }
}

impl WebhookObserver for () {}
