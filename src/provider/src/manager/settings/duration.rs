//! Durations in Go's notation, which the flags of every Cluster API provider use.
//!
//! They are parsed here and not by jiff, because jiff has another notation: it refuses `1.5h30m`, `30m1h` and `.5s`,
//! which Go accepts, and accepts signs, spaces, `2 hours ago` and `01:30:00`, which Go refuses.

use std::time::Duration;

/// A text that is no duration.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a duration such as 10m, 1h30m, 1.5s or 500ms")]
pub(crate) struct NotADuration(String);

/// Parses `10m`, `1h30m`, `1.5s`, `500ms` or `0`. Negative durations are refused.
///
/// # Errors
/// The text, and examples of what is allowed.
pub(crate) fn parse(text: &str) -> Result<Duration, NotADuration> {
    seconds(text)
        .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())
        .ok_or_else(|| NotADuration(text.to_owned()))
}

fn seconds(text: &str) -> Option<f64> {
    if text == "0" {
        return Some(0.0);
    }
    let is_of_number = |c: char| c.is_ascii_digit() || c == '.';
    let mut rest = text;
    let mut total = 0.0_f64;
    loop {
        let (number, after) = rest.split_at(rest.find(|c| !is_of_number(c))?);
        let (unit, after) = after.split_at(after.find(is_of_number).unwrap_or(after.len()));
        let seconds = match unit {
            "ns" => 1e-9,
            "us" | "µs" => 1e-6,
            "ms" => 1e-3,
            "s" => 1.0,
            "m" => 60.0,
            "h" => 3600.0,
            _ => return None,
        };
        total += number.parse::<f64>().ok()? * seconds;
        rest = after;
        if rest.is_empty() {
            return Some(total);
        }
    }
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
            ("1.5h30m", 7200.0),
            ("30m1h", 5400.0),
            ("1.5s", 1.5),
            (".5s", 0.5),
            ("250ms", 0.25),
        ] {
            assert_eq!(parse(text), Ok(Duration::from_secs_f64(seconds)), "{text}");
        }
    }

    #[test]
    fn refuses_the_rest() {
        for text in [
            "", "10", "s", "-5s", "+5s", "5d", "1h30", "1..5s", "10 m", "1h 30m", "9e99h",
            "2 hours",
        ] {
            let refused = parse(text).unwrap_err().to_string();
            assert!(refused.contains(&format!("{text:?}")), "{refused}");
        }
    }
}
