//! Decides what a pass over a cluster that is being deleted does next. The functions are pure.

use super::progress::DeletionProgress;
use crate::controllers::cluster::{
    desired::{Reference, RouterReference},
    router::is_interface,
};
use crate::reconcile::{StepError, StepResult};
use capo_core::{
    ProvisioningStatus,
    ids::{NetworkId, RouterId},
};
use capo_openstack::{
    load_balancer::LoadBalancer,
    network::{Port, Router},
};

/// The machines of the cluster that still exist: their names, sorted.
#[derive(Debug, Clone, Default)]
pub(super) struct MachinesLeft {
    /// The Machines.
    pub machines: Vec<String>,
    /// The `OpenStackMachine`s.
    pub openstack_machines: Vec<String>,
}

/// What a pass does. `I` is the type of credentials that OpenStack has accepted.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum DeletionPlan<'a, I> {
    /// Machines still exist, so nothing is removed. The text is the message of the condition.
    WaitForMachines(String),
    /// Nothing can be removed without credentials.
    WaitForCredentials,
    /// The credentials lead to a project that is not that of the cluster's objects.
    Refuse(StepError),
    /// Everything that was created for the cluster is deleted.
    TakeDown(&'a I),
}

/// Decides what a pass does. `check` returns an error if the credentials lead to another project than that of the
/// cluster's objects.
pub(super) fn deletion_plan<'a, I>(
    left: &MachinesLeft,
    identity: Option<&'a I>,
    check: impl Fn(&I) -> StepResult<()>,
) -> DeletionPlan<'a, I> {
    for (kind, names) in [
        ("Machines", &left.machines),
        ("OpenStackMachines", &left.openstack_machines),
    ] {
        if !names.is_empty() {
            return DeletionPlan::WaitForMachines(format!(
                "Deleting: waiting until these {kind} are deleted: {}",
                some_of(names)
            ));
        }
    }
    let Some(identity) = identity else {
        return DeletionPlan::WaitForCredentials;
    };
    match check(identity) {
        Ok(()) => DeletionPlan::TakeDown(identity),
        Err(step_error) => DeletionPlan::Refuse(step_error),
    }
}

/// The first five of these names, for messages.
fn some_of(names: &[String]) -> String {
    let more = if names.len() > 5 { ", …" } else { "" };
    let some: Vec<&str> = names.iter().map(String::as_str).take(5).collect();
    format!("{}{more}", some.join(", "))
}

/// The objects to delete besides those that are looked for in every deletion.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Managed {
    /// The cluster's network with its router and subnet.
    pub network: bool,
    /// The cluster's security groups.
    pub security_groups: bool,
    /// The load balancers of Services in the workload cluster, if the user asked for their deletion.
    pub services: bool,
}

/// One part of the deletion. Each part begins after the one before it has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Removal {
    /// The load balancer and its floating IP.
    LoadBalancer,
    /// The network with everything in it.
    Network {
        /// The load balancers of Services are deleted before the network.
        services: bool,
        /// The router is deleted before the network.
        router: bool,
    },
    /// The security groups.
    SecurityGroups,
}

