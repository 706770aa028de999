//! OpenStackCluster, and the same spec in its template.

use serde_json::{Value, json};

use super::{conditions, kept::Kept, machine};
use crate::webhooks::json::{self, Object, Path, WrongType};

pub(super) fn spec_to_v1beta2(
    spec: &mut Object,
    path: &Path<'_>,
    kept: &mut Kept,
) -> Result<(), WrongType> {
    let mut api_server = Object::new();
    json::shift(
        spec,
        "apiServerLoadBalancer",
        &mut api_server,
        "managedLoadBalancer",
    );
    json::shift(spec, "apiServerFloatingIP", &mut api_server, "floatingIP");
    json::shift(spec, "apiServerFixedIP", &mut api_server, "fixedIP");
    json::shift(spec, "apiServerPort", &mut api_server, "port");
    json::shift_inverted(
        spec,
        "disableAPIServerFloatingIP",
        &mut api_server,
        "enableFloatingIP",
        path,
    )?;
    wrap(spec, "apiServer", api_server, path, kept);

    let mut network = Object::new();
    json::shift(spec, "networkMTU", &mut network, "mtu");
    json::shift_inverted(
        spec,
        "disablePortSecurity",
        &mut network,
        "enablePortSecurity",
        path,
    )?;
    wrap(spec, "managedNetwork", network, path, kept);

    let mut router = Object::new();
    json::shift(spec, "externalRouterIPs", &mut router, "externalIPs");
    wrap(spec, "managedRouter", router, path, kept);

    json::rename_inverted(
        spec,
        "disableExternalNetwork",
        "enableExternalNetwork",
        path,
    )?;
    if let Some(groups) = json::object(spec, "managedSecurityGroups", path)? {
        json::rename(
            groups,
            "allNodesSecurityGroupRules",
            "clusterNodesSecurityGroupRules",
        );
    }
    endpoint_to_v1beta2(spec, path, kept)?;
    if let Some(bastion) = json::object(spec, "bastion", path)? {
        let path = path.field("bastion");
        if let Some(spec) = json::object(bastion, "spec", &path)? {
            machine::spec_to_v1beta2(spec, &path.field("spec"), kept)?;
        }
    }
    Ok(())
}

pub(super) fn spec_to_v1beta1(
    spec: &mut Object,
    path: &Path<'_>,
    kept: &mut Kept,
) -> Result<(), WrongType> {
    if let Some(mut api_server) = unwrap(spec, "apiServer", path)? {
        json::shift(
            &mut api_server,
            "managedLoadBalancer",
            spec,
            "apiServerLoadBalancer",
        );
        json::shift(&mut api_server, "floatingIP", spec, "apiServerFloatingIP");
        json::shift(&mut api_server, "fixedIP", spec, "apiServerFixedIP");
        json::shift(&mut api_server, "port", spec, "apiServerPort");
        json::shift_inverted(
            &mut api_server,
            "enableFloatingIP",
            spec,
            "disableAPIServerFloatingIP",
            &path.field("apiServer"),
        )?;
        keep_rest(api_server, spec, "apiServer", API_SERVER, path, kept);
    }
    if let Some(mut network) = unwrap(spec, "managedNetwork", path)? {
        json::shift(&mut network, "mtu", spec, "networkMTU");
        json::shift_inverted(
            &mut network,
            "enablePortSecurity",
            spec,
            "disablePortSecurity",
            &path.field("managedNetwork"),
        )?;
        keep_rest(network, spec, "managedNetwork", MANAGED_NETWORK, path, kept);
    }
    if let Some(mut router) = unwrap(spec, "managedRouter", path)? {
        json::shift(&mut router, "externalIPs", spec, "externalRouterIPs");
        keep_rest(router, spec, "managedRouter", MANAGED_ROUTER, path, kept);
    }
    json::rename_inverted(
        spec,
        "enableExternalNetwork",
        "disableExternalNetwork",
        path,
    )?;
    if let Some(groups) = json::object(spec, "managedSecurityGroups", path)? {
        json::rename(
            groups,
            "clusterNodesSecurityGroupRules",
            "allNodesSecurityGroupRules",
        );
    }
    endpoint_to_v1beta1(spec, path, kept)?;
    if let Some(bastion) = json::object(spec, "bastion", path)? {
        let path = path.field("bastion");
        if let Some(spec) = json::object(bastion, "spec", &path)? {
            machine::spec_to_v1beta1(spec, &path.field("spec"), kept)?;
        }
    }
    Ok(())
}

pub(super) fn status_to_v1beta2(status: &mut Object) -> Result<(), WrongType> {
    let path = Path::root("status");
    conditions::to_v1beta2(status, &path)?;
    for gone in ["ready", "failureReason", "failureMessage"] {
        status.remove(gone);
    }
    json::rename(
        status,
        "apiServerLoadBalancer",
        "apiServerManagedLoadBalancer",
    );
    failure_domains_to_v1beta2(status, &path)?;
    if let Some(bastion) = json::object(status, "bastion", &path)? {
        machine::resolved_to_v1beta2(bastion, &path.field("bastion"))?;
    }
    Ok(())
}

pub(super) fn status_to_v1beta1(status: &mut Object) -> Result<(), WrongType> {
    let path = Path::root("status");
    machine::set_ready(status);
    conditions::to_v1beta1(status, &path)?;
    json::rename(
        status,
        "apiServerManagedLoadBalancer",
        "apiServerLoadBalancer",
    );
    failure_domains_to_v1beta1(status, &path)?;
    if let Some(bastion) = json::object(status, "bastion", &path)? {
        machine::resolved_to_v1beta1(bastion, &path.field("bastion"))?;
    }
    Ok(())
}

