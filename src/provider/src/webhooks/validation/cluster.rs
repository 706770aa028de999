//! OpenStackCluster and its template.

use serde_json::Value;

use super::{
    FieldError, ObjectChange,
    difference::{Difference, differences, is_nothing},
    machine::is_identity,
};
use capo_core::{MonitorType, Provider};

pub(super) fn validate(change: &ObjectChange<'_>, errors: &mut Vec<FieldError>) {
    security_group_rules(change, errors);
    monitor_type(change, errors);
    let Some(old) = change.old else { return };
    let rules = Rules {
        old,
        new: change.new,
    };
    differences(
        "spec",
        old.get("spec"),
        change.new.get("spec"),
        &mut |path, difference| {
            if is_identity(path, errors, difference.new) {
                return;
            }
            if let Err(refusal) = rules.check(path, difference) {
                errors.push(FieldError::forbidden(
                    path,
                    difference.new,
                    refusal.to_string(),
                ));
            }
        },
    );
}

pub(super) fn validate_template(change: &ObjectChange<'_>, errors: &mut Vec<FieldError>) {
    const SPEC: &str = "/spec/template/spec";
    let Some(old) = change.old else { return };
    differences(
        "spec.template.spec",
        old.pointer(SPEC),
        change.new.pointer(SPEC),
        &mut |path, difference| {
            errors.push(FieldError::invalid(
                path,
                difference.new,
                "can't be changed; create a new OpenStackClusterTemplate instead",
            ));
        },
    );
}

/// The rule lists of `spec.managedSecurityGroups`.
const RULE_LISTS: [&str; 3] = [
    "clusterNodesSecurityGroupRules",
    "controlPlaneNodesSecurityGroupRules",
    "workerNodesSecurityGroupRules",
];

/// The fields of a rule that name the other side of the traffic. Only one of them may be set.
const REMOTES: [&str; 3] = ["remoteManagedGroups", "remoteGroupID", "remoteIPPrefix"];

/// Refuses new rules that name more than one remote. A rule that the object already has is accepted, because it must
/// not prevent unrelated changes.
fn security_group_rules(change: &ObjectChange<'_>, errors: &mut Vec<FieldError>) {
    for list in RULE_LISTS {
        let rules = |object: &Value| {
            let path = format!("/spec/managedSecurityGroups/{list}");
            let rules = object.pointer(&path).and_then(Value::as_array);
            rules.cloned().unwrap_or_default()
        };
        let before = change.old.map(rules).unwrap_or_default();
        for (index, rule) in rules(change.new).iter().enumerate() {
            if before.contains(rule) {
                continue;
            }
            let given: Vec<&str> = REMOTES
                .into_iter()
                .filter(|remote| rule.get(remote).is_some_and(|value| !value.is_null()))
                .collect();
            if given.len() > 1 {
                errors.push(FieldError::forbidden(
                    format!("spec.managedSecurityGroups.{list}[{index}]"),
                    &Value::from(given.join(", ")),
                    "a rule can have only one of remoteManagedGroups, remoteGroupID and remoteIPPrefix",
                ));
            }
        }
    }
}

/// Refuses a type of health monitor that the provider in the spec does not have. A type that the object already has is
/// accepted, because it must not prevent unrelated changes.
fn monitor_type(change: &ObjectChange<'_>, errors: &mut Vec<FieldError>) {
    const FIELD: &str = "/spec/apiServer/managedLoadBalancer/monitor/type";
    const PROVIDER: &str = "/spec/apiServer/managedLoadBalancer/provider";
    let wanted = change.new.pointer(FIELD);
    if change.old.is_some_and(|old| old.pointer(FIELD) == wanted) {
        return;
    }
    let provider = change.new.pointer(PROVIDER).and_then(Value::as_str);
    if let Some(wanted) = wanted
        && let Some(name) = wanted.as_str()
        && let Some(provider) = provider.map(Provider::of)
        && !provider.supports_monitor_type(&MonitorType::from(name))
    {
        errors.push(FieldError::invalid(
            "spec.apiServer.managedLoadBalancer.monitor.type",
            wanted,
            "the health monitors of Octavia's provider ovn only open connections: TCP is needed",
        ));
    }
}