/// The parts of the deletion that are left, in CAPO's order.
pub(super) fn removals(managed: Managed, progress: &DeletionProgress) -> Vec<Removal> {
    let network = Removal::Network {
        services: managed.services,
        router: !progress.is_router_gone,
    };
    [
        (!progress.is_load_balancer_gone).then_some(Removal::LoadBalancer),
        managed.network.then_some(network),
        managed.security_groups.then_some(Removal::SecurityGroups),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// What to do about the load balancer.
#[derive(Debug, PartialEq)]
pub(super) enum LoadBalancerRemoval<'a> {
    /// The load balancer is gone. Its floating IP may still exist.
    Gone,
    /// The load balancer is deleted after its floating IP.
    Delete(&'a LoadBalancer),
    /// The load balancer is being deleted already.
    Await(&'a LoadBalancer),
    /// Several load balancers have the name, so none of them is deleted. These are their ids.
    Ambiguous(Vec<&'a str>),
}

/// Decides what to do about the load balancers that were found.
pub(super) fn load_balancer_removal(found: &[LoadBalancer]) -> LoadBalancerRemoval<'_> {
    match found {
        [] => LoadBalancerRemoval::Gone,
        [one] if one.provisioning_status == ProvisioningStatus::PendingDelete => {
            LoadBalancerRemoval::Await(one)
        }
        [one] => LoadBalancerRemoval::Delete(one),
        several => {
            LoadBalancerRemoval::Ambiguous(several.iter().map(|lb| lb.id.as_str()).collect())
        }
    }
}

/// The inputs of the decision about the router.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct RouterInputs<'a> {
    /// The user's router, as the spec refers to it.
    pub existing: Option<&'a RouterReference>,
    /// The router of the status.
    pub known: Option<&'a RouterId>,
    /// The router that was created for the cluster.
    pub managed: Option<&'a Router>,
    /// The cluster's network.
    pub network: Option<&'a NetworkId>,
}

/// What to do about the router.
#[derive(Debug, PartialEq)]
pub(super) enum RouterRemoval<'a> {
    /// No router is left that was created for the cluster, and the spec refers to none of the user's.
    Gone,
    /// The router is the user's and stays. Only these interfaces are removed.
    Detach(Vec<Port>),
    /// The router is deleted after these interfaces.
    Delete(&'a Router, Vec<Port>),
}

/// Decides what to do about the router, and which of `ports` are its interfaces in the cluster's network. Its
/// interfaces in other networks stay: capo-rs adds none there, so a user has added them. Interfaces of other routers,
/// which a user added to the network, stay too.
pub(super) fn router_removal(inputs: RouterInputs<'_>, mut ports: Vec<Port>) -> RouterRemoval<'_> {
    let router = match inputs.existing {
        Some(Reference::Id(id)) => Some(id),
        Some(Reference::Filter(_)) => inputs.known,
        None => inputs.managed.map(|router| &router.id),
    };
    ports.retain(|port| {
        inputs.network == Some(&port.network_id)
            && is_interface(&port.device_owner)
            && router.is_none_or(|id| *id == port.device_id)
    });
    match (inputs.existing, inputs.managed) {
        (Some(_), _) => RouterRemoval::Detach(ports),
        (None, Some(router)) => RouterRemoval::Delete(router, ports),
        (None, None) => RouterRemoval::Gone,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{from_value, json};

    use super::*;
    use capo_core::Reason;
    use capo_openstack::network::RouterFilter;

    fn wrong_project() -> StepError {
        StepError::refused("c", Reason::OpenStackAuthenticationFailed, "wrong project")
    }

    #[test]
    fn machines_go_first_and_nothing_goes_without_the_credentials_of_its_project() {
        let many: Vec<String> = ('a'..='f').map(String::from).collect();
        let wait = |text: &str| {
            DeletionPlan::WaitForMachines(format!("Deleting: waiting until these {text}"))
        };
        for (machines, openstack_machines, identity, expected) in [
            (
                &many[..],
                &many[..],
                Some(true),
                wait("Machines are deleted: a, b, c, d, e, …"),
            ),
            (
                &many[..5],
                &[],
                None,
                wait("Machines are deleted: a, b, c, d, e"),
            ),
            (
                &[],
                &many[..1],
                Some(true),
                wait("OpenStackMachines are deleted: a"),
            ),
            (&[], &[], None, DeletionPlan::WaitForCredentials),
            (&[], &[], Some(false), DeletionPlan::Refuse(wrong_project())),
            (&[], &[], Some(true), DeletionPlan::TakeDown(&true)),
        ] {
            let left = MachinesLeft {
                machines: machines.to_vec(),
                openstack_machines: openstack_machines.to_vec(),
            };
            let check = |is_ours: &bool| is_ours.then_some(()).ok_or_else(wrong_project);
            let plan = deletion_plan(&left, identity.as_ref(), check);
            assert_eq!(plan, expected, "{left:?} {identity:?}");
        }
    }

    #[test]
    fn what_is_left_goes_in_order_and_what_is_gone_is_not_looked_for_again() {
        use Removal::{LoadBalancer, Network, SecurityGroups};
        let network = |services, router| Network { services, router };
        for (managed, gone, expected) in [
            ((false, false, false), (false, false), vec![LoadBalancer]),
            ((false, false, false), (true, true), vec![]),
            (
                (true, true, false),
                (false, false),
                vec![LoadBalancer, network(false, true), SecurityGroups],
            ),
            (
                (true, false, true),
                (true, false),
                vec![network(true, true)],
            ),
            (
                (true, true, true),
                (true, true),
                vec![network(true, false), SecurityGroups],
            ),
            // The load balancers of Services are found through the network.
            ((false, true, true), (true, true), vec![SecurityGroups]),
        ] {
            let (network, security_groups, services) = managed;
            let managed = Managed {
                network,
                security_groups,
                services,
            };
            let mut progress = DeletionProgress::default();
            (progress.is_load_balancer_gone, progress.is_router_gone) = gone;
            assert_eq!(
                removals(managed, &progress),
                expected,
                "{managed:?} {gone:?}"
            );
        }
    }

    #[test]
    fn one_load_balancer_is_deleted_once_and_none_of_several() {
        let found = |id: &str, status: &str| -> LoadBalancer {
            from_value(json!({"id": id, "name": "n", "provisioning_status": status})).unwrap()
        };
        let active = found("a", "ACTIVE");
        let failed = found("a", "ERROR");
        let pending = found("a", "PENDING_UPDATE");
        let going = found("a", "PENDING_DELETE");
        for (found, expected) in [
            (vec![], LoadBalancerRemoval::Gone),
            (vec![active.clone()], LoadBalancerRemoval::Delete(&active)),
            (vec![failed.clone()], LoadBalancerRemoval::Delete(&failed)),
            (vec![pending.clone()], LoadBalancerRemoval::Delete(&pending)),
            (vec![going.clone()], LoadBalancerRemoval::Await(&going)),
            (
                vec![active.clone(), going.clone()],
                LoadBalancerRemoval::Ambiguous(vec!["a", "a"]),
            ),
        ] {
            assert_eq!(load_balancer_removal(&found), expected, "{found:?}");
        }
    }

    #[test]
    fn only_interfaces_of_the_clusters_router_in_its_network_are_removed() {
        let port = |id: &str, network: &str, device: &str, owner: &str| -> Port {
            from_value(json!({"id": id, "network_id": network, "device_id": device, "device_owner": owner})).unwrap()
        };
        let interface = "network:router_interface";
        let all = [
            port("own", "n", "r", interface),
            port("elsewhere", "m", "r", interface),
            port("another", "n", "s", interface),
            port("dhcp", "n", "r", "network:dhcp"),
        ];
        let ports = |ids: &[&str]| -> Vec<Port> {
            let is_named = |port: &&Port| ids.contains(&port.id.as_str());
            all.iter().filter(is_named).cloned().collect()
        };
        let router: Router = from_value(json!({"id": "r"})).unwrap();
        let by_id = Reference::Id("r".into());
        let by_filter = Reference::Filter(RouterFilter::default());
        let (known, network) = ("s".into(), "n".into());
        let in_network = RouterInputs {
            network: Some(&network),
            ..RouterInputs::default()
        };
        let managed = RouterInputs {
            managed: Some(&router),
            known: Some(&known),
            ..in_network
        };
        let given = |existing, known| RouterInputs {
            existing: Some(existing),
            known,
            ..in_network
        };
        for (inputs, expected) in [
            (in_network, RouterRemoval::Gone),
            (managed, RouterRemoval::Delete(&router, ports(&["own"]))),
            (
                RouterInputs {
                    network: None,
                    ..managed
                },
                RouterRemoval::Delete(&router, Vec::new()),
            ),
            (
                given(&by_id, Some(&known)),
                RouterRemoval::Detach(ports(&["own"])),
            ),
            (
                given(&by_filter, Some(&known)),
                RouterRemoval::Detach(ports(&["another"])),
            ),
            (
                given(&by_filter, None),
                RouterRemoval::Detach(ports(&["own", "another"])),
            ),
        ] {
            assert_eq!(router_removal(inputs, all.to_vec()), expected, "{inputs:?}");
        }
    }
}
