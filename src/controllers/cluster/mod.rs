//! The `OpenStackCluster`: network, router, security groups, load balancer, endpoint.

pub mod endpoint;
mod facts;
pub mod failure_domains;
mod floating_ip;
pub mod halt;
mod load_balancer;
pub mod load_balancer_plan;
pub(super) mod memory;
pub mod names;
mod network;
pub mod pick;
mod router;
pub mod rules;
mod security_groups;
mod shop;
mod teardown;
mod wanted;

use std::sync::Arc;

use futures::{FutureExt, future::BoxFuture};

use super::{Context, Outcome};
use crate::api::v1beta2::OpenStackCluster;

/// The controller's name in logs and metrics.
pub const CONTROLLER: &str = "openstackcluster";

/// One pass over an `OpenStackCluster`.
pub fn pass(_object: Arc<OpenStackCluster>, _context: Arc<Context>) -> BoxFuture<'static, Outcome> {
    async { Outcome::Done }.boxed()
}
