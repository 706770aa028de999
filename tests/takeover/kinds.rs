//! The kinds of clusters: what is particular to the specification of each, in CAPO's v1beta1.

use fake_cloud::FakeCloud;
use reqwest::Method;
use serde_json::{Value, json};
use test_support::contract::{Access, Raw};

/// One kind of cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A managed network, security groups, and a load balancer with a floating IP.
    Plain,
    Bastion,
    /// The addresses of the bastion are in the computed ranges.
    BastionWithAllowedCidrs,
    AdditionalPorts,
    AllInClusterTraffic,
    /// Neutron stores ICMP of IPv6 in another spelling than it was written in.
    Ipv6AndIcmpRules,
    RemoteManagedGroups,
    BroughtNetworkAndRouter,
    /// The user's own load balancer listens on 443, the API servers on 6443.
    EndpointOn443,
    RegionInIdentity,
    /// A floating IP on a machine in place of a load balancer.
    NoLoadBalancer,
}

impl Kind {
    pub(crate) const ALL: [Self; 11] = [
        Self::Plain,
        Self::Bastion,
        Self::BastionWithAllowedCidrs,
        Self::AdditionalPorts,
        Self::AllInClusterTraffic,
        Self::Ipv6AndIcmpRules,
        Self::RemoteManagedGroups,
        Self::BroughtNetworkAndRouter,
        Self::EndpointOn443,
        Self::RegionInIdentity,
        Self::NoLoadBalancer,
    ];

    /// The name of its test.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Plain => "plain",
            Self::Bastion => "bastion",
            Self::BastionWithAllowedCidrs => "bastion_with_allowed_cidrs",
            Self::AdditionalPorts => "additional_ports",
            Self::AllInClusterTraffic => "all_in_cluster_traffic",
            Self::Ipv6AndIcmpRules => "ipv6_and_icmp_rules",
            Self::RemoteManagedGroups => "remote_managed_groups",
            Self::BroughtNetworkAndRouter => "brought_network_and_router",
            Self::EndpointOn443 => "endpoint_on_443",
            Self::RegionInIdentity => "region_in_identity",
            Self::NoLoadBalancer => "no_load_balancer",
        }
    }

    /// The ports of the API's load balancer; none where there is none.
    pub(crate) const fn ports(self) -> &'static [u16] {
        match self {
            Self::EndpointOn443 | Self::NoLoadBalancer => &[],
            Self::AdditionalPorts => &[6443, 9345],
            _ => &[6443],
        }
    }

    pub(crate) const fn has_bastion(self) -> bool {
        matches!(
            self,
            Self::Bastion | Self::BastionWithAllowedCidrs | Self::RemoteManagedGroups
        )
    }

    /// CAPO compares rules by their text: it deletes and creates those that Neutron spells otherwise in every pass.
    pub(crate) const fn capo_repeats_itself(self) -> bool {
        matches!(self, Self::Ipv6AndIcmpRules)
    }

    /// The specification of its OpenStackCluster.
    pub(crate) async fn specification(self, cloud: &FakeCloud, subnet: &str) -> Value {
        let mut spec = json!({
            "identityRef": {"type": "Secret", "name": "cloud-config", "cloudName": "demo"},
            "managedSubnets": [{"cidr": subnet, "dnsNameservers": ["9.9.9.9"]}],
            "managedSecurityGroups": {},
            "apiServerLoadBalancer": {"enabled": true},
            "tags": ["of-a-test"],
        });
        let rule = |name: &str, more: Value| {
            let mut rule = json!({"name": name, "direction": "ingress", "etherType": "IPv4"});
            for (key, value) in more.as_object().unwrap() {
                rule[key] = value.clone();
            }
            rule
        };
        if self.has_bastion() {
            spec["bastion"] = json!({"enabled": true, "spec": {
                "flavor": "m1.small", "image": {"filter": {"name": "cirros"}}, "sshKeyName": ""}});
        }
        match self {
            Self::Plain | Self::Bastion => {}
            Self::BastionWithAllowedCidrs => {
                spec["apiServerLoadBalancer"]["allowedCIDRs"] =
                    json!(["127.0.0.0/8", "192.0.2.0/24"]);
            }
            Self::AdditionalPorts => {
                spec["apiServerLoadBalancer"]["additionalPorts"] = json!([9345]);
            }
            Self::AllInClusterTraffic => {
                spec["managedSecurityGroups"]["allowAllInClusterTraffic"] = json!(true);
            }
            Self::Ipv6AndIcmpRules => {
                spec["managedSecurityGroups"]["allNodesSecurityGroupRules"] = json!([
                    rule("ping", json!({"protocol": "icmp"})),
                    rule("ping-6", json!({"protocol": "icmp", "etherType": "IPv6"})),
                    rule(
                        "https-6",
                        json!({"protocol": "tcp", "etherType": "IPv6", "portRangeMin": 443,
                        "portRangeMax": 443, "remoteIPPrefix": "2001:db8::/32"})
                    ),
                    rule("vrrp", json!({"protocol": "112"})),
                ]);
            }
            Self::RemoteManagedGroups => {
                let from = |groups: Value| json!({"protocol": "tcp", "portRangeMin": 9100, "portRangeMax": 9100, "remoteManagedGroups": groups});
                spec["managedSecurityGroups"]["allNodesSecurityGroupRules"] = json!([
                    rule("metrics", from(json!(["controlplane", "worker"]))),
                    rule("metrics-from-bastion", from(json!(["bastion"]))),
                ]);
            }
            Self::BroughtNetworkAndRouter => {
                let brought = bring(cloud, subnet).await;
                spec.as_object_mut().unwrap().remove("managedSubnets");
                spec["network"] = json!({"filter": {"name": "brought"}});
                spec["subnets"] = json!([{"id": brought.subnet}]);
                spec["router"] = json!({"id": brought.router});
            }
            Self::EndpointOn443 => {
                spec["apiServerLoadBalancer"]["enabled"] = json!(false);
                spec["disableAPIServerFloatingIP"] = json!(true);
                spec["controlPlaneEndpoint"] = json!({"host": "api.example.org", "port": 443});
            }
            Self::RegionInIdentity => spec["identityRef"]["region"] = json!("RegionOne"),
            Self::NoLoadBalancer => spec["apiServerLoadBalancer"]["enabled"] = json!(false),
        }
        spec
    }
}

