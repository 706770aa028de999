//! The errors of Octavia in its own form.

use serde_json::json;

use crate::wire::Reply;

/// The shape of errors that controllers raise.
pub(crate) fn octavia_error(status: u16, message: impl Into<String>) -> Reply {
    let message: String = message.into();
    let code = if status >= 500 { "Server" } else { "Client" };
    Reply::json(
        status,
        json!({ "faultcode": code, "faultstring": message, "debuginfo": null }),
    )
}

pub(crate) fn missing(resource: &str, id: &str) -> Reply {
    octavia_error(404, format!("{resource} {id} not found."))
}

pub(crate) fn immutable(resource: &str, id: &str) -> Reply {
    octavia_error(
        409,
        format!("{resource} {id} is immutable and cannot be updated."),
    )
}

pub(crate) fn forbidden() -> Reply {
    octavia_error(403, "Policy does not allow this request to be performed.")
}

pub(super) fn invalid(message: impl std::fmt::Display) -> Reply {
    octavia_error(400, format!("Validation failure: {message}"))
}

/// The form of errors from routing, before any controller.
pub(super) fn routing_error(status: u16, title: &str, description: &str) -> Reply {
    Reply::json(
        status,
        json!({ "code": status, "title": title, "description": description }),
    )
}

pub(super) fn nothing_here() -> Reply {
    routing_error(404, "Not Found", "")
}

pub(super) fn octavia_routing_missing(resource: &str, id: &str) -> Reply {
    routing_error(404, "Bad Request", &format!("{resource} {id} not found."))
}
