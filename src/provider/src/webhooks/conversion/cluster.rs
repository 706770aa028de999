//! OpenStackCluster, and the same spec in its template.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{
    conditions,
    kept_fields::KeptFields,
    lazy_json::{Node, Object},
    machine,
};
use crate::webhooks::json::{Path, WrongType};

pub(super) fn spec_to_v1beta2<'a>(
    spec: &mut Object<'a>,
    path: &Path<'_>,
    kept: &mut KeptFields<'a>,
) -> Result<(), WrongType> {
    let mut api_server = Object::default();
    spec.shift(
        "apiServerLoadBalancer",
        &mut api_server,
        "managedLoadBalancer",
    );
    spec.shift("apiServerFloatingIP", &mut api_server, "floatingIP");
    spec.shift("apiServerFixedIP", &mut api_server, "fixedIP");
    spec.shift("apiServerPort", &mut api_server, "port");
    spec.shift_inverted(
        "disableAPIServerFloatingIP",
        &mut api_server,
        "enableFloatingIP",
        path,
    )?;
    wrap(spec, "apiServer", api_server, path, kept);

    let mut network = Object::default();
    spec.shift("networkMTU", &mut network, "mtu");
    spec.shift_inverted(
        "disablePortSecurity",
        &mut network,
        "enablePortSecurity",
        path,
    )?;
    wrap(spec, "managedNetwork", network, path, kept);

    let mut router = Object::default();
    spec.shift("externalRouterIPs", &mut router, "externalIPs");
    wrap(spec, "managedRouter", router, path, kept);

    spec.rename_inverted("disableExternalNetwork", "enableExternalNetwork", path)?;
    if let Some(groups) = spec.object("managedSecurityGroups", path)? {
        groups.rename(
            "allNodesSecurityGroupRules",
            "clusterNodesSecurityGroupRules",
        );
    }
    endpoint_to_v1beta2(spec, path, kept)?;
    if let Some(bastion) = spec.object("bastion", path)? {
        let path = path.field("bastion");
        if let Some(spec) = bastion.object("spec", &path)? {
            machine::spec_to_v1beta2(spec, &path.field("spec"), kept)?;
        }
    }
    Ok(())
}

pub(super) fn spec_to_v1beta1<'a>(
    spec: &mut Object<'a>,
    path: &Path<'_>,
    kept: &mut KeptFields<'a>,
) -> Result<(), WrongType> {
    if let Some(mut api_server) = unwrap(spec, "apiServer", path)? {
        api_server.shift("managedLoadBalancer", spec, "apiServerLoadBalancer");
        api_server.shift("floatingIP", spec, "apiServerFloatingIP");
        api_server.shift("fixedIP", spec, "apiServerFixedIP");
        api_server.shift("port", spec, "apiServerPort");
        api_server.shift_inverted(
            "enableFloatingIP",
            spec,
            "disableAPIServerFloatingIP",
            &path.field("apiServer"),
        )?;
        keep_rest(api_server, spec, "apiServer", API_SERVER, path, kept);
    }
    if let Some(mut network) = unwrap(spec, "managedNetwork", path)? {
        network.shift("mtu", spec, "networkMTU");
        network.shift_inverted(
            "enablePortSecurity",
            spec,
            "disablePortSecurity",
            &path.field("managedNetwork"),
        )?;
        keep_rest(network, spec, "managedNetwork", MANAGED_NETWORK, path, kept);
    }
    if let Some(mut router) = unwrap(spec, "managedRouter", path)? {
        router.shift("externalIPs", spec, "externalRouterIPs");
        keep_rest(router, spec, "managedRouter", MANAGED_ROUTER, path, kept);
    }
    spec.rename_inverted("enableExternalNetwork", "disableExternalNetwork", path)?;
    if let Some(groups) = spec.object("managedSecurityGroups", path)? {
        groups.rename(
            "clusterNodesSecurityGroupRules",
            "allNodesSecurityGroupRules",
        );
    }
    endpoint_to_v1beta1(spec, path, kept)?;
    if let Some(bastion) = spec.object("bastion", path)? {
        let path = path.field("bastion");
        if let Some(spec) = bastion.object("spec", &path)? {
            machine::spec_to_v1beta1(spec, &path.field("spec"), kept)?;
        }
    }
    Ok(())
}

pub(super) fn status_to_v1beta2(status: &mut Object<'_>) -> Result<(), WrongType> {
    let path = Path::root("status");
    conditions::to_v1beta2(status, &path)?;
    for gone in ["ready", "failureReason", "failureMessage"] {
        status.remove(gone);
    }
    status.rename("apiServerLoadBalancer", "apiServerManagedLoadBalancer");
    failure_domains_to_v1beta2(status, &path)?;
    if let Some(bastion) = status.object("bastion", &path)? {
        machine::resolved_to_v1beta2(bastion, &path.field("bastion"))?;
    }
    Ok(())
}

pub(super) fn status_to_v1beta1(status: &mut Object<'_>) -> Result<(), WrongType> {
    let path = Path::root("status");
    machine::set_ready(status, &path)?;
    conditions::to_v1beta1(status, &path)?;
    status.rename("apiServerManagedLoadBalancer", "apiServerLoadBalancer");
    failure_domains_to_v1beta1(status, &path)?;
    if let Some(bastion) = status.object("bastion", &path)? {
        machine::resolved_to_v1beta1(bastion, &path.field("bastion"))?;
    }
    Ok(())
}