struct Brought {
    subnet: Value,
    router: Value,
}

/// A network with a subnet and a router that the user made.
async fn bring(cloud: &FakeCloud, cidr: &str) -> Brought {
    let access = Access {
        auth_url: cloud.auth_url(),
        user: "demo".into(),
        password: "secret".into(),
        project: "demo".into(),
    };
    let raw = Raw::sign_in(&access).await;
    let send = async |method: Method, path: &str, body: Value| {
        let url = raw.address("network", path);
        let (status, answer) = raw.send(method, &url, Some(body)).await;
        assert!(status < 300, "{path}: {status} {answer}");
        answer
    };
    let (_, networks) = raw.get("network", "networks?name=public").await;
    let external = &networks["networks"][0]["id"];
    let network = json!({"network": {"name": "brought"}});
    let network = send(Method::POST, "networks", network).await;
    let subnet = json!({"subnet": {"name": "brought", "network_id": network["network"]["id"], "cidr": cidr, "ip_version": 4}});
    let subnet = send(Method::POST, "subnets", subnet).await["subnet"]["id"].clone();
    let router =
        json!({"router": {"name": "brought", "external_gateway_info": {"network_id": external}}});
    let router = send(Method::POST, "routers", router).await["router"]["id"].clone();
    let path = format!(
        "routers/{}/add_router_interface",
        router.as_str().unwrap_or_default()
    );
    send(Method::PUT, &path, json!({"subnet_id": subnet})).await;
    Brought { subnet, router }
}
