//! What a pass over a pool has read. These types hold data only.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
};

use jiff::Timestamp;

use crate::reconcile::ipam::{IPAddress, IPAddressClaim};
use capo_openstack::network::FloatingIp;

/// An `IPAddress` of the pool.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Address {
    /// The object.
    pub object: IPAddress,
    /// The address; `None` if the text in the spec is not an address.
    pub ip: Option<IpAddr>,
    /// Whether it is being deleted.
    pub deleting: bool,
    /// Whether it has the finalizer of capo-rs.
    pub has_finalizer: bool,
}

/// A floating IP that may be the pool's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Found {
    /// The floating IP.
    pub fip: FloatingIp,
    /// Whether it was allocated for this pool.
    pub allocated_for_pool: bool,
}

/// The state that a pass has read.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Observed {
    /// Claims that are not being deleted, oldest first.
    pub claims: Vec<IPAddressClaim>,
    /// The pool's addresses, by name.
    pub addresses: BTreeMap<String, Address>,
    /// Names of `IPAddress`es in the namespace that belong to another pool.
    pub foreign_names: BTreeSet<String>,
    /// Addresses that `IPAddress`es of other pools hold.
    pub elsewhere: BTreeSet<IpAddr>,
    /// Those of them whose `IPAddress` is not being deleted.
    pub used_elsewhere: BTreeSet<IpAddr>,
    /// Floating IPs that exist, by address.
    pub floating_ips: BTreeMap<IpAddr, Found>,
    /// Whether Neutron supports tags.
    pub tags: bool,
    /// The time until which Neutron may still create a floating IP that was requested; `None` if the results of all
    /// requests are known. The time may be over.
    pub creation_until: Option<Timestamp>,
    /// Whether the pool is being deleted.
    pub deleting: bool,
}
