//! Health checks like those of HAProxy: a new member is up until its first check fails, one that was disabled is down
//! until enough checks succeed; afterwards the counts apply.

use std::{net::SocketAddr, time::Duration};

use tokio::net::TcpStream;

use crate::octavia::AppliedMonitor;

/// The results of the checks of one member so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Health {
    /// Whether the member is up.
    pub(crate) up: bool,
    /// The number of checks with the other result that change the state.
    left: u64,
}

impl Health {
    /// A new member: up until its first check has failed.
    pub(crate) const NEW: Self = Self { up: true, left: 1 };

    /// A member that was disabled until now: HAProxy keeps its state across reloads, so it is down until enough checks
    /// have succeeded.
    pub(crate) fn enabled(rise: u64) -> Self {
        Self {
            up: false,
            left: rise.max(1),
        }
    }

    /// The state after one more check.
    pub(crate) fn after(self, good: bool, rise: u64, fall: u64) -> Self {
        let whole = |up| if up { fall.max(1) } else { rise.max(1) };
        if good == self.up {
            return Self {
                up: self.up,
                left: whole(self.up),
            };
        }
        match self.left.saturating_sub(1) {
            0 => Self {
                up: good,
                left: whole(good),
            },
            left => Self { up: self.up, left },
        }
    }
}

/// How one monitor checks. A monitor of type HTTP or HTTPS requests a page and expects the status 200, and accepts
/// every certificate. A monitor of any other type only connects.
pub(crate) enum Check {
    Connect,
    Request {
        client: reqwest::Client,
        scheme: &'static str,
        path: String,
    },
}

impl Check {
    pub(crate) fn new(monitor: &AppliedMonitor) -> reqwest::Result<Self> {
        let scheme = match monitor.kind.as_str() {
            "HTTP" => "http",
            "HTTPS" => "https",
            _ => return Ok(Self::Connect),
        };
        // The client requires an installed provider. The process may have installed one before.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let client = reqwest::Client::builder()
            .no_proxy()
            .redirect(reqwest::redirect::Policy::none())
            .pool_max_idle_per_host(0)
            .tls_danger_accept_invalid_certs(true)
            .build()?;
        Ok(Self::Request {
            client,
            scheme,
            path: monitor.path.clone().unwrap_or_default(),
        })
    }

    /// One check of a member, within `limit`.
    pub(crate) async fn passes(&self, address: SocketAddr, limit: Duration) -> bool {
        let checked = async {
            match self {
                Self::Connect => TcpStream::connect(address).await.is_ok(),
                Self::Request {
                    client,
                    scheme,
                    path,
                } => {
                    let answer = client.get(format!("{scheme}://{address}{path}")).send();
                    let answer = answer.await;
                    answer.is_ok_and(|answer| answer.status() == reqwest::StatusCode::OK)
                }
            }
        };
        tokio::time::timeout(limit, checked).await.unwrap_or(false)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(start: Health, checks: &[bool]) -> Vec<bool> {
        let mut health = start;
        checks
            .iter()
            .map(|good| {
                health = health.after(*good, 3, 2);
                health.up
            })
            .collect()
    }

    #[test]
    fn a_newcomer_falls_at_its_first_failure_and_rises_slowly() {
        assert_eq!(
            run(Health::NEW, &[false, true, true, true]),
            [false, false, false, true]
        );
    }

    #[test]
    fn one_that_was_disabled_rises_slowly() {
        assert_eq!(
            run(Health::enabled(3), &[true, true, true, false]),
            [false, false, true, true]
        );
    }

    #[test]
    fn one_that_answered_falls_only_after_the_count() {
        assert_eq!(
            run(Health::NEW, &[true, false, true, false, false]),
            [true, true, true, true, false]
        );
    }
}
