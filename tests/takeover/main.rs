//! A running installation of CAPO 0.14.7, the Go provider, is taken over by capo-rs and given back, with real etcd,
//! kube-apiserver and Cluster API managers on the fake cloud. Run by `make takeover`.
//!
//! CAPO makes a cluster of every kind ([`kinds`]), each in a namespace and on a cloud of its own. Then CAPO is stopped
//! and capo-rs takes over ([`swap`]), adds and removes machines, and CAPO gets everything back ([`course`]). All kinds
//! go through this once and side by side. Each test judges its own kind from the record of the calls to its cloud.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test's helper fails the test"
)]
#![allow(
    clippy::print_stdout,
    clippy::large_futures,
    reason = "the matrix is printed, and there is one course at a time"
)]

mod cloud;
mod cluster_class;
mod control_plane;
mod course;
mod kinds;
mod marks;
mod moment;
mod planned;
mod report;
mod requests;
mod swap;
mod tested_cluster;

/// A test of every kind of cluster.
macro_rules! kinds {
    ($($kind:ident,)+) => {
        /// The kinds that have a test.
        const TESTED: &[&str] = &[$(stringify!($kind)),+];

        $(
            #[test]
            fn $kind() {
                report::of(stringify!($kind)).judge();
            }
        )+
    };
}

kinds! {
    plain,
    bastion,
    bastion_with_allowed_cidrs,
    additional_ports,
    all_in_cluster_traffic,
    ipv6_and_icmp_rules,
    remote_managed_groups,
    brought_network_and_router,
    endpoint_on_443,
    region_in_identity,
    no_load_balancer,
    given_floating_ip,
    load_balancer_network,
    ovn,
    cluster_identity,
    volumes_and_server_group,
    trunks,
    floating_ip_pool,
    renamed_router,
    cluster_class,
    rolling_update,
    held_member,
    deleting_machine,
    deleting_cluster,
    half_created_cluster,
}

/// The page names the kinds that have a test here, and no other.
#[test]
fn the_page_lists_the_kinds() {
    for kind in kinds::Kind::ALL {
        let line = format!("- `{}`:", kind.name());
        assert_eq!(
            test_support::migration_page::PAGE.contains(&line),
            TESTED.contains(&kind.name()),
            "{}",
            kind.name()
        );
    }
}
