//! Reads Retry-After in all shapes that services and the gateways before them send.

use std::time::Duration;

use jiff::{Timestamp, fmt::rfc2822};

/// The longest pause that a header may request.
pub(crate) const LONGEST: Duration = Duration::from_mins(15);

/// The pause after a 429 without a usable header.
pub(crate) const DEFAULT: Duration = Duration::from_mins(1);

/// The pause that a Retry-After header requests at `now`: seconds (a fraction is rounded up), or an HTTP date, which
/// counts from the answer's own `date` if there is one, so the clocks may differ. The result is [`LONGEST`] at most. It
/// is `None` for any other text, a negative number and a date in the past.
pub(crate) fn parse(header: &str, date: Option<&str>, now: Timestamp) -> Option<Duration> {
    let header = header.trim();
    let requested = if let Ok(seconds) = header.parse::<f64>() {
        if !seconds.is_finite() || seconds < 0.0 {
            return None;
        }
        Duration::from_secs_f64(seconds.min(LONGEST.as_secs_f64()).ceil())
    } else {
        let until = http_date(header)?;
        let from = date.and_then(http_date).unwrap_or(now);
        Duration::try_from(until.duration_since(from)).ok()?
    };
    Some(requested.min(LONGEST))
}

/// The header's pause or the default one, made longer by up to a quarter. `chance` is from 0 to 1.
pub(crate) fn pause(requested: Option<Duration>, chance: f64) -> Duration {
    match requested {
        // Zero allows an immediate retry; a pause of a second prevents a busy loop.
        Some(requested) => requested.max(Duration::from_secs(1)),
        None => DEFAULT + DEFAULT.mul_f64(0.25 * chance.clamp(0.0, 1.0)),
    }
}

fn http_date(text: &str) -> Option<Timestamp> {
    // jiff reads the obsolete zone GMT, which RFC 9110's format always has, as offset zero.
    let zoned = rfc2822::DateTimeParser::new()
        .relaxed_weekday(true)
        .parse_zoned(text.trim())
        .ok()?;
    Some(zoned.timestamp())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_shape() {
        let now: Timestamp = "2026-11-21T12:00:00Z".parse().unwrap();
        let secs = Duration::from_secs;
        let table = [
            ("30", None, Some(secs(30))),
            (" 30 ", None, Some(secs(30))),
            ("0", None, Some(secs(0))),
            ("2.2", None, Some(secs(3))),
            ("86400", None, Some(LONGEST)),
            ("1e300", None, Some(LONGEST)),
            ("-5", None, None),
            ("NaN", None, None),
            ("soon", None, None),
            ("", None, None),
            ("Sat, 21 Nov 2026 12:00:45 GMT", None, Some(secs(45))),
            // The service's clock is ten minutes ahead, but only the difference counts.
            (
                "Sat, 21 Nov 2026 12:10:45 GMT",
                Some("Sat, 21 Nov 2026 12:10:00 GMT"),
                Some(secs(45)),
            ),
            ("Sun, 22 Nov 2026 12:00:00 GMT", None, Some(LONGEST)),
            ("Sat, 21 Nov 2026 11:59:00 GMT", None, None),
            ("Sat, 99 Nov 2026 12:00:00 GMT", None, None),
        ];
        for (header, date, expected) in table {
            assert_eq!(parse(header, date, now), expected, "{header}");
        }
    }

    #[test]
    fn a_429_without_a_header_pauses_for_a_little_over_a_minute() {
        assert_eq!(pause(None, 0.0), Duration::from_mins(1));
        assert_eq!(pause(None, 1.0), Duration::from_secs(75));
        assert_eq!(pause(Some(Duration::ZERO), 0.5), Duration::from_secs(1));
        assert_eq!(
            pause(Some(Duration::from_secs(7)), 1.0),
            Duration::from_secs(7)
        );
    }
}
