use serde_json::json;

use super::*;
use crate::controllers::cluster::desired::Reference;
use crate::kubernetes::conditions::kind::{
    API_ENDPOINT_READY, API_SERVER_LOAD_BALANCER_READY, NETWORK_READY, SECURITY_GROUPS_READY,
};
use capo_openstack::network::{NetworkFilter, RouterFilter, SubnetFilter, TagFilter};

fn read_json(spec: serde_json::Value) -> (DesiredCluster, Vec<Problem>) {
    let spec: OpenStackClusterSpec = serde_json::from_value(spec).unwrap();
    read("n/c", Names::new("n", "c"), &spec)
}

fn problems(spec: serde_json::Value) -> Vec<(&'static str, String)> {
    read_json(spec)
        .1
        .into_iter()
        .map(|problem| (problem.part.condition(), problem.message))
        .collect()
}

#[test]
fn an_ordinary_cluster_is_read() {
    let (desired, problems) = read_json(json!({
        "managedSubnets": [{"cidr": "10.6.0.7/24", "dnsNameservers": ["8.8.8.8"]}],
        "apiServer": {"managedLoadBalancer": {"additionalPorts": [9345, 6443], "allowedCIDRs": ["10.1.2.3"]}},
        "managedSecurityGroups": {},
        "identityRef": {"name": "s", "cloudName": "c"},
    }));
    assert_eq!(problems, []);
    assert_eq!(desired.ports(), [6443, 9345]);
    let DesiredNetwork::Managed(network) = &desired.network else {
        panic!("{:?}", desired.network)
    };
    assert_eq!(network.range.to_string(), "10.6.0.0/24");
    let balancer = desired.load_balancer.as_ref().unwrap();
    assert_eq!(
        balancer.allowed_cidrs,
        Some(vec!["10.1.2.3/32".parse().unwrap()])
    );
    let parameters = balancer.monitor;
    assert_eq!(
        (
            parameters.delay,
            parameters.timeout,
            parameters.max_retries,
            parameters.max_retries_down
        ),
        (10, 5, 5, 3)
    );
    assert!(
        desired.endpoint.wants_floating_ip() && desired.external == DesiredExternalNetwork::Sole
    );
}

#[test]
fn a_load_balancer_is_wanted_only_where_it_is_named_and_not_disabled() {
    let wants = |api_server| {
        read_json(json!({"apiServer": api_server, "identityRef": {"name": "s", "cloudName": "c"}}))
            .0
            .load_balancer
            .is_some()
    };
    assert!(!wants(json!({})));
    assert!(wants(json!({"managedLoadBalancer": {}})));
    assert!(!wants(json!({"managedLoadBalancer": {"enabled": false}})));
}

#[test]
fn every_bad_value_names_object_field_found_and_right() {
    let cases = [
        (
            json!({"managedSubnets": [{"cidr": "10.6.0.0/33"}]}),
            NETWORK_READY,
            "OpenStackCluster n/c: spec.managedSubnets[0].cidr is \"10.6.0.0/33\"; an address range such as \
             10.6.0.0/24 is needed",
        ),
        (
            json!({"managedSubnets": [{"cidr": "10.6.0.0/24", "dnsNameservers": ["dns"]}]}),
            NETWORK_READY,
            "OpenStackCluster n/c: spec.managedSubnets[0].dnsNameservers[0] is \"dns\"; an IP address such as \
             10.6.0.5 is needed",
        ),
        (
            json!({"apiServer": {"port": 70_000}}),
            API_ENDPOINT_READY,
            "OpenStackCluster n/c: spec.apiServer.port is \"70000\"; a TCP port from 1 to 65535 is needed",
        ),
        (
            json!({"apiServer": {"managedLoadBalancer": {"additionalPorts": [0]}}}),
            API_SERVER_LOAD_BALANCER_READY,
            "OpenStackCluster n/c: spec.apiServer.managedLoadBalancer.additionalPorts[0] is \"0\"; a TCP port from 1 \
             to 65535 is needed",
        ),
        (
            json!({"apiServer": {"managedLoadBalancer": {"allowedCIDRs": ["x"]}}}),
            API_SERVER_LOAD_BALANCER_READY,
            "OpenStackCluster n/c: spec.apiServer.managedLoadBalancer.allowedCIDRs[0] is \"x\"; an address range such \
             as 10.6.0.0/24 is needed",
        ),
        (
            json!({"managedSecurityGroups": {"workerNodesSecurityGroupRules": [
                {"name": "a", "direction": "sideways"}]}}),
            SECURITY_GROUPS_READY,
            "OpenStackCluster n/c: spec.managedSecurityGroups.workerNodesSecurityGroupRules[a].direction is \
             \"sideways\"; ingress or egress is needed",
        ),
    ];
    for (spec, condition, message) in cases {
        assert_eq!(
            problems(spec.clone()),
            [(condition, message.to_owned())],
            "{spec}"
        );
    }
}

