//! The kinds of clusters: what is particular to the specification of each, in CAPO's v1beta1.

use fake_cloud::FakeCloud;
use reqwest::Method;
use serde_json::{Value, json};
use test_support::contract::{Access, Raw};

use crate::tested_cluster::Version;

/// Names, tags, metadata and annotations that users, specifications and these tests give.
pub(crate) const FROM_THE_USER: [&str; 9] = [
    "brought",
    "default",
    "machine.cluster.x-k8s.io/certificates-expiry",
    "made",
    "of-a-machine",
    "of-a-test",
    "public",
    "renamed",
    "takeover.test/pass",
];

/// One kind of cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A managed network, security groups, and a load balancer with a floating IP.
    Plain,
    Bastion,
    /// A bastion and ranges of clients. The addresses of the bastion belong to the computed ranges.
    BastionWithAllowedCidrs,
    AdditionalPorts,
    AllInClusterTraffic,
    /// Neutron stores ICMP of IPv6 in another spelling than it was written in.
    Ipv6AndIcmpRules,
    RemoteManagedGroups,
    BroughtNetworkAndRouter,
    /// A load balancer of the user's own listens on 443, and the API servers listen on 6443.
    EndpointOn443,
    RegionInIdentity,
    /// A floating IP on a machine in place of a load balancer, which capo-rs moves to another machine.
    NoLoadBalancer,
    /// The user's own floating IP on the load balancer.
    GivenFloatingIp,
    /// The load balancer has its address on another network than the machines.
    LoadBalancerNetwork,
    /// Octavia's OVN provider.
    Ovn,
    /// The credentials of an OpenStackClusterIdentity.
    ClusterIdentity,
    /// Servers that boot from a volume, with another volume, in a server group.
    VolumesAndServerGroup,
    /// Ports with trunks.
    Trunks,
    /// Machines with addresses of an OpenStackFloatingIPPool.
    FloatingIpPool,
    /// A user renamed the router in OpenStack.
    RenamedRouter,
    /// A real control plane and workers that Cluster API's topology controller makes from a ClusterClass.
    ClusterClass,
    /// A real control plane. CAPO is stopped in the middle of its rolling update.
    RollingUpdate,
    HeldMember,
    DeletingMachine,
    DeletingCluster,
    HalfCreatedCluster,
}

