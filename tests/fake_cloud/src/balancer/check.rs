//! Health checks like those of HAProxy: a new member is up until its first check fails; afterwards the counts apply.

use std::{net::SocketAddr, time::Duration};

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

use crate::octavia::AppliedMonitor;

/// The results of the checks of one member so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Health {
    /// Up.
    pub(crate) up: bool,
    /// The number of checks with the other result that change the state.
    left: u64,
}

impl Health {
    /// A new member: up until its first check has failed.
    pub(crate) const NEW: Self = Self { up: true, left: 1 };

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

/// One check. HTTP requests a page; every other type only connects.
pub(crate) async fn passes(address: SocketAddr, monitor: &AppliedMonitor) -> bool {
    let limit = Duration::from_secs(monitor.timeout.max(1));
    let probe = async {
        let mut stream = TcpStream::connect(address).await?;
        if monitor.kind == "HTTP" {
            stream.write_all(b"GET / HTTP/1.0\r\n\r\n").await?;
            let mut head = [0_u8; 12];
            stream.read_exact(&mut head).await?;
            return Ok::<bool, std::io::Error>(head.ends_with(b"200"));
        }
        Ok(true)
    };
    matches!(tokio::time::timeout(limit, probe).await, Ok(Ok(true)))
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
    fn one_that_answered_falls_only_after_the_count() {
        assert_eq!(
            run(Health::NEW, &[true, false, true, false, false]),
            [true, true, true, true, false]
        );
    }
}
