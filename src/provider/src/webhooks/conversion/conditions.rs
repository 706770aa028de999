//! Conditions: Cluster API's own form in v1beta1, and that of Kubernetes in v1beta2.

use std::collections::BTreeSet;

use super::lazy_json::{Node, Object};
use crate::{
    kubernetes::conditions::{NO_REASON, kind},
    webhooks::json::{Path, WrongType},
};
use capo_core::{ConditionStatus, Reason};

const CONDITIONS: &str = "conditions";

/// One condition has two names: CAPO's v1beta1 writes the first, and its v1beta2 the second.
const INGRESS_V1BETA1: &str = "APIServerIngressReadyCondition";
const INGRESS_V1BETA2: &str = "APIServerIngressReady";

/// Converts `status.conditions`.
pub(super) fn to_v1beta2(status: &mut Object<'_>, path: &Path<'_>) -> Result<(), WrongType> {
    rename_ingress(status, path, INGRESS_V1BETA1, INGRESS_V1BETA2)?;
    status.each_object(CONDITIONS, path, |condition, _| {
        condition.remove("severity");
        if is_empty(condition, "reason") {
            condition.insert("reason", Node::string(NO_REASON));
        }
        if condition.lacks("message") {
            condition.insert("message", Node::string(""));
        }
        Ok(())
    })?;
    keep_first_of_each_type(status, path)
}

/// Converts `status.conditions`. The reason determines the severity, which v1beta1 requires for a condition that is
/// False.
pub(super) fn to_v1beta1(status: &mut Object<'_>, path: &Path<'_>) -> Result<(), WrongType> {
    rename_ingress(status, path, INGRESS_V1BETA2, INGRESS_V1BETA1)?;
    status.each_object(CONDITIONS, path, |condition, _| {
        if condition.text("reason").as_deref() == Some(NO_REASON) {
            condition.remove("reason");
        }
        if is_empty(condition, "message") {
            condition.remove("message");
        }
        if status_of(condition) == ConditionStatus::False {
            let severity = severity(
                &condition.text("type").unwrap_or_default(),
                &condition.text("reason").unwrap_or_default(),
            );
            condition.insert("severity", Node::string(severity));
        }
        Ok(())
    })
}

fn status_of(condition: &Object<'_>) -> ConditionStatus {
    let text = condition.text("status");
    text.as_deref()
        .map_or(ConditionStatus::Unknown, ConditionStatus::from)
}

/// Whether the condition `Ready` is True; `None` if there is no such condition.
pub(super) fn ready(status: &mut Object<'_>, path: &Path<'_>) -> Result<Option<bool>, WrongType> {
    let mut ready = None;
    status.each_object(CONDITIONS, path, |condition, _| {
        if ready.is_none() && condition.text("type").as_deref() == Some(kind::READY) {
            ready = Some(status_of(condition) == ConditionStatus::True);
        }
        Ok(())
    })?;
    Ok(ready)
}

/// `Info` for reasons of an ordinary wait, `Error` for all others.
fn severity(condition_type: &str, reason: &str) -> &'static str {
    let waiting = condition_type == kind::PAUSED
        || Reason::parse(reason).map_or(reason.starts_with("Waiting"), Reason::is_wait);
    if waiting { "Info" } else { "Error" }
}

/// Absent, null, or an empty text.
fn is_empty(condition: &Object<'_>, key: &str) -> bool {
    condition.lacks(key) || condition.text(key).is_some_and(|text| text.is_empty())
}

/// Leaves both conditions unchanged if both exist, because list maps refuse two entries of one type.
fn rename_ingress(
    status: &mut Object<'_>,
    path: &Path<'_>,
    from: &str,
    to: &'static str,
) -> Result<(), WrongType> {
    let (mut is_there, mut is_to_be) = (false, false);
    status.each_object(CONDITIONS, path, |condition, _| {
        let kind = condition.text("type");
        is_there |= kind.as_deref() == Some(from);
        is_to_be |= kind.as_deref() == Some(to);
        Ok(())
    })?;
    if !is_there || is_to_be {
        return Ok(());
    }
    let mut renamed = false;
    status.each_object(CONDITIONS, path, |condition, _| {
        if !renamed && condition.text("type").as_deref() == Some(from) {
            condition.insert("type", Node::string(to));
            renamed = true;
        }
        Ok(())
    })
}

/// A list in v1beta1 may have a type twice, and one in v1beta2 may not. Cluster API reads the first entry.
fn keep_first_of_each_type(status: &mut Object<'_>, path: &Path<'_>) -> Result<(), WrongType> {
    let Some(conditions) = status.list(CONDITIONS, path)? else {
        return Ok(());
    };
    let mut seen = BTreeSet::new();
    conditions.retain(|condition| match condition {
        Node::Object(condition) => condition
            .text("type")
            .is_none_or(|name| seen.insert(name.into_owned())),
        _ => true,
    });
    Ok(())
}