/// v1beta1's names of what v1beta2 has in one object.
const API_SERVER: &[&str] = &[
    "apiServerLoadBalancer",
    "apiServerFloatingIP",
    "apiServerFixedIP",
    "apiServerPort",
    "disableAPIServerFloatingIP",
];
const MANAGED_NETWORK: &[&str] = &["networkMTU", "disablePortSecurity"];
const MANAGED_ROUTER: &[&str] = &["externalRouterIPs"];

/// Puts the fields of `wrapped` into an object of their own, with what v1beta1 could not hold of it.
fn wrap(
    spec: &mut Object,
    key: &'static str,
    mut wrapped: Object,
    path: &Path<'_>,
    kept: &mut Kept,
) {
    let rest = kept.found(&path.field(key));
    let was_there = rest.is_some();
    if let Some(Value::Object(rest)) = rest {
        for (key, value) in rest {
            wrapped.entry(key).or_insert(value);
        }
    }
    if was_there || !wrapped.is_empty() {
        spec.insert(key.to_owned(), Value::Object(wrapped));
    }
}

/// Takes the object at `key` off `spec`.
fn unwrap(spec: &mut Object, key: &str, path: &Path<'_>) -> Result<Option<Object>, WrongType> {
    match spec.remove(key) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::Object(object)) => Ok(Some(object)),
        Some(other) => Err(WrongType::new(&path.field(key), "an object", &other)),
    }
}

/// Keeps what is left of an object whose known fields were taken out, if only that it was there.
fn keep_rest(
    rest: Object,
    spec: &Object,
    key: &'static str,
    fields: &[&str],
    path: &Path<'_>,
    kept: &mut Kept,
) {
    if !rest.is_empty() || !fields.iter().any(|field| spec.contains_key(*field)) {
        kept.keep(&path.field(key), Value::Object(rest));
    }
}

/// An endpoint of v1beta1 may have an empty host or port 0, which mean unset; v1beta2 leaves them out.
fn endpoint_to_v1beta2(
    spec: &mut Object,
    path: &Path<'_>,
    kept: &mut Kept,
) -> Result<(), WrongType> {
    let Some(endpoint) = json::object(spec, ENDPOINT, path)? else {
        return Ok(());
    };
    let mut unset = Object::new();
    for (field, nothing) in [("host", json!("")), ("port", json!(0))] {
        if endpoint.get(field) == Some(&nothing) {
            endpoint.remove(field);
            unset.insert(field.to_owned(), nothing);
        }
    }
    if !unset.is_empty() {
        if endpoint.is_empty() {
            spec.remove(ENDPOINT);
        }
        kept.keep(&path.field(ENDPOINT), Value::Object(unset));
    }
    Ok(())
}

fn endpoint_to_v1beta1(
    spec: &mut Object,
    path: &Path<'_>,
    kept: &mut Kept,
) -> Result<(), WrongType> {
    let Some(Value::Object(unset)) = kept.found(&path.field(ENDPOINT)) else {
        return Ok(());
    };
    if spec.get(ENDPOINT).is_none_or(Value::is_null) {
        spec.insert(ENDPOINT.to_owned(), Value::Object(Object::new()));
    }
    if let Some(endpoint) = json::object(spec, ENDPOINT, path)? {
        for (field, nothing) in unset {
            endpoint.entry(field).or_insert(nothing);
        }
    }
    Ok(())
}

const ENDPOINT: &str = "controlPlaneEndpoint";

/// From a map to a list ordered by name.
fn failure_domains_to_v1beta2(status: &mut Object, path: &Path<'_>) -> Result<(), WrongType> {
    let path = path.field("failureDomains");
    let domains = match status.get_mut("failureDomains") {
        None | Some(Value::Null) => return Ok(()),
        Some(domains) => domains,
    };
    let Value::Object(map) = domains else {
        return Err(WrongType::new(&path, "an object", domains));
    };
    let mut list = Vec::with_capacity(map.len());
    for (name, domain) in std::mem::take(map) {
        let mut domain = match domain {
            Value::Object(domain) => domain,
            Value::Null => Object::new(),
            other => return Err(WrongType::new(&path.key(&name), "an object", &other)),
        };
        domain.insert("name".to_owned(), Value::String(name));
        list.push(domain);
    }
    let name = |domain: &Object| {
        domain
            .get("name")
            .and_then(Value::as_str)
            .unwrap_or_default()
            .to_owned()
    };
    list.sort_by_cached_key(name);
    *domains = Value::Array(list.into_iter().map(Value::Object).collect());
    Ok(())
}

/// From a list to a map, which has no order.
fn failure_domains_to_v1beta1(status: &mut Object, path: &Path<'_>) -> Result<(), WrongType> {
    let path = path.field("failureDomains");
    let domains = match status.get_mut("failureDomains") {
        None | Some(Value::Null) => return Ok(()),
        Some(domains) => domains,
    };
    let Value::Array(list) = domains else {
        return Err(WrongType::new(&path, "a list", domains));
    };
    let mut map = Object::new();
    for (index, domain) in std::mem::take(list).into_iter().enumerate() {
        let path = path.index(index);
        let mut domain = match domain {
            Value::Object(domain) => domain,
            other => return Err(WrongType::new(&path, "an object", &other)),
        };
        let name = match domain.remove("name") {
            Some(Value::String(name)) => name,
            other => {
                let found = other.unwrap_or_default();
                return Err(WrongType::new(&path.field("name"), "a string", &found));
            }
        };
        map.insert(name, Value::Object(domain));
    }
    *domains = Value::Object(map);
    Ok(())
}
