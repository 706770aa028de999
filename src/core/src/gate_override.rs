//! The operator's override of the load balancer gate: an annotation on an OpenStackCluster or an OpenStackMachine.
//!
//! ```text
//! hold reason=<text>
//! bypass until=<RFC 3339> reason=<text>
//! ```
//!
//! The reason is the rest of the line. Admission and the controllers read it with the same function, so that admission
//! accepts nothing that a controller would refuse.

use jiff::Timestamp;

/// The annotation, parsed.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum GateOverride {
    /// There is no annotation.
    #[default]
    None,
    /// `hold reason=<text>`
    Hold {
        /// The operator's reason.
        reason: String,
    },
    /// `bypass until=<RFC 3339> reason=<text>`, which ends at `until`.
    Bypass {
        /// When the bypass ends.
        until: Timestamp,
        /// The operator's reason.
        reason: String,
    },
    /// Any other text. It is refused and reported with this message.
    Refused {
        /// What is wrong with the text and what is allowed.
        message: String,
    },
}

/// The annotation's key.
pub const KEY: &str = "infrastructure.cluster.x-k8s.io/load-balancer-gate";

/// The longest reason that is accepted, in characters: it is shown in conditions and events.
pub const MAX_REASON: usize = 512;

const FORMS: &str =
    "allowed are \"hold reason=<text>\" and \"bypass until=<RFC 3339> reason=<text>\"";

/// Reads the annotation of an object; [`GateOverride::None`] where there is none.
pub fn parse_optional(text: Option<&str>, now: Timestamp) -> GateOverride {
    text.map_or(GateOverride::None, |text| parse(text, now))
}

/// Reads the annotation's value. A bypass that does not end in the future is refused like a misspelt one, because
/// nothing may open a gate after its end or without a reason.
pub fn parse(text: &str, now: Timestamp) -> GateOverride {
    read(text.trim(), now).unwrap_or_else(|error| GateOverride::Refused {
        message: error.to_string(),
    })
}

/// What is wrong with the annotation's value, and what is allowed.
#[derive(Debug, thiserror::Error)]
enum Mistake {
    #[error("\"{0}\" is not known; {FORMS}")]
    UnknownVerb(String),
    #[error("bypass needs until=<RFC 3339> before its reason; {FORMS}")]
    NoEnd,
    #[error("bypass until={0} is not a date and time of RFC 3339 such as 2030-01-31T15:04:05Z")]
    NoDate(String),
    #[error(
        "bypass until={0} is in the past: it opens nothing; set a later date or remove the annotation"
    )]
    Past(String),
    #[error("{verb} needs a reason; {FORMS}")]
    NoReason { verb: &'static str },
    #[error("the reason is longer than {MAX_REASON} characters")]
    LongReason,
    #[error("the reason has control characters; allowed is one line of text")]
    ControlCharacters,
}

fn read(text: &str, now: Timestamp) -> Result<GateOverride, Mistake> {
    let (verb, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
    let rest = rest.trim_start();
    match verb {
        "hold" => Ok(GateOverride::Hold {
            reason: reason("hold", rest)?,
        }),
        "bypass" => {
            let rest = rest.strip_prefix("until=").ok_or(Mistake::NoEnd)?;
            let (date, rest) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
            let until: Timestamp = date.parse().map_err(|_| Mistake::NoDate(shown(date)))?;
            let reason = reason("bypass", rest.trim_start())?;
            if until <= now {
                return Err(Mistake::Past(shown(date)));
            }
            Ok(GateOverride::Bypass { until, reason })
        }
        other => Err(Mistake::UnknownVerb(shown(other))),
    }
}

fn reason(verb: &'static str, rest: &str) -> Result<String, Mistake> {
    let text = rest
        .strip_prefix("reason=")
        .map(str::trim)
        .filter(|text| !text.is_empty())
        .ok_or(Mistake::NoReason { verb })?;
    if text.chars().count() > MAX_REASON {
        return Err(Mistake::LongReason);
    }
    if text.chars().any(char::is_control) {
        return Err(Mistake::ControlCharacters);
    }
    Ok(text.to_owned())
}

/// The start of the text that was found, so that a long annotation can't fill a condition or a log.
fn shown(found: &str) -> String {
    found.chars().filter(|c| !c.is_control()).take(64).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn now() -> Timestamp {
        "2026-11-21T12:00:00Z".parse().unwrap()
    }

    #[test]
    fn both_forms_are_read() {
        assert_eq!(
            parse("hold reason=network maintenance in az1", now()),
            GateOverride::Hold {
                reason: "network maintenance in az1".to_owned()
            }
        );
        assert_eq!(
            parse(
                "  bypass  until=2026-11-21T13:00:00+00:30   reason=ticket 12, reason=known ",
                now()
            ),
            GateOverride::Bypass {
                until: "2026-11-21T12:30:00Z".parse().unwrap(),
                reason: "ticket 12, reason=known".to_owned()
            }
        );
        assert_eq!(parse_optional(None, now()), GateOverride::None);
    }

    #[test]
    fn anything_else_is_refused_with_what_is_allowed() {
        let cases = [
            ("", "is not known"),
            ("open", "\"open\" is not known"),
            ("Hold reason=x", "\"Hold\" is not known"),
            ("hold", "hold needs a reason"),
            ("hold reason=", "hold needs a reason"),
            ("hold reason=   ", "hold needs a reason"),
            ("hold because=x", "hold needs a reason"),
            ("bypass reason=x", "bypass needs until="),
            ("bypass until= reason=x", "is not a date and time"),
            ("bypass until=tomorrow reason=x", "until=tomorrow is not"),
            ("bypass until=2026-11-21 reason=x", "is not a date and time"),
            ("bypass until=2026-11-22T00:00:00Z", "bypass needs a reason"),
            (
                "bypass until=2026-11-22T00:00:00Z reason=",
                "bypass needs a reason",
            ),
            (
                "bypass until=2026-11-21T12:00:00Z reason=x",
                "is in the past",
            ),
            (
                "bypass until=1999-01-01T00:00:00Z reason=x",
                "is in the past",
            ),
            ("hold reason=a\nb", "control characters"),
        ];
        for (text, expected) in cases {
            let GateOverride::Refused { message } = parse(text, now()) else {
                panic!("{text:?} was taken");
            };
            assert!(message.contains(expected), "{text:?}: {message}");
        }
        let long = format!("hold reason={}", "x".repeat(MAX_REASON + 1));
        assert!(matches!(parse(&long, now()), GateOverride::Refused { .. }));
    }

    proptest::proptest! {
        #[test]
        fn no_text_panics_and_messages_stay_short(text in "\\PC{0,300}|(hold|bypass) (until=)?\\PC{0,80}") {
            if let GateOverride::Refused { message } = parse(&text, now()) {
                proptest::prop_assert!(message.chars().count() < 300);
            }
        }
    }
}