/// The fields that may change at any time, with all their parts.
const MUTABLE: [&str; 6] = [
    "spec.apiServer.managedLoadBalancer.allowedCIDRs",
    "spec.apiServer.managedLoadBalancer.monitor",
    "spec.bastion",
    "spec.controlPlaneAvailabilityZones",
    "spec.controlPlaneOmitAvailabilityZone",
    "spec.primarySubnet",
];

const IMMUTABLE: &str = "can't be changed after creation";

/// Why a change is not allowed. The text is about the allowed values.
#[derive(Debug, thiserror::Error)]
enum ChangeRefusal {
    #[error("{IMMUTABLE}")]
    Immutable,
    #[error("can't be removed while enabled: set enabled to false first")]
    EnabledBastion,
    #[error("{IMMUTABLE}; it may be set once while apiServer.enableFloatingIP is false")]
    FirstSet,
    #[error("{IMMUTABLE}; it may only be set to the load balancer's current address, {current:?}")]
    FloatingIp { current: String },
    #[error(
        "{IMMUTABLE}; it may only be set to the load balancer's current address, once it has one"
    )]
    FloatingIpBeforeAddress,
    #[error("can't be changed once it has a host: every kubeconfig of the cluster names it")]
    EndpointInUse,
    #[error("{IMMUTABLE}; it may only be pinned to the network in use, id {current:?}")]
    Network { current: String },
    #[error(
        "{IMMUTABLE}; a subnet's filter may only be replaced by the id of the subnet of that name in \
         status.network.subnets"
    )]
    SubnetFilter,
    #[error("can't be removed once set: the machines' ports use its groups")]
    SecurityGroupsInUse,
    #[error("{IMMUTABLE}; of a managed subnet only dnsNameservers may change")]
    ManagedSubnet,
    #[error("subnets can't be added or removed after creation")]
    ManagedSubnetCount,
}

struct Rules<'a> {
    old: &'a Value,
    new: &'a Value,
}