#[test]
fn a_bastion_is_on_unless_it_is_switched_off() {
    let enabled = |bastion| {
        let spec = json!({"bastion": bastion, "identityRef": {"name": "s", "cloudName": "c"}});
        read_json(spec).0.bastion
    };
    assert!(enabled(json!({})));
    assert!(enabled(json!({"enabled": true})));
    assert!(!enabled(json!({"enabled": false})));
    assert!(!read_json(json!({})).0.bastion);
}

#[test]
fn an_odd_value_affects_its_own_part_alone() {
    let (desired, problems) = read_json(json!({
        "bastion": {},
        "apiServer": {"fixedIP": "api.example.com", "managedLoadBalancer": {"allowedCIDRs": ["x"]}},
        "managedSecurityGroups": {"clusterNodesSecurityGroupRules": [
            {"name": "ssh", "direction": "ingress", "remoteManagedGroups": ["bastion"]},
            {"name": "both", "direction": "ingress", "remoteGroupID": "g", "remoteIPPrefix": "10.0.0.0/8"}]},
        "identityRef": {"name": "s", "cloudName": "c"},
    }));
    let parts: Vec<SpecPart> = problems.iter().map(|problem| problem.part).collect();
    assert_eq!(
        parts,
        [SpecPart::SecurityGroupRules, SpecPart::AllowedCidrs]
    );
    let security = desired.security.unwrap();
    assert_eq!(
        security.worker_rules.len(),
        1,
        "the rule that is fine stays"
    );
    assert!(!security.complete, "and none that exists is deleted");
    // A restriction still applies if none of its ranges could be parsed: only the cluster's own addresses may connect.
    assert_eq!(desired.load_balancer.unwrap().allowed_cidrs, Some(vec![]));
}

#[test]
fn a_port_that_can_not_be_used_keeps_every_rule_because_one_lets_clients_through_to_it() {
    for (port, complete) in [(7443, true), (70_000, false)] {
        let (desired, _) = read_json(json!({
            "managedSecurityGroups": {}, "identityRef": {"name": "s", "cloudName": "c"},
            "controlPlaneEndpoint": {"host": "api.example.com", "port": port},
        }));
        assert_eq!(desired.security.unwrap().complete, complete, "{port}");
    }
}

#[test]
fn a_rule_for_the_bastion_needs_one() {
    let rules = json!({"clusterNodesSecurityGroupRules": [
        {"name": "ssh", "direction": "ingress", "remoteManagedGroups": ["bastion"]}]});
    let found = problems(json!({"managedSecurityGroups": rules}));
    assert!(
        found
            .iter()
            .all(|(_, message)| message.contains("while spec.bastion is enabled")),
        "{found:?}"
    );
    assert_eq!(found.len(), 1);
}

#[test]
fn an_empty_text_in_a_filter_counts_as_not_given() {
    let (desired, problems) = read_json(json!({
        "identityRef": {"name": "s", "cloudName": "c"},
        "network": {"filter": {"name": "", "projectID": "", "tags": ["t"]}},
        "subnets": [{"filter": {"name": "", "cidr": "", "gatewayIP": "", "ipVersion": 0, "ipv6RAMode": "", "tags": ["t"]}}],
        "router": {"filter": {"name": "", "description": "", "tags": ["t"]}},
    }));
    assert_eq!(problems, []);
    let tags = TagFilter {
        tags: vec!["t".to_owned()],
        ..TagFilter::default()
    };
    let DesiredNetwork::Existing { network, subnets } = desired.network else {
        panic!("{:?}", desired.network)
    };
    assert_eq!(
        network,
        Some(Reference::Filter(NetworkFilter {
            tags: tags.clone(),
            ..NetworkFilter::default()
        }))
    );
    assert_eq!(
        subnets,
        [Reference::Filter(SubnetFilter {
            tags: tags.clone(),
            ..SubnetFilter::default()
        })]
    );
    assert_eq!(
        desired.router.existing,
        Some(Reference::Filter(RouterFilter {
            tags,
            ..RouterFilter::default()
        }))
    );
}
