//! OpenStackMachine, and the same spec in templates and bastions.

use serde_json::Value;

use super::{conditions, kept::Kept};
use crate::webhooks::json::{self, Object, Path, WrongType};

pub(super) fn spec_to_v1beta2(
    spec: &mut Object,
    path: &Path<'_>,
    kept: &mut Kept,
) -> Result<(), WrongType> {
    let name = text(spec.remove("flavor"), "flavor", path)?;
    let id = text(spec.remove("flavorID"), "flavorID", path)?;
    let flavor = match (name, id) {
        (None, None) => kept.found(&path.field("flavor")),
        (Some(name), None) => Some(by_name(name)),
        (name, Some(id)) => {
            // The id wins in v1beta1; v1beta2 has room for one of the two.
            if let Some(name) = name {
                let mut entry = Object::new();
                entry.insert("name".to_owned(), Value::String(name));
                entry.insert("id".to_owned(), Value::String(id.clone()));
                kept.keep(&path.field("flavor"), Value::Object(entry));
            }
            Some(Value::Object(Object::from_iter([(
                "id".to_owned(),
                Value::String(id),
            )])))
        }
    };
    if let Some(flavor) = flavor {
        spec.insert("flavor".to_owned(), flavor);
    }
    json::each_object(spec, "ports", path, |port, path| {
        json::rename_inverted(port, "disablePortSecurity", "enablePortSecurity", path)
    })
}

pub(super) fn spec_to_v1beta1(
    spec: &mut Object,
    path: &Path<'_>,
    kept: &mut Kept,
) -> Result<(), WrongType> {
    match spec.remove("flavor") {
        None | Some(Value::Null) => {}
        Some(flavor) => match Flavor::of(&flavor) {
            Flavor::Id(id) => {
                if let Some(name) = kept.flavor_beside(path, id) {
                    spec.insert("flavor".to_owned(), Value::String(name));
                }
                spec.insert("flavorID".to_owned(), Value::from(id));
            }
            Flavor::Name(name) => {
                spec.insert("flavor".to_owned(), Value::from(name));
            }
            Flavor::Other => kept.keep(&path.field("flavor"), flavor),
        },
    }
    json::each_object(spec, "ports", path, |port, path| {
        json::rename_inverted(port, "enablePortSecurity", "disablePortSecurity", path)
    })
}

pub(super) fn status_to_v1beta2(status: &mut Object) -> Result<(), WrongType> {
    let path = Path::root("status");
    conditions::to_v1beta2(status, &path)?;
    for gone in ["ready", "failureReason", "failureMessage"] {
        status.remove(gone);
    }
    resolved_to_v1beta2(status, &path)
}

pub(super) fn status_to_v1beta1(status: &mut Object) -> Result<(), WrongType> {
    let path = Path::root("status");
    set_ready(status);
    conditions::to_v1beta1(status, &path)?;
    resolved_to_v1beta1(status, &path)
}

/// `ready` is the condition `Ready`; before there is one it is what the contract means by it.
pub(super) fn set_ready(status: &mut Object) {
    let ready = conditions::ready(status).unwrap_or_else(|| {
        status
            .get("initialization")
            .and_then(|initialization| initialization.get("provisioned"))
            == Some(&Value::Bool(true))
    });
    status.insert("ready".to_owned(), Value::Bool(ready));
}

/// Converts `resolved` of a machine's or a bastion's status.
pub(super) fn resolved_to_v1beta2(status: &mut Object, path: &Path<'_>) -> Result<(), WrongType> {
    let Some(resolved) = json::object(status, "resolved", path)? else {
        return Ok(());
    };
    json::each_object(resolved, "ports", &path.field("resolved"), |port, path| {
        json::rename_inverted(port, "disablePortSecurity", "enablePortSecurity", path)
    })
}

/// Converts `resolved` of a machine's or a bastion's status.
pub(super) fn resolved_to_v1beta1(status: &mut Object, path: &Path<'_>) -> Result<(), WrongType> {
    let Some(resolved) = json::object(status, "resolved", path)? else {
        return Ok(());
    };
    json::each_object(resolved, "ports", &path.field("resolved"), |port, path| {
        json::rename_inverted(port, "enablePortSecurity", "disablePortSecurity", path)
    })
}

enum Flavor<'a> {
    Id(&'a str),
    Name(&'a str),
    /// Nothing that v1beta1 can say, such as an empty object.
    Other,
}

impl<'a> Flavor<'a> {
    fn of(flavor: &'a Value) -> Self {
        let Some(flavor) = flavor.as_object().filter(|flavor| flavor.len() == 1) else {
            return Self::Other;
        };
        if let Some(Value::String(id)) = flavor.get("id") {
            return Self::Id(id);
        }
        match flavor.get("filter").and_then(Value::as_object) {
            Some(filter) if filter.len() == 1 => match filter.get("name") {
                Some(Value::String(name)) => Self::Name(name),
                _ => Self::Other,
            },
            _ => Self::Other,
        }
    }
}

fn by_name(name: String) -> Value {
    let filter = Object::from_iter([("name".to_owned(), Value::String(name))]);
    Value::Object(Object::from_iter([(
        "filter".to_owned(),
        Value::Object(filter),
    )]))
}

fn text(value: Option<Value>, field: &str, path: &Path<'_>) -> Result<Option<String>, WrongType> {
    match value {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(other) => Err(WrongType::new(&path.field(field), "a string", &other)),
    }
}
