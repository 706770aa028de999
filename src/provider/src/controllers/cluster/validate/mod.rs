//! Parses the spec of an `OpenStackCluster` and lists the values that can't be used. The functions are pure.

pub(crate) mod problems;
mod references;
mod security_group_rules;

use std::net::IpAddr;

use ipnet::IpNet;

use self::{
    problems::{A_PORT, A_RANGE, AN_ADDRESS, Problem, Problems, SpecPart},
    references::{network_reference, router_reference, subnet, subnets},
};
use super::{
    bastion::addresses::is_enabled,
    desired::{
        DesiredCluster, DesiredExternalNetwork, DesiredLoadBalancer, DesiredNetwork, DesiredRouter,
        DesiredSecurityGroups, ManagedNetwork,
    },
    endpoint::plan::EndpointInputs,
    network::pool,
};
use crate::reconcile::cluster_names::Names;
use capo_api::v1beta2::{
    ApiServer, ApiServerLoadBalancer, LoadBalancerMonitorType, ManagedSecurityGroups,
    OpenStackClusterSpec, SubnetSpec,
};
use capo_core::MonitorType;
use capo_core::octavia::MonitorParameters;

/// Returns the desired state and every value of the spec that can't be used. Each such value stops only the changes of
/// its own part.
pub(crate) fn read(
    object: &str,
    names: Names,
    spec: &OpenStackClusterSpec,
) -> (DesiredCluster, Vec<Problem>) {
    let mut problems = Problems::new(object);
    let api_server = spec.api_server.clone().unwrap_or_default();
    let endpoint = endpoint(spec, &api_server, &mut problems);
    let desired = DesiredCluster {
        object: object.to_owned(),
        names,
        tags: spec.tags.clone(),
        external: external(spec),
        network: network(spec, &mut problems),
        router: router(spec, &mut problems),
        primary_subnet: spec.primary_subnet.as_ref().map(|param| {
            subnet(
                param,
                "spec.primarySubnet",
                SpecPart::Network,
                &mut problems,
            )
        }),
        security: spec
            .managed_security_groups
            .as_ref()
            .map(|groups| security(groups, is_enabled(spec), &mut problems)),
        bastion: is_enabled(spec),
        load_balancer: endpoint
            .load_balancer
            .then(|| load_balancer(&api_server, &mut problems)),
        floating_ip: api_server.floating_ip.as_deref().and_then(|ip| {
            problems.parsed(
                SpecPart::Endpoint,
                "spec.apiServer.floatingIP",
                ip,
                AN_ADDRESS,
            )
        }),
        endpoint,
        control_plane_zones: spec.control_plane_availability_zones.clone(),
        omit_zone: spec
            .control_plane_omit_availability_zone
            .unwrap_or_default(),
    };
    (desired, problems.found())
}

fn endpoint(
    spec: &OpenStackClusterSpec,
    api_server: &ApiServer,
    problems: &mut Problems<'_>,
) -> EndpointInputs {
    let given = spec.control_plane_endpoint.clone().unwrap_or_default();
    let mut port = |field: &str, value: Option<i64>| match value {
        // Go writes 0 for a port that is not set.
        None | Some(0) => None,
        Some(number) => {
            let port = u16::try_from(number).ok();
            if port.is_none() {
                problems.invalid(SpecPart::Endpoint, field, number, A_PORT);
            }
            port
        }
    };
    let given_port = port("spec.controlPlaneEndpoint.port", given.port.map(Into::into));
    let api_port = port("spec.apiServer.port", api_server.port);
    let fixed_ip = api_server.fixed_ip.clone().filter(|ip| !ip.is_empty());
    EndpointInputs {
        given_host: given.host.filter(|host| !host.is_empty()),
        given_port,
        api_port,
        load_balancer: api_server.enabled_load_balancer().is_some(),
        floating_ip: api_server.enable_floating_ip.unwrap_or(true),
        external_network: spec.enable_external_network.unwrap_or(true),
        fixed_ip,
    }
}

fn external(spec: &OpenStackClusterSpec) -> DesiredExternalNetwork {
    if spec.enable_external_network == Some(false) {
        return DesiredExternalNetwork::Off;
    }
    spec.external_network
        .as_ref()
        .map_or(DesiredExternalNetwork::Sole, |param| {
            DesiredExternalNetwork::Given(network_reference(param))
        })
}

fn network(spec: &OpenStackClusterSpec, problems: &mut Problems<'_>) -> DesiredNetwork {
    let Some(subnet_spec) = spec.managed_subnets.first() else {
        return DesiredNetwork::Existing {
            network: spec.network.as_ref().map(network_reference),
            subnets: subnets(&spec.subnets, "spec.subnets", SpecPart::Network, problems),
        };
    };
    let managed = spec.managed_network.clone().unwrap_or_default();
    let (range, name_servers) = managed_subnet(subnet_spec, problems);
    let mut pools = Vec::new();
    for (at, desired) in subnet_spec.allocation_pools.iter().enumerate() {
        for (end, text) in [("start", &desired.start), ("end", &desired.end)] {
            let field = format!("spec.managedSubnets[0].allocationPools[{at}].{end}");
            problems.parsed::<IpAddr>(SpecPart::Network, &field, text, AN_ADDRESS);
        }
        pools.push(pool(desired.start.clone(), desired.end.clone()));
    }
    DesiredNetwork::Managed(ManagedNetwork {
        range,
        name_servers,
        pools,
        mtu: managed
            .mtu
            .filter(|mtu| *mtu != 0)
            .and_then(|mtu| u32::try_from(mtu).ok()),
        port_security: managed.enable_port_security.unwrap_or(true),
    })
}

