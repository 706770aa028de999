//! The managed load balancer in front of the API servers: as desired and as found.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{NetworkParam, NetworkStatusWithSubnets, SubnetParam};
use crate::{schema, wire::wire_enum};

/// The endpoint of the API servers and what is in front of them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct ApiServer {
    /// TCP port of the API server. The default is 6443.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 65535))]
    pub port: Option<i64>,
    /// Address of the endpoint on the cluster network: of the load balancer, or, without one, an address that something
    /// else provides.
    #[serde(rename = "fixedIP", skip_serializing_if = "Option::is_none")]
    pub fixed_ip: Option<String>,
    /// Floating IP of the endpoint, which must exist. It is never deleted. Without it, one is
    /// allocated and deleted with the cluster.
    #[serde(rename = "floatingIP", skip_serializing_if = "Option::is_none")]
    pub floating_ip: Option<String>,
    /// Whether the endpoint has a floating IP. Without it, the endpoint has one.
    #[serde(rename = "enableFloatingIP", skip_serializing_if = "Option::is_none")]
    pub enable_floating_ip: Option<bool>,
    /// The load balancer in front of the API servers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub managed_load_balancer: Option<ApiServerLoadBalancer>,
}

impl ApiServer {
    /// The load balancer that should exist; `None` if there should be none. Without the field there should be none, as
    /// in CAPO. Within the field, `enabled` is true by default.
    pub fn enabled_load_balancer(&self) -> Option<&ApiServerLoadBalancer> {
        let load_balancer = self.managed_load_balancer.as_ref();
        load_balancer.filter(|load_balancer| load_balancer.enabled != Some(false))
    }
}

/// An Octavia load balancer in front of the API servers of the cluster.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct ApiServerLoadBalancer {
    /// Whether the load balancer is created.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(transform = schema::default_to(true))]
    pub enabled: Option<bool>,
    /// TCP ports that are balanced to the control-plane machines besides that of the API server.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(transform = schema::set, transform = schema::since_v1beta2(schema::int32_items))]
    pub additional_ports: Vec<i64>,
    /// Address ranges that may connect. Those of the cluster itself are always added. If there are none, every address
    /// may connect.
    #[serde(rename = "allowedCIDRs", skip_serializing_if = "Vec::is_empty")]
    #[schemars(transform = schema::set)]
    pub allowed_cidrs: Vec<String>,
    /// Octavia provider, such as amphora or ovn. The default is the cloud's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provider: Option<String>,
    /// Name of an Octavia flavor.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub flavor: Option<String>,
    /// Octavia availability zone of the load balancer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub availability_zone: Option<String>,
    /// Network on which the load balancer has its address. The default is the cluster network.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub network: Option<NetworkParam>,
    /// Subnet on which the load balancer has its address. Only the first is used.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(transform = schema::atomic)]
    pub subnets: Vec<SubnetParam>,
    /// How the load balancer checks the API servers. May be changed at any time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub monitor: Option<LoadBalancerMonitor>,
}

wire_enum! {
    /// What the load balancer does to find out whether an API server is up.
    pub enum LoadBalancerMonitorType {
        /// It opens a connection.
        Tcp = "TCP",
        /// It requests /readyz, and expects the status 200.
        Https = "HTTPS",
    }
}

/// How the load balancer checks the API servers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct LoadBalancerMonitor {
    /// TCP: the load balancer opens connections. HTTPS: it also requests /readyz from the API servers, which must
    /// answer 200 without credentials; additional ports are checked by TCP. By default a new monitor has TCP, and an
    /// existing one keeps its type.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub monitor_type: Option<LoadBalancerMonitorType>,
    /// Seconds between two checks. The default is 10, and 0 means the default.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0), transform = schema::since_v1beta2(schema::int32))]
    pub delay: Option<i64>,
    /// Seconds after which a check without an answer counts as failed. The default is 5, and 0 means the default.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0), transform = schema::since_v1beta2(schema::int32))]
    pub timeout: Option<i64>,
    /// The number of successful checks in a row after which a member is ONLINE. The default is 5, and 0 means the
    /// default.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 10), transform = schema::since_v1beta2(schema::int32))]
    pub max_retries: Option<i64>,
    /// The number of failed checks in a row after which the operating status of a member is ERROR. The default is 3.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 10), transform = schema::since_v1beta2(schema::int32))]
    pub max_retries_down: Option<i64>,
}

/// The load balancer in front of the API servers, as last read.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct LoadBalancerStatus {
    /// Name of the load balancer.
    #[schemars(transform = schema::since_v1beta2(schema::non_empty))]
    pub name: String,
    /// ID of the load balancer. Absent until it is created.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// Address clients use: the floating IP if there is one, else internalIP. Absent until it is
    /// known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ip: Option<String>,
    /// Address on the network of the load balancer. Absent until it is known.
    #[serde(rename = "internalIP", skip_serializing_if = "Option::is_none")]
    pub internal_ip: Option<String>,
    /// Address ranges that may connect. Empty: every address may connect.
    #[serde(rename = "allowedCIDRs", skip_serializing_if = "Vec::is_empty")]
    #[schemars(transform = schema::since_v1beta2(schema::set))]
    pub allowed_cidrs: Vec<String>,
    /// Tags of the load balancer.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(transform = schema::since_v1beta2(schema::set))]
    pub tags: Vec<String>,
    /// Network on which the load balancer has its address.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub load_balancer_network: Option<NetworkStatusWithSubnets>,
    /// Members that Octavia has provisioned out of those expected, over all ports, such as 3/3.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub active_members: Option<String>,
    /// Every member that is expected or was found, one for each control-plane machine and port.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 1024), transform = schema::map_by_machine_and_port)]
    pub members: Vec<LoadBalancerMemberStatus>,
}

/// A control-plane machine behind a port of the load balancer, as last read.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct LoadBalancerMemberStatus {
    /// Name of the OpenStackMachine.
    #[schemars(transform = schema::non_empty)]
    pub machine: String,
    /// TCP port of the listener.
    #[schemars(transform = schema::port)]
    pub port: i32,
    /// ID of the member. Absent while there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// Address the load balancer connects to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    /// Whether Octavia has carried out the last change of the member: ACTIVE, ERROR or one of the
    /// PENDING states. Absent while there is no member.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provisioning_status: Option<String>,
    /// Result of the health check: ONLINE, OFFLINE, ERROR, NO_MONITOR and others. Absent while there is no member.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub operating_status: Option<String>,
    /// When the member got its present status.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<Time>,
    /// When the member was last read from Octavia.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_observed: Option<Time>,
    /// What is wrong with the member, or what it waits for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}
