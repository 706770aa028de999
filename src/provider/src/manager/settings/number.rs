//! Numbers that flags accept.

/// A text that is not a number, or a number that the flag does not allow.
#[derive(Debug, thiserror::Error)]
#[error("{text:?} is not a number {allowed}")]
pub(super) struct BadNumber {
    text: String,
    allowed: &'static str,
}

fn number(
    text: &str,
    allowed: &'static str,
    is_allowed: impl Fn(f64) -> bool,
) -> Result<f64, BadNumber> {
    let number = text.parse().ok();
    number
        .filter(|number: &f64| number.is_finite() && is_allowed(*number))
        .ok_or_else(|| BadNumber {
            text: text.to_owned(),
            allowed,
        })
}

/// A number above 0.
pub(super) fn positive(text: &str) -> Result<f64, BadNumber> {
    number(text, "above 0", |number| number > 0.0)
}

/// A rate of requests; a negative number means no limit, as in client-go.
pub(super) fn rate(text: &str) -> Result<f64, BadNumber> {
    number(text, "above 0, or below 0 for no limit", |number| {
        number != 0.0
    })
}
