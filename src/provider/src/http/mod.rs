//! The one HTTP/1.1 listener that webhooks, metrics and probes are served by, and the certificates it presents.
//!
//! Everything here is bounded: anybody who reaches a port may send anything.

mod certificates;
mod expiry;
mod listener;
mod tls;

pub use certificates::{CertificateError, CertificateObserver};
pub use listener::ListenError;
pub use tls::{MinimumTls, TlsError};

pub(crate) use certificates::Certificates;
pub(crate) use listener::{Limits, Listener, Response, Transport, text};
pub(crate) use tls::mounted_or_self_signed;
