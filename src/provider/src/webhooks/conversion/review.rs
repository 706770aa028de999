//! The ConversionReview of the API server.

use std::fmt::{self, Write as _};

use serde::Deserialize;
use serde_json::{Value, json, value::RawValue};

use super::convert_text;
use crate::webhooks::{
    review::{self, ReviewError, ReviewType},
    size_estimate,
};

#[derive(Deserialize)]
struct Request<'a> {
    uid: String,
    #[serde(rename = "desiredAPIVersion")]
    desired_api_version: String,
    /// Objects are parsed one by one, because a tree takes many times the memory of its text.
    #[serde(borrow, default)]
    objects: Vec<&'a RawValue>,
}

/// Answers a ConversionReview. One object that can't be converted fails the review, as the API requires, with a message
/// that names every such object and what is wrong with it.
pub fn review(body: &[u8]) -> Result<Vec<u8>, ReviewError> {
    let (api_version, request): (String, Request<'_>) = review::read(ReviewType::Conversion, body)?;

    let mut answer = Vec::with_capacity(body.len() + body.len() / 8 + 256);
    answer.extend_from_slice(b"{\"apiVersion\":");
    append(&mut answer, &Value::from(api_version));
    answer.extend_from_slice(b",\"kind\":\"ConversionReview\",\"response\":{\"uid\":");
    append(&mut answer, &Value::from(request.uid));
    answer.extend_from_slice(b",\"convertedObjects\":[");
    let start = answer.len();
    let mut failures = Failures::default();
    for object in request.objects {
        let text = object.get();
        let before = answer.len();
        if before > start {
            answer.push(b',');
        }
        let converted = size_estimate::check(text)
            .map_err(|error| error.to_string())
            .and_then(|()| {
                convert_text(text, &request.desired_api_version, &mut answer)
                    .map_err(|error| error.to_string())
            });
        if let Err(error) = converted {
            answer.truncate(before);
            failures.add(text, error);
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
    append(&mut answer, &result);
    answer.extend_from_slice(b"}}");
    Ok(answer)
}

fn append(answer: &mut Vec<u8>, value: &Value) {
    answer.extend_from_slice(value.to_string().as_bytes());
}

/// Kind, namespace and name of an object, for messages.
#[derive(Deserialize, Default)]
#[serde(default)]
struct Identity {
    kind: String,
    metadata: Named,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Named {
    namespace: String,
    name: String,
}

impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Named { namespace, name } = &self.metadata;
        // The names are cut at 253 characters, the longest name that Kubernetes allows.
        write!(f, "{:.253} {namespace:.253}/{name:.253}", self.kind)
    }
}

/// The failures of a review, the first few in full.
#[derive(Default)]
struct Failures {
    shown: Vec<String>,
    more: usize,
}

impl Failures {
    /// Adds an error of the object in `text`, and names the object as far as it can be parsed.
    fn add(&mut self, text: &str, error: String) {
        if self.shown.len() >= 5 {
            self.more += 1;
            return;
        }
        // Only an object is parsed, because a list would be read as the fields in their order.
        let is_object = text.starts_with('{');
        let identity: Option<Identity> =
            is_object.then(|| serde_json::from_str(text).ok()).flatten();
        self.shown.push(match identity {
            Some(identity) => format!("{identity}: {error}"),
            None => error,
        });
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
