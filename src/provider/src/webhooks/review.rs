//! The form that a ConversionReview and an AdmissionReview share. Versions v1 and v1beta1 have the same content.

use serde::Deserialize;

/// A kind of review that the API server sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReviewType {
    /// Objects to convert to another version.
    Conversion,
    /// A change to allow or to refuse.
    Admission,
}

impl ReviewType {
    fn name(self) -> &'static str {
        match self {
            Self::Conversion => "ConversionReview",
            Self::Admission => "AdmissionReview",
        }
    }

    fn article(self) -> &'static str {
        match self {
            Self::Conversion => "a",
            Self::Admission => "an",
        }
    }

    fn group(self) -> &'static str {
        match self {
            Self::Conversion => "apiextensions.k8s.io",
            Self::Admission => "admission.k8s.io",
        }
    }
}

/// The body is not a review of the expected kind, so it can't be answered by one.
#[derive(Debug, thiserror::Error)]
pub enum ReviewError {
    /// The body is not JSON, or JSON of another form.
    #[error("not {} {}: {error}", expected.article(), expected.name())]
    Malformed {
        /// The kind that is answered at this path.
        expected: ReviewType,
        /// What is wrong with the body.
        #[source]
        error: serde_json::Error,
    },
    /// Another apiVersion or kind.
    #[error(
        "expected kind {} of {}/v1 or v1beta1, found kind {kind:?} of {api_version:?}",
        expected.name(),
        expected.group()
    )]
    OtherKind {
        /// The kind that is answered at this path.
        expected: ReviewType,
        /// The kind that was found.
        kind: String,
        /// The version that was found.
        api_version: String,
    },
    /// The review has no request.
    #[error("the {} has no request", .0.name())]
    NoRequest(ReviewType),
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Review<R> {
    #[serde(default)]
    api_version: String,
    #[serde(default)]
    kind: String,
    request: Option<R>,
}

/// The apiVersion and the request of the review in `body`.
pub(super) fn read<'a, R: Deserialize<'a>>(
    expected: ReviewType,
    body: &'a [u8],
) -> Result<(String, R), ReviewError> {
    let review: Review<R> =
        serde_json::from_slice(body).map_err(|error| ReviewError::Malformed { expected, error })?;
    let known = review
        .api_version
        .strip_prefix(expected.group())
        .is_some_and(|version| matches!(version, "/v1" | "/v1beta1"));
    if !known || review.kind != expected.name() {
        return Err(ReviewError::OtherKind {
            expected,
            kind: review.kind.chars().take(64).collect(),
            api_version: review.api_version.chars().take(64).collect(),
        });
    }
    let request = review.request.ok_or(ReviewError::NoRequest(expected))?;
    Ok((review.api_version, request))
}
