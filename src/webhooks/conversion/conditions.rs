//! Conditions: Cluster API's own shape in v1beta1, the one of Kubernetes in v1beta2.

use serde_json::Value;

use crate::webhooks::json::{self, Object, Path, WrongType};

/// Cluster API's word for a condition that came without a reason, which v1beta2 requires.
const NO_REASON: &str = "NoReasonReported";

/// One condition has two names: CAPO's v1beta1 writes the first, its v1beta2 the second.
const INGRESS_V1BETA1: &str = "APIServerIngressReadyCondition";
const INGRESS_V1BETA2: &str = "APIServerIngressReady";

/// Converts `status.conditions`.
pub(super) fn to_v1beta2(status: &mut Object, path: &Path<'_>) -> Result<(), WrongType> {
    rename_ingress(status, path, INGRESS_V1BETA1, INGRESS_V1BETA2)?;
    json::each_object(status, "conditions", path, |condition, _| {
        condition.remove("severity");
        if is_empty(condition.get("reason")) {
            condition.insert("reason".to_owned(), Value::from(NO_REASON));
        }
        if condition.get("message").is_none_or(Value::is_null) {
            condition.insert("message".to_owned(), Value::from(""));
        }
        Ok(())
    })?;
    keep_first_of_each_type(status, path)
}

/// Converts `status.conditions`. The severity, which v1beta1 wants where a condition is False, is told
/// by the reason.
pub(super) fn to_v1beta1(status: &mut Object, path: &Path<'_>) -> Result<(), WrongType> {
    rename_ingress(status, path, INGRESS_V1BETA2, INGRESS_V1BETA1)?;
    json::each_object(status, "conditions", path, |condition, _| {
        if condition.get("reason").and_then(Value::as_str) == Some(NO_REASON) {
            condition.remove("reason");
        }
        if is_empty(condition.get("message")) {
            condition.remove("message");
        }
        if condition.get("status").and_then(Value::as_str) == Some("False") {
            let severity = severity(
                condition
                    .get("type")
                    .and_then(Value::as_str)
                    .unwrap_or_default(),
                condition
                    .get("reason")
                    .and_then(Value::as_str)
                    .unwrap_or_default(),
            );
            condition.insert("severity".to_owned(), Value::from(severity));
        }
        Ok(())
    })
}

/// Whether the condition `Ready` is True; `None` where there is no such condition.
pub(super) fn ready(status: &Object) -> Option<bool> {
    status
        .get("conditions")?
        .as_array()?
        .iter()
        .find(|condition| condition.get("type").and_then(Value::as_str) == Some("Ready"))
        .map(|condition| condition.get("status").and_then(Value::as_str) == Some("True"))
}

/// `Info` for what only has to be waited for, `Error` for the rest.
fn severity(condition_type: &str, reason: &str) -> &'static str {
    let waiting = reason.starts_with("Waiting")
        || condition_type == "Paused"
        || matches!(
            reason,
            "InstanceNotReady"
                | "DependencyFailed"
                | "MemberPending"
                | "MemberDraining"
                | "LoadBalancerPending"
                | "ServerNotReady"
                | "NotYetObserved"
                | "NoOtherMemberServing"
                | "OperatorHold"
        );
    if waiting { "Info" } else { "Error" }
}

fn is_empty(value: Option<&Value>) -> bool {
    match value {
        None | Some(Value::Null) => true,
        Some(Value::String(text)) => text.is_empty(),
        Some(_) => false,
    }
}

/// Leaves both alone where both are there: two of one type are refused by list maps.
fn rename_ingress(
    status: &mut Object,
    path: &Path<'_>,
    from: &str,
    to: &str,
) -> Result<(), WrongType> {
    let Some(conditions) = json::list(status, "conditions", path)? else {
        return Ok(());
    };
    let is =
        |condition: &Value, name: &str| condition.get("type").and_then(Value::as_str) == Some(name);
    if conditions.iter().any(|condition| is(condition, to)) {
        return Ok(());
    }
    if let Some(Value::Object(condition)) =
        conditions.iter_mut().find(|condition| is(condition, from))
    {
        condition.insert("type".to_owned(), Value::from(to));
    }
    Ok(())
}

/// v1beta1's list may hold a type twice and v1beta2's may not; Cluster API reads the first.
fn keep_first_of_each_type(status: &mut Object, path: &Path<'_>) -> Result<(), WrongType> {
    let Some(conditions) = json::list(status, "conditions", path)? else {
        return Ok(());
    };
    let mut seen = std::collections::BTreeSet::new();
    conditions.retain(
        |condition| match condition.get("type").and_then(Value::as_str) {
            Some(name) => seen.insert(name.to_owned()),
            None => true,
        },
    );
    Ok(())
}
