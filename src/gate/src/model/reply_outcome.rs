//! What a reply through the endpoint counts as in a proof.

use std::net::IpAddr;

use crate::model::proof::{EndpointReply, EndpointResult, PortProof};

/// What a reply counts as in the proof.
pub(crate) enum ReplyOutcome {
    Counts,
    /// The leaving machine itself has answered: its clients are served, and the load balancer still sends it new ones.
    Own {
        text: String,
    },
    Fails {
        reached: bool,
        text: String,
    },
}

impl ReplyOutcome {
    /// The outcome of a reply. The machine with the addresses `leaving` must not have given it.
    pub(crate) fn of(result: &EndpointResult, leaving: &[IpAddr]) -> Self {
        match result {
            Ok(EndpointReply::Connected) => Self::Counts,
            Ok(EndpointReply::Answer(answer)) => {
                let text = if !answer.is_served() && answer.body.is_empty() {
                    format!("the answer was {}", answer.status)
                } else if !answer.is_served() {
                    format!("the answer was {}: {}", answer.status, answer.body)
                } else if let Some(own) = answer.given_by(leaving) {
                    let text = format!(
                        "the answer came from this machine itself (its serving certificate names {own}), so it still gets new connections"
                    );
                    return Self::Own { text };
                } else {
                    return Self::Counts;
                };
                Self::Fails {
                    reached: true,
                    text,
                }
            }
            Err(failure) => Self::Fails {
                reached: failure.may_have_answered(),
                text: failure.to_string(),
            },
        }
    }

    /// Whether any server answered, the right one or not.
    pub(crate) fn is_reached(&self) -> bool {
        matches!(
            self,
            Self::Counts | Self::Own { .. } | Self::Fails { reached: true, .. }
        )
    }

    /// Counts the reply in the series of requests to a port. A reply that does not count begins the series again,
    /// without the requests that were under way beside it: they may have failed for the same reason, which counts once.
    pub(crate) fn count(self, port: &mut PortProof) {
        port.reached |= self.is_reached();
        match self {
            Self::Counts => {
                port.answers = port.answers.saturating_add(1);
                port.failures = 0;
            }
            // HAProxy loads a change a moment after Octavia shows it as ACTIVE. The clients of the leaving machine are
            // still served, so this is no failure: the proof fails only when its time is over.
            Self::Own { text } => {
                port.requests.clear();
                port.answers = 0;
                port.failures = 0;
                port.is_contradicted = true;
                port.failure = Some(format!("{}: {text}", port.last_request));
            }
            Self::Fails { text, .. } => {
                port.requests.clear();
                port.answers = 0;
                port.failures = port.failures.saturating_add(1);
                port.failure = Some(format!("{}: {text}", port.last_request));
            }
        }
    }
}
