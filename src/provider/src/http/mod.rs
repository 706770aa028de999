//! The HTTP/1.1 listener that serves webhooks, metrics and probes, and the certificates that it presents.
//!
//! All sizes, times and numbers are bounded here, because any client that reaches a port may send any data.

mod certificates;
mod expiry;
mod listener;
mod tls;

pub use certificates::{CertificateError, CertificateObserver};
pub use listener::ListenError;
pub use tls::{MinimumTls, TlsError};

pub(crate) use certificates::Certificates;
pub(crate) use listener::{Listener, ListenerLimits, Response, Transport, text};
pub(crate) use tls::mounted_or_self_signed;
