//! Values of options that have their own notation.

use std::str::FromStr;

use serde_json::{Value, json};

/// An amount of memory or processor time in Kubernetes' notation.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Quantity {
    pub(super) text: String,
    pub(super) amount: f64,
}

/// A text that is no quantity.
#[derive(Debug, thiserror::Error)]
#[error("{0:?} is not a quantity above 0 such as 100m, 0.5, 128Mi or 1Gi")]
pub(super) struct NotAQuantity(String);

impl FromStr for Quantity {
    type Err = NotAQuantity;

    fn from_str(text: &str) -> Result<Self, NotAQuantity> {
        let wrong = || NotAQuantity(text.to_owned());
        let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
        let unit = match text.get(digits.len()..).unwrap_or_default() {
            "" => 1.0,
            "m" => 1e-3,
            "k" => 1e3,
            "M" => 1e6,
            "G" => 1e9,
            "Ki" => 1024.0,
            "Mi" => 1024.0 * 1024.0,
            "Gi" => 1024.0 * 1024.0 * 1024.0,
            _ => return Err(wrong()),
        };
        let number: f64 = digits.parse().map_err(|_| wrong())?;
        if !number.is_finite() || number <= 0.0 {
            return Err(wrong());
        }
        Ok(Self {
            text: text.to_owned(),
            amount: number * unit,
        })
    }
}

/// A toleration of a Pod.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Toleration(pub(super) Value);

/// A text that is no taint.
#[derive(Debug, thiserror::Error)]
#[error(
    "{0:?} is not a taint KEY[=VALUE][:EFFECT] with one of the effects NoSchedule, PreferNoSchedule and NoExecute"
)]
pub(super) struct NotATaint(String);

impl FromStr for Toleration {
    type Err = NotATaint;

    fn from_str(text: &str) -> Result<Self, NotATaint> {
        let wrong = || NotATaint(text.to_owned());
        let (taint, effect) = match text.split_once(':') {
            Some((taint, effect)) => (taint, Some(effect)),
            None => (text, None),
        };
        let mut toleration = match taint.split_once('=') {
            Some((key, value)) => json!({"key": key, "operator": "Equal", "value": value}),
            None => json!({"key": taint, "operator": "Exists"}),
        };
        if toleration["key"] == "" {
            return Err(wrong());
        }
        if let Some(effect) = effect {
            if !["NoSchedule", "PreferNoSchedule", "NoExecute"].contains(&effect) {
                return Err(wrong());
            }
            toleration["effect"] = json!(effect);
        }
        Ok(Self(toleration))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_are_compared_across_units() {
        let amount = |text: &str| text.parse::<Quantity>().unwrap().amount;
        assert!(amount("1Gi") > amount("1000Mi"));
        assert!(amount("500m") < amount("1"));
        for wrong in ["", "Mi", "-1", "0", "1Xi", "1 Gi", "ten"] {
            assert!(wrong.parse::<Quantity>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_taint_becomes_a_toleration() {
        for (text, expected) in [
            (
                "dedicated",
                json!({"key": "dedicated", "operator": "Exists"}),
            ),
            (
                "dedicated=infra:NoSchedule",
                json!({"key": "dedicated", "operator": "Equal", "value": "infra", "effect": "NoSchedule"}),
            ),
        ] {
            assert_eq!(text.parse::<Toleration>().unwrap().0, expected);
        }
        for wrong in ["", "=x", "a:b", ":NoSchedule"] {
            let error = wrong.parse::<Toleration>().unwrap_err().to_string();
            assert!(error.contains("NoExecute"), "{error}");
        }
    }
}
