//! The `OpenStackCluster`: network, router, security groups, load balancer, endpoint.
//!
//! A pass ([`pass()`]) reads the related Kubernetes objects ([`related_objects`]), parses the spec ([`validate`]),
//! collects the facts that the gates need ([`observe`]), reads OpenStack and creates what is missing ([`act`], or
//! [`delete`] for an object that is being deleted), publishes the desired load balancer to its tracker ([`tracking`]),
//! and writes the status if it changed ([`report`]).

mod act;
mod bastion;
pub(super) mod cache;
mod delete;
mod desired;
mod endpoint;
mod failure_domains;
mod floating_ip;
mod load_balancer;
mod machine_floating_ip;
mod members;
mod network;
mod networking;
mod observation;
mod observe;
mod ownership;
mod pass;
mod project;
mod related_objects;
mod report;
mod router;
mod security_groups;
mod settled_networking;
mod spec_problems;
mod step_context;
mod tracking;
mod validate;

pub use pass::pass;

use crate::reconcile::finalizer::OPENSTACK_CLUSTER as FINALIZER;

/// The controller's name in logs and metrics.
pub const CONTROLLER: &str = "openstackcluster";
