//! Errors with the field names of the version that the user wrote.

use super::FieldError;

/// The names in v1beta2 and v1beta1, below a cluster's or a machine's spec. `true` marks a boolean with the opposite
/// meaning.
const NAMES: [(&str, &str, bool); 12] = [
    (
        ".apiServer.managedLoadBalancer",
        ".apiServerLoadBalancer",
        false,
    ),
    (".apiServer.floatingIP", ".apiServerFloatingIP", false),
    (".apiServer.fixedIP", ".apiServerFixedIP", false),
    (".apiServer.port", ".apiServerPort", false),
    (
        ".apiServer.enableFloatingIP",
        ".disableAPIServerFloatingIP",
        true,
    ),
    (".managedNetwork.mtu", ".networkMTU", false),
    (
        ".managedNetwork.enablePortSecurity",
        ".disablePortSecurity",
        true,
    ),
    (".managedRouter.externalIPs", ".externalRouterIPs", false),
    (".enableExternalNetwork", ".disableExternalNetwork", true),
    (
        ".managedSecurityGroups.clusterNodesSecurityGroupRules",
        ".managedSecurityGroups.allNodesSecurityGroupRules",
        false,
    ),
    (".flavor.id", ".flavorID", false),
    (".flavor.filter.name", ".flavor", false),
];

/// Replaces the names in a v1beta2 error by those of v1beta1.
pub(super) fn in_v1beta1(mut error: FieldError) -> FieldError {
    let found_name = NAMES.iter().find_map(|&(new, old, inverted)| {
        let start = error.field.find(new)?;
        let end = start + new.len();
        let rest = error.field.get(end..)?;
        (rest.is_empty() || rest.starts_with(['.', '['])).then_some((start, end, old, inverted))
    });
    if let Some((start, end, old, inverted)) = found_name {
        error.field.replace_range(start..end, old);
        if inverted {
            invert(&mut error.found);
        }
    } else if let Some(port) = error.field.strip_suffix("].enablePortSecurity") {
        error.field = format!("{port}].disablePortSecurity");
        invert(&mut error.found);
    }
    error.allowed = error.allowed.replace(
        "apiServer.enableFloatingIP is false",
        "disableAPIServerFloatingIP is true",
    );
    error
}

fn invert(found: &mut String) {
    match found.as_str() {
        "true" => "false".clone_into(found),
        "false" => "true".clone_into(found),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn fields_are_named_as_the_user_wrote_them() {
        let cases = [
            ("spec.apiServer.port", "spec.apiServerPort"),
            (
                "spec.template.spec.apiServer.managedLoadBalancer.monitor.delay",
                "spec.template.spec.apiServerLoadBalancer.monitor.delay",
            ),
            (
                "spec.managedRouter.externalIPs[0].fixedIP",
                "spec.externalRouterIPs[0].fixedIP",
            ),
            (
                "spec.managedSecurityGroups.clusterNodesSecurityGroupRules[2]",
                "spec.managedSecurityGroups.allNodesSecurityGroupRules[2]",
            ),
            ("spec.flavor.id", "spec.flavorID"),
            ("spec.flavor.filter.name", "spec.flavor"),
            ("spec.tags[0]", "spec.tags[0]"),
        ];
        for (new, old) in cases {
            let error = in_v1beta1(FieldError::forbidden(new, &json!(1), "no"));
            assert_eq!(error.field, old);
            assert_eq!(error.found, "1");
        }
        let inverted = [
            ("spec.enableExternalNetwork", "spec.disableExternalNetwork"),
            (
                "spec.ports[3].enablePortSecurity",
                "spec.ports[3].disablePortSecurity",
            ),
        ];
        for (new, old) in inverted {
            let error = in_v1beta1(FieldError::forbidden(new, &json!(true), "no"));
            assert_eq!((error.field.as_str(), error.found.as_str()), (old, "false"));
        }
    }
}
