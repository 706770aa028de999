//! The controller of `OpenStackFloatingIPPool`. It allocates floating IPs for `IPAddressClaim`s, as Cluster API's IPAM
//! contract describes.
//!
//! A pass ([`pass`]) reads the pool's claims and addresses without a cache, and the floating IPs from Neutron
//! ([`observe`]). It checks the spec ([`validate`]), decides what to do about every claim and every address that is
//! released ([`plan`]), carries that out ([`act`]) and writes the status ([`report`]). Names, tags and finalizers are
//! the same as CAPO's, so that a pool can be migrated from CAPO and back.

mod act;
mod names;
mod network;
mod observation;
mod observe;
mod pass;
mod plan;
mod report;
mod validate;
mod watch;

use crate::{
    kubernetes::conditions::kind::FLOATING_IP_POOL_READY,
    reconcile::{StepError, finalizer::OPENSTACK_FLOATING_IP_POOL as FINALIZER},
};
use capo_core::Reason;

pub(super) use watch::run;

/// The controller's name in logs and metrics.
const CONTROLLER: &str = "openstackfloatingippool";

/// The name of a new floating IP in the record of creations, because Neutron chooses its address.
const RECORDED_NAME: &str = "of the pool";

/// The finalizer that keeps an `IPAddress` until its floating IP is released. The name is CAPO's.
const ADDRESS_FINALIZER: &str =
    "openstackfloatingippool.infrastructure.cluster.x-k8s.io/delete-floating-ip";

fn kubernetes(doing: &str, error: &kube::Error) -> StepError {
    StepError::kubernetes(FLOATING_IP_POOL_READY, doing, error)
}

fn openstack(ordinary: Reason, doing: &str, error: &capo_openstack::Error) -> StepError {
    StepError::cloud(FLOATING_IP_POOL_READY, ordinary, doing, error)
}
