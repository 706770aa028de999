//! The AdmissionReview of the API server.

use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Value, json, value::RawValue};

use super::{FieldError, Kind, ObjectChange, names, validate};
use crate::webhooks::{
    conversion,
    review::{self, ReviewError, ReviewType},
    size_estimate,
};
use capo_api::GROUP;

/// The answer to a review.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReviewResponse {
    /// The AdmissionReview to send back, JSON.
    pub body: Vec<u8>,
    /// Whether the change is allowed.
    pub allowed: bool,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Request<'a> {
    uid: String,
    #[serde(default)]
    kind: GroupVersionKind,
    #[serde(rename = "requestKind")]
    sent_as: Option<GroupVersionKind>,
    #[serde(default)]
    name: String,
    #[serde(default)]
    operation: String,
    #[serde(borrow)]
    object: Option<&'a RawValue>,
    #[serde(borrow)]
    old_object: Option<&'a RawValue>,
    #[serde(default)]
    dry_run: Option<bool>,
}

#[derive(Deserialize, Default)]
struct GroupVersionKind {
    #[serde(default)]
    group: String,
    #[serde(default)]
    version: String,
    #[serde(default)]
    kind: String,
}

/// Answers an AdmissionReview that came to the path of `kind`.
pub fn review(kind: Kind, body: &[u8], now: Timestamp) -> Result<ReviewResponse, ReviewError> {
    let (api_version, request): (String, Request<'_>) = review::read(ReviewType::Admission, body)?;
    let status = check(kind, &request, now).err();
    let allowed = status.is_none();
    let mut response = json!({"uid": request.uid, "allowed": allowed});
    if let (Some(status), Some(response)) = (status, response.as_object_mut()) {
        response.insert("status".to_owned(), status);
    }
    let answer = json!({
        "apiVersion": api_version,
        "kind": "AdmissionReview",
        "response": response,
    });
    Ok(ReviewResponse {
        body: answer.to_string().into_bytes(),
        allowed,
    })
}

/// Refuses with a Status.
fn check(kind: Kind, request: &Request<'_>, now: Timestamp) -> Result<(), Value> {
    if request.kind.group != GROUP || request.kind.kind != kind.name() {
        return Err(bad_request(&format!(
            "{} is validated here, not {} of group {:?}: the webhook configuration has the wrong path",
            kind.name(),
            request.kind.kind,
            request.kind.group
        )));
    }
    let new = match request.operation.as_str() {
        "CREATE" | "UPDATE" => current(kind, request.object, "object")?,
        // The webhook is not configured for other operations, so they are always allowed.
        _ => return Ok(()),
    };
    let old = match request.operation.as_str() {
        "UPDATE" => Some(current(kind, request.old_object, "oldObject")?),
        _ => None,
    };
    let change = ObjectChange {
        old: old.as_ref(),
        new: &new,
        dry_run: request.dry_run == Some(true),
    };
    let mut errors = validate(kind, &change, now);
    if errors.is_empty() {
        return Ok(());
    }
    let sent = request.sent_as.as_ref().unwrap_or(&request.kind);
    if sent.version == "v1beta1" {
        errors = errors.into_iter().map(names::in_v1beta1).collect();
    }
    Err(invalid(kind, &request.name, &errors))
}

/// The object in the version that is validated, whatever version the API server sent.
fn current(kind: Kind, object: Option<&RawValue>, field: &str) -> Result<Value, Value> {
    let text = object.map_or("null", RawValue::get);
    size_estimate::check(text).map_err(|error| bad_request(&format!("{field}: {error}")))?;
    let object: Value =
        serde_json::from_str(text).map_err(|error| bad_request(&format!("{field}: {error}")))?;
    if !object.is_object() {
        return Err(bad_request(&format!("the request has no {field}")));
    }
    if kind == Kind::Server {
        return Ok(object);
    }
    conversion::convert(object, conversion::Version::V1Beta2.api_version())
        .map_err(|error| bad_request(&error.to_string()))
}

fn bad_request(message: &str) -> Value {
    json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {},
        "status": "Failure", "reason": "BadRequest", "code": 400, "message": message,
    })
}

/// The Status that the API server itself returns for invalid objects, which clients can display.
fn invalid(kind: Kind, name: &str, errors: &[FieldError]) -> Value {
    /// The most errors that are listed. More would not help the reader.
    const LISTED: usize = 20;
    let listed = errors.get(..LISTED).unwrap_or(errors);
    let mut texts: Vec<String> = listed.iter().map(ToString::to_string).collect();
    if errors.len() > listed.len() {
        texts.push(format!("and {} more", errors.len() - listed.len()));
    }
    let message = match texts.as_slice() {
        [one] => one.clone(),
        more => format!("[{}]", more.join(", ")),
    };
    let causes: Vec<Value> = listed
        .iter()
        .map(|error| {
            json!({"reason": error.problem.reason(), "field": error.field, "message": error.detail()})
        })
        .collect();
    json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {},
        "status": "Failure", "reason": "Invalid", "code": 422,
        "message": format!("{}.{GROUP} {name:?} is invalid: {message}", kind.name()),
        "details": {"group": GROUP, "kind": kind.name(), "name": name, "causes": causes},
    })
}
