//! The behaviour of OpenStack on which the client depends, as checks that run against any cloud: the fake one in
//! `tests/suite`, a real OpenStack in `tests/openstack`. Where the two differ, the fake one is wrong.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test's helper fails the test"
)]

pub mod compute;
pub mod identity;
pub mod ipv6;
pub mod listing;
pub mod load_balancer;
pub mod members;
pub mod network;
pub mod raw;
pub mod security_groups;

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use capo_core::Priority;
use capo_openstack::{
    ClientSettings, Cloud, CloudProfile, Clouds, Error, LeaseToken, NoObserver,
    network::{Network, NewNetwork, NewSubnet, Subnet},
};
use k8s_openapi::ByteString;

use crate::waiting::until_true;

pub use raw::{Access, Raw};

/// A cloud, and the actions of a test on it beyond its APIs.
pub trait CloudUnderTest {
    /// The credentials of a member of a project without objects that matter.
    fn access(&self) -> Access;

    /// Sets the result of Octavia's pushes from now on.
    async fn pushes(&self, pushes: Pushes);

    /// Members whose name ends in `suffix` get `status` instead of ACTIVE. The rest of their load balancer turns ACTIVE
    /// as usual.
    async fn hold(&self, suffix: &str, status: &str);

    /// Ends a hold; its members turn ACTIVE.
    async fn release(&self, suffix: &str);

    /// The credentials of the cloud's operator.
    fn operator(&self) -> Access;

    /// The next member whose name ends in `suffix` and that would turn ACTIVE gets `status` instead: this write is
    /// lost, and later ones are not.
    async fn lose(&self, suffix: &str, status: &str);

    /// Writes a status like an operator in the database, to the object of this name.
    async fn write_status(&self, kind: Kind, name: &str, status: &str);

    /// Writes a server's state like an operator in Nova's database.
    async fn write_server_state(&self, name: &str, state: ServerState);

    /// The worker that takes the next change of a member whose name ends in `suffix` stops in the middle of it, and
    /// another worker starts that does not know of the change. [`CloudUnderTest::worker_died`] returns when that has
    /// happened.
    async fn doom_worker(&self, suffix: &str);

    /// See [`CloudUnderTest::doom_worker`]; the change is under way.
    async fn worker_died(&self);
}

/// The kind of object that a status is written to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    LoadBalancer,
    Listener,
    Pool,
    Member,
}

/// A state of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ServerState {
    Active,
    Error,
    /// It is deleted, and Nova keeps it until the time to reclaim it is over.
    SoftDeleted,
}

/// The result of Octavia's pushes to its amphorae.
#[derive(Debug, Clone, Copy)]
pub enum Pushes {
    /// The usual result.
    Normal,
    /// They take this many seconds longer.
    Slow(u32),
    /// They fail.
    Failing,
}

/// Makes a test of every check, for the cloud that the function `$start` returns.
#[macro_export]
macro_rules! contract_tests {
    ($start:path: $($module:ident::$check:ident,)+) => {
        $(
            #[tokio::test]
            async fn $check() {
                let cloud = $start().await;
                Box::pin($crate::contract::$module::$check(&cloud)).await;
            }
        )+
    };
    ($start:path) => {
        $crate::contract_tests! { $start:
            identity::a_password_a_token_and_an_application_credential_sign_in,
            identity::what_is_refused_reads_as_refused,
            network::networks_subnets_and_filters,
            network::routers_and_floating_ips,
            network::ports_of_a_network,
            ipv6::ports_get_addresses_of_ipv6_by_dhcp,
            security_groups::security_groups_and_rules,
            security_groups::rules_are_compared_in_neutrons_own_spelling,
            compute::a_server_on_a_port,
            compute::lists_that_servers_are_made_from,
            compute::volumes_by_name,
            listing::pages_and_filters,
            listing::what_is_not_there_is_not_found,
            load_balancer::from_nothing_to_nothing,
            load_balancer::what_octavia_refuses,
            members::statuses_turn_in_order_and_writes_wait,
            members::a_failed_push_leaves_the_member_in_error_and_the_rest_active,
            members::a_held_member_blocks_no_other_one,
            members::an_additive_batch_whitewashes,
        }
    };
}
pub const GATE: Priority = Priority::Gate;

/// The access of one check to a cloud: the client, plain HTTP, and a name of its own for its objects.
pub struct Contract {
    pub cloud: Cloud,
    pub raw: Raw,
    pub name: String,
}

impl Contract {
    pub async fn with(under: &impl CloudUnderTest) -> Self {
        let access = under.access();
        let auth = format!(
            "{{auth_url: '{}', username: {}, password: {}, project_name: {}, user_domain_name: Default, project_domain_name: Default}}",
            access.auth_url, access.user, access.password, access.project
        );
        let unique = uuid::Uuid::new_v4().simple().to_string();
        Self {
            cloud: cloud(&format!("{{auth: {auth}, region_name: RegionOne}}")),
            raw: Raw::sign_in(&access).await,
            name: format!("contract-{}", &unique[..8]),
        }
    }

    /// A network with a subnet.
    pub async fn network(&self, cidr: &str) -> (Network, Subnet) {
        let new = NewNetwork {
            name: self.name.clone(),
            ..NewNetwork::default()
        };
        let network = self.cloud.create_network(&new, GATE).await.unwrap();
        let subnet = self
            .cloud
            .create_subnet(&self.subnet_of(&network, cidr), GATE)
            .await
            .unwrap();
        (network, subnet)
    }

    pub fn subnet_of(&self, network: &Network, cidr: &str) -> NewSubnet {
        NewSubnet {
            network_id: network.id.clone(),
            name: self.name.clone(),
            description: String::new(),
            cidr: cidr.parse().unwrap(),
            ip_version: 4,
            dns_nameservers: vec![],
            allocation_pools: vec![],
            ipv6_address_mode: None,
            ipv6_ra_mode: None,
        }
    }

    /// Deletes a network, waiting until the last port on it is deleted.
    pub async fn delete_network(&self, network: &Network) {
        until_true("the network is deleted", async || {
            let deleted = self.cloud.delete_network(&network.id, GATE).await;
            deleted.is_ok() || deleted.is_err_and(|error| error.is_not_found())
        })
        .await;
    }
}

/// A separate client for one cloud of a clouds.yaml.
pub fn cloud(entry: &str) -> Cloud {
    // Another test of this process may have installed it before.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let settings = ClientSettings {
        qps: 100.0,
        burst: 100,
        // The first call of a real service takes seconds on a busy machine.
        total_timeout: Duration::from_mins(2),
        ..ClientSettings::default()
    };
    let yaml = format!("clouds: {{test: {entry}}}");
    let data = BTreeMap::from([("clouds.yaml".to_owned(), ByteString(yaml.into_bytes()))]);
    let profile = CloudProfile::from_secret(&data, "test", None).unwrap();
    let clouds = Clouds::new(settings, LeaseToken::unlimited(), Arc::new(NoObserver));
    clouds.cloud(profile).unwrap()
}

/// The error of a call that must fail.
pub fn refused<T: std::fmt::Debug>(result: Result<T, Error>) -> Error {
    result.unwrap_err()
}
