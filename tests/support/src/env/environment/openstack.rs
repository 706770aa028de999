//! The cloud of an environment: its objects, and the calls to it.

use std::collections::BTreeMap;

use capo_core::Priority;
use capo_openstack::{
    ClientSettings, Cloud, CloudProfile, LeaseToken,
    network::{NewNetwork, NewSubnet},
};
use k8s_openapi::ByteString;
use serde_json::Value;

use super::{Environment, controllers::clouds};

impl Environment {
    /// A client of the cloud's user.
    pub fn openstack(&self) -> Cloud {
        let yaml = ByteString(self.cloud.clouds_yaml().into_bytes());
        let data = BTreeMap::from([("clouds.yaml".to_owned(), yaml)]);
        let profile = CloudProfile::from_secret(&data, "demo", None).unwrap();
        let settings = ClientSettings {
            qps: 200.0,
            burst: 200,
            ..ClientSettings::default()
        };
        clouds(settings, LeaseToken::unlimited())
            .cloud(profile)
            .unwrap()
    }

    /// Labels of the calls since number `since` that change something.
    pub fn writes_since(&self, since: u64) -> Vec<String> {
        let calls = self.cloud.control().calls_since(since);
        calls
            .into_iter()
            .filter(|call| call.method != "GET" && call.label != "token_create")
            .map(|call| call.label)
            .collect()
    }

    /// The number of calls with this label.
    pub fn calls(&self, label: &str) -> usize {
        let calls = self.cloud.control().calls_since(0);
        calls.iter().filter(|call| call.label == label).count()
    }

    /// Servers, ports and similar objects whose name contains `text`.
    pub fn leftovers(&self, text: &str) -> Vec<String> {
        let left = self.cloud.control().leftovers(text);
        left.into_iter()
            .map(|left| format!("{} {}", left.kind, left.name))
            .collect()
    }

    /// Sends a command to the fake cloud.
    pub fn command(&self, command: Value) -> Value {
        self.cloud.control().run(command).unwrap()
    }

    /// Creates a network with a subnet and returns its id.
    pub async fn network(&self, name: &str) -> String {
        let cloud = self.openstack();
        let network = NewNetwork {
            name: name.to_owned(),
            ..NewNetwork::default()
        };
        let network = cloud
            .create_network(&network, Priority::Gate)
            .await
            .unwrap();
        let subnet = NewSubnet {
            network_id: network.id.clone(),
            name: name.to_owned(),
            description: String::new(),
            cidr: "10.6.0.0/24".parse().unwrap(),
            ip_version: 4,
            dns_nameservers: Vec::new(),
            allocation_pools: Vec::new(),
            ipv6_address_mode: None,
            ipv6_ra_mode: None,
        };
        cloud.create_subnet(&subnet, Priority::Gate).await.unwrap();
        network.id.into()
    }
}
