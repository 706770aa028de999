//! A living installation of CAPO 0.14.7, the Go provider, taken over by capo-rs and given back, with real etcd,
//! kube-apiserver and Cluster API managers on the fake cloud. Run by `make takeover`.
//!
//! CAPO makes a cluster of every kind ([`kinds`]), each in a namespace and on a cloud of its own. Then CAPO is stopped
//! and capo-rs takes over ([`swap`]), adds and removes machines, and CAPO gets everything back ([`course`]). All kinds go
//! through that once and side by side; each test judges its own kind from the record of the calls to its cloud.

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

mod course;
mod kinds;
mod report;
mod site;
mod swap;

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
    additional_ports,
    all_in_cluster_traffic,
    brought_network_and_router,
    no_load_balancer,
}

/// The page names the kinds that have a test here, and no other.
#[test]
fn the_page_lists_the_kinds() {
    for kind in kinds::Kind::ALL {
        let line = format!("- `{}`:", kind.name());
        assert_eq!(
            swap::PAGE.contains(&line),
            TESTED.contains(&kind.name()),
            "{}",
            kind.name()
        );
    }
}
