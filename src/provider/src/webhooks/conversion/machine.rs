//! OpenStackMachine, and the same spec in templates and bastions.

use super::{
    conditions,
    kept_fields::KeptFields,
    lazy_json::{Node, Object},
};
use crate::webhooks::json::{Path, WrongType};

pub(super) fn spec_to_v1beta2<'a>(
    spec: &mut Object<'a>,
    path: &Path<'_>,
    kept: &mut KeptFields<'a>,
) -> Result<(), WrongType> {
    let name = text(spec.remove("flavor"), "flavor", path)?;
    let id = text(spec.remove("flavorID"), "flavorID", path)?;
    let flavor = match (name, id) {
        (None, None) => kept.found(&path.field("flavor")).map(Node::Made),
        (Some(name), None) => Some(wrapped("filter", wrapped("name", name))),
        (name, Some(id)) => {
            // In v1beta1 the id takes precedence. v1beta2 can hold only one of the two.
            if let Some(name) = name {
                let copy = Node::string(id.as_str().unwrap_or_default());
                let entry = Object::from_iter([("id", copy), ("name", name)]);
                kept.keep(&path.field("flavor"), Node::Object(entry));
            }
            Some(wrapped("id", id))
        }
    };
    if let Some(flavor) = flavor {
        spec.insert("flavor", flavor);
    }
    spec.each_object("ports", path, |port, path| {
        port.rename_inverted("disablePortSecurity", "enablePortSecurity", path)
    })
}

pub(super) fn spec_to_v1beta1<'a>(
    spec: &mut Object<'a>,
    path: &Path<'_>,
    kept: &mut KeptFields<'a>,
) -> Result<(), WrongType> {
    match spec.remove("flavor") {
        None => {}
        Some(flavor) if flavor.is_null() => {}
        Some(flavor) => match Flavor::of(flavor) {
            Flavor::Id(id) => {
                if let Some(name) = kept.flavor_beside(path, &id.as_str().unwrap_or_default()) {
                    spec.insert("flavor", Node::string(name));
                }
                spec.insert("flavorID", id);
            }
            Flavor::Name(name) => spec.insert("flavor", name),
            Flavor::Other(flavor) => kept.keep(&path.field("flavor"), flavor),
        },
    }
    spec.each_object("ports", path, |port, path| {
        port.rename_inverted("enablePortSecurity", "disablePortSecurity", path)
    })
}

pub(super) fn status_to_v1beta2(status: &mut Object<'_>) -> Result<(), WrongType> {
    let path = Path::root("status");
    conditions::to_v1beta2(status, &path)?;
    for gone in ["ready", "failureReason", "failureMessage"] {
        status.remove(gone);
    }
    resolved_to_v1beta2(status, &path)
}

pub(super) fn status_to_v1beta1(status: &mut Object<'_>) -> Result<(), WrongType> {
    let path = Path::root("status");
    set_ready(status, &path)?;
    conditions::to_v1beta1(status, &path)?;
    resolved_to_v1beta1(status, &path)
}

/// `ready` has the status of the condition `Ready`. Before that condition exists, it has the value that the contract
/// defines.
pub(super) fn set_ready(status: &mut Object<'_>, path: &Path<'_>) -> Result<(), WrongType> {
    let ready = match conditions::ready(status, path)? {
        Some(ready) => ready,
        // A value of another type is ignored.
        None => status
            .object("initialization", path)
            .ok()
            .flatten()
            .is_some_and(|initialization| {
                initialization.get("provisioned").and_then(Node::as_bool) == Some(true)
            }),
    };
    status.insert("ready", Node::Text(if ready { "true" } else { "false" }));
    Ok(())
}

/// Converts `resolved` of a machine's or a bastion's status.
pub(super) fn resolved_to_v1beta2(
    status: &mut Object<'_>,
    path: &Path<'_>,
) -> Result<(), WrongType> {
    rename_in_resolved(status, path, "disablePortSecurity", "enablePortSecurity")
}

/// Converts `resolved` of a machine's or a bastion's status.
pub(super) fn resolved_to_v1beta1(
    status: &mut Object<'_>,
    path: &Path<'_>,
) -> Result<(), WrongType> {
    rename_in_resolved(status, path, "enablePortSecurity", "disablePortSecurity")
}

fn rename_in_resolved(
    status: &mut Object<'_>,
    path: &Path<'_>,
    from: &'static str,
    to: &'static str,
) -> Result<(), WrongType> {
    match status.object("resolved", path)? {
        Some(resolved) => resolved.each_object("ports", &path.field("resolved"), |port, path| {
            port.rename_inverted(from, to, path)
        }),
        None => Ok(()),
    }
}

enum Flavor<'a> {
    Id(Node<'a>),
    Name(Node<'a>),
    /// A content that v1beta1 can't express, such as an empty object.
    Other(Node<'a>),
}

impl<'a> Flavor<'a> {
    fn of(mut flavor: Node<'a>) -> Self {
        let root = Path::root("flavor");
        let Ok(object) = flavor.object(&root) else {
            return Self::Other(flavor);
        };
        if object.len() == 1 {
            if object.text("id").is_some()
                && let Some(id) = object.remove("id")
            {
                return Self::Id(id);
            }
            if let Ok(Some(filter)) = object.object("filter", &root)
                && filter.len() == 1
                && filter.text("name").is_some()
                && let Some(name) = filter.remove("name")
            {
                return Self::Name(name);
            }
        }
        Self::Other(flavor)
    }
}

fn wrapped<'a>(key: &'static str, node: Node<'a>) -> Node<'a> {
    Node::Object(Object::from_iter([(key, node)]))
}

/// The text, still in JSON.
fn text<'a>(
    node: Option<Node<'a>>,
    field: &str,
    path: &Path<'_>,
) -> Result<Option<Node<'a>>, WrongType> {
    match node {
        Some(node) if node.as_str().is_some() => Ok(Some(node)),
        Some(node) if !node.is_null() => Err(node.wrong(&path.field(field), "a string")),
        _ => Ok(None),
    }
}
