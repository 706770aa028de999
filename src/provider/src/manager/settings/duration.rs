//! Durations in Go's spelling, which the flags of every Cluster API provider use.

use std::time::Duration;

/// Parses `10m`, `1h30m`, `1.5s`, `500ms` or `0`. Negative durations are refused.
///
/// # Errors
/// What is wrong with `text`, and what would be right.
pub(crate) fn parse(text: &str) -> Result<Duration, String> {
    if text == "0" {
        return Ok(Duration::ZERO);
    }
    let wrong = || format!("{text:?} is not a duration such as 10m, 1h30m, 1.5s or 500ms");
    let mut rest = text;
    let mut total = 0.0_f64;
    while !rest.is_empty() {
        let digits = rest
            .find(|c: char| !c.is_ascii_digit() && c != '.')
            .ok_or_else(wrong)?;
        let (number, after) = rest.split_at(digits);
        let number: f64 = number.parse().map_err(|_| wrong())?;
        let unit_end = after
            .find(|c: char| c.is_ascii_digit() || c == '.')
            .unwrap_or(after.len());
        let (unit, after) = after.split_at(unit_end);
        let seconds = match unit {
            "ns" => 1e-9,
            "us" | "µs" => 1e-6,
            "ms" => 1e-3,
            "s" => 1.0,
            "m" => 60.0,
            "h" => 3600.0,
            _ => return Err(wrong()),
        };
        total += number * seconds;
        rest = after;
    }
    if text.is_empty() {
        return Err(wrong());
    }
    Duration::try_from_secs_f64(total).map_err(|_| wrong())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::parse;

    #[test]
    fn reads_what_go_writes() {
        for (text, seconds) in [
            ("0", 0.0),
            ("15s", 15.0),
            ("10m0s", 600.0),
            ("1h30m", 5400.0),
            ("1.5s", 1.5),
            ("250ms", 0.25),
        ] {
            assert_eq!(parse(text), Ok(Duration::from_secs_f64(seconds)), "{text}");
        }
    }

    #[test]
    fn refuses_the_rest() {
        for text in ["", "10", "s", "-5s", "5d", "1h30", "1..5s", "10 m", "9e99h"] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