fn managed_subnet(spec: &SubnetSpec, problems: &mut Problems<'_>) -> (IpNet, Vec<IpAddr>) {
    let field = "spec.managedSubnets[0].cidr";
    let range = problems.parsed::<IpNet>(SpecPart::Network, field, &spec.cidr, A_RANGE);
    let mut name_servers = Vec::new();
    for (at, text) in spec.dns_nameservers.iter().enumerate() {
        let field = format!("spec.managedSubnets[0].dnsNameservers[{at}]");
        name_servers.extend(problems.parsed::<IpAddr>(SpecPart::Network, &field, text, AN_ADDRESS));
    }
    // If the range can't be parsed, that is recorded as a problem, and the default value takes its place.
    (range.unwrap_or_default().trunc(), name_servers)
}

fn router(spec: &OpenStackClusterSpec, problems: &mut Problems<'_>) -> DesiredRouter {
    let external_ips = spec.managed_router.iter().flat_map(|r| &r.external_ips);
    let mut ips = Vec::new();
    for (at, desired) in external_ips.enumerate() {
        let field = format!("spec.managedRouter.externalIPs[{at}]");
        let address = desired
            .fixed_ip
            .as_deref()
            .filter(|ip| !ip.is_empty())
            .and_then(|ip| {
                problems.parsed(
                    SpecPart::Router,
                    &format!("{field}.fixedIP"),
                    ip,
                    AN_ADDRESS,
                )
            });
        let lookup = subnet(
            &desired.subnet,
            &format!("{field}.subnet"),
            SpecPart::Router,
            problems,
        );
        ips.push((lookup, address));
    }
    DesiredRouter {
        existing: spec.router.as_ref().map(router_reference),
        external_ips: ips,
    }
}

fn security(
    groups: &ManagedSecurityGroups,
    bastion: bool,
    problems: &mut Problems<'_>,
) -> DesiredSecurityGroups {
    const FIELD: &str = "spec.managedSecurityGroups";
    let mut rules = |field: &str, list: &[_]| {
        security_group_rules::read_all(&format!("{FIELD}.{field}"), list, bastion, problems)
    };
    let all = rules(
        "clusterNodesSecurityGroupRules",
        &groups.cluster_nodes_security_group_rules,
    );
    let mut control_plane_rules = rules(
        "controlPlaneNodesSecurityGroupRules",
        &groups.control_plane_nodes_security_group_rules,
    );
    let mut worker_rules = rules(
        "workerNodesSecurityGroupRules",
        &groups.worker_nodes_security_group_rules,
    );
    control_plane_rules.extend(all.clone());
    worker_rules.extend(all);
    DesiredSecurityGroups {
        // The endpoint's port counts too, because a rule allows clients to connect to it on the API servers.
        complete: !problems.affect(SpecPart::SecurityGroupRules)
            && !problems.affect(SpecPart::Endpoint),
        allow_all_in_cluster: groups.allow_all_in_cluster_traffic.unwrap_or_default(),
        control_plane_rules,
        worker_rules,
    }
}

fn load_balancer(api_server: &ApiServer, problems: &mut Problems<'_>) -> DesiredLoadBalancer {
    const FIELD: &str = "spec.apiServer.managedLoadBalancer";
    let desired: ApiServerLoadBalancer =
        api_server.managed_load_balancer.clone().unwrap_or_default();
    let mut additional_ports = Vec::new();
    for (at, port) in desired.additional_ports.iter().enumerate() {
        match u16::try_from(*port) {
            Ok(port) if port > 0 => additional_ports.push(port),
            _ => problems.invalid(
                SpecPart::AdditionalPorts,
                &format!("{FIELD}.additionalPorts[{at}]"),
                port,
                A_PORT,
            ),
        }
    }
    let mut allowed_cidrs = Vec::new();
    for (at, text) in desired.allowed_cidrs.iter().enumerate() {
        let address = text.parse::<IpAddr>().ok().map(IpNet::from);
        let field = format!("{FIELD}.allowedCIDRs[{at}]");
        let range =
            address.or_else(|| problems.parsed(SpecPart::AllowedCidrs, &field, text, A_RANGE));
        allowed_cidrs.extend(range.map(|range| range.trunc()));
    }
    let present = |text: Option<String>| text.filter(|text| !text.is_empty());
    let monitor = desired.monitor.unwrap_or_default();
    let default = MonitorParameters::CAPO_DEFAULTS;
    let number = |value: Option<i64>, default| {
        let value = value.and_then(|value| u32::try_from(value).ok());
        value.filter(|value| *value > 0).unwrap_or(default)
    };
    DesiredLoadBalancer {
        provider: present(desired.provider),
        flavor: present(desired.flavor),
        availability_zone: present(desired.availability_zone),
        network: desired.network.as_ref().map(network_reference),
        subnets: subnets(
            &desired.subnets,
            &format!("{FIELD}.subnets"),
            SpecPart::LoadBalancerNetwork,
            problems,
        ),
        additional_ports,
        allowed_cidrs: (!desired.allowed_cidrs.is_empty()).then_some(allowed_cidrs),
        monitor: MonitorParameters {
            delay: number(monitor.delay, default.delay),
            timeout: number(monitor.timeout, default.timeout),
            max_retries: number(monitor.max_retries, default.max_retries),
            max_retries_down: number(monitor.max_retries_down, default.max_retries_down),
        },
        monitor_type: monitor.monitor_type.and_then(|wanted| match wanted {
            LoadBalancerMonitorType::Tcp => Some(MonitorType::Tcp),
            LoadBalancerMonitorType::Https => Some(MonitorType::Https),
            LoadBalancerMonitorType::Unknown(_) => None,
        }),
    }
}

#[cfg(test)]
mod tests;
