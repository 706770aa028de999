//! The limits of the client.

use std::time::Duration;

use crate::profile::{ProfileError, certificates};

/// Limits of the client, the same for every cloud.
#[derive(Debug, Clone, PartialEq)]
pub struct ClientSettings {
    /// Calls per second, per cloud, credential and service.
    pub qps: f64,
    /// Calls that may follow each other at once after a quiet time.
    pub burst: u32,
    /// Calls in flight, per cloud, credential and service.
    pub max_in_flight: usize,
    /// Longest time to make a connection.
    pub connect_timeout: Duration,
    /// Longest time from sending a request to the end of its answer.
    pub total_timeout: Duration,
    /// Longest time in the queue of the request budget, and longest time from a caller's change to its last request.
    /// The second includes waits for a token and for the versions of a service.
    pub longest_wait: Duration,
    /// Largest answer, in bytes. A list whose pages are larger is requested in smaller pages.
    pub body_cap: usize,
    /// PEM of the authorities to trust if the Secret has no `cacert`; `None` for the system's.
    pub ca_certs: Option<String>,
    /// The User-Agent header.
    pub user_agent: String,
}

impl Default for ClientSettings {
    fn default() -> Self {
        Self {
            qps: 10.0,
            burst: 20,
            max_in_flight: 8,
            connect_timeout: Duration::from_secs(5),
            total_timeout: Duration::from_secs(30),
            longest_wait: Duration::from_mins(1),
            body_cap: 8 << 20,
            ca_certs: None,
            user_agent: format!("capo-rs/{}", capo_core::build_info::VERSION),
        }
    }
}

impl ClientSettings {
    /// Checks [`ClientSettings::ca_certs`], so that a wrong value ends the start instead of failing every cloud later.
    pub fn validate(&self) -> Result<(), ProfileError> {
        match &self.ca_certs {
            Some(pem) => certificates::authorities(pem.as_bytes()).map(drop),
            None => Ok(()),
        }
    }
}