/// v1beta1's names of the fields that v1beta2 has in one object.
const API_SERVER: &[&str] = &[
    "apiServerLoadBalancer",
    "apiServerFloatingIP",
    "apiServerFixedIP",
    "apiServerPort",
    "disableAPIServerFloatingIP",
];
const MANAGED_NETWORK: &[&str] = &["networkMTU", "disablePortSecurity"];
const MANAGED_ROUTER: &[&str] = &["externalRouterIPs"];

/// Puts the fields of `wrapped` into an object of their own, together with the kept fields that v1beta1 can't hold.
fn wrap<'a>(
    spec: &mut Object<'a>,
    key: &'static str,
    mut wrapped: Object<'a>,
    path: &Path<'_>,
    kept: &mut KeptFields<'a>,
) {
    let rest = kept.found(&path.field(key));
    let was_there = rest.is_some();
    if let Some(Value::Object(rest)) = rest {
        for (key, value) in rest {
            wrapped.insert_if_absent(key, Node::Made(value));
        }
    }
    if was_there || !wrapped.is_empty() {
        spec.insert(key, Node::Object(wrapped));
    }
}

/// Removes the object at `key` from `spec` and returns it.
fn unwrap<'a>(
    spec: &mut Object<'a>,
    key: &str,
    path: &Path<'_>,
) -> Result<Option<Object<'a>>, WrongType> {
    match spec.remove(key) {
        Some(node) if !node.is_null() => node.into_object(&path.field(key)).map(Some),
        _ => Ok(None),
    }
}

/// Keeps the rest of an object whose known fields were taken out, even if it is empty, so that the object itself is not
/// lost.
fn keep_rest<'a>(
    rest: Object<'a>,
    spec: &Object<'_>,
    key: &'static str,
    fields: &[&str],
    path: &Path<'_>,
    kept: &mut KeptFields<'a>,
) {
    if !rest.is_empty() || !fields.iter().any(|field| spec.contains(field)) {
        kept.keep(&path.field(key), Node::Object(rest));
    }
}

/// Converts an endpoint. In v1beta1 it may have an empty host or port 0, which mean unset. v1beta2 leaves them out.
fn endpoint_to_v1beta2<'a>(
    spec: &mut Object<'a>,
    path: &Path<'_>,
    kept: &mut KeptFields<'a>,
) -> Result<(), WrongType> {
    let Some(endpoint) = spec.object(ENDPOINT, path)? else {
        return Ok(());
    };
    let mut unset = Object::default();
    if endpoint.text("host").is_some_and(|host| host.is_empty()) {
        endpoint.shift("host", &mut unset, "host");
    }
    if endpoint.get("port").is_some_and(Node::is_zero) {
        endpoint.shift("port", &mut unset, "port");
    }
    if !unset.is_empty() {
        if endpoint.is_empty() {
            spec.remove(ENDPOINT);
        }
        kept.keep(&path.field(ENDPOINT), Node::Object(unset));
    }
    Ok(())
}

fn endpoint_to_v1beta1<'a>(
    spec: &mut Object<'a>,
    path: &Path<'_>,
    kept: &mut KeptFields<'a>,
) -> Result<(), WrongType> {
    let Some(Value::Object(unset)) = kept.found(&path.field(ENDPOINT)) else {
        return Ok(());
    };
    if spec.lacks(ENDPOINT) {
        spec.insert(ENDPOINT, Node::Object(Object::default()));
    }
    if let Some(endpoint) = spec.object(ENDPOINT, path)? {
        for (field, nothing) in unset {
            endpoint.insert_if_absent(field, Node::Made(nothing));
        }
    }
    Ok(())
}

const ENDPOINT: &str = "controlPlaneEndpoint";
const DOMAINS: &str = "failureDomains";

/// Converts a map into a list, ordered by name.
fn failure_domains_to_v1beta2(status: &mut Object<'_>, path: &Path<'_>) -> Result<(), WrongType> {
    let Some(map) = status.object(DOMAINS, path)? else {
        return Ok(());
    };
    let path = path.field(DOMAINS);
    let mut domains = BTreeMap::new();
    for (name, domain) in std::mem::take(map).into_fields() {
        let mut domain = if domain.is_null() {
            Object::default()
        } else {
            domain.into_object(&path.key(&name))?
        };
        domain.insert("name", Node::string(name.as_ref()));
        domains.insert(name, Node::Object(domain));
    }
    status.insert(DOMAINS, Node::List(domains.into_values().collect()));
    Ok(())
}

/// Converts a list into a map, which has no order.
fn failure_domains_to_v1beta1(status: &mut Object<'_>, path: &Path<'_>) -> Result<(), WrongType> {
    let Some(list) = status.list(DOMAINS, path)? else {
        return Ok(());
    };
    let path = path.field(DOMAINS);
    let mut domains = BTreeMap::new();
    for (index, domain) in std::mem::take(list).into_iter().enumerate() {
        let path = path.index(index);
        let mut domain = domain.into_object(&path)?;
        let name = domain.remove("name").unwrap_or(Node::Made(Value::Null));
        let Some(text) = name.as_str() else {
            return Err(name.wrong(&path.field("name"), "a string"));
        };
        domains.insert(text.into_owned(), Node::Object(domain));
    }
    status.insert(DOMAINS, Node::Object(domains.into_iter().collect()));
    Ok(())
}
