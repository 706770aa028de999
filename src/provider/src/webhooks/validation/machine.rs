//! OpenStackMachine, its template, and OpenStackServer.

use serde_json::Value;

use super::{
    FieldError, ObjectChange,
    difference::{differences, is_nothing},
};

pub(super) fn validate(change: &ObjectChange<'_>, errors: &mut Vec<FieldError>) {
    let new = change.new.get("spec");
    let Some(old) = change.old else {
        created("spec", new, errors);
        return;
    };
    differences("spec", old.get("spec"), new, &mut |path, difference| {
        if path == "spec.providerID"
            || is_identity(path, errors, difference.new)
            || is_address_pairs(path)
        {
            return;
        }
        errors.push(FieldError::forbidden(
            path,
            difference.new,
            "can't be changed; of an OpenStackMachine's spec only providerID, identityRef and \
             ports[].allowedAddressPairs may change",
        ));
    });
}

pub(super) fn validate_template(change: &ObjectChange<'_>, errors: &mut Vec<FieldError>) {
    const SPEC: &str = "/spec/template/spec";
    let new = change.new.pointer(SPEC);
    let Some(old) = change.old else {
        if let Some(id) = new
            .and_then(|spec| spec.get("providerID"))
            .filter(|id| !id.is_null())
        {
            errors.push(FieldError::forbidden(
                "spec.template.spec.providerID",
                id,
                "a template has none: it names one machine's server",
            ));
        }
        return;
    };
    if change.is_topology_dry_run() {
        return;
    }
    differences(
        "spec.template.spec",
        old.pointer(SPEC),
        new,
        &mut |path, difference| {
            if !is_address_pairs(path) {
                errors.push(FieldError::invalid(
                    path,
                    difference.new,
                    "can't be changed; of an OpenStackMachineTemplate's spec only \
                 ports[].allowedAddressPairs may change, for anything else make a new template",
                ));
            }
        },
    );
}

pub(super) fn validate_server(change: &ObjectChange<'_>, errors: &mut Vec<FieldError>) {
    let new = change.new.get("spec");
    let Some(old) = change.old else {
        created("spec", new, errors);
        return;
    };
    if change.is_topology_dry_run() {
        return;
    }
    let follows_owner = is_owned(change.new);
    differences("spec", old.get("spec"), new, &mut |path, difference| {
        if !(follows_owner && is_identity(path, errors, difference.new)) {
            errors.push(FieldError::forbidden(
                path,
                difference.new,
                "can't be changed; an OpenStackServer's spec is immutable, except that its identityRef follows that of the \
                 OpenStackMachine or OpenStackCluster that owns it",
            ));
        }
    });
}

/// Whether the server belongs to a machine, or as a bastion to a cluster. The owner's controller copies a change of the
/// owner's credentials to the server.
fn is_owned(server: &Value) -> bool {
    let owners = server.pointer("/metadata/ownerReferences");
    let mut owners = owners.and_then(Value::as_array).into_iter().flatten();
    owners.any(|owner| {
        let kind = owner.get("kind").and_then(Value::as_str);
        matches!(kind, Some("OpenStackMachine" | "OpenStackCluster"))
    })
}

/// The rules for a new machine or server.
fn created(path: &str, spec: Option<&Value>, errors: &mut Vec<FieldError>) {
    let Some(spec) = spec else { return };
    let list = |of: &Value, key: &str| {
        of.get(key)
            .and_then(Value::as_array)
            .cloned()
            .unwrap_or_default()
    };
    let has_root_volume = spec
        .get("rootVolume")
        .is_some_and(|volume| !volume.is_null());
    let managed = spec
        .get("managedServerGroup")
        .filter(|group| !group.is_null());
    if let (Some(managed), Some(_)) = (managed, spec.get("serverGroup").filter(|it| !it.is_null()))
    {
        errors.push(FieldError::forbidden(
            format!("{path}.managedServerGroup"),
            managed,
            "can't be set while serverGroup is set: a server is in one group at most",
        ));
    }
    for (index, device) in list(spec, "additionalBlockDevices").iter().enumerate() {
        if has_root_volume && device.get("name") == Some(&Value::from("root")) {
            errors.push(FieldError::forbidden(
                format!("{path}.additionalBlockDevices[{index}].name"),
                &Value::from("root"),
                "is the root volume's name while rootVolume is set; choose another",
            ));
        }
    }
    for (index, port) in list(spec, "ports").iter().enumerate() {
        let groups = port
            .get("securityGroups")
            .filter(|groups| !is_nothing(groups));
        if let (Some(groups), true) = (groups, port_security_is_off(port)) {
            errors.push(FieldError::forbidden(
                format!("{path}.ports[{index}].securityGroups"),
                groups,
                "must be empty while the port's security is off",
            ));
        }
    }
}

/// v1alpha1 accepts the old spelling besides the new one.
fn port_security_is_off(port: &Value) -> bool {
    port.get("enablePortSecurity") == Some(&Value::Bool(false))
        || port.get("disablePortSecurity") == Some(&Value::Bool(true))
}

/// Whether `path` is part of `spec.identityRef`; a change of its region is refused here.
pub(super) fn is_identity(path: &str, errors: &mut Vec<FieldError>, new: &Value) -> bool {
    if path == "spec.identityRef.region" {
        errors.push(FieldError::forbidden(
            path,
            new,
            "can't be added, changed or removed: objects of one region are not found in another",
        ));
    }
    path == "spec.identityRef" || path.starts_with("spec.identityRef.")
}

/// Whether `path` is `….ports[N].allowedAddressPairs` or inside of it.
fn is_address_pairs(path: &str) -> bool {
    let Some((_, rest)) = path.split_once(".ports[") else {
        return false;
    };
    let Some((index, rest)) = rest.split_once(']') else {
        return false;
    };
    let inside = rest.strip_prefix(".allowedAddressPairs");
    index.bytes().all(|byte| byte.is_ascii_digit())
        && inside.is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
}