impl Kind {
    pub(crate) const ALL: [Self; 25] = [
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
        Self::GivenFloatingIp,
        Self::LoadBalancerNetwork,
        Self::Ovn,
        Self::ClusterIdentity,
        Self::VolumesAndServerGroup,
        Self::Trunks,
        Self::FloatingIpPool,
        Self::RenamedRouter,
        Self::ClusterClass,
        Self::RollingUpdate,
        Self::HeldMember,
        Self::DeletingMachine,
        Self::DeletingCluster,
        Self::HalfCreatedCluster,
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
            Self::GivenFloatingIp => "given_floating_ip",
            Self::LoadBalancerNetwork => "load_balancer_network",
            Self::Ovn => "ovn",
            Self::ClusterIdentity => "cluster_identity",
            Self::VolumesAndServerGroup => "volumes_and_server_group",
            Self::Trunks => "trunks",
            Self::FloatingIpPool => "floating_ip_pool",
            Self::RenamedRouter => "renamed_router",
            Self::ClusterClass => "cluster_class",
            Self::RollingUpdate => "rolling_update",
            Self::HeldMember => "held_member",
            Self::DeletingMachine => "deleting_machine",
            Self::DeletingCluster => "deleting_cluster",
            Self::HalfCreatedCluster => "half_created_cluster",
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

    /// Whether it has a bastion.
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
            Self::Plain
            | Self::Bastion
            | Self::VolumesAndServerGroup
            | Self::Trunks
            | Self::FloatingIpPool
            | Self::RenamedRouter
            | Self::HeldMember
            | Self::DeletingMachine
            | Self::DeletingCluster
            | Self::HalfCreatedCluster => {}
            Self::RollingUpdate | Self::ClusterClass => {
                // These are the values of the rollouts in tests/rollout.
                spec["apiServerLoadBalancer"] = json!({"enabled": true, "provider": "amphorav2",
                    "monitor": {"delay": 1, "timeout": 1, "maxRetries": 3, "maxRetriesDown": 2}});
            }
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
            Self::GivenFloatingIp => {
                let user = User::of(cloud).await;
                let body = json!({"floating_network_id": user.external().await});
                let given = user.create("floatingips", "floatingip", body).await;
                spec["apiServerFloatingIP"] = given["floating_ip_address"].clone();
            }
            Self::LoadBalancerNetwork => {
                // This range differs from that of the machines.
                let cidr = "198.51.100.0/24";
                let brought = bring(cloud, cidr).await;
                spec["apiServerLoadBalancer"]["network"] = json!({"filter": {"name": "brought"}});
                spec["apiServerLoadBalancer"]["subnets"] = json!([{"id": brought.subnet}]);
            }
            Self::Ovn => spec["apiServerLoadBalancer"]["provider"] = json!("ovn"),
            Self::ClusterIdentity => {
                spec["identityRef"]["type"] = json!("ClusterIdentity");
                spec["identityRef"]["name"] = json!(self.name().replace('_', "-"));
            }
        }
        spec
    }

    /// The specification of its machines.
    pub(crate) fn machine_specification(self, version: Version) -> Value {
        let mut spec = json!({"image": {"filter": {"name": "cirros"}}});
        match version {
            Version::V1Beta1 => {
                spec["flavor"] = json!("m1.small");
                spec["sshKeyName"] = json!("");
            }
            Version::V1Beta2 => spec["flavor"] = json!({"filter": {"name": "m1.small"}}),
        }
        if let Value::Object(more) = self.of_machines() {
            for (field, value) in more {
                spec[field] = value;
            }
        }
        spec
    }

    /// The specification of its machines besides flavor and image, which is the same in both versions.
    fn of_machines(self) -> Value {
        match self {
            Self::VolumesAndServerGroup => json!({
                "rootVolume": {"sizeGiB": 20},
                "additionalBlockDevices": [{"name": "data", "sizeGiB": 5, "storage": {"type": "Volume"}}],
                "serverGroup": {"filter": {"name": "spread"}},
                "serverMetadata": [{"key": "made", "value": "by-a-test"}],
                "tags": ["of-a-machine"],
            }),
            Self::Trunks => json!({"trunk": true, "tags": ["of-a-machine"]}),
            Self::FloatingIpPool => json!({"floatingIPPoolRef": {
                "apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "OpenStackFloatingIPPool", "name": "pool"}}),
            _ => json!({}),
        }
    }

    /// Creates what must exist before the Cluster, in the cloud and in Kubernetes.
    pub(crate) async fn before(self, cloud: &FakeCloud, namespace: &str) -> Vec<Value> {
        if self == Self::VolumesAndServerGroup {
            let user = User::of(cloud).await;
            let group = json!({"name": "spread", "policies": ["anti-affinity"]});
            user.send_to(
                "compute",
                "os-server-groups",
                json!({"server_group": group}),
            )
            .await;
        }
        match self {
            Self::ClusterIdentity => vec![json!({
                "apiVersion": "infrastructure.cluster.x-k8s.io/v1alpha1", "kind": "OpenStackClusterIdentity",
                "metadata": {"name": namespace},
                "spec": {
                    "secretRef": {"name": "cloud-config", "namespace": namespace},
                    "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
                },
            })],
            Self::FloatingIpPool => vec![json!({
                "apiVersion": "infrastructure.cluster.x-k8s.io/v1alpha1", "kind": "OpenStackFloatingIPPool",
                "metadata": {"name": "pool", "namespace": namespace},
                "spec": {
                    "identityRef": {"type": "Secret", "name": "cloud-config", "cloudName": "demo"},
                    "maxIPs": 10, "reclaimPolicy": "Delete",
                    "floatingIPNetwork": {"filter": {"name": "public"}},
                },
            })],
            _ => Vec::new(),
        }
    }
}

struct Brought {
    subnet: Value,
    router: Value,
}

/// The user, who makes things by hand.
struct User(Raw);

impl User {
    async fn of(cloud: &FakeCloud) -> Self {
        let access = Access {
            auth_url: cloud.auth_url(),
            user: "demo".into(),
            password: "secret".into(),
            project: "demo".into(),
        };
        Self(Raw::sign_in(&access).await)
    }

    /// The id of the external network.
    async fn external(&self) -> Value {
        let (_, networks) = self.0.get("network", "networks?name=public").await;
        networks["networks"][0]["id"].clone()
    }

    async fn send_to(&self, service: &str, path: &str, body: Value) -> Value {
        let url = self.0.address(service, path);
        let (status, answer) = self.0.send(Method::POST, &url, Some(body)).await;
        assert!(status < 300, "{path}: {status} {answer}");
        answer
    }

    async fn create(&self, path: &str, kind: &str, body: Value) -> Value {
        self.send_to("network", path, json!({kind: body})).await[kind].clone()
    }
}

/// A network with a subnet and a router that the user has created.
async fn bring(cloud: &FakeCloud, cidr: &str) -> Brought {
    let user = User::of(cloud).await;
    let external = user.external().await;
    let network = user
        .create("networks", "network", json!({"name": "brought"}))
        .await;
    let subnet =
        json!({"name": "brought", "network_id": network["id"], "cidr": cidr, "ip_version": 4});
    let subnet = user.create("subnets", "subnet", subnet).await["id"].clone();
    let router = json!({"name": "brought", "external_gateway_info": {"network_id": external}});
    let router = user.create("routers", "router", router).await["id"].clone();
    let path = format!(
        "routers/{}/add_router_interface",
        router.as_str().unwrap_or_default()
    );
    let url = user.0.address("network", &path);
    let body = json!({"subnet_id": subnet});
    let (status, answer) = user.0.send(Method::PUT, &url, Some(body)).await;
    assert!(status < 300, "{path}: {status} {answer}");
    Brought { subnet, router }
}
