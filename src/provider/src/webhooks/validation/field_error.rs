//! One violation, in the form of Kubernetes' field errors.

use serde_json::Value;

use crate::webhooks::json::excerpt;

/// The field, the value found in it, and the values allowed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {}", self.detail())]
pub struct FieldError {
    /// The field, such as `spec.apiServer.port`.
    pub field: String,
    /// The kind of violation.
    pub problem: Problem,
    /// The value found, as JSON, cut if it is long; empty if there is no value to show.
    pub found: String,
    /// The values allowed.
    pub allowed: String,
}

/// The kinds of violations. Their texts are those of Kubernetes' own field errors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Problem {
    /// The field may not be set or changed here.
    Forbidden,
    /// The field's value is not allowed.
    Invalid,
}

impl Problem {
    /// The machine-readable reason of a cause in a Status.
    pub fn reason(self) -> &'static str {
        match self {
            Self::Forbidden => "FieldValueForbidden",
            Self::Invalid => "FieldValueInvalid",
        }
    }
}

impl FieldError {
    pub(super) fn forbidden(
        field: impl Into<String>,
        found: &Value,
        allowed: impl Into<String>,
    ) -> Self {
        Self {
            field: field.into(),
            problem: Problem::Forbidden,
            found: excerpt(found),
            allowed: allowed.into(),
        }
    }

    pub(super) fn invalid(
        field: impl Into<String>,
        found: &Value,
        allowed: impl Into<String>,
    ) -> Self {
        Self {
            problem: Problem::Invalid,
            ..Self::forbidden(field, found, allowed)
        }
    }

    /// The error without its field.
    pub fn detail(&self) -> String {
        let problem = match self.problem {
            Problem::Forbidden => "Forbidden",
            Problem::Invalid => "Invalid value",
        };
        if self.found.is_empty() {
            format!("{problem}: {}", self.allowed)
        } else {
            format!("{problem}: {}: {}", self.found, self.allowed)
        }
    }
}
