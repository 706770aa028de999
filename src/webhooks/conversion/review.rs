//! The ConversionReview of the API server, versions v1 and v1beta1 (the same content).

use std::fmt::{self, Write as _};

use serde::Deserialize;
use serde_json::{Value, json, value::RawValue};

use super::{ConversionError, convert};
use crate::webhooks::{json::type_name, weight};

/// A body that is no ConversionReview, so that there is no one to answer in its terms.
#[derive(Debug, thiserror::Error)]
pub enum ReviewError {
    /// Not JSON, or JSON of another shape.
    #[error("not a ConversionReview: {0}")]
    Malformed(#[from] serde_json::Error),
    /// Another apiVersion or kind.
    #[error(
        "expected kind ConversionReview of apiextensions.k8s.io/v1 or v1beta1, found kind {kind:?} of {api_version:?}"
    )]
    OtherKind {
        /// As found.
        kind: String,
        /// As found.
        api_version: String,
    },
    /// There is nothing to convert.
    #[error("the ConversionReview has no request")]
    NoRequest,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Review<'a> {
    #[serde(default)]
    api_version: String,
    #[serde(default)]
    kind: String,
    #[serde(borrow)]
    request: Option<Request<'a>>,
}

#[derive(Deserialize)]
struct Request<'a> {
    uid: String,
    #[serde(rename = "desiredAPIVersion")]
    desired_api_version: String,
    /// Parsed one by one: a tree takes many times the memory of its text.
    #[serde(borrow, default)]
    objects: Vec<&'a RawValue>,
}

/// Answers a ConversionReview. One object that can't be converted fails the review, as the API asks
/// for, with a message that names every such object and what is wrong with it.
pub fn review(body: &[u8]) -> Result<Vec<u8>, ReviewError> {
    let review: Review<'_> = serde_json::from_slice(body)?;
    let known = matches!(
        review.api_version.as_str(),
        "apiextensions.k8s.io/v1" | "apiextensions.k8s.io/v1beta1"
    );
    if !known || review.kind != "ConversionReview" {
        return Err(ReviewError::OtherKind {
            kind: review.kind.chars().take(64).collect(),
            api_version: review.api_version.chars().take(64).collect(),
        });
    }
    let request = review.request.ok_or(ReviewError::NoRequest)?;

    let mut answer = Vec::with_capacity(body.len() + body.len() / 8 + 256);
    answer.extend_from_slice(b"{\"apiVersion\":");
    serde_json::to_writer(&mut answer, &review.api_version)?;
    answer.extend_from_slice(b",\"kind\":\"ConversionReview\",\"response\":{\"uid\":");
    serde_json::to_writer(&mut answer, &request.uid)?;
    answer.extend_from_slice(b",\"convertedObjects\":[");
    let start = answer.len();
    let mut failures = Failures::default();
    for object in request.objects {
        match convert_text(object.get(), &request.desired_api_version) {
            Ok(converted) => {
                if answer.len() > start {
                    answer.push(b',');
                }
                serde_json::to_writer(&mut answer, &converted)?;
            }
            Err((name, error)) => failures.add(&name, &error),
        }
    }
    let result = match failures.message() {
        None => json!({"status": "Success"}),
        Some(message) => {
            answer.truncate(start);
            json!({"status": "Failure", "reason": "Invalid", "code": 422, "message": message})
        }
    };
    answer.extend_from_slice(b"],\"result\":");
    serde_json::to_writer(&mut answer, &result)?;
    answer.extend_from_slice(b"}}");
    Ok(answer)
}

/// Fails with the object's name as far as it can be told, and what is wrong with it.
fn convert_text(text: &str, desired: &str) -> Result<Value, (String, String)> {
    weight::check(text).map_err(|error| (String::new(), error.to_string()))?;
    let object: Value =
        serde_json::from_str(text).map_err(|error| (String::new(), error.to_string()))?;
    if !object.is_object() {
        let found = type_name(&object);
        return Err((String::new(), format!("expected an object, found {found}")));
    }
    // Kept aside for messages, as the object is given away.
    let name = identity_of(&object);
    convert(object, desired).map_err(|error: ConversionError| (name.to_string(), error.to_string()))
}

/// Kind, namespace and name of an object, for messages.
struct Identity {
    kind: String,
    namespace: String,
    name: String,
}

fn identity_of(object: &Value) -> Identity {
    let text = |value: Option<&Value>| -> String {
        value
            .and_then(Value::as_str)
            .unwrap_or_default()
            .chars()
            .take(253)
            .collect()
    };
    let metadata = object.get("metadata");
    let of = |key: &str| text(metadata.and_then(|metadata| metadata.get(key)));
    Identity {
        kind: text(object.get("kind")),
        namespace: of("namespace"),
        name: of("name"),
    }
}

impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}/{}", self.kind, self.namespace, self.name)
    }
}

/// The failures of a review, the first few in full.
#[derive(Default)]
struct Failures {
    shown: Vec<String>,
    more: usize,
}

impl Failures {
    fn add(&mut self, name: &str, error: &str) {
        if self.shown.len() < 5 {
            let name = if name.is_empty() { "an object" } else { name };
            self.shown.push(format!("{name}: {error}"));
        } else {
            self.more += 1;
        }
    }

    fn message(self) -> Option<String> {
        if self.shown.is_empty() {
            return None;
        }
        let mut message = self.shown.join("; ");
        if self.more > 0 {
            let _ = write!(message, "; and {} more", self.more);
        }
        Some(message)
    }
}
