//! Retry-After in every shape that services and the gateways before them send.

use std::time::Duration;

use jiff::{Timestamp, fmt::rfc2822};

/// The longest pause that a header can ask for.
pub(crate) const LONGEST: Duration = Duration::from_mins(15);

/// The pause after a 429 that does not say for how long.
pub(crate) const DEFAULT: Duration = Duration::from_mins(1);

/// What a Retry-After header asks for at `now`: seconds (a fraction is rounded up), or an HTTP date,
/// which counts from the answer's own `date` where there is one, so that clocks may differ. At most
/// [`LONGEST`]. `None` for anything else, a negative number and a date in the past included.
pub(crate) fn parse(header: &str, date: Option<&str>, now: Timestamp) -> Option<Duration> {
    let header = header.trim();
    let asked = if let Ok(seconds) = header.parse::<f64>() {
        if !seconds.is_finite() || seconds < 0.0 {
            return None;
        }
        Duration::from_secs_f64(seconds.min(LONGEST.as_secs_f64()).ceil())
    } else {
        let until = http_date(header)?;
        let from = date.and_then(http_date).unwrap_or(now);
        Duration::try_from(until.duration_since(from)).ok()?
    };
    Some(asked.min(LONGEST))
}

/// The header's pause, or the default one, longer by up to a quarter: `chance` is from 0 to 1.
pub(crate) fn pause(asked: Option<Duration>, chance: f64) -> Duration {
    match asked {
        // Zero is a "whenever you like"; a moment keeps it from being a loop.
        Some(asked) => asked.max(Duration::from_secs(1)),
        None => DEFAULT + DEFAULT.mul_f64(0.25 * chance.clamp(0.0, 1.0)),
    }
}

fn http_date(text: &str) -> Option<Timestamp> {
    // jiff reads the obsolete zone GMT as offset zero, which RFC 9110's format always has.
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
            // Their clock is ten minutes fast; only the difference counts.
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
    fn a_bare_429_pauses_a_minute_and_a_bit() {
        assert_eq!(pause(None, 0.0), Duration::from_mins(1));
        assert_eq!(pause(None, 1.0), Duration::from_secs(75));
        assert_eq!(pause(Some(Duration::ZERO), 0.5), Duration::from_secs(1));
        assert_eq!(
            pause(Some(Duration::from_secs(7)), 1.0),
            Duration::from_secs(7)
        );
    }
}