impl Rules<'_> {
    /// Whether the difference at `path` is allowed.
    fn check(&self, path: &str, difference: Difference<'_>) -> Result<(), ChangeRefusal> {
        if path == "spec.bastion" && is_nothing(difference.new) {
            return self.bastion_may_go();
        }
        if MUTABLE.iter().any(|field| is_at_or_in(path, field)) {
            return Ok(());
        }
        if is_at_or_in(path, "spec.managedSecurityGroups") {
            return security_groups(path, difference);
        }
        if is_at_or_in(path, "spec.managedSubnets") {
            return managed_subnets(path);
        }
        if is_at_or_in(path, "spec.subnets") {
            return self.subnets();
        }
        if is_at_or_in(path, "spec.network") {
            return self.network();
        }
        if is_at_or_in(path, "spec.controlPlaneEndpoint") {
            return self.endpoint(path, difference);
        }
        match path {
            "spec.apiServer.floatingIP" => self.floating_ip(difference),
            "spec.apiServer.fixedIP" | "spec.apiServer.port" => self.first_set(difference),
            _ => Err(ChangeRefusal::Immutable),
        }
    }

    fn bastion_may_go(&self) -> Result<(), ChangeRefusal> {
        if self.old.pointer("/spec/bastion/enabled") == Some(&Value::Bool(false)) {
            Ok(())
        } else {
            Err(ChangeRefusal::EnabledBastion)
        }
    }

    /// The fixed IP and the port may be set later only if the user manages the address, because no object of capo-rs
    /// depends on them yet.
    fn first_set(&self, difference: Difference<'_>) -> Result<(), ChangeRefusal> {
        let off = self.old.pointer("/spec/apiServer/enableFloatingIP") == Some(&Value::Bool(false));
        let unset = difference.old.is_null() || difference.old.as_str() == Some("");
        if off && unset {
            Ok(())
        } else {
            Err(ChangeRefusal::FirstSet)
        }
    }

    /// The floating IP may only be set to the value that is in use.
    fn floating_ip(&self, difference: Difference<'_>) -> Result<(), ChangeRefusal> {
        let current = self
            .old
            .pointer("/status/apiServerManagedLoadBalancer/ip")
            .and_then(Value::as_str)
            .filter(|ip| !ip.is_empty());
        match current {
            Some(ip) if difference.new.as_str() == Some(ip) => Ok(()),
            Some(ip) => Err(ChangeRefusal::FloatingIp {
                current: ip.to_owned(),
            }),
            None => Err(ChangeRefusal::FloatingIpBeforeAddress),
        }
    }

    /// The user or the manager may set the endpoint until it has a host. A port may be added to a host that the user
    /// set.
    fn endpoint(&self, path: &str, difference: Difference<'_>) -> Result<(), ChangeRefusal> {
        let host = self
            .old
            .pointer("/spec/controlPlaneEndpoint/host")
            .and_then(Value::as_str)
            .unwrap_or_default();
        let fills_port = path == "spec.controlPlaneEndpoint.port"
            && (difference.old.is_null() || difference.old.as_i64() == Some(0));
        if host.is_empty() || fills_port {
            Ok(())
        } else {
            Err(ChangeRefusal::EndpointInUse)
        }
    }

    /// The network may be replaced by the id of the network that is in use.
    fn network(&self) -> Result<(), ChangeRefusal> {
        let current = self
            .old
            .pointer("/status/network/id")
            .and_then(Value::as_str);
        let had_one = self
            .old
            .pointer("/spec/network")
            .is_some_and(|network| !is_nothing(network));
        match (
            current,
            self.new.pointer("/spec/network/id").and_then(Value::as_str),
        ) {
            (Some(current), Some(new)) if had_one && current == new => Ok(()),
            (Some(current), _) if had_one => Err(ChangeRefusal::Network {
                current: current.to_owned(),
            }),
            _ => Err(ChangeRefusal::Immutable),
        }
    }

    /// The filter of each subnet may be replaced by the id of the subnet of that name that is in use.
    fn subnets(&self) -> Result<(), ChangeRefusal> {
        let list = |of: &Value, pointer: &str| -> Vec<Value> {
            of.pointer(pointer)
                .and_then(Value::as_array)
                .cloned()
                .unwrap_or_default()
        };
        let (before, after) = (
            list(self.old, "/spec/subnets"),
            list(self.new, "/spec/subnets"),
        );
        let in_use = list(self.old, "/status/network/subnets");
        let networks_given = [self.old, self.new].iter().all(|side| {
            side.pointer("/spec/network")
                .is_some_and(|network| !is_nothing(network))
        });
        if before.len() != after.len() || !networks_given {
            return Err(ChangeRefusal::SubnetFilter);
        }
        let pinned = |(before, after): (&Value, &Value)| {
            if before == after {
                return true;
            }
            let name = before
                .pointer("/filter/name")
                .filter(|name| name.is_string());
            let id = after.get("id").filter(|id| id.is_string());
            after.get("filter").is_none_or(Value::is_null)
                && name.is_some()
                && id.is_some()
                && in_use
                    .iter()
                    .any(|subnet| subnet.get("name") == name && subnet.get("id") == id)
        };
        if before.iter().zip(&after).all(pinned) {
            Ok(())
        } else {
            Err(ChangeRefusal::SubnetFilter)
        }
    }
}

/// The rules of the managed security groups may change, and their management may begin. Management may not end, because
/// ports use the groups.
fn security_groups(path: &str, difference: Difference<'_>) -> Result<(), ChangeRefusal> {
    const FIELD: &str = "spec.managedSecurityGroups";
    if path == FIELD && is_nothing(difference.new) {
        return Err(ChangeRefusal::SecurityGroupsInUse);
    }
    if path == FIELD {
        return Ok(());
    }
    let field = path
        .strip_prefix("spec.managedSecurityGroups.")
        .unwrap_or_default();
    let known = RULE_LISTS.iter().any(|list| is_at_or_in(field, list))
        || field == "allowAllInClusterTraffic";
    if known {
        Ok(())
    } else {
        Err(ChangeRefusal::Immutable)
    }
}

/// Only the name servers of a subnet may change.
fn managed_subnets(path: &str) -> Result<(), ChangeRefusal> {
    let field = path
        .strip_prefix("spec.managedSubnets[")
        .and_then(|rest| rest.split_once("]."))
        .map(|(_, field)| field);
    match field {
        Some(field) if is_at_or_in(field, "dnsNameservers") => Ok(()),
        Some(_) => Err(ChangeRefusal::ManagedSubnet),
        None => Err(ChangeRefusal::ManagedSubnetCount),
    }
}

/// Whether `path` is `field` or something inside of it.
fn is_at_or_in(path: &str, field: &str) -> bool {
    path.strip_prefix(field)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
}
